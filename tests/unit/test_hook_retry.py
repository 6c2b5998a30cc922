"""RetryHook: what may pass is tried again, in time, without losing what was spent (H3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from random import uniform
from typing import Any

import pytest
from hook_stage import Clock, Service, answer, ask, inside, question, read, used

from gnomon import registry
from gnomon.contracts.hook import Hook, SupportsAround
from gnomon.errors import (
    BadRequest,
    BudgetExceeded,
    ConfigError,
    GnomonError,
    Overloaded,
    RateLimited,
    StreamCut,
    Unavailable,
)
from gnomon.hooks._notes import retries
from gnomon.hooks.retry import RetryHook
from gnomon.stream import PullStream, StreamFold
from gnomon.testing import FakeClock
from gnomon.testing._hook_steps import Inside, tool_events, tool_step
from gnomon.testing._watch import Watch
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    QuestionAsked,
    RunEvent,
    StreamWarning,
    TextDelta,
    ToolFinished,
    UsageUpdate,
)
from gnomon.types.messages import Message, ToolResult, ToolStatus
from gnomon.types.requests import Response, Spent, Usage
from gnomon.types.steps import HookEvent


def longest(low: float, high: float) -> float:
    """The longest wait that the jitter allows."""
    assert low == 0.0
    return high


def hook(clock: Clock, **settings: Any) -> RetryHook:
    return RetryHook(**{"clock": clock, "sleep": clock.sleep, "jitter": longest, **settings})


def failing(*events: Any, error: GnomonError | None = None) -> tuple[Any, ...]:
    return (*events, error or Overloaded("busy"))


# --- when it tries again ------------------------------------------------------------------


async def test_an_error_that_may_pass_is_tried_again() -> None:
    clock, service = Clock(), Service(failing(), answer("At noon."))
    response = await ask(hook(clock), question(), service)
    assert response.text == "At noon."
    assert len(service.asked) == 2


async def test_an_error_that_would_not_pass_is_raised_at_once() -> None:
    clock, service = Clock(), Service(failing(error=BadRequest("no")))
    with pytest.raises(BadRequest, match="no"):
        await ask(hook(clock), question(), service)
    assert clock.naps == []


async def test_it_is_the_error_that_says_so_and_not_its_class() -> None:
    clock, service = Clock(), Service(failing(error=RateLimited("no money left", retryable=False)))
    with pytest.raises(RateLimited):
        await ask(hook(clock), question(), service)
    clock, service = Clock(), Service(failing(error=BadRequest("odd", retryable=True)), answer())
    assert (await ask(hook(clock), question(), service)).text == "At noon."


async def test_a_step_that_cannot_even_begin_is_tried_again() -> None:
    service = Service(answer())
    fails = [Unavailable("away"), Overloaded("busy")]

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        if fails:
            raise fails.pop()
        return await service(event)

    assert (await ask(hook(Clock()), question(), call)).text == "At noon."


async def test_it_gives_up_after_so_many_attempts() -> None:
    clock, service = Clock(), Service(*(failing() for _ in range(3)))
    with pytest.raises(Overloaded):
        await ask(hook(clock, attempts=3), question(), service)
    assert len(service.asked) == 3
    assert len(clock.naps) == 2
    assert service.open == 0


async def test_one_attempt_is_no_second_one() -> None:
    clock, service = Clock(), Service(failing())
    with pytest.raises(Overloaded):
        await ask(hook(clock, attempts=1), question(), service)


async def test_an_answer_that_was_complete_is_not_asked_for_again() -> None:
    calls: list[HookEvent] = []

    async def events() -> AsyncGenerator[RunEvent, None]:
        async with await Service(answer())(question()) as stream:
            async for event in stream:
                yield event
        raise StreamCut("the connection broke while it was closed")

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        calls.append(event)
        return PullStream(events())

    with pytest.raises(StreamCut):
        await read(hook(Clock()), question(), call)
    assert len(calls) == 1


# --- how long it waits --------------------------------------------------------------------


async def test_waits_are_a_random_part_of_what_doubles_up_to_a_cap() -> None:
    clock, asked = Clock(), list[tuple[float, float]]()

    def jitter(low: float, high: float) -> float:
        asked.append((low, high))
        return high / 2

    service = Service(*(failing() for _ in range(5)), answer())
    await ask(hook(clock, attempts=9, base_s=1.0, cap_s=6.0, jitter=jitter), question(), service)
    assert asked == [(0.0, 1.0), (0.0, 2.0), (0.0, 4.0), (0.0, 6.0), (0.0, 6.0)]
    assert clock.naps == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_spread_is_full_by_default() -> None:
    assert RetryHook()._policy.jitter == uniform


async def test_what_the_service_asks_for_is_waited_for_even_beyond_the_cap() -> None:
    clock = Clock()
    service = Service(failing(error=RateLimited("slow down", retry_after=45.0)), answer())
    await ask(hook(clock, base_s=0.5, cap_s=2.0), question(), service)
    assert clock.naps == [45.5]  # never less, and spread


async def test_a_time_in_the_past_is_now() -> None:
    clock = Clock()
    service = Service(failing(error=RateLimited("slow down", retry_after=-3.0)), answer())
    await ask(hook(clock, base_s=0.5), question(), service)
    assert clock.naps == [0.5]


async def test_a_service_that_asks_for_more_than_the_deadline_is_not_waited_for() -> None:
    clock = Clock()
    service = Service(failing(error=RateLimited("tomorrow", retry_after=60.1)))
    with pytest.raises(RateLimited) as raised:
        await ask(hook(clock, deadline_s=60.0), question(), service)
    assert raised.value.retry_after == 60.1
    assert clock.naps == []


async def test_the_spread_does_not_pass_the_deadline() -> None:
    clock = Clock()
    service = Service(failing(error=RateLimited("soon", retry_after=59.8)), answer())
    await ask(hook(clock, deadline_s=60.0, base_s=10.0), question(), service)
    assert clock.naps == [pytest.approx(60.0)]


async def test_no_attempt_begins_after_the_deadline() -> None:
    """The time that the attempts themselves took counts."""
    clock = Clock()
    service = Service(*(failing() for _ in range(9)))

    async def slow(event: HookEvent) -> PullStream[RunEvent]:
        clock.at += 25.0
        return await service(event)

    with pytest.raises(Overloaded):
        await ask(hook(clock, attempts=9, deadline_s=60.0, base_s=1.0), question(), slow)
    assert len(service.asked) == 3


async def test_without_a_deadline_it_waits_for_whatever_is_asked() -> None:
    clock = Clock()
    service = Service(failing(error=RateLimited("tomorrow", retry_after=86_400.0)), answer())
    await ask(hook(clock, deadline_s=None, base_s=0.0), question(), service)
    assert clock.naps == [86_400.0]


async def test_a_wait_that_is_no_number_is_none() -> None:
    clock, service = Clock(), Service(failing(error=RateLimited("odd", retry_after=float("nan"))))
    with pytest.raises(RateLimited):
        await ask(hook(clock), question(), service)


async def test_it_can_be_cancelled_while_it_waits() -> None:
    clock, service = FakeClock(), Service(failing(TextDelta(0, "At")))
    retry = RetryHook(clock=clock.monotonic, sleep=clock.sleep, jitter=longest)
    with Watch() as watch:
        task = asyncio.create_task(read(retry, question(), service))
        await clock.until_sleeping()
        assert service.open == 0  # nothing is held while it waits
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        assert task.cancelled()
    assert await watch.left() == []


async def test_a_cancelled_attempt_is_not_tried_again() -> None:
    service = Service(answer())
    retry, calls, begun = hook(Clock()), list[HookEvent](), asyncio.Event()

    async def hanging(event: HookEvent) -> PullStream[RunEvent]:
        calls.append(event)
        begun.set()
        await asyncio.Event().wait()
        return await service(event)

    task = asyncio.create_task(read(retry, question(), hanging))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()
    assert len(calls) == 1


# --- what a reader sees -------------------------------------------------------------------


async def test_before_anything_was_shown_it_happens_in_silence() -> None:
    told = (StreamWarning("the image was left out"), UsageUpdate(used(7, 0)))
    service = Service(failing(*told), (StreamWarning("so it was"), *answer()))
    events = await read(hook(Clock()), question(), service)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["StreamWarning", "TextDelta", "TextDelta", "TextDelta", "UsageUpdate", "Done"]
    assert events[0] == StreamWarning("so it was")


async def test_after_that_the_attempt_is_discarded_and_begins_anew() -> None:
    service = Service(failing(TextDelta(0, "At mid"), UsageUpdate(used(7, 2))), answer("At noon."))
    events = await read(hook(Clock()), question(), service)
    assert events[2] == AttemptDiscarded("acme:large failed: busy", used(7, 2), "acme", "large")
    fold = StreamFold()
    for event in events[:-1]:
        fold.add(event)
    done = events[-1]
    assert isinstance(done, Done)
    assert fold.message == done.response.message
    assert done.response.text == "At noon."
    assert fold.discarded == [*done.response.discarded]


async def test_mid_stream_false_raises_what_fails_after_that() -> None:
    service = Service(failing(TextDelta(0, "At mid")))
    with pytest.raises(Overloaded):
        await read(hook(Clock(), mid_stream=False), question(), service)
    service = Service(failing(UsageUpdate(used(7, 0))), answer())
    assert (await ask(hook(Clock(), mid_stream=False), question(), service)).text == "At noon."


async def test_an_event_is_passed_on_before_the_next_one_is_asked_for() -> None:
    read_so_far: list[str] = []

    async def events() -> AsyncGenerator[RunEvent, None]:
        for text in ("a", "b", "c"):
            read_so_far.append(text)
            yield TextDelta(0, text)

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        return PullStream(events())

    async with await hook(Clock()).around(question(), call) as stream:
        await anext(aiter(stream))
        assert read_so_far == ["a"]


# --- what was spent -----------------------------------------------------------------------


async def test_what_failed_attempts_have_used_is_kept_with_the_answer() -> None:
    service = Service(
        failing(UsageUpdate(used(7, 0))),
        failing(TextDelta(0, "At"), UsageUpdate(used(8, 1))),
        answer(),
    )
    response = await ask(hook(Clock()), question(), service)
    assert response.usage == used()
    assert response.discarded == (
        Spent(input_tokens=7, output_tokens=0, provider="acme", model="large"),
        Spent(input_tokens=8, output_tokens=1, provider="acme", model="large"),
    )


async def test_what_was_shown_and_not_reported_is_unknown_and_not_nothing() -> None:
    response = await ask(hook(Clock()), question(), Service(failing(TextDelta(0, "At")), answer()))
    assert response.discarded == (Spent(provider="acme", model="large"),)
    response = await ask(hook(Clock()), question(), Service(failing(), answer()))
    assert response.discarded == ()


async def test_when_it_gives_up_the_error_has_everything() -> None:
    service = Service(*(failing(UsageUpdate(used(number, 0))) for number in (1, 2, 3)))
    with pytest.raises(Overloaded) as raised:
        await ask(hook(Clock(), attempts=3), question(), service)
    assert [each.input_tokens for each in raised.value.spent] == [1, 2, 3]


async def test_another_error_that_ends_it_has_everything_too() -> None:
    for last in (BadRequest("no"), BudgetExceeded("too much")):
        service = Service(failing(UsageUpdate(used(7, 0))), failing(error=last))
        with pytest.raises(type(last)) as raised:
            await ask(hook(Clock()), question(), service)
        spent: tuple[Spent, ...] = vars(raised.value)["spent"]
        assert [each.input_tokens for each in spent] == [7]


async def test_what_the_attempt_itself_has_told_is_not_told_twice() -> None:
    """A provider that falls back on others discards attempts of its own."""
    told = (TextDelta(0, "At"), UsageUpdate(used(1, 1)), AttemptDiscarded("first", used(1, 1), "acme", "s"))
    service = Service(failing(*told, TextDelta(0, "In"), UsageUpdate(used(2, 2))), answer())
    events = await read(hook(Clock()), question(), service)
    discards = [event for event in events if isinstance(event, AttemptDiscarded)]
    assert [event.usage for event in discards] == [used(1, 1), used(2, 2)]
    done = events[-1]
    assert isinstance(done, Done)
    assert [each.input_tokens for each in done.response.discarded] == [1, 2]
    # and one that has used something unknown after that
    service = Service(failing(*told, TextDelta(0, "In")), answer())
    done = (await read(hook(Clock()), question(), service))[-1]
    assert isinstance(done, Done)
    assert [each.input_tokens for each in done.response.discarded] == [1, None]


async def test_two_hooks_that_retry_lose_nothing_and_count_nothing_twice() -> None:
    service = Service(
        failing(UsageUpdate(used(1, 0))),
        failing(TextDelta(0, "x"), UsageUpdate(used(2, 0))),
        failing(UsageUpdate(used(3, 0))),
        answer(),
    )
    clock = Clock()
    both = inside(hook(clock, attempts=2), call=service)
    response = await ask(hook(clock, attempts=2), question(), both)
    assert [each.input_tokens for each in response.discarded] == [1, 2, 3]


# --- hooks further in ---------------------------------------------------------------------


async def test_hooks_further_in_see_the_number_of_the_attempt() -> None:
    service, event = Service(failing(), failing(), answer()), question()
    await ask(hook(Clock()), event, service)
    assert [each.attempt for each in service.asked] == [1, 2, 3]
    assert service.asked[0] is event
    assert all(each.notes is event.notes for each in service.asked)
    assert retries(event) == 2


def test_a_note_of_somebody_else_under_that_name_is_no_number() -> None:
    event = question()
    event.notes["gnomon.retries"] = "many"
    assert retries(event) == 0


# --- tools --------------------------------------------------------------------------------


def finished(status: ToolStatus, text: str = "x") -> tuple[RunEvent, ...]:
    return (ToolFinished("turn-0", ToolResult.of(tool_step().tool_call, text, status=status)),)  # type: ignore[arg-type]


class Tool:
    def __init__(self, *runs: tuple[RunEvent, ...] | GnomonError) -> None:
        self._runs = list(runs)
        self.calls = 0

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        assert event.tool_call == tool_step().tool_call
        self.calls += 1
        run = self._runs.pop(0)
        return await (Inside(error=run) if isinstance(run, GnomonError) else Inside(run))(event)


async def test_no_tool_is_run_again_unless_it_is_named() -> None:
    tool = Tool(finished("error"))
    assert await read(hook(Clock()), tool_step(), tool) == [*finished("error")]
    tool = Tool(Unavailable("away"))
    with pytest.raises(Unavailable):
        await read(hook(Clock(), tools=["another"]), tool_step(), tool)


@pytest.mark.parametrize("status", ["error", "timeout"])
async def test_a_tool_that_is_named_is_run_again_when_it_failed(status: ToolStatus) -> None:
    clock, tool = Clock(), Tool(finished(status), tool_events())
    assert await read(hook(clock, tools=["tide"]), tool_step(), tool) == [*tool_events()]
    assert tool.calls == 2
    assert len(clock.naps) == 1


@pytest.mark.parametrize("status", ["ok", "denied", "cancelled", "truncated", "interrupted", "unknown"])
async def test_what_no_second_run_would_change_is_not_run_again(status: ToolStatus) -> None:
    tool = Tool(finished(status))
    assert await read(hook(Clock(), tools=["tide"]), tool_step(), tool) == [*finished(status)]


async def test_the_last_failure_of_a_tool_is_its_result() -> None:
    tool = Tool(finished("error", "first"), finished("timeout", "last"))
    found = await read(hook(Clock(), attempts=2, tools=["tide"]), tool_step(), tool)
    assert found == [*finished("timeout", "last")]


async def test_an_error_out_of_a_tool_step_counts_as_a_model_s() -> None:
    tool = Tool(Unavailable("away"), tool_events())
    assert await read(hook(Clock(), tools=["tide"]), tool_step(), tool) == [*tool_events()]
    tool = Tool(BadRequest("no"))
    with pytest.raises(BadRequest):
        await read(hook(Clock(), tools=["tide"]), tool_step(), tool)
    tool = Tool(Unavailable("away"), Unavailable("away"))
    with pytest.raises(Unavailable):
        await read(hook(Clock(), attempts=2, tools=["tide"]), tool_step(), tool)


async def test_a_tool_that_asks_somebody_is_not_run_again() -> None:
    asked = (QuestionAsked("turn-0", "call-0", "Which?"),)
    assert await read(hook(Clock(), tools=["tide"]), tool_step(), Tool(asked)) == [*asked]


# --- how it is made -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attempts": 0}, "attempts of hook 'retry' is 1 or more, not 0"),
        ({"base_s": -1.0}, "base_s of hook 'retry'"),
        ({"cap_s": float("nan")}, "cap_s of hook 'retry'"),
        ({"deadline_s": float("inf")}, "deadline_s of hook 'retry'"),
        ({"tools": "tide"}, "a list of names"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RetryHook(**settings)


def test_it_is_there_by_its_name() -> None:
    found = registry.load("hooks", "retry")
    assert found is RetryHook
    made = RetryHook()
    assert isinstance(made, Hook)
    assert isinstance(made, SupportsAround)


async def test_an_answer_without_failures_is_the_very_same() -> None:
    response = Response(message=Message.assistant("x"), stop_reason="end_turn", usage=Usage(input_tokens=1))
    done = Done(response)

    async def events() -> AsyncGenerator[RunEvent, None]:
        yield done

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        return PullStream(events())

    found = await read(hook(Clock()), question(), call)
    assert found[0] is done
