"""Something a model may call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, runtime_checkable

from gnomon.types.events import ToolProgress
from gnomon.types.messages import ToolResult
from gnomon.types.touches import Touches

if TYPE_CHECKING:  # a default of a type variable is known to type checkers long before Python 3.13
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=object, covariant=True)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps", covariant=True)

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "Context",
    "Deps",
    "OnUnknown",
    "SupportsEffects",
    "SupportsLookup",
    "SupportsOutputCap",
    "SupportsProgress",
    "SupportsTimeout",
    "SupportsTouches",
    "SupportsUnknown",
    "Tool",
    "ToolContext",
    "Touches",
]


DEFAULT_TIMEOUT_S = 60.0
"""How long a call may take when its tool does not say."""

OnUnknown: TypeAlias = Literal["ask", "tell"]
"""Who is told of a call of which nobody knows whether it had its effect: a person, or the model."""


def _never() -> bool:
    return False


def _no_timer(running: bool) -> None:
    pass


class ToolContext(Generic[Deps]):
    """What a tool is told of the call it serves (T5); `Context[MyDeps]` says what its `deps` are.

    `idempotency_key` comes from the ledger and is the same on every attempt, so
    it can be handed to a service that refuses doubles; `attempt` counts from 1.
    `user_id` is whose the session is, empty where it is nobody's.
    `deps` is whatever the agent's owner wants its tools to have.
    """

    __slots__ = (
        "_is_cancelled",
        "_run_timer",
        "attempt",
        "call_id",
        "deps",
        "idempotency_key",
        "session_id",
        "turn_id",
        "user_id",
    )

    def __init__(
        self,
        *,
        call_id: str,
        session_id: str = "",
        turn_id: str = "",
        user_id: str = "",
        idempotency_key: str = "",
        attempt: int = 1,
        deps: Deps = None,  # pyright: ignore[reportArgumentType] - who gives none reads none
        is_cancelled: Callable[[], bool] = _never,
        run_timer: Callable[[bool], None] = _no_timer,
    ) -> None:
        self.call_id = call_id
        self.session_id = session_id
        self.turn_id = turn_id
        self.user_id = user_id
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        self.deps = deps
        self._is_cancelled = is_cancelled
        self._run_timer = run_timer

    def hold_timer(self) -> None:
        """The call waits for its place: that is not the tool's time. On the event loop only."""
        self._run_timer(False)

    def start_timer(self) -> None:
        """The call has its place: its time limit begins now. On the event loop only."""
        self._run_timer(True)

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted. For code in a thread, which cannot be interrupted."""
        return self._is_cancelled()

    def __repr__(self) -> str:
        # Without `deps`: they may hold secrets, and a repr ends up in logs.
        return (
            f"ToolContext(call_id={self.call_id!r}, session_id={self.session_id!r}, attempt={self.attempt})"
        )


Context = ToolContext
"""The same, as a tool writes it: `ctx: Context[MyDeps]`."""


@runtime_checkable
class Tool(Protocol):
    """Something a model may call.

    Stable since 0.1.

    - `name` must be unique among the tools of an agent, and `description` must
      say to a model what the tool is for.
    - `parameters` must be the JSON Schema of an object, the same on every read.
    - `read_only` must be true only when a call changes nothing: such calls run
      side by side, and run again after a crash.
    - `execute` takes the JSON text of the call as the model wrote it. It must
      check it against `parameters` before it does anything, and must raise
      `InvalidArguments` with a short, exact message that the model reads (T1).
    - the result must carry the `call_id` of the context.
    - `execute` must raise `ToolFailed` to tell the model that it failed; any other
      exception is taken for a bug, and the model is told only that there was one.
    - `execute` must let a cancellation through. The caller ends it after its
      timeout, and may keep only head and tail of a long result (T3).
    - code that blocks must not run on the event loop: it runs in a bounded pool of
      threads. A thread that outlives its timeout is abandoned and replaced; it
      must not touch the session afterwards, and may ask `context.cancelled` (T4).
    - the same `idempotency_key` may be seen again after a crash; an idempotent
      tool must then have its effect once (T5).
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, object]: ...

    @property
    def read_only(self) -> bool: ...

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        """What the call came to."""
        ...


@runtime_checkable
class SupportsProgress(Protocol):
    """A tool that reports while it works.

    - `execute_stream` must yield any number of `ToolProgress`, then one
      `ToolResult`, then nothing (T2).
    - the result must be the one that `execute` would give.
    - closing the generator must stop the work.
    """

    def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]: ...


@runtime_checkable
class SupportsLookup(Protocol):
    """A tool that can find out what became of a call whose outcome is unknown.

    - `lookup` must change nothing.
    - it must give the result when the call with this idempotency key had its
      effect, and `None` when it had none and never will have, so that it is
      safe to call again; when it cannot tell it must raise.
    """

    async def lookup(self, key: str, arguments: str) -> ToolResult | None: ...


@runtime_checkable
class SupportsEffects(Protocol):
    """A tool that says what its side effects are like.

    - `destructive` must be true when a call may undo or delete what was there.
    - `idempotent` must be true only when a second call under the same key has no
      second effect: such a call may run again after a crash.
    """

    @property
    def destructive(self) -> bool: ...

    @property
    def idempotent(self) -> bool: ...


@runtime_checkable
class SupportsTimeout(Protocol):
    """A tool with a time limit of its own.

    - a call must end after `timeout_s` seconds; `None` must be read as the
      caller's default, never as unlimited (T3).
    """

    @property
    def timeout_s(self) -> float | None: ...


@runtime_checkable
class SupportsOutputCap(Protocol):
    """A tool that says how much of its result a model should see.

    - of a longer text the caller must keep head and tail, and say what it left out;
      `None` must be read as the caller's default, never as unlimited (T3).
    """

    @property
    def max_output_chars(self) -> int | None: ...


@runtime_checkable
class SupportsUnknown(Protocol):
    """A tool that says what becomes of a call whose outcome nobody can find out.

    - with "ask" the session must wait for a person; with "tell" the model must get a
      result of status `unknown`. In neither case may the call be run again in silence.
    """

    @property
    def on_unknown(self) -> OnUnknown: ...


@runtime_checkable
class SupportsTouches(Protocol):
    """A tool that says what a call would touch, so that rules are about that and not about texts.

    - `touches` must change nothing, must be quick, and must not raise: arguments
      that it cannot read must give an `unknown`, with `is_refused` where they can never be of use.
    - it must name everything, or set `unknown`. What its commands do by themselves need not be named.
    """

    def touches(self, arguments: str) -> Touches: ...
