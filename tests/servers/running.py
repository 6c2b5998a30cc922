"""One server as a child process: started, killed, started again, ended without a trace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Self

from . import linux, watchdog
from .ports import LOOPBACK, reserved

__all__ = ["CannotStart", "Server", "at"]

START_S = 60.0
END_S = 10.0
POLL_S = 0.02
LOG_LINES = 15
_LOOPBACKS = {"0100007F", "0" * 24 + "01000000"}  # 127.0.0.1 and ::1, as the kernel writes them


class CannotStart(Exception):
    """The program is there, and did not become a server that answers."""


class Server:
    """One running server. What differs from kind to kind is in the methods at the end."""

    name = ""
    ends_by: int = signal.SIGTERM

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"gnomon-{self.name}-"))
        self._port = reserved()
        self.port: int = self._port.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        watchdog.watch(self.folder, 0, 0)
        try:
            self._prepare()
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process that was started; 0 while the server is down."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start it, again if it was killed, on the same files and the same port; returns when it answers."""
        if self._process is not None:
            raise CannotStart(
                f"{self.name} runs already, as process {self.pid}: kill it before it starts again"
            )
        with self.log.open("ab") as log:
            self._process = self._spawn(log, self._command())
        watchdog.watch(self.folder, self.pid, self.ends_by)
        try:
            self._wait_for_answer()
        except BaseException:
            self.kill()
            raise

    def died(self) -> str | None:
        """How it ended, if nobody here ended it."""
        code = self._process.poll() if self._process is not None else None
        return None if code is None else f"{self.name} ended by itself with {code}:\n{self.last_words()}"

    def kill(self) -> None:
        """End it as a crash would, with all its children, in the middle of whatever they do."""
        if self._process is not None:
            self._wait_until_gone(linux.kill(self.pid))

    def freeze(self) -> None:
        """Hold it, with all its children, so that it has its connections and answers nothing; see `thaw`."""
        linux.send(self.pid, signal.SIGSTOP)
        for child in linux.descendants(self.pid):
            linux.send(child, signal.SIGSTOP)

    def thaw(self) -> None:
        for member in (*linux.descendants(self.pid), self.pid):
            linux.send(member, signal.SIGCONT)

    def stop(self) -> None:
        """End it and remove its folder."""
        if self._process is not None:
            self._wait_until_gone(linux.end(self.pid, self.ends_by, END_S))
        if self.folder.exists():
            self._clear()
            shutil.rmtree(self.folder)
            watchdog.forget(self.folder)
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def last_words(self) -> str:
        """The end of what it wrote."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_LINES:])

    def _run(self, command: list[str]) -> None:
        """Something that has to be done before the first start."""
        with self.log.open("ab") as log, self._spawn(log, command) as process:
            try:
                code = process.wait(START_S)
            except BaseException:
                linux.kill(process.pid)
                raise
        if code != 0:
            raise CannotStart(f"{Path(command[0]).name} ended with {code}:\n{self.last_words()}")

    def _spawn(self, log: IO[bytes], command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the tests
            **self._identity(),  # type: ignore[arg-type]
        )

    def _wait_for_answer(self) -> None:
        assert self._process is not None
        until = time.monotonic() + START_S
        while not (self._listens() and self._answers()):
            if (code := self._process.poll()) is not None:
                raise CannotStart(f"{self.name} ended with {code}:\n{self.last_words()}")
            if time.monotonic() > until:
                raise CannotStart(f"{self.name} did not answer within {START_S:g} s:\n{self.last_words()}")
            time.sleep(POLL_S)

    def _listens(self) -> bool:
        """Whether the child itself has our port. What listens there without being it is another program."""
        open_to = linux.listening(self.pid)
        if strangers := [port for address, port in open_to if address not in _LOOPBACKS]:
            raise CannotStart(
                f"{self.name} listens at another address than {LOOPBACK}, on port {strangers[0]}"
            )
        return self.port in {port for _, port in open_to}

    def _wait_until_gone(self, family: list[int]) -> None:
        assert self._process is not None
        self._process.wait()
        until = time.monotonic() + END_S
        while left := [member for member in family if linux.is_alive(member)]:
            if time.monotonic() > until:
                raise AssertionError(f"{self.name} was killed, and its processes {left} are still there")
            time.sleep(linux.POLL_S)
        self._process = None
        watchdog.watch(self.folder, 0, 0)

    # --- what a kind says ----------------------------------------------------

    def _prepare(self) -> None:
        """Once, before the first start."""

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        """Whether what listens is ready. It is asked until it says so."""
        return True

    def _clear(self) -> None:
        """After the last end, before the folder goes."""

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(self.folder), "LC_ALL": "C", "TZ": "UTC"}

    def _identity(self) -> dict[str, object]:
        """As whom it runs, in the words of `subprocess.Popen`."""
        return {}


def at(scheme: str, port: int, credentials: str = "", path: str = "") -> str:
    """The address of a server on this machine."""
    return f"{scheme}://{credentials + '@' if credentials else ''}{LOOPBACK}:{port}{path}"
