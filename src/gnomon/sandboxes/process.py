"""Commands in namespaces of their own, without a daemon and without root; elsewhere by weaker means."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple

from gnomon._beneath import Beneath
from gnomon.errors import InvalidInput, SandboxError
from gnomon.sandboxes import _view
from gnomon.sandboxes._bubblewrap import HOME, wrapped
from gnomon.sandboxes._cgroups import Group, Groups
from gnomon.sandboxes._commands import (
    checked_cwd,
    checked_env,
    checked_files,
    checked_stdin,
    checked_timeout,
    unusable,
)
from gnomon.sandboxes._endings import SAYS_WRAPPER, refused, result_of
from gnomon.sandboxes._limits import Limits, at_least, checked_level, settled
from gnomon.sandboxes._orders import Confinement, written
from gnomon.sandboxes._output import Kept, StreamName
from gnomon.sandboxes._removing import remove
from gnomon.sandboxes._rooms import Rooms
from gnomon.sandboxes._run import Ending, Run
from gnomon.sandboxes._seccomp import filter_program
from gnomon.sandboxes._streaming import streamed
from gnomon.sandboxes._survey import Protection, Survey, check_protections, survey
from gnomon.sandboxes._workspace import put
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult, IsolationLevel, SandboxReport

__all__ = ["ProcessSandbox"]

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_CLOSING_S = 5.0


class _Asked(NamedTuple):
    """One command, checked."""

    argv: list[str]
    timeout_s: float
    stdin: bytes | None
    env: dict[str, str]
    cwd: str
    files: Mapping[str, bytes]
    limits: Limits


class ProcessSandbox:
    """Runs commands in namespaces, by bubblewrap; where that is missing, under Landlock and seccomp.

    ```python
    sandbox = ProcessSandbox()
    result = await sandbox.execute("python3", ["-c", "print(6 * 7)"], timeout_s=10)
    print(result.text, result.level)
    ```

    `workspace` is a folder of the host that commands start in and may change; without one they share an empty
    one, which goes when the sandbox is closed. Beside it they see the machine's programs, nothing of any
    home, and what `read` and `write` name. Where this program is root, they run as whoever owns the
    workspace.

    `require` is the least that has to hold: `SandboxError` says what is missing where it does not. The
    default is "process", which keeps a command from the host's files and from the network; "none" takes any
    machine. `without` leaves protections out, to see what a weaker machine would hold. docs/security.md has
    the table.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        require: IsolationLevel = "process",
        limits: ExecLimits | None = None,
        env: Mapping[str, str] | None = None,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        without: Collection[Protection] = (),
    ) -> None:
        checked_level(require)
        check_protections(without)
        settled(limits)
        self._limits = limits
        self._env = checked_env(env)
        self._survey = _required(require, without)
        self._rooms = Rooms(workspace, read, write)
        self._beneath = Beneath(self._rooms.workspace)
        self._groups = Groups(list(self._survey.cgroups))
        self._runs: set[Run] = set()
        self._under_way: set[Future[None]] = set()
        """What ends when a command has, and what it left is gone. They may be on loops of several threads."""
        self._is_closed = False

    @property
    def workspace(self) -> str:
        """The folder that commands share."""
        return self._rooms.workspace

    @property
    def level(self) -> IsolationLevel:
        """What holds a command here."""
        return self._survey.level

    @property
    def python(self) -> str:
        """A Python that commands can run."""
        return sys.executable

    async def report(self) -> SandboxReport:
        return self._survey.report()

    async def execute(
        self,
        command: str,
        args: Sequence[str],
        timeout_s: float,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: ExecLimits | None = None,
    ) -> ExecResult:
        return await self._execute(
            command, args, timeout_s, None, stdin=stdin, env=env, cwd=cwd, files=files, limits=limits
        )

    def execute_stream(
        self,
        command: str,
        args: Sequence[str],
        timeout_s: float,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: ExecLimits | None = None,
    ) -> AsyncGenerator[ExecOutput | ExecResult, None]:
        """What it writes as it comes, then the result."""
        return streamed(
            lambda show: self._execute(
                command, args, timeout_s, show, stdin=stdin, env=env, cwd=cwd, files=files, limits=limits
            ),
            withheld=SAYS_WRAPPER if self._survey.bubblewrap else b"",
        )

    async def read_file(self, path: str, *, limit_bytes: int = 16_000_000) -> bytes | None:
        """A file of the workspace."""
        return await asyncio.to_thread(self._beneath.read, path, limit_bytes=limit_bytes)

    async def list_files(self, *, limit: int = 10_000) -> Sequence[str]:
        """The files of the workspace."""
        return await asyncio.to_thread(self._beneath.files, limit=limit)

    async def close(self) -> None:
        """End what runs, and remove what is left of it."""
        self._is_closed = True
        for run in list(self._runs):
            run.stop("the sandbox was closed")
        if under_way := [asyncio.wrap_future(over) for over in list(self._under_way)]:
            await asyncio.wait(under_way, timeout=_CLOSING_S)
        self._groups.remove()
        self._beneath.close()
        await asyncio.to_thread(self._rooms.remove)

    # --- one command

    async def _execute(
        self,
        command: str,
        args: Sequence[str],
        timeout_s: float,
        show: Callable[[StreamName, bytes], None] | None,
        *,
        stdin: bytes | None,
        env: Mapping[str, str] | None,
        cwd: str | None,
        files: Mapping[str, bytes] | None,
        limits: ExecLimits | None,
    ) -> ExecResult:
        if self._is_closed:
            raise _closed()
        seconds, settled_limits = checked_timeout(timeout_s), settled(limits, self._limits)
        if why := unusable(command, args):
            return refused(self.level, why)
        folder = self._folder(cwd)
        asked = _Asked(
            [command, *args],
            seconds,
            checked_stdin(stdin),
            checked_env(self._env, env),
            folder,
            checked_files(files),
            settled_limits,
        )
        if asked.files:
            await asyncio.to_thread(self._put, asked)
        return await self._run(asked, show)

    async def _run(self, asked: _Asked, show: Callable[[StreamName, bytes], None] | None) -> ExecResult:
        if self._is_closed:  # while its files were put there
            raise _closed()
        over = Future[None]()
        over.set_running_or_notify_cancel()  # whoever waits for it cannot cancel it
        self._under_way.add(over)
        private, group = "", None
        try:
            with _explained():
                private = "" if self._survey.bubblewrap else self._rooms.private()
                group = self._groups.take(
                    memory_bytes=asked.limits.memory_bytes, processes=asked.limits.processes + 3
                )
            return await self._held(asked, show, private, group)
        finally:
            if group is not None:
                self._groups.give_back(group)
            try:
                if private and not self._rooms.is_forgotten(private):  # to remove much takes time
                    await asyncio.to_thread(remove, private)
            finally:
                self._under_way.discard(over)
                over.set_result(None)

    async def _held(
        self,
        asked: _Asked,
        show: Callable[[StreamName, bytes], None] | None,
        private: str,
        group: Group | None,
    ) -> ExecResult:
        kept = Kept(asked.limits.output_bytes)
        before = group.kills_for_memory() if group is not None else 0
        ending, run = await self._once(asked, Run(kept, show), private, group)
        if ending.is_lost and not run.may_have_begun:  # the launcher was ended with the order in its hands
            ending, run = await self._once(asked, Run(kept, show), private, group)
        return result_of(
            ending,
            kept,
            asked.limits,
            level=self.level,
            duration_s=run.duration_s,
            kills=(group.kills_for_memory() if group is not None else 0) - before,
            command=asked.argv[0],
        )

    async def _once(self, asked: _Asked, run: Run, private: str, group: Group | None) -> tuple[Ending, Run]:
        with _explained():
            run.start(self._order(asked, private, group), asked.stdin)
        self._runs.add(run)
        try:
            return await run.ending(asked.timeout_s), run
        except asyncio.CancelledError:
            run.stop("cancelled")
            await _to_its_end(run)
            raise
        finally:
            run.close()
            self._runs.discard(run)

    # --- what it is given

    def _folder(self, cwd: str | None) -> str:
        """Where it starts: a folder of the workspace, whatever links lead there."""
        if (asked := checked_cwd(cwd)) in ("", "."):
            return self.workspace
        try:
            place = self._beneath.open(asked, os.O_DIRECTORY | os.O_PATH)
        except OSError as error:
            raise InvalidInput(f"there is no folder {cwd!r} in the workspace: {error.strerror}") from None
        try:
            return os.readlink(f"/proc/self/fd/{place}")
        finally:
            os.close(place)

    def _put(self, asked: _Asked) -> None:
        rooms = self._rooms
        folder = os.path.relpath(asked.cwd, self.workspace)
        put(self._beneath, folder, asked.files, (rooms.uid, rooms.gid) if rooms.uid >= 0 else None)

    def _order(self, asked: _Asked, private: str, group: Group | None) -> int:
        """How it is held, for its supervisor."""
        found, rooms = self._survey, self._rooms
        limited = group.controllers if group is not None else set[str]()
        argv = asked.argv
        if found.bubblewrap:
            argv = wrapped(
                found.bubblewrap, rooms.room, asked.limits, cwd=asked.cwd, has_filter=found.seccomp, argv=argv
            )
        held = Confinement(
            cgroups=group.to_join if group is not None else [],
            watched=[
                name for name, one in (("memory", "memory"), ("processes", "pids")) if one not in limited
            ],
            filter_program=self._filter(asked.limits, counts_memory="memory" in limited),
            is_wrapped=bool(found.bubblewrap),
            readable=rooms.readable,
            writable=[*rooms.room.writable, *([private] if private else [])],
            devices=list(_view.DEVICES),
            landlock=not found.bubblewrap and bool(found.landlock),
            disk_of=[*rooms.room.writable, *([private] if private else [])],
            drop=not found.bubblewrap,
            uid=rooms.uid,
            gid=rooms.gid,
        )
        env = {**_own_env(private or HOME), **asked.env}
        return written(
            argv, env, asked.cwd if not found.bubblewrap else "/", asked.timeout_s, asked.limits, held
        )

    def _filter(self, limits: Limits, *, counts_memory: bool) -> bytes:
        found = self._survey
        if not found.seccomp:
            return b""
        if found.bubblewrap:
            # The names of abstract sockets lie in the network, which is the host's then, with its daemons.
            local = () if limits.network else (_UNIX,)
            families = (*local, _INET, _INET6, _NETLINK)
            return filter_program(families, alone=False, counts_memory=counts_memory)
        # Without a namespace the host's sockets are in reach, of which a daemon's may be as good as root.
        families = (_INET, _INET6, _NETLINK) if limits.network else ()
        return filter_program(families, alone=True, landlock=found.landlock, counts_memory=counts_memory)


