"""`shell`: a command line in the sandbox of the workspace."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from gnomon.contracts.sandbox import Sandbox, SupportsOutput
from gnomon.contracts.tool import Touches
from gnomon.errors import GnomonError, InvalidArguments, SandboxError
from gnomon.tools._places import placed
from gnomon.tools._running import (
    LONGEST_S,
    TIMEOUT_S,
    Allowed,
    Pieces,
    RunningTool,
    bracketed,
    ending_of,
    facts_of,
    no_sandbox,
    printed,
    sandbox_of,
    where,
)
from gnomon.tools._shell_words import touches_of
from gnomon.types.messages import Text, ToolResult
from gnomon.types.steps import ExecOutput, ExecResult

if TYPE_CHECKING:
    from gnomon._beneath import Beneath
    from gnomon.tools.workspace import Workspace

__all__ = ["ShellTool", "shell"]

_CANNOT_RUN = frozenset({126, 127})
_BY_SIGNAL = 128
_IN_CONTAINERS = "/workspace"
_OF_PROCESSES = frozenset({"/proc", "/dev/fd"})
_MOST_LINKS = 40

# Every sandbox has sh; where there is bash it takes the line, since that is the shell that models write for:
# pipefail, [[ and <( ) are errors elsewhere. sh finds that out, so that no sandbox has to be asked before.
_BEGIN = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; fi; exec sh -c "$1"'


class ShellTool(RunningTool[[str, float | None], AsyncGenerator[Text | ToolResult, None]]):
    """A tool that runs a command line in the sandbox of a workspace, by bash where there is one, else by sh.

    It is ended after `timeout_s`, or after what the model asks for, up to `longest_s`. What it prints is
    shown as it comes. That it was ended, by whatever limit, or that there is no such program, is a result
    with status "error"; an exit code other than 0 is told and is no error, since it is often an answer.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        timeout_s: float = TIMEOUT_S,
        longest_s: float = LONGEST_S,
        max_output_chars: int | None = None,
    ) -> None:
        self._workspace = workspace
        self._allowed = Allowed("shell", timeout_s, longest_s)
        super().__init__(
            self._shell,
            allowed=self._allowed,
            touches=self._touched,
            name="shell",
            description=_described(workspace, self._allowed),
            max_output_chars=max_output_chars,
        )

    async def _shell(
        self, command: str, timeout_s: float | None = None
    ) -> AsyncGenerator[Text | ToolResult, None]:
        """Run it.

        command: what the shell is given, of one line or several
        timeout_s: after how many seconds it is ended
        """
        seconds = self._allowed.of(timeout_s)
        if not command.strip():
            raise InvalidArguments("command: it is empty")
        if "\0" in command:
            raise InvalidArguments("command: it has a NUL in it")
        sandbox = await sandbox_of(self._workspace, self.name)
        pieces = Pieces()
        try:
            async with aclosing(_run(sandbox, command, seconds)) as steps:
                async for step in steps:
                    if isinstance(step, ExecResult):
                        yield _result(step, seconds)
                    elif (shown := pieces.text(step)) is not None:
                        yield shown
        except SandboxError as error:
            raise no_sandbox(error) from error

    def _touched(self, arguments: Mapping[str, object]) -> Touches:
        found = touches_of(str(arguments["command"]))
        if self._workspace.root is None:
            return found
        folder = self._workspace.files(self.name)
        is_odd = any(_is_of_process(os.path.join(folder.path, each)) for each in found.reads + found.writes)
        return msgspec.structs.replace(
            found,
            reads=_places(folder, found.reads),
            writes=_places(folder, found.writes),
            unknown=found.unknown or ("a redirection to a file that is another to each process" * is_odd),
        )


@placed("shell")
def shell(workspace: Workspace) -> ShellTool:
    """Run a command line in the sandbox of the workspace."""
    return ShellTool(workspace)


# --- running it -------------------------------------------------------------------


async def _run(
    sandbox: Sandbox, command: str, seconds: float
) -> AsyncGenerator[ExecOutput | ExecResult, None]:
    args = ["-c", _BEGIN, "sh", command]
    if not isinstance(sandbox, SupportsOutput):
        yield await sandbox.execute("sh", args, seconds)
        return
    async with aclosing(sandbox.execute_stream("sh", args, seconds)) as steps:
        async for step in steps:
            yield step


def _result(execution: ExecResult, seconds: float) -> ToolResult:
    ending = ending_of(execution, seconds)
    told = [*printed(execution), *([bracketed(ending)] if ending else [])]
    status = "error" if _is_error(execution) else "ok"
    text = "\n".join(told) or "[no output]"
    return ToolResult("", "shell", (Text(text),), status=status, meta=facts_of(execution))


def _is_error(execution: ExecResult) -> bool:
    """Whether it did not come to its own end, or never began."""
    code = execution.exit_code
    cut_short = execution.timed_out or execution.oom or bool(execution.note)
    return cut_short or code is None or code in _CANNOT_RUN or code > _BY_SIGNAL


# --- what is told beforehand ------------------------------------------------------


def _described(workspace: Workspace, allowed: Allowed) -> str:
    return (
        f"Run a command in a shell, in a sandbox. {where(workspace)} All else is gone with the call: "
        "variables, the current folder, what it left running, and /tmp. There is no network unless it was "
        f"allowed, and nobody who could answer a question. {allowed.in_words}"
    )


def _places(folder: Beneath, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Paths as rules name them: from the folder where they lie in it, with links resolved."""
    found: list[str] = []
    for path in paths:
        found.append(_place(folder, path))
        # In a container the folder is there. Of a process it is another one: both are named.
        if path == _IN_CONTAINERS or path.startswith(f"{_IN_CONTAINERS}/"):
            found.append(_place(folder, path.removeprefix(_IN_CONTAINERS).lstrip("/") or "."))
    return tuple(dict.fromkeys(found))


def _place(folder: Beneath, path: str) -> str:
    try:
        return folder.canonical(path)
    except GnomonError:  # it leads out, or goes up from what is not there yet
        found = os.path.realpath(os.path.join(folder.path, path))
        return os.path.relpath(found, folder.path) if _is_in(found, folder.path) else found


def _is_of_process(path: str) -> bool:
    """Whether its way goes by names such as `/proc/self/cwd` or `/dev/fd/3`: what is behind them here is not
    what is behind them for a command."""
    way, to_do, links = "/", path.split("/")[::-1], 0
    while to_do:
        way = os.path.normpath(os.path.join(way, to_do.pop()))  # so far there is no link in it
        if way in _OF_PROCESSES or links > _MOST_LINKS:
            return True
        try:
            target = os.readlink(way)
        except OSError:
            continue
        links += 1
        way = os.path.dirname(way)
        to_do += [*target.split("/")[::-1], *(["/"] if target.startswith("/") else [])]
    return False


def _is_in(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder
