"""What was put into a vendor's words once is not put into them again: a conversation grows at its end.

Its messages are taken in runs of a few. A run that is sent for the second time is kept: many a
conversation is sent once. It is known by the rules that it was written under and by the identities of
its messages, which it holds. Messages are frozen; whoever changes what is inside of one, its `meta`,
has to make a new one for it to be sent anew.

Bounded in two generations: what is asked for again moves to the young one, and when that is
full, it becomes the old one and the old one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from operator import is_
from typing import NamedTuple, TypeAlias

import msgspec

from gnomon.types.messages import Message

__all__ = ["RUN", "SENT", "Run", "Runs"]

RUN = 64

_MOST_BYTES = 32_000_000
_EACH_BYTES = 500 * RUN
"""What a run counts for beside its text: its messages, as objects."""

_MARK_BYTES = 250
_RULES = 16

_Key: TypeAlias = tuple[int, int, int]
_Messages: TypeAlias = tuple[Message, ...]


class Run(NamedTuple):
    """Some messages; `words` is `None` when they cannot be written without what stands around them."""

    messages: _Messages
    words: msgspec.Raw | None


class Runs:
    """A bounded memory of encoded messages. Threads may use it at once: at worst, two encode the same."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._young: dict[_Key, Run] = {}
        self._old: dict[_Key, Run] = {}
        self._bytes = 0
        self._rules: list[tuple[int, object]] = []
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(
        self, messages: _Messages, rules: object, encode: Callable[[_Messages], bytes | None]
    ) -> Iterator[Run]:
        """The messages in runs; the last is what is too short for one, and has no words.

        `rules` is all that shapes what `encode` gives beside the messages: equal rules, equal words.
        """
        full = len(messages) - len(messages) % RUN
        rule = self._number_of(rules) if full else 0
        for at in range(0, full, RUN):
            yield self._run(rule, messages[at : at + RUN], encode)
        yield Run(messages[full:], None)

    def _run(self, rule: int, messages: _Messages, encode: Callable[[_Messages], bytes | None]) -> Run:
        key = (rule, id(messages[0]), id(messages[-1]))
        known = self._young.get(key)
        if known is not None and _is_same(known.messages, messages):
            return known
        known = known or self._old.get(key)
        if known is None:
            self._keep(key, _ONCE, _MARK_BYTES)
            return Run(messages, None)
        if not _is_same(known.messages, messages):
            words = encode(messages)
            known = Run(messages, msgspec.Raw(words) if words else None)
        self._keep(key, known, _EACH_BYTES + 2 * len(known.words or b""))
        return known

    def _keep(self, key: _Key, run: Run, size: int) -> None:
        if size > self._most_bytes // 8:
            return  # with images in it, say: it would drive all the others out
        if self._bytes + size > self._most_bytes // 2:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[key] = run
        self._bytes += size

    def _number_of(self, rules: object) -> int:
        """A number for the rules; it is never that of others, also when they are forgotten."""
        for number, known in self._rules:
            if known == rules:
                return number
        number = next(self._numbers)  # in one step: two threads must not give one number to two rules
        self._rules = [(number, rules), *self._rules[: _RULES - 1]]
        return number


_ONCE = Run((), None)
"""Stands for what was sent once."""


def _is_same(kept: _Messages, messages: _Messages) -> bool:
    return len(kept) == len(messages) and all(map(is_, kept, messages))


SENT = Runs()
"""Of all providers in this process, so that the bound is one for all."""
