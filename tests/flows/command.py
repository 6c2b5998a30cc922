"""The `gnomon` command as a process: run it, watch its streams, take its exit code."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

GNOMON = [sys.executable, "-m", "gnomon"]
PROMPTLY_S = 30.0  # a loaded machine is slow, a hanging command is slower

SERVERS = ("LLAMACPP_BASE_URL", "LMSTUDIO_BASE_URL", "VLLM_BASE_URL", "LITELLM_BASE_URL")
_NOBODY = "http://127.0.0.1:9/v1"  # the discard port: nothing listens there


def nobody_else(home: Path) -> dict[str, str]:
    """The environment of a user who has never run gnomon, whatever the developer has set or started."""
    home.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        **dict.fromkeys(SERVERS, _NOBODY),
        "OLLAMA_HOST": "127.0.0.1:9",
    }


class Gnomon:
    """Runs the command in a folder of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = dict(env)

    def __call__(
        self, *arguments: str | bytes, stdin: bytes | None = None, **extra_env: str
    ) -> subprocess.CompletedProcess[bytes]:
        given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(
            [*GNOMON, *arguments],
            cwd=self.folder,
            env=self.env | extra_env,
            capture_output=True,
            timeout=PROMPTLY_S,
            check=False,
            **given,
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*GNOMON, *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def failed_in_one_line(done: subprocess.CompletedProcess[bytes], code: int, *said: str) -> None:
    """The promise for every failure: its exit code, one line that says it, nothing on stdout."""
    error = done.stderr.decode()
    assert done.returncode == code, error
    error = re.sub(r"gnomon: waiting for [^\n]*\n", "", error)  # a slow machine is told of
    assert re.fullmatch(r"gnomon: error: [^\n]+\n", error), error
    assert "Traceback" not in error
    for words in said:
        assert words in error
    assert done.stdout == b""


def in_terminal(gnomon: Gnomon, *arguments: str, **extra_env: str) -> tuple[int, str]:
    """What a person sees: stdin, stdout and stderr are one terminal."""
    main, terminal = pty.openpty()
    environment = gnomon.env | {"TERM": "xterm", "COLUMNS": "80", **extra_env}
    process = subprocess.Popen(
        [*GNOMON, *arguments],
        cwd=gnomon.folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    seen = b""
    deadline = time.monotonic() + PROMPTLY_S
    while select.select([main], [], [], max(0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(main, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    return process.wait(timeout=PROMPTLY_S), seen.decode().replace("\r\n", "\n")
