"""When a conversation is too long for its model, and what it then becomes.

What is left out is left out of the view alone: the ledger keeps every message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon._begun import Overdue, within
from gnomon.contracts.compactor import Ask, Compactor, SupportsAsking
from gnomon.contracts.counter import TokenCounter
from gnomon.engine.fold import Fold
from gnomon.errors import ContextTooLong, GnomonError
from gnomon.types.events import Compacted
from gnomon.types.messages import Message
from gnomon.types.requests import Usage

__all__ = ["Compaction", "Context"]

log = logging.getLogger("gnomon.context")

_Reason: TypeAlias = Literal["budget", "too_long", "asked"]

LIMIT_S = 300.0
"""How long a compaction may take."""

_FULL = 0.8
"""How much of its window a conversation may take: the answer and the tools need room too."""
_AFTER = 0.5
"""How much of that a compaction leaves, so that the next one is not due at once."""
_UNKNOWN_WINDOW = 128_000


class Compaction(msgspec.Struct, frozen=True):
    """What a compactor made of a view: a head, and then what stands from a place on."""

    view_start: int
    head: tuple[Message, ...]
    messages: tuple[Message, ...]


class Context:
    """How long the conversations of an agent may grow. `window` is what its model is known to take."""

    def __init__(
        self,
        compactor: Compactor,
        counter: Callable[[], TokenCounter],
        *,
        limit: int | None,
        window: int | None,
    ) -> None:
        self._compactor = compactor
        self._make_counter = counter
        self.limit = limit if limit is not None else int((window or _UNKNOWN_WINDOW) * _FULL)
        given: object = getattr(compactor, "name", None)
        self.name = given if isinstance(given, str) and given else type(compactor).__name__

    @cached_property
    def _counter(self) -> TokenCounter:
        return self._make_counter()

    def is_full(self, fold: Fold, new: Sequence[Message]) -> bool:
        """Whether the next question would be too long, with messages that are about to be taken."""
        return self._size(fold) + (self._counter.count_messages(new) if new else 0) > self.limit

    def _size(self, fold: Fold) -> int:
        """What was reported last, where something was, and an estimate of what came after it."""
        completed = fold.turn.completed if fold.turn is not None else None
        messages = fold.messages
        if completed is not None:
            for at in range(len(messages) - 1, -1, -1):
                if messages[at] is completed.response.message:
                    known = _tokens(completed.response.usage)
                    if known:
                        return known + self._counter.count_messages(messages[at + 1 :])
                    break
        return self._counter.count_messages(messages)

    async def compacted(
        self,
        fold: Fold,
        reason: _Reason,
        ask: Ask,
        *,
        turn_id: str = "",
        new: Sequence[Message] = (),
    ) -> Compacted | None:
        """The shorter view; `None` where it cannot be shorter. What a compactor fails with is raised."""
        before = self._counter.count_messages(fold.messages)
        budget = min(int(self.limit * _AFTER), int(before * _AFTER) if reason != "budget" else self.limit)
        messages = await self._compact(tuple(fold.messages), max(budget - self._of(new), 1), ask)
        if len(messages) == len(fold.messages) and all(map(_same, messages, fold.messages)):
            return None
        after = self._counter.count_messages(messages)
        if after >= before and after > self.limit:
            raise ContextTooLong(f"compactor {self.name!r} made {after} tokens of {before}")
        return self._entry(fold, messages, (before, after), reason, turn_id)

    def unchanged(self, fold: Fold) -> Compacted:
        """The view as it is: all there is to tell is what was spent on a shorter one."""
        tokens = self._counter.count_messages(fold.messages)
        return self._entry(fold, tuple(fold.messages), (tokens, tokens), "asked", "")

    def _entry(
        self,
        fold: Fold,
        messages: tuple[Message, ...],
        tokens: tuple[int, int],
        reason: _Reason,
        turn_id: str,
    ) -> Compacted:
        made = _compaction(fold, messages)
        return Compacted(
            turn_id=turn_id,
            view_start=made.view_start,
            tokens_before=tokens[0],
            tokens_after=tokens[1],
            head=made.head,
            reason=reason,
            compactor=self.name,
            messages_before=len(fold.messages),
            messages_after=len(messages),
        )

    def _of(self, messages: Sequence[Message]) -> int:
        return self._counter.count_messages(messages) if messages else 0

    async def _compact(self, messages: tuple[Message, ...], budget: int, ask: Ask) -> tuple[Message, ...]:
        try:
            if isinstance(self._compactor, SupportsAsking):
                work = self._compactor.compact_asking(messages, budget, ask)
            else:
                work = self._compactor.compact(messages, budget)
            made = cast(object, await within(work, LIMIT_S))
        except Overdue as error:
            raise ContextTooLong(f"compactor {self.name!r} failed: took over {LIMIT_S:g} seconds") from error
        except GnomonError as error:
            error.message = f"compactor {self.name!r}: {error.message}"
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ContextTooLong(f"compactor {self.name!r} failed: {what}") from error
        return self._checked(made)

    def _checked(self, made: object) -> tuple[Message, ...]:
        if not isinstance(made, tuple | list):
            raise ContextTooLong(f"compactor {self.name!r} gave {type(made).__name__}, not messages")
        messages = cast("Sequence[object]", made)
        if not messages or not all(isinstance(each, Message) for each in messages):
            raise ContextTooLong(f"compactor {self.name!r} gave something else than messages")
        found = tuple(cast("Sequence[Message]", messages))
        _check_calls(found, self.name)
        return found


def _compaction(fold: Fold, messages: tuple[Message, ...]) -> Compaction:
    """The longest tail that is kept as it stands; whatever comes before it is written out.

    A message that waited for its turn stands before others that are shown before it. The tail begins
    after all that is left out.
    """
    old, places = fold.messages, fold.places
    kept = 0
    while kept < min(len(old), len(messages)) and _same(old[-1 - kept], messages[-1 - kept]):
        kept += 1
    # What an earlier one has left out stands before the view, too, and must not come back.
    while kept and min(places[len(old) - kept :]) <= max((*places[: len(old) - kept], fold.view_start - 1)):
        kept -= 1
    start = min(places[len(old) - kept :]) if kept else fold.seq + 1
    return Compaction(start, messages[: len(messages) - kept], messages)


def _same(one: Message, other: Message) -> bool:
    return one is other or one == other


def _check_calls(messages: Sequence[Message], name: str) -> None:
    """No model is shown a call without its result, whatever a compactor does."""
    called = {call.id for message in messages for call in message.tool_calls}
    answered = {result.call_id for message in messages for result in message.tool_results}
    if called != answered:
        raise ContextTooLong(f"compactor {name!r} parted a call from its result")


def _tokens(usage: Usage) -> int | None:
    return None if usage.estimated or usage.input_tokens is None else usage.total_tokens
