"""What Podman leaves running for five minutes after each command that was started through its API.

It is a small process that keeps the exit code for whoever asks late. Thousands of commands would leave
thousands of them, so those whose exit code is known are ended.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["end_monitors"]

_PROGRAM = "conmon"
_OF_COMMAND = b"--exec-attach"


def end_monitors(container: str) -> None:
    """From a thread. Of a container in which no command runs."""
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                _end(int(name), container.encode())


def _end(pid: int, container: bytes) -> None:
    with suppress(OSError):
        if not _is_one(pid, container):
            return
        descriptor = os.pidfd_open(pid)
        try:
            if _is_one(pid, container):  # and not another by that number
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _is_one(pid: int, container: bytes) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    is_monitor = os.path.basename(words[0]) == _PROGRAM.encode() and _OF_COMMAND in words
    return is_monitor and container in words
