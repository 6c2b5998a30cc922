"""What is known of models, and what tokens cost, judged by the package that the prices come from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest
from genai_prices import data
from genai_prices import types as peer

from gnomon import Catalogue, Usage, cost, model_facts
from gnomon.errors import ConfigError
from gnomon.facts.prices import Price, Rates, Tiered, cost_of, rates_on
from gnomon.facts.snapshot import snapshot
from gnomon.types.messages import Message
from gnomon.types.requests import Response, Spent, spent

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
THEIRS = {"gemini": "google", "xai": "x-ai"}


def _names(clause: Any) -> Iterator[str]:
    """Some name that each condition is about."""
    for field in ("equals", "starts_with"):
        if hasattr(clause, field):
            yield getattr(clause, field)
    for inner in getattr(clause, "or_", None) or getattr(clause, "and_", None) or ():
        yield from _names(inner)


def _models() -> list[tuple[str, Any, Any, str]]:
    theirs = {provider.id: provider for provider in data.providers}
    return [
        (name, provider, model, found)
        for name in snapshot().vendors
        for provider in [theirs[THEIRS.get(name, name)]]
        for model in provider.models
        for found in islice(_names(model.match), 3)
    ]


def _peer_cost(model: Any, provider: Any, usage: Usage, when: datetime) -> Decimal:
    reads, writes = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    theirs = peer.Usage(
        input_tokens=(usage.input_tokens or 0) + reads + writes,
        cache_read_tokens=reads,
        cache_write_tokens=writes,
        output_tokens=usage.output_tokens or 0,
        output_reasoning_tokens=usage.reasoning_tokens or 0,
    )
    # What we know is the price of tokens: searches, pages and requests are billed beside it.
    return model.calc_price(theirs, provider, genai_request_timestamp=when).total_price


_BESIDE = ("requests_kcount", "input_mchars", "input_text_messages_kcount")


def test_every_priced_model_costs_what_the_source_of_the_prices_says() -> None:
    chance, compared = Random(4), 0
    for name, provider, _, ref in _models():
        model = provider.find_model(ref)
        when = NOW - timedelta(days=chance.randrange(800), minutes=chance.randrange(1440))
        prices = model.get_prices(when)
        if any(getattr(prices, beside, None) is not None for beside in _BESIDE):
            continue
        usage = Usage(
            input_tokens=chance.choice((0, 7, 5_000, 250_000, 900_000)),
            output_tokens=1_000,
            cache_read_tokens=chance.choice((None, 0, 300_000)),
            cache_write_tokens=chance.choice((None, 0, 2_000)),
            reasoning_tokens=chance.choice((None, 400)),
        )
        ours = cost(usage, f"{name}:{ref}", when)
        if ours is None:
            assert prices.input_mtok is None or prices.output_mtok is None, (name, ref)
            continue
        assert ours.total == _peer_cost(model, provider, usage, when), (name, ref, when)
        compared += 1
    assert compared > 1000


def test_a_model_that_is_not_known_is_not_refused_and_costs_nobody_knows_what() -> None:
    facts = model_facts("somebody:something")
    assert (facts.context_window, facts.image, facts.prices) == (None, None, ())
    assert cost(Usage(input_tokens=1, output_tokens=1), "somebody:something") is None
    assert cost(Usage(input_tokens=1, output_tokens=1), "openai:a-model-of-next-year") is None


def test_what_was_not_counted_is_not_priced_as_nothing() -> None:
    assert cost(Usage(), "openai:gpt-5") is None
    assert cost(Usage(output_tokens=10), "openai:gpt-5") is None


def test_what_has_used_nothing_costs_nothing_whatever_the_price() -> None:
    nothing = Usage(input_tokens=0, output_tokens=0)
    response = Response(message=Message.assistant("Noon."), stop_reason="end_turn", usage=nothing)
    assert Catalogue().response_cost(response, "nobody:knows") == 0
    for used in (
        Usage(),
        Usage(input_tokens=0),
        Usage(input_tokens=0, output_tokens=1),
        Usage(input_tokens=0, output_tokens=0, cache_read_tokens=1),
    ):
        other = msgspec.structs.replace(response, usage=used)
        assert Catalogue().response_cost(other, "nobody:knows") is None
    failed = msgspec.structs.replace(response, discarded=(spent(Usage(input_tokens=5, output_tokens=5)),))
    assert Catalogue().response_cost(failed, "nobody:knows") is None


def test_windows_limits_and_powers_are_known_for_the_models_people_use() -> None:
    for name in (
        "anthropic:claude-opus-5-5",
        "openai:gpt-5.5",
        "gemini:gemini-2.5-pro",
        "mistral:mistral-large-latest",
    ):
        facts = model_facts(name)
        assert (facts.context_window or 0) >= 100_000, name
        assert facts.max_output, name
        assert facts.image is True, name
        assert facts.tools is True, name
        assert facts.prices, name


def test_a_dated_name_is_the_model_of_that_name() -> None:
    dated, plain = model_facts("anthropic:claude-opus-5-5-20261001"), model_facts("anthropic:claude-opus-5-5")
    assert (dated.context_window, dated.max_output, dated.prices) == (
        plain.context_window,
        plain.max_output,
        plain.prices,
    )


def test_a_cloud_that_serves_the_models_of_another_knows_them() -> None:
    assert model_facts("azure:gpt-5.5").prices == model_facts("openai:gpt-5.5").prices != ()


def test_the_snapshot_says_when_it_was_made_and_from_what() -> None:
    made = snapshot()
    assert made.made >= date(2026, 11, 15)
    assert any(source.startswith("genai-prices") for source in made.sources)


def test_the_most_that_claude_says_is_the_same_in_both_places() -> None:
    """The adapter has limits of its own, by family; the facts come from elsewhere."""
    from gnomon.providers._messages_models import family_of

    compared = 0
    for name, limits in snapshot().vendors["anthropic"].limits.items():
        if limits.max_output and "claude-3" not in name:
            assert family_of(name).most_tokens == limits.max_output, name
            compared += 1
    assert compared > 5


# --- what a user sets


def test_what_a_user_sets_wins_over_the_snapshot() -> None:
    catalogue = Catalogue(
        {
            "openai:gpt-5": {"context_window": 1000, "image": False, "input_price": 1.5, "output_price": 2},
            "ollama:*": {"input_price": 0, "output_price": 0},
        }
    )
    facts = catalogue.facts("openai:GPT-5")
    assert (facts.context_window, facts.image, facts.tools) == (1000, False, True)
    spent = catalogue.cost(
        Usage(input_tokens=1_000_000, output_tokens=1_000_000, cache_read_tokens=0), "openai:gpt-5"
    )
    assert spent is not None
    assert spent.total == Decimal("3.5")
    free = catalogue.cost(Usage(input_tokens=5, output_tokens=5), "ollama:qwen3:4b")
    assert free is not None
    assert free.total == 0
    assert Catalogue().cost(Usage(input_tokens=5, output_tokens=5), "ollama:qwen3:4b") is None


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("openai:gpt-5", "gpt-5-2025-08-07"), ("azure:our-deployment", "gpt-4o-2024-08-06")],
)
def test_a_price_of_ones_own_holds_under_whatever_name_the_service_answers(asked: str, answered: str) -> None:
    catalogue = Catalogue(
        {
            asked: {"input_price": 0.5, "output_price": 1},
            f"{asked.partition(':')[0]}:*": {"input_price": 9, "output_price": 9},
        }
    )
    response = Response(
        message=Message.assistant("x"),
        stop_reason="end_turn",
        provider=asked.partition(":")[0],
        model=answered,
        usage=Usage(input_tokens=1_000_000, output_tokens=0),
    )
    assert catalogue.response_cost(response, asked, NOW) == Decimal("0.5")


def test_what_is_set_for_a_model_by_name_is_stronger_than_what_is_set_for_many() -> None:
    one, many = {"context_window": 1}, {"context_window": 2}
    for overrides in (
        {"openai:gpt-5": one, "openai:*": many},
        {"openai:*": many, "openai:gpt-5": one},
    ):
        catalogue = Catalogue(overrides)
        windows = [
            catalogue.facts(name).context_window
            for name in ("openai:gpt-5", "openai:gpt-5-2025-08-07", "openai:o3")
        ]
        assert windows == [1, 1, 2]


@pytest.mark.parametrize("overrides", [{"demo": {"context_window": 5}}, {"demo:x": 5}, [1], {5: {}}])
def test_what_would_hold_for_no_model_is_said_at_once(overrides: Any) -> None:
    with pytest.raises(ConfigError):
        Catalogue(overrides)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"contextwindow": 5}, "contextwindow"),
        ({"context_window": "big"}, "context_window"),
        ({"context_window": 0}, "above zero"),
        ({"input_price": -1, "output_price": 1}, "number of dollars"),
        ({"input_price": float("nan"), "output_price": 1}, "number of dollars"),
        ({"input_price": 1}, "set together"),
        ({"cache_read_price": 1}, "set together"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Catalogue({"openai:gpt-5": given})
    assert "openai:gpt-5" in str(caught.value)


# --- prices


def test_a_long_prompt_costs_more_for_all_of_its_tokens() -> None:
    rates = Rates(
        input=Tiered(base=Decimal(1), steps=((100, Decimal(2)), (1000, Decimal(3)))), output=Decimal(1)
    )
    amounts = [
        cost_of(Usage(input_tokens=count, output_tokens=0, cache_read_tokens=50), rates)
        for count in (50, 51, 950, 951)
    ]
    per_million = [amount and amount.total * 1_000_000 for amount in amounts]
    assert per_million == [100, 2 * 101, 2 * 1000, 3 * 1001]


def test_vectors_have_no_output_and_so_a_price_without_it() -> None:
    bill = cost(Usage(input_tokens=1_000_000), "openai:text-embedding-3-small", NOW)
    assert bill is not None
    assert bill.total == Decimal("0.02")


def test_a_bill_does_not_depend_on_how_exactly_somebody_else_counts() -> None:
    usage = Usage(input_tokens=123_457, output_tokens=98_765)
    plain = cost(usage, "openai:gpt-4o", NOW)
    with localcontext(prec=3):
        assert cost(usage, "openai:gpt-4o", NOW) == plain


def test_a_price_holds_from_its_day_on_and_at_its_hours() -> None:
    day = [Price(rates=Rates(input=Decimal(1))), Price(rates=Rates(input=Decimal(2)), since=date(2026, 3, 1))]
    assert [rates_on(tuple(day), when) for when in (datetime(2026, 2, 28, 23), datetime(2026, 3, 1))] == [
        Rates(input=Decimal(1)),
        Rates(input=Decimal(2)),
    ]
    from datetime import time

    night = [
        Price(rates=Rates(input=Decimal(2))),
        Price(rates=Rates(input=Decimal(1)), hours=(time(16, 30), time(0, 30))),
    ]
    found = [rates_on(tuple(night), datetime(2026, 1, 1, hour, 29, tzinfo=UTC)) for hour in (0, 1, 16, 17)]
    assert [rates and rates.input for rates in found] == [1, 2, 2, 1]


def test_what_failed_on_the_way_is_priced_where_it_was_spent() -> None:
    response = Response(
        message=Message.assistant("x"),
        stop_reason="end_turn",
        provider="anthropic",
        model="claude-opus-5-5",
        usage=Usage(input_tokens=1_000_000, output_tokens=0),
        discarded=(Spent(input_tokens=1_000_000, output_tokens=0, provider="openai", model="gpt-5"),),
    )
    prices = [
        model_facts(name).prices[-1].rates.input for name in ("anthropic:claude-opus-5-5", "openai:gpt-5")
    ]
    assert Catalogue().response_cost(response, "fallback:x", NOW) == sum(
        price for price in prices if isinstance(price, Decimal)
    )
    unknown = Spent(input_tokens=1, output_tokens=1, provider="nobody", model="x")
    assert (
        Catalogue().response_cost(msgspec.structs.replace(response, discarded=(unknown,)), "fallback:x", NOW)
        is None
    )


# --- thinking


def test_thinking_goes_back_to_who_made_it_and_plain_thinking_to_any_model_of_that_vendor() -> None:
    from gnomon.facts.replay import returns
    from gnomon.types.messages import Thinking

    claude = Thinking("hm", provider="anthropic", model="claude-opus-5-5")
    assert returns(claude, "anthropic", "claude-opus-5-5")
    assert not returns(claude, "anthropic", "claude-sonnet-5-5")
    assert not returns(claude, "openai", "claude-opus-5-5")
    deep = Thinking("hm", provider="deepseek", model="deepseek-chat")
    assert returns(deep, "deepseek", "deepseek-reasoner")
    assert model_facts("deepseek:deepseek-reasoner").replay == "same_provider"
