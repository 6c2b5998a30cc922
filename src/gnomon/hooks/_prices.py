"""What each part of a step cost: the answer, and the attempts that came to nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

import msgspec

from gnomon.errors import ConfigError
from gnomon.facts.catalogue import Catalogue
from gnomon.hooks._passing import Outcome
from gnomon.types.messages import Message
from gnomon.types.requests import Response, Spent, Usage

__all__ = ["Item", "items", "items_of_response", "priced"]

_NOBODY = Message("assistant")


class Item(msgspec.Struct, frozen=True):
    """Tokens, and where they were used. `cost` is in US dollars; `None` is not known."""

    model: str
    usage: Usage
    cost: Decimal | None


def items(outcome: Outcome, catalogue: Catalogue, asked: str, when: datetime) -> list[Item]:
    """What a stream has used, with what it has not said, if it was shown in part."""
    if outcome.response is not None:
        return items_of_response(outcome.response, catalogue, asked, when)
    found = _items_of(outcome.spent, catalogue, asked, when)
    return [*found, Item(asked, Usage(), None)] if outcome.is_partial else found


def items_of_response(response: Response, catalogue: Catalogue, asked: str, when: datetime) -> list[Item]:
    """The attempts that failed on the way, and then the answer."""
    own = priced(response.usage, response.provider, response.model, catalogue, asked, when)
    return [*_items_of(response.discarded, catalogue, asked, when), own]


def _items_of(spent: Iterable[Spent], catalogue: Catalogue, asked: str, when: datetime) -> list[Item]:
    return [priced(each, each.provider, each.model, catalogue, asked, when) for each in spent]


def priced(
    usage: Usage, provider: str | None, model: str | None, catalogue: Catalogue, asked: str, when: datetime
) -> Item:
    """These tokens, at the price of who answered; by the rules that the engine has."""
    name = f"{provider}:{model}" if provider and model else asked
    if usage.total_tokens == 0:  # such as what a cache gave: no price need be known for it
        return Item(name, usage, Decimal(0))
    alone = Response(message=_NOBODY, stop_reason="other", provider=provider, model=model, usage=usage)
    try:
        return Item(name, usage, catalogue.response_cost(alone, asked, when))
    except ConfigError:  # a name that is none
        return Item(name, usage, None)
