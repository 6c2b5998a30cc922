from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import msgspec
import pytest
from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st
from strategies import Answer, answers

from gnomon.errors import ContractError, StreamCut
from gnomon.stream import Stream, StreamFold
from gnomon.types.codec import decode_event, encode_event
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Error,
    Event,
    Finish,
    Live,
    MessageCompleted,
    MessageReceived,
    PartEnd,
    ProviderEvent,
    StreamEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolProgress,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Unknown,
    UsageUpdate,
)
from gnomon.types.messages import Message, Text, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Response, Spent, Usage

FINISH = Finish(stop_reason="end_turn")


async def source(events: Iterable[ProviderEvent]) -> AsyncGenerator[ProviderEvent, None]:
    for event in events:
        yield event


async def read(events: Iterable[ProviderEvent], seen: list[StreamEvent]) -> None:
    async with Stream(source(events)) as stream:
        async for event in stream:
            seen.append(event)


def streamed(events: Iterable[ProviderEvent]) -> tuple[list[StreamEvent], Response]:
    """What a stream shows before its `Done`, and the response in that."""
    seen: list[StreamEvent] = []
    asyncio.run(read(events, seen))
    *shown, done = seen
    assert isinstance(done, Done)
    return shown, done.response


def folded(events: Iterable[Event]) -> StreamFold:
    fold = StreamFold()
    for event in events:
        fold.add(event)
    return fold


def over_the_wire(event: Event) -> Event:
    return decode_event(encode_event(event))


def lived(events: Iterable[StreamEvent]) -> list[Event]:
    return [Live("s", "t", "m", (1, 1), idx, event) for idx, event in enumerate(events)]


# --- here and at the far end of a wire, the same message --------------------


@given(answers())
def test_a_stream_comes_to_what_was_planned(answer: Answer) -> None:
    shown, response = streamed(answer.all_events)
    assert shown == answer.events
    assert response.message == Message("assistant", answer.parts)
    assert response.usage == (answer.finish.usage or answer.usage or Usage())
    assert list(response.warnings) == answer.warnings
    assert list(response.discarded) == [*answer.discarded, *answer.finish.discarded]


@given(answers())
def test_a_reader_of_the_wire_rebuilds_the_same_message_before_done_tells_it(answer: Answer) -> None:
    shown, response = streamed(answer.all_events)
    for events in (shown, lived(shown)):
        fold = folded(over_the_wire(event) for event in events)
        assert fold.message == response.message
        assert fold.warnings == list(response.warnings)
        assert fold.discarded == answer.discarded
        assert fold.response is None
        fold.add(over_the_wire(Done(response)))
        assert fold.message == response.message
        assert fold.response == response


@given(answers())
def test_a_recording_of_a_stream_is_a_stream_again(answer: Answer) -> None:
    shown, response = streamed(answer.all_events)
    recorded = [over_the_wire(event) for event in [*shown, Done(response)]]
    assert streamed(recorded) == (shown, response)  # type: ignore[arg-type]


@given(answers(), answers())
def test_one_fold_reads_a_whole_run(first: Answer, second: Answer) -> None:
    fold = StreamFold()
    for number, answer in enumerate((first, second)):
        shown, response = streamed(answer.all_events)
        for event in shown:
            fold.add(event)
        if any(type(event) not in (Unknown,) for event in shown):
            assert fold.message == response.message
            assert fold.discarded == answer.discarded
        fold.add(MessageCompleted("t", f"m{number}", response))
        assert fold.message == response.message


# --- whatever is done to the events -----------------------------------------

INTRUDERS: tuple[ProviderEvent, ...] = (
    FINISH,
    Done(Response(message=Message("assistant", ()), stop_reason="end_turn")),
    Error("c", "m"),
    AttemptDiscarded("lost"),
    TextDelta(0, "x"),
    TextDelta(-1, "x"),
    ThinkingDelta(1, "x"),
    ToolCallDelta(0, "", "x"),
    ToolCallDelta(-1, "", "x"),
    ToolCallStart(2, "call-2", "f"),
    ToolCallStart(2, "", "f"),
    ToolCallEnd(2, ToolCall("call-2", "f", "{", 2)),
    PartEnd(0, Text("x")),
)


