"""The boundary between whoever talks to an agent and the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

from gnomon.types.events import ApprovalRequested, Compacted, RunEvent, SessionEvent
from gnomon.types.messages import Content, Message
from gnomon.types.steps import CancelMode, SessionStatus, Turn

__all__ = [
    "Input",
    "OnLeave",
    "Session",
    "SessionReader",
    "SessionRun",
    "SupportsAnswers",
    "SupportsApprovals",
    "SupportsCompaction",
    "SupportsFork",
    "SupportsResume",
    "SupportsStream",
    "WhenBusy",
]

Input: TypeAlias = Content | Message | Sequence[Content]

WhenBusy: TypeAlias = Literal["queue", "reject", "interrupt", "steer"]
"""What becomes of a message that arrives during a turn."""

OnLeave: TypeAlias = Literal["cancel", "detach"]
"""What becomes of a turn whose reader leaves before its end."""


class SessionReader(Protocol):
    """The events of a session from one place on; a `PullStream` that knows its place.

    Stable once two back ends keep it.

    - `position` must be the seq up to which everything was read: given to `events`
      later, here or elsewhere, it must lose nothing. Deltas of the message that was
      being streamed may come again.
    - leaving the block must let go of the reader, and must not disturb the run.
    """

    @property
    def position(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[SessionEvent]: ...

    def __anext__(self) -> Awaitable[SessionEvent]: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Session(Protocol):
    """One conversation, live.

    Stable once two back ends keep it.

    - `send` must return once the message is durable and the session woken, with
      the id of the message; the same id sent again must be the same message, and must
      change nothing, whatever `when_busy` says.
    - after an error or a cancel the session must be idle again, and take the next
      message (Y1).
    - a message sent during a turn must be queued, rejected with `Conflict`, put in
      the place of the turn (interrupt) or given to it (steer), as the caller says.
      While an approval is pending it must be queued, and interrupt must cancel the
      approval (Y2).
    - `events` may have any number of readers, each from its own place; a slow one
      must not be in the way of the run (Y3).
    - `turn_result` must wait for the latest turn to end, after a `send` for that which
      answers it. A turn that failed must be given with its `error`; before the first turn
      it must raise `RuntimeError`, and `TurnUnfinished` when the turn waits for a person.
    - everything here must behave the same in this process and over a wire (Y4).
    - two processes that open one session must not both run it (Y5).
    - `cancel` must return once the turn has ended or will not go on, and must do
      nothing when none is running.
    - `close` must be safe to call twice; it must not lose or end what is durable.
    """

    @property
    def id(self) -> str: ...

    @property
    def status(self) -> SessionStatus: ...

    async def send(
        self, input: Input, *, when_busy: WhenBusy = "queue", message_id: str | None = None
    ) -> str:
        """Give the session something to answer."""
        ...

    def events(self, after: int = 0) -> SessionReader:
        """What happened after that place, and then what happens."""
        ...

    async def turn_result(self) -> Turn[object]:
        """What the latest turn came to, when it has ended."""
        ...

    async def cancel(self, mode: CancelMode = "now") -> None:
        """End the running turn."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class SupportsAnswers(Protocol):
    """A session in which a call may wait for a person.

    - the answer must be the result of the call, or leave to run it again under the same
      key; of two answers at once one must be taken and the other refused.
    - where the question has options, the answer must be one of them, or several where that is
      allowed; another must raise `InvalidInput`, and the question must stay.
    - one that comes second or too late must raise `ApprovalRefused` while the call is known, and one
      to nothing `NotFound`; neither may change anything else.
    """

    async def answer(
        self,
        content: Content | Sequence[Content] = (),
        *,
        call_id: str | None = None,
        question_id: str | None = None,
        run_again: bool = False,
        by: str = "",
    ) -> None: ...


@runtime_checkable
class SupportsApprovals(Protocol):
    """A session in which a call may have to wait for leave.

    - leave must be given once, for the arguments that were shown: an answer that comes a second time,
      too late, or for other arguments must raise `ApprovalRefused`, must change nothing, and must leave
      an audit row.
    - it may be given from any process, however much later, and after any number of restarts.
    - a call that was denied, or that nobody gave leave for in time, must have the result `denied`; calls
      beside it must not run again.
    """

    async def approvals(self) -> tuple[ApprovalRequested, ...]: ...

    async def approve(
        self,
        approval_id: str | None = None,
        *,
        by: str = "",
        reason: str | None = None,
        always: bool = False,
        arguments_hash: str | None = None,
    ) -> None: ...

    async def deny(
        self, approval_id: str | None = None, *, by: str = "", reason: str | None = None
    ) -> None: ...


@runtime_checkable
class SupportsCompaction(Protocol):
    """A session whose view can be made shorter when somebody wants it to be.

    - the ledger must keep every message, and what is compacted must be written: any runtime that opens
      the session must show its model the same shorter view.
    - it must raise `Conflict` while a turn is open, and `ConfigError` where there is nothing to do it with.
    - `None` must mean that the view is as it was.
    """

    async def compact(self) -> Compacted | None: ...


@runtime_checkable
class SupportsResume(Protocol):
    """A session whose open turn can be gone on with: after a crash, or after its agent was changed.

    - it must raise `Conflict` while another that is alive runs the session, unless
      `take_over` is said; whoever is taken over must write nothing more (Y5).
    """

    async def resume(self, *, take_over: bool = False) -> None: ...


@runtime_checkable
class SupportsFork(Protocol):
    """A session that can be copied up to a place.

    - the copy must have the same events up to `at`, and must end what is open there;
      the original must not change.
    """

    async def fork(self, at: int | None = None, *, session_id: str | None = None) -> Session: ...


class SessionRun(Protocol):
    """One turn of a session as something to read; a `PullStream` that knows what the turn came to.

    Stable once two back ends keep it.

    - `turn` must be there when the events have ended, and must not be before.
    - leaving the block must let go of the reader; whether it also ends the turn is said where the run is
      asked for.
    """

    @property
    def turn(self) -> Turn[object]: ...

    def __aiter__(self) -> AsyncIterator[RunEvent]: ...

    def __anext__(self) -> Awaitable[RunEvent]: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class SupportsStream(Protocol):
    """A session whose turns can be read one at a time, by whoever asks for one.

    - `stream` must send the input when the first event is read, and must then give what happens in
      the turn that answers it, with what is being said, and nothing of any other turn.
    - `follow` must give the rest of the turn that is open when it is called, or of the one that the
      first waiting message begins; `None` when there is neither.
    - `turn` must be there when the events have ended; of a turn that failed it must have the `error`.
      Where the turn, or one before it, waits for a person, the events must end, and `turn` must
      raise `TurnUnfinished`.
    - a reader that leaves before the end must cancel the turn, or with `detach` must not disturb it.
      It must not cancel any other, and a message that no turn has taken must stay.
    """

    def stream(
        self, input: Input, *, when_busy: WhenBusy = "queue", on_leave: OnLeave = "cancel"
    ) -> SessionRun: ...

    async def follow(self, *, on_leave: OnLeave = "detach") -> SessionRun | None: ...
