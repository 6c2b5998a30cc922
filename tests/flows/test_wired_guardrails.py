"""How guardrails are wired to an agent: in their place, by every door, and in what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from wired import DOORS, PRICES, USED, Diary, Word, WordByWord, entries, texts

from gnomon import Agent, Text, ToolProgress, tool
from gnomon.contracts.guardrail import Sentence, Window
from gnomon.errors import GuardrailTripped, Overloaded
from gnomon.hooks.retry import RetryHook
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.types.events import Guarded, TextDelta, ThinkingDelta, ToolFinished, TurnStarted
from gnomon.types.messages import ToolResult
from gnomon.types.steps import GuardrailResult
from storing import opened

ran: list[str] = []


async def at_once(_: float) -> None:
    """No wait at all."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
def book(port: str) -> str:
    """Book a berth.

    port: where
    """
    ran.append(port)
    return f"booked at {port}, code 4711"


# --- the input


@DOORS
async def test_an_input_that_is_stopped_is_not_paid_for(ask: Callable) -> None:
    script = ScriptedProvider(["Never."])
    async with Agent(script, guardrails=[Word("Calais", "input")]) as agent:
        with pytest.raises(GuardrailTripped, match="'no Calais' stopped the input: it says Calais"):
            await ask(agent, "Book Calais.")
    assert script.requests == []


@DOORS
async def test_a_model_is_shown_what_takes_the_place_of_an_input(ask: Callable) -> None:
    script = ScriptedProvider([says("Done.").expecting(text="Book Dover.")])
    async with Agent(script, guardrails=[Word("Calais", "input", by="Dover")]) as agent:
        assert (await ask(agent, "Book Calais.")).turn.text == "Done."
    assert texts(script.requests[0]) == ["Book Dover."]


async def test_an_input_that_was_stopped_is_in_no_later_view_but_in_the_ledger() -> None:
    storage = MemoryStorage()
    script = ScriptedProvider([says("Hello."), says("Done.").expecting(text="Book Dover.")])
    agent = Agent(script, guardrails=[Word("Calais", "input")], storage=storage)
    async with agent, agent.session("s") as session:
        await session.run("Hi.")
        with pytest.raises(GuardrailTripped):
            await session.run("Book Calais.")
        await session.run("Book Dover.")
        said = await entries(storage, "s")
    assert texts(script.requests[1]) == ["Hi.", "Hello.", "Book Dover."]
    assert any(isinstance(entry, Guarded) and entry.position == "input" for entry in said)
    assert "Book Calais." in repr(said)


async def test_what_steers_a_turn_is_an_input_too() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Takes its time."""
        started.set()
        await go_on.wait()
        return "slowly done"

    script = ScriptedProvider([calls("slow"), says("Done.").expecting(text="Rather Dover.")])
    agent = Agent(script, tools=[slow], guardrails=[Word("Calais", "input", by="Dover")])
    async with agent, agent.session("s") as session:
        await session.send("Book.")
        await started.wait()
        await session.send("Rather Calais.", when_busy="steer")
        go_on.set()
        assert (await session.turn_result()).text == "Done."
    script.assert_finished()


async def test_a_steer_that_is_stopped_ends_the_turn() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Takes its time."""
        started.set()
        await go_on.wait()
        return "slowly done"

    storage = MemoryStorage()
    script = ScriptedProvider([calls("slow"), says("Never.")])
    agent = Agent(script, tools=[slow], guardrails=[Word("Calais", "input")], storage=storage)
    async with agent, agent.session("s") as session:
        await session.send("Book.")
        await started.wait()
        await session.send("Rather Calais.", when_busy="steer")
        go_on.set()
        turn = await session.turn_result()
    begun = [entry for entry in await entries(storage, "s") if isinstance(entry, TurnStarted)]
    assert [entry.turn_id for entry in begun] == [turn.id]
    assert turn.error is not None
    assert turn.error.code == "guardrail_tripped"
    assert len(script.requests) == 1


# --- the answer


@DOORS
async def test_an_answer_that_is_stopped_ends_the_turn(ask: Callable) -> None:
    script = ScriptedProvider([says("It is Calais.")])
    async with Agent(script, guardrails=[Word("Calais", "output")]) as agent:
        with pytest.raises(GuardrailTripped, match="'no Calais' stopped the answer"):
            await ask(agent, "Where?")


