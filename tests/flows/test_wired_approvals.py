"""How permissions are wired to an agent: what needs leave waits for it, whoever asks and whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from wired import DOORS, Around, asked_of

from gnomon import Agent, tool
from gnomon.errors import ApprovalRefused, NotFound, TurnUnfinished
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.types.events import ApprovalRequested
from gnomon.types.steps import HookEvent

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
def book(port: str) -> str:
    """Book a berth.

    port: where
    """
    ran.append(port)
    return f"booked at {port}"


@tool(read_only=True)
def tide(port: str) -> str:
    """The next high tide.

    port: where
    """
    return f"noon at {port}"


def booking(result: str = "booked at Dover", **given: object) -> Agent:
    script = ScriptedProvider([calls("book", port="Dover"), says("Done.").expecting(result=result)])
    return Agent(script, tools=[book], **({"permissions": "ask"} | given))


async def test_a_run_says_that_it_waits_and_the_call_is_not_made() -> None:
    async with booking() as agent:
        with pytest.raises(TurnUnfinished, match="waits for leave to call book"):
            await agent.run("Book.")
        assert ran == []


async def test_a_run_waits_for_what_a_rule_asks_about_and_goes_on_in_its_session() -> None:
    async with booking(permissions="auto", rules=["ask book"]) as agent:
        async with agent.stream("Book.") as run:
            async for _ in run:
                pass
        assert ran == []
        async with agent.session(run.session_id) as session:
            await session.approve()
            assert (await session.turn_result()).text == "Done."
    assert ran == ["Dover"]


async def test_a_stream_ends_with_the_request_and_the_session_goes_on_once_leave_is_given() -> None:
    async with booking() as agent:
        events = []
        async with agent.stream("Book.") as run:
            async for event in run:
                events.append(event)
        asked = events[-1]
        assert isinstance(asked, ApprovalRequested)
        assert ran == []
        async with agent.session(run.session_id) as session:
            assert await session.approvals() == (asked,)
            assert (await session.refresh()).pending_approvals == (asked.approval_id,)
            await session.approve(asked.approval_id, by="ann", arguments_hash=asked.arguments_hash)
            assert (await session.turn_result()).text == "Done."
    assert ran == ["Dover"]


async def test_a_session_waits_and_goes_on_with_the_call_that_leave_was_given_for() -> None:
    async with booking() as agent, agent.session("s") as session:
        with pytest.raises(TurnUnfinished):
            await session.run("Book.")
        await session.approve()
        assert (await session.turn_result()).text == "Done."
        with pytest.raises(NotFound):
            await session.approve()
    assert ran == ["Dover"]


async def test_leave_is_enough_for_a_turn_to_go_on_also_when_nobody_waits_for_it() -> None:
    async with booking(adopt=False) as agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.approve()
        while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert ran == ["Dover"]


async def test_leave_that_was_refused_is_told_to_the_model_with_the_reason() -> None:
    async with booking("not run: leave was refused: too dear") as agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.deny(reason="too dear")
        assert (await session.turn_result()).text == "Done."
    assert ran == []


async def test_leave_that_nobody_gives_in_time_is_refused_without_anybody_looking() -> None:
    async with (
        booking("not run: nobody gave leave in time", approval_timeout_s=0.05, adopt=False) as agent,
        agent.session("s") as session,
    ):
        asked = await asked_of(session, "Book.")
        assert asked.expires_at is not None
        while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert (await session.turn_result()).text == "Done."
    assert ran == []


async def test_leave_is_for_the_arguments_that_were_shown_and_a_refused_answer_changes_nothing() -> None:
    async with booking() as agent, agent.session("s") as session:
        asked = await asked_of(session, "Book.")
        with pytest.raises(ApprovalRefused, match="other arguments"):
            await session.approve(arguments_hash="0" * 32)
        assert await session.approvals() == (asked,)
        assert ran == []


async def test_leave_for_always_holds_for_the_session_also_when_it_is_opened_anew(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    async with booking(storage=store) as agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.approve(always=True)
        await session.turn_result()
    script = ScriptedProvider([calls("book", port="Dover"), says("Again.")], verbatim=False)
    later = Agent(script, tools=[book], permissions="ask", storage=store)
    async with later, later.session("s") as session:
        assert (await session.run("Book again.")).text == "Again."
    async with booking(storage=store) as agent, agent.session("other") as session:
        with pytest.raises(TurnUnfinished):
            await session.run("Book.")
    assert ran == ["Dover", "Dover"]


async def test_another_process_gives_leave_for_what_one_has_asked_for(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    async with booking(storage=store) as agent, agent.session("s") as session:
        asked = await asked_of(session, "Book.")
    script = ScriptedProvider([says("Later.").expecting(result="booked at Dover")], verbatim=False)
    later = Agent(script, tools=[book], permissions="ask", storage=store)
    async with later, later.session("s") as session:
        assert await session.approvals() == (asked,)
        await session.approve()
        assert (await session.turn_result()).text == "Later."
    assert ran == ["Dover"]


async def test_what_only_reads_and_comes_first_runs_and_what_comes_after_waits_behind() -> None:
    script = ScriptedProvider(
        [
            calls("tide", port="Rome").calling("book", port="Dover").calling("tide", port="Bath"),
            says("Done.").expecting(result="noon at Bath"),
        ]
    )
    agent = Agent(script, tools=[book, tide], permissions="ask")
    async with agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        assert ran == []
        await session.approve()
        assert (await session.turn_result()).text == "Done."
    assert ran == ["Dover"]


@DOORS
async def test_a_rule_that_denies_is_told_to_the_model(ask: Callable) -> None:
    agent = booking(
        "not run: denied by the rule: deny book", permissions="auto", rules=['deny book(port="Dover")']
    )
    async with agent:
        assert (await ask(agent, "Book.")).turn.text == "Done."
    assert ran == []


@DOORS
async def test_a_mode_that_denies_is_told_to_the_model(ask: Callable) -> None:
    async with booking("not run", permissions="plan") as agent:
        assert (await ask(agent, "Book.")).turn.text == "Done."
    assert ran == []


@DOORS
async def test_a_rule_that_allows_needs_nobody(ask: Callable) -> None:
    async with booking(rules=["allow book"]) as agent:
        assert (await ask(agent, "Book.")).turn.text == "Done."
    assert ran == ["Dover"]


async def test_leave_is_not_for_arguments_that_a_hook_puts_in_afterwards() -> None:
    def elsewhere(event: HookEvent) -> HookEvent:
        if event.tool_call is None:
            return event
        call = msgspec.structs.replace(event.tool_call, arguments='{"port": "Calais"}')
        return msgspec.structs.replace(event, tool_call=call)

    agent = booking("a hook changed the arguments", hooks=[Around(elsewhere)])
    async with agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.approve()
        assert (await session.turn_result()).text == "Done."
    assert ran == []


async def test_a_turn_that_waits_for_leave_can_be_cancelled() -> None:
    async with booking() as agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.cancel()
        turn = await session.turn_result()
        assert await session.approvals() == ()
    assert turn.stop == "cancelled"
    assert ran == []
