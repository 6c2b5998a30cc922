"""What happens: the events of one response, and the events of a session.

Both are the wire format from provider to UI. All serialise, none holds a live
object, and a reader carries a kind it does not know as `Unknown`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gnomon.types.messages import Message, Meta, Part, ToolCall, ToolResult
from gnomon.types.records import Time
from gnomon.types.requests import Response, Spent, StopReason, Usage

__all__ = [
    # of one response
    "AttemptDiscarded",
    "Done",
    "Error",
    "Finish",
    "PartEnd",
    "ProviderEvent",
    "StreamEvent",
    "StreamWarning",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "Unknown",
    "UsageUpdate",
    # of a session
    "ApprovalDecided",
    "ApprovalRequested",
    "BudgetWarning",
    "CancelRequested",
    "Claimed",
    "Compacted",
    "Event",
    "Guarded",
    "GuardedAt",
    "LedgerEntry",
    "Live",
    "MessageCompleted",
    "MessageReceived",
    "ModelStarted",
    "QuestionAnswered",
    "QuestionAsked",
    "Released",
    "RunEvent",
    "SessionEvent",
    "SubagentFinished",
    "SubagentStarted",
    "ToolFinished",
    "ToolIntent",
    "ToolProgress",
    "TurnCancelled",
    "TurnFailed",
    "TurnFinished",
    "TurnPaused",
    "TurnResumed",
    "TurnStarted",
    "TurnStop",
    "WIRE_VERSION",
]

WIRE_VERSION = 1


# --- the events of one response -------------------------------------------
# `index` is the block an event belongs to; blocks may interleave. The structs
# without containers are not tracked by the garbage collector: there are many.


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta", gc=False):
    """The next piece of a text."""

    index: int
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta", gc=False):
    """The next piece of what the model thinks."""

    index: int
    text: str


class ToolCallStart(msgspec.Struct, frozen=True, tag="tool_call_start", gc=False):
    """The model begins to call a tool; the arguments follow."""

    index: int
    id: str
    name: str


class ToolCallDelta(msgspec.Struct, frozen=True, tag="tool_call_delta", gc=False):
    """The next piece of the argument text."""

    index: int
    id: str
    arguments: str


class ToolCallEnd(msgspec.Struct, frozen=True, tag="tool_call_end"):
    """The whole call: complete JSON text, or `truncated`."""

    index: int
    call: ToolCall

    @property
    def truncated(self) -> bool:
        return self.call.truncated


class PartEnd(msgspec.Struct, frozen=True, tag="part_end"):
    """The whole part, with signature and meta. Its text is the sum of its deltas."""

    index: int
    part: Part


class UsageUpdate(msgspec.Struct, frozen=True, tag="usage"):
    """A snapshot for this one response: it replaces the one before."""

    usage: Usage


class StreamWarning(msgspec.Struct, frozen=True, tag="warning", gc=False):
    """Something was moved, rewritten or dropped, and is not passed over in silence."""

    message: str
    code: str = "warning"


class AttemptDiscarded(msgspec.Struct, frozen=True, tag="attempt_discarded", omit_defaults=True):
    """Forget what was shown of this response: it starts again. Its spend is kept.

    `provider` and `model` name whose attempt it was.
    """

    reason: str
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None


class Finish(msgspec.Struct, frozen=True, tag="finish", omit_defaults=True, kw_only=True):
    """The last word of a provider; `Stream` makes the one `Done` out of it.

    `provider` names who answered, where that is another than was asked; `discarded` is what was
    spent before on attempts of which nothing was shown.
    """

    stop_reason: StopReason
    id: str | None = None
    raw_stop_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    discarded: tuple[Spent, ...] = ()


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The end of one response, which it carries whole."""

    response: Response


class Error(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """A failure, on a wire only: inside the process it is an exception."""

    code: str
    message: str
    retryable: bool = False
    hint: str | None = None


class Unknown(msgspec.Struct, frozen=True, tag="unknown", omit_defaults=True):
    """A kind of event that only a newer peer knows: carried, not drawn."""

    kind: str
    data: Meta = {}


StreamEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | PartEnd
    | UsageUpdate
    | StreamWarning
    | AttemptDiscarded
    | Done
    | Error
    | Unknown
)
"""One step in the making of one response."""

ProviderEvent: TypeAlias = StreamEvent | Finish
"""What a provider may yield: the events of a stream and, last, `Finish`."""


# --- the events of a session ----------------------------------------------

TurnStop: TypeAlias = StopReason | Literal["rounds", "tokens", "seconds", "cost", "cancelled", "failed"]
"""Why a turn ended: the model's reason, the limit that was reached, or what cut it short."""


