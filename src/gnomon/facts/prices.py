"""What tokens cost: one function from usage and rates to money.

Token classes do not overlap, so each is priced by itself and the sum is the bill.
Amounts are in US dollars, rates in dollars for a million tokens.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, localcontext
from typing import TypeAlias

import msgspec

from gnomon.types.requests import Usage

__all__ = ["Cost", "Price", "Rate", "Rates", "Tiered", "cost_of", "rates_on"]

_MILLION = Decimal(1_000_000)
_EXACT = Context(prec=28)
"""Whatever whoever asks has set for their own sums."""


class Tiered(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that changes with the length of the prompt: beyond a step, for all of its tokens."""

    base: Decimal
    steps: tuple[tuple[int, Decimal], ...]
    """(more input tokens than these, the rate), the lowest first."""

    def at(self, prompt_tokens: int) -> Decimal:
        reached = (rate for above, rate in reversed(self.steps) if prompt_tokens > above)
        return next(reached, self.base)


Rate: TypeAlias = Decimal | Tiered


class Rates(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Dollars for a million tokens of each class; `None` is not known, or not told apart by the vendor."""

    input: Rate | None = None
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    output: Rate | None = None
    reasoning: Rate | None = None


class Price(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Rates, and when they hold: from a date on, or at some hours of the day (UTC)."""

    rates: Rates
    since: date | None = None
    hours: tuple[time, time] | None = None

    def holds(self, when: datetime) -> bool:
        if self.since is not None:
            return when.date() >= self.since
        if self.hours is None:
            return True
        start, end = self.hours
        now = when.time()
        return start <= now < end if start <= end else now >= start or now < end


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What each class of tokens came to, in US dollars. `output` includes what was spent on thinking.

    `estimated` is set where the tokens were not reported but estimated.
    """

    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    output: Decimal
    estimated: bool = False

    @property
    def total(self) -> Decimal:
        return self.input + self.cache_read + self.cache_write + self.output


def rates_on(prices: tuple[Price, ...], when: datetime) -> Rates | None:
    """The rates that held at this time: the last of those whose condition is met."""
    moment = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    moment = moment.replace(tzinfo=None)
    held = (price.rates for price in reversed(prices) if price.holds(moment))
    return next(held, prices[0].rates if prices else None)


def cost_of(usage: Usage, rates: Rates) -> Cost | None:
    """The bill; `None` when tokens were not counted, or a class of them has no known rate."""
    said = 0 if usage.output_tokens is None and rates.output is None else usage.output_tokens
    if usage.input_tokens is None or said is None:  # what has no price for output has none, such as vectors
        return None
    with localcontext(_EXACT):
        return _bill(usage, usage.input_tokens, said, rates)


def _bill(usage: Usage, sent: int, said: int, rates: Rates) -> Cost | None:
    reads, writes = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    prompt = sent + reads + writes
    thought = min(usage.reasoning_tokens or 0, said)
    # What a vendor has no rate of its own for counts as the wider class that it is a part of.
    charged = (
        (sent, rates.input),
        (reads, rates.input if rates.cache_read is None else rates.cache_read),
        (writes, rates.input if rates.cache_write is None else rates.cache_write),
        (said - thought, rates.output),
        (thought, rates.output if rates.reasoning is None else rates.reasoning),
    )
    amounts = [_amount(tokens, rate, prompt) for tokens, rate in charged]
    known = [amount for amount in amounts if amount is not None]
    if len(known) < len(amounts):
        return None
    new, read, written, spoken, reasoned = known
    return Cost(
        input=new, cache_read=read, cache_write=written, output=spoken + reasoned, estimated=usage.estimated
    )


def _amount(tokens: int, rate: Rate | None, prompt_tokens: int) -> Decimal | None:
    if not tokens:
        return Decimal(0)
    if rate is None:
        return None
    return tokens * (rate.at(prompt_tokens) if isinstance(rate, Tiered) else rate) / _MILLION
