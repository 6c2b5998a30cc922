"""What stays of a conversation: some messages at its beginning, and a tail as long as there is room for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from gnomon.compactors._marks import mark_of
from gnomon.compactors._pairs import between_exchanges, between_pairs
from gnomon.types.messages import Message

__all__ = ["Layout", "Plan"]


class Plan(NamedTuple):
    """The places before `start` that stay; the rest up to there goes, and all from there on stays."""

    kept: tuple[int, ...]
    start: int

    def head(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(messages[place] for place in self.kept)

    def tail(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(messages[self.start :])

    def dropped(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        kept = set(self.kept)
        return tuple(messages[place] for place in range(self.start) if place not in kept)


class Layout:
    """A conversation of which the tokens of each message are known.

    The system prompt, the first message of the user and the last one must stay. With `summaries` the last
    summary stays too, where there is room beside them, and instructions that were given on the way stay in
    half of what is left then, the newest of them first.
    """

    def __init__(self, messages: Sequence[Message], sizes: Sequence[int], *, summaries: bool) -> None:
        self._sizes = sizes
        self._after = [0, *accumulate(reversed(sizes))][::-1]
        self._must = _required(messages)
        self._summaries = _summaries(messages)[:1] if summaries else []
        self._instructions = _instructions(messages, self._must)
        self._safe = between_pairs(messages)
        self._good = between_exchanges(messages, self._safe)

    def plan(self, limit: int, most: int) -> Plan | None:
        """The longest tail with which the estimate stays within the limit.

        Where the last exchange alone is over it, the plan is that exchange, as long as it is within `most`.
        `None` when there is no plan.
        """
        for places in filter(None, (self._good, self._safe)):
            kept = self._kept(places, limit)
            before = self._sums(kept)
            costs = [before[place] + self._after[place] for place in places]  # from the highest on
            at = bisect_left(costs, True, key=lambda cost: cost <= limit)
            if at < len(places) or costs[-1] <= most:
                return _plan(kept, places[min(at, len(places) - 1)])
        return None

    def least(self) -> Plan:
        """The shortest tail, and nothing before it that need not be there."""
        return _plan(self._must, self._safe[-1] if self._safe else 0)

    def _kept(self, places: Sequence[int], limit: int) -> set[int]:
        last = places[-1]
        spare = limit - self._sums(self._must)[last] - self._after[last]
        kept, spare = self._added(self._must, self._summaries, last, spare)
        return self._added(kept, self._instructions, last, spare // 2)[0]

    def _added(self, kept: set[int], more: Sequence[int], last: int, spare: int) -> tuple[set[int], int]:
        """Those that there is room for, and the room that is left."""
        found = set(kept)
        for place in more:
            if place < last and self._sizes[place] <= spare:
                spare -= self._sizes[place]
                found.add(place)
        return found, spare

    def _sums(self, kept: set[int]) -> list[int]:
        """For every place, what those that are kept before it come to."""
        sizes = (size if place in kept else 0 for place, size in enumerate(self._sizes))
        return [0, *accumulate(sizes)]


def _plan(kept: Iterable[int], start: int) -> Plan:
    return Plan(tuple(sorted(place for place in kept if place < start)), start)


def _required(messages: Sequence[Message]) -> set[int]:
    """The system prompt, and what the user said first and last. A compactor's words are not the user's."""
    prompt = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    places = range(len(messages))
    first = next((at for at in places if _is_users(messages[at])), None)
    last = next((at for at in reversed(places) if _is_users(messages[at])), None)
    return {*range(prompt), *(at for at in (first, last) if at is not None)}


def _is_users(message: Message) -> bool:
    return message.role == "user" and mark_of(message) is None and not message.tool_results


def _summaries(messages: Sequence[Message]) -> list[int]:
    """From the newest on."""
    marks = ((at, mark_of(messages[at])) for at in reversed(range(len(messages))))
    return [at for at, mark in marks if mark is not None and mark.kind == "summary"]


def _instructions(messages: Sequence[Message], prompt: set[int]) -> list[int]:
    """From the newest on, without the prompt."""
    places = reversed(range(len(messages)))
    return [at for at in places if messages[at].role == "system" and at not in prompt]