class Claimed(msgspec.Struct, frozen=True, tag="claimed", gc=False):
    """A runner takes the session: whoever held it before may not go on. `epoch` counts the claims."""

    owner: str
    epoch: int


class Released(msgspec.Struct, frozen=True, tag="released", gc=False):
    """The runner of that epoch lets go of the session."""

    owner: str
    epoch: int


class MessageReceived(msgspec.Struct, frozen=True, tag="message_received", omit_defaults=True):
    """A message from outside. It waits until a turn takes it; one that steers goes to the running turn."""

    message_id: str
    message: Message
    steer: bool = False
    joins_next: bool = False
    """Whether it is answered together with the message after it."""


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started"):
    """An agent begins to answer. `inputs` are the messages it answers; none named are all that wait."""

    turn_id: str
    agent: str
    model: str
    agent_hash: str = ""
    version: int = WIRE_VERSION
    inputs: tuple[str, ...] = ()


class ModelStarted(msgspec.Struct, frozen=True, tag="model_started", omit_defaults=True):
    """The model is about to be asked. `attempt` is (epoch, n); `inputs` are messages that steer it now."""

    turn_id: str
    message_id: str
    attempt: tuple[int, int]
    inputs: tuple[str, ...] = ()


class MessageCompleted(msgspec.Struct, frozen=True, tag="message_completed", omit_defaults=True):
    """The model's message is final: it replaces whatever a reader drew from deltas.

    `cost` is in US dollars, with the attempts that failed on the way; `None` when a price is unknown.
    """

    turn_id: str
    message_id: str
    response: Response
    cost: float | None = None

    @property
    def message(self) -> Message:
        return self.response.message


class ToolIntent(msgspec.Struct, frozen=True, tag="tool_intent", gc=False):
    """A tool with side effects is about to run, under this key."""

    turn_id: str
    call_id: str
    name: str
    key: str


class ToolProgress(msgspec.Struct, frozen=True, tag="tool_progress"):
    """What a tool reports while it works."""

    turn_id: str
    call_id: str
    content: tuple[Part, ...]


class ToolFinished(msgspec.Struct, frozen=True, tag="tool_finished", omit_defaults=True):
    """A call has its one result. Where it was too long for the model, `full` is the text before the cut."""

    turn_id: str
    result: ToolResult
    duration_s: float = 0.0
    full: str = ""


class QuestionAsked(msgspec.Struct, frozen=True, tag="question_asked", omit_defaults=True):
    """A call waits for a person: its tool asks something, or it is not known whether it had its effect.

    `unknown` is the second: the answer is then what became of the call, or leave to run it again. Where there
    are `options` the answer is one of them; with `multiple` it may be several. `path` names the sub-agents
    above, outermost first: one that has a path is told at the root, and answered in the sub-agent.
    """

    turn_id: str
    call_id: str
    question: str
    options: tuple[str, ...] = ()
    unknown: bool = False
    multiple: bool = False
    question_id: str = ""
    expires_at: Time | None = None
    path: tuple[str, ...] = ()


class QuestionAnswered(msgspec.Struct, frozen=True, tag="question_answered", omit_defaults=True):
    """A person answers for a call: the answer is its result, unless it is to run again.

    Or nobody did in time, and `expired` is all there is to say.
    """

    call_id: str
    content: tuple[Part, ...] = ()
    run_again: bool = False
    by: str = ""
    question_id: str = ""
    expired: bool = False


class CancelRequested(msgspec.Struct, frozen=True, tag="cancel_requested", omit_defaults=True):
    """Somebody wants the running turn to end: at once, or when the step under way is done."""

    mode: Literal["now", "after_step"] = "now"
    reason: str = ""


class TurnPaused(msgspec.Struct, frozen=True, tag="turn_paused", omit_defaults=True):
    """The turn waits: the agent is defined otherwise now than when it began."""

    turn_id: str
    agent_hash: str
    reason: str = ""


class TurnResumed(msgspec.Struct, frozen=True, tag="turn_resumed", omit_defaults=True):
    """Somebody lets a paused turn go on under the definition of that hash."""

    turn_id: str
    agent_hash: str
    by: str = ""


class ApprovalRequested(msgspec.Struct, frozen=True, tag="approval_requested", omit_defaults=True):
    """A call waits for leave. `arguments_hash` binds the answer to what was shown.

    `reason` is the rule or the mode that asks, `rule` what an answer with "always" saves. `path` names the
    sub-agents above, outermost first: one that has a path is told at the root, and decided in the sub-agent.
    """

    turn_id: str
    approval_id: str
    call: ToolCall
    arguments_hash: str
    expires_at: Time | None = None
    path: tuple[str, ...] = ()
    reason: str = ""
    rule: str = ""


