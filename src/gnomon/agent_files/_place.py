"""Where in an agent file something stands, and how a message about it begins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeGuard

from gnomon._trust import kind_of, one_line
from gnomon.errors import ConfigError, InvalidInput

__all__ = ["Found", "Place", "Table", "is_list", "is_table", "unknown", "wrong"]


class Table(dict[str, object]):
    """A table of the file; `lines` says where its keys stand, if the parser says it."""

    def __init__(self, *given: Iterable[tuple[str, object]]) -> None:
        super().__init__(*given)
        self.lines: dict[str, int] = {}


def is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


class Place(NamedTuple):
    """A key of the file, as in `agents[1].model`."""

    path: str
    key: str = ""
    line: int | None = None

    def under(self, table: dict[str, object], name: str) -> Place:
        """The place of a key in the table that stands here."""
        line = table.lines.get(name) if isinstance(table, Table) else None
        plain = re.fullmatch(r"[A-Za-z0-9_-]+", name)
        shown = one_line(name if plain else f'"{name}"', most=60)
        return Place(self.path, f"{self.key}.{shown}" if self.key else shown, line or self.line)

    def item(self, number: int) -> Place:
        return Place(self.path, f"{self.key}[{number}]", self.line)

    def __str__(self) -> str:
        where = one_line(self.path) + (f", line {self.line}" if self.line else "")
        return f"{where}: `{self.key}`" if self.key else where


class Found(NamedTuple):
    """A value as it stands in the file, and where."""

    value: object
    place: Place


def unknown(place: Place, name: str, known: Iterable[str], *, otherwise: str = "") -> ConfigError:
    """A key that nothing knows, and the nearest that something does."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.65)
    hint = f"did you mean `{near[0]}`?" if near else otherwise or f"known are {', '.join(names)}"
    return ConfigError(f"{place} is not a known key", hint=hint)


def wrong(found: Found, expected: str, *, shown: bool = False) -> InvalidInput:
    """A value of the wrong kind; it is named itself only where it can be no secret."""
    return InvalidInput(f"{found.place} should be {expected}, found {kind_of(found.value, shown=shown)}")
