"""Which calls of the kernel a command may make: a seccomp filter, as the bytes of its program.

It is a list of what is refused, as Docker's and Flatpak's are: what no ordinary program needs, and what holes
in sandboxes are made of. All else is allowed, so that programs run.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["CALLS", "filter_program", "is_known_machine"]

_Numbers = tuple[int, int]

CALLS: dict[str, _Numbers] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # namespaces and mounts
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # the kernel and the machine
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    # wide ways into the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "memfd_secret": (447, 447),
}
"""Name → its number on x86-64 and on arm64. Refused with EPERM."""

_X86_ONLY = {"iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134, "ustat": 136, "sysfs": 139}
# Programs that use these do without them when they are told that there is no such call. What `clone3` is
# asked for cannot be seen by a filter, so that all fall back on `clone`; io_uring would make sockets that no
# filter sees.
_ABSENT: dict[str, _Numbers] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE: _Numbers = (56, 220)
_SOCKET: _Numbers = (41, 198)
_IOCTL: _Numbers = (16, 29)
_PERSONALITY: _Numbers = (135, 92)
_LEAVING_THE_GROUP: dict[str, _Numbers] = {"setsid": (112, 157), "setpgid": (109, 154)}

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NEW_NAMESPACES = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: keys that somebody else's shell would read
_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)

_LOAD, _IF_EQUAL, _IF_SET, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST, _AT_SECOND = 0, 4, 16, 24


def is_known_machine() -> bool:
    """Whether there is a filter for the processor of this machine."""
    return platform.machine() in _MACHINES


@lru_cache(maxsize=8)
def filter_program(families: tuple[int, ...], *, keeps_group: bool) -> bytes:
    """The filter for this machine. Sockets are of these families; `keeps_group`: nobody leaves the group."""
    column, architecture = _MACHINES[platform.machine()]
    refused = {name: numbers[column] for name, numbers in CALLS.items()}
    if column == 0:
        refused |= _X86_ONLY
    if keeps_group:
        refused |= {name: numbers[column] for name, numbers in _LEAVING_THE_GROUP.items()}
    lines = [
        *_of_this_architecture(architecture),
        *_without_x32(column),
        *_refused(refused.values(), _EPERM),
        *_refused((numbers[column] for numbers in _ABSENT.values()), _ENOSYS),
        *_clone(_CLONE[column]),
        *_by_argument(_SOCKET[column], _AT_FIRST, families, _EAFNOSUPPORT, allowed=True),
        *_by_argument(_PERSONALITY[column], _AT_FIRST, _PERSONALITIES, _EPERM, allowed=True),
        *_by_argument(_IOCTL[column], _AT_SECOND, _TERMINAL_INPUT, _EPERM, allowed=False),
        _line(_RETURN, _ALLOW),
    ]
    return b"".join(lines)


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _of_this_architecture(architecture: int) -> list[bytes]:
    """Other numbers mean other calls: a program for another architecture does not run at all."""
    return [
        _line(_LOAD, _AT_ARCHITECTURE),
        _line(_IF_EQUAL, architecture, 1, 0),
        _line(_RETURN, _KILL),
        _line(_LOAD, _AT_NUMBER),
    ]


def _without_x32(column: int) -> list[bytes]:
    """The same calls under other numbers, which x86-64 also has."""
    return [_line(_IF_AT_LEAST, 0x40000000, 0, 1), _line(_RETURN, _ERRNO | _ENOSYS)] if column == 0 else []


def _refused(numbers: Iterable[int], error: int) -> list[bytes]:
    return [
        line
        for number in numbers
        for line in (_line(_IF_EQUAL, number, 0, 1), _line(_RETURN, _ERRNO | error))
    ]


def _clone(number: int) -> list[bytes]:
    """Processes and threads, but no namespaces."""
    return [
        _line(_IF_EQUAL, number, 0, 4),
        _line(_LOAD, _AT_FIRST),
        _line(_IF_SET, _NEW_NAMESPACES, 0, 1),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, _ALLOW),
    ]


def _by_argument(number: int, at: int, values: tuple[int, ...], error: int, *, allowed: bool) -> list[bytes]:
    """A call that depends on one argument: these values are allowed, or are the only ones that are not."""
    listed, others = (_ALLOW, _ERRNO | error) if allowed else (_ERRNO | error, _ALLOW)
    tests = [_line(_IF_EQUAL, value, len(values) - at_value, 0) for at_value, value in enumerate(values)]
    body = [_line(_LOAD, at), *tests, _line(_RETURN, others), _line(_RETURN, listed)]
    return [_line(_IF_EQUAL, number, 0, len(body)), *body]
