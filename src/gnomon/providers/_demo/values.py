"""Single values that keep to a JSON Schema: texts, numbers, and how to tell two apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import cast

from gnomon.types.messages import Meta

__all__ = ["another", "limit", "number", "takes", "takes_text", "text"]

# What each format looks like, and a plain value of it.
_FORMATS: dict[str, tuple[str, str]] = {
    "date": (r"\d{4}-\d\d-\d\d", "2000-01-01"),
    "date-time": (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", "2000-01-01T00:00:00Z"),
    "time": (r"\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", "00:00:00Z"),
    "partial-time": (r"\d\d:\d\d:\d\d", "00:00:00"),
    "duration": (r"P(?:\d+D)?T\d+S", "PT0S"),
    "uuid": (r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "00000000-0000-4000-8000-000000000000"),
    "decimal": (r"-?\d+(?:\.\d+)?", "0"),
    "email": (r"[^@\s]+@[^@\s]+", "demo@example.com"),
    "uri": (r"[a-z][a-z0-9+.-]*:\S+", "https://example.com/"),
    "ipv4": (r"\d+(?:\.\d+){3}", "127.0.0.1"),
}


def limit(schema: Meta, name: str, otherwise: int = 0) -> int:
    value = schema.get(name)
    return value if isinstance(value, int) else otherwise


def text(schema: Meta, candidates: Iterable[str]) -> str:
    """The first candidate that can be made to fit, else a text that does."""
    tried = [*candidates, "demo", "a", "A", "1", "a1"]
    if schema.get("contentEncoding") == "base64":
        return _base64(schema, tried[0])
    _, plain = _format(schema)
    fitted = [_sized(schema, value) for value in (*tried, plain)]
    return next((value for value in fitted if takes_text(schema, value)), plain or fitted[0])


def takes_text(schema: Meta, value: str) -> bool:
    """Whether the schema of a text lets this one through, as far as that can be told."""
    shape, _ = _format(schema)
    pattern = schema.get("pattern")
    return (
        schema.get("contentEncoding") is None
        and _sized(schema, value) == value
        and (not shape or re.fullmatch(shape, value) is not None)
        and (not isinstance(pattern, str) or _matches(pattern, value))
    )


def takes(schema: Meta, value: int | float) -> bool:
    """Whether the schema of a number lets this one through."""
    if schema.get("type") == "integer" and value != int(value):
        return False
    low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
    above, below = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    step = _bound(schema, "multipleOf")
    return (
        (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or value > above)
        and (below is None or value < below)
        and (not step or value % step == 0)
    )


def number(schema: Meta) -> int | float:
    """A number that fits: 1 or 0 where they do, else one near a limit."""
    lows = [b for name in ("minimum", "exclusiveMinimum") if (b := _bound(schema, name)) is not None]
    highs = [b for name in ("maximum", "exclusiveMaximum") if (b := _bound(schema, name)) is not None]
    step = _bound(schema, "multipleOf") or 1
    tried: list[int | float] = [1, 0]
    for bound in (*lows, *highs):
        near = bound // step * step
        tried += [bound, near, near + step, near - step]
    if lows and highs:
        tried.append((max(lows) + min(highs)) / 2)
    fits = next((value for value in tried if takes(schema, value)), 0)
    return int(fits) if schema.get("type") == "integer" else fits


def another(value: object, others: Sequence[object], schema: Meta) -> object:
    """The value, or one like it that is not among the others."""
    if value not in others:
        return value
    choices = schema.get("enum")
    if isinstance(choices, list):
        return next((c for c in cast("list[object]", choices) if c not in others), value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        steps = (value + n * sign for n in range(1, 100) for sign in (1, -1))
        return next((n for n in steps if n not in others and takes(schema, n)), value)
    if isinstance(value, str):
        made = (text(schema, [f"{n}{value}"]) for n in range(1, 100))
        return next((candidate for candidate in made if candidate not in others), value)
    return value


def _format(schema: Meta) -> tuple[str, str]:
    name = schema.get("format")
    return _FORMATS.get(name, ("", "")) if isinstance(name, str) else ("", "")


def _bound(schema: Meta, name: str) -> int | float | None:
    value = schema.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sized(schema: Meta, value: str) -> str:
    padded = value.ljust(limit(schema, "minLength"), ".")
    return padded[: limit(schema, "maxLength", len(padded))]


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # written for another language
        return True


def _base64(schema: Meta, value: str) -> str:
    from binascii import b2a_base64

    # The schema limits the encoded text; three bytes make four characters of it.
    least = limit(schema, "minLength") // 4 * 3
    most = max(limit(schema, "maxLength", 400) // 4 * 3 - 2, least)
    return b2a_base64(value.encode().ljust(least)[:most], newline=False).decode()
