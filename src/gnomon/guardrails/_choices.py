"""What every guardrail here is made with, looked at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias, TypeVar, get_args

from gnomon.contracts.guardrail import Position
from gnomon.errors import ConfigError

__all__ = ["OnMatch", "chosen", "named", "standing"]

OnMatch: TypeAlias = Literal["stop", "redact"]

_T = TypeVar("_T", bound=str)

_POSITIONS: tuple[str, ...] = get_args(Position)


def standing(title: str, positions: Collection[Position]) -> frozenset[Position]:
    """Where the guardrail stands: some of the four positions."""
    if isinstance(positions, str):
        raise ConfigError(f"{title}: positions is {positions!r}", hint=f"a list: [{positions!r}]")
    return frozenset(chosen(title, "positions", positions, _POSITIONS))


def chosen(title: str, setting: str, values: Iterable[_T], known: Collection[str]) -> tuple[_T, ...]:
    """The values, each of them known, and at least one."""
    found = tuple(values)
    strange = [value for value in found if value not in known]
    if strange or not found:
        what = repr(strange[0]) if strange else "nothing"
        raise ConfigError(f"{title}: {setting} is {what}", hint=f"known: {', '.join(known)}")
    return found


def named(title: str, name: str) -> str:
    """What the guardrail is called by whoever reads that it tripped."""
    if not name.strip():
        raise ConfigError(f"{title}: its name is empty", hint="leave it out, or give it one")
    return name
