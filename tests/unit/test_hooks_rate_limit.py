"""RateLimitHook in one process: requests and tokens a minute, reserved and then settled (H4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from limit_stage import Answer, Model, Tool, answer, asked, model_step, read, spin, texts, tool_step
from skipping_loop import now, run

from gnomon import registry
from gnomon.contracts.hook import Hook, SupportsAround
from gnomon.errors import ConfigError, InvalidInput, Overloaded, RateLimited, StreamCut
from gnomon.hooks._lanes import FEWEST_KEPT
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.types.events import AttemptDiscarded, Done, Finish, ProviderEvent, TextDelta, UsageUpdate
from gnomon.types.messages import Message, ToolResult
from gnomon.types.requests import Usage, spent


def limited(**settings: Any) -> RateLimitHook:
    return RateLimitHook(clock=now, **settings)


class Tens:
    """Ten tokens for anything that is not empty."""

    def count_messages(self, messages, tools=()) -> int:
        return 10 * bool(messages)

    def count_text(self, text: str) -> int:
        return 10 * bool(text)


async def times_of(hook: RateLimitHook, model: Model, count: int, **request: Any) -> list[float]:
    """When each of so many steps, begun at once, has ended, in seconds from now."""
    began = now()

    async def step() -> float:
        await read(hook, model_step(asked(**request)), model)
        return now() - began

    return list(await asyncio.gather(*(step() for _ in range(count))))


def failing(error: Exception, *before: ProviderEvent, pause_s: float = 0.0) -> Answer:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        await asyncio.sleep(pause_s)
        for event in before:
            yield event
        raise error

    return events


# --- requests a minute


def test_so_many_requests_go_at_once_and_the_next_ones_at_the_pace_of_the_limit() -> None:
    async def test() -> None:
        times = await times_of(limited(requests_per_minute=6), Model(), 9)
        assert times == pytest.approx([0] * 6 + [10, 20, 30])

    run(test())


def test_a_small_burst_spreads_requests_evenly() -> None:
    async def test() -> None:
        times = await times_of(limited(requests_per_minute=60, burst_s=2), Model(), 6)
        assert times == pytest.approx([0, 0, 1, 2, 3, 4])

    run(test())


def test_one_request_may_always_go_however_small_the_burst() -> None:
    async def test() -> None:
        times = await times_of(limited(requests_per_minute=1, burst_s=1), Model(), 3)
        assert times == pytest.approx([0, 60, 120])

    run(test())


def test_what_was_not_used_for_long_is_no_more_than_a_burst() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=6)
        await times_of(hook, Model(), 6)
        await asyncio.sleep(10_000)
        assert await times_of(hook, Model(), 7) == pytest.approx([0] * 6 + [10])

    run(test())


def test_tokens_that_were_not_used_for_long_are_no_more_than_a_burst() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=600, counter=Tens())
        model = Model(answer("a", used=Usage(input_tokens=10, output_tokens=590)))
        await read(hook, model_step(asked(max_tokens=590)), model)
        await asyncio.sleep(10_000)
        assert await times_of(hook, model, 3, max_tokens=590) == pytest.approx([0, 60, 120])

    run(test())


def test_the_step_is_the_one_that_was_asked_for_and_its_events_go_through() -> None:
    async def test() -> None:
        step = model_step(asked(temperature=0.5))
        model = Model(sees=step)
        events = await read(limited(requests_per_minute=5), step, model)
        assert texts(events) == ["High tide", " is at ", "noon."]
        assert isinstance(events[-1], Done)
        assert events[-1].response.text == "High tide is at noon."
        assert step.notes["rate_limit.waited_s"] == 0

    run(test())


def test_how_long_a_step_waited_is_in_its_notes() -> None:
    async def test() -> None:
        hook, step = limited(requests_per_minute=1), model_step()
        await read(hook, model_step(), Model())
        await read(hook, step, Model())
        assert step.notes["rate_limit.waited_s"] == pytest.approx(60)

    run(test())


# --- tokens a minute: reserve, then settle


def test_the_prompt_and_max_tokens_are_reserved_while_the_call_runs() -> None:
    """Of 1,000 tokens, 10 + 490 are reserved by each of two: a third has to wait for one to settle."""

    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        model = Model(answer("a", used=Usage(input_tokens=10, output_tokens=490), pause_s=1))
        assert await times_of(hook, model, 3, max_tokens=490) == pytest.approx([1, 1, 31])
        assert model.most_open == 2

    run(test())


def test_what_was_reserved_and_not_used_is_there_for_the_next_at_once() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        model = Model(answer("a", used=Usage(input_tokens=10, output_tokens=5), pause_s=1))
        assert await times_of(hook, model, 3, max_tokens=990) == pytest.approx([1, 2, 3])
        assert model.most_open == 1

    run(test())


def test_what_was_used_beyond_the_reservation_is_charged() -> None:
    """10 + 90 are reserved, 1,000 are used: the bucket is empty, and another 100 take six seconds."""

    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        model = Model(answer("a", used=Usage(input_tokens=500, output_tokens=500)), answer())
        await read(hook, model_step(asked(max_tokens=90)), model)
        assert await times_of(hook, model, 1, max_tokens=90) == pytest.approx([6])

    run(test())


def test_more_than_was_reserved_counts_from_now_also_when_the_limit_was_whole_again() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=600, counter=Tens())
        model = Model(answer("a", used=Usage(input_tokens=300, output_tokens=400), pause_s=1_000), answer())
        await read(hook, model_step(asked(max_tokens=90)), model)
        # 600 were used on top of the 100: it begins at nothing, and 110 come back in 11 seconds.
        assert await times_of(hook, model, 1, max_tokens=100) == pytest.approx([11])

    run(test())


def test_cache_reads_and_attempts_that_were_given_up_count_too() -> None:
    async def fell_back() -> AsyncGenerator[ProviderEvent, None]:
        yield AttemptDiscarded("cut", Usage(input_tokens=200), "acme", "tide")
        yield TextDelta(0, "Noon.")
        used = Usage(input_tokens=100, output_tokens=100, cache_read_tokens=300, cache_write_tokens=300)
        yield Finish(stop_reason="end_turn", usage=used)

    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        model = Model(fell_back, answer())
        await read(hook, model_step(), model)
        assert await times_of(hook, model, 1, max_tokens=90) == pytest.approx([6])

    run(test())


def test_an_answer_without_usage_counts_as_the_counter_counts_it() -> None:
    """10 for the prompt, 10 for the answer; not the 980 that were reserved for it."""

    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        await read(hook, model_step(asked(max_tokens=980)), Model())
        assert await times_of(hook, Model(), 1, max_tokens=970) == pytest.approx([0])
        assert await times_of(hook, Model(), 1, max_tokens=970) == pytest.approx([1.2])

    run(test())


def test_a_request_without_max_tokens_reserves_a_usual_answer() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens(), output_tokens=490)
        model = Model(answer("a", pause_s=1))
        await times_of(hook, model, 3)
        assert model.most_open == 2

    run(test())


def test_system_prompt_and_tools_are_part_of_the_prompt() -> None:
    seen: list[Any] = []

    class Counter(Tens):
        def count_messages(self, messages, tools=()) -> int:
            seen.append((tuple(messages), tuple(tools)))
            return 10

    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Counter())
        await read(hook, model_step(asked("Hi", system="Be kind.")), Model())
        assert seen[0] == ((Message.system("Be kind."), Message.user("Hi")), ())

    run(test())


def test_a_counter_that_learns_is_asked_for_the_whole_request() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter="calibrated", output_tokens=1)
        model = Model(answer("a", used=Usage(input_tokens=10, output_tokens=1), pause_s=1))
        request = {"text": "tide " * 400, "system": "sea " * 400}
        await times_of(hook, model, 2, **request)
        assert model.most_open == 1  # each is over 500, by its system prompt

    run(test())


def test_a_request_larger_than_the_limit_goes_alone_once_nothing_is_taken() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=100, counter=Tens())
        model = Model(
            answer("a", used=Usage(input_tokens=10, output_tokens=10)),
            answer("b", used=Usage(input_tokens=10, output_tokens=290)),
            answer("c", used=Usage(input_tokens=10, output_tokens=10)),
        )
        await read(hook, model_step(asked(max_tokens=10)), model)
        # 20 are taken, and back after 12 seconds. 300 take 180 more, but for the 80 that the next leaves.
        assert await times_of(hook, model, 1, max_tokens=10_000) == pytest.approx([12])
        assert await times_of(hook, model, 1, max_tokens=10) == pytest.approx([180 - 48])

    run(test())


# --- concurrent


def test_no_more_run_at_the_same_time_than_allowed() -> None:
    async def test() -> None:
        hook, model = limited(concurrent=2), Model(answer("a", pause_s=1))
        assert await times_of(hook, model, 5) == pytest.approx([1, 1, 2, 2, 3])
        assert model.most_open == 2

    run(test())


@pytest.mark.parametrize("how", ["fails", "left", "cancelled", "unread"])
def test_a_place_is_free_again_however_a_step_ends(how: str) -> None:
    async def test() -> None:
        hook = limited(concurrent=1)
        model = Model(failing(Overloaded("busy"), pause_s=1), answer()) if how == "fails" else Model()
        stream = await hook.around(model_step(), model)
        if how == "fails":
            with pytest.raises(Overloaded):
                await anext(stream)
        elif how == "left":
            await anext(stream)
        elif how == "cancelled":
            reading = asyncio.ensure_future(read(hook, model_step(), Model(answer("a", pause_s=99))))
            await spin()
            reading.cancel()
            await asyncio.wait([reading])
        await stream.aclose()
        assert len(await asyncio.wait_for(read(hook, model_step(), Model()), 1)) == 4

    run(test())


def test_the_place_is_free_before_the_last_event_is_read() -> None:
    """A reader that has its answer may never come back for more."""

    async def test() -> None:
        hook = limited(concurrent=1)
        stream = await hook.around(model_step(), Model())
        while not isinstance(await anext(stream), Done):
            pass
        await asyncio.wait_for(read(hook, model_step(), Model()), 1)
        await stream.aclose()

    run(test())


# --- fair, cancellable, with an end


def test_who_came_first_goes_first_also_when_a_later_one_would_fit() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        used = Usage(input_tokens=10, output_tokens=890)
        order: list[str] = []

        async def step(name: str, tokens: int) -> None:
            await read(hook, model_step(asked(name, max_tokens=tokens)), Model(answer("a", used=used)))
            order.append(name)

        async with asyncio.TaskGroup() as group:
            for name, tokens in (("first", 890), ("large", 890), ("small", 50)):
                group.create_task(step(name, tokens))
                await spin()
        assert order == ["first", "large", "small"]

    run(test())


def test_a_waiter_that_is_cancelled_has_taken_nothing_and_is_in_nobodys_way() -> None:
    async def test() -> None:
        hook, model = limited(requests_per_minute=1), Model()
        await read(hook, model_step(), model)
        waiting = [asyncio.ensure_future(read(hook, model_step(), model)) for _ in range(5)]
        await spin()
        for task in waiting[:4]:
            task.cancel()
        began = now()
        await waiting[4]
        assert now() - began == pytest.approx(60)
        assert len(model.calls) == 2
        await asyncio.wait(waiting)

    run(test())


def test_a_waiter_cancelled_at_the_moment_it_is_woken_passes_its_turn_on() -> None:
    async def test() -> None:
        hook, model = limited(concurrent=1), Model()
        holder = await hook.around(model_step(), model)
        await anext(holder)
        first, second = (asyncio.ensure_future(read(hook, model_step(), model)) for _ in range(2))
        await spin()
        closing = asyncio.ensure_future(holder.aclose())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait_for(second, 1)
        await asyncio.wait([first, closing])
        assert first.cancelled()

    run(test())


def test_who_waits_too_long_gets_an_error_that_says_what_to_do_and_the_model_is_not_asked() -> None:
    async def test() -> None:
        hook, model = limited(requests_per_minute=1, max_wait_s=45), Model()
        await read(hook, model_step(), model)
        began = now()
        with pytest.raises(RateLimited) as raised:
            await read(hook, model_step(), model)
        assert now() - began == pytest.approx(45)
        error = raised.value
        assert "acme:tide is limited to 1 requests a minute" in str(error)
        assert "max_wait_s" in str(error)
        assert error.retryable
        assert error.retry_after == pytest.approx(15)
        assert len(model.calls) == 1
        assert await times_of(hook, model, 1) == pytest.approx([15])  # it has taken nothing

    run(test())


def test_with_no_patience_at_all_a_free_place_is_taken_and_else_it_fails_at_once() -> None:
    async def test() -> None:
        hook, model = limited(requests_per_minute=1, max_wait_s=0), Model()
        await read(hook, model_step(), model)
        with pytest.raises(RateLimited):
            await asyncio.wait_for(read(hook, model_step(), model), 0.001)

    run(test())


def test_one_behind_another_who_waits_has_its_own_patience() -> None:
    async def test() -> None:
        hook, model = limited(concurrent=1, max_wait_s=10), Model()
        holder = await hook.around(model_step(), model)
        await anext(holder)
        ended = await asyncio.gather(
            *(read(hook, model_step(), model) for _ in range(2)), return_exceptions=True
        )
        assert [type(each) for each in ended] == [RateLimited, RateLimited]
        assert ended[0].retry_after is None  # nobody knows when a place is free
        await holder.aclose()

    run(test())


def test_nothing_is_taken_before_the_first_event_is_asked_for() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=1)
        unread = await hook.around(model_step(), Model())
        assert await times_of(hook, Model(), 1) == [0]
        await unread.aclose()

    run(test())


# --- what failed, and what the service says


def test_a_call_that_fails_counts_as_a_request() -> None:
    async def test() -> None:
        hook, model = limited(requests_per_minute=1), Model(failing(Overloaded("busy")), answer())
        with pytest.raises(Overloaded):
            await read(hook, model_step(), model)
        assert await times_of(hook, model, 1) == pytest.approx([60])

    run(test())


def test_of_a_call_that_fails_only_what_it_spent_is_kept() -> None:
    """1,000 are reserved, and 700 were spent: for 500 more, 200 have to come back."""

    async def test() -> None:
        error = StreamCut("cut")
        error.spent = (spent(Usage(input_tokens=300)), spent(Usage(input_tokens=400)))
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        model = Model(failing(error), answer())
        with pytest.raises(StreamCut):
            await read(hook, model_step(asked(max_tokens=990)), model)
        assert await times_of(hook, model, 1, max_tokens=490) == pytest.approx([12])

    run(test())


def test_a_call_that_fails_before_it_spends_gives_all_tokens_back() -> None:
    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        model = Model(failing(Overloaded("busy")), answer())
        with pytest.raises(Overloaded):
            await read(hook, model_step(asked(max_tokens=990)), model)
        assert await times_of(hook, model, 1, max_tokens=990) == [0]

    run(test())


@pytest.mark.parametrize(
    ("before", "used"),
    [
        ((), 10),
        ((UsageUpdate(Usage(input_tokens=200, output_tokens=100)),), 300),
        ((UsageUpdate(Usage(input_tokens=200)), AttemptDiscarded("cut")), 210),
        ((AttemptDiscarded("cut", Usage(input_tokens=400)),), 410),
        ((AttemptDiscarded("cut"),), 10),
    ],
)
def test_an_answer_that_is_left_counts_as_reported_or_else_with_its_prompt(
    before: tuple[ProviderEvent, ...], used: int
) -> None:
    async def begun() -> AsyncGenerator[ProviderEvent, None]:
        for event in before:
            yield event
        yield TextDelta(0, "High")
        raise AssertionError("nobody reads on")

    async def test() -> None:
        hook = limited(tokens_per_minute=1_000, counter=Tens())
        async with await hook.around(model_step(asked(max_tokens=500)), Model(begun)) as stream:
            async for each in stream:
                if isinstance(each, TextDelta):
                    break
        assert await times_of(hook, Model(), 1, max_tokens=990) == pytest.approx([used * 0.06])

    run(test())


def test_the_wait_that_the_service_asks_for_is_kept_by_everybody() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=1_000)
        model = Model(failing(RateLimited("slow down", vendor="acme", retry_after=30)), answer())
        with pytest.raises(RateLimited):
            await read(hook, model_step(), model)
        assert await times_of(hook, model, 3) == pytest.approx([30, 30, 30])

    run(test())


def test_a_wait_that_the_service_asks_for_holds_those_who_wait_already() -> None:
    async def test() -> None:
        hook = limited(concurrent=1)
        model = Model(failing(RateLimited("slow down", vendor="acme", retry_after=30), pause_s=1), answer())
        first = asyncio.ensure_future(read(hook, model_step(), model))
        await spin()
        assert await times_of(hook, model, 1) == pytest.approx([31])
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], RateLimited)

    run(test())


def test_who_cannot_wait_as_long_as_the_service_asks_for_is_told_at_once() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=1_000, max_wait_s=10)
        model = Model(failing(RateLimited("slow down", vendor="acme", retry_after=3_600)), answer())
        with pytest.raises(RateLimited):
            await read(hook, model_step(), model)
        began = now()
        with pytest.raises(RateLimited) as raised:
            await read(hook, model_step(), model)
        assert now() == began
        assert raised.value.retry_after == pytest.approx(3_600)

    run(test())


@pytest.mark.parametrize(
    "error",
    [
        RateLimited("slow down", vendor="acme"),
        RateLimited("no money left", vendor="acme", retry_after=30, retryable=False),
        RateLimited("waited", vendor_code="rate_limit_hook", retry_after=30),
        Overloaded("busy", retry_after=30),
    ],
    ids=["no time", "no money", "of another limit", "busy"],
)
def test_nobody_waits_for_what_is_no_wish_of_the_service(error: Exception) -> None:
    async def test() -> None:
        hook, model = limited(requests_per_minute=1_000), Model(failing(error), answer())
        with pytest.raises(type(error)):
            await read(hook, model_step(), model)
        assert await times_of(hook, model, 1) == [0]

    run(test())


# --- keys


def test_each_model_of_each_provider_has_a_limit_of_its_own() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=1)
        for name in ("acme:tide", "acme:ebb", "other:tide"):
            await asyncio.wait_for(read(hook, model_step(name=name), Model()), 1)
        assert await times_of(hook, Model(), 1) == pytest.approx([60])

    run(test())


def test_the_key_can_be_chosen_and_none_is_not_limited() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=1, key=lambda event: event.session_id or None)
        for session in ("one", "two", "", "", ""):
            await asyncio.wait_for(read(hook, model_step(session_id=session), Model()), 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(hook, model_step(session_id="two"), Model()), 1)

    run(test())


def test_tools_are_not_limited_unless_a_key_says_so() -> None:
    async def test() -> None:
        tool = Tool(ToolResult("", content=("noon",)))
        free, held = (
            limited(requests_per_minute=1),
            limited(requests_per_minute=1, key=lambda event: event.name),
        )
        for _ in range(3):
            await asyncio.wait_for(read(free, tool_step(), tool), 1)
        await read(held, tool_step(), tool)
        began = now()
        await read(held, tool_step(), tool)
        assert now() - began == pytest.approx(60)

    run(test())


def test_limits_that_nobody_uses_any_more_are_forgotten() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=60, burst_s=1, key=lambda event: event.session_id)
        for number in range(5 * FEWEST_KEPT):
            await read(hook, model_step(session_id=f"user {number}"), Model())
            await asyncio.sleep(0.01)
        assert len(hook._lanes) <= FEWEST_KEPT

    run(test())


def test_a_limit_that_is_not_whole_is_never_forgotten() -> None:
    async def test() -> None:
        hook = limited(requests_per_minute=60, burst_s=1, key=lambda event: event.session_id)
        for number in range(3 * FEWEST_KEPT):
            await read(hook, model_step(session_id=f"user {number}"), Model())
        began = now()
        await read(hook, model_step(session_id="user 0"), Model())
        assert now() - began == pytest.approx(1)

    run(test())


# --- several loops, and mistakes


def test_several_threads_with_loops_of_their_own_share_the_limit() -> None:
    hook = RateLimitHook(concurrent=2)
    model = Model(answer("a", pause_s=0.001))

    async def work() -> None:
        await asyncio.gather(*(read(hook, model_step(), model) for _ in range(25)))

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(model.calls) == 100
    assert model.most_open <= 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "limits nothing"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"tokens_per_minute": -5}, "tokens_per_minute"),
        ({"concurrent": 0}, "concurrent"),
        ({"concurrent": 1, "burst_s": 0}, "burst_s"),
        ({"concurrent": 1, "output_tokens": 0}, "output_tokens"),
        ({"concurrent": 1, "max_wait_s": -1}, "max_wait_s"),
        ({"concurrent": 1, "on_lost": "shrug"}, "on_lost"),
        ({"requests_per_minute": float("nan")}, "requests_per_minute"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_with_its_name(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        RateLimitHook(**settings)


@pytest.mark.parametrize(
    "url", ["mysql://user:hunter22@host/db", "nonsense", "redis://u:hunter22@host:port/0"]
)
def test_a_url_that_cannot_be_used_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        RateLimitHook(concurrent=1, shared=url)
    assert "hunter22" not in str(raised.value)


def test_it_is_a_hook_of_the_registry_that_stands_around_steps() -> None:
    assert registry.load("hooks", "rate_limit") is RateLimitHook
    hook = RateLimitHook(concurrent=1)
    assert isinstance(hook, Hook)
    assert isinstance(hook, SupportsAround)


async def test_before_after_and_close_do_nothing_that_could_fail() -> None:
    hook = RateLimitHook(concurrent=1)
    await hook.before(model_step())
    await hook.after(model_step())
    await hook.close()
    await hook.close()
