"""`python`: code in the sandbox of the workspace."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from gnomon._python.running import PythonResult, stream_python
from gnomon.contracts.tool import Touches
from gnomon.errors import InvalidArguments, InvalidInput, SandboxError
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
from gnomon.types.messages import Image, Text, ToolResult

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["PythonTool", "python"]

_UNKNOWN = "Python code, which may do whatever its sandbox allows"


class PythonTool(RunningTool[[str, float | None], AsyncGenerator[Text | ToolResult, None]]):
    """A tool that runs Python code in the sandbox of a workspace.

    A model is given what the code printed, the value of its last expression, the pictures that it showed, and
    of an error that the code did not catch the code's own lines. It is ended after `timeout_s`, or after what
    the model asks for, up to `longest_s`. A result of code that failed or was ended has status "error".
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
        self._allowed = Allowed("python", timeout_s, longest_s)
        super().__init__(
            self._python,
            allowed=self._allowed,
            touches=_touched,
            name="python",
            description=_described(workspace, self._allowed),
            max_output_chars=max_output_chars,
        )

    async def _python(
        self, code: str, timeout_s: float | None = None
    ) -> AsyncGenerator[Text | ToolResult, None]:
        """Run it.

        code: the whole code, of one line or many
        timeout_s: after how many seconds it is ended
        """
        seconds = self._allowed.of(timeout_s)
        if not code.strip():
            raise InvalidArguments("code: it is empty")
        sandbox = await sandbox_of(self._workspace, self.name)
        pieces = Pieces()
        try:
            async with aclosing(stream_python(sandbox, code, timeout_s=seconds)) as steps:
                async for step in steps:
                    if isinstance(step, PythonResult):
                        yield _result(step, seconds)
                    elif (shown := pieces.text(step)) is not None:
                        yield shown
        except InvalidInput as error:
            raise InvalidArguments(f"code: {error.message}") from None
        except SandboxError as error:
            raise no_sandbox(error) from error


@placed("python")
def python(workspace: Workspace) -> PythonTool:
    """Run Python code in the sandbox of the workspace."""
    return PythonTool(workspace)


def _touched(_: Mapping[str, object]) -> Touches:
    return Touches(unknown=_UNKNOWN)


def _described(workspace: Workspace, allowed: Allowed) -> str:
    return (
        "Run Python code in a sandbox. You are given what it prints and the value of its last expression. "
        "show(…) shows you a picture: the path of an image file, a figure or an image; open figures of "
        f"matplotlib are shown at the end. {where(workspace)} All else is gone with the call: variables, "
        f"what it left running, and /tmp. There is no network unless it was allowed. {allowed.in_words}"
    )


def _result(came: PythonResult, seconds: float) -> ToolResult:
    told = printed(came.execution)
    if came.shown and not _is_drawn(came):
        told.append(f"[value]\n{came.shown}")
    if came.error is not None:
        told.append("[error]\n" + came.error.lines.rstrip("\n"))
    if note := _note(came, seconds):
        told.append(bracketed(note))
    parts: list[Text | Image] = [Text("\n".join(told) or _nothing(came)), *came.pictures]
    status = "ok" if came.ok else "error"
    return ToolResult("", "python", tuple(parts), status=status, meta=facts_of(came.execution))


def _is_drawn(came: PythonResult) -> bool:
    """Whether the value is the bytes of a picture that is shown."""
    return bool(came.pictures) and came.shown.startswith(("b'", 'b"'))


def _note(came: PythonResult, seconds: float) -> str:
    """What is amiss, where the code's own error does not say it."""
    if came.execution.timed_out:
        return ending_of(came.execution, seconds)
    return came.note


def _nothing(came: PythonResult) -> str:
    return "[pictures]" if came.pictures else "[no output]"
