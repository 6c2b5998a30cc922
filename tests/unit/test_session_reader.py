"""What a reader of a session is shown while something is being said, whoever feeds its channel."""

from __future__ import annotations

import asyncio

from gnomon import registry
from gnomon.engine.ledger import Ledger
from gnomon.engine.live import Channel
from gnomon.session._reader import Reader
from gnomon.types.events import Live, MessageReceived, TextDelta, TurnCancelled
from gnomon.types.messages import Message

WORDS = ("One ", "two ", "three ", "four.")


def say(channel: Channel, *words: str, begin: bool = True) -> None:
    if begin:
        channel.begin("turn", "msg", (1, 1), 1)
    for word in words:
        channel.put(TextDelta(0, word))


async def shown(reader: Reader, count: int) -> list[str]:
    """The next words, and that there is none after them."""
    words: list[str] = []
    async with asyncio.timeout(5):
        while len(words) < count:
            event = await reader.__anext__()
            if isinstance(event, Live) and isinstance(event.event, TextDelta):
                words.append(event.event.text)
    return words


async def test_a_message_that_is_followed_anew_by_another_reader_is_not_shown_twice() -> None:
    """Readers of one process share a channel: when the one that feeds it leaves, the next begins anew."""
    storage = registry.storage("memory://")
    await storage.migrate()
    ledger = await Ledger.open(storage, "s")
    await ledger.receive(MessageReceived("a", Message.user("Count.")))
    channel = Channel("s")

    async def opened() -> Ledger:
        return ledger

    async with Reader(opened, channel, "here", 0) as reader:
        say(channel, *WORDS[:2])
        assert await shown(reader, 2) == list(WORDS[:2])
        channel.end()
        say(channel, WORDS[0])  # the next one follows, and is behind
        await asyncio.sleep(0.01)
        say(channel, *WORDS[1:], begin=False)
        assert await shown(reader, 2) == list(WORDS[2:])
        await ledger.receive(TurnCancelled("turn", "enough"))
        assert isinstance(await reader.__anext__(), TurnCancelled)
        say(channel, *WORDS)  # what the ledger has put an end to
        await ledger.receive(MessageReceived("b", Message.user("Again.")))
        assert isinstance(await reader.__anext__(), MessageReceived)
    await storage.close()
