"""From fork to exec: the one who becomes the command gives up everything that it must not have."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from . import kernel, wrapper
from .order import Order, read_order

__all__ = ["FAILED", "LISTENER", "become", "stand_by"]

FAILED = 70
"""What a child ends with that did not come as far as the command."""
LISTENER = b"listener"
"""With it comes the descriptor on which the supervisor hears of calls that the filter asks about."""


_MOST_DESCRIPTORS = 8


def stand_by(channel: socket.socket) -> NoReturn:
    """Waits for the order, its input and outputs, and what bubblewrap is given; then becomes the command.

    Forked before there is an order, as a command would wait for that.
    """
    try:
        kernel.die_with_parent(signal.SIGKILL)
        _reset_signals()
        _close_all_but((), channel.fileno())
        _warm_up()
        _, descriptors, _, _ = socket.recv_fds(channel, 1, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if descriptors:
            order, stdin, stdout, stderr, *kept = descriptors
            become(read_order(order), (stdin, stdout, stderr), tuple(kept), channel)
    except BaseException as error:  # noqa: BLE001 - nobody may take it for a command that has ended well
        channel.send(json.dumps(["start", None, str(error)[:300]]).encode())
    finally:
        os._exit(FAILED)


def _warm_up() -> None:
    """What is touched for the first time after a fork is copied first."""
    json.loads(json.dumps({"readable": ["/usr"] * 30, "filter_hex": "0" * 6_000}))
    kernel.landlock_abi()
    os.get_exec_path({"PATH": "/usr/bin:/bin"})
    resource.getrlimit(resource.RLIMIT_CORE)


def become(
    order: Order, stdio: tuple[int, int, int], kept: tuple[int, ...], report: socket.socket
) -> NoReturn:
    """Becomes the command, or tells through `report` at which step it failed and with which error number."""
    step = "start"
    try:
        os.setsid()
        kernel.die_with_parent(signal.SIGKILL)
        for target, descriptor in enumerate(stdio):
            os.dup2(descriptor, target, inheritable=True)
        _close_all_but(kept, report.fileno())
        for descriptor in kept:
            os.set_inheritable(descriptor, True)
        step = "cgroup"
        for path in order.cgroups:
            _write(path, b"0")
        _reset_signals()
        os.umask(0o022)
        step = "limits"
        _be_the_first_to_go()
        for name, value in order.rlimits.items():
            _limit(name, value)
        step = "user"
        if order.uid >= 0:
            os.setgroups([])
            os.setresgid(order.gid, order.gid, order.gid)
            os.setresuid(order.uid, order.uid, order.uid)
        step = "folder"
        os.chdir(order.cwd)
        if not order.is_wrapped:
            step = "confinement"
            _confine(order, report)
        step = "program"
        if order.is_wrapped:
            wrapper.complete(order.argv, kept, wrapper.set_apart(order.env))
        os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606 - that is what it is for
    except BaseException as error:  # noqa: BLE001 - whatever it was, the supervisor has to hear of it
        number = error.errno if isinstance(error, OSError) else None
        report.send(json.dumps([step, number, str(error)[:300]]).encode())
    os._exit(FAILED)


def _confine(order: Order, report: socket.socket) -> None:
    if order.drop:
        kernel.no_new_privileges()
        kernel.drop_capabilities()
    if order.landlock:
        own = [f"/proc/{os.getpid()}"]
        kernel.restrict_paths([*order.readable, *own], order.writable, order.devices, tcp=order.network)
    if order.filter_hex:
        listener = kernel.load_filter(bytes.fromhex(order.filter_hex), listens=order.landlock)
        if listener >= 0:
            socket.send_fds(report, [LISTENER], [listener])
            os.close(listener)


def _close_all_but(kept: tuple[int, ...], report: int) -> None:
    low = 3
    for descriptor in sorted({*kept, report}):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _reset_signals() -> None:
    """Python ignores some, and what is ignored stays so in the command."""
    for number in (
        signal.SIGPIPE,
        signal.SIGXFSZ,
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGCHLD,
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _limit(name: str, value: int) -> None:
    kind: int = getattr(resource, name)
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory, the command goes before anything of the host's."""
    with suppress(OSError):
        _write("/proc/self/oom_score_adj", b"1000")


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
