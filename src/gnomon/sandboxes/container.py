"""Commands in containers of Podman or Docker."""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from gnomon._beneath import Beneath
from gnomon.errors import ConfigError, InvalidInput, SandboxError, SandboxLost
from gnomon.sandboxes._commands import checked_env, checked_files, checked_stdin, checked_timeout, unusable
from gnomon.sandboxes._container_body import Shape, started, variables
from gnomon.sandboxes._container_box import Box, Maker
from gnomon.sandboxes._container_calls import filter_text
from gnomon.sandboxes._container_exec import Exec, Gone
from gnomon.sandboxes._container_image import checked_image, fetch, has_image, no_image
from gnomon.sandboxes._container_pool import Pool
from gnomon.sandboxes._container_report import report_of
from gnomon.sandboxes._endings import refused, result_of
from gnomon.sandboxes._engine_wire import in_background
from gnomon.sandboxes._engines import Engine, engine_for
from gnomon.sandboxes._limits import Limits, checked_level, settled
from gnomon.sandboxes._output import Kept, StreamName
from gnomon.sandboxes._owners import oneself
from gnomon.sandboxes._rooms import checked_workspace, own_folder, remove_own
from gnomon.sandboxes._run import Ending
from gnomon.sandboxes._streaming import streamed
from gnomon.sandboxes._workspace import put, start_folder
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult, IsolationLevel, SandboxReport

__all__ = ["ContainerSandbox"]

_USER = 1000
_ATTEMPTS = 3
_TIDIED = 20
"""After so many commands, what the engine has left running for them is ended."""
_NO_TEXT = "containers are told its arguments, variables and folder as UTF-8, which they are not"
_SEPARATES = re.compile(r'[,"\n\r]')
_TOO_LONG = "its arguments and variables are longer than the system takes"
_LONGEST_BYTES = 32 * 4096
"""Of one argument or variable, for Linux."""
_ALL_BYTES = 2 << 20
_HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"


class _Asked(NamedTuple):
    """One command, checked."""

    argv: list[str]
    timeout_s: float
    stdin: bytes | None
    env: dict[str, str]
    folder: str
    limits: Limits


class ContainerSandbox:
    """Runs commands in a container of Podman or Docker, without network, root or anything of the host's.

    ```python
    sandbox = ContainerSandbox("python:3.12-slim")
    result = await sandbox.execute("python3", ["-c", "print(6 * 7)"], timeout_s=60)
    print(result.text, result.level)
    ```

    `workspace` is a folder of the host that commands find at /workspace, start in and may change; without one
    they share an empty one, which goes when the sandbox is closed. They run as `user`, two numbers as in
    "1000:1000": by default whoever owns the workspace.

    `engine` is "podman", "docker" or the path of a socket that speaks Docker's API; without it, the first
    that answers. The image has to be there, and have /bin/sh and cat; `pull=True` fetches it with the first
    command.

    A container serves one command at a time. One in which nothing was left is used for the next command;
    elsewise, and always with `warm=False`, the next one has another. They are removed when the sandbox is
    closed, and also when this process is killed.
    """

    def __init__(
        self,
        image: str,
        *,
        engine: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        require: IsolationLevel = "container",
        limits: ExecLimits | None = None,
        env: Mapping[str, str] | None = None,
        warm: bool = True,
        user: str | None = None,
        pull: bool = False,
        cpus: float | None = None,
    ) -> None:
        checked_level(require)
        settled(limits)
        self._limits = limits
        self._env = checked_env(env)
        self._image = checked_image(image)
        given = None if workspace is None else checked_workspace(workspace)
        numbers = None if user is None else _checked_user(user)
        self._engine = engine_for(engine)
        try:
            self._is_pulled = has_image(self._engine, image)
            if not self._is_pulled and not pull:
                raise no_image(self._engine, image)
            self._own = str(own_folder())
            self._gone = weakref.finalize(self, remove_own, self._own, os.getpid())
            self._owner = _owner(given, numbers, self._engine)
            self._workspace = _checked_path(given or _made(self._own, self._owner), self._engine)
            self._beneath = Beneath(self._workspace)
        except BaseException:
            self._engine.close()
            raise
        self._pool = Pool(self._engine, Maker(self._engine, self._shape(cpus)), warm=warm)
        self._pulling = threading.Lock()
        self._runs: dict[Exec, Future[None]] = {}
        self._is_closed = False

    @property
    def workspace(self) -> str:
        """The folder that commands share, on the host."""
        return self._workspace

    @property
    def level(self) -> IsolationLevel:
        """What holds a command here."""
        return "container"

    @property
    def python(self) -> str:
        """A Python that commands can run, if the image has one."""
        return "python3"

    async def report(self) -> SandboxReport:
        return report_of(self._engine)

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
            )
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
        runs = self._runs.copy()
        for run in runs:
            run.stop("the sandbox was closed")
        if runs:
            await asyncio.wait([asyncio.wrap_future(over) for over in runs.values()], timeout=5.0)
        await asyncio.wrap_future(in_background(self._remove))

    def _remove(self) -> None:
        self._pool.close()
        self._engine.close()
        self._beneath.close()
        self._gone()

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
            raise SandboxError("the sandbox is closed", hint="make another one")
        seconds, settled_limits = checked_timeout(timeout_s), settled(limits, self._limits)
        if why := unusable(command, args):
            return refused(self.level, why)
        given, put_there = checked_stdin(stdin), checked_files(files)
        folder = start_folder(self._beneath, cwd)
        asked = _Asked([command, *args], seconds, given, checked_env(self._env, env), folder, settled_limits)
        if why := _unsayable(asked):
            return refused(self.level, why)
        if put_there:
            await asyncio.to_thread(put, self._beneath, folder, put_there, self._to_hand_over)
        await self._fetch()
        for _ in range(_ATTEMPTS):
            with suppress(Gone):  # somebody has removed it, and nothing has run in it
                return await self._run(asked, show)
        raise SandboxLost(f"{self._engine.name} loses its containers", hint="does somebody remove them?")

    async def _run(self, asked: _Asked, show: Callable[[StreamName, bytes], None] | None) -> ExecResult:
        box = await self._pool.take(asked.limits)
        kept = Kept(asked.limits.output_bytes)
        run = Exec(box, asked.limits, self._workspace, kept, show)
        over = self._runs[run] = Future()
        order = started(self._shaped, asked.argv, asked.env, asked.folder, has_input=bool(asked.stdin))
        is_over = False
        try:
            ending = await run.ending(order, asked.stdin, asked.timeout_s)
            duration_s, kills = run.duration_s, run.kills()
            is_over = not ending.why and not ending.is_lost
        finally:
            await _to_its_end(asyncio.ensure_future(self._settle(box, asked.limits, is_over=is_over)))
            del self._runs[run]
            over.set_result(None)
        return _result(ending, kept, asked, kills=kills, duration_s=duration_s)

    async def _settle(self, box: Box, limits: Limits, *, is_over: bool) -> None:
        """Until nothing that the command has started runs; the container serves again if it is as new."""
        sight = box.sight
        if is_over and sight is not None and not sight.has_left_processes():
            if sight.is_as_new():
                if box.commands % _TIDIED == _TIDIED - 1:
                    await asyncio.wrap_future(in_background(box.end_monitors))
                self._pool.give_back(box)
                return
        elif box.kill() and sight is not None:
            await asyncio.wrap_future(in_background(lambda: sight.is_over(5.0)))
        else:
            await asyncio.wrap_future(in_background(box.remove))
        self._pool.discard(box)
        self._pool.prepare(limits)

    # --- what it is given

    def _shape(self, cpus: float | None) -> Shape:
        if cpus is not None and not 0 < cpus < math.inf:
            raise ConfigError(
                f"there are no {cpus!r} processors", hint="cpus is a number of more than 0, such as 1.5"
            )
        keeps_ids = self._engine.is_rootless and self._engine.is_podman
        self._shaped = Shape(
            self._image,
            self._workspace,
            self._written("hosts", _HOSTS),
            self._calls(),
            *self._owner,
            owner=oneself(),
            is_podman=self._engine.is_podman,
            keeps_ids=keeps_ids,
            cpus=cpus,
        )
        return self._shaped

    def _calls(self) -> str:
        """Docker takes the filter itself, Podman the name of a file."""
        if not self._engine.has_filter:
            return ""
        return self._written("calls.json", filter_text()) if self._engine.is_podman else filter_text()

    def _written(self, name: str, text: str) -> str:
        path = f"{self._own}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    @property
    def _to_hand_over(self) -> tuple[int, int] | None:
        return self._owner if os.geteuid() == 0 else None

    async def _fetch(self) -> None:
        if self._is_pulled:
            return
        await asyncio.wrap_future(in_background(self._pull_once))

    def _pull_once(self) -> None:
        with self._pulling:
            if not self._is_pulled:
                fetch(self._engine, self._image)
                self._is_pulled = True


