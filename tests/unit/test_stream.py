from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from types import FrameType

import pytest

from gnomon.errors import ContractError, GnomonError, RateLimited, StreamCut
from gnomon.stream import PullStream, Stream
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Error,
    Finish,
    Live,
    PartEnd,
    ProviderEvent,
    StreamEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TurnStarted,
    Unknown,
    UsageUpdate,
)
from gnomon.types.messages import Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Response, Spent, StopReason, Usage

FINISH = Finish(stop_reason="end_turn")
HELLO = TextDelta(0, "hello")
START = ToolCallStart(0, "a", "add")
ARGUMENTS = ToolCallDelta(0, "a", '{"x": 1}')
CALL = ToolCall("a", "add", '{"x": 1}')
END = ToolCallEnd(0, CALL)


async def source(events: Iterable[object]) -> AsyncGenerator[ProviderEvent, None]:
    for event in events:
        yield event  # type: ignore[misc]


async def read(events: Iterable[object] | AsyncGenerator[ProviderEvent, None]) -> list[StreamEvent]:
    """Everything a stream gives; its last event must be the one `Done`."""
    given = events if isinstance(events, AsyncGenerator) else source(events)
    async with Stream(given, provider="acme", model="m1") as stream:
        seen = [event async for event in stream]
        assert seen[-1] == Done(stream.response)
        assert sum(isinstance(event, Done) for event in seen) == 1
        return seen


async def response_to(*events: object) -> Response:
    done = (await read(events))[-1]
    assert isinstance(done, Done)
    return done.response


async def drain(stream: Stream, seen: list[StreamEvent]) -> None:
    async with stream:
        async for event in stream:
            seen.append(event)


async def breach(*events: object, rule: str) -> ContractError:
    """The stream must fail by this rule, and must not have given a `Done`."""
    stream, seen = Stream(source(events), provider="acme"), list[StreamEvent]()
    with pytest.raises(ContractError) as caught:
        await drain(stream, seen)
    assert not any(isinstance(event, Done | Finish) for event in seen)
    with pytest.raises(RuntimeError, match="no response yet"):
        _ = stream.response
    assert caught.value.rule == rule
    assert f"[rule {rule}]" in str(caught.value)
    return caught.value


class Watched:
    """A provider whose generator counts how often it was opened and cleaned up."""

    def __init__(
        self,
        events: Sequence[object] = (HELLO, HELLO, FINISH),
        *,
        slow_cleanup: bool = False,
        then: Callable[[], object] | None = None,
    ) -> None:
        self.opened = self.cleaned = self.given = 0
        self._events, self._slow, self._then = events, slow_cleanup, then

    async def events(self) -> AsyncGenerator[ProviderEvent, None]:
        self.opened += 1
        try:
            for event in self._events:
                self.given += 1
                yield event  # type: ignore[misc]
            if self._then is not None:
                await self._then()  # type: ignore[misc]
        finally:
            if self._slow:
                await asyncio.sleep(0)
                await asyncio.sleep(0.001)
            self.cleaned += 1


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


cleanup = pytest.mark.parametrize("slow", [False, True], ids=["at once", "that waits"])

# --- a stream that keeps its word -------------------------------------------


async def test_events_are_passed_on_as_they_are_and_then_comes_done() -> None:
    events = [HELLO, ThinkingDelta(1, "hm"), StreamWarning("w"), UsageUpdate(Usage(input_tokens=1))]
    seen = await read([*events, FINISH])
    assert all(one is other for one, other in zip(seen, events, strict=False))
    assert len(seen) == len(events) + 1


async def test_finish_itself_is_not_shown() -> None:
    assert not any(isinstance(event, Finish) for event in await read([HELLO, FINISH]))


async def test_an_answer_may_be_empty() -> None:
    response = await response_to(FINISH)
    assert response.message == Message("assistant", ())


async def test_done_carries_what_finish_and_the_provider_said() -> None:
    last = Finish(
        stop_reason="stop_sequence", id="r1", raw_stop_reason="stop", usage=Usage(output_tokens=3), model="m2"
    )
    assert await response_to(HELLO, last) == Response(
        message=Message.assistant("hello"),
        stop_reason="stop_sequence",
        id="r1",
        provider="acme",
        model="m2",
        raw_stop_reason="stop",
        usage=Usage(output_tokens=3),
    )
    assert (await response_to(FINISH)).model == "m1"


async def test_what_is_not_known_is_none() -> None:
    async with Stream(source([FINISH])) as stream:
        assert [event async for event in stream] == [Done(stream.response)]
    assert (stream.response.provider, stream.response.model, stream.response.id) == (None, None, None)
    assert stream.response.usage == Usage()


async def test_nothing_is_read_before_it_is_asked_for() -> None:
    watched = Watched()
    async with Stream(watched.events()) as stream:
        await asyncio.sleep(0)
        assert watched.opened == 0
        await anext(stream)
        await asyncio.sleep(0)
        assert watched.given == 1


async def test_anext_and_async_for_may_be_mixed() -> None:
    async with Stream(source([HELLO, TextDelta(0, " "), TextDelta(0, "you"), FINISH])) as stream:
        assert await anext(stream) == HELLO
        async for event in stream:
            assert event == TextDelta(0, " ")
            break
        assert await anext(stream) == TextDelta(0, "you")
        assert [event async for event in stream] == [Done(stream.response)]
        assert await anext(stream, "over") == "over"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert stream.response.text == "hello you"


async def test_response_before_done_says_what_to_do() -> None:
    async with Stream(source([HELLO, FINISH])) as stream:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="read it to its Done first"):
                _ = stream.response
            event = await anext(stream)
        assert event == Done(stream.response)


async def test_the_response_stays_after_the_block() -> None:
    async with Stream(source([HELLO, FINISH])) as stream:
        async for _ in stream:
            pass
    assert stream.response.text == "hello"
    assert stream.response is stream.response


async def test_a_pull_stream_carries_any_events() -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        for number in range(3):
            yield number

    async with PullStream(numbers()) as stream:
        assert await anext(stream) == 0
        assert [number async for number in stream] == [1, 2]


# --- S2: the message is the fold of the events ------------------------------


async def test_s2_blocks_are_in_the_order_of_their_index_however_they_interleave() -> None:
    message = (
        await response_to(
            TextDelta(2, "wor"),
            ToolCallStart(1, "a", "add"),
            ThinkingDelta(0, "h"),
            TextDelta(2, "ld"),
            ToolCallDelta(1, "a", "{"),
            ThinkingDelta(0, "m"),
            TextDelta(2, "!"),
            ToolCallDelta(1, "a", "}"),
            ToolCallEnd(1, ToolCall("a", "add", "{}", 1)),
            FINISH,
        )
    ).message
    assert message.content == (Thinking("hm"), ToolCall("a", "add", "{}", 1), Text("world!"))


async def test_s2_the_end_of_a_part_brings_its_signature_and_meta() -> None:
    thought = Thinking("hm", signature="sig", provider="acme", model="m1", meta={"k": [1]})
    said = Text("hello", meta={"citations": ["a"]})
    response = await response_to(
        ThinkingDelta(0, "hm"), PartEnd(0, thought), TextDelta(1, "hello"), PartEnd(1, said), FINISH
    )
    assert response.message.content == (thought, said)


@pytest.mark.parametrize("part", [Thinking(redacted="x"), Image(url="u"), Text(""), Thinking()], ids=repr)
async def test_s2_a_part_may_come_whole(part: Part) -> None:
    assert (await response_to(PartEnd(4, part), FINISH)).message.content == (part,)


@pytest.mark.parametrize("part", [Text("hell"), Text("hello!"), Text("")], ids=repr)
async def test_s2_a_part_that_is_not_the_sum_of_its_deltas(part: Part) -> None:
    await breach(HELLO, PartEnd(0, part), FINISH, rule="S2")


async def test_s2_a_thought_that_is_not_the_sum_of_its_deltas() -> None:
    await breach(ThinkingDelta(0, "a"), PartEnd(0, Thinking("b")), FINISH, rule="S2")


@pytest.mark.parametrize("more", [HELLO, PartEnd(0, Text("hello")), PartEnd(0, Text(""))], ids=repr)
async def test_s2_more_for_a_part_that_has_ended(more: ProviderEvent) -> None:
    await breach(HELLO, PartEnd(0, Text("hello")), more, FINISH, rule="S2")


async def test_s2_arguments_that_are_not_the_sum_of_their_deltas() -> None:
    other = ToolCall("a", "add", '{"x": 2}')
    await breach(START, ARGUMENTS, ToolCallEnd(0, other), FINISH, rule="S2")
    cut = ToolCall("a", "add", '{"x"', truncated=True)
    await breach(START, ARGUMENTS, ToolCallEnd(0, cut), FINISH, rule="S2")


async def test_s2_a_done_from_a_recording_is_passed_on_when_it_is_the_fold() -> None:
    recorded = await read([HELLO, START_1, END_1, Finish(stop_reason="tool_use", id="r1")])
    again = await read(recorded)
    assert again == recorded


