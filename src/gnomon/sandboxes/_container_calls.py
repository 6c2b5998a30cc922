"""Which calls of the kernel a command in a container may make: a seccomp filter as engines take it.

An engine has one of its own, and it depends on the engine and its version what that lets through: Podman's
allows namespaces, keys and tracing. This one allows what programs need, and nothing that a sandbox without
containers refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from gnomon.sandboxes._seccomp import (
    CALLS,
    LEASES,
    MAKES,
    MODES,
    NEW_NAMESPACES,
    OPENING,
    SET_ID,
    TERMINAL_INPUT,
    X86_ONLY,
)

__all__ = ["filter_text"]

_NAMES = """
accept accept4 access alarm arch_prctl bind brk capget capset chdir chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
fadvise64 fallocate fchdir fchown fchownat fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr
fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_mempolicy
get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage
getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init
inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_setup io_submit ioprio_get
ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat
listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier
memfd_create mincore mkdir mkdirat mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall
munmap nanosleep newfstatat pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect
poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64 pwritev pwritev2 read readahead readlink
readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr rename renameat renameat2
restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop
sendfile sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid
setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt
setuid setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice stat
statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill
truncate umask uname unlink unlinkat utime utimensat utimes vfork wait4 waitid write writev
"""
"""On x86-64 and arm64. What is neither here nor below does not exist: programs then do without it, as with
`clone3` and io_uring, whose requests no filter sees."""

_ALLOW, _REFUSE = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6 and netlink."""
_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)
_WORD = 0xFFFFFFFF
"""The half of an argument that the kernel looks at, where that is an int."""


@cache
def filter_text() -> str:
    """The filter, as JSON."""
    return msgspec.json.encode(_filter()).decode()


def _filter() -> dict[str, Any]:
    # Without the 32-bit calls of a machine, which are others under the same numbers.
    machines = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
    return {
        "defaultAction": _REFUSE,
        "defaultErrnoRet": _ENOSYS,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in machines],
        "syscalls": [
            _allowed(_NAMES.split()),
            _refused([*CALLS, *X86_ONLY], _EPERM),
            *_without("clone", 0, NEW_NAMESPACES),
            *_one_of("personality", 0, _PERSONALITIES, _EPERM),
            *_one_of("socket", 0, _FAMILIES, _EAFNOSUPPORT),
            *_none_of("ioctl", 1, TERMINAL_INPUT, _EPERM),
            *_none_of("fcntl", 1, LEASES, _EPERM),
            *_modes(),
        ],
    }


def _one_of(name: str, at: int, values: tuple[int, ...], error: int) -> Iterator[dict[str, Any]]:
    yield from (_allowed([name], _bits(at, _WORD, value)) for value in values)
    yield from (_refused([name], error, _bits(at, mask, value)) for mask, value in _all_but(values))


def _none_of(name: str, at: int, values: tuple[int, ...], error: int) -> Iterator[dict[str, Any]]:
    yield from (_refused([name], error, _bits(at, _WORD, value)) for value in values)
    yield from (_allowed([name], _bits(at, mask, value)) for mask, value in _all_but(values))


def _without(name: str, at: int, bits: int) -> Iterator[dict[str, Any]]:
    yield _allowed([name], _bits(at, bits, 0))
    each = (1 << number for number in range(32) if bits & 1 << number)
    yield from (_refused([name], _EPERM, _bits(at, bit, bit)) for bit in each)


def _modes() -> Iterator[dict[str, Any]]:
    """No file is made to run as its owner, who is somebody on the host as well."""
    for name, (_, at) in MODES.items():
        if name in OPENING:
            yield _allowed([name], _bits(at - 1, MAKES, 0))  # none is made
            yield _allowed([name], _bits(at, SET_ID, 0))
        else:
            yield from _without(name, at, SET_ID)


def _all_but(values: Iterable[int], bit: int = 32, value: int = 0) -> Iterator[tuple[int, int]]:
    """Every other number of 32 bits, as masks and what is left under them."""
    mask = _WORD & ~((1 << bit) - 1)
    within = [each for each in values if each & mask == value]
    if not within:
        yield mask, value
    elif bit:
        yield from _all_but(within, bit - 1, value)
        yield from _all_but(within, bit - 1, value | 1 << (bit - 1))


def _bits(at: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": at, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _allowed(names: Iterable[str], *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"names": list(names), "action": _ALLOW, "args": list(arguments)}


def _refused(names: Iterable[str], error: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"names": list(names), "action": _REFUSE, "errnoRet": error, "args": list(arguments)}