async def test_an_answer_that_was_stopped_is_shown_to_nobody_and_is_paid_for() -> None:
    script, shown = ScriptedProvider([says("It is Calais.", usage=USED)]), []
    agent = Agent(script, guardrails=[Word("Calais", "output")], models=PRICES)
    async with agent, agent.session("s") as session:
        async with session.stream("Where?") as run:
            async for event in run:
                shown.append(event)
        turn = run.turn
    assert "It is" not in repr(shown)
    assert "It is" not in repr(turn.messages)
    assert turn.cost


@DOORS
async def test_an_answer_is_shown_with_what_takes_the_place_of_a_word(ask: Callable) -> None:
    script = ScriptedProvider([says("It is Calais.")])
    async with Agent(script, guardrails=[Word("Calais", "output", by="Dover")]) as agent:
        told = await ask(agent, "Where?")
    assert told.turn.text == "It is Dover."
    assert not told.events or told.deltas == "It is Dover."


@DOORS
async def test_thinking_is_held_back_too(ask: Callable) -> None:
    script = ScriptedProvider([says("Yes.", thinking="Calais, I think.")])
    async with Agent(script, guardrails=[Word("Calais", "output", by="Dover")]) as agent:
        told = await ask(agent, "Where?")
    assert "Calais" not in repr([event for event in told.events if not isinstance(event, Guarded)])
    thought = "".join(event.text for event in told.events if isinstance(event, ThinkingDelta))
    assert not told.events or thought == "Dover, I think."


async def test_what_was_shown_is_what_is_kept_and_what_the_model_is_shown_again() -> None:
    storage = MemoryStorage()
    script = ScriptedProvider(["It is Calais.", "Done."], verbatim=False)
    guard = Word("Calais", "output", by="Dover")
    async with Agent(script, guardrails=[guard], storage=storage) as agent, agent.session("s") as session:
        await session.run("Where?")
        await session.run("Book.")
        said = await entries(storage, "s")
    assert texts(script.requests[1]) == ["Where?", "It is Dover.", "Book."]
    assert "It is Calais" not in repr(said)
    (guarded,) = [entry for entry in said if isinstance(entry, Guarded)]
    assert (guarded.position, guarded.replaced) == ("output", True)


@pytest.mark.parametrize("view", [Window(12), Sentence()])
async def test_an_answer_is_let_go_of_as_far_as_its_guardrail_has_seen_it(view: Window | Sentence) -> None:
    script = ScriptedProvider([says("It rains in Dover. It rains in Rome. It rains in Calais. So it goes.")])
    guard = WordByWord("Calais", "output", by="Bath", view=view)
    async with Agent(script, guardrails=[guard]) as agent:
        shown = []
        async with agent.stream("Where?") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    shown.append(event.text)
    assert len(shown) > 1
    assert "".join(shown) == run.turn.text
    assert run.turn.text == "It rains in Dover. It rains in Rome. It rains in Bath. So it goes."


@DOORS
async def test_an_attempt_that_was_given_up_is_no_part_of_the_answer(ask: Callable) -> None:
    script = ScriptedProvider([says("It is Cal").failing(Overloaded("busy")), says("ais is far. Yes.")])
    guard, retry = Word("Calais", "output"), RetryHook(sleep=at_once)
    async with Agent(script, guardrails=[guard], hooks=[retry]) as agent:
        told = await ask(agent, "Where?")
    assert told.turn.text == "ais is far. Yes."
    assert guard.shown[-1] == "ais is far. Yes."


@DOORS
async def test_hooks_are_told_what_the_model_said_and_guardrails_decide_what_is_shown(ask: Callable) -> None:
    diary = Diary()
    script = ScriptedProvider([says("It is Calais.")])
    guard = Word("Calais", "output", by="Dover")
    async with Agent(script, guardrails=[guard], hooks=[diary]) as agent:
        assert (await ask(agent, "Where?")).turn.text == "It is Dover."
    assert len(diary.pages("model")) == 1


# --- the arguments of calls


@DOORS
async def test_a_tool_is_called_with_what_takes_the_place_of_its_arguments(ask: Callable) -> None:
    script = ScriptedProvider(
        [calls("book", port="Calais"), says("Done.").expecting(result="booked at Dover")], verbatim=False
    )
    guard = Word("Calais", "tool_arguments", by="Dover")
    async with Agent(script, tools=[book], guardrails=[guard]) as agent:
        told = await ask(agent, "Book.")
    assert ran == ["Dover"]
    assert "Calais" not in repr([event for event in told.events if not isinstance(event, Guarded)])


