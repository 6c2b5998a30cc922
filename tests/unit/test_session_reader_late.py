"""What a reader of a session gets that comes back late: all that was said, in its place."""

from __future__ import annotations

import asyncio

from gnomon.engine.ledger import Ledger
from gnomon.engine.live import Channel
from gnomon.session._reader import Reader
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import Live, MessageReceived, TextDelta, TurnCancelled
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
