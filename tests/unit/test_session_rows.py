"""Rows of sessions that rest: written a moment later, never against what has happened since."""

from __future__ import annotations

import asyncio
import logging

import pytest
from session_stage import StagedStorage, make_row, opening, write

from gnomon import Agent
from gnomon.engine.ledger import Ledger
from gnomon.errors import Unavailable
from gnomon.providers.scripted import ScriptedProvider, says
from gnomon.session._rows import Rows
from gnomon.testing._session_patience import Gate, beside
from gnomon.types.records import SessionRecord


async def resting(store: StagedStorage) -> Ledger:
    """A session whose row says that it runs."""
    await make_row(store, status="running")
    return await Ledger.open(store, "s")


async def row_of(store: StagedStorage) -> SessionRecord:
    row = await store.get_session("s")
    assert row is not None
    return row


async def test_a_session_that_was_claimed_in_the_meantime_is_not_said_to_rest() -> None:
    store = StagedStorage()
    ledger, rows = await resting(store), Rows(lambda fold: False)
    rows.settle(ledger)
    await ledger.claim("me")
    await rows.close()
    assert ((await row_of(store)).status, store.updates) == ("running", 0)


async def test_a_row_that_is_being_written_when_the_agent_is_closed_is_written() -> None:
    """Broken off, it would say that the session runs, and nobody would correct it."""
    store, gate = StagedStorage(), Gate()
    ledger, rows = await resting(store), Rows(lambda fold: False)
    store.before_update = gate.wait
    rows.settle(ledger)
    await gate.reached("the row")
    async with beside(rows.close()) as closing:
        gate.open()
        await closing
    assert ((await row_of(store)).status, (await row_of(store)).runnable) == ("idle", False)


async def test_whoever_is_about_to_run_a_session_waits_for_the_last_of_two_writes_of_its_row() -> None:
    """After `forget` nothing is written any more that says it rests."""
    store, gates = StagedStorage(), [Gate(), Gate()]
    ledger, rows = await resting(store), Rows(lambda fold: False)

    async def wait() -> None:
        await gates[min(store.updates, 2) - 1].wait()

    store.before_update = wait
    writes = []
    for gate in gates:
        rows.settle(ledger)
        await ledger.row()
        writes.append(asyncio.ensure_future(rows.write()))
        await gate.reached("the row")
    gates[0].open()
    await writes[0]
    async with beside(rows.forget(ledger)) as forgetting:
        assert not forgetting.done()
        gates[1].open()
        await forgetting
    before = store.updates
    await writes[1]
    await rows.close()
    assert store.updates == before


async def test_a_row_that_cannot_be_written_is_said_and_the_others_are(caplog) -> None:
    store = StagedStorage()
    ledger, rows = await resting(store), Rows(lambda fold: False)

    async def fail() -> None:
        raise Unavailable("the store is away")

    store.before_update = fail
    rows.settle(ledger)
    await rows.close()
    assert "the row of session s could not be written" in caplog.text


async def test_a_row_that_could_not_be_written_is_written_once_the_store_is_back() -> None:
    """It says that the session is run by somebody who is alive: nobody else would correct it."""
    store = StagedStorage()
    ledger, rows = await resting(store), Rows(lambda fold: False)

    async def fail_once() -> None:
        if store.updates == 1:
            raise Unavailable("the store is away")

    store.before_update = fail_once
    rows.settle(ledger)
    async with asyncio.timeout(5):
        while (await row_of(store)).status != "idle":  # noqa: ASYNC110 - a store cannot tell
            await asyncio.sleep(0.02)
    await rows.close()
    assert store.updates == 2


async def test_a_row_that_could_not_be_written_is_not_written_under_a_run_that_has_begun_since() -> None:
    store, gate = StagedStorage(), Gate()
    ledger, rows = await resting(store), Rows(lambda fold: False)

    async def fail() -> None:
        await gate.wait()
        raise Unavailable("the store is away")

    store.before_update = fail
    rows.settle(ledger)
    await gate.reached("the row")
    async with beside(rows.forget(ledger)) as forgetting:
        gate.open()
        await forgetting
    await rows.close()
    assert store.updates == 1


async def test_the_row_of_a_session_that_was_deleted_is_not_written_again_and_again() -> None:
    rows = Rows(lambda fold: False)
    rows.settle(await Ledger.open(StagedStorage(), "s"))
    assert await rows.write()
    await rows.close()


# --- rows of sessions that are run


async def test_two_who_begin_one_session_at_the_same_time_are_no_reason_for_a_warning(caplog) -> None:
    store = StagedStorage()
    async with (
        Agent(ScriptedProvider(lambda _: "yes"), storage=store) as one,
        Agent(ScriptedProvider(lambda _: "yes"), storage=store) as two,
    ):
        turns = await asyncio.gather(one.session("s").run("a"), two.session("s").run("b"))
    assert [turn.text for turn in turns] == ["yes", "yes"]
    assert (await row_of(store)).status == "idle"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_new_session_whose_row_could_not_be_made_gets_it_with_its_first_step(caplog) -> None:
    store = StagedStorage()
    tries: list[int] = []

    async def fail() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Unavailable("the store is away")

    store.before_create = fail
    with caplog.at_level(logging.WARNING):
        async with Agent(ScriptedProvider(says("Done.")), storage=store) as agent:
            turn = await agent.run("What is it?")
    row = await store.get_session(turn.session_id)
    assert row is not None
    assert (row.title, row.status, row.runnable) == ("What is it?", "idle", False)
    assert "is yet to be written: the store is away" in caplog.text


@pytest.mark.parametrize(("inputs", "title"), [(("u1",), "go"), (("nobodys",), "")])
async def test_a_session_without_a_row_gets_one_from_whoever_goes_on_with_it(
    inputs: tuple[str, ...], title: str
) -> None:
    store = StagedStorage()
    script = ScriptedProvider(lambda request: says("Done."), verbatim=False)
    async with Agent(script, storage=store) as agent:
        await write(store, *opening(agent, inputs=inputs))
        await agent._live().run_segment("default", "s")
    assert ((await row_of(store)).title, (await row_of(store)).agent_id) == (title, "agent")
