"""What a reader of a session gets that comes back late: all that was said, in its place."""

from __future__ import annotations

import asyncio

import pytest

from gnomon.engine.ledger import Ledger
from gnomon.engine.live import Channel
from gnomon.session._reader import Reader
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import (
    Claimed,
    Live,
    MessageReceived,
    ModelStarted,
    TextDelta,
    TurnCancelled,
    TurnStarted,
)
from gnomon.types.messages import Message


async def test_what_was_said_while_the_reader_was_busy_is_shown_before_what_ends_it() -> None:
    ledger = await Ledger.open(MemoryStorage(), "s")
    await ledger.receive(MessageReceived("a", Message.user("Count.")))
    channel = Channel("s")

    async def opened() -> Ledger:
        return ledger

    async with asyncio.timeout(10), Reader(opened, channel, "here", 0) as reader:
        channel.begin("turn", "msg", (1, 1), 1)
        channel.put(TextDelta(0, "One "))
        seen = [await anext(reader), await anext(reader)]
        channel.put(TextDelta(0, "two "))
        channel.put(TextDelta(0, "three."))
        channel.end()
        await ledger.receive(TurnCancelled("turn", "enough"))
        await asyncio.sleep(0.01)  # its end stands in the ledger before the reader comes back
        seen += [await anext(reader) for _ in range(3)]
    assert [event.event.text for event in seen if isinstance(event, Live)] == ["One ", "two ", "three."]
    assert isinstance(seen[-1], TurnCancelled)


@pytest.mark.parametrize("comes_late", [True, False])
async def test_what_a_runner_says_that_was_superseded_is_not_shown(comes_late: bool) -> None:
    """It has not heard of it yet; the message is said anew by another."""
    ledger = await Ledger.open(MemoryStorage(), "s")
    await ledger.receive(
        MessageReceived("a", Message.user("Count.")),
        Claimed("here", 1),
        TurnStarted("turn", "agent", "m", inputs=("a",)),
        ModelStarted("turn", "msg", (1, 1)),
    )
    channel = Channel("s")
    channel.begin("turn", "msg", (1, 1), 4)

    async def opened() -> Ledger:
        return ledger

    async def taken_over() -> None:
        await ledger.receive(Claimed("else", 2), ModelStarted("turn", "msg", (2, 1)))

    if comes_late:
        await taken_over()
    async with asyncio.timeout(10), Reader(opened, channel, "here", 6 if comes_late else 4) as reader:
        if not comes_late:
            await taken_over()
            assert [type(await anext(reader)) for _ in range(2)] == [Claimed, ModelStarted]
        channel.put(TextDelta(0, "One "))
        await ledger.receive(TurnCancelled("turn", "enough"))
        assert isinstance(await anext(reader), TurnCancelled)
