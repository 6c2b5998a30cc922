"""A run that is broken off in the midst of a step: what was said is kept, and nothing is counted twice."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest
from pydantic import BaseModel, field_validator
from session_stage import StagedStorage, ledger_of, write

from gnomon import Agent
from gnomon.contracts.provider import Provider
from gnomon.engine.run import Run
from gnomon.errors import ConfigError, Conflict, Unavailable
from gnomon.providers.scripted import ScriptedProvider, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_audit import is_end, unsound
from gnomon.testing._session_patience import Gate, until
from gnomon.types.events import (
    Claimed,
    Finish,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ProviderEvent,
    Released,
    TextDelta,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Usage


class Speaker(Provider):
    """A model that says one word, waits at a gate, and says another. `is_deaf`: whatever it is told."""

    name = model = "speaker"

    def __init__(self, gate: Gate, *, first: str = "One ", is_deaf: bool = False) -> None:
        self.gate = gate
        self._first = first
        self._is_deaf = is_deaf

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if self._first:
            yield TextDelta(0, self._first)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            if not self._is_deaf:
                raise
            await asyncio.sleep(0)
        yield TextDelta(0, "two.")
        yield Finish(stop_reason="end_turn")


async def read(run: Run[str]) -> None:
    async with run:
        async for _ in run:
            pass


def is_answer(entry: LedgerEntry) -> bool:
    return isinstance(entry, MessageCompleted)


async def left(reading: asyncio.Future[None]) -> None:
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    assert reading.cancelled(), "whoever is cancelled hears of it"


# --- cancelled while the model is waited for


async def test_a_reader_that_is_cancelled_while_the_model_speaks_keeps_what_was_said() -> None:
    store, gate = MemoryStorage(), Gate()
    async with Agent(Speaker(gate), storage=store) as agent:
        run = agent.stream("go")
        reading = asyncio.ensure_future(read(run))
        await gate.reached("the model")
        await left(reading)
        entries = await ledger_of(store, run.session_id)
        assert [entry.response.message.text for entry in entries if is_answer(entry)] == ["One "]
        assert [entry.reason for entry in entries if isinstance(entry, TurnCancelled)] == ["the reader left"]
        assert unsound(entries) == []


async def test_a_turn_that_is_cancelled_before_anything_was_said_has_no_message() -> None:
    store, gate = MemoryStorage(), Gate()
    async with Agent(Speaker(gate, first=""), storage=store) as agent:
        session = agent.session("s")
        await session.send("go")
        await gate.reached("the model")
        await session.cancel()
        turn = await session.turn_result()
        assert (turn.stop, turn.text, turn.usage.output_tokens) == ("cancelled", "", None)
        assert not [entry for entry in await ledger_of(store) if isinstance(entry, MessageCompleted)]


async def test_a_model_that_answers_though_it_was_told_to_stop_does_not_undo_the_cancel() -> None:
    """Nor does it keep the next turn of the same runner from being cancelled."""
    store, gate = MemoryStorage(), Gate()
    async with Agent(Speaker(gate, is_deaf=True), storage=store) as agent:
        session = agent.session("s")
        for text in ("one", "two", "three"):
            await session.send(text)
        async with asyncio.timeout(10):
            for number in (1, 2):
                await until("the model", lambda at=number: gate.arrivals == at)
                await session.cancel()
            await until("the model", lambda: gate.arrivals == 3)
        gate.open()
        assert (await session.turn_result()).stop == "end_turn"
        ended = [entry for entry in await ledger_of(store) if isinstance(entry, TurnCancelled | TurnFinished)]
        assert [type(entry) for entry in ended] == [TurnCancelled, TurnCancelled, TurnFinished]
        said = [entry.response.message.text for entry in await ledger_of(store) if is_answer(entry)]
        assert said == ["One two."] * 3


async def test_a_reader_that_leaves_at_the_last_event_has_not_cancelled_anything() -> None:
    store = MemoryStorage()
    async with Agent(ScriptedProvider(says("Done.")), storage=store) as agent:
        async with agent.stream("go") as run:
            async for event in run:
                if isinstance(event, TurnFinished):
                    break
        assert (run.turn.stop, run.turn.text) == ("end_turn", "Done.")
        ended = [entry for entry in await ledger_of(store, run.session_id) if is_end(entry)]
        assert [type(entry) for entry in ended] == [TurnFinished]


# --- the store fails, or others write


async def test_a_store_that_fails_before_the_model_is_asked_does_not_end_the_turn() -> None:
    """That is no answer to what was asked: the turn stays open, and is gone on with."""
    store, script = StagedStorage(), ScriptedProvider(says("Done."))
    reading = store.list_events

    async def away(*_, **__):
        store.list_events = reading
        raise Unavailable("the store is away")

    async def told(context) -> str:
        return "Be brief."

    async with Agent(script, instructions=told, storage=store) as agent:
        await agent._live().hold()
        store.list_events = away  # which a runner reads to see that the session is still its own
        run = agent.stream("go")
        with pytest.raises(Unavailable):
            await read(run)
        assert (await agent.session(run.session_id).turn_result()).text == "Done."
        assert not [x for x in await ledger_of(store, run.session_id) if isinstance(x, TurnFailed)]


async def broken_off(agent: Agent[str], store: StagedStorage, number: int) -> tuple[Run[str], asyncio.Future]:
    """A run that hangs in its append of that number, before anything is written."""
    gate = Gate()

    async def hang() -> None:
        if store.appends == number:
            store.before_append = StagedStorage().before_append
            await gate.wait()

    store.before_append = hang
    run = agent.stream("go")
    reading = asyncio.ensure_future(read(run))
    await gate.reached("the append")
    return run, reading


USED = Usage(input_tokens=3, output_tokens=2)


async def test_an_answer_whose_append_was_broken_off_is_written_after_what_others_wrote_meanwhile() -> None:
    store, script = StagedStorage(), ScriptedProvider([says("One.", usage=USED), says("Two.", usage=USED)])
    async with Agent(script, storage=store) as agent:
        run, reading = await broken_off(agent, store, 2)
        await write(store, MessageReceived("other", Message.user("more")), after=4, session_id=run.session_id)
        await left(reading)
        await agent.session(run.session_id).turn_result()
        entries = await ledger_of(store, run.session_id)
        said = [entry.response.message.text for entry in entries if isinstance(entry, MessageCompleted)]
        assert said == ["One.", "Two."]
        (ended,) = (entry for entry in entries if isinstance(entry, TurnCancelled))
        assert ended.usage.input_tokens == 3, "it is counted once"
        assert unsound(entries) == []


async def test_an_answer_whose_append_was_broken_off_is_not_written_into_another_runners_turn(
    caplog,
) -> None:
    store, script = StagedStorage(), ScriptedProvider(says("One."))
    async with Agent(script, storage=store) as agent:
        run, reading = await broken_off(agent, store, 2)
        taken = (Claimed("other", 2), TurnCancelled(run.id, "enough"), Released("other", 2))
        await write(store, *taken, after=4, session_id=run.session_id)
        await left(reading)
        entries = await ledger_of(store, run.session_id)
        assert [type(entry) for entry in entries[4:]] == [Claimed, TurnCancelled, Released]
        gc.collect()  # what a task has hidden comes to light when it is gone
        assert "never retrieved" not in caplog.text


# --- what is read of a run


async def test_a_run_that_was_not_read_has_no_turn_yet() -> None:
    async with Agent(ScriptedProvider([says("One."), says("Two.")]), storage=MemoryStorage()) as agent:
        for way in ("cancel", "detach"):
            async with agent.stream("go", on_leave=way) as run:
                with pytest.raises(RuntimeError, match="read its events to the end first"):
                    run.turn


async def test_partials_are_for_an_agent_with_an_output_type() -> None:
    async with Agent(ScriptedProvider(says("Done."))) as agent, agent.stream("go") as run:
        with pytest.raises(ConfigError, match="no output type"):
            await anext(run.partials())


async def test_an_output_type_that_changes_its_mind_does_not_break_the_turn() -> None:
    """It refuses an output when asked whether the turn is over, and takes it a moment later."""
    looks: list[str] = []

    class City(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def fickle(cls, name: str) -> str:
            looks.append(name)
            if len(looks) == 1:
                raise ValueError("not now")
            return name

    script = ScriptedProvider([says('{"name": "Rome"}'), says('{"name": "Oslo"}')])
    async with Agent(script, output=City, output_mode="native") as agent:
        turn = await agent.run("go")
    assert (turn.stop, turn.output.name) == ("end_turn", "Oslo")


# --- two runners in one process


async def test_a_second_runner_of_a_session_does_not_break_what_the_first_one_says() -> None:
    """It finds out that it is the second before it has anything to let go of."""
    store, gate = MemoryStorage(), Gate()
    async with Agent(Speaker(gate), storage=store) as agent:
        session = agent.session("s")
        await session.send("go")
        await gate.reached("the model")
        runtime = agent._live()
        with pytest.raises(Conflict, match="is run here already"):
            await anext(runtime.loop(await runtime.ledger("s")).events())
        gate.open()
        turn = await session.turn_result()
        assert (turn.stop, turn.text) == ("end_turn", "One two.")