def _closed() -> SandboxError:
    return SandboxError("the sandbox is closed", hint="make another one")


@contextmanager
def _explained() -> Generator[None]:
    """What this machine has run out of is no error of the command's."""
    try:
        yield
    except OSError as error:
        raise SandboxError(f"the sandbox could not be set up: {error.strerror}") from error


def _own_env(home: str) -> dict[str, str]:
    return {"PATH": _view.search_path(), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "USER": "sandbox"}


def _required(require: IsolationLevel, without: Collection[Protection]) -> Survey:
    if sys.platform != "linux":
        raise SandboxError(
            f"a process sandbox holds nothing on {sys.platform}",
            hint="use ContainerSandbox, with Podman or Docker",
        )
    found = survey(without)
    if not at_least(found.level, require):
        asked = f"this machine holds a command at level {found.level!r}, and {require!r} is asked for"
        way_out = "" if "bubblewrap" in without else found.report().hint
        if require == "container":
            way_out = "use ContainerSandbox; at the command line that is --image"
        raise SandboxError(asked + _why(found), hint=way_out or "see gnomon doctor")
    return found


def _why(found: Survey) -> str:
    return f": {'; '.join(found.reasons.values())}" if found.reasons else ""


async def _to_its_end(run: Run) -> None:
    """Until nothing runs any more, also when whoever waits is cancelled once more."""
    ending = asyncio.ensure_future(run.ending(run.duration_s))
    while not ending.done():
        try:
            await asyncio.wait((ending,))
        except asyncio.CancelledError:
            continue
