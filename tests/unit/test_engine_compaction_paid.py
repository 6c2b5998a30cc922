"""What a shorter view is paid for with, also one that came to nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from told_provider import USED, Told, ended

from gnomon import Agent, TextDelta
from gnomon.contracts.compactor import Ask
from gnomon.errors import ContextTooLong
from gnomon.storage.memory import MemoryStorage
from gnomon.types.messages import Message
from gnomon.types.requests import Request

FINE = [TextDelta(0, "Fine."), ended()]
PRICES = {"told:m": {"input_price": 1.0, "output_price": 10.0}}
LONG = "What is a long question to be asked of a model that takes but few words? "


class Asking:
    """Asks the model, and then does something that is of no use."""

    name = "asking"

    def __init__(self, way: str) -> None:
        self._way = way
        self.shown: list[int] = []

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        raise AssertionError("it is to be asked the other way")

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> tuple[Message, ...]:
        self.shown.append(len(messages))
        if self._way == "idle":
            return tuple(messages)
        await ask(Request(model="", messages=(Message.user("Make it short."),)))
        if self._way == "fails":
            raise ContextTooLong("there is no way")
        if self._way == "breaks":
            raise KeyError("no such key")
        if self._way == "shorter":
            return (Message.user("In short."), *messages[-2:])
        return tuple(messages) if self._way == "same" else (*messages, Message.user(LONG))


@pytest.mark.parametrize("store", [None, "memory://"])
@pytest.mark.parametrize("way", ["fails", "breaks", "same", "longer"])
async def test_what_came_to_nothing_is_paid_for_by_the_turn(way: str, store: str | None) -> None:
    told, compactor = Told(FINE, FINE, FINE), Asking(way)
    agent = Agent(told, compactor=compactor, context_tokens=10, models=PRICES, storage=store)
    async with agent:
        if store is None:
            turn = await agent.run(LONG, messages=[Message.user(LONG), Message.assistant("Well.")])
        else:
            session = agent.session("s")
            first = await session.run(LONG)
            assert first.usage == USED
            assert compactor.shown == [], "there was nothing to make shorter"
            turn = await session.run("And?")
            status = await session.refresh()
            assert status.cost == pytest.approx(0.0006)
    assert turn.usage.input_tokens == 200
    assert turn.cost == pytest.approx(0.0004)
    assert "Make it short" not in repr(turn.messages)


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("way", ["fails", "breaks", "same", "longer"])
async def test_what_was_asked_for_by_hand_and_came_to_nothing_is_paid_for_by_the_session(
    way: str, is_short: bool
) -> None:
    """And it changes nothing else: the model is shown the same, also by who opens the session later."""
    store = MemoryStorage()
    shown = [LONG, "Fine.", "Well?", "Fine."]
    async with Agent(Told(*[FINE] * 4), compactor=Asking("shorter"), models=PRICES, storage=store) as agent:
        session = agent.session("s")
        await session.run(LONG)
        await session.run("Well?")
        if is_short:
            assert await session.compact() is not None
            await session.run("And now?")
            shown = ["In short.", *shown[2:], "And now?", "Fine."]
        cost, seen = (await session.refresh()).cost, (await session.refresh()).position
    assert cost is not None
    made = Agent(Told(FINE), compactor=Asking(way), context_tokens=10, models=PRICES, storage=store)
    async with made as agent:
        session = agent.session("s")
        if way == "same":
            assert await session.compact() is None
        else:
            with pytest.raises(ContextTooLong, match="asking"):
                await session.compact()
        status = await session.refresh()
        assert (status.cost, status.position) == (pytest.approx(cost + 0.0002), seen + 1)
    told = Told(FINE)
    async with Agent(told, models=PRICES, storage=store) as agent:
        await agent.session("s").run("And later?")
        assert (await agent.session("s").refresh()).cost == pytest.approx(cost + 0.0004)
    assert [message.text for message in told.requests[0].messages] == [*shown, "And later?"]


async def test_what_asked_nobody_anything_leaves_nothing_behind() -> None:
    async with Agent(Told(FINE), compactor=Asking("idle"), models=PRICES) as agent:
        session = agent.session("s")
        await session.run(LONG)
        before = await session.refresh()
        assert await session.compact() is None
        assert await session.refresh() == before


async def test_a_view_that_is_longer_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    told = Told(FINE, FINE, FINE, FINE)
    async with Agent(told, compactor=Asking("longer"), context_tokens=10) as agent:
        session = agent.session("s")
        await session.run("Hello?")
        await session.run(LONG)
        assert told.requests[-1].messages[-1].text == LONG
        assert len(told.requests[-1].messages) == 3
        assert "compactor 'asking' made" in caplog.text
        with pytest.raises(ContextTooLong, match="compactor 'asking' made"):
            await session.compact()
