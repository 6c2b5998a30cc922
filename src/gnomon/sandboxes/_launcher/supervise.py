"""One command from its start to the end of the last process that it has left behind.

The supervisor is a child of the launcher and stands outside of what it holds. It is the parent that orphans
come to, so that nothing below it gets away. It ends the command at its deadline, when a limit is passed that
the kernel does not hold by itself, when it is told to, and when the host is gone: then its socket has ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from . import child, kernel, tree
from .attributes import Attributes
from .order import Order, read_order

__all__ = ["get_ready", "supervise"]

_TICK_S = 0.05
_MOST_TOLD = 65_536
_LONGEST_S = 86_400.0
"""How long one wait may be: the kernel takes no more than 24 days, and nothing takes that long."""


class Ready(NamedTuple):
    """What a supervisor has before there is an order."""

    wake: int
    """A descriptor that can be read when a child has ended."""
    pid: int
    """The one who stands by to become the command."""
    child: socket.socket
    """Leads there."""


def get_ready() -> Ready:
    with suppress(OSError):
        os.setsid()
    kernel.become_subreaper()
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _nothing)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        child.stand_by(theirs)
    theirs.close()
    _warm_up(wake)
    return Ready(wake, pid, ours)


def _warm_up(wake: int) -> None:
    """Some of what comes with an order, for nothing: each page that is touched after a fork is copied first,
    and a command waits for that.
    """
    json.loads(json.dumps({"readable": ["/usr"] * 30, "filter_hex": "0" * 6_000}))
    for one in socket.socketpair():
        one.close()
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.poll(0)
    tree.Clock().total_s(tree.descendants(os.getpid()))
    _free("/")


def supervise(status: socket.socket, order: int, stdio: tuple[int, int, int], ready: Ready) -> NoReturn:
    """One command, until nothing is left of it; `order` is a file with what to do."""
    try:
        _Supervisor(status, read_order(order), ready).run(order, stdio)
    except BaseException as error:  # noqa: BLE001 - the host has to hear of it
        tree.kill_all()
        with suppress(OSError):
            status.send(json.dumps({"broken": f"{type(error).__name__}: {error}"[:400]}).encode())
    finally:
        os._exit(0)


class _Supervisor:
    def __init__(self, status: socket.socket, order: Order, ready: Ready) -> None:
        self._status = status
        self._order = order
        self._wake, self._pid, self._child = ready
        self._ended: int | None = None
        self._why = ""
        self._said = b""
        self._wrapper = -1
        """Where bubblewrap says how it went."""
        self._inner = 0
        self._failure = b""
        self._attributes: Attributes | None = None
        self._began = time.time()
        self._deadline = time.monotonic() + order.timeout_s
        self._next_look = time.monotonic() + _TICK_S
        self._free = [_free(folder) for folder in order.disk_of]
        self._walk = tree.looks(order.disk_of, self._began, order.disk_bytes)
        self._clock = tree.Clock()
        self._shared = tree.shared_by_all() if "memory" in order.watched else 0

    def run(self, order: int, stdio: tuple[int, int, int]) -> None:
        self._start(order, stdio)
        self._wait()
        tree.kill_all(self._pid)
        self._hear_wrapper()
        self._hear_child()
        self._tell()

    # --- the start

    def _start(self, order: int, stdio: tuple[int, int, int]) -> None:
        kept = self._wire_wrapper() if self._order.is_wrapped else ()
        self._send({"begins": os.getpid()})  # before it does: who did not hear this may ask once more
        self._begin(order, stdio, kept)
        self._child.setblocking(False)
        for descriptor in (order, *stdio, *kept):
            os.close(descriptor)
        if self._order.is_wrapped:
            self._limit_processes()

    def _begin(self, order: int, stdio: tuple[int, int, int], kept: tuple[int, ...]) -> None:
        """By who stands by. In a control group of version 2 a command is born, as it cannot join it soon."""
        groups = self._order.cgroups
        path = next((each for each in groups if each.endswith("/cgroup.procs")), "")
        if path:
            with suppress(OSError):  # an older kernel, or one that may not be asked for this
                others = [each for each in groups if each != path]
                self._fork(lambda: kernel.fork_into(os.path.dirname(path)), others, stdio, kept)
                return
        try:
            socket.send_fds(self._child, [b"!"], [order, *stdio, *kept])
        except OSError:  # somebody has ended who stood by
            self._fork(os.fork, groups, stdio, kept)

    def _fork(
        self,
        fork: Callable[[], int],
        groups: list[str],
        stdio: tuple[int, int, int],
        kept: tuple[int, ...],
    ) -> None:
        ours, report = socket.socketpair()
        pid = fork()
        if pid == 0:
            self._child.close()
            child.become(self._order._replace(cgroups=groups), stdio, kept, report)
        self._child.close()  # who stands by ends by that
        report.close()
        self._pid, self._child = pid, ours

    def _wire_wrapper(self) -> tuple[int, ...]:
        """The descriptors bubblewrap is given, in the order in which `wrapper` knows them."""
        self._wrapper, told = os.pipe2(os.O_CLOEXEC)
        blocked, self._release = os.pipe2(os.O_CLOEXEC)
        if self._order.filter_hex:
            return told, blocked, _in_memory(bytes.fromhex(self._order.filter_hex))
        return told, blocked

    def _limit_processes(self) -> None:
        """Once the user namespace is there, in which they are counted apart from all others of the user."""
        os.set_blocking(self._wrapper, False)
        while not self._inner and self._is_ready(self._wrapper):
            piece = os.read(self._wrapper, _MOST_TOLD)
            if not piece:
                break  # it has ended before it came so far
            self._said += piece
            self._inner = _told(self._said, "child-pid")
        if self._inner:
            with suppress(OSError):
                self._limit_processes_of(self._inner)
        with suppress(OSError):
            os.write(self._release, b"1")
        os.close(self._release)

    def _limit_processes_of(self, pid: int) -> None:
        """The kernel wants the same user and group, or a right that root in a container may not have."""
        import resource

        most = self._order.processes + 1  # and process 1 of the namespace
        own = os.getuid(), os.getgid()
        if self._order.uid >= 0:
            os.setresgid(self._order.gid, -1, -1)
            os.setresuid(self._order.uid, -1, -1)
        try:
            resource.prlimit(pid, resource.RLIMIT_NPROC, (most, most))
        finally:
            os.setresuid(own[0], -1, -1)
            os.setresgid(own[1], -1, -1)

    def _is_ready(self, descriptor: int) -> bool:
        """Whether there is something to read before the deadline."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        rest = min(self._deadline - time.monotonic(), _LONGEST_S)
        return bool(poll.poll(max(rest, 0) * 1000))

    # --- while it runs

    def _wait(self) -> None:
        """Until the command has ended, or must."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(self._status, select.POLLIN)
        poll.register(self._child, select.POLLIN)
        while self._ended is None and not self._why:
            rest = min(self._deadline, self._next_look) - time.monotonic()
            for descriptor, _ in poll.poll(max(rest, 0) * 1000):
                self._serve(descriptor, poll)
            self._reap()
            now = time.monotonic()
            if self._ended is None and now >= self._deadline:
                self._why = self._why or "timeout"
            if self._ended is None and now >= self._next_look:
                self._look()
                self._next_look = time.monotonic() + _TICK_S

    def _serve(self, descriptor: int, poll: select.poll) -> None:
        if descriptor == self._wake:
            with suppress(BlockingIOError):
                os.read(self._wake, 512)
        elif descriptor == self._child.fileno():
            if not self._hear_child():
                poll.unregister(descriptor)
            if self._attributes is not None:
                poll.register(self._attributes, select.POLLIN)
        elif self._attributes is not None and descriptor == self._attributes.fileno():
            if not self._attributes.answer():
                poll.unregister(descriptor)
        else:
            self._why = "told"  # to end it; or the host is gone

    def _hear_child(self) -> bool:
        """What it says before it becomes the command; whether it may say more."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._child, _MOST_TOLD, 1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if descriptors:
            self._attributes = Attributes(descriptors[0], self._order.writable, self._order.uid)
            data = data.removeprefix(child.LISTENER)
        self._failure += data
        return bool(data or descriptors)

    def _reap(self) -> None:
        """The end of orphans, and the command's: not waited for yet, so its group keeps its number."""
        while True:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if seen is None:
                return
            if seen.si_pid == self._pid:
                by_signal = seen.si_code != os.CLD_EXITED
                self._ended = seen.si_status + (128 if by_signal else 0)
                return
            os.waitpid(seen.si_pid, 0)

    def _look(self) -> None:
        """Whether it keeps within what the kernel does not hold by itself."""
        order = self._order
        most = order.processes + 3 if "processes" in order.watched else sys.maxsize
        use = tree.used(os.getpid(), self._clock, most)
        if "processes" in order.watched and use.processes > order.processes + 3:
            self._why = "processes"
        elif "memory" in order.watched and self._fills_the_memory(use):
            self._why = "memory"
        elif use.cpu_s > order.cpu_s:
            self._why = "cpu"
        elif self._fills_the_disk():
            self._why = "disk"

    def _fills_the_memory(self, use: tree.Usage) -> bool:
        """What is shared is looked at more closely where it matters, since that takes time.

        Memory that has no name a process may let go of without giving it back. That shows nowhere but in what
        the whole machine has.
        """
        most = self._order.memory_bytes
        if use.memory_bytes > most and tree.memory_of(use.family) > most:
            return True
        return tree.shared_by_all() - self._shared > most and tree.may_hide_memory(use.family)

    def _fills_the_disk(self) -> bool:
        """Only a disk that has become fuller is looked through, since others may fill it as well."""
        most = self._order.disk_bytes
        for folder, before in zip(self._order.disk_of, self._free, strict=True):
            now = _free(folder)
            if before[0] - now[0] > most or before[1] - now[1] > 100_000:
                if self._has_written_too_much():
                    return True
                family = tree.descendants(os.getpid())
                return tree.unlinked_bytes(family) > most or tree.may_hide_files(family)
        return False

    def _has_written_too_much(self) -> bool:
        until = time.monotonic() + _TICK_S
        for is_too_much in self._walk:
            if is_too_much is None or time.monotonic() > until:
                return False
            if is_too_much:
                return True
        return False

    # --- the end

    def _hear_wrapper(self) -> None:
        if self._wrapper < 0:
            return
        with suppress(BlockingIOError):
            while piece := os.read(self._wrapper, _MOST_TOLD):
                self._said += piece

    def _tell(self) -> None:
        told: dict[str, object] = {"why": self._why, "exit_code": self._ended}
        if self._failure:
            told["failed"] = json.loads(self._failure)
        if self._order.is_wrapped:
            told["is_up"] = b"exit-code" in self._said or bool(self._why)
        self._send(told)

    def _send(self, told: dict[str, object]) -> None:
        with suppress(OSError):  # a host that is gone hears nothing
            self._status.send(json.dumps(told).encode())


def _told(said: bytes, name: str) -> int:
    """A number from the first of bubblewrap's JSON documents, as far as it is there."""
    end = said.find(b"}")
    if end < 0:
        return 0
    first: dict[str, int] = json.loads(said[: end + 1])
    return first.get(name, 0)


def _nothing(_number: int, _frame: object) -> None:
    """That there is a handler makes the signal end a wait."""


def _free(folder: str) -> tuple[int, int]:
    """Bytes and files for which there is room."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0, 0
    return found.f_bavail * found.f_frsize, found.f_favail


def _in_memory(data: bytes) -> int:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