@pytest.mark.parametrize("text", ["hell", "hello!", ""])
async def test_s2_a_done_from_a_recording_that_is_not_the_fold(text: str) -> None:
    false = Done(Response(message=Message.assistant(text), stop_reason="end_turn"))
    await breach(HELLO, false, rule="S2")


async def test_s2_a_done_out_of_nothing() -> None:
    await breach(Done(Response(message=Message.assistant("hello"), stop_reason="end_turn")), rule="S2")


@pytest.mark.parametrize(
    "stranger",
    [
        None,
        "hello",
        {"type": "text_delta"},
        TurnStarted("t", "a", "m"),
        Live("s", "t", "m", (1, 1), 0, HELLO),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_what_is_no_event_of_a_stream_is_not_passed_on(stranger: object) -> None:
    """A reader that matches on the kinds of events must not meet anything else."""
    with pytest.raises(ContractError):
        await read([HELLO, stranger, FINISH])


async def test_an_event_from_a_newer_provider_is_carried() -> None:
    newer = Unknown("smell", {"strength": 3})
    seen = await read([HELLO, newer, TextDelta(0, "!"), FINISH])
    assert seen[1] is newer
    assert seen[-1].response.text == "hello!"  # type: ignore[union-attr]


# --- S3 and S4: each call on its own ----------------------------------------

START_1 = ToolCallStart(1, "b", "mul")
ARGUMENTS_1 = ToolCallDelta(1, "b", "[]")
CALL_1 = ToolCall("b", "mul", "[]", 1)
END_1 = ToolCallEnd(1, CALL_1)


async def test_s3_several_calls_may_be_open_at_once() -> None:
    message = (await response_to(START, START_1, ARGUMENTS_1, ARGUMENTS, END_1, END, FINISH)).message
    assert message.tool_calls == (CALL, CALL_1)


async def test_s3_a_call_may_come_whole_without_deltas() -> None:
    assert (await response_to(START, END, FINISH)).tool_calls == (CALL,)


async def test_s3_empty_deltas_are_no_arguments() -> None:
    empty = ToolCallDelta(0, "a", "")
    bare = ToolCall("a", "add", "{}")
    assert (await response_to(START, empty, empty, ToolCallEnd(0, bare), FINISH)).tool_calls == (bare,)


ENDED_AGAIN = ToolCallEnd(1, ToolCall("a", "add", "{}", 1))

S3: dict[str, tuple[Sequence[ProviderEvent], str]] = {
    "a delta before the start": ((ARGUMENTS, START, END), "before its start"),
    "a delta without a start": ((ARGUMENTS,), "before its start"),
    "a delta after the end": ((START, ARGUMENTS, END, ARGUMENTS), "after its end"),
    "an empty delta after the end": ((START, ARGUMENTS, END, ToolCallDelta(0, "a", "")), "after its end"),
    "an end without a start": ((END,), "without a start"),
    "an end before its start": ((END, START), "without a start"),
    "an end of a text": ((HELLO, END), "without a start"),
    "two ends": ((START, ARGUMENTS, END, END), "ended twice"),
    "two ends, others between": ((START, ARGUMENTS, END, START_1, END_1, END), "ended twice"),
    "no end": ((START, ARGUMENTS), "'a' was started and never ended"),
    "no end for one of two": ((START, START_1, ARGUMENTS, END), "'b' was started and never ended"),
    "an id twice": ((START, END, ToolCallStart(1, "a", "add"), ENDED_AGAIN), "used twice"),
    "an id twice while open": ((START, ToolCallStart(1, "a", "add"), ENDED_AGAIN, END), "used twice"),
    "an empty id": ((ToolCallStart(0, "", "add"), ToolCallEnd(0, ToolCall("", "add"))), "empty"),
    "a call that ends as a part": ((START, PartEnd(0, CALL)), "ends with ToolCallEnd"),
    "a call that comes as a part": ((PartEnd(0, CALL),), "ends with ToolCallEnd"),
    "a result in an answer": ((PartEnd(0, ToolResult("a")),), "no part of an answer"),
    "arguments for a text": ((HELLO, ToolCallDelta(0, "a", "{}")), "before its start"),
    # Vendors repeat no id in later chunks, and adapters have passed on what was not there.
    "arguments for a text under no id": ((HELLO, ToolCallDelta(0, None, "{}")), "before its start"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("events", "words"), S3.values(), ids=S3)
async def test_s3_a_call_has_one_start_its_deltas_one_end_and_an_id(
    events: Sequence[ProviderEvent], words: str
) -> None:
    assert words in str(await breach(*events, FINISH, rule="S3"))


async def test_s3_a_call_without_an_end_in_a_recording() -> None:
    """The truncated call that a reader shows for it is no reason to let it pass."""
    unfinished = Message("assistant", (ToolCall("a", "add", '{"x": 1}', truncated=True),))
    await breach(START, ARGUMENTS, Done(Response(message=unfinished, stop_reason="max_tokens")), rule="S3")


S4 = {
    "a reused index": (START, ToolCallStart(0, "b", "mul")),
    "a reused index after the end": (START, END, ToolCallStart(0, "b", "mul")),
    "a call in the block of a text": (HELLO, START),
    "a delta under another id": (START, ToolCallDelta(0, "b", "{}")),
    "a delta under an empty id": (START, ToolCallDelta(0, "", "{}")),
    "a delta under the id of another block": (START, START_1, ToolCallDelta(1, "a", "{}")),
    "a delta under another id after one of its own": (START, ARGUMENTS, ToolCallDelta(0, "b", "{}")),
    "a delta under an empty id after a text": (
        START,
        ARGUMENTS,
        TextDelta(1, "x"),
        ToolCallDelta(0, "", "y"),
    ),
    "an end under another id": (START, ToolCallEnd(0, ToolCall("b", "add", "{}"))),
    "an end under another name": (START, ToolCallEnd(0, ToolCall("a", "mul", "{}"))),
    "an end with another index inside": (START, ToolCallEnd(0, ToolCall("a", "add", "{}", 1))),
    "text in a thinking block": (ThinkingDelta(0, "hm"), HELLO),
    "thinking in a text block": (HELLO, ThinkingDelta(0, "hm")),
    "thinking in a text block that has ended": (HELLO, PartEnd(0, Text("hello")), ThinkingDelta(0, "hm")),
    "text in the block of a call": (START, HELLO),
    "text in the block of a call, after a delta": (START, ARGUMENTS, HELLO),
    "text in the block of a call that has ended": (START, END, HELLO),
    "text in the block of an image": (PartEnd(0, Image(url="u")), HELLO),
    "a text ended as thinking": (HELLO, PartEnd(0, Thinking("hello"))),
    "a text ended as an image": (HELLO, PartEnd(0, Image(url="u"))),
    "a call ended as a text": (START, PartEnd(0, Text(""))),
}


@pytest.mark.parametrize("events", S4.values(), ids=S4)
async def test_s4_a_delta_belongs_to_the_block_it_names(events: Sequence[ProviderEvent]) -> None:
    await breach(*events, FINISH, rule="S4")


@pytest.mark.parametrize(
    "events",
    [
        (TextDelta(-1, "a"),),
        (START, ARGUMENTS, TextDelta(-1, "a"), END),
        (HELLO, ThinkingDelta(1, "b"), TextDelta(-1, "a")),
        (HELLO, ToolCallDelta(-1, "", "a")),
    ],
    ids=str,
)
async def test_s4_an_odd_index_never_lands_in_another_block(events: Sequence[ProviderEvent]) -> None:
    """Refused, or a block of its own: never an error of another kind, never text in the wrong place."""
    try:
        response = await response_to(*events, FINISH)
    except ContractError:
        return
    assert Text("a") in response.message.content
    assert Text("hello") in response.message.content or HELLO not in events


async def test_s4_the_same_index_and_id_may_come_again_after_a_discarded_attempt() -> None:
    response = await response_to(START, ARGUMENTS, AttemptDiscarded("lost"), START, ARGUMENTS, END, FINISH)
    assert response.tool_calls == (CALL,)


# --- S5: complete JSON, or truncated ----------------------------------------


@pytest.mark.parametrize(
    "arguments", ['{"x": 1}', "{}", " [1, 2] ", '"text"', "5", "null", '{"\\ud83d\\ude00": "é"}']
)
async def test_s5_complete_json_of_any_kind_is_taken_as_it_came(arguments: str) -> None:
    call = ToolCall("a", "add", arguments)
    response = await response_to(START, ToolCallDelta(0, "a", arguments), ToolCallEnd(0, call), FINISH)
    assert response.tool_calls[0].arguments == arguments


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        " ",
        '{"x": 1',
        '{"x": 1}}',
        "{'x': 1}",
        "nonsense",
        "{}{}",
        "NaN",
        '"\\ud800"',
        "[" * 100_000,
        '{"x":\n',
    ],
    ids=lambda text: ascii(text[:12]),
)
async def test_s5_arguments_that_are_not_complete_json(arguments: str) -> None:
    error = await breach(START, ToolCallEnd(0, ToolCall("a", "add", arguments)), FINISH, rule="S5")
    assert "'a'" in str(error)
    assert len(str(error)) < 500


async def test_s5_a_truncated_call_is_shown_as_it_was_cut() -> None:
    cut = ToolCall("a", "add", '{"x": ', truncated=True)
    response = await response_to(START, ToolCallDelta(0, "a", '{"x": '), ToolCallEnd(0, cut), FINISH)
    assert response.tool_calls == (cut,)
    nothing = ToolCall("a", "add", "", truncated=True)
    assert (await response_to(START, ToolCallEnd(0, nothing), FINISH)).tool_calls == (nothing,)


# --- S6: one Done and nothing after it, or one exception --------------------


@pytest.mark.parametrize(
    "events", [(), (HELLO,), (START, ARGUMENTS), (START, END)], ids=["nothing", "text", "call", "end"]
)
async def test_s6_an_end_without_finish_is_a_cut_and_may_be_tried_again(
    events: Sequence[ProviderEvent],
) -> None:
    stream, seen = Stream(source(events), provider="acme"), list[StreamEvent]()
    with pytest.raises(StreamCut) as caught:
        await drain(stream, seen)
    assert caught.value.retryable
    assert caught.value.vendor == "acme"
    assert seen == list(events)
    with pytest.raises(RuntimeError):
        _ = stream.response


DONE = Done(Response(message=Message("assistant", (Text("hello"),)), stop_reason="end_turn"))

S6 = {
    "two Finishes": (HELLO, FINISH, FINISH),
    "Finish, then Done": (HELLO, FINISH, DONE),
    "Done, then Finish": (HELLO, DONE, FINISH),
    "two Dones": (HELLO, DONE, DONE),
    "text after Finish": (HELLO, FINISH, HELLO),
    "text after Done": (HELLO, DONE, HELLO),
    "usage after Finish": (HELLO, FINISH, UsageUpdate(Usage(input_tokens=1))),
    "a warning after Finish": (HELLO, FINISH, StreamWarning("late")),
    "a discarded attempt after Finish": (HELLO, FINISH, AttemptDiscarded("late")),
    "an unknown event after Done": (HELLO, DONE, Unknown("smell")),
    "Error in the middle": (HELLO, Error("c", "m"), HELLO, FINISH),
    "Error at the end": (HELLO, Error("c", "m")),
    "Error at the start": (Error("c", "m", retryable=True), FINISH),
    "Error after Finish": (HELLO, FINISH, Error("c", "m")),
    "Finish in the middle": (HELLO, FINISH, HELLO, FINISH),
}


@pytest.mark.parametrize("events", S6.values(), ids=S6)
async def test_s6_one_end_and_nothing_after_it(events: Sequence[ProviderEvent]) -> None:
    await breach(*events, rule="S6")


async def test_s6_after_an_error_the_stream_is_over() -> None:
    stream = Stream(source([HELLO, Error("c", "m"), HELLO, FINISH]))
    assert await anext(stream) == HELLO
    with pytest.raises(ContractError):
        await anext(stream)
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    await stream.aclose()


def raising(error: BaseException, *before: ProviderEvent) -> Watched:
    async def fail() -> None:
        raise error

    return Watched(before, then=fail)


@pytest.mark.parametrize(
    "error", [KeyError("x"), OSError(5, "io"), TimeoutError(), RuntimeError("r"), ValueError("v")], ids=repr
)
async def test_s6_a_foreign_error_of_a_provider_is_a_contract_error_with_its_cause(error: Exception) -> None:
    watched = raising(error, HELLO)
    with pytest.raises(ContractError) as caught:
        await read(watched.events())
    assert caught.value.__cause__ is error
    assert caught.value.rule == "S6"
    assert type(error).__name__ in str(caught.value)
    assert "'acme'" in str(caught.value)
    assert "ProviderError" in str(caught.value.hint)
    assert watched.cleaned == 1


async def test_s6_the_contract_error_holds_no_secret_of_its_cause() -> None:
    with pytest.raises(ContractError) as caught:
        await read(raising(KeyError("Authorization: Bearer 0123456789abcdef")).events())
    assert "0123456789abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [RateLimited("slow", retry_after=2.0), GnomonError("g"), AssertionError("shown the wrong thing")],
    ids=repr,
)
async def test_s6_errors_of_ours_and_of_tests_pass_unchanged(error: Exception) -> None:
    watched = raising(error, HELLO)
    with pytest.raises(type(error)) as caught:
        await read(watched.events())
    assert caught.value is error
    assert watched.cleaned == 1


async def test_s6_an_error_after_finish_is_an_error_and_no_done() -> None:
    error = RateLimited("late")
    with pytest.raises(RateLimited):
        await read(raising(error, HELLO, FINISH).events())
    for foreign in (KeyError("late"), TimeoutError("late")):
        with pytest.raises(ContractError):
            await read(raising(foreign, HELLO, FINISH).events())


async def test_s6_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    """Let through, it would end the reader's task in silence."""
    watched = raising(asyncio.CancelledError(), HELLO)
    with pytest.raises(ContractError) as caught:
        await read(watched.events())
    assert caught.value.rule == "S6"
    assert watched.cleaned == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
async def test_exits_pass_through(error: BaseException) -> None:
    watched = raising(error, HELLO)
    with pytest.raises(type(error)) as caught:
        await read(watched.events())
    assert caught.value is error
    assert watched.cleaned == 1


# --- S7: leaving closes ------------------------------------------------------


@cleanup
async def test_s7_leaving_early_cleans_up_once(slow: bool) -> None:
    watched = Watched(slow_cleanup=slow)
    async with Stream(watched.events()) as stream:
        async for _ in stream:
            break
        assert watched.cleaned == 0
    assert watched.cleaned == 1
    assert watched.given == 1
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@cleanup
async def test_s7_an_error_in_the_body_cleans_up_once_and_passes(slow: bool) -> None:
    watched = Watched(slow_cleanup=slow)
    error = ZeroDivisionError()

    async def reader() -> None:
        async with Stream(watched.events()) as stream:
            async for _ in stream:
                raise error

    with pytest.raises(ZeroDivisionError) as caught:
        await reader()
    assert caught.value is error
    assert watched.cleaned == 1


@cleanup
@pytest.mark.parametrize("where", ["in the provider", "in the body"])
async def test_s7_cancelling_the_task_cleans_up_once(slow: bool, where: str) -> None:
    reached = asyncio.Event()

    async def stop_here() -> None:
        reached.set()
        await for_ever()

    in_provider = where == "in the provider"
    watched = Watched([HELLO], slow_cleanup=slow, then=stop_here if in_provider else None)

    async def reader() -> None:
        async with Stream(watched.events()) as stream:
            async for _ in stream:
                if not in_provider:
                    await stop_here()

    task = asyncio.create_task(reader())
    await reached.wait()
    assert watched.cleaned == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert watched.cleaned == 1


@cleanup
async def test_s7_reading_to_the_end_cleans_up_once(slow: bool) -> None:
    watched = Watched(slow_cleanup=slow)
    await read(watched.events())
    assert watched.cleaned == 1


@cleanup
@pytest.mark.parametrize(
    "events", [(HELLO,), (HELLO, END), (HELLO, FINISH, HELLO)], ids=["cut", "breach", "extra"]
)
async def test_s7_a_failing_stream_cleans_up_once(slow: bool, events: Sequence[ProviderEvent]) -> None:
    watched = Watched(events, slow_cleanup=slow)
    with pytest.raises(GnomonError):
        await read(watched.events())
    assert watched.cleaned == 1


