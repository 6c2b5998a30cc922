"""What a compactor counts with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from gnomon import registry
from gnomon.contracts.counter import TokenCounter
from gnomon.errors import ConfigError
from gnomon.types.messages import Message

__all__ = ["counter_of", "sizes", "share_of"]

_EMPTY = Message("user")


def counter_of(given: TokenCounter | str | None) -> TokenCounter:
    """A counter as it is, or by its name; the usual one when none is given."""
    if given is not None and not isinstance(given, str):
        if isinstance(cast(object, given), TokenCounter):
            return given
        raise TypeError(
            f"counter is a TokenCounter or a name such as 'calibrated', not {type(given).__name__}"
        )
    name = given or "calibrated"
    made = cast("Callable[[], object]", registry.load("counters", name))()
    if not isinstance(made, TokenCounter):
        raise ConfigError(f"token counter {name!r} gave {type(made).__name__}, not a TokenCounter")
    return made


def share_of(keep: float) -> float:
    """A share of the budget, checked."""
    if not 0 < keep <= 1:
        raise ValueError(f"keep is a share of the budget, above 0 and at most 1, not {keep}")
    return keep


def sizes(messages: Sequence[Message], counter: TokenCounter) -> list[int]:
    """The tokens of each message alone, counted once, without what any prompt has around its messages."""
    around = 2 * counter.count_messages((_EMPTY,)) - counter.count_messages((_EMPTY, _EMPTY))
    return [max(1, counter.count_messages((message,)) - max(0, around)) for message in messages]
