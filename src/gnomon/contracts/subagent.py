"""An agent at work for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from gnomon.contracts.session import Input, SessionReader
from gnomon.types.steps import SessionStatus, SubagentResult

__all__ = ["Subagent", "SupportsSubagents"]


@runtime_checkable
class Subagent(Protocol):
    """A child session that works for its parent.

    Experimental.

    - it must have a session, a ledger and a budget of its own, and must not go
      deeper than the limit of depth.
    - its approvals must surface at the root.
    - a cancel of the parent must reach it, and its spend must count at the parent.
    - it must not count as read-only, whatever its tools are.
    - `wait` may be called any number of times, and must give the same result.
    - a failure, a cancel or a budget that is used up must be a result, not an
      exception.
    - `events` and `send` must keep what `Session` promises of them (Y3).
    """

    @property
    def id(self) -> str: ...

    @property
    def status(self) -> SessionStatus: ...

    def events(self, after: int = 0) -> SessionReader:
        """What happened after that place, and then what happens."""
        ...

    async def send(self, input: Input) -> str:
        """Tell it more; the id of the message comes back."""
        ...

    async def wait(self) -> SubagentResult:
        """What it came to, when it has ended."""
        ...

    async def cancel(self) -> None: ...


@runtime_checkable
class SupportsSubagents(Protocol):
    """A session whose sub-agents can be watched, told more, waited for and cancelled.

    Experimental.

    - it must give those of the latest turn, in the order in which they were started, from
      any process, and when they have ended too.
    """

    async def subagents(self) -> Sequence[Subagent]: ...
