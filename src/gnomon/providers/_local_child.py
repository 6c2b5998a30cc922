"""The process that holds a model: llama.cpp's own server, on this machine only, for whoever started it.

It reads one line of JSON (what to load), answers with one (where it listens, what the
model can do), and ends when its standard input does: it cannot outlive its owner. It
is run as a file, so it imports nothing of Gnomon.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from typing import Any, cast

import xllamacpp  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

__all__ = ["main"]

_ERRORS_ONLY = 1


def main() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever llama.cpp prints, the owner reads our one line
    wanted = json.loads(sys.stdin.buffer.readline())  # bytes: a path is UTF-8, whatever the locale says
    _end_with_owner()
    server = _started(wanted)
    address = str(server.listening_address)
    told = {"address": address, **_abilities(address, wanted["key"])}
    os.write(answers, json.dumps(told).encode() + b"\n")
    sys.stdin.buffer.read()
    os._exit(0)  # its threads may be in the middle of a token


def _end_with_owner() -> None:
    """Let the kernel end this process with its owner: nobody reads standard input while a model is loaded.

    The signal comes when the pipe is closed, and ends whoever does not handle it. Where it is
    ignored, or the owner is gone already, the end is seen after loading.
    """
    if sys.platform == "linux":
        import fcntl  # which other systems do not have

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _started(wanted: dict[str, Any]) -> Any:
    llama = cast(Any, xllamacpp)
    params = llama.CommonParams()
    params.model.path = wanted["path"]
    params.n_ctx = wanted["context"] * wanted["slots"]  # which share it equally
    params.n_parallel = wanted["slots"]
    params.n_batch = params.n_ubatch = wanted["batch"]
    params.n_gpu_layers = wanted["gpu_layers"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wanted["threads"]
    params.chat_template = wanted["template"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [wanted["key"]]
    params.verbosity = _ERRORS_ONLY
    params.ui = params.endpoint_slots = False
    params.cache_ram_mib = 0  # the slot itself keeps the conversation; the default is 8 GB beside it
    params.fit_params = params.warmup = False  # each loads or runs the model once more
    params.reasoning_format = llama.common_reasoning_format.COMMON_REASONING_FORMAT_DEEPSEEK
    return llama.Server(params)


def _abilities(address: str, key: str) -> dict[str, object]:
    """What the model takes beside text, by its template and its encoders."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request("GET", "/props", headers={"Authorization": f"Bearer {key}"})
    said = json.loads(connection.getresponse().read())
    connection.close()
    template, senses = said.get("chat_template_caps", {}), said.get("modalities", {})
    return {
        "tools": bool(template.get("supports_tools") and template.get("supports_tool_calls")),
        "images": bool(senses.get("vision")),
        "audio": bool(senses.get("audio")),
    }


if __name__ == "__main__":
    main()
