"""Memory for a model: what it may call, and what it is told when memory fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from gnomon.contracts.tool import Tool, ToolContext, Touches
from gnomon.errors import GnomonError, InvalidInput, ToolFailed
from gnomon.memory._ranking import text_of
from gnomon.tools.function import tool

if TYPE_CHECKING:
    from gnomon.memory.memory import Memory

__all__ = ["MemoryTools"]

log = logging.getLogger("gnomon.memory")

_T = TypeVar("_T")
_Few = Annotated[int, msgspec.Meta(ge=1, le=50)]


class MemoryTools:
    """The tools of one memory. Whose it is comes from the context of the call."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def all(self) -> tuple[Tool, ...]:
        return (self.remember, self.recall, self.forget, self.forget_all)

    @tool(idempotent=True, touches=Touches())
    async def remember(self, key: str, value: str, ctx: ToolContext, only_here: bool = False) -> str:
        """Remember a fact about the user or the task, for later conversations too.

        The same key replaces what was there. Never remember passwords or keys.

        Args:
            key: a short name for the fact, such as favourite_colour
            value: the fact itself, in a sentence
            only_here: true when it matters in this conversation alone
        """
        user_id = self._memory.user_of(ctx)
        if only_here and not ctx.session_id:
            raise ToolFailed("this conversation is not kept, so nothing can be remembered for it alone")
        session_id = ctx.session_id if only_here else ""
        await _told(self._memory.remember(key, value, session_id=session_id, user_id=user_id))
        return "remembered"  # also when it was there: a call that runs again after a crash has one result

    @tool(read_only=True, touches=Touches())
    async def recall(self, query: str, ctx: ToolContext, limit: _Few = 5) -> list[dict[str, str]] | str:
        """Look up what was remembered, in this conversation or an earlier one.

        Args:
            query: words that the fact is likely to hold
            limit: how many facts at most
        """
        user_id = self._memory.user_of(ctx)
        found = await _told(
            self._memory.recall(query, limit, session_id=ctx.session_id, user_id=user_id),
        )
        facts = [{"key": record.key, "value": text_of(record)} for record in found]
        return facts or "nothing is remembered that fits"

    @tool(destructive=True, idempotent=True, touches=Touches())
    async def forget(self, key: str, ctx: ToolContext) -> str:
        """Forget a fact for good.

        Args:
            key: the name under which it was remembered
        """
        user_id = self._memory.user_of(ctx)
        was_there = await _told(self._memory.forget(key, session_id=ctx.session_id, user_id=user_id))
        return "forgotten" if was_there else "nothing is remembered under this key"

    @tool(destructive=True, idempotent=True, touches=Touches())
    async def forget_all(self, ctx: ToolContext) -> str:
        """Forget everything about the user for good. Only when the user asks for it."""
        count = await _told(self._memory.forget_all(self._memory.user_of(ctx)))
        return f"{count} facts forgotten"


async def _told(work: Awaitable[_T]) -> _T:
    """What the memory gives; what goes wrong is told to the model, and the session goes on."""
    try:
        return await work
    except InvalidInput as error:
        raise ToolFailed(str(error)) from error
    except GnomonError as error:
        raise ToolFailed(f"memory cannot be used now: {error}", hint="go on without it") from error
    except Exception as error:
        log.exception("the store of memory failed")
        raise ToolFailed("memory cannot be used now: its store failed", hint="go on without it") from error