@st.composite
def mutated(draw: st.DrawFn) -> list[ProviderEvent]:
    events = list(draw(answers()).all_events)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(events) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "insert", "shift", "rename"])):
            case "drop" if len(events) > 1:
                del events[at]
            case "double":
                events.insert(draw(st.integers(0, len(events))), events[at])
            case "swap":
                other = draw(st.integers(0, len(events) - 1))
                events[at], events[other] = events[other], events[at]
            case "insert":
                events.insert(at, draw(st.sampled_from(INTRUDERS)))
            case "shift" if hasattr(events[at], "index"):
                events[at] = msgspec.structs.replace(events[at], index=draw(st.integers(-1, 9)))
            case "rename" if isinstance(events[at], ToolCallStart | ToolCallDelta):
                name = draw(st.sampled_from(["", "call-0", "call-1", "call-2"]))
                events[at] = msgspec.structs.replace(events[at], id=name)
            case _:
                pass
    return events


def attempted(events: list[ProviderEvent]) -> tuple[list[StreamEvent], ContractError | StreamCut | None]:
    """What a stream shows, and how it fails, if it does."""
    seen: list[StreamEvent] = []
    try:
        asyncio.run(read(events, seen))
    except (ContractError, StreamCut) as error:
        return seen, error
    return seen, None


@given(mutated())
def test_a_mutated_stream_fails_by_a_rule_or_comes_to_its_fold_and_never_both(
    events: list[ProviderEvent],
) -> None:
    seen, error = attempted(events)
    note(getattr(error, "rule", type(error).__name__))
    if isinstance(error, ContractError):
        assert error.rule in {"S2", "S3", "S4", "S5", "S6"}
        assert error.__cause__ is None, "the rule itself must say what is wrong"
    shown = seen if error else seen[:-1]
    assert not any(isinstance(event, Done | Finish | Error) for event in shown)
    rebuilt = folded(over_the_wire(event) for event in shown).message
    if error is None:
        assert seen[-1] == Done(seen[-1].response)  # type: ignore[union-attr]
        assert rebuilt == seen[-1].response.message  # type: ignore[union-attr]


@given(mutated())
def test_the_stream_and_a_bare_fold_agree_on_what_is_broken(events: list[ProviderEvent]) -> None:
    """The stream takes a short cut for the common events; it must not change what is found."""
    seen, error = attempted(events)
    fold = folded(seen)
    if not isinstance(error, ContractError) or isinstance(events[len(seen)], Finish | Done | Error):
        return
    with pytest.raises(ContractError) as caught:
        fold.add(events[len(seen)])
    assert (caught.value.rule, str(caught.value)) == (error.rule, str(error))


# --- what a reader sees on the way ------------------------------------------


def test_a_fold_begins_empty() -> None:
    fold = StreamFold()
    assert fold.message == Message("assistant", ())
    assert (fold.usage, fold.response, fold.warnings, fold.discarded) == (None, None, [], [])


def test_the_message_so_far_is_there_after_every_event() -> None:
    fold = StreamFold()
    fold.add(TextDelta(1, "a"))
    assert fold.message == Message.assistant("a")
    fold.add(ThinkingDelta(0, "hm"))
    assert fold.message.content == (Thinking("hm"), Text("a"))
    fold.add(TextDelta(1, "b"))
    assert fold.message.text == "ab"


def test_a_call_in_the_making_is_shown_as_truncated_so_that_nobody_runs_it() -> None:
    fold = folded([ToolCallStart(0, "a", "add"), ToolCallDelta(0, "a", "{}")])
    assert fold.message.tool_calls == (ToolCall("a", "add", "{}", truncated=True),)
    fold.add(ToolCallEnd(0, ToolCall("a", "add", "{}")))
    assert fold.message.tool_calls == (ToolCall("a", "add", "{}"),)


def test_looking_at_the_message_changes_nothing() -> None:
    fold = folded([TextDelta(0, "a")])
    assert fold.message == fold.message
    fold.add(TextDelta(0, "b"))
    assert fold.message.text == "ab"


def test_events_that_are_no_part_of_a_message_are_passed_over() -> None:
    result = ToolResult("a", content=(Text("not mine"),))
    fold = folded(
        [
            MessageReceived("m", Message.user("q")),
            TurnStarted("t", "agent", "model"),
            TextDelta(0, "a"),
            Unknown("text_delta", {"index": "?"}),
            ToolProgress("t", "a", (Text("half"),)),
            ToolFinished("t", result),
            TextDelta(0, "b"),
            TurnFinished("t", "end_turn", 1),
        ]
    )
    assert fold.message == Message.assistant("ab")