async def test_s7_a_failing_stream_is_cleaned_up_before_the_error_is_seen() -> None:
    watched = Watched([HELLO, END], slow_cleanup=True)
    async with Stream(watched.events()) as stream:
        await anext(stream)
        with pytest.raises(ContractError):
            await anext(stream)
        assert watched.cleaned == 1


async def test_s7_closing_twice_is_closing_once() -> None:
    watched = Watched(slow_cleanup=True)
    async with Stream(watched.events()) as stream:
        await anext(stream)
        await stream.aclose()
        assert watched.cleaned == 1
        await stream.aclose()
    await stream.aclose()
    assert watched.cleaned == 1


async def test_s7_a_stream_that_is_never_read_asks_nothing_and_closes_its_source() -> None:
    watched = Watched()
    events = watched.events()
    async with Stream(events) as stream:
        pass
    assert await anext(events, "closed") == "closed"
    assert await anext(stream, "closed") == "closed"
    assert watched.opened == 0


@cleanup
async def test_s7_a_stream_that_is_never_read_cleans_up_a_source_that_had_begun(slow: bool) -> None:
    """Whoever looks at the first event before handing on, as a fallback does, has opened the connection."""
    watched = Watched(slow_cleanup=slow)
    events = watched.events()
    await anext(events)
    async with Stream(events):
        pass
    assert watched.cleaned == 1


