"""This machine as a sandbox must not see it: files, listeners and a process that are there to be attacked."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from gnomon.testing._suite import expect

__all__ = ["Bystander", "Folder", "Listeners", "alive", "end_all", "homes", "variable"]

_SIOCGIFADDR = 0x8915
_BACKLOG = 64


class Folder:
    """A folder outside of every workspace, open to everybody, with a file that says a secret."""

    def __init__(self) -> None:
        self.secret = f"secret-{secrets.token_hex(12)}"

    def __enter__(self) -> Self:
        self.path = tempfile.mkdtemp(prefix="gnomon-host-")
        os.chmod(self.path, 0o777)  # noqa: S103 - so that only the sandbox is in the way
        self.file = f"{self.path}/secret"
        Path(self.file).write_text(self.secret)
        os.chmod(self.file, 0o666)  # noqa: S103
        self._before = self._state()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def expect_untouched(self, what: str) -> None:
        __tracebackhide__ = True
        expect(f"{what}: a folder of the host", self._before, self._state())

    def text_of(self, name: str) -> str:
        return Path(self.path, name).read_text()

    def _state(self) -> list[tuple[str, str, int, int, list[str]]]:
        """Names, contents, modes, times and extended attributes of all that is in it."""
        found = [self.path, *(os.path.join(self.path, name) for name in sorted(os.listdir(self.path)))]
        return [self._of(path) for path in found]

    def _of(self, path: str) -> tuple[str, str, int, int, list[str]]:
        facts = os.lstat(path)
        text = Path(path).read_text() if stat.S_ISREG(facts.st_mode) else ""
        time = facts.st_mtime_ns if stat.S_ISREG(facts.st_mode) else 0
        return os.path.relpath(path, self.path), text, facts.st_mode, time, _attributes(path)


def _attributes(path: str) -> list[str]:
    with suppress(OSError, AttributeError):  # not every system has them
        return sorted(os.listxattr(path, follow_symlinks=False))
    return []


class Listeners:
    """Servers that wait to be reached: TCP and UDP on each of our addresses, Unix sockets of both kinds."""

    def __enter__(self) -> Self:
        self._open = ExitStack()
        self._all: dict[str, socket.socket] = {}
        self.addresses: list[tuple[str, str, int]] = []
        """Kind, host and port."""
        self.folder = tempfile.mkdtemp(prefix="gnomon-host-")
        self._open.callback(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o755)  # noqa: S103
        self.path = f"{self.folder}/socket"
        self.abstract = f"gnomon-{secrets.token_hex(8)}"
        for host in _own_addresses():
            for kind, number in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)):
                self._listen(
                    f"{kind} {host}", socket.AF_INET6 if ":" in host else socket.AF_INET, number, host
                )
        self._unix("unix", self.path)
        os.chmod(self.path, 0o777)  # noqa: S103
        self._unix("abstract", f"\0{self.abstract}")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def reached(self) -> list[str]:
        """Those that somebody has come to."""
        return [name for name, listener in self._all.items() if _has_visitor(listener)]

    def _listen(self, name: str, family: int, kind: int, host: str) -> None:
        made = socket.socket(family, kind)
        try:
            made.bind((host, 0))
            self._keep(name, made, kind)
        except OSError:  # an address that this machine has not
            made.close()
            return
        self.addresses.append((name.partition(" ")[0], host, made.getsockname()[1]))

    def _unix(self, name: str, address: str) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.bind(address)
        self._keep(name, made, socket.SOCK_STREAM)

    def _keep(self, name: str, made: socket.socket, kind: int) -> None:
        if kind == socket.SOCK_STREAM:
            made.listen(_BACKLOG)
        made.setblocking(False)
        self._all[name] = self._open.enter_context(made)


def _has_visitor(listener: socket.socket) -> bool:
    with suppress(BlockingIOError):
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(1)
        else:
            listener.accept()[0].close()
        return True
    return False


def _own_addresses() -> list[str]:
    """Of this machine: loopback, and one that others know it by."""
    found = ["127.0.0.1", "::1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                import fcntl

                told = fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(told[20:24]))
    return list(dict.fromkeys(found))[:4]


_BYSTANDER = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
print("ready", flush=True)
for line in sys.stdin:
    print("hit" if signal.SIGURG in signal.sigpending() else "none", flush=True)
"""


class Bystander:
    """A process of this user beside the sandbox. It tells whether a signal has reached it.

    The signal is SIGURG, which does nothing to whoever is not looking for it.
    """

    def __enter__(self) -> Self:
        self.secret = f"secret-{secrets.token_hex(12)}"
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-I", "-S", "-c", _BYSTANDER, self.secret],
            env={"GNOMON_SECRET": self.secret},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        expect("what a process beside the sandbox says", "ready", self._said())
        self._limits = self._limits_now()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def expect_unharmed(self, what: str) -> None:
        """It runs, nothing has reached it, nobody watches it, and its limits are its own."""
        __tracebackhide__ = True
        expect(f"{what}: how a process of the host has ended", None, self._process.poll())
        expect(f"{what}: signals to a process of the host", "none", self._asked())
        expect(f"{what}: who traces a process of the host", "0", self._status("TracerPid"))
        changed = [line for line in self._limits_now() if line not in self._limits]
        expect(f"{what}: limits of a process of the host that have changed", [], changed)

    def _asked(self) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(b"?\n")
        self._process.stdin.flush()
        return self._said()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def _status(self, name: str) -> str:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))

    def _limits_now(self) -> list[str]:
        return Path(f"/proc/{self.pid}/limits").read_text().splitlines()


def alive(word: str) -> list[str]:
    """The processes of this machine that have a word in their arguments, as far as they can be seen."""
    found: list[str] = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                told = Path(f"/proc/{name}/cmdline").read_bytes()
                if word.encode() in told:
                    found.append(f"process {name}: {told[:200]!r}")
    return found


def end_all(word: str) -> None:
    """What an attack has left running, by the word in its arguments."""
    for told in alive(word):
        with suppress(OSError):
            os.kill(int(told.split()[1].rstrip(":")), signal.SIGKILL)


@contextmanager
def variable() -> Generator[tuple[str, str]]:
    """A variable of this process, with a secret, while the block lasts."""
    name, secret = f"GNOMON_SECRET_{secrets.token_hex(4)}", f"secret-{secrets.token_hex(12)}"
    os.environ[name] = secret
    try:
        yield name, secret
    finally:
        del os.environ[name]


def homes() -> dict[str, list[int]]:
    """Paths that are private to people and to the machine, and which file each is here."""
    named = [os.path.expanduser("~"), "/root", *_folders("/home")]
    keys = ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/var/log", "/var/spool", "/var/mail"]
    found: dict[str, list[int]] = {}
    for path in dict.fromkeys([*named, *(f"{home}/{each}" for home in named for each in _PRIVATE), *keys]):
        with suppress(OSError):
            facts = os.stat(path)
            found[path] = [facts.st_dev, facts.st_ino]
    return found


_PRIVATE = (
    ".ssh",
    ".aws",
    ".bash_history",
    ".bashrc",
    ".profile",
    ".netrc",
    ".config",
    ".cache",
    ".gitconfig",
)


def _folders(path: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []
