"""What an argument is compared with: a pattern, one of several, or an exact value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TypeAlias, cast

import msgspec

from gnomon.engine._arguments import JSON, written
from gnomon.engine._globs import check_pattern, fits

__all__ = ["Exact", "Matcher", "Scalar", "check_text", "defaults", "holds", "settled"]

Scalar: TypeAlias = bool | int | float | str | None

_KEY = r"(?:\\[.@\\]|[^.\\])+"
_PATH = re.compile(rf"(?:{_KEY}\.)*{_KEY}", re.DOTALL)
_MISSING = object()


class Exact(msgspec.Struct, frozen=True):
    """Matches this JSON value and no other; in a text it makes no star a wildcard."""

    exact: object

    def __post_init__(self) -> None:
        try:
            written(self.exact).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"an exact value has to be JSON: {error}") from None


Matcher: TypeAlias = Scalar | tuple[Scalar, ...] | Exact
"""A text is a pattern, a tuple is one of several, `Exact` is a value as it stands; a scalar is itself."""


def check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} has half a surrogate pair") from None


def settled(path: object, matcher: object) -> Matcher:
    """A matcher as it is kept; people write a list for one of several."""
    if not isinstance(path, str) or not (path == "" or _PATH.fullmatch(path)):
        raise ValueError(f"{path!r} is no path of an argument, such as 'options.mode'")
    check_text(path)
    if isinstance(matcher, Exact):
        return matcher
    if path == "":
        raise ValueError("the arguments as a whole are matched by an Exact value only")
    if not isinstance(matcher, list | tuple):
        return _settled_scalar(path, matcher)
    several = tuple(_settled_scalar(path, one) for one in cast("list[object]", matcher))
    if not several:
        raise ValueError(f"the list for {path!r} is empty, so that nothing could match")
    return several


def _settled_scalar(path: str, value: object) -> Scalar:
    if isinstance(value, str):
        check_text(value)
        check_pattern(value)
    elif isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{value} for {path!r} is not JSON")
    elif value is not None and not isinstance(value, bool | int):
        kind = type(value).__name__
        raise ValueError(
            f"{path!r} is matched by text, a number, a list of these or Exact(…), not by a {kind}"
        )
    return value


# --- matching


def holds(path: str, matcher: Matcher, given: dict[str, JSON], widely: bool) -> bool:
    found = [given] if path == "" else list(_found(given, _keys(path)))
    if isinstance(matcher, Exact):
        found = [_alike(matcher.exact, value, widely) for value in found]
    else:
        several = matcher if isinstance(matcher, tuple) else (matcher,)
        items = [item for value in found for item in _items(value)]
        found = [any(_fits(one, item, widely) for one in several) for item in items]
    return any(found) if widely else bool(found) and all(found)


def _keys(path: str) -> list[str]:
    return [re.sub(r"\\(.)", r"\1", key) for key in re.findall(_KEY, path, re.DOTALL)]


def _found(value: object, keys: list[str]) -> Iterator[object]:
    """What stands at the path: several values where it goes through a list."""
    if not keys:
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _found(item, keys)
    elif isinstance(value, dict) and keys[0] in value:
        yield from _found(cast("dict[str, object]", value)[keys[0]], keys[1:])
    else:
        yield _MISSING


def _items(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _items(item)
    else:
        yield value


def _fits(matcher: Scalar, value: object, widely: bool) -> bool:
    if isinstance(matcher, str):
        return isinstance(value, str) and fits(matcher, value, widely=widely)
    return _alike(matcher, value, widely)


def _alike(wanted: object, value: object, widely: bool) -> bool:
    if value is _MISSING:
        return False
    if widely:
        wanted, value = _whole(wanted), _whole(value)
    return written(wanted) == written(value)


def _whole(value: object) -> object:
    """The value with 1.0 as 1: a tool may take the one for the other."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [_whole(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in cast("dict[str, object]", value).items()}
    return value


def defaults(schema: Mapping[str, object]) -> dict[str, JSON]:
    properties = schema.get("properties")
    found: dict[str, JSON] = {}
    if isinstance(properties, dict):
        for name, one in cast("dict[str, object]", properties).items():
            if isinstance(one, dict) and "default" in one:
                found[name] = cast("dict[str, JSON]", one)["default"]
    return found