async def leave_after(events: AsyncGenerator[ProviderEvent, None], count: int) -> None:
    async with Stream(events, provider="acme") as stream:
        for _ in range(count):
            await anext(stream)


@pytest.mark.parametrize("count", [1, 2], ids=["left early", "read to Finish"])
async def test_s7_a_provider_that_fails_while_closing_breaks_its_contract(count: int) -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        try:
            yield HELLO
            yield FINISH
            await for_ever()
        finally:
            raise KeyError("lost")

    with pytest.raises(ContractError, match="acme") as caught:
        await leave_after(events(), count)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_s7_an_error_of_ours_while_closing_passes_unchanged() -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        try:
            yield HELLO
        finally:
            raise RateLimited("late")

    with pytest.raises(RateLimited):
        await leave_after(events(), 1)


async def test_s7_a_provider_that_goes_on_while_closing_breaks_its_contract() -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        try:
            yield HELLO
        except GeneratorExit:
            yield FINISH

    with pytest.raises(ContractError, match="acme"):
        await leave_after(events(), 1)


async def test_s7_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()
    async with Stream(Watched(then=for_ever).events()) as stream:
        async for _ in stream:
            assert asyncio.all_tasks() == before
    assert asyncio.all_tasks() == before


# --- S16: the last word is the end ------------------------------------------


@cleanup
async def test_s16_nobody_waits_for_the_connection_to_close(slow: bool) -> None:
    watched = Watched([HELLO, FINISH], slow_cleanup=slow, then=for_ever)
    async with asyncio.timeout(10), Stream(watched.events()) as stream:
        async for event in stream:
            # The connection is let go of before the reader hears that the answer is whole.
            assert watched.cleaned == (1 if isinstance(event, Done) else 0)
    assert stream.response.text == "hello"
    assert watched.cleaned == 1


async def test_s16_a_done_from_a_recording_is_the_end_as_well() -> None:
    watched = Watched([HELLO, DONE], then=for_ever)
    async with asyncio.timeout(10):
        await read(watched.events())
    assert watched.cleaned == 1


