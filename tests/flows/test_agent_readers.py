"""Readers in processes of their own: they are killed and come back, and so does the runner.

Each event of the ledger is read once. Deltas obey the rule of a reader: a higher attempt clears what was
drawn, the next place is appended; and the message that is then completed is what was drawn.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from agent_terminal import Said
from recorded_effects import entries_of, of_kind
from terminals import STORES, Terminal, Work, terminal, until, work_on

from gnomon.types.codec import decode_event
from gnomon.types.events import (
    AttemptDiscarded,
    Event,
    Live,
    MessageCompleted,
    ModelStarted,
    TextDelta,
    TurnFinished,
)
from storing import opened

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
ROUNDS = 12 if SOAK else 1
PACE_S = 0.03
WORDS = 100


@pytest.fixture(params=STORES)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return work_on(request.param, tmp_path)


class Drawn:
    """What a reader has drawn, by the rule; a new life of it starts with nothing."""

    def __init__(self) -> None:
        self.attempt = (0, 0)
        self.place = 0
        self.text = ""

    def take(self, live: Live) -> None:
        if live.attempt > self.attempt:
            self.attempt, self.place, self.text = live.attempt, 0, ""
        assert live.attempt == self.attempt, "a lower attempt came after a higher one"
        assert live.idx == self.place, "a gap, or the same place twice"
        self.place += 1
        if isinstance(live.event, TextDelta):
            self.text += live.event.text
        elif isinstance(live.event, AttemptDiscarded):
            self.text = ""


def heard(said: Iterable[Said]) -> Iterator[tuple[int, Event]]:
    for line in said:
        yield line.position, decode_event(line.event.encode())


def lives(reader: Terminal) -> list[Live]:
    return [event for _, event in heard(reader.latest) if isinstance(event, Live)]


def position(reader: Terminal) -> int:
    return max((line.position for line in reader.latest), default=0)


async def until_live(reader: Terminal, count: int, attempt: int = 1) -> None:
    """So many deltas of the attempt of that runner."""
    wanted = f"{count} deltas of attempt {attempt}"
    await until(wanted, lambda: sum(live.attempt[0] == attempt for live in lives(reader)) >= count)


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_a_reader_that_dies_and_returns_reads_each_event_once_though_the_runner_died_too(
    work: Work, number: int
) -> None:
    chance = random.Random(SEED * 100 + number)
    read: list[list[Said]] = []
    async with AsyncExitStack() as stack:

        async def started() -> Terminal:
            made = await stack.enter_async_context(terminal(work, PACE_S))
            await made.do("tasks")  # it is up: nothing is to be over before it is asked
            return made

        first, second, *readers = [await started() for _ in range(5)]

        async def reading(after: int) -> Terminal:
            reader = readers.pop()
            reader.begin("read", session="s", after=after)
            read.append(reader.latest)
            return reader

        await first.do("send", session="s", text=f"say {WORDS}")
        reader = await reading(0)
        await until_live(reader, chance.randrange(3, 15))
        await reader.kill()
        reader = await reading(position(reader))
        await until_live(reader, chance.randrange(3, 15))
        await first.kill()
        await second.do("resume", session="s")
        await until_live(reader, chance.randrange(3, 15), attempt=2)
        await reader.kill()
        reader = await reading(position(reader))
        await until("the end of the turn", lambda: any(_is_end(event) for _, event in heard(reader.latest)))
        await second.do("result", session="s")
        ledger_end = position(reader)
    await _check(work, read, ledger_end)


def _is_end(event: Event) -> bool:
    return isinstance(event, TurnFinished)


async def _check(work: Work, read: list[list[Said]], end: int) -> None:
    async with opened(work.url) as storage:
        entries = await entries_of(storage, "s")
    seen: list[tuple[int, Event]] = []
    for life in read:
        drawn = Drawn()
        for at, event in heard(life):
            if isinstance(event, Live):
                drawn.take(event)
            else:
                seen.append((at, event))
                if isinstance(event, MessageCompleted):
                    assert drawn.text == event.message.text
    assert seen == list(enumerate(entries[:end], start=1))
    started = [entry.attempt for entry in of_kind(entries, ModelStarted)]
    assert started == [(1, 1), (2, 1)]
    (completed,) = of_kind(entries, MessageCompleted)
    assert completed.message.text.split() == [f"word{at}" for at in range(WORDS)]


async def test_a_reader_in_another_process_sees_the_deltas_of_every_message_in_full(work: Work) -> None:
    async with terminal(work, 0.02) as owner, terminal(work) as reader:
        await owner.do("run", session="s", text="first")
        reader.begin("read", session="s")
        await until("the first turn", lambda: any(_is_end(event) for _, event in heard(reader.latest)))
        for number in range(3):
            await owner.do("run", session="s", text=f"say {20 + number}")
        ends = 4
        await until("all turns", lambda: sum(_is_end(event) for _, event in heard(reader.latest)) == ends)
        drawn = Drawn()
        for _, event in heard(reader.latest):
            if isinstance(event, Live):
                drawn.take(event)
            elif isinstance(event, ModelStarted):
                drawn = Drawn()
            elif isinstance(event, MessageCompleted) and event.message.text != "re: first":
                assert drawn.text == event.message.text
