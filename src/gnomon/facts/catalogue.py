"""What is known of a model: the snapshot, and over it what a user has set."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec

from gnomon import registry
from gnomon.errors import ConfigError
from gnomon.facts.prices import Cost, Price, Rates, cost_of, rates_on
from gnomon.facts.replay import Replay, replay_of
from gnomon.facts.snapshot import Limits, known, undated
from gnomon.types.requests import Response, Usage

__all__ = ["Catalogue", "ModelFacts", "Override", "cost", "model_facts"]


_MOST_FOUND = 1_024


class ModelFacts(Limits, frozen=True, kw_only=True):
    """What is known of one model. `None` is not known; nothing is refused for that.

    `prices` are in US dollars for a million tokens, those of later days last, also of days to come:
    `rates_on(facts.prices, when)` of `gnomon.facts.prices` gives what holds at a time.
    """

    provider: str
    model: str
    replay: Replay = "same_model"
    prices: tuple[Price, ...] = ()
    deprecated: bool = False


class Override(Limits, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What a user may set for a model; prices in US dollars for a million tokens."""

    input_price: Decimal | None = None
    cache_read_price: Decimal | None = None
    cache_write_price: Decimal | None = None
    output_price: Decimal | None = None
    reasoning_price: Decimal | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            if isinstance(value, Decimal) and not (value.is_finite() and value >= 0):
                raise ValueError(f"{name} is a number of dollars, not {value}")
            if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
                raise ValueError(f"{name} is a number of tokens above zero, not {value}")
        if self.rates != Rates() and (self.input_price is None or self.output_price is None):
            raise ValueError("input_price and output_price are set together")

    @property
    def rates(self) -> Rates:
        return Rates(
            input=self.input_price,
            cache_read=self.cache_read_price,
            cache_write=self.cache_write_price,
            output=self.output_price,
            reasoning=self.reasoning_price,
        )


class Catalogue:
    """Facts by `provider:model`. `overrides` are by the same name, in which `*` stands for anything.

    One for a model by its name is stronger than one with a `*`, and holds for the dated names of it too.

    ```python
    catalogue = Catalogue({"ollama:*": {"input_price": 0, "output_price": 0}})
    ```
    """

    def __init__(self, overrides: Mapping[str, Mapping[str, object] | Override] | None = None) -> None:
        given = {_pattern(name): _override(name, each) for name, each in _mapping(overrides or {}).items()}
        self._patterns = {name: each for name, each in given.items() if _is_pattern(name)}
        self._named = {name: each for name, each in given.items() if name not in self._patterns}
        self._found: dict[str, ModelFacts] = {}

    def facts(self, model: str) -> ModelFacts:
        """What is known of `provider:model`."""
        found = self._found.get(model)
        if found is None:
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            found = self._found[model] = self._looked_up(model)
        return found

    def _looked_up(self, model: str) -> ModelFacts:
        name = registry.parse_model(model)
        found = known(name.provider, name.model or "")
        priced = found.priced
        made = _with_limits(
            ModelFacts(
                provider=name.provider,
                model=name.model or "",
                replay=replay_of(name.provider),
                prices=priced.prices if priced else (),
                deprecated=bool(priced and priced.deprecated),
            ),
            found.limits,
        )
        if priced and priced.context_window:
            made = msgspec.structs.replace(made, context_window=priced.context_window)
        for override in self._set_for(_name(model)):
            made = _overridden(made, override)
        return made

    def cost(self, usage: Usage, model: str, when: datetime | None = None) -> Cost | None:
        """What the tokens cost at that time, now if none is given; `None` where a price is not known."""
        rates = rates_on(self.facts(model).prices, when or datetime.now(UTC))
        return cost_of(usage, rates) if rates is not None else None

    def response_cost(self, response: Response, asked: str, when: datetime | None = None) -> Decimal | None:
        """Of one response with the attempts that failed on the way to it.

        By the model that answered, else by the one that was asked for: some services answer
        under a name that is in no price list. What a user has set for either comes before that.
        What has used nothing, such as an answer from a cache, costs nothing, also where no price is known.
        """
        spent = [(response.provider, response.model, response.usage)]
        spent += [(attempt.provider, attempt.model, attempt) for attempt in response.discarded]
        total = Decimal(0)
        for provider, model, usage in spent:
            if _is_nothing(usage):
                continue
            names = [f"{provider}:{model}", asked] if provider and model else [asked]
            if self._patterns or self._named:
                names.sort(key=self._rank)
            costs = (self.cost(usage, name, when) for name in names if self.facts(name).prices)
            amount = next((found for found in costs if found is not None), None)
            if amount is None:
                return None
            total += amount.total
        return total

    def _set_for(self, name: str) -> tuple[Override, ...]:
        """What a user has set for a model, the stronger last."""
        patterns = [each for pattern, each in self._patterns.items() if fnmatchcase(name, pattern)]
        names = dict.fromkeys((undated(name), name))
        return (*patterns, *(self._named[each] for each in names if each in self._named))

    def _rank(self, model: str) -> int:
        """Whose price is asked for first: set by name, set for several, or nobody's."""
        name = _name(model)
        if any(override.rates != Rates() for override in self._set_for(name)):
            return 0 if name in self._named or undated(name) in self._named else 1
        return 2


def _is_nothing(usage: Usage) -> bool:
    """Whether it was counted, and came to nothing."""
    return usage.input_tokens == usage.output_tokens == usage.total_tokens == 0


def _pattern(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"a model is named by a string, and {type(name).__name__} was found in `models`")
    if registry.parse_model(name).model is None:
        raise ConfigError(
            f"{name!r} in `models` names no model", hint=f"write {name}:* for all models of that provider"
        )
    return _name(name)


def _is_pattern(name: str) -> bool:
    return any(wild in name for wild in "*?[")


def _mapping(given: object) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"what is set for models is a mapping by name, not {type(given).__name__}")
    return cast("Mapping[Any, Any]", given)


def _name(model: str) -> str:
    name = registry.parse_model(model)
    return f"{name.provider}:{name.model or ''}".lower()


def _override(name: str, given: Mapping[str, object] | Override) -> Override:
    if isinstance(given, Override):
        return given
    if not isinstance(cast(object, given), Mapping):
        raise ConfigError(f"what is set for model {name!r} is a table, not {type(given).__name__}")
    try:
        return msgspec.convert(_decimals(given), Override)
    except msgspec.ValidationError as error:
        raise ConfigError(f"what is set for model {name!r} cannot be used: {error}") from None


def _decimals(given: Mapping[str, object]) -> dict[str, object]:
    """A price in a file is a float; its decimal form is what was written."""
    return {key: str(value) if isinstance(value, float) else value for key, value in given.items()}


def _overridden(made: ModelFacts, override: Override) -> ModelFacts:
    made = _with_limits(made, override)
    if override.rates == Rates():
        return made
    return msgspec.structs.replace(made, prices=(Price(rates=override.rates),))


def _with_limits(made: ModelFacts, limits: Limits) -> ModelFacts:
    """What is known there replaces what is here."""
    known_ones = {
        name: value for name in Limits.__struct_fields__ if (value := getattr(limits, name)) is not None
    }
    return msgspec.structs.replace(made, **known_ones)


_DEFAULT = Catalogue()


def model_facts(model: str) -> ModelFacts:
    """What is known of `provider:model`."""
    return _DEFAULT.facts(model)


def cost(usage: Usage, model: str, when: datetime | None = None) -> Cost | None:
    """What these tokens of `provider:model` cost at that time; `None` where a price is not known."""
    return _DEFAULT.cost(usage, model, when)