def _result(ending: Ending, kept: Kept, asked: _Asked, *, kills: int, duration_s: float) -> ExecResult:
    if ending.failed is not None and ending.failed.step == "folder":
        raise InvalidInput(f"there is no folder {asked.folder!r} in the workspace any more")
    return result_of(
        ending,
        kept,
        asked.limits,
        level="container",
        duration_s=duration_s,
        kills=kills,
        command=asked.argv[0],
    )


def _unsayable(asked: _Asked) -> str:
    """Why an engine cannot be told of it, or would tell so in words that are the command's own by then."""
    words = [*asked.argv, *(f"{name}={value}" for name, value in variables(asked.env).items())]
    if not all(_is_text(word) for word in (*words, asked.folder)):
        return _NO_TEXT
    sizes = [len(word.encode()) + 1 for word in words]
    return _TOO_LONG if max(sizes) > _LONGEST_BYTES or sum(sizes) + 8 * len(sizes) > _ALL_BYTES else ""


def _is_text(word: str) -> bool:
    """And not bytes of a file's name, which engines have no letters for."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked_path(folder: str, engine: Engine) -> str:
    """Podman reads what is mounted as a list with commas."""
    if _is_text(folder) and not (engine.is_podman and _SEPARATES.search(folder)):
        return folder
    raise ConfigError(
        f"{engine.name} cannot show a command the folder {folder!r}",
        hint="its path must be UTF-8, without commas, quotes and line ends",
    )


def _checked_user(user: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", user)
    if found is None:
        raise ConfigError(
            f"the user {user!r} cannot be used", hint='two numbers, as in "1000:1000"; names are the image\'s'
        )
    return int(found[1]), int(found[2] or found[1])


def _owner(workspace: str | None, numbers: tuple[int, int] | None, engine: Engine) -> tuple[int, int]:
    """As whom commands run: somebody who may write to the workspace, and not root."""
    if numbers is not None:
        return numbers
    if engine.is_rootless and not engine.is_podman:
        return 0, 0  # who is root there is nobody but the user outside
    if workspace is None:
        return (os.geteuid(), os.getegid()) if os.geteuid() else (_USER, _USER)
    found = os.stat(workspace)
    if found.st_uid == 0:
        raise ConfigError(
            f"the workspace {workspace!r} belongs to root, and commands do not run as root",
            hint="give it to another user, or say user='0:0' to have it so",
        )
    return found.st_uid, found.st_gid


def _made(own: str, owner: tuple[int, int]) -> str:
    folder = f"{own}/workspace"
    os.mkdir(folder)
    if os.geteuid() == 0:
        os.chown(folder, *owner)
    return folder


async def _to_its_end(work: asyncio.Future[None]) -> None:
    """Also when whoever waits is cancelled once more."""
    is_cancelled = False
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            is_cancelled = True
    work.result()
    if is_cancelled:
        raise asyncio.CancelledError
