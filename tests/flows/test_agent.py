"""An agent at work: the model is asked, tools run, the model is asked again, until it is done."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gnomon import (
    Agent,
    Budget,
    Done,
    Finish,
    Image,
    Message,
    MessageCompleted,
    Provider,
    Reasoning,
    Request,
    StreamFold,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolContext,
    ToolFailed,
    ToolFinished,
    ToolIntent,
    ToolResult,
    TurnFinished,
    TurnStarted,
    Usage,
    decode_event,
    encode_event,
    tool,
)
from gnomon.counters.estimating import EstimatingCounter
from gnomon.engine.accounts import Accounts
from gnomon.engine.clock import SystemClock
from gnomon.engine.definition import Definition, Toolbox
from gnomon.engine.journal import Scratch
from gnomon.engine.live import Channel
from gnomon.engine.loop import Loop
from gnomon.errors import (
    ConfigError,
    ContractError,
    GnomonError,
    Overloaded,
    ProviderError,
    StreamCut,
    UnknownName,
)
from gnomon.facts.catalogue import Catalogue
from gnomon.providers.scripted import Call, Line, Script, ScriptedProvider, calls, hallucinates, says
from gnomon.types.events import LedgerEntry, MessageReceived, ModelStarted, ProviderEvent, RunEvent


@tool(read_only=True)
def weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ToolFailed("Atlantis has no weather")
    return f"rain in {city}"


@tool
def book(city: str, nights: int = 1) -> str:
    """Book a room."""
    return f"booked {nights} in {city}"


def agent(script: Script, *tools: Any, **more: Any) -> Agent:
    return Agent(ScriptedProvider(script), tools=tools or [weather, book], **more)


async def events(made: Agent, prompt: str = "go", **more: Any) -> list[RunEvent]:
    async with made.stream(prompt, **more) as run:
        return [event async for event in run]


def kinds(found: list[RunEvent]) -> list[str]:
    return [type(event).__name__ for event in found]


# --- the loop ---------------------------------------------------------------


async def test_an_answer_without_calls_is_the_whole_turn() -> None:
    made = agent([says("Hello.").expecting(text="hi", tools=["weather", "book"])])
    turn = await made.run("hi")
    assert (turn.text, turn.stop, turn.rounds) == ("Hello.", "end_turn", 1)
    assert turn.messages == (Message.user("hi"), Message.assistant("Hello."))
    assert turn.started_at <= turn.ended_at
    assert turn.error is None


@pytest.mark.parametrize("said", ["I will look that up.", " ", "\n"])
async def test_text_before_a_call_does_not_end_the_turn(said: str) -> None:
    made = agent([says(said).calling("weather", city="Rome"), says("Take an umbrella.")])
    turn = await made.run("will it rain in Rome?")
    assert (turn.text, turn.rounds) == ("Take an umbrella.", 2)
    assert [message.role for message in turn.messages] == ["user", "assistant", "tool", "assistant"]


async def test_thinking_before_a_call_does_not_end_the_turn() -> None:
    first = says("Let me see.", thinking="hm", signature="sig").calling("weather", city="Rome")
    turn = await agent([first, says("Rain.").expecting(result="rain in Rome")]).run("rain?")
    assert turn.text == "Rain."
    assert turn.messages[1].content[0] == Thinking("hm", "sig", provider="scripted", model="scripted")


async def test_every_tool_and_everything_said_is_shown_in_every_round() -> None:
    def whole(count: int) -> Callable[[Request], bool]:
        return lambda request: len(request.messages) == count and request.system == "Be brief."

    tools = ["weather", "book"]
    script = [
        calls("weather", city="Rome").expecting(tools=tools, check=whole(1)),
        calls("weather", city="Oslo").calling("book", city="Oslo").expecting(tools=tools, check=whole(3)),
        calls("book", city="Rome", nights=2).expecting(
            result="booked 1 in Oslo", tools=tools, check=whole(5)
        ),
        says("All done.").expecting(result="booked 2 in Rome", tools=tools, check=whole(7)),
    ]
    made = agent(script, instructions="Be brief.")
    turn = await made.run("plan my trip")
    assert (turn.text, turn.rounds, len(turn.messages)) == ("All done.", 4, 8)
    assert isinstance(made.provider, ScriptedProvider)
    made.provider.assert_finished()


async def test_what_the_agent_was_made_with_is_what_the_model_is_asked_with() -> None:
    thinking = Reasoning(effort="low")
    made = agent(["ok"], instructions="Be brief.", temperature=0.0, max_tokens=99, thinking=thinking)
    await made.run("hi")
    assert isinstance(made.provider, ScriptedProvider)
    (request,) = made.provider.requests
    assert (request.system, request.temperature, request.max_tokens) == ("Be brief.", 0.0, 99)
    assert (request.thinking, request.model) == (thinking, "scripted")
    definition = request.tools[0]
    assert (definition.name, definition.description) == ("weather", "The weather of a city.")
    assert (definition.schema, definition.read_only) == (weather.parameters, True)


async def test_the_events_come_in_the_order_of_what_happened() -> None:
    script = [
        says("Look.").calling("weather", city="Rome").calling("book", city="Rome"),
        says("Done.", thinking="so"),
    ]
    found = await events(agent(script))
    assert kinds(found) == [
        "TurnStarted",
        "ModelStarted",
        "TextDelta",
        *["ToolCallStart", "ToolCallDelta", "ToolCallDelta", "ToolCallDelta", "ToolCallEnd"],
        *["ToolCallStart", "ToolCallDelta", "ToolCallDelta", "ToolCallDelta", "ToolCallEnd"],
        *["UsageUpdate", "MessageCompleted", "ToolFinished", "ToolIntent", "ToolFinished", "ModelStarted"],
        *["ThinkingDelta", "PartEnd", "TextDelta", "UsageUpdate", "MessageCompleted", "TurnFinished"],
    ]
    started, finished = found[0], found[-1]
    assert isinstance(started, TurnStarted)
    assert isinstance(finished, TurnFinished)
    assert (started.agent, started.model) == ("agent", "scripted:scripted")
    ids = {getattr(event, "turn_id", started.turn_id) for event in found}
    assert ids == {started.turn_id}
    completed = [event.message_id for event in found if isinstance(event, MessageCompleted)]
    assert len(set(completed)) == 2
    assert not any(isinstance(event, Done) for event in found)


async def test_every_call_has_exactly_one_result_in_the_order_of_the_calls() -> None:
    line = Line(
        calls=(
            Call("weather", '{"city": "Rome"}'),
            Call("weather", '{"city": 5}'),
            Call("book", '{"city": "Rome"}'),
            Call("nowhere", "{}"),
            Call("book", '{"city": "Ro', truncated=True),
            Call("weather", '{"city": "Atlantis"}'),
            Call("weather", ""),
        ),
        made_up=True,
    )
    turn = await agent([line, "over"]).run("go")
    asked, answered = turn.messages[1].tool_calls, turn.messages[2].tool_results
    assert [result.call_id for result in answered] == [call.id for call in asked]
    assert [result.name for result in answered] == [call.name for call in asked]
    assert [result.status for result in answered] == [
        "ok",
        "error",
        "ok",
        "error",
        "truncated",
        "error",
        "error",
    ]
    assert answered[1].text == "invalid arguments: Expected `str`, got `int` - at `$.city`"
    assert answered[5].text == "Atlantis has no weather"


async def test_a_tool_the_model_made_up_is_answered_and_the_turn_goes_on() -> None:
    script = [hallucinates("wether", city="Rome"), says("Sorry.").expecting(result="weather, book")]
    assert (await agent(script).run("rain?")).text == "Sorry."


async def test_a_bug_in_a_tool_is_told_barely_and_the_turn_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def breaks() -> None:
        raise RuntimeError("postgres://admin:hunter2@db/prod")

    def nothing_leaks(request: Request) -> None:
        shown = msgspec.json.encode(request).decode()
        assert "internal error" in shown
        assert "hunter2" not in shown
        assert "postgres" not in shown

    turn = await agent([calls("breaks"), says("Sorry.").expecting(check=nothing_leaks)], breaks).run("go")
    assert turn.text == "Sorry."
    assert "Traceback" in caplog.text


async def test_a_picture_that_a_tool_returns_is_shown_to_the_model() -> None:
    @tool
    def chart() -> list[Any]:
        return ["see", Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")]

    assert (
        await agent([calls("chart"), says("Nice.").expecting(images=1)], chart).run("draw")
    ).text == "Nice."


class Recorder(Scratch):
    def __init__(self) -> None:
        super().__init__("session")
        self.recorded: list[object] = []

    async def try_append(self, entries: Sequence[LedgerEntry], after: int) -> bool:
        await asyncio.sleep(0)
        self.recorded += entries
        return await super().try_append(entries, after)


async def test_what_is_shown_has_been_recorded_before_and_a_tool_runs_after_its_intent_was() -> None:
    journal = Recorder()

    @tool
    async def act() -> str:
        assert isinstance(journal.recorded[-1], ToolIntent)
        return "acted"

    definition = Definition(
        name="agent",
        provider=ScriptedProvider([calls("act").calling("act"), says("ok").expecting(result="acted")]),
        tools=Toolbox([act]),
        budget=Budget(),
        accounts=Accounts(EstimatingCounter, Catalogue()),
    )
    loop = Loop(
        definition,
        journal,
        owner="",
        clock=SystemClock(),
        channel=Channel("session"),
        opening=[MessageReceived("m", Message.user("go"))],
        turns=1,
    )
    shown = [event async for event in loop.events() if event in journal.recorded or not _is_kept(event)]
    assert [type(event) for event in shown if _is_kept(event)] == [
        type(entry) for entry in journal.recorded if not isinstance(entry, MessageReceived)
    ]
    assert type(journal.recorded[0]) is MessageReceived
    assert len(journal.fold.messages) == 4


def _is_kept(event: RunEvent) -> bool:
    return isinstance(
        event, TurnStarted | ModelStarted | MessageCompleted | ToolIntent | ToolFinished | TurnFinished
    )


# --- a label decides nothing ------------------------------------------------


class Raw(Provider):
    """Says exactly these events, one list a round."""

    name = "raw"
    model = "raw-1"

    def __init__(self, *rounds: list[ProviderEvent]) -> None:
        self.rounds = list(rounds)
        self.requests: list[Request] = []

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append(request)
        for event in self.rounds[len(self.requests) - 1]:
            yield event


def a_call(
    index: int, id: str, name: str = "weather", arguments: str = '{"city":"Rome"}'
) -> list[ProviderEvent]:
    return [ToolCallStart(index, id, name), ToolCallEnd(index, ToolCall(id, name, arguments, index))]


async def test_a_label_of_tool_use_without_calls_ends_the_turn() -> None:
    turn = await Agent(Raw([TextDelta(0, "Hi."), Finish(stop_reason="tool_use")])).run("hi")
    assert (turn.text, turn.rounds, turn.stop) == ("Hi.", 1, "end_turn")


@pytest.mark.parametrize("label", ["end_turn", "stop_sequence", "other", "max_tokens", "content_filter"])
async def test_calls_are_run_whatever_the_label_says(label: Any) -> None:
    provider = Raw(
        [TextDelta(0, "Hm."), *a_call(1, "a"), Finish(stop_reason=label)],
        [TextDelta(0, "Rain."), Finish(stop_reason="end_turn")],
    )
    turn = await Agent(provider, tools=[weather]).run("rain?")
    assert (turn.text, turn.rounds) == ("Rain.", 2)
    assert turn.messages[2].tool_results[0].text == "rain in Rome"


@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "refusal", "content_filter", "stop_sequence"])
async def test_the_turn_ends_with_the_models_own_reason(stop: Any) -> None:
    turn = await Agent(Raw([TextDelta(0, "…"), Finish(stop_reason=stop)])).run("hi")
    assert turn.stop == stop


async def test_an_empty_answer_ends_the_turn() -> None:
    turn = await Agent(Raw([Finish(stop_reason="end_turn")])).run("hi")
    assert (turn.text, turn.rounds, turn.messages[1].content) == ("", 1, ())


async def test_a_truncated_call_is_never_run_and_the_model_hears_of_it() -> None:
    ran: list[str] = []

    @tool
    def pay(to: str) -> None:
        ran.append(to)

    cut = Line(text="Paying.", calls=(Call("pay", '{"to": "ad', truncated=True),), stop_reason="max_tokens")
    turn = await agent([cut, says("I will be shorter.").expecting(result="cut off")], pay).run("pay ada")
    assert (turn.text, ran) == ("I will be shorter.", [])


async def test_a_truncated_call_beside_a_whole_one_stops_only_itself() -> None:
    line = Line(calls=(Call("book", '{"city":"Rome"}'), Call("book", '{"ci', truncated=True)))
    turn = await agent([line, "ok"]).run("go")
    assert [result.status for result in turn.messages[2].tool_results] == ["ok", "truncated"]


# --- keys -------------------------------------------------------------------


async def test_the_tool_gets_the_key_that_its_intent_recorded() -> None:
    keys: list[str] = []

    @tool
    def pay(context: ToolContext) -> None:
        keys.append(context.idempotency_key)

    found = await events(agent([calls("pay").calling("pay"), calls("pay"), "paid"], pay))
    assert [event.key for event in found if isinstance(event, ToolIntent)] == keys
    assert len(set(keys)) == 3


async def test_calls_of_different_rounds_have_different_keys_though_the_vendor_repeats_its_ids() -> None:
    """Some servers call every first call of an answer `call_0`: a second payment is not the first again."""
    keys: list[str] = []

    @tool
    def pay(context: ToolContext) -> None:
        keys.append(context.idempotency_key)

    answer = [*a_call(0, "call_0", "pay", "{}"), Finish(stop_reason="tool_use")]
    provider = Raw(answer, answer, [TextDelta(0, "Paid."), Finish(stop_reason="end_turn")])
    await Agent(provider, tools=[pay]).run("pay twice")
    assert len(keys) == 2
    assert keys[0] != keys[1]


# --- budgets ----------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


def insists(request: Request) -> Line:
    return calls("weather", city="Rome")


async def test_a_budget_of_rounds_ends_the_turn_with_what_there_is() -> None:
    made = agent(insists, budget=Budget(rounds=3))
    turn = await made.run("go")
    assert (turn.stop, turn.rounds) == ("rounds", 3)
    assert turn.messages[-1].role == "tool", "the last calls have their results"
    assert isinstance(made.provider, ScriptedProvider)
    assert len(made.provider.requests) == 3


async def test_a_turn_has_25_rounds_unless_told_otherwise() -> None:
    assert (await agent(insists).run("go")).rounds == 25


async def test_a_budget_of_tokens_ends_the_turn() -> None:
    spends = msgspec.structs.replace(
        calls("weather", city="Rome"), usage=Usage(input_tokens=6, output_tokens=4)
    )
    turn = await agent(lambda request: spends, budget=Budget(tokens=25)).run("go")
    assert (turn.stop, turn.rounds) == ("tokens", 3)
    assert turn.usage == Usage(input_tokens=18, output_tokens=12)


async def test_a_budget_of_seconds_ends_the_turn() -> None:
    clock = Clock()

    @tool
    def work() -> None:
        clock.seconds += 4

    made = agent(lambda request: calls("work"), work, budget=Budget(seconds=10), clock=clock)
    turn = await made.run("go")
    assert (turn.stop, turn.rounds) == ("seconds", 3)
    assert turn.ended_at - turn.started_at == timedelta(seconds=12)


async def test_a_budget_that_is_reached_by_the_last_word_takes_nothing_away() -> None:
    turn = await agent(["done"], budget=Budget(rounds=1, tokens=1)).run("go")
    assert (turn.stop, turn.text) == ("end_turn", "done")


async def test_a_turn_that_ran_out_can_be_continued() -> None:
    def script(request: Request) -> Line:
        return insists(request) if len(request.messages) < 5 else says("There.").expecting(text="go on")

    made = agent(script, budget=Budget(rounds=2))
    first = await made.run("go")
    assert first.stop == "rounds"
    second = await made.run("go on", messages=first.messages)
    assert (second.text, second.stop, second.rounds) == ("There.", "end_turn", 1)


async def test_usage_is_added_over_the_rounds_and_snapshots_are_not() -> None:
    """The script sends its usage twice a round: as an update, and with the end."""
    first = msgspec.structs.replace(
        calls("weather", city="Rome"), usage=Usage(input_tokens=10, output_tokens=2)
    )
    made = agent([first, says("Rain.", usage=Usage(input_tokens=20, output_tokens=3))])
    assert (await made.run("rain?")).usage == Usage(input_tokens=30, output_tokens=5)


# --- failures ---------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_failure_in_the_middle_comes_out_of_run_and_stream_alike(after: int) -> None:
    error = Overloaded("too busy", vendor="scripted", status=529)
    script = [calls("weather", city="Rome"), says("one two three four").failing(error, after=after)]
    with pytest.raises(Overloaded) as of_run:
        await agent(script).run("go")
    made, seen = agent(script), []
    with pytest.raises(Overloaded) as of_stream:  # noqa: PT012 - the events before it matter
        async with made.stream("go") as run:
            async for event in run:
                seen.append(event)
    assert of_run.value is of_stream.value is error
    assert kinds(seen)[:1] == ["TurnStarted"]
    assert len([event for event in seen if isinstance(event, TextDelta)]) == after
    assert run.turn.stop == "failed"
    assert run.turn.error is not None
    assert (run.turn.error.code, run.turn.error.message) == ("overloaded", error.summary)


async def test_a_failure_comes_out_of_the_run_of_a_session_too() -> None:
    error = Overloaded("too busy", vendor="scripted", status=529, hint="ask later")
    async with agent([calls("weather", city="Rome"), says("").failing(error), "Sunny."]) as made:
        session = made.session()
        with pytest.raises(Overloaded, match="too busy") as raised:
            await session.run("go")
        assert (str(raised.value), raised.value.retryable) == (str(error), True)
        turn = await session.turn_result()
        assert (turn.stop, turn.rounds, len(turn.messages)) == ("failed", 1, 3)
        assert (await session.run("again")).text == "Sunny."


async def test_an_answer_that_is_cut_off_is_a_typed_error() -> None:
    with pytest.raises(StreamCut) as caught:
        await Agent(Raw([TextDelta(0, "half an ans")])).run("go")
    assert caught.value.retryable


async def test_a_provider_that_breaks_its_promise_is_named() -> None:
    provider = Raw([*a_call(0, "a"), *a_call(0, "b"), Finish(stop_reason="tool_use")])
    with pytest.raises(ContractError, match="S4"):
        await Agent(provider, tools=[weather]).run("go")


async def test_a_provider_that_raises_anything_else_is_a_contract_error() -> None:
    class Broken(Raw):
        async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            yield TextDelta(0, "x")
            raise ValueError("oops")

    with pytest.raises(ContractError, match="ValueError: oops"):
        await Agent(Broken()).run("go")


async def test_no_tool_runs_when_the_message_that_calls_it_fails() -> None:
    ran: list[int] = []

    @tool
    def act() -> None:
        ran.append(1)

    line = calls("act").failing(ProviderError("lost"))
    with pytest.raises(ProviderError, match="lost"):
        await agent([line], act).run("go")
    assert ran == []


async def test_the_agent_can_be_used_again_after_a_failure() -> None:
    made = agent([says("x").failing(Overloaded("busy")), "hello"])
    with pytest.raises(Overloaded):
        await made.run("go")
    assert (await made.run("go")).text == "hello"


# --- run and stream are one -------------------------------------------------


def plain(found: list[RunEvent]) -> list[dict[str, Any]]:
    """The events without what differs from run to run."""
    rows = [json.loads(encode_event(event)) for event in found]
    for row in rows:
        for name in ("turn_id", "message_id", "inputs", "key", "duration_s"):
            row.pop(name, None)
    return rows


SCRIPT = [
    says("Let me look.", thinking="hm").calling("weather", city="Rome").calling("book", city="Rome"),
    calls("weather", city="Oslo").calling("weather", city="Paris"),
    says("Rain everywhere."),
]


async def test_the_blocking_run_is_the_stream_folded() -> None:
    turn = await agent(SCRIPT).run("go")
    made = agent(SCRIPT)
    async with made.stream("go") as run:
        found = [event async for event in run]
    again = run.turn
    assert (again.messages, again.stop, again.rounds, again.usage) == (
        turn.messages,
        turn.stop,
        turn.rounds,
        turn.usage,
    )
    assert plain(found) == plain(await events(agent(SCRIPT)))
    said = [event.message for event in found if isinstance(event, MessageCompleted)]
    answered = [event.result for event in found if isinstance(event, ToolFinished)]
    assert [message for message in turn.messages if message.role == "assistant"] == said
    assert [r for message in turn.messages for r in message.tool_results] == answered
    assert found[-1] == TurnFinished(run.id, "end_turn", 3, turn.usage)


async def test_a_fold_of_all_events_is_the_last_message_and_is_each_message_in_its_time() -> None:
    fold, made = StreamFold(), agent(SCRIPT)
    async with made.stream("go") as run:
        async for event in run:
            fold.add(event)
            if isinstance(event, MessageCompleted):
                assert fold.message == event.message
    assert fold.message == run.turn.messages[-1] == Message.assistant("Rain everywhere.")


async def test_the_events_fold_to_the_same_on_the_far_end_of_a_wire() -> None:
    fold = StreamFold()
    for event in await events(agent(SCRIPT)):
        if not isinstance(event, MessageCompleted):  # from the deltas alone
            fold.add(decode_event(encode_event(event)))
        else:
            assert fold.message == event.message
            fold.add(event)
    assert fold.message == Message.assistant("Rain everywhere.")


async def test_the_turn_is_there_when_its_last_message_is_and_not_before() -> None:
    """The end is written with the last message, and not after it."""
    async with agent(SCRIPT).stream("go") as run:
        rounds = 0
        async for event in run:
            rounds += isinstance(event, MessageCompleted)
            if rounds == len(SCRIPT):
                assert run.turn.id == run.id == getattr(event, "turn_id", None)
            else:
                with pytest.raises(RuntimeError, match="read its events to the end"):
                    run.turn


async def test_text_is_only_the_text() -> None:
    async with agent(SCRIPT).stream("go") as run:
        pieces = [piece async for piece in run.text()]
    assert "".join(pieces) == "Let me look.Rain everywhere."
    assert run.turn.text == "Rain everywhere."


async def test_nothing_is_asked_before_the_first_event_is_read() -> None:
    made = agent(["hello"])
    async with made.stream("go"):
        await asyncio.sleep(0)
    made.stream("go")
    assert isinstance(made.provider, ScriptedProvider)
    assert made.provider.requests == []


async def test_a_run_that_is_over_has_no_more_events() -> None:
    async with agent(["hello"]).stream("go") as run:
        assert [event async for event in run]
        assert [event async for event in run] == []
        with pytest.raises(StopAsyncIteration):
            await anext(run)
    assert run.turn.text == "hello"


# --- conversations ----------------------------------------------------------


async def test_a_conversation_goes_on_with_the_messages_of_the_turns_before() -> None:
    script = [
        calls("weather", city="Rome"),
        says("Rain."),
        says("Yes, Rome.").expecting(text="really", check=lambda request: len(request.messages) == 5),
    ]
    made = agent(script)
    first = await made.run("rain in Rome?")
    second = await made.run("really?", messages=first.messages)
    assert second.text == "Yes, Rome."
    assert second.messages == (Message.user("really?"), Message.assistant("Yes, Rome."))


def dangling(*ids: str) -> Message:
    return Message.assistant(*(ToolCall(id, "weather", '{"city":"Rome"}', at) for at, id in enumerate(ids)))


def answer(id: str) -> ToolResult:
    return ToolResult(id, "weather", (Text("rain"),))


@pytest.mark.parametrize(
    ("earlier", "wanted"),
    [
        ([dangling("a")], ["interrupted"]),
        ([dangling("a", "b", "c")], ["interrupted"] * 3),
        ([dangling("a", "b"), Message.tool(answer("b"))], ["interrupted", "ok"]),
        ([dangling("a", "b"), Message.tool(answer("b")), Message.tool(answer("a"))], ["ok", "ok"]),
        ([dangling("a"), Message.tool(answer("a"), answer("a"))], ["ok"]),
        ([dangling("a"), Message.tool(answer("a")), Message.tool(answer("a"))], ["ok"]),
        ([dangling("a"), Message.tool(answer("ghost"))], ["interrupted"]),
        ([dangling("a"), Message.user("hello?"), dangling("b")], ["interrupted", "interrupted"]),
        ([Message.tool(answer("ghost"))], []),
    ],
)
async def test_calls_that_were_never_answered_do_not_poison_the_conversation(
    earlier: list[Message], wanted: list[str]
) -> None:
    """The scripted model refuses a call without a result, with two, or with a stranger's."""
    shown: list[str] = []

    def look(request: Request) -> None:
        shown.extend(result.status for m in request.messages for result in m.tool_results)

    given = [Message.user("rain?"), *earlier]
    before = list(given)
    turn = await agent([says("ok").expecting(text="go on", check=look)]).run("go on", messages=given)
    assert shown == wanted
    assert given == before
    assert turn.messages == (Message.user("go on"), Message.assistant("ok")), "only what the turn added"


