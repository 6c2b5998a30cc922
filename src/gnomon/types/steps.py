"""What the parts around the loop give and get: turns, hooks, guardrails, sandboxes, sub-agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, cast

import msgspec

from gnomon.errors import InvalidOutput
from gnomon.types.events import Error, QuestionAsked, TurnStop
from gnomon.types.messages import Message, Meta, ToolCall, ToolResult
from gnomon.types.records import SessionState, Time
from gnomon.types.requests import Request, Response, Usage

if TYPE_CHECKING:  # a default of a type variable is known to type checkers long before Python 3.13
    from typing_extensions import TypeVar

    Out = TypeVar("Out", default=str, covariant=True)
else:
    from typing import TypeVar

    Out = TypeVar("Out", covariant=True)

__all__ = [
    "CancelMode",
    "ExecLimits",
    "ExecOutput",
    "ExecResult",
    "GuardrailResult",
    "HookEvent",
    "IsolationLevel",
    "Out",
    "SandboxReport",
    "SessionStatus",
    "SubagentResult",
    "Turn",
]

IsolationLevel: TypeAlias = Literal["none", "process", "namespaces", "container"]
CancelMode: TypeAlias = Literal["now", "after_step"]


class Turn(msgspec.Struct, Generic[Out], frozen=True, omit_defaults=True, kw_only=True):
    """What one turn came to. `messages` are the ones it added, the user's first.

    `cost` is in US dollars; `None` when a price is unknown. `value` is the output, as far as there is one;
    `has_output` says whether it is there, since an output type may allow `None`.
    """

    id: str
    messages: tuple[Message, ...]
    stop: TurnStop
    started_at: Time
    ended_at: Time
    rounds: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    error: Error | None = None
    session_id: str = ""
    value: Out | None = None
    has_output: bool = False

    @property
    def text(self) -> str:
        """The last thing the model said."""
        spoken = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next(spoken, "")

    @property
    def output(self) -> Out:
        """What the agent was to give: an object of its output type, or text where none was asked for."""
        if self.value is None and not self.has_output:
            hint = self.error.hint if self.error is not None else None
            raise InvalidOutput(f"the turn ended without its output: {_ending(self)}", hint=hint)
        return cast(Out, self.value)


class SessionStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    state: SessionState
    agent: str = ""
    model: str = ""
    turn_id: str | None = None
    tokens_used: int | None = None
    tokens_max: int | None = None
    context_percent: float | None = None
    cost: float | None = None
    pending_approvals: tuple[str, ...] = ()
    questions: tuple[QuestionAsked, ...] = ()
    position: int = 0
    """The seq up to which the session was read; the end of its ledger, right after a `refresh`."""


class HookEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step as a hook sees it. `notes` is the hook's own room, from before to after.

    `user_id` is whose the session is, empty where it is nobody's.
    """

    kind: Literal["model", "tool", "turn", "session"]
    name: str
    session_id: str = ""
    user_id: str = ""
    turn_id: str = ""
    attempt: int = 1
    request: Request | None = None
    response: Response | None = None
    tool_call: ToolCall | None = None
    result: ToolResult | None = None
    error: Error | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    notes: Meta = {}


class GuardrailResult(msgspec.Struct, frozen=True, omit_defaults=True):
    passed: bool
    reason: str = ""
    replacement: str | None = None


class ExecLimits(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`None` is the sandbox's own default, never unlimited; of the network it is none, as a rule."""

    memory_bytes: int | None = None
    disk_bytes: int | None = None
    output_bytes: int | None = None
    processes: int | None = None
    cpu_s: float | None = None
    network: bool | None = None


class ExecResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a command came to. `level` says honestly what held it.

    `exit_code` is 128 + n for a command that was ended by signal n, 127 for one that does not exist and 126
    for one that cannot be started. `truncated`: some of the output was left out of its middle. `oom`: it was
    ended for want of memory. `note` says in words what the sandbox has to say of it, such as why it ended it.
    """

    exit_code: int | None
    level: IsolationLevel
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    truncated: bool = False
    oom: bool = False
    duration_s: float = 0.0
    note: str = ""

    @property
    def text(self) -> str:
        """What it wrote, as text."""
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """What it wrote to the stream of errors, as text."""
        return self.stderr.decode(errors="replace")


class ExecOutput(msgspec.Struct, frozen=True, tag=True):
    """A piece of what a command wrote, while it runs."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class SandboxReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a sandbox holds on this machine, and what it does not, each with how or why not.

    The names are those of the table in docs/security.md, such as `network` or `memory`.
    """

    level: IsolationLevel
    held: dict[str, str] = {}
    missing: dict[str, str] = {}
    hint: str = ""
    """What would have to be installed or allowed for more."""


class SubagentResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    status: Literal["finished", "failed", "cancelled", "budget"]
    output: str = ""
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    cost: float | None = None
    error: Error | None = None
    duration_s: float = 0.0


def _ending(turn: Turn[Out]) -> str:
    return turn.error.message if turn.error is not None else f"it stopped with {turn.stop!r}"