async def test_s16_cancelling_while_the_provider_cleans_up_after_finish_passes_through() -> None:
    entered, cleaned = asyncio.Event(), []

    async def events() -> AsyncGenerator[ProviderEvent, None]:
        try:
            yield FINISH
            await for_ever()
        finally:
            entered.set()
            try:
                await for_ever()
            finally:
                cleaned.append(1)

    task = asyncio.create_task(read(events()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [1]


async def test_s16_a_provider_may_give_way_while_it_ends() -> None:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        try:
            yield HELLO
            await asyncio.sleep(0)
            yield FINISH
        finally:
            await asyncio.sleep(0)

    assert (await read(events()))[-1].response.text == "hello"  # type: ignore[union-attr]


REASONS: list[tuple[str, tuple[ToolCall, ...], str]] = [
    ("end_turn", (), "end_turn"),
    ("max_tokens", (), "max_tokens"),
    ("refusal", (), "refusal"),
    ("tool_use", (), "end_turn"),
    ("end_turn", (CALL,), "tool_use"),
    ("stop_sequence", (CALL,), "tool_use"),
    ("other", (CALL,), "tool_use"),
    ("tool_use", (CALL,), "tool_use"),
    ("max_tokens", (CALL,), "max_tokens"),
    ("content_filter", (CALL,), "content_filter"),
    ("refusal", (CALL,), "refusal"),
    ("tool_use", (ToolCall("a", "add", "{", truncated=True),), "max_tokens"),
    ("end_turn", (CALL, ToolCall("b", "mul", "[", 1, truncated=True)), "max_tokens"),
]


@pytest.mark.parametrize(("said", "calls", "meant"), REASONS)
async def test_s16_content_wins_over_the_label(
    said: StopReason, calls: tuple[ToolCall, ...], meant: str
) -> None:
    events = [
        event
        for call in calls
        for event in (ToolCallStart(call.index, call.id, call.name), ToolCallEnd(call.index, call))
    ]
    response = await response_to(*events, Finish(stop_reason=said, raw_stop_reason="raw"))
    assert (response.stop_reason, response.raw_stop_reason) == (meant, "raw")
    whole = Done(Response(message=Message("assistant", calls), stop_reason=said))
    assert (await response_to(*events, whole)).stop_reason == meant


async def test_s16_a_label_that_is_not_ours_does_not_reach_done() -> None:
    """A reader of the wire could not read such a `Done`, and would wait for another."""
    try:
        response = await response_to(HELLO, Finish(stop_reason="stop"))  # type: ignore[arg-type]
    except ContractError:
        return
    assert response.stop_reason == "other"


# --- usage, warnings, discarded attempts ------------------------------------


async def test_u2_a_usage_snapshot_replaces_the_one_before() -> None:
    first, second = Usage(input_tokens=5, output_tokens=1), Usage(output_tokens=9)
    assert (await response_to(UsageUpdate(first), UsageUpdate(second), FINISH)).usage == second
    last = Finish(stop_reason="end_turn", usage=first)
    assert (await response_to(UsageUpdate(second), last)).usage == first


async def test_a_discarded_attempt_is_forgotten_and_its_spend_is_kept() -> None:
    spent = Usage(input_tokens=5)
    response = await response_to(
        TextDelta(3, "wrong"),
        UsageUpdate(Usage(input_tokens=4)),
        StreamWarning("moved"),
        AttemptDiscarded("lost", spent),
        HELLO,
        AttemptDiscarded("again", Usage(input_tokens=6)),
        TextDelta(0, "right"),
        FINISH,
    )
    assert response.message == Message.assistant("right")
    assert response.discarded == (Spent(input_tokens=5), Spent(input_tokens=6))
    assert response.usage == Usage()
    assert response.warnings == ("moved",)


async def test_the_spend_of_a_discarded_attempt_is_its_last_snapshot_when_it_says_none() -> None:
    snapshot = Usage(input_tokens=4)
    response = await response_to(UsageUpdate(snapshot), HELLO, AttemptDiscarded("lost"), FINISH)
    assert response.discarded == (Spent(input_tokens=4),)


async def test_a_discarded_attempt_that_spent_nothing_known_leaves_nothing() -> None:
    assert (await response_to(HELLO, AttemptDiscarded("lost"), FINISH)).discarded == ()


async def test_a_call_left_open_by_a_discarded_attempt_is_no_breach() -> None:
    response = await response_to(START, ARGUMENTS, AttemptDiscarded("lost"), HELLO, FINISH)
    assert response.message == Message.assistant("hello")
    await breach(START, AttemptDiscarded("lost"), ARGUMENTS, FINISH, rule="S3")
    await breach(
        HELLO,
        PartEnd(0, Text("hello")),
        AttemptDiscarded("lost"),
        PartEnd(0, Text("hello")),
        FINISH,
        rule="S2",
    )


async def test_warnings_are_kept_in_order() -> None:
    response = await response_to(StreamWarning("one"), HELLO, StreamWarning("two", "moved"), FINISH)
    assert response.warnings == ("one", "two")


# --- cost -------------------------------------------------------------------


async def calls_for(deltas: int) -> Counter[str]:
    """What is called, by name, while a call with so many deltas is read."""
    made: Counter[str] = Counter()

    def count(frame: FrameType, event: str, what: object) -> None:
        if event == "call":
            made[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            made[getattr(what, "__name__", "?")] += 1

    text = '"' + "x" * (deltas - 2) + '"'
    events = [
        START,
        *(ToolCallDelta(0, "a", piece) for piece in text),
        ToolCallEnd(0, ToolCall("a", "add", text)),
        FINISH,
    ]
    stream = Stream(source(events))
    sys.setprofile(count)
    try:
        async for _ in stream:
            pass
    finally:
        sys.setprofile(None)
    assert stream.response.tool_calls[0].arguments == text
    return made


async def test_arguments_are_joined_and_parsed_once_however_many_pieces_they_come_in() -> None:
    few, many = await calls_for(500), await calls_for(50_000)
    for work in ("join", "decode"):
        once = [sum(count for name, count in made.items() if work in name) for made in (few, many)]
        assert once == [1, 1], work
    growing = {name: many[name] - few[name] for name in many if many[name] != few[name]}
    # The generator of the provider, the one around it, and one append.
    assert sum(growing.values()) < 3.01 * 49_500, growing


async def test_arguments_of_blanks_alone_are_no_arguments() -> None:
    call = ToolCall("c", "ping", "{}", 0)
    events = [ToolCallStart(0, "c", "ping"), ToolCallDelta(0, "c", " \n"), ToolCallEnd(0, call)]
    response = await response_to(*events, Finish(stop_reason="tool_use"))
    assert response.tool_calls == (call,)
