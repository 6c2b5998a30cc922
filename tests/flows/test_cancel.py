"""Leaving early, at any point: everything behind the turn is closed, cancelled and waited for."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from gnomon import (
    Agent,
    Finish,
    Message,
    MessageCompleted,
    Provider,
    Request,
    Run,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolContext,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    UsageUpdate,
    tool,
)
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.types.events import ProviderEvent, RunEvent
from gnomon.types.requests import Usage


class Scene:
    """A model and tools that keep a book of what is open."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[str] = []
        self.effects: list[str] = []
        self.shown = asyncio.Event()
        self.agent = Agent(Model(self), tools=[*self._tools()])

    def enter(self, what: str) -> Held:
        return Held(self, what)

    def _tools(self) -> tuple[Any, Any, Any]:
        @tool(read_only=True)
        async def quick() -> str:
            async with self.enter("quick"):
                return "quick"

        @tool(read_only=True)
        async def slow() -> str:
            async with self.enter("slow"):
                await self.shown.wait()  # until the reader has seen the result of the quick one
                return "slow"

        @tool
        async def write() -> str:
            async with self.enter("write"):
                await asyncio.sleep(0)
                self.effects.append("written")
                return "written"

        return quick, slow, write

    def read(self, event: RunEvent) -> None:
        self.seen.append(type(event).__name__)
        if isinstance(event, ToolFinished):
            self.shown.set()

    def assert_nothing_is_left(self) -> None:
        assert self.open == [], f"left open after {self.seen}"
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert not tasks, f"left running after {self.seen}: {tasks}"


class Held:
    """Something that takes a moment to open and a moment to close."""

    def __init__(self, scene: Scene, what: str) -> None:
        self._open = scene.open
        self._what = what

    async def __aenter__(self) -> None:
        await asyncio.sleep(0)
        self._open.append(self._what)

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.sleep(0)
        finally:  # nobody is safe from a second cancellation
            self._open.remove(self._what)


class Model(Provider):
    """Thinks, talks and calls: two reads and a write, then a write, then an answer."""

    name = "model"
    model = "model"

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        said = sum(message.role == "assistant" for message in request.messages)
        async with self._scene.enter("connection"):
            for event in self._answer(said):
                await asyncio.sleep(0)
                yield event

    def _answer(self, said: int) -> list[ProviderEvent]:
        names = [("quick", "slow", "write"), ("write",), ()][said]
        events: list[ProviderEvent] = [ThinkingDelta(0, "hm"), TextDelta(1, "so "), TextDelta(1, "then")]
        for index, name in enumerate(names, start=2):
            id = f"call_{said}_{index}"
            events += [
                ToolCallStart(index, id, name),
                ToolCallDelta(index, id, "{}"),
                ToolCallEnd(index, ToolCall(id, name, "{}", index)),
            ]
        usage = Usage(input_tokens=1, output_tokens=1)
        return [*events, UsageUpdate(usage), Finish(stop_reason="end_turn", usage=usage)]


async def whole_length() -> int:
    scene = Scene()
    async with asyncio.timeout(10), scene.agent.stream("go") as run:
        async for event in run:
            scene.read(event)
    assert run.turn.rounds == 3
    assert scene.effects == ["written", "written"]
    return len(scene.seen)


# --- leaving the block ------------------------------------------------------


async def read_some(scene: Scene, count: int, leave: Callable[[], None]) -> Run:
    async with scene.agent.stream("go") as run:
        if count:
            async for event in run:
                scene.read(event)
                if len(scene.seen) == count:
                    break
        leave()
    return run


async def test_leaving_at_every_event_closes_everything() -> None:
    total = await whole_length()
    assert total > 30
    for count in range(total):
        scene = Scene()
        async with asyncio.timeout(10):
            run = await read_some(scene, count, lambda: None)
        scene.assert_nothing_is_left()
        if count == 0:
            with pytest.raises(RuntimeError, match="not over"):
                run.turn
        else:
            # With the last message the end is written, too.
            assert run.turn.stop == ("end_turn" if count == total - 1 else "cancelled")
            assert_whole(run.turn.messages)


