"""Models in processes of their own: one for each set of weights, shared by all who use it.

Not in this process, although llama.cpp could run here: loading would hold Python's
lock for as long as it takes, a prompt that is being read could not be called back,
and what goes wrong in its code would be the end of ours.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from secrets import token_urlsafe
from typing import IO

import msgspec

from gnomon.errors import ConfigError, ConnectTimeout, GnomonError

__all__ = ["Loaded", "ModelProcess", "Wanted", "hold", "let_go"]

_PROGRAM = os.path.join(os.path.dirname(__file__), "_local_child.py")
_END_S = 5.0


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to load, and how."""

    path: str
    context: int
    slots: int
    threads: int
    batch: int
    gpu_layers: int
    template: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Where a loaded model answers, and what it takes beside text."""

    address: str
    tools: bool
    images: bool
    audio: bool
    key: str = ""

    def __repr__(self) -> str:
        return f"Loaded({self.address!r})"


# --- who uses which ---------------------------------------------------------------

_lock = threading.Lock()
_processes: dict[tuple[int, Wanted], ModelProcess] = {}


def hold(wanted: Wanted) -> ModelProcess:
    """The process of these weights, started when there is none. Goes with one `let_go`."""
    with _lock:
        at = (os.getpid(), wanted)  # a fork has its own: it must not end its parent's
        process = _processes.get(at)
        if process is not None and process.is_gone():
            process.end()
            process = None
        if process is None:
            process = _processes[at] = ModelProcess(wanted)
        process.users += 1
        return process


async def let_go(process: ModelProcess) -> None:
    """With its last user the model goes, and its memory."""
    with _lock:
        process.users -= 1
        if process.users > 0 or process.owner != os.getpid():
            return
        if _processes.get((process.owner, process.wanted)) is process:
            del _processes[process.owner, process.wanted]
    process.end()
    await process.ended(_END_S)


@atexit.register
def _end_all() -> None:
    for process in tuple(_processes.values()):
        if process.owner == os.getpid():
            process.end()


# --- one of them ------------------------------------------------------------------


class ModelProcess:
    """A model that is being loaded, or is loaded, in a process of its own."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.owner = os.getpid()
        self.users = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._loaded: Future[Loaded] = Future()
        self._loaded.set_running_or_notify_cancel()  # one of several who wait must not call it off
        self._starter = threading.Thread(target=self._start, name="gnomon-local", daemon=True)
        self._starter.start()

    async def loaded(self, limit_s: float) -> Loaded:
        """Where it answers, once it does."""
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.wrap_future(self._loaded)
        except TimeoutError as error:
            raise ConnectTimeout(
                f"the model was not loaded within {limit_s:g} s",
                vendor="local",
                hint="use a smaller model, or set load_s",
            ) from error

    def is_gone(self) -> bool:
        """Whether it has failed or died: then the next request starts another."""
        if not self._loaded.done():
            return False
        return self._loaded.exception() is not None or self.is_ended()

    def is_ended(self) -> bool:
        if self._starter.is_alive():
            return False
        return self._process is None or self._process.poll() is not None

    async def ended(self, limit_s: float) -> None:
        """Wait for its end, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not self.is_ended():  # noqa: ASYNC110 - a process sets no event
                    await asyncio.sleep(0.005)

    def end(self) -> None:
        self._ending.set()
        if self._process is not None:
            self._process.kill()
            if self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()

    def _start(self) -> None:
        try:
            with tempfile.TemporaryFile() as log:
                self._loaded.set_result(self._load(log))
        except GnomonError as error:
            self._loaded.set_exception(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for it
            self._loaded.set_exception(ConfigError(f"the local model cannot be started: {error}"))

    def _load(self, log: IO[bytes]) -> Loaded:
        key = token_urlsafe(32)
        process = self._process = _spawned(log)
        if self._ending.is_set():  # it was called off before there was anything to kill
            process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdout:
            with suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode({**msgspec.structs.asdict(self.wanted), "key": key}))
                process.stdin.write(b"\n")
                process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            process.wait()
            self.end()
            raise _not_loaded(self.wanted.path, log)
        return msgspec.structs.replace(msgspec.json.decode(line, type=Loaded), key=key)


def _spawned(log: IO[bytes]) -> subprocess.Popen[bytes]:
    # -P: a file in the current folder must not be taken for a library.
    return subprocess.Popen(  # noqa: S603 - this Python, and a file of ours
        [sys.executable, "-P", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for us: we end it
    )


def _not_loaded(path: str, log: IO[bytes]) -> ConfigError:
    log.seek(0)
    said = log.read(100_000).decode(errors="replace")
    if broken := re.search(r"^(?:ImportError|ModuleNotFoundError): (.+)", said, re.M):
        return ConfigError(
            f"xllamacpp cannot be imported: {broken[1]}", hint="install it anew: pip install 'gnomon[local]'"
        )
    causes = re.findall(r"error loading model: (.+)", said) or re.findall(r"^(\w*Error: .+)", said, re.M)
    reason = causes[-1].strip() if causes else "llama.cpp gave no reason; there may not be enough memory"
    return ConfigError(f"{path} cannot be loaded: {reason}", hint="use another GGUF file, or a smaller one")
