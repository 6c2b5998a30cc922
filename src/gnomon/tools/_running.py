"""What `shell` and `python` share: where they run, how long, what is shown meanwhile, and how it ended."""

from __future__ import annotations

import codecs
import signal
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, ParamSpec, TypeVar, Unpack

from gnomon._threads import run_in_thread
from gnomon.contracts.sandbox import Sandbox
from gnomon.contracts.tool import Touches
from gnomon.errors import ConfigError, GnomonError, InvalidArguments, SandboxLost, ToolFailed
from gnomon.tools.function import PlainOptions, StreamingFunctionTool, TouchingTool
from gnomon.types.messages import Meta, Text
from gnomon.types.steps import ExecOutput, ExecResult

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = [
    "LONGEST_S",
    "TIMEOUT_S",
    "Allowed",
    "Pieces",
    "RunningTool",
    "bracketed",
    "ending_of",
    "facts_of",
    "no_sandbox",
    "printed",
    "sandbox_of",
    "where",
]

TIMEOUT_S = 120.0
"""How long a command may take when the model does not say."""

LONGEST_S = 600.0
"""How long it may take when the model does."""

_AROUND_S = 30.0
"""For what is not the command: a sandbox that has to be made first, and the end of one that was late."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Allowed:
    """How long one call may take."""

    def __init__(self, name: str, timeout_s: object, longest_s: object) -> None:
        self.timeout_s = _seconds(name, "timeout_s", timeout_s)
        self.longest_s = _seconds(name, "longest_s", longest_s)
        if self.timeout_s > self.longest_s:
            raise ConfigError(
                f"tool {name!r}: timeout_s is {self.timeout_s:g}, and the longest is {self.longest_s:g}",
                hint="give longest_s too",
            )

    @property
    def in_words(self) -> str:
        return f"It is ended after {self.timeout_s:g} seconds, or timeout_s, which may be {self.longest_s:g}."

    def of(self, asked_s: float | None) -> float:
        """What a model asks for, as far as it may."""
        if asked_s is None:
            return self.timeout_s
        if not asked_s > 0:
            raise InvalidArguments(f"timeout_s: {asked_s:g} seconds allow nothing")
        return min(asked_s, self.longest_s)


class RunningTool(TouchingTool[_P, _R], StreamingFunctionTool[_P, _R]):
    """A tool that runs something in the sandbox of a workspace, and shows what it prints."""

    def __init__(
        self,
        function: Callable[_P, _R],
        *,
        allowed: Allowed,
        touches: Callable[[Mapping[str, object]], Touches],
        **options: Unpack[PlainOptions],
    ) -> None:
        # The sandbox ends it at its time; the limit of the call is for a sandbox that does not.
        options |= {"timeout_s": allowed.longest_s + _AROUND_S, "destructive": True}
        super().__init__(function, touches=touches, **options)


async def sandbox_of(workspace: Workspace, name: str) -> Sandbox:
    """Where it runs; the first call may have to make it, for which the loop does not wait."""
    try:
        return await run_in_thread(lambda: workspace.sandbox, name=name)
    except GnomonError as error:
        raise no_sandbox(error) from error


def no_sandbox(error: GnomonError) -> ToolFailed:
    """What a model, and who reads over its shoulder, is told where nothing could be run."""
    hint = f" ({error.hint})" if error.hint else ""
    if isinstance(error, SandboxLost):
        return ToolFailed(f"the sandbox was lost, and it is not known what was done: {error.message}{hint}")
    return ToolFailed(f"not run, since there is no sandbox to run it in: {error.message}{hint}")


class Pieces:
    """Output as it comes, as text: a character may come in two pieces."""

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

    def text(self, piece: ExecOutput) -> Text | None:
        """What of it can be shown by now."""
        text = self._decoders[piece.stream].decode(piece.data)
        if not text:
            return None
        return Text(text, {"stream": "stderr"}) if piece.stream == "stderr" else Text(text)


# --- what a model reads ---------------------------------------------------------


def where(workspace: Workspace) -> str:
    """What is there when something begins to run, and what of it stays."""
    if workspace.root is None:
        return "It starts in an empty folder, where the files that it makes stay."
    if workspace.read_only:
        return (
            f"It starts in an empty folder; the files of the workspace are in {workspace.root}, to be read."
        )
    return "It starts in the folder of the workspace, and may change the files there."


def printed(execution: ExecResult) -> list[str]:
    """What it wrote: errors, which are told apart, behind the rest."""
    told: list[str] = []
    if execution.stdout:
        told.append(execution.text.rstrip("\n"))
    if execution.stderr:
        told.append("[stderr]\n" + execution.error_text.rstrip("\n"))
    if execution.truncated:
        told.append("[some of the output was left out; a file can hold all of it]")
    return told


def ending_of(execution: ExecResult, seconds: float) -> str:
    """How it ended, where that was not by itself and with exit code 0."""
    code = execution.exit_code
    if execution.timed_out:
        return f"ended: its time of {seconds:g} s was up"
    if execution.note:
        return execution.note
    if execution.oom:
        return "ended: it used too much memory"
    if code is None:
        return "ended, and nobody knows how"
    by = _signal(code)
    return f"exit code {code}{f': ended by {by}' if by else ''}" if code else ""


def facts_of(execution: ExecResult) -> Meta:
    """For who shows or counts results: how it ended, and what has held it."""
    facts: Meta = {"exit_code": execution.exit_code, "level": execution.level}
    for name in ("timed_out", "oom", "truncated"):
        if getattr(execution, name):
            facts[name] = True
    return facts


def bracketed(told: str) -> str:
    return f"[{told}]"


def _signal(code: int) -> str:
    try:
        return signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return ""


def _seconds(name: str, what: str, given: object) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool) or not isfinite(given) or given <= 0:
        raise ConfigError(f"tool {name!r}: {what} is a number of seconds above 0, not {given!r}")
    return float(given)