def test_a_failure_on_the_wire_leaves_what_was_said() -> None:
    """On a wire `Error` is legal, unlike in a provider: a reader of a failed run is no broken back end."""
    error = Error("overloaded", "busy", retryable=True)
    fold = folded([TextDelta(0, "half an ans"), TurnFailed("t", error)])
    fold.add(error)
    assert fold.message == Message.assistant("half an ans")


def test_finish_does_not_stand_on_a_wire() -> None:
    with pytest.raises(ContractError) as caught:
        StreamFold().add(FINISH)
    assert caught.value.rule == "S6"


@pytest.mark.parametrize("wrap", [list, lived], ids=["bare", "live"])
def test_a_fold_of_a_wire_finds_the_same_breaches(wrap: type[list]) -> None:  # type: ignore[type-arg]
    *before, last = wrap([TextDelta(0, "a"), ThinkingDelta(0, "b")])
    fold = folded(before)
    with pytest.raises(ContractError) as caught:
        fold.add(last)
    assert caught.value.rule == "S4"


# --- a run of several rounds ------------------------------------------------

CALL = ToolCall("a", "add", "{}")
ROUND_1 = Response(message=Message("assistant", (CALL,)), stop_reason="tool_use", usage=Usage(input_tokens=1))
ROUND_2 = Response(message=Message.assistant("sum"), stop_reason="end_turn", usage=Usage(input_tokens=2))


def run(*, done: bool) -> list[Event]:
    """Two rounds, as an agent streams them."""
    return [
        TurnStarted("t", "agent", "model"),
        StreamWarning("first"),
        ToolCallStart(0, "a", "add"),
        ToolCallEnd(0, CALL),
        UsageUpdate(Usage(input_tokens=1)),
        *([Done(ROUND_1)] if done else []),
        MessageCompleted("t", "m1", ROUND_1),
        ToolFinished("t", ToolResult("a", content=(Text("3"),))),
        TextDelta(0, "su"),
        TextDelta(0, "m"),
        *([Done(ROUND_2)] if done else []),
        MessageCompleted("t", "m2", ROUND_2),
        TurnFinished("t", "end_turn", 2),
    ]


@pytest.mark.parametrize("done", [False, True], ids=["without Done", "with Done"])
def test_a_fold_holds_the_latest_message_of_a_run(done: bool) -> None:
    fold = StreamFold()
    shown: list[Message] = []
    for event in run(done=done):
        fold.add(event)
        if not shown or shown[-1] != fold.message:
            shown.append(fold.message)
    assert shown == [
        Message("assistant", ()),
        Message("assistant", (ToolCall("a", "add", "", truncated=True),)),
        ROUND_1.message,
        Message.assistant("su"),
        ROUND_2.message,
    ]
    assert fold.response == ROUND_2


def test_the_next_message_starts_with_nothing_of_the_one_before() -> None:
    fold = folded(run(done=False)[:7])
    assert fold.warnings == ["first"]
    fold.add(TextDelta(0, "su"))
    assert (fold.message, fold.warnings, fold.usage) == (Message.assistant("su"), [], None)


def test_the_same_index_and_id_may_come_again_in_the_next_round() -> None:
    again = [ToolCallStart(0, "a", "add"), ToolCallDelta(0, "a", "{}"), ToolCallEnd(0, CALL)]
    assert folded([*run(done=False), *again]).message.tool_calls == (CALL,)


def test_the_completed_message_replaces_what_was_drawn_from_deltas() -> None:
    """A reader that came late has only a part of the deltas."""
    fold = folded([TextDelta(0, "m"), MessageCompleted("t", "m2", ROUND_2)])
    assert fold.message == ROUND_2.message


def test_a_discarded_attempt_clears_the_message_and_keeps_the_spend() -> None:
    spent = Usage(input_tokens=3)
    fold = folded([TextDelta(0, "a"), UsageUpdate(spent), AttemptDiscarded("lost", spent)])
    assert fold.message == Message("assistant", ())
    assert (fold.usage, fold.discarded) == (None, [Spent(input_tokens=3)])


def test_usage_is_the_latest_snapshot() -> None:
    fold = folded([UsageUpdate(Usage(input_tokens=9, output_tokens=1)), UsageUpdate(Usage(output_tokens=2))])
    assert fold.usage == Usage(output_tokens=2)
