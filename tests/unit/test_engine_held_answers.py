"""An answer on its way past guardrails: what is shown, in which order, and what is kept of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from gnomon.contracts.guardrail import Position, Window
from gnomon.engine.guards import Guards
from gnomon.engine.holding import HeldAnswer
from gnomon.errors import GuardrailTripped
from gnomon.stream import PullStream
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    PartEnd,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Message, Part, Text, Thinking, ToolCall
from gnomon.types.requests import Response, Usage
from gnomon.types.steps import GuardrailResult


class Secret:
    """Looks for one word in six letters."""

    name = "secret"
    view = Window(6)

    def __init__(self, *positions: Position, instead: str | None = None) -> None:
        self.positions: frozenset[Position] = frozenset(positions)
        self._instead = instead

    async def check(self, content: str) -> GuardrailResult:
        if "secret" not in content:
            return GuardrailResult(passed=True)
        instead = None if self._instead is None else content.replace("secret", self._instead)
        return GuardrailResult(passed=False, reason="the word", replacement=instead)


def done(*parts: Part) -> Done:
    return Done(Response(message=Message("assistant", parts), stop_reason="end_turn"))


def held(guard: Secret, events: Sequence[RunEvent]) -> HeldAnswer:
    async def said() -> AsyncGenerator[RunEvent, None]:
        for event in events:
            yield event

    return HeldAnswer(PullStream(said()), Guards([guard]))


async def shown(answer: HeldAnswer) -> list[RunEvent]:
    seen: list[RunEvent] = []
    await read(answer, seen)
    return seen


async def read(answer: HeldAnswer, seen: list[RunEvent]) -> None:
    async with answer as events:
        async for event in events:
            seen.append(event)


def joined(events: Sequence[RunEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_a_word_over_three_deltas_is_never_shown() -> None:
    deltas = [TextDelta(0, piece) for piece in ("it is sec", "re", "t, so be quiet about it")]
    answer = held(Secret("output"), [*deltas, done(Text("it is secret, so be quiet about it"))])
    seen: list[RunEvent] = []
    with pytest.raises(GuardrailTripped, match="guardrail 'secret' stopped the answer: the word"):
        await read(answer, seen)
    assert joined(seen) in "it is "
    assert [(each.position, each.replaced) for each in answer.guarded("t", "m")] == [("output", False)]


async def test_done_carries_what_was_shown() -> None:
    text = "it is secret, so be quiet about it"
    answer = held(Secret("output", instead="***"), [TextDelta(0, text), done(Text(text))])
    events = await shown(answer)
    assert joined(events) == "it is ***, so be quiet about it"
    last = events[-1]
    assert isinstance(last, Done)
    assert last.response.message == Message.assistant("it is ***, so be quiet about it")


async def test_what_is_not_changed_keeps_its_response() -> None:
    end = done(Text("all is well", meta={"kept": True}))
    events = await shown(held(Secret("output"), [TextDelta(0, "all is well"), end]))
    assert events[-1] == end


async def test_other_events_wait_behind_the_text_before_them() -> None:
    usage = UsageUpdate(Usage(input_tokens=1))
    look = ToolCall("c", "look", "{}", index=1)
    start, end = ToolCallStart(1, "c", "look"), ToolCallEnd(1, look)
    text = Text("fine words")
    events = [TextDelta(0, "fine"), usage, start, TextDelta(0, " words"), PartEnd(0, text), end]
    seen = await shown(held(Secret("output"), [*events, done(text, look)]))
    texts = [at for at, event in enumerate(seen) if isinstance(event, TextDelta)]
    others = [event for event in seen if not isinstance(event, TextDelta)]
    assert others[:-1] == [usage, start, PartEnd(0, text), end]
    assert max(texts) < min(at for at, event in enumerate(seen) if event in others)


async def test_thinking_is_held_back_too_and_loses_its_signature_when_it_is_changed() -> None:
    thought = Thinking("a secret thought", signature="signed")
    events = [ThinkingDelta(0, "a secret thought"), PartEnd(0, thought), TextDelta(1, "hello")]
    seen = await shown(held(Secret("output", instead="***"), [*events, done(thought, Text("hello"))]))
    parts = [event.part for event in seen if isinstance(event, PartEnd)]
    assert parts == [Thinking("a *** thought")]
    last = seen[-1]
    assert isinstance(last, Done)
    assert last.response.message.content == (Thinking("a *** thought"), Text("hello"))


async def test_what_is_discarded_leaves_nothing_behind() -> None:
    discarded = AttemptDiscarded("it broke")
    events = [TextDelta(0, "it is sec"), discarded, TextDelta(0, "ret or not"), done(Text("ret or not"))]
    seen = await shown(held(Secret("output"), events))
    after = seen[seen.index(discarded) + 1 :]
    assert joined(after) == "ret or not"


def call(arguments: str) -> list[RunEvent]:
    made = ToolCall("c", "send", arguments)
    return [ToolCallStart(0, "c", "send"), ToolCallDelta(0, "c", arguments), ToolCallEnd(0, made), done(made)]


async def test_arguments_are_shown_when_they_have_passed() -> None:
    events = call('{"text": "hello"}')
    assert await shown(held(Secret("tool_arguments"), events)) == events


@pytest.mark.parametrize(
    "hidden", ['{"text":"a secret"}', '{"text":"a \\u0073ecret"}', '{"a":[{"b":"secret"}]}']
)
async def test_no_escape_hides_something_in_arguments(hidden: str) -> None:
    answer = held(Secret("tool_arguments"), call(hidden))
    with pytest.raises(GuardrailTripped, match="stopped a call of 'send'"):
        await shown(answer)
    assert [(each.position, each.call_id) for each in answer.guarded("t", "m")] == [("tool_arguments", "c")]


async def test_arguments_are_replaced_within_their_texts() -> None:
    seen = await shown(held(Secret("tool_arguments", instead="***"), call('{"n": 1, "text": "secret\\n"}')))
    ended = next(event for event in seen if isinstance(event, ToolCallEnd))
    assert ended.call.arguments == '{"n":1,"text":"***\\n"}'
    last = seen[-1]
    assert isinstance(last, Done)
    assert last.response.tool_calls == (ended.call,)


async def test_a_replacement_that_is_no_json_stops_the_call() -> None:
    class Breaking(Secret):
        async def check(self, content: str) -> GuardrailResult:
            if content.startswith("{"):
                return GuardrailResult(passed=False, reason="so", replacement="no json")
            return GuardrailResult(passed=True)

    with pytest.raises(GuardrailTripped, match="that are no JSON"):
        await shown(held(Breaking("tool_arguments"), call('{"a":1}')))


async def test_arguments_that_were_cut_off_are_checked_as_they_are() -> None:
    made = ToolCall("c", "send", '{"text": "sec', truncated=True)
    events: list[RunEvent] = [ToolCallStart(0, "c", "send"), ToolCallEnd(0, made), done(made)]
    seen = await shown(held(Secret("tool_arguments"), events))
    assert ToolCallEnd(0, made) in seen


async def test_leaving_closes_what_is_behind() -> None:
    closed: list[bool] = []

    async def said() -> AsyncGenerator[RunEvent, None]:
        try:
            while True:
                yield TextDelta(0, "on and on, ")
        finally:
            closed.append(True)

    answer = HeldAnswer(PullStream(said()), Guards([Secret("output")]))
    async with answer as events:
        await anext(aiter(events))
    assert closed == [True]