async def test_a_prompt_may_be_text_parts_or_a_message() -> None:
    picture = Image(url="https://example.org/a.png")
    prompts: list[tuple[Any, Message]] = [
        ("look", Message.user("look")),
        (picture, Message.user(picture)),
        (["look", picture], Message.user("look", picture)),
        ((picture, Text("look")), Message.user(picture, "look")),
        (Message.user("look", name="ada"), Message.user("look", name="ada")),
    ]
    for prompt, wanted in prompts:
        assert (await agent(["ok"]).run(prompt)).messages[0] == wanted


# --- wrong use --------------------------------------------------------------


@pytest.mark.parametrize("model", [None, 5, b"demo", ScriptedProvider, ["demo"]])
def test_a_model_that_is_none_is_a_type_error_that_says_what_one_is(model: Any) -> None:
    with pytest.raises(TypeError, match="a model is a string such as 'demo' or a Provider"):
        Agent(model)


def test_a_session_where_no_event_loop_runs_is_refused_with_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"inside an async function, or use gnomon\.sync"):
        Agent("demo").session("ada")


@pytest.mark.parametrize("settings", [5, "fast", ["delay_s"]])
def test_settings_that_are_no_mapping_are_a_type_error_that_says_so(settings: Any) -> None:
    with pytest.raises(TypeError, match=r"settings are a mapping by name, not \w+"):
        Agent("demo", settings=settings)


