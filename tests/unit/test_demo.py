"""The demo model: it says what it is, calls the tools that fit, and answers with what they say."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from gnomon.errors import BadRequest, ModelNotFound, Overloaded, ProviderError, StreamCut
from gnomon.providers.demo import DemoProvider
from gnomon.types.events import StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta
from gnomon.types.messages import Audio, File, Image, Message, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import OneTool, Reasoning, Request, Response

Tool = Callable[..., object]


def definition(function: Tool, **flags: bool) -> ToolDef:
    """A function as a model is told of it."""
    hints = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    defaults = function.__defaults__ or ()
    first_default = len(hints) - len(defaults)
    fields = [
        (name, kind) if at < first_default else (name, kind, defaults[at - first_default])
        for at, (name, kind) in enumerate(hints.items())
    ]
    model = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True)
    return ToolDef(
        name=function.__name__,
        description=function.__doc__ or "",
        schema=msgspec.json.schema(model),
        **flags,
    )


def weather(city: str, days: int = 1) -> str:
    """The forecast for a city."""
    return f"sunny in {city} for {days}"


def calculate(expression: str) -> str:
    """The value of an arithmetic expression."""
    return str(eval(expression, {"__builtins__": {}}))


def now(timezone: str = "UTC") -> str:
    """The date and time at this moment."""
    return f"noon in {timezone}"


def search_web(query: str) -> str:
    """Search the web."""
    return f"nothing about {query}"


def delete_file(path: str) -> str:
    """Delete a file of the project."""
    return f"deleted {path}"


async def turn(
    prompt: str | Message,
    *tools: Tool,
    provider: DemoProvider | None = None,
    history: tuple[Message, ...] = (),
    **fields: object,
) -> list[Message]:
    """The loop in small: ask, run what is called, show the results, ask again."""
    provider = provider or DemoProvider()
    messages = [*history, prompt if isinstance(prompt, Message) else Message.user(prompt)]
    start = len(messages)
    by_name = {tool.__name__: tool for tool in tools}
    offered = tuple(map(definition, tools))
    for _ in range(20):
        request = Request(messages=tuple(messages), tools=offered, **fields)
        answer = (await provider.complete(request)).message
        messages.append(answer)
        if not answer.tool_calls:
            return messages[start:]
        messages.append(Message.tool(*(run(by_name[call.name], call) for call in answer.tool_calls)))
    raise AssertionError("the demo did not come to an end")


def run(tool: Tool, call: msgspec.Struct) -> ToolResult:
    return ToolResult.of(call, str(tool(**call.parsed())))


def calls_in(messages: list[Message]) -> list[tuple[str, object]]:
    return [(call.name, call.parsed()) for message in messages for call in message.tool_calls]


async def first(prompt: str | Message, *tools: ToolDef, **fields: object) -> Response:
    message = prompt if isinstance(prompt, Message) else Message.user(prompt)
    return await DemoProvider().complete(Request(messages=(message,), tools=tools, **fields))


# --- the answer comes from the tools ------------------------------------------


@pytest.mark.parametrize(
    ("name", "description", "hints", "prompt"),
    [
        ("weather", "The forecast for a city.", {"city": str}, "Will the weather be fine in Rome?"),
        ("get_secret_word", "Returns the secret word of the day.", {}, "What is today's secret word?"),
        ("lookup", "Look up a key.", {"key": str}, "Look up alpha"),
        ("calculate", "Evaluates an expression.", {"expression": str}, "what is 12*(3+4)?"),
        ("inventoryLevel", "", {"sku": str, "warehouse": int}, "What is the inventory level of 'A-17' in 3?"),
        ("t1", "Temperature sensors of the greenhouse", {}, "How warm are the greenhouse sensors?"),
        ("t2", "", {"parcel": str, "carrier": str}, "Which carrier has my parcel?"),
        ("xyz", "", {}, "Please call the tool."),
        ("xyz", "", {"n": int}, "Call xyz"),
        ("search_docs", "Find pages", {"query": str, "limit": int}, "Search the docs for streams"),
    ],
)
async def test_the_answer_holds_what_only_the_tool_could_know(
    name: str, description: str, hints: dict[str, type], prompt: str
) -> None:
    nonce = f"nonce-{Random().getrandbits(64):x}"

    def tool(**arguments: object) -> str:
        return f"it is {nonce}."

    tool.__name__, tool.__doc__, tool.__annotations__ = name, description, hints
    messages = await turn(prompt, tool)
    assert calls_in(messages), "no tool was called"
    assert f"it is {nonce}." in messages[-1].text


async def test_another_result_makes_another_answer() -> None:
    def spell(word: str) -> str:
        """Spell a word."""
        return results.pop()

    results = ["W-O-R-D", "D-R-O-W"]
    assert [(await turn("spell 'word'", spell))[-1].text.rpartition(" ")[2] for _ in range(2)] == [
        "D-R-O-W",
        "W-O-R-D",
    ]


async def test_every_result_is_told_and_failures_as_failures() -> None:
    called = (await first("weather in Rome and Paris", definition(weather))).message
    rome, paris = called.tool_calls
    results = Message.tool(ToolResult.of(rome, "rain"), ToolResult.of(paris, "no such city", status="error"))
    messages = (Message.user("weather in Rome and Paris"), called, results)
    text = (await DemoProvider().complete(Request(messages=messages, tools=(definition(weather),)))).text
    assert 'weather(city="Rome") says: rain' in text
    assert 'weather(city="Paris") failed: no such city' in text


@pytest.mark.parametrize(
    "status", ["denied", "cancelled", "timeout", "truncated", "interrupted", "unknown", "error"]
)
async def test_no_failure_is_told_as_a_success(status: str) -> None:
    called = (await first("what time is it?", definition(now))).message
    result = ToolResult.of(called.tool_calls[0], "hm", status=status)
    request = Request(messages=(Message.user("what time is it?"), called, Message.tool(result)))
    text = (await DemoProvider().complete(request)).text
    assert "hm" in text
    assert "says" not in text


async def test_a_call_that_was_cut_off_is_told_without_its_arguments() -> None:
    cut = ToolCall("call_1_1", "weather", '{"city": "Ro', truncated=True)
    result = Message.tool(ToolResult.of(cut, "not run", status="truncated"))
    request = Request(messages=(Message.user("weather in Rome"), Message.assistant(cut), result))
    assert "weather was not run: not run" in (await DemoProvider().complete(request)).text


async def test_a_result_is_cut_only_when_it_is_very_long() -> None:
    def manual() -> str:
        """The manual."""
        return text

    text = "word " * 399
    assert text in (await turn("show the manual", manual))[-1].text
    text = "first " + "word " * 10_000 + "last"
    answer = (await turn("show the manual", manual))[-1].text
    assert len(answer) < 2_500
    assert "first" in answer
    assert "last" in answer
    assert "characters left out" in answer


async def test_a_result_without_text_is_told_by_what_it_is() -> None:
    called = (await first("what time is it?", definition(now))).message
    picture = Image(data=b"1234", media_type="image/png")
    result = ToolResult.of(called.tool_calls[0], picture)
    request = Request(messages=(Message.user("what time is it?"), called, Message.tool(result)))
    assert "1 image (image/png, 4 bytes)" in (await DemoProvider().complete(request)).text


# --- which tools, and how often --------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("what is 12*(3+4)?", [("calculate", {"expression": "12*(3+4)"})]),
        ("what's 10 divided by 4?", [("calculate", {"expression": "10 / 4"})]),
        ("Compute 3 + 4, please.", [("calculate", {"expression": "3 + 4"})]),
        ("2+2 and 3*3?", [("calculate", {"expression": "2+2"}), ("calculate", {"expression": "3*3"})]),
        ("What's the weather in Rome?", [("weather", {"city": "Rome"})]),
        ("what's the weather in new york tomorrow?", [("weather", {"city": "new york"})]),
        ("weather in Rome for 3 days", [("weather", {"city": "Rome", "days": 3})]),
        ("Weather in Rome and Paris?", [("weather", {"city": "Rome"}), ("weather", {"city": "Paris"})]),
        ('forecast for "Bad Ischl"', [("weather", {"city": "Bad Ischl"})]),
        ("what time is it?", [("now", {})]),
        ("what time is it in Europe/Paris?", [("now", {"timezone": "Europe/Paris"})]),
        ("Search for python streams", [("search_web", {"query": "python streams"})]),
        ("delete notes.txt", [("delete_file", {"path": "notes.txt"})]),
        (
            "What is the weather in Oslo, and what is 2+2?",
            [("calculate", {"expression": "2+2"}), ("weather", {"city": "Oslo"})],
        ),
        ("Use the weather tool for Bern", [("weather", {"city": "Bern"})]),
        ("Tell me a joke", []),
        ("hi", []),
        ("On 2024-05-01 I was 30.", []),
        ("Tell me about this project", []),
        ("What is the weather in Rome? Do not use any tools.", []),
    ],
)
async def test_tools_and_arguments_are_chosen_from_the_prompt(
    prompt: str, expected: list[tuple[str, object]]
) -> None:
    tools = [definition(tool) for tool in (calculate, weather, now, search_web)]
    tools.append(definition(delete_file, destructive=True))
    response = await first(prompt, *tools)
    assert [(call.name, call.parsed()) for call in response.tool_calls] == expected


async def test_at_most_four_calls_are_made_at_a_time_and_the_rest_after_them() -> None:
    messages = await turn("weather in Rome, Paris, Oslo, Bern, Wien and Riga", weather)
    assert [len(message.tool_calls) for message in messages] == [4, 0, 2, 0, 0]
    assert [call[1]["city"] for call in calls_in(messages)] == [
        "Rome",
        "Paris",
        "Oslo",
        "Bern",
        "Wien",
        "Riga",
    ]


async def test_all_tools_are_called_when_all_are_asked_for() -> None:
    def alpha() -> str:
        return "a"

    def beta() -> str:
        return "b"

    assert [name for name, _ in calls_in(await turn("call each of the tools", alpha, beta))] == [
        "alpha",
        "beta",
    ]


async def test_a_destructive_tool_is_not_called_on_a_hint() -> None:
    tool = definition(delete_file, destructive=True)
    assert not (await first("what is in the project?", tool)).tool_calls
    used = (await first("use a tool about the project", tool, definition(now))).tool_calls
    assert [call.name for call in used] == ["now"]


async def test_a_destructive_tool_is_called_when_it_is_asked_for() -> None:
    def reset_database() -> str:
        """Empties the database of the customer."""

    tool = definition(reset_database, destructive=True)
    assert not (await first("who is in the database?", tool)).tool_calls
    assert (await first("please reset the database", tool)).tool_calls
    harmless = definition(reset_database)
    assert (await first("who is in the database?", harmless)).tool_calls


async def test_no_tool_is_called_twice_with_the_same_arguments() -> None:
    for choice in ("auto", "required", OneTool("weather")):
        made = calls_in(await turn("weather in Rome", weather, now, tool_choice=choice))
        assert made
        assert len(made) == len({str(call) for call in made})


async def test_tools_that_are_not_to_be_called_are_not() -> None:
    response = await first("what is 2+2?", definition(calculate), tool_choice="none")
    assert not response.tool_calls
    assert response.stop_reason == "end_turn"


async def test_a_tool_is_called_when_one_is_required_though_none_fits() -> None:
    response = await first("hi", definition(weather), definition(now), tool_choice="required")
    assert [call.name for call in response.tool_calls] == ["now"]


async def test_the_one_tool_that_is_named_is_called() -> None:
    response = await first("what is 2+2?", definition(calculate), definition(now), tool_choice=OneTool("now"))
    assert [call.name for call in response.tool_calls] == ["now"]


async def test_a_named_tool_that_is_not_offered_is_an_error() -> None:
    with pytest.raises(BadRequest, match="'then', which is not offered; the tools are now"):
        await first("hi", definition(now), tool_choice=OneTool("then"))


async def test_arguments_that_a_hook_rewrote_do_not_make_the_demo_ask_for_ever() -> None:
    messages = [Message.user("weather in Rome")]
    for round_number in range(10):
        request = Request(messages=tuple(messages), tools=(definition(weather),))
        answer = (await DemoProvider().complete(request)).message
        if not answer.tool_calls:
            break
        call = msgspec.structs.replace(answer.tool_calls[0], arguments=f'{{"city":"{round_number}"}}')
        messages += [Message.assistant(call), Message.tool(ToolResult.of(call, "sun"))]
    else:
        raise AssertionError("the demo did not come to an end")


# --- an answer in a schema ---------------------------------------------------------


async def test_an_answer_in_a_schema_tells_what_the_tools_said() -> None:
    class Report(msgspec.Struct):
        answer: str

    schema = msgspec.json.schema(Report)
    messages = await turn("weather in Rome", weather, output_schema=schema)
    assert msgspec.json.decode(messages[-1].text, type=Report).answer == "sunny in Rome for 1"


# --- what it says of itself and of what it was shown ----------------------------------


async def test_it_says_that_it_is_a_demo_before_anything_else() -> None:
    for messages in (await turn("Why is the sky blue?"), await turn("what is 2+2?", calculate)):
        sentence = messages[-1].text.partition(".")[0]
        assert "demo" in sentence
        assert "not a language model" in sentence


async def test_without_a_fitting_tool_it_repeats_the_question_and_points_to_real_models() -> None:
    text = (await first("Why is\nthe sky blue?", definition(calculate))).text
    assert "“Why is the sky blue?”" in text
    assert "None of my tools fits that (calculate)" in text
    assert "-m provider:model" in text
    assert "I have no tools" in (await first("Why?")).text


async def test_a_long_question_is_repeated_in_short() -> None:
    assert len((await first("why " * 10_000)).text) < 800


async def test_it_tells_what_it_was_shown() -> None:
    message = Message.user(
        "what is this?",
        Image(data=b"1234", media_type="image/png"),
        Image(url="https://example.org/cat.jpg"),
        Audio(data=b"12", media_type="audio/wav"),
        File(data=b"x" * 1_500, media_type="text/plain", name="notes.txt"),
    )
    text = (await first(message)).text
    assert "2 images (image/png, 4 bytes; at https://example.org/cat.jpg)" in text
    assert "1 audio clip (audio/wav, 2 bytes)" in text
    assert "1 file (notes.txt, text/plain, 1,500 bytes)" in text


async def test_it_tells_how_much_text_was_piped_in_and_is_not_misled_by_it() -> None:
    log = "\n".join(f"12:0{n % 10} what is the weather in Rome" for n in range(1_200))
    for prompt in (f"why did it fail?\n\n{log}", f"{log}\n\nwhy did it fail?"):
        response = await first(prompt, definition(weather))
        assert not response.tool_calls
        assert "1,202 lines of text" in response.text
    piped = await first(f"why?\n\n<stdin>\n{log}\n\nthe weather\n</stdin>", definition(weather))
    assert not piped.tool_calls
    assert "“why?”" in piped.text
    used = await first(f"what is 2+2?\n\n{log}", definition(weather), definition(calculate))
    assert [call.name for call in used.tool_calls] == ["calculate"]


async def test_several_texts_in_one_message_are_all_read() -> None:
    response = await first(Message.user("what is", "2+2"), definition(calculate))
    assert response.tool_calls[0].parsed() == {"expression": "2+2"}


async def test_it_can_say_how_much_of_the_conversation_it_has_seen() -> None:
    history = (Message.user("hi"), Message.assistant("Hello."))
    assert "2 earlier messages" in (await turn("and now?", history=history))[-1].text
    assert "earlier" not in (await turn("and now?"))[-1].text


async def test_results_of_an_earlier_turn_are_not_told_again() -> None:
    earlier = (Message.user("weather in Rome"), *await turn("weather in Rome", weather))
    again = await turn("and in Oslo?", weather, history=earlier)
    assert "Rome" not in again[-1].text
    same = await turn("weather in Rome", weather, history=earlier)
    assert calls_in(same) == [("weather", {"city": "Rome"})]


async def test_nothing_asked_is_answered_too() -> None:
    for messages in ((), (Message.system("Be brief."),), (Message.user(),)):
        response = await DemoProvider().complete(Request(messages=messages))
        assert "nothing in words" in response.text


async def test_bytes_that_are_no_text_do_no_harm() -> None:
    response = await first("what is \udcff 2+2?", definition(calculate))
    msgspec.json.encode(response)
    assert response.tool_calls[0].parsed() == {"expression": "2+2"}


# --- a real stream ---------------------------------------------------------------------


async def read(provider: DemoProvider, request: Request) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    async with provider.stream(request) as stream:
        async for event in stream:
            events.append(event)
    return events


SUM = Request(messages=(Message.user("what is 2+2?"),), tools=(definition(calculate),))


async def test_thinking_text_and_arguments_are_streamed() -> None:
    events = await read(DemoProvider(), SUM)
    for kind in (ThinkingDelta, TextDelta, ToolCallDelta):
        assert sum(isinstance(event, kind) for event in events) >= 3
    response = events[-1].response
    assert "calculate" in response.message.thinking
    assert response.stop_reason == "tool_use"
    assert (response.provider, response.model) == ("demo", "demo")


async def test_the_same_request_gives_the_same_events() -> None:
    assert await read(DemoProvider(), SUM) == await read(DemoProvider(), SUM)


async def test_it_does_not_think_when_it_is_told_not_to() -> None:
    quiet = msgspec.structs.replace(SUM, thinking=Reasoning(effort="none"))
    assert not any(isinstance(event, ThinkingDelta) for event in await read(DemoProvider(), quiet))


async def test_ids_are_new_in_every_round() -> None:
    messages = await turn("weather in Rome, Paris, Oslo, Bern and Wien", weather)
    ids = [call.id for message in messages for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 5


async def test_usage_counts_all_that_was_sent_and_said() -> None:
    small = (await first("hi")).usage
    assert small.output_tokens > small.reasoning_tokens > 0
    for fields in (
        {"prompt": "hi " * 400},
        {"prompt": "hi", "system": "Be brief. " * 100},
        {"prompt": Message.user("hi", Image(url="https://example.org/a.png"))},
    ):
        assert (await first(**fields)).usage.input_tokens > small.input_tokens + 200
    with_tool = (await first("hi", definition(weather))).usage
    assert with_tool.input_tokens > small.input_tokens + 20
    about_four_characters_a_token = (await first("x" * 4_000)).usage.input_tokens
    assert about_four_characters_a_token == 1_000


@pytest.mark.parametrize("limit", [0, 1, 10, 30, 45, 50, 60])
async def test_a_limit_on_tokens_is_kept(limit: int) -> None:
    whole = await DemoProvider().complete(SUM)
    response = await DemoProvider().complete(msgspec.structs.replace(SUM, max_tokens=limit))
    if limit >= whole.usage.output_tokens:
        assert response == whole
    else:
        assert response.stop_reason == "max_tokens"
        assert response.usage.output_tokens <= limit
        assert all(call.truncated for call in response.tool_calls)


async def test_a_limit_inside_a_call_leaves_it_cut_off() -> None:
    whole = await DemoProvider().complete(SUM)
    limit = whole.usage.output_tokens - 2
    response = await DemoProvider().complete(msgspec.structs.replace(SUM, max_tokens=limit))
    (call,) = response.tool_calls
    assert call.truncated
    assert whole.tool_calls[0].arguments.startswith(call.arguments)
    assert call.arguments


async def test_a_stop_sequence_ends_the_text_before_it() -> None:
    response = await first("hi", stop=("language", "nowhere"))
    assert response.text.endswith("and not a ")
    assert response.stop_reason == "stop_sequence"


async def test_a_stop_sequence_before_a_call_leaves_the_call_out() -> None:
    response = await DemoProvider().complete(msgspec.structs.replace(SUM, stop=("calculate",)))
    assert response.text == "I will ask "
    assert not response.tool_calls


async def test_leaving_early_leaves_nothing() -> None:
    left: list[object] = []
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=left.append)
    try:
        async with DemoProvider().stream(SUM) as stream:
            async for _ in stream:
                break
        del stream
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert left == []


# --- the models ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["demo", "", None])
def test_demo_is_the_model_when_none_is_named(model: str | None) -> None:
    assert DemoProvider(model).model == "demo"
    assert DemoProvider().name == "demo"


async def test_an_unknown_model_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ModelNotFound, match=r"'gpt'.*demo, flaky, slow"):
        DemoProvider("gpt")
    with pytest.raises(ModelNotFound, match="'gpt'"):
        await first("hi", model="gpt")
    assert await DemoProvider().list_models() == ("demo", "flaky", "slow")


async def attempt(provider: DemoProvider, request: Request) -> tuple[list[StreamEvent], ProviderError | None]:
    """The events that came, and the error that ended them."""
    events: list[StreamEvent] = []
    try:
        async with provider.stream(request) as stream:
            async for event in stream:
                events.append(event)
    except ProviderError as error:
        return events, error
    return events, None


async def test_the_flaky_model_fails_twice_and_then_answers() -> None:
    provider = DemoProvider("flaky")
    busy, cut, fine = [await attempt(provider, SUM) for _ in range(3)]
    assert busy[0] == []
    assert isinstance(busy[1], Overloaded)
    assert busy[1].retryable
    assert isinstance(cut[0][-1], TextDelta)
    assert isinstance(cut[1], StreamCut)
    assert fine[1] is None
    assert fine[0][: len(cut[0])] == [*cut[0]]
    assert fine[0][-1].response.tool_calls
    assert isinstance((await attempt(provider, SUM))[1], Overloaded)


async def test_the_flaky_model_counts_each_request_by_itself() -> None:
    provider = DemoProvider("flaky")
    other = Request(messages=(Message.user("hi"),))
    outcomes = [(await attempt(provider, request))[1] for request in (SUM, other) * 3]
    assert [type(outcome) for outcome in outcomes[:4]] == [Overloaded, Overloaded, StreamCut, StreamCut]
    assert outcomes[4:] == [None, None]


async def test_a_whole_turn_succeeds_on_the_flaky_model_with_retries() -> None:
    class Retrying(DemoProvider):
        async def complete(self, request: Request) -> Response:
            for _ in range(2):
                if not (await attempt(self, request))[1]:
                    raise AssertionError("the flaky model did not fail")
            return await super().complete(request)

    messages = await turn("what is 12*(3+4)?", calculate, provider=Retrying("flaky"))
    assert "84" in messages[-1].text


async def test_the_slow_model_takes_about_three_seconds_for_a_short_answer() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    provider = DemoProvider("slow", sleep=sleep)
    await provider.complete(Request(messages=(Message.user("hi"),)))
    assert 2 <= sum(slept) <= 5
    assert max(slept) < 0.5


async def test_other_models_do_not_wait_unless_told_to() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await DemoProvider(sleep=sleep).complete(SUM)
    assert slept == []
    await DemoProvider(sleep=sleep, delay_s=0.5).complete(SUM)
    assert set(slept) == {0.5}


async def test_a_request_may_name_the_model() -> None:
    with pytest.raises(Overloaded):
        await first("hi", model="flaky")


# --- handing work on -------------------------------------------------------------


def spawn(*names: str) -> ToolDef:
    who = {"agent": {"type": "string", "enum": list(names)}} if names else {}
    properties = {**who, "task": {"type": "string", "description": "what is to be done"}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolDef(name="spawn", description="Hands a task to another agent.", schema=schema)


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        ("Ask a helper: what is 12*(3+4)?", "what is 12*(3+4)?"),
        ("Let a sub-agent work out 12*(3+4).", "work out 12*(3+4)."),
        ("delegate to a helper to calculate 2+2", "calculate 2+2"),
        ("please have another agent calculate 2+2", "calculate 2+2"),
    ],
)
async def test_what_is_handed_on_is_not_done_by_itself(prompt: str, task: str) -> None:
    response = await first(prompt, definition(calculate), definition(now), spawn())
    (call,) = response.tool_calls
    assert (call.name, call.parsed()) == ("spawn", {"task": task})


async def test_the_agent_that_is_named_gets_the_task() -> None:
    response = await first("Ask the sub-agent writer to calculate 2+2", spawn("reader", "writer"))
    assert response.tool_calls[0].parsed()["agent"] == "writer"


@pytest.mark.parametrize("prompt", ["what is a helper?", "what is 2+2?", "use a helper"])
async def test_nothing_is_handed_on_that_is_no_task(prompt: str) -> None:
    response = await first(prompt, definition(calculate), spawn())
    assert "spawn" not in [call.name for call in response.tool_calls]


async def test_without_anybody_to_hand_it_to_it_does_it_itself() -> None:
    response = await first("Let a helper work out 12*(3+4).", definition(calculate))
    assert [call.name for call in response.tool_calls] == ["calculate"]