@DOORS
async def test_a_call_that_is_stopped_is_not_made(ask: Callable) -> None:
    script = ScriptedProvider([calls("book", port="Calais"), says("Never.")])
    async with Agent(script, tools=[book], guardrails=[Word("Calais", "tool_arguments")]) as agent:
        with pytest.raises(GuardrailTripped, match="'no Calais' stopped a call of 'book'"):
            await ask(agent, "Book.")
    assert ran == []
    assert len(script.requests) == 1


# --- results


@DOORS
async def test_a_model_is_shown_what_takes_the_place_of_a_result(ask: Callable) -> None:
    script = ScriptedProvider([calls("book", port="Dover"), says("Done.").expecting(result="code ****")])
    guard = Word("4711", "tool_results", by="****")
    async with Agent(script, tools=[book], guardrails=[guard]) as agent:
        told = await ask(agent, "Book.")
    assert "4711" not in repr([event for event in told.events if not isinstance(event, Guarded)])


@DOORS
async def test_a_result_that_is_stopped_ends_the_turn_and_is_shown_to_nobody(ask: Callable) -> None:
    script = ScriptedProvider([calls("book", port="Dover"), says("Never.")])
    async with Agent(script, tools=[book], guardrails=[Word("4711", "tool_results")]) as agent:
        with pytest.raises(GuardrailTripped, match="'no 4711' stopped the result of a call"):
            await ask(agent, "Book.")
    assert ran == ["Dover"]
    assert len(script.requests) == 1


async def test_a_turn_on_disk_keeps_nothing_of_a_result_that_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    script = ScriptedProvider([calls("book", port="Dover"), says("Never.")])
    guards = [Word("4711", "tool_results")]
    agent = Agent(script, tools=[book], guardrails=guards, storage=f"sqlite:///{path}")
    async with agent, agent.session("s") as session:
        with pytest.raises(GuardrailTripped):
            await session.run("Book.")
    async with opened(path) as storage:
        said = repr(await entries(storage, "s"))
    assert "withheld" in said
    assert "code 4711" not in said


# --- reports


def reporting(*pieces: str, timeout_s: float | None = None) -> object:
    """A tool that reports each of these, and has an effect afterwards."""

    @tool(timeout_s=timeout_s)
    async def sail() -> AsyncIterator[str | ToolResult]:
        """Sail."""
        for piece in pieces:
            yield piece
        ran.append("sailed")
        yield ToolResult("", "sail", (Text("arrived"),))

    return sail


def reported(events: object) -> list[str]:
    """What a reader was shown of reports, one text each."""
    found = [event for event in events if isinstance(event, ToolProgress)]  # type: ignore[attr-defined]
    return ["".join(part.text for part in event.content if isinstance(part, Text)) for event in found]


async def sailing(agent: Agent, stopped: str = "") -> list[object]:
    """All that who asks sees of a turn; `stopped` is what its error says, where it is to end with one."""
    seen: list[object] = []
    said = ""
    async with agent.stream("Sail.") as run:
        try:
            async for event in run:
                seen.append(event)
        except GuardrailTripped as error:
            said = str(error)
    assert bool(said) == bool(stopped)
    assert stopped in said
    return seen


async def test_a_report_is_shown_with_what_takes_the_place_of_a_word() -> None:
    script = ScriptedProvider([calls("sail"), says("Done.").expecting(result="arrived")])
    guard = Word("4711", "tool_results", by="****")
    sail = reporting("code 4711", "half way", "4711 again")
    async with Agent(script, tools=[sail], guardrails=[guard]) as agent:
        seen = await sailing(agent)
    assert reported(seen) == ["code ****", "half way", "**** again"]
    told = [(event.position, event.replaced) for event in seen if isinstance(event, Guarded)]
    assert told == [("tool_results", True)]


