"""Podman's API where there is only its program: a service of our own, which ends with the last who uses it.

It also ends with this process, however that ends: beside it something reads from a pipe whose other end is
only here.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from typing import IO

from gnomon.errors import SandboxError
from gnomon.sandboxes._engine_wire import connected, shortened
from gnomon.sandboxes._removing import remove
from gnomon.sandboxes._rooms import own_folder

__all__ = ["Service"]

_START_S = 20.0
_END_S = 5.0
_POLL_S = 0.01
# The group cannot be somebody else's by then, since the one who reads is in it.
_SCRIPT = 'exec 3<&0; { cat <&3 >/dev/null; kill -- -$$; } & exec "$@" 3<&- </dev/null'
_KEPT = (
    "PATH",
    "HOME",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "REGISTRY_AUTH_FILE",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
)
"""What Podman is told of our environment. It would hand on more to commands, such as a proxy."""

_lock = threading.Lock()
_services: dict[tuple[int, str, tuple[str, ...]], Service] = {}


class Service:
    """`podman system service`, as a child."""

    def __init__(self, program: str, options: tuple[str, ...]) -> None:
        self.options = options
        self._key = os.getpid(), program, options
        self._command = [program, *options, "system", "service", "--time", "0"]
        self._users = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: IO[bytes] | None = None
        self._folder = ""

    @staticmethod
    def take(program: str, options: tuple[str, ...]) -> Service:
        """The one with these options, started unless it runs. Whoever takes it gives it back."""
        with _lock:
            key = os.getpid(), program, options  # a fork has the other's service, which is not its own to end
            service = _services.setdefault(key, Service(program, options))
            service._users += 1
            try:
                service._ensure()
            except BaseException:
                service._left()
                raise
            return service

    def give_back(self) -> None:
        with _lock:
            self._left()

    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ensure(self) -> None:
        """Start it again if somebody has ended it."""
        with _lock:
            self._ensure()

    @property
    def socket_path(self) -> str:
        return f"{self._folder}/podman.sock"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def _ensure(self) -> None:
        if not self.is_up():
            self._end()
            self._begin()

    def _left(self) -> None:
        self._users -= 1
        if self._users <= 0:
            _services.pop(self._key, None)
            if self._key[0] == os.getpid():
                self._end()

    def _begin(self) -> None:
        self._folder = str(own_folder())
        with tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(  # noqa: S603 - our own script, and the program's path as found
                ["/bin/sh", "-c", _SCRIPT, "sh", *self._command, f"unix://{self.socket_path}"],
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for us
            )
            self._pipe = self._process.stdin
            self._wait(said)

    def _wait(self, said: IO[bytes]) -> None:
        assert self._process is not None
        until = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self._end()
                said.seek(0)
                words = shortened(said.read(4000).decode(errors="replace"))
                raise SandboxError(
                    f"podman does not serve its API: {words or 'it says nothing'}",
                    hint="podman info shows what is wrong with it",
                )
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        try:
            connected(self.socket_path, 1.0).close()
        except OSError:
            return False
        return True

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_S)
        if self._folder:
            remove(self._folder)
        self._process, self._pipe, self._folder = None, None, ""
