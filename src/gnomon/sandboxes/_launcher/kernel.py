"""The calls of Linux that Python does not offer."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
from collections.abc import Sequence

__all__ = [
    "become_subreaper",
    "die_with_parent",
    "drop_capabilities",
    "fork_into",
    "landlock_abi",
    "load_filter",
    "no_new_privileges",
    "restrict_paths",
]

_libc = ctypes.CDLL(None, use_errno=True)
_locked = ctypes.PyDLL(None, use_errno=True)
"""Keeps the interpreter's lock meanwhile: in a child nobody would be there to take it back from."""

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_LAST_CAPABILITY = 63
_CLONE3, _CLONE_INTO_CGROUP = 435, 0x200000000

# The numbers of Landlock are the same on every architecture.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TRUNCATE = 1 << 14
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
_BIND_TCP_AND_CONNECT_TCP = 3
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3


class _Clone(ctypes.Structure):
    _fields_ = [
        ("flags", ctypes.c_uint64),
        ("unused", ctypes.c_uint64 * 3),
        ("exit_signal", ctypes.c_uint64),
        ("unused_too", ctypes.c_uint64 * 5),
        ("cgroup", ctypes.c_uint64),
    ]


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def fork_into(group: str) -> int:
    """A fork whose child begins in a control group of version 2, to which it need not be moved then.

    For a process of one thread: what Python does for others after a fork is not done.
    """
    folder = os.open(group, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        asked = _Clone(flags=_CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=folder)
        return _checked(_locked.syscall(_CLONE3, ctypes.byref(asked), ctypes.sizeof(asked)))
    finally:
        os.close(folder)


def become_subreaper() -> None:
    """Orphans below this process become its children, instead of those of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """None is left, and no program that is started later can get one: also not as root."""
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # those of this kernel end here, or it is not ours to drop: then there is none to lose
    header = _CapabilityHeader(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), none))


def load_filter(program: bytes, *, listens: bool = False) -> int:
    """A seccomp filter, as the bytes of its instructions; it cannot be taken off again.

    `listens`: gives a descriptor on which the calls come that the filter asks about; else -1.
    """
    code = ctypes.create_string_buffer(program, len(program))
    made = _FilterProgram(len(program) // 8, ctypes.addressof(code))
    if not listens:
        _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(made), 0, 0))
        return -1
    number = _SECCOMP[os.uname().machine]
    return _checked(_libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(made)))


def landlock_abi() -> int:
    """Which version of Landlock the kernel has; 0 is none."""
    found: int = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)
    return max(found, 0)


def restrict_paths(
    readable: Sequence[str], writable: Sequence[str], devices: Sequence[str], *, tcp: bool
) -> None:
    """From now on nothing but these can be opened, and what was open. A path that is not there is skipped."""
    abi = landlock_abi()
    every = _ALL_OF_ABI[min(abi, 5)]
    attributes = _Ruleset(
        every,
        _BIND_TCP_AND_CONNECT_TCP if abi >= 4 and not tcp else 0,
        _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0,
    )
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _checked(_libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path in readable:
            _allow(ruleset, path, (_EXECUTE | _READ_FILE | _READ_DIR) & every)
        for path in writable:
            _allow(ruleset, path, every)
        for path in devices:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & every)
        _checked(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _ON_FILES
        rule = _PathBeneath(access, place)
        _checked(_libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(place)


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, value, 0, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
