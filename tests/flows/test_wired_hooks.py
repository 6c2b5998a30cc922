"""How hooks are wired to an agent: the same by every door, in the order of an onion, and once a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from wired import DOORS, USED, Around, Diary, ask_and_read, asked_of

from gnomon import Agent, _begun, tool
from gnomon.contracts.hook import Step
from gnomon.errors import BadRequest, HookFailed
from gnomon.hooks.chain import PATIENCE_S
from gnomon.stream import PullStream
from gnomon.testing import ScriptedProvider, calls, fails, says
from gnomon.types.events import Done, RunEvent, TextDelta
from gnomon.types.messages import Message
from gnomon.types.requests import Response, Usage
from gnomon.types.steps import HookEvent

STEPS = ["session", "turn", "model", "model", "tool", "tool", "model", "model", "turn", "session"]
"""A turn with one call of a tool, as one hook sees it before and after."""


@tool
def book(port: str) -> str:
    """Book a berth.

    port: where
    """
    return f"booked at {port}"


def provider() -> ScriptedProvider:
    return ScriptedProvider(
        [
            calls("book", port="Dover").expecting(text="Book."),
            says("Done.", usage=USED).expecting(result="booked at Dover"),
        ]
    )


@DOORS
async def test_hooks_are_an_onion_around_every_step(ask: Callable) -> None:
    pages: list[tuple[str, str, HookEvent]] = []
    hooks = [Diary("outer", pages), Diary("inner", pages)]
    async with Agent(provider(), tools=[book], hooks=hooks) as agent:
        await ask(agent, "Book.")
    seen = [(name, when, event.kind) for name, when, event in pages]
    whens = ["before", "before", "before", "after", "before", "after", "before", "after", "after", "after"]
    expected = []
    for kind, when in zip(STEPS, whens, strict=True):
        order = ("outer", "inner") if when == "before" else ("inner", "outer")
        expected += [(name, when, kind) for name in order]
    assert seen == expected


@DOORS
async def test_a_hook_around_stands_within_those_before_it_and_around_those_behind_it(ask: Callable) -> None:
    pages: list[tuple[str, str, HookEvent]] = []
    hooks = [Around(name="outer", book=pages), Around(name="inner", book=pages)]
    async with Agent(provider(), tools=[book], hooks=hooks) as agent:
        await ask(agent, "Book.")
    seen = [(name, when, event.kind) for name, when, event in pages if event.kind in ("model", "tool")]
    steps = [(when, kind) for kind in ("model", "tool", "model") for when in ("before", "around", "after")]
    assert seen == [
        (name, when, kind)
        for when, kind in steps
        for name in (("inner", "outer") if when == "after" else ("outer", "inner"))
    ]


@DOORS
async def test_after_a_step_a_hook_is_told_how_it_ended(ask: Callable) -> None:
    diary = Diary()
    async with Agent(provider(), tools=[book], hooks=[diary]) as agent:
        turn = (await ask(agent, "Book.")).turn
    first, last = diary.pages("model")
    assert first.response is not None
    assert [call.name for call in first.response.message.tool_calls] == ["book"]
    assert last.response is not None
    assert (last.response.message.text, last.response.usage) == ("Done.", USED)
    (called,) = diary.pages("tool")
    assert called.result is not None
    assert (called.tool_call.name, called.result.text) == ("book", "booked at Dover")
    assert {event.turn_id for event in (first, last, called, *diary.pages("turn"))} == {turn.id}
    assert len({event.session_id for _, _, event in diary.book}) == 1
    assert all(event.ended_at is not None for event in (first, last, called, *diary.pages("session")))


@DOORS
async def test_what_was_not_reported_is_estimated_before_a_hook_is_told(ask: Callable) -> None:
    diary = Diary()
    script = ScriptedProvider([says("Done.", usage=Usage(estimated=True))])
    async with Agent(script, hooks=[diary]) as agent:
        turn = (await ask(agent, "Book.")).turn
    (answered,) = diary.pages("model")
    assert answered.response is not None
    assert answered.response.usage.output_tokens
    assert answered.response.usage == turn.usage


@DOORS
async def test_before_and_after_a_step_share_a_room_for_notes(ask: Callable) -> None:
    class Counting(Diary):
        async def before(self, event: HookEvent) -> None:
            event.notes["counted"] = len(self.book)
            await super().before(event)

        async def after(self, event: HookEvent) -> None:
            assert isinstance(event.notes["counted"], int)
            await super().after(event)

    diary = Counting()
    async with Agent(provider(), tools=[book], hooks=[diary]) as agent:
        await ask(agent, "Book.")
    assert len(diary.pages("model")) == 2
    assert len(diary.pages("tool")) == 1


@DOORS
async def test_a_turn_that_fails_is_told_with_its_error_at_the_step_and_at_the_turn(ask: Callable) -> None:
    diary = Diary()
    async with Agent(ScriptedProvider([fails(BadRequest("no such thing"))]), hooks=[diary]) as agent:
        with pytest.raises(BadRequest, match="no such thing"):
            await ask(agent, "Book.")
    (asked,), (turn,) = diary.pages("model"), diary.pages("turn")
    assert (asked.error.code, asked.response) == ("bad_request", None)
    assert turn.error.code == "bad_request"
    assert diary.pages("session")[0].error is None


@DOORS
async def test_a_hook_changes_what_the_model_is_asked_and_no_message_of_the_turn(ask: Callable) -> None:
    def warmer(event: HookEvent) -> HookEvent:
        if event.request is None:
            return event
        return msgspec.structs.replace(event, request=msgspec.structs.replace(event.request, temperature=0.9))

    script = ScriptedProvider([says("Done.")])
    async with Agent(script, hooks=[Around(warmer)]) as agent:
        turn = (await ask(agent, "Book.")).turn
    assert [request.temperature for request in script.requests] == [0.9]
    assert [message.text for message in turn.messages] == ["Book.", "Done."]


class Answers:
    """A hook that answers by itself, as a cache does."""

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def told():
            yield TextDelta(0, "From ")
            yield TextDelta(0, "memory.")
            usage = Usage(input_tokens=0, output_tokens=0)
            message = Message.assistant("From memory.")
            yield Done(Response(message=message, stop_reason="end_turn", usage=usage))

        return PullStream(told())


@DOORS
async def test_the_events_of_a_hook_are_those_of_the_turn_and_nobody_else_is_asked(ask: Callable) -> None:
    diary, script = Diary(), ScriptedProvider(["Never."])
    async with Agent(script, hooks=[diary, Answers()]) as agent:
        told = await ask(agent, "Book.")
    assert told.turn.text == "From memory."
    assert script.requests == []
    assert not told.events or told.deltas == "From memory."
    assert diary.pages("model")[0].response.message.text == "From memory."


@DOORS
async def test_a_hook_changes_the_arguments_of_a_call(ask: Callable) -> None:
    def elsewhere(event: HookEvent) -> HookEvent:
        if event.tool_call is None:
            return event
        call = msgspec.structs.replace(event.tool_call, arguments='{"port": "Calais"}')
        return msgspec.structs.replace(event, tool_call=call)

    script = ScriptedProvider(
        [calls("book", port="Dover"), says("Done.").expecting(result="booked at Calais")]
    )
    async with Agent(script, tools=[book], hooks=[Around(elsewhere)]) as agent:
        await ask(agent, "Book.")
    script.assert_finished()


@DOORS
async def test_arguments_that_a_hook_put_in_are_asked_about_anew(ask: Callable) -> None:
    def elsewhere(event: HookEvent) -> HookEvent:
        if event.tool_call is None:
            return event
        call = msgspec.structs.replace(event.tool_call, arguments='{"port": "Calais"}')
        return msgspec.structs.replace(event, tool_call=call)

    script = ScriptedProvider(
        [calls("book", port="Dover"), says("Not done.").expecting(result="not run: denied by the rule")]
    )
    agent = Agent(
        script,
        tools=[book],
        hooks=[Around(elsewhere)],
        permissions="auto",
        rules=['deny book(port="Calais")'],
    )
    async with agent:
        await ask(agent, "Book.")
    script.assert_finished()


@DOORS
async def test_a_hook_that_fails_around_a_step_breaks_it_and_one_beside_it_does_not(ask: Callable) -> None:
    class Broken(Diary):
        async def before(self, event: HookEvent) -> None:
            raise ValueError("beside")

    class Breaks(Diary):
        async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
            raise ValueError("around")

    async with Agent(ScriptedProvider(["Done."]), hooks=[Broken()]) as agent:
        assert (await ask(agent, "Book.")).turn.text == "Done."
    async with Agent(ScriptedProvider(["Done."]), hooks=[Breaks(name="breaks")]) as agent:
        with pytest.raises(HookFailed, match="'breaks' failed around"):
            await ask(agent, "Book.")


async def test_a_reader_that_leaves_is_told_to_the_hooks_as_the_end_of_each_step() -> None:
    diary = Diary()
    agent = Agent(ScriptedProvider([says("One, two and three.")]), hooks=[diary])
    async with agent, agent.stream("Count.") as run:
        async for event in run:
            if isinstance(event, TextDelta):
                break
    assert diary.pages("model")[0].error.code == "cancelled"
    for kind in ("model", "turn", "session"):
        assert len(diary.pages(kind, "before")) == len(diary.pages(kind, "after")) == 1


async def test_a_hook_that_waits_is_ended_with_its_turn() -> None:
    """It only looks, and would be given up after a while; whoever cancels does not wait for that."""
    waits, diary = asyncio.Event(), Diary()

    class Waiting(Diary):
        async def before(self, event: HookEvent) -> None:
            if event.kind == "model":
                waits.set()
                await asyncio.Event().wait()

    script = ScriptedProvider([])
    async with Agent(script, hooks=[diary, Waiting()]) as agent, agent.session("s") as session:
        await session.send("Count.")
        await waits.wait()
        began = time.monotonic()
        await session.cancel()
        turn = await session.turn_result()
        assert (turn.stop, script.requests) == ("cancelled", [])
        assert time.monotonic() - began < PATIENCE_S / 2
    assert [event.error.code for event in diary.pages("model")] == ["cancelled"]


async def test_a_cancel_that_a_hook_keeps_to_itself_ends_the_run_all_the_same() -> None:
    waits = asyncio.Event()

    class Keeping(Diary):
        async def before(self, event: HookEvent) -> None:
            if event.kind == "model":
                waits.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

    script = ScriptedProvider(["Never."])
    async with Agent(script, hooks=[Keeping()]) as agent:
        run = asyncio.create_task(agent.run("Count."))
        await waits.wait()
        run.cancel()
        await asyncio.wait({run})
    assert run.cancelled()
    assert script.requests == []


@DOORS
async def test_a_hook_around_may_give_up_what_it_waits_for_and_wait_for_something_else(
    ask: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_begun, "GRACE_S", 0.05)

    class Elsewhere(Diary):
        async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            await asyncio.sleep(0.1)
            return await call(event)

    async with Agent(ScriptedProvider(["Done."]), hooks=[Elsewhere()]) as agent:
        assert (await ask(agent, "Book.")).turn.text == "Done."


async def test_who_is_cancelled_twice_tells_the_hooks_of_every_end_all_the_same() -> None:
    waits, diary = asyncio.Event(), Diary()

    class Waiting(Diary):
        async def before(self, event: HookEvent) -> None:
            if event.kind == "model":
                await self.wait()

        async def after(self, event: HookEvent) -> None:
            if event.kind == "turn":
                await self.wait()

        async def wait(self) -> None:
            waits.set()
            await asyncio.Event().wait()

    async with Agent(ScriptedProvider([]), hooks=[diary, Waiting()]) as agent:
        run = asyncio.create_task(agent.run("Count."))
        for _ in range(2):
            await waits.wait()
            waits.clear()
            run.cancel()
        await asyncio.wait({run})
    ended = [event.kind for _, when, event in diary.book if when == "after"]
    assert ended == ["model", "turn", "session"]


async def test_a_turn_that_another_began_goes_on_before_the_hooks_as_a_second_attempt(tmp_path: Path) -> None:
    store, diary = f"sqlite:///{tmp_path}/s.db", Diary()

    script = ScriptedProvider([calls("book", port="Dover")])
    asking = {"tools": [book], "permissions": "ask", "storage": store}
    async with Agent(script, **asking) as first, first.session("s") as session:
        await asked_of(session, "Book.")
    later = ScriptedProvider([says("Done.").expecting(result="booked at Dover")], verbatim=False)
    async with Agent(later, hooks=[diary], **asking) as second, second.session("s") as session:
        await session.approve()
        turn = await session.turn_result()
    assert turn.text == "Done."
    (began,) = diary.pages("turn", "before")
    assert (began.turn_id, began.attempt) == (turn.id, 2)
    assert [event.turn_id for event in diary.pages("turn")] == [turn.id]


async def test_a_turn_that_is_let_go_of_has_ended_before_the_hooks() -> None:
    """It waits for leave, and nobody runs it: who goes on with it begins it anew."""
    diary = Diary()
    agent = Agent(
        ScriptedProvider([calls("book", port="Dover")]), tools=[book], permissions="ask", hooks=[diary]
    )
    async with agent, agent.session("s") as session:
        await asked_of(session, "Book.")
    assert [(when, event.kind) for _, when, event in diary.book if event.kind in ("turn", "session")] == [
        ("before", "session"),
        ("before", "turn"),
        ("after", "turn"),
        ("after", "session"),
    ]


async def test_hooks_are_closed_with_their_agent() -> None:
    class Closing(Diary):
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    hook = Closing()
    async with Agent(ScriptedProvider(["Done."]), hooks=[hook]) as agent:
        await ask_and_read(agent.stream("Book."))
        assert not hook.is_closed
    assert hook.is_closed