def assert_whole(messages: Sequence[Message]) -> None:
    """Every call has its one result."""
    for at, message in enumerate(messages):
        if message.tool_calls:
            results = messages[at + 1].tool_results
            assert [result.call_id for result in results] == [call.id for call in message.tool_calls]


async def test_what_was_said_and_paid_for_before_the_reader_left_is_kept() -> None:
    async with Scene().agent.stream("go") as run:
        async for event in run:
            if isinstance(event, TextDelta):
                break
    assert [message.text for message in run.turn.messages] == ["go", "so "]
    assert run.turn.text == "so "
    assert (run.turn.stop, run.turn.rounds) == ("cancelled", 1)
    assert run.turn.usage.estimated
    assert (run.turn.usage.output_tokens or 0) > 0


async def test_an_exception_of_the_reader_at_every_event_closes_everything_and_comes_out() -> None:
    def leave() -> None:
        raise LookupError("the reader's own")

    for count in range(await whole_length()):
        scene = Scene()
        async with asyncio.timeout(10):
            with pytest.raises(LookupError, match="the reader's own"):
                await read_some(scene, count, leave)
        scene.assert_nothing_is_left()


async def test_a_tool_that_runs_while_the_reader_leaves_is_cancelled_and_waited_for() -> None:
    scene = Scene()
    async with scene.agent.stream("go") as run:
        async for event in run:
            if isinstance(event, ToolFinished):
                break
        assert scene.open == ["slow"]
    scene.assert_nothing_is_left()


async def test_leaving_between_an_intent_and_its_effect_leaves_no_effect() -> None:
    scene = Scene()
    async with scene.agent.stream("go") as run:
        async for event in run:
            scene.read(event)
            if isinstance(event, ToolIntent):
                break
    assert scene.effects == []
    scene.assert_nothing_is_left()


async def test_no_tool_starts_before_its_message_was_read() -> None:
    scene = Scene()
    async with scene.agent.stream("go") as run:
        async for event in run:
            if isinstance(event, MessageCompleted):
                for _ in range(10):
                    await asyncio.sleep(0)
                break
        assert scene.open == []
    scene.assert_nothing_is_left()


async def test_a_run_may_be_closed_twice_and_before_it_began_and_after_its_end() -> None:
    scene = Scene()
    run = scene.agent.stream("go")
    await run.aclose()
    await run.aclose()
    assert [event async for event in run] == []
    async with Scene().agent.stream("go") as run:
        await anext(run)
        await run.aclose()
        await run.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(run)


async def test_the_agent_and_the_conversation_can_go_on_after_leaving() -> None:
    scene = Scene()
    said: list[Message] = []
    async with scene.agent.stream("go") as run:
        async for event in run:
            scene.read(event)
            if isinstance(event, MessageCompleted):
                said.append(event.message)
            if isinstance(event, ToolIntent):
                break
    provider = ScriptedProvider([says("I see.").expecting(text="go on", result=None)])
    turn = await Agent(provider).run("go on", messages=[Message.user("go"), *said])
    assert turn.text == "I see."
    statuses = [r.status for m in provider.requests[0].messages for r in m.tool_results]
    assert statuses == ["interrupted"] * 3


async def test_a_run_that_is_dropped_without_a_block_is_closed_by_the_loop() -> None:
    scene = Scene()

    async def careless() -> None:
        async for event in scene.agent.stream("go"):
            if isinstance(event, TextDelta):
                break

    await careless()
    gc.collect()
    for _ in range(10):
        await asyncio.sleep(0)
    scene.assert_nothing_is_left()


