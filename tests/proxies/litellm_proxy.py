"""A LiteLLM proxy in front of real llama.cpp servers, as a child process on a port of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from llama_servers import LlamaServer

__all__ = ["BEHIND", "Proxy", "ProxyFailed", "name_of", "proxying"]

START_S = 240.0
END_S = 15.0
_CHILD = Path(__file__).with_name("litellm_child.py")
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

BEHIND = {"vllm": ("hosted_vllm/", "/v1"), "openai": ("openai/", "/v1"), "anthropic": ("anthropic/", "")}
"""For what LiteLLM takes the server behind it, and so which API it asks it by.

What the client speaks and the server does not, LiteLLM translates by itself. "vllm": Messages are asked for
by Chat Completions. "openai": Messages by Responses. "anthropic": Chat Completions and Responses by Messages.
"""


class ProxyFailed(Exception):
    """There is no proxy, and why."""


class Proxy:
    """One running proxy. Nobody else's would take `key`, which was made for it."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key


def name_of(weights: str, behind: str) -> str:
    """What the proxy calls a model; one that, for the Anthropic provider, may be made to call a tool."""
    return f"claude-sonnet-4-6-{weights}-behind-{behind}"


@contextmanager
def proxying(python: str, servers: Mapping[str, LlamaServer], folder: Path) -> Iterator[Proxy]:
    """A proxy for these servers, each under one name for every way to ask it."""
    proxy = Proxy(f"http://127.0.0.1:{_free_port()}", f"sk-of-this-proxy-{token_hex(12)}")
    log = folder / "litellm.log"
    settings = folder / "litellm.json"
    settings.write_text(json.dumps(_settings(servers, proxy.key)))
    with log.open("w") as errors:
        process = _started(python, settings, proxy.url.rpartition(":")[2], errors)
        try:
            _expect_own(proxy, process, log)
            yield proxy
        finally:
            _end(process)


def _settings(servers: Mapping[str, LlamaServer], key: str) -> dict[str, object]:
    def deployment(weights: str, server: LlamaServer, behind: str) -> dict[str, object]:
        prefix, path = BEHIND[behind]
        asked = {"model": prefix + server.model, "api_base": server.url + path, "api_key": "none"}
        return {"model_name": name_of(weights, behind), "litellm_params": asked}

    models = [deployment(name, server, behind) for name, server in servers.items() for behind in BEHIND]
    # A failure is to be seen as it is: not tried again, and no server left out after it.
    router = {"num_retries": 0, "disable_cooldowns": True}
    return {"model_list": models, "router_settings": router, "general_settings": {"master_key": key}}


def _started(python: str, settings: Path, port: str, errors: object) -> subprocess.Popen[bytes]:
    command = [python, str(_CHILD), "--config", str(settings), "--host", "127.0.0.1", "--port", port]
    return subprocess.Popen(
        command,
        env=_environment(settings.parent),
        cwd=settings.parent,
        stdin=subprocess.PIPE,
        stdout=errors,  # type: ignore[arg-type]
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the tests; the child ends when its input does
    )


def _environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's but the path: no keys, no settings. What would be fetched is kept at home."""
    local = (
        "MODEL_COST_MAP",
        "ANTHROPIC_BETA_HEADERS",
        "BLOG_POSTS",
        "POLICY_TEMPLATES",
        "AUTOROUTER_PRESETS",
    )
    nowhere = "http://127.0.0.1:9"  # whatever else it has to say to the world
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home),
        "NO_PROXY": "127.0.0.1",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        **{f"LITELLM_LOCAL_{name}": "True" for name in local},
    }


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _expect_own(proxy: Proxy, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while not _answers(proxy):
        if process.poll() is not None:
            raise ProxyFailed(f"the proxy ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > until:
            raise ProxyFailed(f"the proxy did not start within {START_S:g} s:\n{_tail(log)}")
        time.sleep(0.2)


def _answers(proxy: Proxy) -> bool:
    """Whether it takes its key; a stranger on its port would not."""
    headers = {"authorization": f"Bearer {proxy.key}"}
    try:
        with _direct.open(
            urllib.request.Request(f"{proxy.url}/v1/models", headers=headers), timeout=10
        ) as got:
            return bool(json.load(got)["data"])
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-25:])
