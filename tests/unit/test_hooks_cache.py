"""CacheHook: bounded, for a time, asked once, keyed by the whole request, replayed as it came (H6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from limit_stage import ANSWER, Answer, Model, Tool, answer, asked, model_step, read, spin, texts, tool_step
from skipping_loop import run

from gnomon import registry
from gnomon.contracts.hook import Hook, SupportsAround
from gnomon.errors import InvalidInput, Overloaded
from gnomon.facts.catalogue import Catalogue
from gnomon.hooks._kept import Kept
from gnomon.hooks.cache import CacheHook
from gnomon.stream import PullStream, StreamFold
from gnomon.testing.clock import FakeClock
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Finish,
    PartEnd,
    ProviderEvent,
    RunEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolProgress,
    UsageUpdate,
)
from gnomon.types.messages import Image, Message, Text, Thinking, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import OneTool, Reasoning, Request, Usage
from gnomon.types.steps import HookEvent

PAID = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=7)


def said(events: list[RunEvent]) -> str:
    assert isinstance(events[-1], Done)
    return events[-1].response.text


def call_of_a_tool() -> Answer:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        yield ToolCallStart(0, "call_1", "tide")
        yield ToolCallDelta(0, "call_1", "{}")
        yield ToolCallEnd(0, ToolCall("call_1", "tide", "{}"))
        yield Finish(stop_reason="tool_use", usage=PAID)

    return events


def failing(error: Exception) -> Answer:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        await asyncio.sleep(1)
        yield TextDelta(0, "High")
        raise error

    return events


# --- a hit


async def test_what_was_asked_before_is_not_asked_again() -> None:
    hook, model = CacheHook(), Model(sees=model_step())
    first = await read(hook, model_step(), model)
    again = await read(hook, model_step(), model)
    assert len(model.calls) == 1
    assert said(first) == said(again) == "High tide is at noon."
    assert (hook.hits, hook.misses, len(hook)) == (1, 1, 1)


async def test_a_replay_is_the_same_events_chunk_by_chunk() -> None:
    """But for what is paid, and the word that it is a replay."""

    async def events() -> AsyncGenerator[ProviderEvent, None]:
        yield UsageUpdate(PAID)
        yield ThinkingDelta(0, "The moon, ")
        yield ThinkingDelta(0, "the sun.\n")
        yield PartEnd(0, Thinking("The moon, the sun.\n", signature="c2ln", provider="acme", model="tide"))
        yield StreamWarning("top_k was not sent", "unsupported_parameter")
        yield TextDelta(1, "High ")
        yield TextDelta(1, "tide 🌊")
        yield PartEnd(1, Text("High tide 🌊", meta={"annotations": [{"url": "https://sea.example"}]}))
        yield Finish(stop_reason="stop_sequence", id="resp_7", raw_stop_reason="stop", usage=PAID)

    hook, model = CacheHook(), Model(events)
    first = await read(hook, model_step(), model)
    again = await read(hook, model_step(), model)
    assert [type(event) for event in again] == [StreamWarning, *(type(event) for event in first)]
    unpaid = (UsageUpdate, Done)
    assert [event for event in again[1:] if not isinstance(event, unpaid)] == [
        event for event in first if not isinstance(event, unpaid)
    ]
    assert again[-1].response.message == first[-1].response.message
    assert (again[-1].response.id, again[-1].response.raw_stop_reason) == ("resp_7", "stop")


async def test_a_replay_folds_to_its_own_response() -> None:
    hook, model = CacheHook(), Model(answer(used=PAID))
    await read(hook, model_step(), model)
    fold = StreamFold()
    for event in await read(hook, model_step(), model):
        if isinstance(event, Done):
            assert fold.confirm(event.response) == event.response
            assert tuple(fold.warnings) == event.response.warnings
            assert fold.usage == event.response.usage
        else:
            fold.add(event)


async def test_a_hit_costs_nothing_and_says_so() -> None:
    prices = Catalogue({"acme:tide": {"input_price": 3, "output_price": 15}})
    hook, model = CacheHook(), Model(answer(used=PAID))
    first = (await read(hook, model_step(), model))[-1].response
    events = await read(hook, model_step(), model)
    again = events[-1].response
    assert prices.response_cost(first, "acme:tide") > 0
    assert prices.response_cost(again, "acme:tide") == 0
    assert again.usage == Usage(input_tokens=0, output_tokens=0)
    assert [event.usage.total_tokens for event in events if isinstance(event, UsageUpdate)] == [0]
    assert events[0].code == "cached"
    assert again.warnings == (events[0].message,)
    assert first.warnings == ()


async def test_attempts_that_were_given_up_are_neither_played_nor_paid_again() -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        yield StreamWarning("top_k was not sent")
        yield TextDelta(0, "Low")
        yield AttemptDiscarded("cut", PAID, "other", "tide")
        yield TextDelta(0, "High")
        yield Finish(stop_reason="end_turn", usage=PAID)

    hook, model = CacheHook(), Model(events)
    first = (await read(hook, model_step(), model))[-1].response
    events = await read(hook, model_step(), model)
    assert len(first.discarded) == 1
    assert texts(events) == ["High"]
    assert events[-1].response.discarded == ()
    told = [event.message for event in events if isinstance(event, StreamWarning)]
    assert events[-1].response.warnings == tuple(told) == (events[0].message, "top_k was not sent")


async def test_a_step_says_in_its_notes_whether_it_was_a_hit() -> None:
    hook, first, again = CacheHook(), model_step(), model_step()
    await read(hook, first, Model())
    await read(hook, again, Model())
    assert (first.notes["cache"], again.notes["cache"]) == ("miss", "hit")


# --- the key is the whole request

PLAIN = asked()
TIDE = ToolDef(name="tide", schema={"type": "object"})


@pytest.mark.parametrize(
    "other",
    [
        model_step(asked("When is low tide in Dover?")),
        model_step(asked(system="Be brief.")),
        model_step(asked(model="tide-2")),
        model_step(asked(tools=(TIDE,))),
        model_step(asked(tools=(msgspec.structs.replace(TIDE, description="The tide."),))),
        model_step(asked(tool_choice="none")),
        model_step(asked(tool_choice=OneTool("tide"))),
        model_step(asked(temperature=0.0)),
        model_step(asked(top_p=0.5)),
        model_step(asked(top_k=5)),
        model_step(asked(max_tokens=5)),
        model_step(asked(stop=("x",))),
        model_step(asked(thinking=Reasoning(effort="low"))),
        model_step(asked(output_schema={"type": "object"})),
        model_step(asked(metadata={"user": "one"})),
        model_step(Request(messages=(*PLAIN.messages, Message.assistant("Noon.")))),
        model_step(Request(messages=(Message.user("When is high tide in Dover?", name="ann"),))),
        model_step(Request(messages=(Message.system("When is high tide in Dover?"),))),
        model_step(Request(messages=(Message.user("When is high tide in Dover?", Image(data=b"\x89PNG")),))),
        model_step(PLAIN, name="acme:ebb"),
        model_step(PLAIN, name="other:tide"),
    ],
)
async def test_a_request_that_differs_in_anything_is_another(other: HookEvent) -> None:
    hook, model = CacheHook(), Model()
    await read(hook, model_step(PLAIN), model)
    await read(hook, other, model)
    assert len(model.calls) == 2
    await read(hook, other, model)
    assert len(model.calls) == 2


def test_every_field_of_a_request_is_part_of_the_key() -> None:
    """When a request gets another field, the test above wants another line."""
    assert len(Request.__struct_fields__) == 13


async def test_sessions_turns_and_attempts_share_what_was_answered() -> None:
    hook, model = CacheHook(), Model()
    await read(hook, model_step(session_id="one", turn_id="a", attempt=1), model)
    await read(hook, model_step(session_id="two", turn_id="b", attempt=2), model)
    assert len(model.calls) == 1


async def test_a_scope_keeps_what_is_not_to_be_shared_apart() -> None:
    hook, model = CacheHook(scope=lambda event: event.session_id), Model()
    for session in ("one", "two", "one"):
        await read(hook, model_step(session_id=session), model)
    assert len(model.calls) == 2


@pytest.mark.parametrize("strange", [object(), 2**70, "\ud83d"], ids=["object", "number", "half a character"])
async def test_what_cannot_be_compared_is_asked_each_time(strange: object) -> None:
    hook, model = CacheHook(), Model()
    step = model_step(asked(output_schema={"default": strange}))
    await read(hook, step, model)
    await read(hook, step, model)
    assert len(model.calls) == 2


async def test_turns_and_sessions_go_through() -> None:
    """The engine does not ask around them; whoever does gets what the step gives."""
    hook, model = CacheHook(), Model()
    for _ in range(2):
        await read(hook, HookEvent(kind="turn", name="turn"), model)
    assert len(model.calls) == 2


# --- what is kept


@pytest.mark.parametrize("stop", ["max_tokens", "content_filter", "refusal", "other"])
async def test_an_answer_that_is_not_whole_is_not_kept(stop: Any) -> None:
    hook, model = CacheHook(tool_calls=True), Model(answer(stop=stop))
    await read(hook, model_step(), model)
    await read(hook, model_step(), model)
    assert len(model.calls) == 2
    assert len(hook) == 0


async def test_an_empty_answer_is_not_kept() -> None:
    async def nothing() -> AsyncGenerator[ProviderEvent, None]:
        yield Finish(stop_reason="end_turn")

    hook, model = CacheHook(), Model(nothing)
    await read(hook, model_step(), model)
    await read(hook, model_step(), model)
    assert len(model.calls) == 2


async def test_tool_calls_are_not_kept() -> None:
    hook, model = CacheHook(), Model(call_of_a_tool())
    await read(hook, model_step(), model)
    await read(hook, model_step(), model)
    assert len(model.calls) == 2


async def test_tool_calls_are_kept_when_told() -> None:
    hook, model = CacheHook(tool_calls=True), Model(call_of_a_tool())
    first = await read(hook, model_step(), model)
    again = await read(hook, model_step(), model)
    assert len(model.calls) == 1
    assert again[-1].response.tool_calls == first[-1].response.tool_calls
    assert [type(event) for event in again[1:]] == [type(event) for event in first]


async def test_a_response_with_calls_that_did_not_stream_is_not_kept_either() -> None:
    """A hook further in may give a response of its own making."""
    response = msgspec.structs.replace(
        (await read(CacheHook(), model_step(), Model()))[-1].response,
        message=Message.assistant("", ToolCall("call_1", "tide")),
        stop_reason="tool_use",
    )
    calls = 0

    async def events() -> AsyncGenerator[RunEvent, None]:
        yield Done(response)

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        nonlocal calls
        calls += 1
        return PullStream(events())

    hook = CacheHook()
    await read(hook, model_step(), call)
    await read(hook, model_step(), call)
    assert calls == 2


async def test_errors_are_not_kept() -> None:
    hook, model = CacheHook(), Model(failing(Overloaded("busy")), answer())
    with pytest.raises(Overloaded):
        await read(hook, model_step(), model)
    assert said(await read(hook, model_step(), model)) == "High tide is at noon."
    assert len(model.calls) == 2


async def test_an_answer_that_cannot_be_written_down_goes_through_and_is_not_kept() -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        yield TextDelta(0, "half \ud83d")
        yield Finish(stop_reason="end_turn")

    hook, model = CacheHook(), Model(events)
    for _ in range(2):
        assert texts(await read(hook, model_step(), model)) == ["half \ud83d"]
    assert len(model.calls) == 2


async def test_an_answer_that_was_left_in_the_middle_is_not_kept() -> None:
    hook, model = CacheHook(), Model()
    async with await hook.around(model_step(), model) as stream:
        await anext(stream)
    assert model.open == 0
    await read(hook, model_step(), model)
    assert len(model.calls) == 2


# --- bounded, for a time


async def test_an_answer_is_forgotten_after_its_time() -> None:
    clock = FakeClock()
    hook, model = CacheHook(ttl_s=60, clock=clock.monotonic), Model()
    await read(hook, model_step(), model)
    clock.advance(59.9)
    await read(hook, model_step(), model)
    assert len(model.calls) == 1
    clock.advance(0.1)
    assert len(hook) == 1
    await read(hook, model_step(), model)
    assert len(model.calls) == 2
    clock.advance(59.9)  # a new answer, with a time of its own
    await read(hook, model_step(), model)
    assert len(model.calls) == 2


async def test_a_hit_does_not_make_an_answer_younger() -> None:
    clock = FakeClock()
    hook, model = CacheHook(ttl_s=60, clock=clock.monotonic), Model()
    for _ in range(4):
        await read(hook, model_step(), model)
        clock.advance(20)
    assert len(model.calls) == 2


async def test_the_longest_unused_goes_first() -> None:
    hook, model = CacheHook(entries=3), Model()
    for text in ("a", "b", "c", "a", "d"):  # b is the longest unused when d comes
        await read(hook, model_step(asked(text)), model)
    asked_before = len(model.calls)
    for text in ("a", "c", "d"):
        await read(hook, model_step(asked(text)), model)
    assert len(model.calls) == asked_before
    await read(hook, model_step(asked("b")), model)
    assert len(model.calls) == asked_before + 1
    assert len(hook) == 3


async def test_bytes_are_bounded_too_and_the_longest_unused_goes_first() -> None:
    hook, model = CacheHook(size_bytes=10_000), Model(answer("x" * 2_000))
    for text in ("a", "b", "c"):
        await read(hook, model_step(asked(text)), model)
        assert 0 < hook.size_bytes <= 10_000
    assert len(hook) == 2  # each has its text twice: as it came, and as a whole
    await read(hook, model_step(asked("b")), model)
    await read(hook, model_step(asked("c")), model)
    assert len(model.calls) == 3
    await read(hook, model_step(asked("a")), model)
    assert len(model.calls) == 4


@pytest.mark.parametrize("size", [2_000, 4_100, 20_000])
async def test_an_answer_larger_than_all_the_room_is_not_kept_and_drives_nobody_out(size: int) -> None:
    hook, model = CacheHook(size_bytes=4_000), Model(answer(), answer("x" * size))
    await read(hook, model_step(asked("small")), model)
    await read(hook, model_step(asked("large")), model)
    await read(hook, model_step(asked("small")), model)
    assert (len(model.calls), len(hook)) == (2, 1)


def test_what_does_not_fit_at_all_is_refused_and_the_others_stay() -> None:
    kept = Kept(entries=5, size_bytes=1_000, ttl_s=60, clock=lambda: 0.0)
    assert kept.put(b"small", b"x")
    assert not kept.put(b"large", b"x" * 900)
    assert kept.get(b"small") == b"x"


def test_an_answer_that_is_kept_anew_takes_the_place_of_the_old_one() -> None:
    kept = Kept(entries=5, size_bytes=10_000, ttl_s=60, clock=lambda: 0.0)
    kept.put(b"key", b"x" * 100)
    size = kept.size_bytes
    kept.put(b"key", b"y" * 100)
    assert (kept.get(b"key"), kept.size_bytes, len(kept)) == (b"y" * 100, size, 1)


async def test_a_hundred_thousand_requests_take_no_more_room_than_allowed() -> None:
    """Through the same door as an answer; the way there is tested above."""
    kept = Kept(entries=500, size_bytes=100_000, ttl_s=60, clock=lambda: 0.0)
    most_entries = most_bytes = 0
    for number in range(100_000):
        assert kept.put(number.to_bytes(32, "big"), b"x" * (number % 700))
        most_entries, most_bytes = max(most_entries, len(kept)), max(most_bytes, kept.size_bytes)
    assert most_entries <= 500
    assert 99_000 < most_bytes <= 100_000
    held = kept._entries
    assert sum(len(key) + len(entry.lines) + 300 for key, entry in held.items()) == kept.size_bytes


async def test_many_requests_leave_nothing_else_behind() -> None:
    hook, model = CacheHook(entries=10), Model(answer("a"))
    for number in range(2_000):
        await read(hook, model_step(asked(f"question {number}")), model)
    assert len(hook) == 10
    assert not any(hook._flights._of_loop.values())


async def test_what_is_kept_can_be_cleared() -> None:
    hook, model = CacheHook(), Model()
    await read(hook, model_step(), model)
    hook.clear()
    assert (len(hook), hook.size_bytes) == (0, 0)
    await read(hook, model_step(), model)
    assert len(model.calls) == 2


# --- asked once


def test_ten_who_ask_the_same_at_once_ask_once() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model(answer(pause_s=1, used=PAID))
        answers = await asyncio.gather(*(read(hook, model_step(), model) for _ in range(10)))
        assert len(model.calls) == 1
        assert [texts(events) for events in answers] == [list(ANSWER)] * 10
        paid = [events[-1].response.usage.total_tokens for events in answers]
        assert sorted(paid) == [0] * 9 + [PAID.total_tokens]
        assert (hook.hits, hook.misses) == (9, 1)

    run(test())


def test_when_the_one_who_asks_is_cancelled_another_takes_over() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model(answer(pause_s=1))
        readers = [asyncio.ensure_future(read(hook, model_step(), model)) for _ in range(10)]
        await asyncio.sleep(1.5)
        readers[0].cancel()
        answers = await asyncio.gather(*readers[1:])
        assert len(model.calls) == 2
        assert model.most_open == 1
        assert [said(events) for events in answers] == ["High tide is at noon."] * 9
        assert readers[0].cancelled()

    run(test())


def test_when_the_one_who_asks_fails_another_takes_over_and_nobody_else_gets_its_error() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model(failing(Overloaded("busy")), answer(pause_s=1))
        readers = (read(hook, model_step(), model) for _ in range(10))
        ended = await asyncio.gather(*readers, return_exceptions=True)
        assert [type(each) for each in ended] == [Overloaded] + [list] * 9
        assert len(model.calls) == 2
        assert model.most_open == 1

    run(test())


def test_those_who_waited_for_an_answer_that_is_not_kept_ask_side_by_side() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model(answer(pause_s=1, stop="max_tokens"))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(read(hook, model_step(), model) for _ in range(10)))
        assert asyncio.get_running_loop().time() - began == pytest.approx(6)  # twice, not ten times
        assert len(model.calls) == 10

    run(test())


def test_as_soon_as_a_tool_is_called_nobody_waits_any_more() -> None:
    async def slow() -> AsyncGenerator[ProviderEvent, None]:
        yield ToolCallStart(0, "call_1", "tide")
        await asyncio.sleep(100)
        yield ToolCallEnd(0, ToolCall("call_1", "tide", "{}"))
        yield Finish(stop_reason="tool_use")

    async def test() -> None:
        hook, model = CacheHook(), Model(slow)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(read(hook, model_step(), model) for _ in range(3)))
        assert asyncio.get_running_loop().time() - began == pytest.approx(100)

    run(test())


def test_as_soon_as_an_answer_is_too_large_nobody_waits_any_more() -> None:
    async def test() -> None:
        hook, model = CacheHook(size_bytes=4_000), Model(answer("x" * 5_000, "y", pause_s=10))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(read(hook, model_step(), model) for _ in range(3)))
        assert asyncio.get_running_loop().time() - began == pytest.approx(30)

    run(test())


def test_one_who_waits_may_leave() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model(answer(pause_s=1))
        first, second = (asyncio.ensure_future(read(hook, model_step(), model)) for _ in range(2))
        await spin()
        second.cancel()
        assert said(await first) == "High tide is at noon."
        assert len(model.calls) == 1
        await asyncio.wait([second])

    run(test())


def test_one_who_stops_reading_holds_the_others_up_for_a_while_only() -> None:
    async def test() -> None:
        hook, model = CacheHook(patience_s=30), Model()
        stuck = await hook.around(model_step(), model)
        await anext(stuck)
        began = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(read(hook, model_step(), model) for _ in range(5)))
        assert asyncio.get_running_loop().time() - began == pytest.approx(30)
        assert len(model.calls) == 2  # one of the five for all of them
        assert {said(events) for events in answers} == {"High tide is at noon."}
        assert isinstance([event async for event in stuck][-1], Done)  # it still gets all of its own

    run(test())


def test_one_who_was_passed_over_does_not_end_the_flight_of_who_took_over() -> None:
    async def test() -> None:
        hook, model = CacheHook(patience_s=30), Model(answer(), answer(pause_s=10))
        stuck = await hook.around(model_step(), model)
        await anext(stuck)
        second = asyncio.ensure_future(read(hook, model_step(), model))
        await asyncio.sleep(35)
        await stuck.aclose()
        third = asyncio.ensure_future(read(hook, model_step(), model))
        await asyncio.wait([second, third])
        assert len(model.calls) == 2

    run(test())


def test_one_who_is_slow_but_reads_on_is_waited_for() -> None:
    async def test() -> None:
        hook, model = CacheHook(patience_s=30), Model(answer(*"abcdef", pause_s=20))
        await asyncio.gather(*(read(hook, model_step(), model) for _ in range(5)))
        assert len(model.calls) == 1

    run(test())


def test_nothing_is_asked_and_nobody_held_up_by_a_stream_that_is_never_read() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model()
        unread = await hook.around(model_step(), model)
        await asyncio.wait_for(read(hook, model_step(), model), 1)
        await unread.aclose()
        assert len(model.calls) == 1

    run(test())


def test_different_questions_do_not_wait_for_one_another() -> None:
    async def test() -> None:
        hook, model = CacheHook(), Model(answer(pause_s=1))
        await asyncio.gather(*(read(hook, model_step(asked(text)), model) for text in "abc"))
        assert model.most_open == 3

    run(test())


# --- a replay


async def test_a_replay_that_is_cancelled_in_the_middle_leaves_the_answer_as_it_was() -> None:
    hook, model = CacheHook(), Model(answer(*(f"word {number} " for number in range(1_000))))
    first = await read(hook, model_step(), model)
    seen: list[RunEvent] = []

    async def reader() -> None:
        async with await hook.around(model_step(), model) as stream:
            async for event in stream:
                seen.append(event)

    task = asyncio.ensure_future(reader())
    await spin(3)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert 0 < len(seen) < 1_000
    again = await read(hook, model_step(), model)
    assert texts(again) == texts(first)
    assert len(model.calls) == 1


async def test_a_replay_lets_others_run() -> None:
    hook, model = CacheHook(), Model(answer(*["word "] * 1_000))
    await read(hook, model_step(), model)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    await read(hook, model_step(), model)
    task.cancel()
    await asyncio.wait([task])
    assert turns > 10


async def test_what_a_reader_does_to_a_replay_does_not_reach_the_next() -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        yield TextDelta(0, "a")
        yield PartEnd(0, Text("a", meta={"seen": []}))
        yield Finish(stop_reason="end_turn")

    hook, model = CacheHook(), Model(events)
    await read(hook, model_step(), model)
    for _ in range(2):
        played = (await read(hook, model_step(), model))[-1].response.message.content[0].meta
        assert played == {"seen": []}
        played["seen"].append("me")


# --- tools


def result(text: str, status: Any = "ok") -> ToolResult:
    return ToolResult("", content=(text,), status=status)


async def test_results_of_a_named_tool_are_kept_by_its_arguments() -> None:
    hook, tool = CacheHook(tools={"tide"}), Tool(result("noon"), result("six"))
    await read(hook, tool_step(), tool)
    again = await read(hook, tool_step(call_id="call_2"), tool)
    assert again == [ToolFinished("turn_1", ToolResult("call_2", "tide", ("noon",)))]
    await read(hook, tool_step('{"city": "Calais"}'), tool)
    assert [call.arguments for call in tool.calls] == ['{"city": "Dover"}', '{"city": "Calais"}']


async def test_results_of_other_tools_are_not_kept() -> None:
    hook, tool = CacheHook(tools={"moon"}), Tool(result("noon"))
    await read(hook, tool_step(), tool)
    await read(hook, tool_step(), tool)
    assert len(tool.calls) == 2


async def test_tools_of_the_same_arguments_are_told_apart() -> None:
    hook, tool = CacheHook(tools=["tide", "moon"]), Tool(result("noon"), result("full"))
    await read(hook, tool_step(), tool)
    (event,) = await read(hook, tool_step(name="moon"), tool)
    assert event.result.text == "full"


@pytest.mark.parametrize("status", ["error", "denied", "timeout", "cancelled"])
async def test_only_results_that_are_ok_are_kept(status: Any) -> None:
    hook, tool = CacheHook(tools={"tide"}), Tool(result("no", status), result("noon"))
    await read(hook, tool_step(), tool)
    (event,) = await read(hook, tool_step(), tool)
    assert event.result.text == "noon"


async def test_progress_is_played_again_for_the_call_that_asks() -> None:
    async def events(event: HookEvent) -> AsyncGenerator[RunEvent, None]:
        yield ToolProgress(event.turn_id, event.tool_call.id, (Text("half"),))
        yield ToolFinished(event.turn_id, ToolResult.of(event.tool_call, "noon"), 2.5, "the whole text")

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        return PullStream(events(event))

    hook = CacheHook(tools={"tide"})
    await read(hook, tool_step(), call)
    step = msgspec.structs.replace(tool_step(call_id="call_9"), turn_id="turn_9")
    assert await read(hook, step, call) == [
        ToolProgress("turn_9", "call_9", (Text("half"),)),
        ToolFinished("turn_9", ToolResult("call_9", "tide", ("noon",)), 0.0, "the whole text"),
    ]


# --- the hook itself


@pytest.mark.parametrize("name", ["entries", "size_bytes", "ttl_s", "patience_s"])
def test_a_bound_that_is_none_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        CacheHook(**{name: 0})


def test_a_name_alone_is_no_list_of_tools() -> None:
    with pytest.raises(InvalidInput, match=r"write \{'tide'\}"):
        CacheHook(tools="tide")


async def test_it_is_a_hook_of_the_registry_that_stands_around_steps() -> None:
    assert registry.load("hooks", "cache") is CacheHook
    hook = CacheHook()
    assert isinstance(hook, Hook)
    assert isinstance(hook, SupportsAround)
    await hook.before(model_step())
    await hook.after(model_step())