@pytest.mark.parametrize("read", ["all", "some"])
async def test_a_model_may_wait_while_it_closes_what_it_holds(read: str) -> None:
    """Closing a connection waits for the loop; to cut that short is to leave the connection open."""
    steps: list[str] = []

    class Polite(Provider):
        name = model = "polite"

        async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            try:
                yield TextDelta(0, "x")
                yield Finish(stop_reason="end_turn")
            finally:
                await asyncio.sleep(0)
                steps.append("said goodbye")
                await asyncio.sleep(0)
                steps.append("closed")

    async with Agent(Polite()).stream("go") as run:
        async for event in run:
            if read == "some" and isinstance(event, TextDelta):
                break
    assert steps == ["said goodbye", "closed"]


async def test_a_model_that_lingers_after_its_last_word_holds_up_nobody() -> None:
    closed: list[bool] = []

    class Lingers(Provider):
        name = model = "lingers"

        async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            try:
                yield Finish(stop_reason="end_turn")
                await asyncio.Event().wait()  # for a server that does not hang up
            finally:
                await asyncio.sleep(0)
                closed.append(True)

    async with asyncio.timeout(10):
        assert (await Agent(Lingers()).run("go")).stop == "end_turn"
    assert closed == [True]


# --- cancelling the task ----------------------------------------------------


async def cancelled_after(steps: int, work: Callable[[Scene], Awaitable[object]]) -> bool:
    """Cancel at that many steps of the loop; whether the work was still at it."""
    scene = Scene()
    task = asyncio.ensure_future(work(scene))
    for _ in range(steps):
        await asyncio.sleep(0)
    if task.done():
        task.result()
        return False
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    scene.assert_nothing_is_left()
    return True


async def a_run(scene: Scene) -> None:
    scene.shown.set()
    await scene.agent.run("go")


async def a_stream(scene: Scene) -> None:
    async with scene.agent.stream("go") as run:
        async for event in run:
            scene.read(event)
            await asyncio.sleep(0)


@pytest.mark.parametrize("work", [a_run, a_stream])
async def test_cancelling_the_task_at_every_step_closes_everything(
    work: Callable[[Scene], Awaitable[object]],
) -> None:
    steps = 0
    while await cancelled_after(steps, work):
        steps += 1
    assert steps > 40


async def test_a_timeout_around_a_run_is_a_timeout() -> None:
    scene = Scene()  # its slow tool waits for a reader who never comes
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await scene.agent.run("go")
    scene.assert_nothing_is_left()


async def test_a_task_that_is_cancelled_during_a_tool_is_cancelled_and_not_told_a_result() -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Agent(ScriptedProvider([calls("hang"), "never"]), tools=[hang]).run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_function_in_a_thread_is_left_alone_and_told() -> None:
    started, told, released = threading.Event(), threading.Event(), threading.Event()

    @tool
    def hang(context: ToolContext) -> None:
        started.set()
        released.wait(10)
        if context.cancelled:
            told.set()

    task = asyncio.create_task(Agent(ScriptedProvider([calls("hang"), "never"]), tools=[hang]).run("go"))
    assert await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    released.set()
    assert await asyncio.to_thread(told.wait, 2), "the thread was not told that nobody waits"


async def test_two_runs_in_a_group_end_together_when_one_fails() -> None:
    scenes = [Scene(), Scene()]

    async def fails() -> None:
        for _ in range(25):
            await asyncio.sleep(0)
        raise LookupError("enough")

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for scene in scenes:
                group.create_task(scene.agent.run("go"))
            group.create_task(fails())

    with pytest.raises(ExceptionGroup) as caught:
        await together()
    assert [type(error) for error in caught.value.exceptions] == [LookupError]
    for scene in scenes:
        scene.assert_nothing_is_left()


async def test_the_last_event_comes_after_everything_was_closed() -> None:
    scene = Scene()
    async with scene.agent.stream("go") as run:
        async for event in run:
            scene.read(event)
            if isinstance(event, MessageCompleted | TurnFinished):
                assert scene.open == []
