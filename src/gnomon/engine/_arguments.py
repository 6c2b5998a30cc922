"""The arguments of a call, read so that no two readers can see two things in them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

if TYPE_CHECKING:
    from json import JSONDecoder

__all__ = ["JSON", "canonical", "decode_at", "read_arguments", "written"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A JSON value as plain data."""

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_INFINITE = (float("inf"), float("-inf"))


def read_arguments(text: str) -> dict[str, JSON] | None:
    """The arguments by name; `None` when the text is no JSON object, or not the same one to every reader."""
    try:
        value = _decoder().decode(text or "{}")
        if _HALF_PAIR.search(text):
            written(value).encode()
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, JSON]", value) if isinstance(value, dict) else None


def decode_at(text: str, start: int) -> tuple[JSON, int]:
    """The JSON value that begins there, and where it ends; `ValueError` says why there is none."""
    try:
        value, end = _decoder().raw_decode(text, start)
        written(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return cast("JSON", value), end


def written(value: object) -> str:
    """A value as JSON in one form only. Whole numbers and fractions stay apart: 1 is not 1.0."""
    from json import dumps

    return dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(text: str) -> str | None:
    """JSON text in one form only, numbers as they stand there; `None` where readers may disagree about it."""
    try:
        return _as_written(_literal_decoder().decode(text or "{}"))
    except (ValueError, RecursionError):
        return None


class _Number(str):
    """A number as it stands in the text: none is rounded, however long."""


def _as_written(value: object) -> str:
    from json import dumps

    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_as_written, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        items = sorted(cast("dict[str, object]", value).items(), key=lambda item: item[0])
        return "{" + ",".join(f"{dumps(key)}:{_as_written(inner)}" for key, inner in items) + "}"
    return dumps(value)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if number in _INFINITE:
        raise ValueError("a number is out of range")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


@cache
def _decoder() -> JSONDecoder:
    from json import JSONDecoder  # with the first rule: an agent that has none needs none

    return JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant)


@cache
def _literal_decoder() -> JSONDecoder:
    from json import JSONDecoder

    return JSONDecoder(
        object_pairs_hook=_once, parse_float=_Number, parse_int=_Number, parse_constant=_no_constant
    )