async def test_a_reader_beside_the_run_is_shown_no_more_of_a_report() -> None:
    go_on = asyncio.Event()

    @tool
    async def sail() -> AsyncIterator[str]:
        """Sail."""
        yield "code 4711"
        await go_on.wait()
        yield "arrived"

    script = ScriptedProvider([calls("sail"), says("Done.")])
    guards = [Word("4711", "tool_results", by="****")]
    async with Agent(script, tools=[sail], guardrails=guards) as agent:
        session = agent.session("s")
        async with session.events() as reader:
            await session.send("Sail.")
            async for event in reader:
                if isinstance(event, ToolProgress):
                    break
            assert reported([event]) == ["code ****"]
            go_on.set()
            await session.turn_result()


async def test_a_report_that_is_stopped_is_shown_to_nobody_and_the_turn_stops_when_the_call_has_ended() -> (
    None
):
    script = ScriptedProvider([calls("sail"), says("Never.")])
    guards = [Word("4711", "tool_results")]
    async with Agent(script, tools=[reporting("out", "code 4711", "in")], guardrails=guards) as agent:
        seen = await sailing(agent, stopped="'no 4711' stopped the result of a call")
    assert reported(seen) == ["out", "in"]
    assert ran == ["sailed"]
    assert [event.result.text for event in seen if isinstance(event, ToolFinished)] == ["arrived"]
    assert len(script.requests) == 1


@pytest.mark.parametrize("by", [None, "****"])
async def test_a_word_is_not_shown_in_two_reports_either(by: str | None) -> None:
    script = ScriptedProvider([calls("sail"), says("Done.")])
    guard = WordByWord("4711", "tool_results", by=by, view=Window(4))
    sail = reporting("far out at sea, code 4", "7", "11", " is near", "48", "11")
    async with Agent(script, tools=[sail], guardrails=[guard]) as agent:
        seen = await sailing(agent, stopped="" if by else "stopped the result of a call")
    assert reported(seen) == ["far out at sea, code 4", "7", " is near", "48", "11"]
    assert [event.replaced for event in seen if isinstance(event, Guarded)] == [by is not None]
    assert len(script.requests) == (1 if by is None else 2)


async def test_what_stands_behind_a_name_in_the_report_before_is_replaced() -> None:
    """What is found lies in the second report alone: so that is shown, without it."""

    class Code(Word):
        view = Window(12)

        async def check(self, content: str) -> GuardrailResult:
            if "code: dover" not in content:
                return GuardrailResult(passed=True)
            return GuardrailResult(False, "a code was found", content.replace("code: dover", "code: ****"))

    script = ScriptedProvider([calls("sail"), says("Done.")])
    sail = reporting("The code: ", "dover, tonight", "dover")
    async with Agent(script, tools=[sail], guardrails=[Code("", "tool_results")]) as agent:
        assert reported(await sailing(agent)) == ["The code: ", "****, tonight", "dover"]


async def test_the_time_of_a_guardrail_is_not_that_of_the_tool() -> None:
    class Slow(Word):
        async def check(self, content: str) -> GuardrailResult:
            await asyncio.sleep(0.06)
            return await super().check(content)

    script = ScriptedProvider([calls("sail"), says("Done.").expecting(result="arrived")])
    sail = reporting("out", "half way", "in", timeout_s=0.15)
    async with Agent(script, tools=[sail], guardrails=[Slow("4711", "tool_results")]) as agent:
        assert reported(await sailing(agent)) == ["out", "half way", "in"]
    script.assert_finished()


async def test_a_tool_that_reports_still_runs_out_of_time_beside_a_guardrail() -> None:
    @tool(timeout_s=0.1)
    async def drift() -> AsyncIterator[str]:
        """Drift for ever."""
        while True:
            yield "adrift"
            await asyncio.sleep(0.03)

    script = ScriptedProvider([calls("drift"), says("Done.").expecting(result="did not finish within")])
    async with Agent(script, tools=[drift], guardrails=[Word("4711", "tool_results")]) as agent:
        assert reported(await sailing(agent))
    script.assert_finished()


async def test_thousands_of_reports_are_noted_once() -> None:
    script = ScriptedProvider([calls("sail"), says("Done.")])
    guard = Word("4711", "tool_results", by="****")
    sail = reporting(*[f"{n}: 4711" for n in range(2_000)])
    async with Agent(script, tools=[sail], guardrails=[guard]) as agent:
        seen = await sailing(agent)
    assert len(reported(seen)) == 2_000
    assert len([event for event in seen if isinstance(event, Guarded)]) == 1
