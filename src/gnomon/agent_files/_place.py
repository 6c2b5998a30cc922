"""Where in an agent file something stands, and how a message about it begins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeGuard

from gnomon._trust import is_utf8, one_line
from gnomon.errors import ConfigError, InvalidInput

__all__ = ["Found", "Place", "Table", "is_list", "is_table", "kind_of", "unknown", "wrong"]


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


_KINDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
    Table: "a table",
    type(None): "nothing",
}


def kind_of(value: object, *, shown: bool = False) -> str:
    """What kind of value it is, and a short one itself if it may be shown."""
    kind = _KINDS.get(type(value), type(value).__name__)
    match value:
        case str() if not is_utf8(value):
            return f"{kind} that is not UTF-8"
        case str() if shown and len(value) > 40:
            return f"{kind} of {len(value)} characters"  # half a secret would not be recognised any more
        case str() if shown:
            return f'{kind} "{one_line(value, most=40)}"'
        case bool():
            return kind
        case int() | float() if shown and len(str(value)) <= 40:
            return f"{kind}, {value}"
        case _:
            return kind
