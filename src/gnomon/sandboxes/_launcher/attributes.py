"""Modes, owners and times of files where Landlock holds the rest: it has no rules for these.

The filter stops a call that would change them, and it comes here. What is meant is opened first, and then
looked at: where the opened file lies and whose it is. If it is the command's to change, it is changed through
what was opened. The call itself never goes on in the kernel, since the command could have put another path in
its place by then.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Attributes"]

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_ASKED = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_NAMES = {
    "x86_64": {
        90: "chmod",
        91: "fchmod",
        268: "fchmodat",
        92: "chown",
        93: "fchown",
        94: "lchown",
        260: "fchownat",
        280: "utimensat",
    },
    "aarch64": {52: "fchmod", 53: "fchmodat", 55: "fchown", 54: "fchownat", 88: "utimensat"},
}
_CWD = -100
_NO_FOLLOW, _EMPTY = 0x100, 0x1000
_NO_CHANGE = 0xFFFFFFFF
_LONGEST = 4096
_TIMES = 32
_OPENAT2, _NO_MAGIC = 437, 2
_OWN_DESCRIPTOR = re.compile(rb"/(?:proc/(?:self|thread-self|\d+)|dev)/fd/(\d+)")

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class Attributes:
    """Answers what a filter asks on its listener."""

    def __init__(self, listener: int, writable: list[str], uid: int) -> None:
        self._listener = listener
        self._writable = [os.path.realpath(path) for path in writable]
        self._uid = uid if uid >= 0 else os.geteuid()
        self._names = _NAMES[os.uname().machine]

    def fileno(self) -> int:
        return self._listener

    def answer(self) -> bool:
        """One call; whether there may be more."""
        asked = bytearray(_ASKED.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, asked)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)  # who asked has ended meanwhile
        key, pid, _, number, _, _, *arguments = _ASKED.unpack(asked)
        try:
            self._do(key, pid, self._names[number], arguments)
            problem = 0
        except OSError as error:
            problem = error.errno or errno.EPERM
        except Exception:  # noqa: BLE001 - whatever was given: it is refused, and the next is answered
            problem = errno.EPERM
        with suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(key, 0, -problem, 0))
        return True

    def _do(self, key: int, pid: int, name: str, arguments: list[int]) -> None:
        place, path, rest, flags = _parts(name, arguments)
        target = _opened(pid, place, path, flags)
        try:
            act = _action(pid, name, rest)
            fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", key))  # it is still the one who asked
            self._check(target)
            act(target)
        finally:
            os.close(target)

    def _check(self, target: int) -> None:
        """That it is a file of the command's, where it may write."""
        where = os.readlink(f"/proc/self/fd/{target}")
        if not any(where == folder or where.startswith(f"{folder}/") for folder in self._writable):
            raise PermissionError(errno.EPERM, "it is not the command's to change")
        if os.fstat(target).st_uid != self._uid:
            raise PermissionError(errno.EPERM, "it is somebody else's")


def _parts(name: str, arguments: list[int]) -> tuple[int, int, list[int], int]:
    """What is meant, as a descriptor and where the text of a path stands, 0 for none; the rest; flags."""
    at = [ctypes.c_int(value).value for value in arguments]
    match name:
        case "fchmod" | "fchown":
            return at[0], 0, arguments[1:], 0
        case "chmod" | "chown":
            return _CWD, arguments[0], arguments[1:], 0
        case "lchown":
            return _CWD, arguments[0], arguments[1:], _NO_FOLLOW
        case "fchmodat":
            return at[0], arguments[1], arguments[2:], 0
        case "fchownat":
            return at[0], arguments[1], arguments[2:], at[4]
        case _:
            return at[0], arguments[1], arguments[2:], at[3]


def _action(pid: int, name: str, rest: list[int]) -> Callable[[int], None]:
    if name in ("chmod", "fchmod", "fchmodat"):
        return lambda target: os.chmod(f"/proc/self/fd/{target}", rest[0] & 0o1777)
    if name == "utimensat":
        times = _memory(pid, rest[0], _TIMES) if rest[0] else None
        return lambda target: _set_times(target, times)
    return lambda target: _check_owner(target, rest[0] & _NO_CHANGE, rest[1] & _NO_CHANGE)


def _set_times(target: int, times: bytes | None) -> None:
    if times is not None and len(times) < _TIMES:
        raise OSError(errno.EFAULT, "the times cannot be read")
    path = f"/proc/self/fd/{target}".encode()
    given = ctypes.create_string_buffer(times, _TIMES) if times is not None else None
    _checked(_libc.utimensat(_CWD, path, given, 0))


def _check_owner(target: int, uid: int, gid: int) -> None:
    """Who gives a file to whom it belongs has nothing to do; nobody else may have it."""
    found = os.fstat(target)
    if uid not in (_NO_CHANGE, found.st_uid) or gid not in (_NO_CHANGE, found.st_gid):
        raise PermissionError(errno.EPERM, "a file stays with its owner")


# --- what is meant -----------------------------------------------------------------


def _opened(pid: int, place: int, path: int, flags: int) -> int:
    text = _text(pid, path) if path else b""
    if own := _OWN_DESCRIPTOR.fullmatch(text):
        place, text = int(own[1]), b""
    if not text:
        if path and not own and not flags & _EMPTY:
            raise FileNotFoundError(errno.ENOENT, "the path is empty")
        return os.open(_place(pid, place), os.O_PATH | os.O_CLOEXEC)
    top = os.open(_place(pid, place), os.O_PATH | os.O_CLOEXEC)
    try:
        way = os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & _NO_FOLLOW else 0)
        # No magic links: those of /proc/self would be this process's.
        how = _How(way, 0, _NO_MAGIC)
        return _checked(_libc.syscall(_OPENAT2, top, text, ctypes.byref(how), ctypes.sizeof(how)))
    finally:
        os.close(top)


def _place(pid: int, descriptor: int) -> str:
    return f"/proc/{pid}/cwd" if descriptor == _CWD else f"/proc/{pid}/fd/{descriptor}"


def _text(pid: int, address: int) -> bytes:
    data, nul, _ = _memory(pid, address, _LONGEST).partition(b"\0")
    if not nul:
        raise OSError(errno.ENAMETOOLONG, "the path is too long")
    return data


def _memory(pid: int, address: int, length: int) -> bytes:
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, length, address)
    except OSError as error:
        raise OSError(errno.EFAULT, "it cannot be read") from error
    finally:
        os.close(memory)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
