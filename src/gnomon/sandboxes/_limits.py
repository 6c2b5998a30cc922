"""The limits of one command: what was asked for, with a sandbox's own where nothing was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

from gnomon.errors import ConfigError
from gnomon.types.steps import ExecLimits, IsolationLevel

__all__ = ["DEFAULTS", "LEVELS", "Limits", "at_least", "checked_level", "settled"]

LEVELS: tuple[IsolationLevel, ...] = ("none", "process", "namespaces", "container")
"""From the weakest to the strongest."""

_MB = 1 << 20

# More is no mistake, as all of it means that there is to be no limit; but the kernel takes no larger numbers.
_MOST_BYTES = 1 << 60
_MOST_PROCESSES = 4_000_000
_MOST_CPU_S = 1e9


class Limits(NamedTuple):
    """Every limit as a number."""

    memory_bytes: int
    disk_bytes: int
    output_bytes: int
    processes: int
    cpu_s: float
    network: bool


DEFAULTS = ExecLimits(
    memory_bytes=1024 * _MB, disk_bytes=1024 * _MB, output_bytes=_MB, processes=128, cpu_s=3600.0
)

_Number: TypeAlias = int | float


def settled(*given: ExecLimits | None) -> Limits:
    """One number for each limit: the first that says something, and `DEFAULTS` after them."""
    layers = [*(each for each in given if each is not None), DEFAULTS]
    for layer in cast("Sequence[object]", layers):
        if not isinstance(layer, ExecLimits):
            raise ConfigError(f"limits are ExecLimits, not {type(layer).__name__}")

    def first(name: str, most: _Number) -> _Number:
        values = (getattr(layer, name) for layer in layers)
        number: _Number = next(value for value in values if value is not None)
        is_number = isinstance(cast("object", number), int | float) and not isinstance(number, bool)
        if not is_number or not 0 < number < math.inf:
            raise ConfigError(
                f"the limit {name} is {number!r}",
                hint="a limit is a number of more than 0; None is the default",
            )
        return min(number, most)

    return Limits(
        math.ceil(first("memory_bytes", _MOST_BYTES)),
        math.ceil(first("disk_bytes", _MOST_BYTES)),
        math.ceil(first("output_bytes", _MOST_BYTES)),
        math.ceil(first("processes", _MOST_PROCESSES)),
        float(first("cpu_s", _MOST_CPU_S)),
        next((layer.network for layer in layers if layer.network is not None), False),
    )


def at_least(level: IsolationLevel, wanted: IsolationLevel) -> bool:
    return LEVELS.index(level) >= LEVELS.index(wanted)


def checked_level(level: object) -> None:
    if level not in LEVELS:
        raise ConfigError(f"there is no level {level!r}", hint="the levels are " + ", ".join(LEVELS))
