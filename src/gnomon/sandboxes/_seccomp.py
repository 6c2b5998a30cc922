"""Which calls of the kernel a command may make: a seccomp filter, as the bytes of its program.

It is a list of what is refused, as Docker's and Flatpak's are: what no ordinary program needs, and what holes
in sandboxes are made of. All else is allowed, so that programs run.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable
from functools import lru_cache

__all__ = [
    "CALLS",
    "LEASES",
    "MAKES",
    "MODES",
    "NEW_NAMESPACES",
    "OPENING",
    "SET_ID",
    "TERMINAL_INPUT",
    "X86_ONLY",
    "filter_program",
    "is_known_machine",
]

_Numbers = tuple[int, int]
_NONE = -1
"""There is no such call on that machine."""

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
    "open_tree_attr": (467, 467),
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

X86_ONLY = {"iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134, "ustat": 136, "sysfs": 139}
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
_SOCKETPAIR: _Numbers = (53, 199)
_IOCTL: _Numbers = (16, 29)
_FCNTL: _Numbers = (72, 25)
_PERSONALITY: _Numbers = (135, 92)
_OPENAT2: _Numbers = (437, 437)

# What makes a file with a mode, and which argument that is. A file that runs as whoever owns it must not be
# left behind for others of the machine. `openat2` hides its mode from a filter, so it is absent.
MODES: dict[str, tuple[_Numbers, int]] = {
    "creat": ((85, _NONE), 1),
    "open": ((2, _NONE), 2),
    "openat": ((257, 56), 3),
    "mknod": ((133, _NONE), 1),
    "mknodat": ((259, 33), 2),
    "chmod": ((90, _NONE), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
}

OPENING = ("open", "openat")
"""The argument before the mode says whether a file is made; if not, there need be no mode."""

# Memory that is no process's own, which only a control group counts. One set of semaphores may take 2 MB.
_UNCOUNTED: dict[str, _Numbers] = {
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
}

# --- where there are no namespaces, what else could reach the host's files and processes
ALONE: dict[str, _Numbers] = {
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # memory and queues that all processes of a user share
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # who opens what
    "inotify_add_watch": (254, 27),
    "process_mrelease": (448, 448),
    "file_setattr": (469, 469),
}
_XATTRS: dict[str, _Numbers] = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
}
_OLD_TIMES = {"utime": 132, "utimes": 235, "futimesat": 261}
"""Of x86-64. The C libraries of today use `utimensat`."""
# Landlock has no rule for the modes, owners and times of files: these the supervisor does itself, or refuses.
ASKED: dict[str, _Numbers] = {
    "chmod": (90, _NONE),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "chown": (92, _NONE),
    "fchown": (93, 55),
    "lchown": (94, _NONE),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
}
# Of these, what has another process for its object: the first argument is 0 for the caller itself.
_OF_ITSELF: dict[str, _Numbers] = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
# ... and the first says whether it is a process, a group or all of a user, the second which.
_OF_ITS_GROUP: dict[str, tuple[_Numbers, tuple[int, ...]]] = {
    "setpriority": ((141, 140), (0, 1)),
    "ioprio_set": ((251, 30), (1, 2)),
}
_TRUNCATE: _Numbers = (76, 45)
_TRUNCATES_FROM = 3
"""The version of Landlock that keeps files from being cut short."""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_EPERM, _ENOSYS, _EOPNOTSUPP, _EAFNOSUPPORT = 1, 38, 95, 97
NEW_NAMESPACES = 0x7E020000
SET_ID = 0o6000
MAKES = 0o20000100  # O_CREAT and O_TMPFILE
_KIND_OF_SOCKET = 0xF
_STREAM, _SEQPACKET = 1, 5
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: keys that somebody else's shell would read
_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820)  # FS_IOC_SETFLAGS of both sizes, FS_IOC_FSSETXATTR
LEASES = (1024, 1026)  # F_SETLEASE and F_NOTIFY: others who open the file would wait, or be seen
_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
_TRUNCATED, _FOR_READING = 0o1003, 0o1000  # open() with O_TRUNC and O_ACCMODE: to cut what is only read

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_SET, _IF_AT_LEAST = 0x15, 0x45, 0x35
_ALLOW, _ASK, _ERRNO, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16


def is_known_machine() -> bool:
    """Whether there is a filter for the processor of this machine."""
    return platform.machine() in _MACHINES


@lru_cache(maxsize=8)
def filter_program(
    families: tuple[int, ...], *, alone: bool, landlock: int = 0, counts_memory: bool = True
) -> bytes:
    """The filter for this machine. Sockets are of these families.

    `alone`: there are no namespaces, so the host's processes are in reach. `landlock` is its version where
    that keeps the files; somebody has to listen then for what the filter asks. `counts_memory`: a control
    group does.
    """
    column, architecture = _MACHINES[platform.machine()]
    lines = [
        *_of_this_architecture(architecture),
        *_without_x32(column),
        *_everywhere(column, families),
        *(_alone(column) if alone else ()),
        *(() if counts_memory else _refused((each[column] for each in _UNCOUNTED.values()), _ENOSYS)),
        *(_beside_landlock(column, landlock) if landlock else ()),
        *_modes(column, asks=bool(landlock)),
        *_by_argument(_IOCTL[column], 1, _refused_ioctls(alone), _EPERM, allowed=False),
        _line(_RETURN, _ALLOW),
    ]
    return b"".join(lines)


def _everywhere(column: int, families: tuple[int, ...]) -> list[bytes]:
    refused = {name: numbers[column] for name, numbers in CALLS.items()} | (X86_ONLY if column == 0 else {})
    absent = [numbers[column] for numbers in (*_ABSENT.values(), _OPENAT2)]
    return [
        *_refused(refused.values(), _EPERM),
        *_refused(absent, _ENOSYS),
        *_clone(_CLONE[column]),
        *_by_argument(_SOCKET[column], 0, families, _EAFNOSUPPORT, allowed=True),
        *_by_argument(_PERSONALITY[column], 0, _PERSONALITIES, _EPERM, allowed=True),
        *_by_argument(_FCNTL[column], 1, LEASES, _EPERM, allowed=False),
    ]


def _alone(column: int) -> list[bytes]:
    lines = _refused((numbers[column] for numbers in ALONE.values()), _EPERM)
    for numbers in _OF_ITSELF.values():
        lines += _by_argument(numbers[column], 0, (0,), _EPERM, allowed=True)
    for numbers, kinds in _OF_ITS_GROUP.values():
        lines += _of_its_group(numbers[column], kinds)
    return lines + _pairs(_SOCKETPAIR[column])


def _beside_landlock(column: int, version: int) -> list[bytes]:
    """What Landlock has no rules for."""
    own = [
        numbers[column] for name, numbers in ASKED.items() if name not in MODES and numbers[column] != _NONE
    ]
    lines = [
        *_refused((numbers[column] for numbers in _XATTRS.values()), _EOPNOTSUPP),
        *_refused(_OLD_TIMES.values() if column == 0 else (), _EPERM),
        *_refused([MODES["fchmodat2"][0][column]], _ENOSYS),
        *_answered(own, _ASK),
    ]
    if version < _TRUNCATES_FROM:
        lines += _refused([_TRUNCATE[column]], _EPERM)
        for name, at in (("open", 1), ("openat", 2)):
            if (number := MODES[name][0][column]) != _NONE:
                lines += _not_cut_short(number, at)
    return lines


def _modes(column: int, *, asks: bool) -> list[bytes]:
    """No file is made to run as its owner."""
    lines: list[bytes] = []
    for name, (numbers, at) in MODES.items():
        if numbers[column] != _NONE:
            after = _ASK if asks and name in ASKED else _ALLOW
            lines += (
                _made(numbers[column], at, after)
                if name in OPENING
                else _without_bits(numbers[column], at, SET_ID, after)
            )
    return lines


def _refused_ioctls(alone: bool) -> tuple[int, ...]:
    return (*TERMINAL_INPUT, *_FILE_FLAGS) if alone else TERMINAL_INPUT


# --- instructions ----------------------------------------------------------------------


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
    return _answered(numbers, _ERRNO | error)


def _answered(numbers: Iterable[int], answer: int) -> list[bytes]:
    return [line for number in numbers for line in (_line(_IF_EQUAL, number, 0, 1), _line(_RETURN, answer))]


def _clone(number: int) -> list[bytes]:
    """Processes and threads, but no namespaces."""
    return _without_bits(number, 0, NEW_NAMESPACES, _ALLOW)


def _without_bits(number: int, at: int, bits: int, after: int) -> list[bytes]:
    """A call one argument of which must have none of these bits."""
    return _when(
        number,
        [
            _argument(at),
            _line(_IF_SET, bits, 0, 1),
            _line(_RETURN, _ERRNO | _EPERM),
            _line(_RETURN, after),
        ],
    )


def _made(number: int, at: int, after: int) -> list[bytes]:
    """The same of the mode of a file, where one is made."""
    return _when(
        number,
        [
            _argument(at - 1),
            _line(_IF_SET, MAKES, 1, 0),
            _line(_RETURN, after),
            _argument(at),
            _line(_IF_SET, SET_ID, 0, 1),
            _line(_RETURN, _ERRNO | _EPERM),
            _line(_RETURN, after),
        ],
    )


def _not_cut_short(number: int, at: int) -> list[bytes]:
    """Opening to read alone must not empty the file. It goes on to what else is asked of such a call."""
    return _when(
        number,
        [
            _argument(at),
            _line(_AND, _TRUNCATED),
            _line(_IF_EQUAL, _FOR_READING, 0, 1),
            _line(_RETURN, _ERRNO | _EPERM),
            _line(_LOAD, _AT_NUMBER),
        ],
    )


def _pairs(number: int) -> list[bytes]:
    """Two sockets that are joined for good. Datagrams could be sent from one of them to any other socket."""
    body = [
        _argument(1),
        _line(_AND, _KIND_OF_SOCKET),
        *_one_of((_STREAM, _SEQPACKET)),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, _ALLOW),
    ]
    return _when(number, body)


def _by_argument(number: int, at: int, values: tuple[int, ...], error: int, *, allowed: bool) -> list[bytes]:
    """A call that depends on one argument: these values are allowed, or are the only ones that are not."""
    listed, others = (_ALLOW, _ERRNO | error) if allowed else (_ERRNO | error, _ALLOW)
    body = [_argument(at), *_one_of(values), _line(_RETURN, others), _line(_RETURN, listed)]
    return _when(number, body)


def _of_its_group(number: int, kinds: tuple[int, ...]) -> list[bytes]:
    """A call with a kind and a number of something: of these kinds, and of what the caller itself is in."""
    body = [
        _argument(0),
        *_one_of(kinds),
        _line(_RETURN, _ERRNO | _EPERM),
        _argument(1),
        _line(_IF_EQUAL, 0, 1, 0),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, _ALLOW),
    ]
    return _when(number, body)


def _one_of(values: tuple[int, ...]) -> list[bytes]:
    """Goes past the next instruction but one where it is one of these, and to the next where it is not."""
    return [_line(_IF_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]


def _argument(at: int) -> bytes:
    """The low half: the kernel looks at no more of an int, and x86-64 and arm64 put it first."""
    return _line(_LOAD, _AT_ARGUMENTS + 8 * at)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    return [_line(_IF_EQUAL, number, 0, len(body)), *body]
