"""The scripted model: it streams what it is told to, and fails the test that shows it the wrong thing."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest

from gnomon.errors import ConfigError, ContractError, Overloaded, StreamCut
from gnomon.providers.scripted import Call, Line, Reply, ScriptedProvider, calls, fails, hallucinates, says
from gnomon.stream import StreamFold
from gnomon.types.events import (
    Done,
    PartEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Image, Message, Text, Thinking, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request, Response, Usage

WEATHER = ToolDef(name="weather", description="The forecast for a city.")
CLOCK = ToolDef(name="clock")


def ask(*messages: Message | str, **fields: object) -> Request:
    """A request with these messages; a string is a user's."""
    said = tuple(Message.user(m) if isinstance(m, str) else m for m in messages)
    return Request(messages=said, tools=(WEATHER, CLOCK), **fields)


async def read(provider: ScriptedProvider, request: Request) -> tuple[list[StreamEvent], Response]:
    async with provider.stream(request) as stream:
        events = [event async for event in stream]
        return events, stream.response


async def converse(provider: ScriptedProvider, prompt: str, **tools: object) -> list[Message]:
    """The loop in small: ask, run what is called, show the results, ask again."""
    messages = [Message.user(prompt)]
    while True:
        answer = (await provider.complete(ask(*messages))).message
        messages.append(answer)
        if not answer.tool_calls:
            return messages
        results = [ToolResult.of(call, tools[call.name](**call.parsed())) for call in answer.tool_calls]
        messages.append(Message.tool(*results))


# --- what it says -----------------------------------------------------------


async def test_text_is_streamed_word_by_word_and_comes_out_whole() -> None:
    events, response = await read(ScriptedProvider(["Hello to  you\nall. "]), ask("hi"))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == response.text == "Hello to  you\nall. "
    assert response.stop_reason == "end_turn"
    assert (response.provider, response.model) == ("scripted", "scripted")


async def test_thinking_text_and_calls_come_in_that_order_each_in_its_block() -> None:
    line = says("Let me look.", thinking="I should look.", signature="sig").calling("weather", city="Rome")
    events, response = await read(ScriptedProvider([line.calling("clock")]), ask("hi"))
    kinds = list(dict.fromkeys(type(event) for event in events))
    assert kinds == [
        ThinkingDelta,
        PartEnd,
        TextDelta,
        ToolCallStart,
        ToolCallDelta,
        ToolCallEnd,
        UsageUpdate,
        Done,
    ]
    assert response.message.content == (
        Thinking("I should look.", "sig", provider="scripted", model="scripted"),
        Text("Let me look."),
        ToolCall("call_1_1", "weather", '{"city":"Rome"}', 2),
        ToolCall("call_1_2", "clock", "{}", 3),
    )
    assert response.stop_reason == "tool_use"


async def test_arguments_are_streamed_in_several_pieces() -> None:
    events, _ = await read(ScriptedProvider([calls("weather", city="Rome", days=3)]), ask("hi"))
    pieces = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert len(pieces) >= 3
    assert "".join(pieces) == '{"city":"Rome","days":3}'


async def test_the_events_fold_to_the_message_of_the_response() -> None:
    line = says("On it.", thinking="Hm.").calling("weather", city="Oslo")
    events, response = await read(ScriptedProvider([line]), ask("hi"))
    fold = StreamFold()
    for event in events[:-1]:
        fold.add(event)
    assert fold.message == response.message


