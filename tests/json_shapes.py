"""What a documented JSON body may look like, as data, and the sentence that says what is wrong with one.

A shape is given a value and where it stands, and gives the first reason against it, or nothing.
Tables of fields are made of these; a field that no table has is a reason.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = [
    "Shape",
    "anything",
    "base64_text",
    "by",
    "const",
    "either",
    "fields",
    "listed",
    "mapped",
    "matching",
    "number",
    "nullable",
    "text",
    "truth",
    "whole",
    "why_not",
]

Shape: TypeAlias = Callable[[Any, str], "str | None"]


def why_not(shape: Shape, body: bytes) -> str | None:
    """What is wrong with a body, or nothing."""
    try:
        value = json.loads(body, object_pairs_hook=_once_each, parse_constant=_no_such_number)
    except (ValueError, RecursionError) as error:
        return f"the body is not JSON: {error}"
    return shape(value, "the body")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{sorted(twice)} stand there twice")
    return dict(pairs)


def _no_such_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


# --- single values ----------------------------------------------------------------


def _of(kinds: type | tuple[type, ...], words: str) -> Shape:
    def shape(value: Any, where: str) -> str | None:
        # In Python true is a number; in JSON it is not.
        wrong_truth = isinstance(value, bool) and kinds is not bool
        fits = isinstance(value, kinds) and not wrong_truth
        return None if fits else f"{where} is {_shown(value)}, and {words} is expected"

    return shape


text = _of(str, "text")
truth = _of(bool, "true or false")
whole = _of(int, "a whole number")


def anything(value: Any, where: str) -> None:
    return None


def number(least: float | None = None, most: float | None = None, *, only_whole: bool = False) -> Shape:
    """A number, within the limits that are documented for it."""
    kind = whole if only_whole else _of((int, float), "a number")

    def shape(value: Any, where: str) -> str | None:
        reason = kind(value, where)
        if reason:
            return reason
        too_small, too_large = least is not None and value < least, most is not None and value > most
        return f"{where} is {value}, outside {least} to {most}" if too_small or too_large else None

    return shape


def const(*words: str) -> Shape:
    """One of these words."""

    def shape(value: Any, where: str) -> str | None:
        fits = isinstance(value, str) and value in words
        return None if fits else f"{where} is {_shown(value)}, and one of {list(words)} is expected"

    return shape


def matching(pattern: str, words: str) -> Shape:
    """Text of a certain form."""

    def shape(value: Any, where: str) -> str | None:
        fits = isinstance(value, str) and re.fullmatch(pattern, value)
        return None if fits else f"{where} is {_shown(value)}, and {words} is expected"

    return shape


def base64_text(value: Any, where: str) -> str | None:
    """Bytes as text, without a `data:` in front."""
    try:
        read = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except binascii.Error:
        read = b""
    return None if read else f"{where} is {_shown(value)}, and base64 is expected"


# --- values that hold others --------------------------------------------------------


def nullable(shape: Shape) -> Shape:
    return lambda value, where: None if value is None else shape(value, where)


def either(*shapes: Shape) -> Shape:
    """Any of these; the reasons of all of them when none fits."""

    def shape(value: Any, where: str) -> str | None:
        reasons = [inner(value, where) for inner in shapes]
        return None if None in reasons else "; or ".join(str(reason) for reason in reasons)

    return shape


def listed(inner: Shape, *, least: int = 0, most: int | None = None) -> Shape:
    def shape(value: Any, where: str) -> str | None:
        if not isinstance(value, list):
            return f"{where} is {_shown(value)}, and a list is expected"
        if len(value) < least or (most is not None and len(value) > most):
            return f"{where} has {len(value)} entries, and {least} to {most or 'any number'} are allowed"
        return _first(inner(entry, f"{where}[{place}]") for place, entry in enumerate(value))

    return shape


def mapped(inner: Shape) -> Shape:
    """An object with any names in it."""

    def shape(value: Any, where: str) -> str | None:
        if not isinstance(value, dict):
            return f"{where} is {_shown(value)}, and an object is expected"
        return _first(inner(entry, f"{where}.{name}") for name, entry in value.items())

    return shape


def fields(
    required: Mapping[str, Shape] | None = None,
    optional: Mapping[str, Shape] | None = None,
    *,
    others: Shape | None = None,
) -> Shape:
    """An object with these fields, and no other unless `others` says what it may be."""
    known = {**(required or {}), **(optional or {})}

    def shape(value: Any, where: str) -> str | None:
        if not isinstance(value, dict):
            return f"{where} is {_shown(value)}, and an object is expected"
        missing = [name for name in required or {} if name not in value]
        if missing:
            return f"{where} lacks {missing[0]!r}"
        unknown = [name for name in value if name not in known]
        if unknown and others is None:
            return f"{where} has {unknown[0]!r}, which is not documented"
        return _first(
            known.get(name, others or anything)(entry, f"{where}.{name}") for name, entry in value.items()
        )

    return shape


def by(field: str, shapes: Mapping[str, Shape], default: str | None = None) -> Shape:
    """An object whose shape one of its fields tells."""

    def shape(value: Any, where: str) -> str | None:
        if not isinstance(value, dict):
            return f"{where} is {_shown(value)}, and an object is expected"
        told = value.get(field, default)
        if not isinstance(told, str) or told not in shapes:
            return f"{where}.{field} is {_shown(told)}, and one of {list(shapes)} is documented"
        return shapes[told](value, where)

    return shape


def _first(reasons: Any) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _shown(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= 60 else written[:57] + "…"
