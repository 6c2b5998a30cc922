"""The JSON in what a model wrote: alone, in a fence, or with prose around it.

One pass over the text, and each part of it is decoded once more at most: an answer
may be megabytes of brackets.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

import msgspec

from gnomon.engine._partial import DEPTH_LIMIT, PartialJSON

if TYPE_CHECKING:
    from json import JSONDecoder

__all__ = ["Found", "NotJSON", "find_json", "shortened"]

_AROUND = " \t\r\n\ufeff"
_FENCED = re.compile(r"```[\w-]*+[ \t]*+\r?\n(.*)\n[ \t]*+```", re.DOTALL)
# A string ends with its line when it is not closed: in prose a lone quote means inches.
_TOKEN = re.compile(r'"(?:[^"\\\r\n]++|\\.)*+"?+|[\[\]{}]', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_OPENS = {"]": "[", "}": "{"}
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_LONGEST_TOLD = 300


class Found(NamedTuple):
    """A JSON value: as it was written, and as plain data."""

    text: str
    plain: object


class NotJSON(ValueError):
    """Why there is none, in a sentence for the model."""


def find_json(text: str) -> list[Found]:
    """The JSON values of an answer: it itself, or the lists and objects in it; `NotJSON` if there is none."""
    text = text.strip(_AROUND)
    fence = _FENCED.fullmatch(text)
    text = fence[1].strip(_AROUND) if fence else text
    if not text:
        raise NotJSON("the answer is empty, and JSON was expected")
    try:
        return [_decoded(text)]
    except NotJSON as error:
        return _among_prose(text, error)


def shortened(message: str) -> str:
    """A message in one line of bounded length: its end is kept, where the place is named."""
    line = " ".join(message.split())
    if len(line) <= _LONGEST_TOLD:
        return line
    return f"{line[: _LONGEST_TOLD // 2]} … {line[-_LONGEST_TOLD // 2 :]}"


def _among_prose(text: str, error: NotJSON) -> list[Found]:
    spans, unclosed = _spans(text)
    is_cut = unclosed is not None and _is_cut(text[unclosed:])
    found: list[Found] = []
    wrong: NotJSON | None = None  # the first alone: thousands of them, with their frames, are a burden
    for start, end in spans:
        if is_cut and start > cast(int, unclosed):
            break  # a part of what was cut off could pass for the whole
        try:
            found.append(_decoded(text[start:end]))
        except NotJSON as problem:
            wrong = wrong or problem
    if found:
        return found
    if is_cut:
        raise NotJSON("the JSON is cut off: it ends before its last bracket is closed")
    if text[0] in "{[":
        raise error
    raise wrong or NotJSON("there is no JSON in the answer")


def _spans(text: str) -> tuple[list[tuple[int, int]], int | None]:
    """From where to where the outermost pairs of brackets reach, and the first that is never closed."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    count = {"[": 0, "{": 0}
    at = 0
    # Outside of brackets a quote is prose.
    while token := (_TOKEN if opened else _BRACKET).search(text, at):
        at = token.end()
        sign = token[0]
        if sign in count:
            opened.append(token.start())
            count[sign] += 1
        elif sign in _OPENS and count[_OPENS[sign]]:
            start = _close(text, opened, count, _OPENS[sign])
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, at))
    return spans, opened[0] if opened else None


def _close(text: str, opened: list[int], count: dict[str, int], opener: str) -> int:
    """Drop what was opened since the last such bracket, and say where that stands."""
    while True:
        start = opened.pop()
        count[text[start]] -= 1
        if text[start] == opener:
            return start


def _is_cut(text: str) -> bool:
    partial = PartialJSON()
    partial.feed(text)
    return partial.is_open


def _decoded(text: str) -> Found:
    from json import JSONDecodeError

    try:
        plain: object = _decoder().decode(text)
    except RecursionError:
        raise NotJSON(_TOO_DEEP) from None
    except JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise NotJSON(f"not JSON: {error.msg} at {place}") from None
    except NotJSON:
        raise
    except ValueError:
        raise NotJSON("a number in it has too many digits") from None
    _check_depth(plain)
    _check_text(text, plain)
    return Found(text, plain)


_TOO_DEEP = f"it is nested too deeply: at most {DEPTH_LIMIT} lists and objects in one another"


def _check_depth(plain: object) -> None:
    level: list[object] = [plain]
    for _ in range(DEPTH_LIMIT):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise NotJSON(_TOO_DEEP)


def _inside(outer: object) -> list[object]:
    if isinstance(outer, dict):
        return list(cast("dict[str, object]", outer).values())
    return cast("list[object]", outer) if isinstance(outer, list) else []


def _check_text(text: str, plain: object) -> None:
    if _HALF_PAIR.search(text):
        try:
            msgspec.json.encode(plain)
        except UnicodeEncodeError:
            raise NotJSON("a \\u escape in it is half a surrogate pair") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise NotJSON(f"the key {shortened(key)!r} stands twice in one object")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJSON(f"the number {shortened(text)} is out of range")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotJSON(f"{name} is not JSON")


@cache
def _decoder() -> JSONDecoder:
    from json import JSONDecoder  # with the first answer: an agent that has no output type needs none

    return JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant)