async def test_ids_are_new_in_every_round_of_a_conversation() -> None:
    script = [calls("clock").calling("clock"), calls("clock"), "Done."]
    messages = await converse(ScriptedProvider(script), "go", clock=lambda: "noon")
    ids = [call.id for message in messages for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 3


async def test_ids_are_new_even_when_earlier_messages_were_left_out() -> None:
    old = ToolCall("call_7_1", "clock")
    request = ask("go", Message.assistant(old), Message.tool(ToolResult.of(old, "noon")))
    response = await ScriptedProvider([calls("clock")]).complete(request)
    assert response.tool_calls[0].id == "call_8_1"


async def test_usage_is_counted_unless_the_script_says_it() -> None:
    counted = await ScriptedProvider(["four"]).complete(ask("12345678"))
    assert counted.usage.output_tokens == 1
    assert counted.usage.input_tokens is not None
    assert counted.usage.input_tokens > 2
    told = await ScriptedProvider([says("four", usage=Usage(input_tokens=7))]).complete(ask("hi"))
    assert told.usage == Usage(input_tokens=7)


async def test_a_reply_says_its_own_stop_reason() -> None:
    response = await ScriptedProvider([says("I will not.", stop_reason="refusal")]).complete(ask("hi"))
    assert response.stop_reason == "refusal"


async def test_a_call_that_was_cut_off_is_marked() -> None:
    reply = Reply(calls=(Call("weather", '{"city": "Ro', truncated=True),))
    response = await ScriptedProvider([reply]).complete(ask("hi"))
    assert response.tool_calls[0].truncated
    assert response.tool_calls[0].arguments == '{"city": "Ro'
    assert response.stop_reason == "max_tokens"


async def events_before(error: type[Exception], provider: ScriptedProvider) -> list[type]:
    """The kinds of the events that come before the stream breaks."""
    kinds: list[type] = []

    async def read_on() -> None:
        async with provider.stream(ask("hi")) as stream:
            async for event in stream:
                kinds.append(type(event))

    with pytest.raises(error):
        await read_on()
    return kinds


async def test_a_failure_at_once_comes_before_any_event() -> None:
    provider = ScriptedProvider([fails(Overloaded("busy")), "There."])
    assert await events_before(Overloaded, provider) == []
    assert (await provider.complete(ask("hi"))).text == "There."


@pytest.mark.parametrize("after", [1, 2])
async def test_a_failure_comes_after_as_many_events_as_the_script_says(after: int) -> None:
    provider = ScriptedProvider([says("one two three").failing(StreamCut("cut"), after=after)])
    assert await events_before(StreamCut, provider) == [TextDelta] * after


async def test_a_failure_with_no_place_comes_in_place_of_the_end() -> None:
    provider = ScriptedProvider([says("one two").failing(StreamCut("cut"))])
    assert await events_before(StreamCut, provider) == [TextDelta, TextDelta, UsageUpdate]


async def test_a_pause_stands_between_events_and_can_be_faked() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    provider = ScriptedProvider(["one two three"], delay_s=9.0, sleep=sleep)
    events, _ = await read(provider, ask("hi"))
    assert pauses == [9.0] * (len(events) - 1)


async def test_leaving_a_stream_early_leaves_no_generator_to_the_garbage_collector() -> None:
    left: list[object] = []
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=left.append)
    try:
        async with ScriptedProvider(["one two three"]).stream(ask("hi")) as stream:
            async for _ in stream:
                break
        del stream
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert left == []


# --- scripts ------------------------------------------------------------------


async def test_a_script_may_be_a_function_of_the_request() -> None:
    provider = ScriptedProvider(lambda request: f"You said {request.messages[-1].text}.")
    assert (await provider.complete(ask("one"))).text == "You said one."
    assert (await provider.complete(ask("two"))).text == "You said two."
    provider.assert_finished()


async def test_a_script_may_be_an_async_function_and_a_turn_may_be_one_too() -> None:
    async def later(request: Request) -> Line:
        await asyncio.sleep(0)
        return says("later")

    assert (await ScriptedProvider(later).complete(ask("hi"))).text == "later"
    assert (await ScriptedProvider([later]).complete(ask("hi"))).text == "later"


async def test_a_single_turn_needs_no_list() -> None:
    assert (await ScriptedProvider("Hello.").complete(ask("hi"))).text == "Hello."
    assert (await ScriptedProvider(says("Hello.")).complete(ask("hi"))).text == "Hello."


async def test_a_function_may_raise_a_provider_error() -> None:
    def busy(request: Request) -> str:
        raise Overloaded("busy")

    with pytest.raises(Overloaded):
        await ScriptedProvider(busy).complete(ask("hi"))


