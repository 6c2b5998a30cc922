"""The front doors of an agent, and what stands beside its steps: for tests of how an agent is wired."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import pytest

from gnomon import Agent, StreamFold
from gnomon.contracts.guardrail import Position, View
from gnomon.contracts.hook import Step
from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.stream import PullStream
from gnomon.types.events import ApprovalRequested, Event, RunEvent, TextDelta
from gnomon.types.requests import Request, Usage
from gnomon.types.steps import GuardrailResult, HookEvent, Turn

__all__ = [
    "DOORS",
    "PRICES",
    "USED",
    "Around",
    "Diary",
    "Told",
    "Word",
    "WordByWord",
    "ask_and_read",
    "asked_of",
    "entries",
    "texts",
]

PRICES = {"scripted:*": {"input_price": 1.0, "output_price": 10.0}}
USED = Usage(input_tokens=100_000, output_tokens=10_000)
"""At these prices 0.2 dollars."""


class Told(NamedTuple):
    """What a door gave: the turn, and its events where there were any to read."""

    turn: Turn[Any]
    events: Sequence[RunEvent] = ()

    @property
    def deltas(self) -> str:
        """All the text that was streamed, whatever came of it."""
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))


async def ask_and_read(run: Any) -> Told:
    """A run read to its end: what was streamed comes to what the turn says."""
    fold, events = StreamFold(), []
    async with run:
        async for event in run:
            fold.add(event)
            events.append(event)
    assert fold.message.text == run.turn.text
    return Told(run.turn, events)


async def by_run(agent: Agent[Any], prompt: str) -> Told:
    return Told(await agent.run(prompt))


async def by_stream(agent: Agent[Any], prompt: str) -> Told:
    return await ask_and_read(agent.stream(prompt))


async def in_a_session(agent: Agent[Any], prompt: str) -> Told:
    async with agent.session() as session:
        return Told(await session.run(prompt))


Door = Callable[[Agent[Any], str], Awaitable[Told]]

DOORS = pytest.mark.parametrize("ask", [by_run, by_stream, in_a_session])
"""Each of them is to be wired alike."""


async def asked_of(session: Any, prompt: str) -> ApprovalRequested:
    """What a turn waits for leave for, once it does."""
    async with session.stream(prompt, on_leave="detach") as run:
        asked = [event async for event in run if isinstance(event, ApprovalRequested)]
    return asked[-1]


async def entries(storage: Storage, session_id: str) -> list[Event]:
    """What a ledger says, from its first event on."""
    return [read.entry for read in await Ledger(storage, session_id).refresh()]


def texts(request: Request) -> list[str]:
    """What a model is shown, message by message."""
    return [message.text for message in request.messages]


class Diary:
    """A hook that writes down what it sees, into a book that it may share with others."""

    def __init__(self, name: str = "diary", book: list[tuple[str, str, HookEvent]] | None = None) -> None:
        self.name = name
        self.book = [] if book is None else book

    async def before(self, event: HookEvent) -> None:
        self.book.append((self.name, "before", event))

    async def after(self, event: HookEvent) -> None:
        self.book.append((self.name, "after", event))

    def pages(self, kind: str, when: str = "after") -> list[HookEvent]:
        return [event for _, at, event in self.book if event.kind == kind and at == when]


class Around(Diary):
    """One that also stands around the steps, and may change them."""

    def __init__(self, change: Callable[[HookEvent], HookEvent] | None = None, **given: Any) -> None:
        super().__init__(**given)
        self._change = change or (lambda event: event)

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        self.book.append((self.name, "around", event))
        return await call(self._change(event))


class Word:
    """A guardrail against a word: it stops the turn, or puts another in its place."""

    def __init__(self, word: str, *positions: Position, by: str | None = None) -> None:
        self.name = f"no {word}"
        self.positions = frozenset(positions)
        self.shown: list[str] = []
        self._word, self._by = word, by

    async def check(self, content: str) -> GuardrailResult:
        self.shown.append(content)
        if self._word not in content:
            return GuardrailResult(passed=True)
        replacement = None if self._by is None else content.replace(self._word, self._by)
        return GuardrailResult(passed=False, reason=f"it says {self._word}", replacement=replacement)


class WordByWord(Word):
    """The same, which need not see the whole of a text."""

    def __init__(self, word: str, *positions: Position, view: View, by: str | None = None) -> None:
        super().__init__(word, *positions, by=by)
        self.view = view
