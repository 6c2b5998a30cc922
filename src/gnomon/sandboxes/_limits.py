"""The limits of one command: what was asked for, with a sandbox's own where nothing was."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from gnomon.errors import ConfigError
from gnomon.types.steps import ExecLimits, IsolationLevel

__all__ = ["DEFAULTS", "LEVELS", "Limits", "at_least", "checked_level", "settled"]

LEVELS: tuple[IsolationLevel, ...] = ("none", "process", "namespaces", "container")
"""From the weakest to the strongest."""

_MB = 1 << 20


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
_MOST = 1 << 62
"""More than there is of anything, and what kernels and engines can still count to."""


def settled(*given: ExecLimits | None) -> Limits:
    """One number for each limit: the first that says something, and `DEFAULTS` after them."""
    layers = [*(each for each in given if each is not None), DEFAULTS]

    def first(name: str) -> _Number:
        values = (getattr(layer, name) for layer in layers)
        number: _Number = next(value for value in values if value is not None)
        if not 0 < number < math.inf:
            raise ConfigError(
                f"the limit {name} is {number}",
                hint="a limit is a number of more than 0; None is the default",
            )
        return min(number, _MOST)

    return Limits(
        math.ceil(first("memory_bytes")),
        math.ceil(first("disk_bytes")),
        math.ceil(first("output_bytes")),
        math.ceil(first("processes")),
        float(first("cpu_s")),
        next((layer.network for layer in layers if layer.network is not None), False),
    )


def at_least(level: IsolationLevel, wanted: IsolationLevel) -> bool:
    return LEVELS.index(level) >= LEVELS.index(wanted)


def checked_level(level: object) -> None:
    if level not in LEVELS:
        raise ConfigError(f"there is no level {level!r}", hint="the levels are " + ", ".join(LEVELS))
