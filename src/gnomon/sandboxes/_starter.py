"""The launcher as the program sees it: one for each process, started when it is first needed.

`_launcher/` is what runs there. It ends when nobody holds the other end of its socket any more.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from gnomon.errors import SandboxError

__all__ = ["Starter", "starter"]

_FOLDER = str(Path(__file__).parent)
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from _launcher.serve import serve; serve(int(sys.argv[2]))"
)


class Starter:
    """Starts supervisors. From any thread, and any number at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def start(self, order: int, stdin: int, stdout: int, stderr: int) -> socket.socket:
        """A supervisor with this order; closing the socket on which it tells how it goes ends the command."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._send([theirs.fileno(), order, stdin, stdout, stderr])
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        return ours

    @property
    def pid(self) -> int:
        """The launcher's process, once there is one."""
        return self._process.pid if self._process is not None else 0

    def _send(self, descriptors: list[int]) -> None:
        with self._lock:
            if self._owner != os.getpid():  # a fork has the other's launcher, which is not its own to lose
                self._channel, self._process, self._owner = None, None, os.getpid()
            for _ in range(2):
                channel = self._channel or self._begin()
                try:
                    socket.send_fds(channel, [b"start"], descriptors)
                except OSError:  # somebody has ended it
                    self._end()
                else:
                    return
        raise SandboxError("the process that starts commands ends by itself", hint="see gnomon doctor")

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.set_inheritable(True)
            command = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, _FOLDER, str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    command,
                    env={"LC_ALL": "C.UTF-8"},  # no variable of ours is there to be read
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise SandboxError(
                    f"the process that starts commands cannot be started: {error.strerror}"
                ) from None
        self._channel = ours
        return ours

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._channel = self._process = None


starter = Starter()
"""The one of this process."""
