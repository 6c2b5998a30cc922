"""The fallback: who is asked after whom, what a reader sees of it, and what is remembered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

import pytest

from gnomon import registry
from gnomon.contracts.provider import Provider
from gnomon.errors import (
    BadRequest,
    ConfigError,
    ContextTooLong,
    MissingKey,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    StreamCut,
    Unauthorized,
)
from gnomon.providers._breaker import Breaker
from gnomon.providers.fallback import FallbackProvider
from gnomon.stream import StreamFold
from gnomon.testing import FakeClock, ScriptedProvider, calls, fails, says
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Finish,
    ProviderEvent,
    StreamEvent,
    StreamWarning,
    TextDelta,
    UsageUpdate,
)
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response, Spent, Usage

HELLO = Request(messages=(Message.user("Hello"),))
USED = Usage(input_tokens=10, output_tokens=3)


def busy(**facts: object) -> Overloaded:
    return Overloaded("busy", vendor="first", status=529, **facts)  # type: ignore[arg-type]


def script(name: str, *turns: object, **more: object) -> ScriptedProvider:
    return ScriptedProvider(turns, name=name, model=f"{name}-model", **more)  # type: ignore[arg-type]


def fallback(*providers: Provider, **settings: object) -> FallbackProvider:
    return FallbackProvider(providers=providers, **{"wait_s": 0.0, **settings})  # type: ignore[arg-type]


class Played(Provider):
    """Yields what it is given, and raises what is an error among it."""

    def __init__(self, name: str, *turns: tuple[ProviderEvent | BaseException, ...]) -> None:
        self.name, self.model = name, f"{name}-model"
        self._turns = list(turns)
        self.asked = self.closed = 0

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        assert request.model is None, "each provider is asked for its own model"
        self.asked += 1
        for step in self._turns.pop(0):
            if isinstance(step, BaseException):
                raise step
            yield step

    async def close(self) -> None:
        self.closed += 1


async def events_of(provider: Provider, request: Request = HELLO) -> list[StreamEvent]:
    async with provider.stream(request) as stream:
        return [event async for event in stream]


async def test_the_first_answers_while_all_is_well_and_the_others_are_not_asked() -> None:
    second = script("second", says("No."))
    response = await fallback(script("first", says("Yes.")), second).complete(HELLO)
    assert response.text == "Yes."
    assert (response.provider, response.model) == ("first", "first-model")
    assert not second.requests
    assert not response.warnings


async def test_what_may_pass_is_tried_again_on_the_same_and_then_on_the_next() -> None:
    first = script("first", fails(busy()), fails(busy()), says("Too late."))
    second = script("second", says("Here."))
    response = await fallback(first, second, retries=1).complete(HELLO)
    assert (len(first.requests), len(second.requests)) == (2, 1)
    assert (response.text, response.provider, response.model) == ("Here.", "second", "second-model")
    assert response.warnings == ("first:first-model failed (overloaded), so second:second-model is asked",)


async def test_one_more_try_of_the_same_is_enough_when_it_passes() -> None:
    first = script("first", fails(busy()), says("Now."))
    response = await fallback(first, script("second", says("No.")), retries=1).complete(HELLO)
    assert (response.text, response.warnings) == ("Now.", ())


@pytest.mark.parametrize(
    "error",
    [
        Unauthorized("no", vendor="first"),
        ModelNotFound("none", vendor="first"),
        BadRequest("takes no audio", vendor="first"),
        ContextTooLong("too long", vendor="first"),
        RateLimited("no money left", vendor="first", retryable=False),
    ],
)
async def test_what_would_not_pass_goes_to_the_next_at_once(error: ProviderError) -> None:
    first = script("first", fails(error), says("Asked twice."))
    response = await fallback(first, script("second", says("Here.")), retries=3).complete(HELLO)
    assert (len(first.requests), response.text) == (1, "Here.")


async def test_a_provider_without_a_key_is_passed_over_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider = registry.provider("fallback:openai,demo")
    response = await provider.complete(HELLO)
    assert response.provider == "demo"
    assert "missing_key" in response.warnings[0]
    await provider.close()


async def test_a_refusal_is_not_taken_elsewhere() -> None:
    second = script("second", says("Sure."))
    with pytest.raises(Refused):
        await fallback(script("first", fails(Refused("no", vendor="first"))), second).complete(HELLO)
    assert not second.requests


async def test_a_bug_is_not_covered_up() -> None:
    second = script("second", says("Sure."))
    first = ScriptedProvider([says("x").expecting(text="what nobody asks")], name="first")
    with pytest.raises(AssertionError):
        await fallback(first, second).complete(HELLO)
    assert not second.requests


async def test_before_anything_is_shown_nobody_sees_the_failed_attempt() -> None:
    first = Played("first", (StreamWarning("of the first"), UsageUpdate(USED), busy()))
    second = Played(
        "second", (StreamWarning("of the second"), TextDelta(0, "Hi"), Finish(stop_reason="end_turn"))
    )
    events = await events_of(fallback(first, second, retries=0))
    assert not any(isinstance(event, AttemptDiscarded | UsageUpdate) for event in events)
    assert [event.message for event in events if isinstance(event, StreamWarning)] == [
        "first:first-model failed (overloaded), so second:second-model is asked",
        "of the second",
    ]


async def test_what_a_silent_failure_used_is_kept_with_the_place_where_it_was_spent() -> None:
    first = Played("first", (UsageUpdate(USED), busy()))
    second = script("second", says("Here.", usage=Usage(input_tokens=1, output_tokens=1)))
    response = await fallback(first, second, retries=0).complete(HELLO)
    assert response.discarded == (
        Spent(input_tokens=10, output_tokens=3, provider="first", model="first-model"),
    )
    assert response.usage == Usage(input_tokens=1, output_tokens=1)


async def test_after_something_was_shown_a_reader_is_told_to_forget_it() -> None:
    cut = StreamCut("cut", vendor="first")
    first = Played("first", (TextDelta(0, "Hel"), UsageUpdate(USED), cut))
    events = await events_of(fallback(first, script("second", says("Good day.")), retries=0))
    shown, fold = "", StreamFold()
    for event in events:
        fold.add(event)
        shown = "" if isinstance(event, AttemptDiscarded) else shown
        shown += event.text if isinstance(event, TextDelta) else ""
    assert shown == fold.message.text == "Good day."
    discarded = next(event for event in events if isinstance(event, AttemptDiscarded))
    assert (discarded.usage, discarded.provider, discarded.model) == (USED, "first", "first-model")
    done = events[-1]
    assert isinstance(done, Done)
    assert done.response.discarded[0].input_tokens == 10


async def test_half_a_tool_call_is_forgotten_with_the_attempt() -> None:
    half = calls("look", word="x").failing(StreamCut("cut", vendor="first"), after=2)
    first = ScriptedProvider([half], name="first")
    second = script("second", calls("look", word="y"))
    from gnomon.types.messages import ToolDef

    request = Request(messages=HELLO.messages, tools=(ToolDef(name="look", schema={"type": "object"}),))
    response = await fallback(first, second, retries=0).complete(request)
    assert [call.arguments for call in response.tool_calls] == ['{"word":"y"}']


async def test_an_answer_without_an_end_counts_as_cut() -> None:
    first = Played("first", (TextDelta(0, "Hel"),))
    response = await fallback(first, script("second", says("Here.")), retries=0).complete(HELLO)
    assert response.text == "Here."


async def test_when_all_fail_the_error_says_who_else_was_tried_and_what_was_spent() -> None:
    first = Played("first", (UsageUpdate(USED), Unauthorized("bad key", vendor="first")))
    second = Played("second", (TextDelta(0, "He"), UsageUpdate(USED), Overloaded("down", vendor="second")))
    with pytest.raises(Overloaded, match="down") as caught:
        await fallback(first, second, retries=0).complete(HELLO)
    assert caught.value.retryable
    assert "first:first-model (unauthorized: bad key)" in str(caught.value)
    assert sum(spent.input_tokens or 0 for spent in caught.value.spent) == 20


async def test_what_the_last_one_used_is_put_down_to_it_and_not_to_the_fallback() -> None:
    first = Played("first", (UsageUpdate(USED), busy()))
    second = Played("second", (TextDelta(0, "He"), UsageUpdate(USED), busy()))
    with pytest.raises(Overloaded) as caught:
        await fallback(first, second, retries=0).complete(HELLO)
    assert [(each.provider, each.input_tokens) for each in caught.value.spent] == [
        ("first", 10),
        ("second", 10),
    ]


async def test_what_a_shown_failure_used_is_unknown_when_nobody_reports_it_and_not_nothing() -> None:
    first = Played("first", (TextDelta(0, "Hel"), busy()))
    response = await fallback(first, script("second", says("Here.")), retries=0).complete(HELLO)
    assert response.discarded == (Spent(provider="first", model="first-model"),)


async def test_an_answer_that_comes_whole_is_an_answer() -> None:
    whole = Response(message=Message.assistant("Hi"), stop_reason="end_turn", id="r1", usage=USED)
    first = Played("first", (TextDelta(0, "Hel"), UsageUpdate(USED), busy()))
    second = Played("second", (TextDelta(0, "Hi"), Done(whole)))
    response = await fallback(first, second, retries=0).complete(HELLO)
    assert (response.text, response.id, response.usage) == ("Hi", "r1", USED)
    assert (response.provider, response.model) == ("second", "second-model")
    assert [each.provider for each in response.discarded] == ["first"]


async def test_a_fallback_inside_another_loses_nothing_and_counts_nothing_twice() -> None:
    inner = fallback(
        Played("a", (UsageUpdate(USED), busy())),
        Played("b", (UsageUpdate(USED), TextDelta(0, "x"), busy())),
        Played("c", (UsageUpdate(USED), TextDelta(0, "y"), busy())),
        retries=0,
    )
    response = await fallback(inner, script("last", says("Here.")), retries=0).complete(HELLO)
    assert response.text == "Here."
    assert sorted(str(each.provider) for each in response.discarded) == ["a", "b", "c"]


async def test_a_warning_is_given_once_however_often_the_answer_starts_again() -> None:
    first = Played("first", (TextDelta(0, "a"), busy()), (TextDelta(0, "b"), busy()))
    second = script("second", says("Here."))
    request = Request(messages=HELLO.messages, model="x")
    warnings = (await fallback(first, second, retries=1).complete(request)).warnings
    assert len(warnings) == len(set(warnings)) == 2


async def test_the_error_that_is_chosen_keeps_its_own_cause() -> None:
    first, second = busy(), Unauthorized("no")
    first.__cause__, second.__cause__ = OSError("of the first"), OSError("of the second")
    with pytest.raises(Overloaded) as caught:
        await fallback(Played("first", (first,)), Played("second", (second,)), retries=0).complete(HELLO)
    assert str(caught.value.__cause__) == "of the first"


async def test_any_number_of_retries_can_be_waited_for() -> None:
    first = Played("first", *[(busy(),)] * 1100, (TextDelta(0, "Now."), Finish(stop_reason="end_turn")))
    response = await fallback(first, retries=1100, failures=10_000).complete(HELLO)
    assert response.text == "Now."


async def test_a_conversation_that_is_too_long_for_one_is_told_as_that() -> None:
    first = script("first", fails(ContextTooLong("too long", vendor="first")))
    second = script("second", fails(busy()))
    with pytest.raises(ContextTooLong):
        await fallback(first, second, retries=0).complete(HELLO)


async def test_without_any_key_the_error_is_about_the_key() -> None:
    class Keyless(Played):
        async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            raise MissingKey("no key")
            yield

    with pytest.raises(MissingKey):
        await fallback(Keyless("a"), Keyless("b")).complete(HELLO)


async def test_the_time_that_a_service_asks_for_is_waited() -> None:
    first = script("first", fails(busy(retry_after=0.2)), says("Now."))
    began = time.monotonic()
    response = await fallback(first, retries=1).complete(HELLO)
    assert response.text == "Now."
    assert time.monotonic() - began >= 0.19


async def test_a_wait_that_is_too_long_goes_to_the_next() -> None:
    first = script("first", fails(busy(retry_after=3600.0)), says("In an hour."))
    response = await fallback(first, script("second", says("Here.")), retries=5).complete(HELLO)
    assert response.text == "Here."


async def test_a_model_that_is_none_of_theirs_is_warned_about() -> None:
    response = await fallback(script("first", says("Yes."))).complete(
        Request(messages=HELLO.messages, model="x")
    )
    assert "not with x" in response.warnings[0]
    assert response.model == "first-model"


async def test_after_enough_failures_it_is_left_alone_and_then_tried_by_one() -> None:
    first = script("first", *[fails(busy())] * 3, says("Well again."), says("Still well."))
    second = script("second", *[says("Here.")] * 9)
    provider = fallback(first, second, retries=0, failures=3, rest_s=0.15)
    for _ in range(5):
        assert (await provider.complete(HELLO)).text == "Here."
    assert len(first.requests) == 3
    await asyncio.sleep(0.2)
    assert (await provider.complete(HELLO)).text == "Well again."
    assert (await provider.complete(HELLO)).text == "Still well."


async def test_when_all_are_left_alone_the_error_says_when_to_come_back() -> None:
    first = script("first", fails(busy()))
    provider = fallback(first, retries=0, failures=1, rest_s=60)
    with pytest.raises(Overloaded):
        await provider.complete(HELLO)
    with pytest.raises(Overloaded, match="left alone") as caught:
        await provider.complete(HELLO)
    assert caught.value.retry_after == pytest.approx(60, abs=5)
    assert "first:first-model (overloaded: busy)" in str(caught.value)
    assert len(first.requests) == 1


async def test_a_wrong_request_says_nothing_of_the_service() -> None:
    first = script("first", *[fails(BadRequest("wrong", vendor="first"))] * 3, says("Right."))
    provider = fallback(first, script("second", *[says("Here.")] * 3), retries=0, failures=1)
    for _ in range(3):
        await provider.complete(HELLO)
    assert (await provider.complete(HELLO)).text == "Right."


@pytest.mark.parametrize("leave", ["close", "cancel"])
async def test_leaving_a_probe_in_the_middle_lets_the_next_one_try(leave: str) -> None:
    first = script("first", fails(busy()), says("A long answer."), says("Well."), delay_s=0.001)
    provider = fallback(first, retries=0, failures=1, rest_s=0.01)
    with pytest.raises(Overloaded):
        await provider.complete(HELLO)
    await asyncio.sleep(0.05)
    if leave == "close":
        async with provider.stream(HELLO) as stream:
            await anext(stream)
    else:
        task = asyncio.create_task(provider.complete(HELLO))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if len(first.requests) < 2:  # it was ended before it asked
            first.requests.append(HELLO)
    assert (await provider.complete(HELLO)).text == "Well."


async def test_closing_closes_all_of_them_even_when_one_fails() -> None:
    class Stuck(Played):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    other = Played("other")
    with pytest.raises(RuntimeError):
        await fallback(Stuck("stuck"), other).close()
    assert other.closed == 1


async def test_a_model_string_names_the_members_and_their_models() -> None:
    provider = registry.provider(
        "fallback:ollama:qwen3:4b, demo", {"settings": {"ollama": {"base_url": "http://127.0.0.1:9"}}}
    )
    assert isinstance(provider, FallbackProvider)
    assert [member.name for member in provider.providers] == ["ollama", "demo"]
    assert provider.providers[0].model == "qwen3:4b"
    response = await provider.complete(HELLO)
    assert response.provider == "demo"
    await provider.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FallbackProvider(),
        lambda: registry.provider("fallback"),
        lambda: registry.provider("fallback:,"),
        lambda: registry.provider("fallback:no-such-provider"),
        lambda: registry.provider("fallback:demo,fallback:demo"),
        lambda: registry.provider("fallback:demo", {"retries": -1}),
        lambda: registry.provider("fallback:demo", {"failures": 0}),
        lambda: registry.provider("fallback:demo", {"wait_s": float("nan")}),
        lambda: registry.provider("fallback:demo", {"rest_s": "soon"}),
    ],
)
def test_what_cannot_be_used_is_said_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


def enter(breaker: Breaker) -> int:
    ticket = breaker.enter()
    assert ticket is not None
    return ticket


def test_a_breaker_opens_half_opens_and_rests_longer_each_time() -> None:
    clock = FakeClock()
    breaker = Breaker(2, 10, clock.monotonic)
    for _ in range(2):
        breaker.failed(enter(breaker))
    assert breaker.enter() is None
    clock.advance(10)
    probe = enter(breaker)
    assert breaker.enter() is None, "one probe at a time"
    breaker.failed(probe)
    assert breaker.rests_for == 20
    clock.advance(20)
    breaker.succeeded(enter(breaker))
    assert breaker.enter()
    assert breaker.enter()


def test_failures_that_success_interrupts_do_not_add_up() -> None:
    breaker = Breaker(2, 10, FakeClock().monotonic)
    for _ in range(5):
        breaker.failed(enter(breaker))
        breaker.succeeded(enter(breaker))


def test_many_who_fail_at_the_same_moment_are_one_rest() -> None:
    breaker = Breaker(3, 10, FakeClock().monotonic)
    for ticket in [enter(breaker) for _ in range(200)]:
        breaker.failed(ticket)
    assert breaker.rests_for == 10


@pytest.mark.parametrize("how", ["failed", "left", "succeeded"])
def test_who_came_before_the_rest_does_not_speak_for_the_probe(how: str) -> None:
    clock = FakeClock()
    breaker = Breaker(1, 10, clock.monotonic)
    slow = enter(breaker)
    breaker.failed(enter(breaker))
    clock.advance(10)
    probe = enter(breaker)
    getattr(breaker, how)(slow)
    assert breaker.enter() is None, "the probe is still out"
    breaker.succeeded(probe)
    assert breaker.enter()
