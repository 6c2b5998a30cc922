"""What a reader of a run is told: its id, the output so far, and which of its words cannot be stored."""

from __future__ import annotations

from functools import partial

import pytest

from gnomon import Agent
from gnomon.errors import InvalidInput
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.events import TurnStarted

# --- the id of a run


async def test_a_run_that_may_be_left_has_the_id_of_its_turn_as_soon_as_that_is_known() -> None:
    async with (
        Agent(ScriptedProvider([says("Hello.")])) as agent,
        agent.stream("one", on_leave="detach") as run,
    ):
        found = [(event.turn_id, run.id) async for event in run if isinstance(event, TurnStarted)]
        assert found == [(run.turn.id, run.turn.id)]
        assert run.id == run.turn.id != ""


async def test_a_run_that_is_read_by_who_asks_has_its_id_before_it_begins() -> None:
    async with Agent(ScriptedProvider([says("Hello.")])) as agent:
        run = agent.stream("one")
        known = run.id
        assert known
        async with run:
            async for _ in run:
                pass
            assert run.turn.id == run.id == known


# --- the output so far


@pytest.mark.parametrize(
    "said",
    ['[{"n": 1}, {"n": 2}]', 'Here:\n```json\n[{"n": 1}, {"n": 2}]\n```', '{"result": [{"n": 1}, {"n": 2}]}'],
)
async def test_the_output_so_far_of_a_list_is_shown_with_and_without_an_object_around_it(said: str) -> None:
    wanted = [{"n": 1}, {"n": 2}]
    async with (
        Agent(ScriptedProvider([says(said)]), output=list[dict[str, int]]) as agent,
        agent.stream("?") as run,
    ):
        seen = [partial async for partial in run.partials()]
        assert run.turn.output == wanted
    assert seen[-1] == wanted
    assert all(partial is None or isinstance(partial, list) for partial in seen)
    assert [{"n": 1}] in seen


async def test_the_output_so_far_of_a_list_is_shown_when_it_is_given_to_a_tool() -> None:
    async with (
        Agent(
            ScriptedProvider([calls("final_output", result=[1, 2])]), output=list[int], output_mode="tool"
        ) as agent,
        agent.stream("?") as run,
    ):
        assert [partial async for partial in run.partials()][-1] == [1, 2]


async def test_a_bracket_before_an_object_is_not_taken_for_it() -> None:
    """Where an object is asked for, a list can only be prose."""
    said = 'As in [1]: {"n": 2}'
    async with (
        Agent(ScriptedProvider([says(said)]), output=dict[str, int]) as agent,
        agent.stream("?") as run,
    ):
        assert [partial async for partial in run.partials()][-1] == {"n": 2}


async def test_a_bracket_before_a_number_is_not_taken_for_it() -> None:
    said = 'As in [1]: {"result": 2}'
    async with (
        Agent(ScriptedProvider([says(said)]), output=int) as agent,
        agent.stream("?") as run,
    ):
        assert [partial async for partial in run.partials()][-1] == 2


# --- ids that no store takes


@pytest.mark.parametrize("wrong", ["a\x00b", "half \ud800", "long" * 1_000])
async def test_an_id_that_cannot_be_stored_is_named_as_that_of_the_session(tmp_path, wrong: str) -> None:
    for store in (MemoryStorage(), SQLiteStorage(f"sqlite:///{tmp_path}/store.db")):
        async with Agent(ScriptedProvider([says("Hello.")]), storage=store) as agent:
            session = agent.session(wrong)
            acts = (session.refresh, session.turn_result, partial(session.send, "one"), session.cancel)
            for act in acts:
                with pytest.raises(InvalidInput, match="the session's id"):
                    await act()
            await agent.session("s").run("one")
            with pytest.raises(InvalidInput, match="the session's id"):
                await agent.session("s").fork(session_id=wrong)
        await store.close()
