"""CostTracker: every answer has its price, once, and a budget stops the next call (H5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from decimal import Decimal
from threading import Thread
from typing import Any

import msgspec
import pytest
from hook_stage import PRICES, Clock, Service, answer, ask, inside, question, read, used

from gnomon import registry
from gnomon.errors import BudgetExceeded, ConfigError, Overloaded, RateLimited
from gnomon.facts.catalogue import Catalogue
from gnomon.hooks.cost import CostReport, CostTracker, Spend
from gnomon.hooks.retry import RetryHook
from gnomon.stream import PullStream
from gnomon.testing._hook_steps import Inside, tool_events, tool_step
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Finish,
    RunEvent,
    StreamWarning,
    TextDelta,
    UsageUpdate,
)
from gnomon.types.messages import Message
from gnomon.types.requests import Response, Spent, Usage
from gnomon.types.steps import HookEvent

CENTS_20 = Decimal("0.2")


def tracker(**settings: Any) -> CostTracker:
    return CostTracker(**{"models": PRICES, **settings})


# --- what is counted ----------------------------------------------------------------------


async def test_an_answer_is_priced_by_its_usage() -> None:
    cost = tracker()
    await ask(cost, question(), Service(answer()))
    report = cost.report()
    assert report.total == Spend(known=CENTS_20, priced=1, usage=used())
    assert report.total.cost == CENTS_20
    assert report.runs == {"s1/t1": report.total}
    assert report.sessions == {"s1": report.total}
    assert report.models == {"acme:large": report.total}
    assert report.users == {}


async def test_answers_add_up_by_run_session_user_model_and_in_all() -> None:
    cost = tracker(user_of=lambda event: {"s1": "ana", "s2": "ana", "s3": "bo"}[event.session_id])
    for session, turn in (("s1", "t1"), ("s1", "t2"), ("s2", "t1"), ("s3", "t1")):
        await ask(cost, question(session=session, turn=turn), Service(answer()))
    report = cost.report()
    assert {name: spend.cost for name, spend in report.runs.items()} == dict.fromkeys(
        ("s1/t1", "s1/t2", "s2/t1", "s3/t1"), CENTS_20
    )
    assert {name: spend.cost for name, spend in report.sessions.items()} == {
        "s1": 2 * CENTS_20,
        "s2": CENTS_20,
        "s3": CENTS_20,
    }
    assert {name: spend.cost for name, spend in report.users.items()} == {
        "ana": 3 * CENTS_20,
        "bo": CENTS_20,
    }
    assert report.models["acme:large"].usage == used(400_000, 40_000)
    assert report.total.cost == 4 * CENTS_20


async def test_prices_are_those_of_the_time_and_of_who_answered() -> None:
    when: list[datetime] = []

    class Watching(Catalogue):
        def response_cost(self, response: Response, asked: str, when_: datetime | None = None) -> Decimal:
            assert when_ is not None
            when.append(when_)
            assert asked == "acme:large"
            assert (response.provider, response.model) == ("zenith", "small")
            return Decimal(3)

    cost = CostTracker(catalogue=Watching(), now=lambda: datetime(2024, 5, 6, tzinfo=UTC))
    end = Finish(stop_reason="end_turn", usage=used(), provider="zenith", model="small")
    await ask(cost, question(), Service((TextDelta(0, "x"), end)))
    assert when == [datetime(2024, 5, 6, tzinfo=UTC)]
    assert cost.report().models == {"zenith:small": Spend(known=Decimal(3), priced=1, usage=used())}


async def test_attempts_that_failed_on_the_way_count() -> None:
    cost, retry = tracker(), RetryHook(sleep=Clock().sleep)
    service = Service((TextDelta(0, "x"), UsageUpdate(used()), Overloaded("busy")), answer())
    await ask(cost, question(), inside(retry, call=service))
    assert cost.report().total == Spend(known=2 * CENTS_20, priced=2, usage=used(200_000, 20_000))


@pytest.mark.parametrize("outside", [True, False], ids=["outside of retry", "inside of retry"])
async def test_nothing_is_counted_twice_wherever_a_retry_stands(outside: bool) -> None:
    cost, retry = tracker(), RetryHook(sleep=Clock().sleep)
    service = Service((UsageUpdate(used()), Overloaded("busy")), answer())
    hooks = (cost, retry) if outside else (retry, cost)
    response = await ask(hooks[0], question(), inside(hooks[1], call=service))
    assert len(response.discarded) == 1
    assert cost.report().total.cost == 2 * CENTS_20


async def test_a_step_that_failed_counts_with_what_it_has_spent() -> None:
    cost = tracker()
    with pytest.raises(Overloaded):
        await ask(cost, question(), Service((UsageUpdate(used()), Overloaded("busy"))))
    assert cost.report().total.cost == CENTS_20


async def test_a_step_that_could_not_begin_counts_with_what_it_has_spent() -> None:
    error = RateLimited("no")
    error.spent = (Spent(input_tokens=100_000, output_tokens=10_000, provider="acme", model="large"),)
    cost = tracker()
    with pytest.raises(RateLimited):
        await ask(cost, question(), Inside(error=error))
    assert cost.report().total.cost == CENTS_20


async def test_what_a_cache_gives_costs_nothing_even_where_no_price_is_known() -> None:
    cost = tracker()
    end = Finish(stop_reason="end_turn", usage=used(0, 0), provider="nobody", model="knows")
    await ask(cost, question(name="nobody:knows"), Service((TextDelta(0, "x"), end)))
    assert cost.report().total == Spend(known=Decimal(0), priced=1, usage=used(0, 0))


async def test_a_cache_further_out_leaves_nothing_to_count() -> None:
    cost = tracker()
    event = question()
    await cost.before(event)
    response = Response(message=Message.assistant("x"), stop_reason="end_turn", usage=used())
    await cost.after(msgspec.structs.replace(event, response=response))
    assert cost.report().total == Spend()


async def test_tools_cost_nothing_here() -> None:
    cost = tracker()
    assert await read(cost, tool_step(), Inside(tool_events())) == [*tool_events()]
    assert cost.report().total == Spend()


# --- what is not known --------------------------------------------------------------------


async def test_a_model_that_answers_under_another_name_has_the_price_of_the_one_asked_for() -> None:
    cost = tracker()
    await ask(cost, question(), Service(unpriced()))
    assert cost.report().models["nobody:knows"].cost == CENTS_20


async def test_an_unknown_price_is_unknown_and_not_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cost = tracker()
    with caplog.at_level(logging.WARNING, "gnomon.hooks.cost"):
        for _ in range(2):
            await ask(cost, question(name="nobody:knows"), Service(unpriced()))
        await ask(cost, question(), Service(answer()))
    total = cost.report().total
    assert (total.known, total.unpriced, total.priced, total.cost) == (CENTS_20, 2, 1, None)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["the price of an answer of nobody:knows is not known: no budget counts it"]


def unpriced() -> tuple[Any, ...]:
    return (TextDelta(0, "x"), Finish(stop_reason="end_turn", usage=used(), provider="nobody", model="knows"))


async def test_what_is_shown_and_never_reported_is_unknown() -> None:
    cost = tracker()
    with pytest.raises(Overloaded):
        await ask(cost, question(), Service((TextDelta(0, "x"), Overloaded("busy"))))
    assert cost.report().total == Spend(unpriced=1)
    with pytest.raises(Overloaded):
        await ask(cost, question(), Service((Overloaded("busy"),)))
    assert cost.report().total == Spend(unpriced=1)


async def test_an_answer_that_is_left_counts_with_what_was_said_of_it_and_as_unknown() -> None:
    cost = tracker()
    service = Service((StreamWarning("w"), UsageUpdate(used()), TextDelta(0, "x"), TextDelta(0, "y")))
    async with await cost.around(question(), service) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    total = cost.report().total
    assert (total.known, total.priced, total.unpriced) == (CENTS_20, 1, 1)
    assert service.open == 0


@pytest.mark.parametrize(("code", "unpriced"), [("cached", 0), ("model", 1)])
async def test_an_answer_out_of_a_cache_that_is_left_has_cost_nothing(code: str, unpriced: int) -> None:
    cost = tracker()
    service = Service((StreamWarning("from the cache", code), TextDelta(0, "x"), TextDelta(0, "y")))
    async with await cost.around(question(), service) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert cost.report().total == Spend(unpriced=unpriced)


async def test_whoever_closes_the_events_closes_the_connection() -> None:
    service = Service((TextDelta(0, "x"), TextDelta(0, "y")))
    events = aiter(await tracker().around(question(), service))
    await anext(events)
    assert service.open == 1
    await events.aclose()
    assert service.open == 0


async def test_a_call_that_is_left_before_anything_came_counts_for_nothing() -> None:
    cost = tracker()
    stream = await cost.around(question(), Service((StreamWarning("w"), TextDelta(0, "x"))))
    async with stream:
        assert await anext(aiter(stream)) == StreamWarning("w")
    assert cost.report().total == Spend()


async def test_attempts_that_the_events_discarded_count_for_a_reader_who_leaves() -> None:
    cost = tracker()
    gone = AttemptDiscarded("first", used(), "acme", "large")
    silent = AttemptDiscarded("second", None, "acme", "large")
    service = Service((TextDelta(0, "x"), gone, TextDelta(0, "y"), silent, TextDelta(0, "z")))
    async with await cost.around(question(), service) as stream:
        async for event in stream:
            if event == silent:
                break
    total = cost.report().total
    assert (total.known, total.priced, total.unpriced) == (CENTS_20, 1, 0)


async def test_an_estimate_that_the_engine_makes_counts_once_it_is_there() -> None:
    """A service that reports no usage: what `after` is shown has been estimated."""
    cost, event = tracker(), question()
    await cost.before(event)
    found = await ask(cost, event, Service(answer(usage=Usage(input_tokens=5))))
    assert cost.report().total == Spend()
    settled = msgspec.structs.replace(found, usage=msgspec.structs.replace(used(), estimated=True))
    await cost.after(msgspec.structs.replace(event, response=settled))
    await cost.after(msgspec.structs.replace(event, response=settled))
    assert cost.report().total.cost == CENTS_20
    assert cost.report().total.usage.estimated


async def test_without_an_estimate_it_stays_unknown(caplog: pytest.LogCaptureFixture) -> None:
    cost, event = tracker(), question()
    await ask(cost, event, Service(answer(usage=Usage(input_tokens=5))))
    with caplog.at_level(logging.WARNING, "gnomon.hooks.cost"):
        await cost.after(event)
    assert cost.report().total == Spend(unpriced=1, usage=Usage(input_tokens=5))
    assert "its tokens are not known" in caplog.text


async def test_a_name_that_is_none_has_no_price() -> None:
    cost = tracker()
    response = Response(message=Message.assistant("x"), stop_reason="end_turn", usage=used())

    async def events() -> AsyncGenerator[RunEvent, None]:
        yield Done(response)

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        return PullStream(events())

    await ask(cost, question(name=":"), call)
    assert cost.report().total.unpriced == 1


async def test_the_log_is_not_flooded_by_names(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.hooks.cost._MOST_TOLD", 3)
    cost = tracker()
    with caplog.at_level(logging.WARNING, "gnomon.hooks.cost"):
        for number in range(9):
            end = Finish(stop_reason="end_turn", usage=used(), provider="nobody", model=f"m{number}")
            await ask(cost, question(name="nobody:x"), Service((TextDelta(0, "x"), end)))
    assert len(caplog.records) == 3
    assert cost.report().total.unpriced == 9


# --- budgets ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "event", "words"),
    [
        ({"run": 0.2}, question(), "budget of run 's1/t1' is used up: $0.2000 of $0.2 are spent"),
        ({"session": 0.15}, question(turn="t2"), "budget of session 's1' is used up: $0.2000 of $0.15"),
        ({"user": 0.1}, question(session="s2"), "budget of user 'ana' is used up: $0.2000 of $0.1"),
        ({"total": 0.1}, question(session="s9"), "the whole budget is used up: $0.2000 of $0.1"),
    ],
)
async def test_a_budget_that_is_used_up_stops_the_next_call(
    budget: dict[str, float], event: HookEvent, words: str
) -> None:
    cost = tracker(**budget, user_of=lambda event: "ana")
    await ask(cost, question(), Service(answer()))
    service = Service(answer())
    with pytest.raises(BudgetExceeded) as raised:
        await cost.around(event, service)
    assert words in str(raised.value)
    assert f"larger {next(iter(budget))!r}" in str(raised.value)
    assert service.asked == []


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        ({"run": 0.2}, question(turn="t2")),
        ({"run": 0.21}, question()),
        ({"session": 0.2}, question(session="s2")),
        ({"user": 0.2}, question(session="bo")),
        ({"total": 0.21}, question()),
    ],
)
async def test_a_budget_with_something_left_stops_nothing(budget: dict[str, float], event: HookEvent) -> None:
    cost = tracker(**budget, user_of=lambda event: event.session_id)
    await ask(cost, question(), Service(answer()))
    assert (await ask(cost, event, Service(answer()))).text == "At noon."


async def test_what_has_no_price_does_not_use_up_a_budget_and_is_said_when_it_is() -> None:
    cost = tracker(session=0.3)
    for name in ("nobody:knows", "nobody:knows", "acme:large", "acme:large"):
        events = unpriced() if name == "nobody:knows" else answer()
        await ask(cost, question(name=name), Service(events))
    with pytest.raises(BudgetExceeded, match="besides 2 without a known price"):
        await ask(cost, question(), Service(answer()))


async def test_a_retry_further_out_is_stopped_too() -> None:
    cost, retry = tracker(total=0.1), RetryHook(sleep=Clock().sleep)
    service = Service((UsageUpdate(used()), Overloaded("busy")), answer())
    with pytest.raises(BudgetExceeded) as raised:
        await ask(retry, question(), inside(cost, call=service))
    assert len(service.asked) == 1
    assert [each.input_tokens for each in vars(raised.value)["spent"]] == [100_000]


async def test_what_belongs_to_no_session_or_user_counts_in_all() -> None:
    cost = tracker(run=0.1, session=0.1, user=0.1, user_of=lambda event: None)
    for _ in range(2):
        await ask(cost, question(session="", turn=""), Service(answer()))
    report = cost.report()
    assert (report.runs, report.sessions, report.users) == ({}, {}, {})
    assert report.total.priced == 2


async def test_many_at_once_are_all_counted() -> None:
    cost = tracker()
    work = [ask(cost, question(session=f"s{number % 7}"), Service(answer())) for number in range(200)]
    await asyncio.gather(*work)
    report = cost.report()
    assert report.total.cost == 200 * CENTS_20
    assert sum(spend.priced for spend in report.sessions.values()) == 200


# --- what is kept -------------------------------------------------------------------------


async def test_only_what_was_used_last_is_remembered() -> None:
    cost = tracker(keep=2, session=0.3, user_of=lambda event: event.session_id)
    await ask(cost, question(session="a"), Service(answer()))
    await ask(cost, question(session="b"), Service(answer()))
    await ask(cost, question(session="a"), Service(answer()))  # which makes it the latest
    await ask(cost, question(session="c"), Service(answer()))
    report = cost.report()
    assert [*report.sessions] == ["a", "c"]
    assert [*report.users] == ["a", "c"]
    assert len(report.runs) == 2
    assert report.total.priced == 4
    with pytest.raises(BudgetExceeded):  # asking for it keeps it, too
        await ask(cost, question(session="a"), Service(answer()))
    await ask(cost, question(session="d"), Service(answer()))
    assert [*cost.report().sessions] == ["a", "d"]


async def test_a_report_can_be_written_down_and_read() -> None:
    cost = tracker()
    await ask(cost, question(), Service(answer()))
    report = cost.report()
    assert msgspec.json.decode(msgspec.json.encode(report), type=CostReport) == report


async def test_a_report_waits_for_what_is_being_counted() -> None:
    """It may be asked for by another thread."""
    cost, reports = tracker(), list[CostReport]()
    await ask(cost, question(), Service(answer()))
    thread = Thread(target=lambda: reports.append(cost.report()))
    with cost._lock:
        thread.start()
        thread.join(0.05)
        assert reports == []
    thread.join()
    assert reports == [cost.report()]


# --- how it is made -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"run": 0.0}, "budget for 'run'"),
        ({"session": -1.0}, "budget for 'session'"),
        ({"total": float("nan")}, "budget for 'total'"),
        ({"keep": 0}, "keep of hook 'cost'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CostTracker(**settings)


def test_it_is_there_by_its_name() -> None:
    assert registry.load("hooks", "cost") is CostTracker