class ApprovalDecided(msgspec.Struct, frozen=True, tag="approval_decided", omit_defaults=True):
    """Somebody answered a request for leave, or nobody did in time. `rule` holds from now on, here."""

    approval_id: str
    decision: Literal["approved", "denied", "expired"]
    by: str
    reason: str | None = None
    rule: str = ""


GuardedAt: TypeAlias = Literal["input", "output", "tool_arguments", "tool_results"]


class Guarded(msgspec.Struct, frozen=True, tag="guarded", omit_defaults=True, kw_only=True):
    """A guardrail did not let a text pass: it was replaced, or else the turn ends.

    `message_id` is the message it stood in, `call_id` the call it belongs to. Of an input, `message` is what
    the model is shown in its place; without one it is shown nothing of it, now and later.
    """

    turn_id: str
    guardrail: str
    position: GuardedAt
    reason: str
    message_id: str = ""
    call_id: str = ""
    replaced: bool = False
    message: Message | None = None


class Compacted(msgspec.Struct, frozen=True, tag="compacted", omit_defaults=True):
    """The view of the model starts later; the ledger keeps everything.

    It is `head`, then what stands from `view_start` on. `reason` is what it was done for; `usage` and
    `cost` are those of the model that made the summary.
    """

    turn_id: str
    view_start: int
    tokens_before: int
    tokens_after: int
    summary: Message | None = None
    head: tuple[Message, ...] = ()
    reason: Literal["budget", "too_long", "asked"] = "budget"
    compactor: str = ""
    messages_before: int = 0
    messages_after: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0


class SubagentStarted(msgspec.Struct, frozen=True, tag="subagent_started", gc=False, omit_defaults=True):
    """A sub-agent begins its work for a call, in a session of its own."""

    turn_id: str
    subagent_id: str
    session_id: str
    name: str
    call_id: str = ""


class SubagentFinished(msgspec.Struct, frozen=True, tag="subagent_finished", omit_defaults=True):
    """A sub-agent has ended, with this output; what it used counts here too."""

    turn_id: str
    subagent_id: str
    status: Literal["finished", "failed", "cancelled", "budget"]
    usage: Usage = Usage()
    cost: float | None = None
    output: str = ""
    error: Error | None = None


class BudgetWarning(msgspec.Struct, frozen=True, tag="budget_warning", gc=False):
    """A limit is near."""

    turn_id: str
    kind: Literal["rounds", "tokens", "seconds", "cost"]
    used: float
    limit: float


class TurnFinished(msgspec.Struct, frozen=True, tag="turn_finished", omit_defaults=True):
    """The turn is over; the next message may come."""

    turn_id: str
    stop: TurnStop
    rounds: int
    usage: Usage = Usage()
    cost: float | None = None


class TurnFailed(msgspec.Struct, frozen=True, tag="turn_failed", omit_defaults=True):
    """The turn ended with an error; the next message may come."""

    turn_id: str
    error: Error
    usage: Usage = Usage()
    cost: float | None = None


class TurnCancelled(msgspec.Struct, frozen=True, tag="turn_cancelled", omit_defaults=True):
    """The turn was ended from outside; the next message may come."""

    turn_id: str
    reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None


LedgerEntry: TypeAlias = (
    Claimed
    | Released
    | MessageReceived
    | TurnStarted
    | ModelStarted
    | MessageCompleted
    | ToolIntent
    | ToolProgress
    | ToolFinished
    | QuestionAsked
    | QuestionAnswered
    | CancelRequested
    | TurnPaused
    | TurnResumed
    | ApprovalRequested
    | ApprovalDecided
    | Guarded
    | Compacted
    | SubagentStarted
    | SubagentFinished
    | BudgetWarning
    | TurnFinished
    | TurnFailed
    | TurnCancelled
)
"""The session's own events; `ToolProgress` alone is shown and not kept."""

RunEvent: TypeAlias = StreamEvent | LedgerEntry
"""What `agent.stream(…)` yields: the model's deltas and the turn's own events, in one order."""


class Live(msgspec.Struct, frozen=True, tag="live"):
    """A stream event of the running attempt, with its place.

    `attempt` is (epoch, n), so a recovered run never uses a number again. A reader
    clears on a higher attempt, appends the next `idx`, and drops a lower one.
    """

    session_id: str
    turn_id: str
    message_id: str
    attempt: tuple[int, int]
    idx: int
    event: StreamEvent


SessionEvent: TypeAlias = LedgerEntry | Live | Error | Unknown
"""What a reader of a session sees."""

Event: TypeAlias = RunEvent | Live
"""Anything that may stand on a line of the wire."""