@pytest.mark.parametrize("prompt", [None, 5, b"bytes", {"role": "user"}, [1], [b"x"], [None], object()])
def test_a_prompt_that_is_none_is_a_type_error(prompt: Any) -> None:
    with pytest.raises(TypeError, match=r"(prompt|content) is text.*not \w+"):
        agent(["ok"]).stream(prompt)


def test_bytes_are_named_as_what_they_are() -> None:
    with pytest.raises(TypeError, match="not bytes"):
        agent(["ok"]).stream(b"bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize("messages", [["hi"], "hi", [None], [{"role": "user"}], [("user", "hi")]])
def test_messages_that_are_none_are_a_type_error(messages: Any) -> None:
    with pytest.raises(TypeError, match="messages"):
        agent(["ok"]).stream("hi", messages=messages)


@pytest.mark.parametrize("thing", [None, 5, object()])
def test_a_tool_that_is_none_is_a_type_error(thing: Any) -> None:
    with pytest.raises(TypeError, match="a tool is a function, a Tool or a name, not"):
        agent(["ok"], thing)


@pytest.mark.parametrize("tools", ["calculate", weather, 5])
def test_tools_that_are_no_list_are_a_type_error_that_says_so(tools: Any) -> None:
    with pytest.raises(TypeError, match=r"tools .*(list|sequence)"):
        Agent(ScriptedProvider(["ok"]), tools=tools)


class ByHand:
    name = "by_hand"
    description = "Written by hand."
    read_only = True
    parameters: dict[str, object] = {"type": "object"}

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        return ToolResult(context.call_id, self.name, (Text(f"got {arguments}"),))


async def test_a_tool_may_be_written_by_hand() -> None:
    script = [calls("by_hand", n=1), says("ok").expecting(result='got {"n":1}')]
    assert (await agent(script, ByHand()).run("go")).text == "ok"


def test_a_tool_class_in_place_of_a_tool_is_refused() -> None:
    with pytest.raises((TypeError, ConfigError), match="ByHand"):
        agent(["ok"], ByHand)


def test_two_tools_of_one_name_are_refused() -> None:
    def weather(city: str) -> str:
        return city

    with pytest.raises(ConfigError, match="two tools are called 'weather'"):
        agent(["ok"], weather, globals()["weather"])


async def test_tools_may_be_given_by_name() -> None:
    script = [calls("calculate", expression="6*7"), says("42").expecting(result="42", tools=["calculate"])]
    assert (await agent(script, "calculate").run("6*7?")).text == "42"
    with pytest.raises(UnknownName, match="did you mean 'calculate'"):
        agent(["ok"], "calcualte")


async def test_a_plain_function_is_a_tool() -> None:
    def double(n: int) -> int:
        return 2 * n

    assert (
        await agent([calls("double", n=4), says("8").expecting(result="8")], double).run("go")
    ).text == "8"


def test_settings_are_for_a_model_given_by_name() -> None:
    with pytest.raises(ConfigError, match="settings are for a model given by name"):
        Agent(ScriptedProvider(["ok"]), settings={"delay_s": 1})
    with pytest.raises(ConfigError, match="takes no setting 'dealy_s'"):
        Agent("scripted", settings={"script": ["ok"], "dealy_s": 1})


async def test_an_agent_by_name_works_like_one_by_hand() -> None:
    made = Agent("scripted:tiny", name="guide", settings={"script": ["ok"]})
    assert (made.name, made.provider.name, made.provider.model) == ("guide", "scripted", "tiny")
    assert (await made.run("go")).text == "ok"


async def test_an_agent_is_closed_once_or_twice_or_by_its_block() -> None:
    closed: list[int] = []

    class Holds(Raw):
        async def close(self) -> None:
            closed.append(1)

    async with Agent(Holds([Finish(stop_reason="end_turn")])) as made:
        await made.run("go")
        assert closed == []
    assert closed == [1]
    await made.close()
    await agent(["ok"]).close()


def test_errors_that_the_agent_raises_can_be_caught_as_one() -> None:
    with pytest.raises(GnomonError):
        Agent("no-such-provider:x")


# --- many at once, and many after another -----------------------------------


async def test_two_runs_of_one_agent_do_not_mix() -> None:
    """Both are in the middle of their tools at the same time."""
    meet = asyncio.Barrier(2)

    @tool
    async def who(context: ToolContext, name: str) -> str:
        await meet.wait()
        return f"I am {name} {context.turn_id}"

    def script(request: Request) -> Line:
        name = request.messages[0].text
        if len(request.messages) == 1:
            return calls("who", name=name)
        return says(request.messages[-1].tool_results[0].text).expecting(result=f"I am {name}")

    made = agent(script, who)
    async with asyncio.timeout(10):
        ada, bob = await asyncio.gather(made.run("ada"), made.run("bob"))
    assert (ada.text, bob.text) == (f"I am ada {ada.id}", f"I am bob {bob.id}")
    assert [message.text for message in ada.messages if message.role == "user"] == ["ada"]
    assert ada.id != bob.id


class Endless(Provider):
    """Calls a tool for so many rounds, ten deltas each."""

    name = "endless"
    model = "endless"

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        for _ in range(10):
            yield TextDelta(0, "x")
        done = len(request.messages) // 2
        if done < self._rounds - 1:
            for event in a_call(1, f"call_{done}", "step", "{}"):
                yield event
        yield Finish(stop_reason="end_turn")


async def test_a_thousand_rounds_leave_nothing_behind() -> None:
    @tool(read_only=True)
    async def step() -> str:
        return "ok"

    made = Agent(Endless(1000), tools=[step], budget=Budget(rounds=None))

    async def grown() -> int:
        before = sys.getallocatedblocks()
        async with made.stream("go") as run:
            deltas = sum([isinstance(event, TextDelta) async for event in run])
        assert (run.turn.rounds, deltas) == (1000, 10_000)
        del run
        await asyncio.sleep(0)  # the loop sweeps out timers that were called off
        gc.collect()
        return sys.getallocatedblocks() - before

    await grown()  # caches fill up
    assert await grown() < 500
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_turn_starts_when_it_is_first_read_and_not_when_it_is_made() -> None:
    class Clock(SystemClock):
        time = datetime(2026, 1, 1, tzinfo=UTC)

        def now(self) -> datetime:
            return self.time

    clock = Clock()
    run = Agent(ScriptedProvider(["ok"]), clock=clock).stream("hi")
    clock.time += timedelta(hours=1)
    async with run:
        async for _ in run:
            pass
    assert run.turn.started_at == clock.time


async def test_tools_get_what_the_owner_of_the_agent_gave_it() -> None:
    seen: list[object] = []

    @tool
    def look(context: ToolContext) -> None:
        seen.append(context.deps)

    pool = object()
    await Agent(ScriptedProvider([calls("look"), "done"]), tools=[look], deps=pool).run("go")
    assert seen == [pool]