async def test_a_bug_in_a_function_fails_the_test_as_what_it_is() -> None:
    with pytest.raises(AssertionError, match="its function raised ZeroDivisionError"):
        await ScriptedProvider(lambda request: str(1 // 0)).complete(ask("hi"))


async def test_a_turn_that_is_no_reply_is_named() -> None:
    with pytest.raises(AssertionError, match="not int"):
        await ScriptedProvider([7]).complete(ask("hi"))  # type: ignore[list-item]


def test_without_a_script_there_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"ScriptedProvider\(\["):
        ScriptedProvider(model="x")


async def test_requests_are_kept_as_they_were_shown() -> None:
    provider = ScriptedProvider(["a", "b"])
    first, second = ask("one"), ask("two", temperature=0.0)
    await provider.complete(first)
    await provider.complete(second)
    assert provider.requests == [first, second]


async def test_asking_once_too_often_says_which_turn() -> None:
    provider = ScriptedProvider(["one", "two"])
    await provider.complete(ask("a"))
    await provider.complete(ask("b"))
    with pytest.raises(AssertionError, match=r"turn 3 of the script: there are only 2 turns.*last question"):
        await provider.complete(ask("the last question"))


async def test_turns_that_are_left_are_missed_only_when_asked() -> None:
    async with ScriptedProvider(["one", "two"]) as provider:
        await provider.complete(ask("a"))
    with pytest.raises(AssertionError, match="2 turns, and 1 of them"):
        provider.assert_finished()
    await provider.complete(ask("b"))
    provider.assert_finished()


async def test_a_failure_that_was_swallowed_comes_back_at_the_end() -> None:
    provider = ScriptedProvider(["one"])
    await provider.complete(ask("a"))
    with pytest.raises(AssertionError):
        await provider.complete(ask("b"))
    with pytest.raises(AssertionError, match="turn 2"):
        provider.assert_finished()


# --- what it must be shown, whatever the script says -------------------------------


async def test_a_sound_conversation_passes() -> None:
    script = [
        calls("weather", city="Rome").calling("clock").expecting(text="Rome", tools=["clock", "weather"]),
        says("Rain at noon.").expecting(result="rain in Rome"),
    ]
    provider = ScriptedProvider(script)
    messages = await converse(
        provider, "How is Rome?", weather=lambda city: f"rain in {city}", clock=lambda: "noon"
    )
    assert messages[-1].text == "Rain at noon."
    provider.assert_finished()


async def called(*tools: str, **options: object) -> tuple[ScriptedProvider, Message]:
    """A provider that has called these tools and is about to be shown what became of it."""
    line = Line()
    for tool in tools:
        line = line.calling(tool)
    provider = ScriptedProvider([line, "Done.", "Done again."], **options)
    return provider, (await provider.complete(ask("go"))).message


async def test_it_fails_when_it_is_not_shown_a_result() -> None:
    provider, said = await called("weather", "clock")
    first, _ = said.tool_calls
    with pytest.raises(
        AssertionError, match=r"turn 2.*'call_1_2' of 'clock' has no result.*call_1_1: 'rain'"
    ):
        await provider.complete(ask("go", said, Message.tool(ToolResult.of(first, "rain"))))


async def test_it_fails_when_no_results_come_at_all() -> None:
    provider, said = await called("clock")
    with pytest.raises(AssertionError, match="no results stand after the calls"):
        await provider.complete(ask("go", said, "and now?"))


async def test_it_fails_when_a_result_is_doubled() -> None:
    provider, said = await called("clock")
    result = ToolResult.of(said.tool_calls[0], "noon")
    with pytest.raises(AssertionError, match="'call_1_1' of 'clock' has 2 results"):
        await provider.complete(ask("go", said, Message.tool(result), Message.tool(result)))


async def test_it_fails_when_results_are_out_of_order() -> None:
    provider, said = await called("weather", "clock")
    results = [ToolResult.of(call, "x") for call in reversed(said.tool_calls)]
    with pytest.raises(AssertionError, match="not in the order of the calls"):
        await provider.complete(ask("go", said, Message.tool(*results)))


async def test_results_may_come_in_several_messages() -> None:
    provider, said = await called("weather", "clock")
    results = [Message.tool(ToolResult.of(call, "x")) for call in said.tool_calls]
    assert (await provider.complete(ask("go", said, *results))).text == "Done."


async def test_it_fails_when_a_result_answers_nothing_it_called() -> None:
    provider, said = await called("clock")
    results = [ToolResult.of(said.tool_calls[0], "noon"), ToolResult("call_9_9", "clock", (Text("?"),))]
    with pytest.raises(AssertionError, match="'call_9_9', which was not called"):
        await provider.complete(ask("go", said, Message.tool(*results)))


async def test_it_fails_when_a_result_bears_another_tools_name() -> None:
    provider, said = await called("clock")
    result = ToolResult(said.tool_calls[0].id, "weather", (Text("rain"),))
    with pytest.raises(AssertionError, match="is from 'weather', not 'clock'"):
        await provider.complete(ask("go", said, Message.tool(result)))


async def test_it_fails_when_its_own_message_is_altered() -> None:
    provider = ScriptedProvider(["I am sure.", "Yes."])
    await provider.complete(ask("hi"))
    with pytest.raises(AssertionError, match=r"not what the model said(?s:.*)I am sure(?s:.*)I am not"):
        await provider.complete(ask("hi", Message.assistant("I am not."), "really?"))


async def test_it_fails_when_the_arguments_of_its_call_are_altered() -> None:
    provider, said = await called("clock")
    call = said.tool_calls[0]
    altered = Message.assistant(ToolCall(call.id, call.name, '{"x": 1}'))
    with pytest.raises(AssertionError, match="not what the model said"):
        await provider.complete(ask("go", altered, Message.tool(ToolResult.of(call, "noon"))))


async def test_it_fails_when_its_thinking_is_dropped() -> None:
    provider = ScriptedProvider([says("Yes.", thinking="Hm.", signature="s"), "Yes."])
    await provider.complete(ask("hi"))
    with pytest.raises(AssertionError, match="not what the model said"):
        await provider.complete(ask("hi", Message.assistant("Yes."), "really?"))


async def test_it_fails_when_its_own_message_is_left_out() -> None:
    provider = ScriptedProvider(["Yes.", "No."])
    await provider.complete(ask("hi"))
    with pytest.raises(AssertionError, match="not what the model said"):
        await provider.complete(ask("hi", "really?"))


async def test_an_early_message_is_still_checked_rounds_later() -> None:
    provider = ScriptedProvider(["one", "two", "three"])
    first = (await provider.complete(ask("a"))).message
    second = (await provider.complete(ask("a", first, "b"))).message
    with pytest.raises(AssertionError, match="message 2 is not what"):
        await provider.complete(ask("a", Message.assistant("uno"), "b", second, "c"))


async def test_a_new_conversation_owes_nothing_to_the_old_one() -> None:
    provider = ScriptedProvider(["one", "two"])
    await provider.complete(ask("a"))
    assert (await provider.complete(ask("something else"))).text == "two"


async def test_two_conversations_that_begin_alike_may_go_on_side_by_side() -> None:
    provider = ScriptedProvider(["one", "two", "three", "four"])
    first = (await provider.complete(ask("a"))).message
    second = (await provider.complete(ask("a"))).message
    assert (await provider.complete(ask("a", first, "b"))).text == "three"
    assert (await provider.complete(ask("a", second, "b"))).text == "four"


async def test_a_broken_answer_is_not_expected_to_come_back() -> None:
    provider = ScriptedProvider([says("one two").failing(StreamCut("cut"), after=1), "one"])
    with pytest.raises(StreamCut):
        await provider.complete(ask("a"))
    assert (await provider.complete(ask("a", "b"))).text == "one"


async def test_an_answer_that_was_left_early_is_not_expected_to_come_back() -> None:
    provider = ScriptedProvider(["one two three", "yes"])
    async with provider.stream(ask("a")) as stream:
        async for _ in stream:
            break
    assert (await provider.complete(ask("a", "b"))).text == "yes"


async def test_an_agent_that_compacts_may_leave_out_messages_but_no_results() -> None:
    provider, said = await called("clock", verbatim=False)
    assert (await provider.complete(ask("go", "in short: nothing happened"))).text == "Done."
    with pytest.raises(AssertionError, match="has no result"):
        await provider.complete(ask("go", said))


async def test_it_fails_when_results_stand_where_nothing_was_called() -> None:
    with pytest.raises(AssertionError, match="message 2 holds tool results, and no calls"):
        await ScriptedProvider(["x"]).complete(ask("hi", Message.tool(ToolResult("call_1_1"))))


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (Message("user", (ToolCall("c", "clock"),)), "ToolCall under role 'user'"),
        (Message("user", (ToolResult("c"),)), "ToolResult under role 'user'"),
        (Message("tool", (Text("noon"),)), "role 'tool' and no results"),
    ],
)
async def test_it_fails_when_a_part_stands_under_the_wrong_role(message: Message, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        await ScriptedProvider(["x"]).complete(ask("hi", message))


async def test_it_fails_when_there_are_no_messages() -> None:
    with pytest.raises(AssertionError, match="no messages"):
        await ScriptedProvider(["x"]).complete(Request(messages=()))


async def test_it_fails_when_it_is_to_call_a_tool_that_is_not_offered() -> None:
    with pytest.raises(AssertionError, match=r"calls 'wether', which is not offered.*weather, clock"):
        await ScriptedProvider([calls("wether")]).complete(ask("hi"))


async def test_it_fails_when_it_is_to_call_a_tool_and_must_not() -> None:
    with pytest.raises(AssertionError, match="tool_choice 'none'"):
        await ScriptedProvider([calls("clock")]).complete(ask("hi", tool_choice="none"))


async def test_a_tool_that_is_not_offered_can_be_called_on_purpose() -> None:
    response = await ScriptedProvider([hallucinates("wether", city="Rome")]).complete(ask("hi"))
    assert response.tool_calls[0].name == "wether"


# --- what the script asks for ---------------------------------------------------------


PICTURE = Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")
SHOWN = Request(
    messages=(
        Message.user("an old question"),
        Message.assistant("An answer."),
        Message.system("Also be kind."),
        Message.user("what is this?", PICTURE),
        Message.assistant(ToolCall("c1", "clock")),
        Message.tool(ToolResult("c1", "clock", (Text("noon"), PICTURE))),
    ),
    system="Be brief.",
    tools=(WEATHER, CLOCK),
)


@pytest.mark.parametrize(
    "expected",
    [
        {"text": "what is"},
        {"result": "noon"},
        {"system": "brief"},
        {"system": "kind"},
        {"tools": ["clock", "weather"]},
        {"images": 2},
        {"model": "scripted"},
        {"check": lambda request: len(request.messages) == 6},
        {"check": lambda request: None},
        {"text": "this", "result": "noon", "tools": {"weather", "clock"}},
    ],
)
async def test_what_is_expected_and_shown_passes(expected: dict[str, object]) -> None:
    assert (await ScriptedProvider([says("ok").expecting(**expected)]).complete(SHOWN)).text == "ok"


@pytest.mark.parametrize(
    ("expected", "complaint"),
    [
        ({"text": "old"}, "'old' should be in the last user message; there is 'what is this"),
        ({"result": "midnight"}, "'midnight' should be in the tool results; there is 'noon'"),
        ({"system": "rude"}, "'rude' should be in the instructions; there is 'Be brief"),
        ({"tools": ["clock"]}, "should be clock; they are clock, weather"),
        ({"images": 1}, "1 images, and was shown 2"),
        ({"model": "gpt"}, "should be 'gpt'; it is 'scripted'"),
        ({"check": lambda request: False}, "returned False; the last message shown is .*noon"),
        ({"check": lambda request: request.nothing}, "its check raised AttributeError"),
    ],
)
async def test_what_is_expected_and_not_shown_fails_and_shows_what_was(
    expected: dict[str, object], complaint: str
) -> None:
    with pytest.raises(AssertionError, match=f"turn 1 of the script: .*{complaint}"):
        await ScriptedProvider([says("ok").expecting(**expected)]).complete(SHOWN)


@pytest.mark.parametrize("expected", [{"result": "noon"}, {"system": "brief"}])
async def test_it_says_so_when_there_is_nothing_of_the_kind(expected: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match="nothing of the kind"):
        await ScriptedProvider([says("ok").expecting(**expected)]).complete(ask("hi"))


async def test_expectations_add_up() -> None:
    line = says("ok").expecting(text="what").expecting(text="why")
    with pytest.raises(AssertionError, match="'why'"):
        await ScriptedProvider([line]).complete(SHOWN)


async def test_the_results_of_an_earlier_turn_do_not_count() -> None:
    later = (*SHOWN.messages, Message.assistant("Noon."), Message.user("thanks"))
    request = Request(messages=later, tools=SHOWN.tools)
    with pytest.raises(AssertionError, match="nothing of the kind"):
        await ScriptedProvider([says("ok").expecting(result="noon")]).complete(request)


async def test_a_long_text_is_shown_in_short() -> None:
    with pytest.raises(AssertionError) as failure:
        await ScriptedProvider([says("ok").expecting(text="needle")]).complete(ask("hay " * 10_000))
    assert len(str(failure.value)) < 600
    assert "40,000 characters" in str(failure.value)


async def test_a_reply_with_broken_arguments_breaks_the_contract() -> None:
    with pytest.raises(ContractError, match="S5"):
        await ScriptedProvider([Reply(calls=(Call("clock", '{"a":'),))]).complete(ask("hi"))
