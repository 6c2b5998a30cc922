"""What came back of code that ran in a sandbox: bytes that the code may have written itself, so they are only
ever data, and never more of it than was asked for."""

from __future__ import annotations

import json
from typing import NamedTuple, NoReturn, cast

import msgspec

from gnomon._python.pictures import kind_of
from gnomon.types.codec import encodable
from gnomon.types.messages import Image

__all__ = ["ANSWER_BYTES", "MOST_PICTURES", "PICTURE_BYTES", "VALUE_BYTES", "Answer", "Failure", "read"]

MOST_PICTURES = 8
PICTURE_BYTES = 3_500_000
"""As base64 that is less than the smallest limit of those who take pictures."""
VALUE_BYTES = 1_000_000
ANSWER_BYTES = 16_000_000

_MOST_LINES = 64
_DEEPEST = 100
_MOST_VALUES = 200_000


class Failure(NamedTuple):
    """An exception that the code did not catch."""

    kind: str
    message: str
    lines: str
    """The traceback, of which only the code's own lines are kept, as Python would print it."""


class Answer(msgspec.Struct, kw_only=True):
    """As much of it as can be used. `problem` says what cannot."""

    value: object = None
    shown: str = ""
    pictures: list[Image] = []
    left_out: int = 0
    error: Failure | None = None
    is_late: bool = False
    is_cut: bool = False
    is_done: bool = False
    """Whether the code came to its end, or to an exception."""
    is_whole: bool = False
    problem: str = ""


class _Error(msgspec.Struct):
    kind: str
    message: str = ""
    lines: str = ""


class _End(msgspec.Struct):
    is_late: bool = False
    is_cut: bool = False
    is_torn: bool = False


class _Line(msgspec.Struct):
    """One line of the answer."""

    value: str | None = None
    shown: str | None = None
    picture: bytes | None = None
    left_out: int | None = None
    error: _Error | None = None
    is_done: bool = False
    end: _End | None = None


_decoder = msgspec.json.Decoder(_Line)


def read(data: bytes) -> Answer:
    """What the lines say, as far as they can be read."""
    answer = Answer()
    if len(data) > 2 * ANSWER_BYTES:
        answer.problem = "it is longer than any answer may be"
        return answer
    for number, line in enumerate(data.split(b"\n", _MOST_LINES)):
        if number == _MOST_LINES:
            answer.problem = "it has too many lines"
        elif line and not answer.problem:
            _take(answer, line)
    if not answer.is_whole and not answer.problem:
        answer.problem = "it has no end"
    return answer


def _take(answer: Answer, line: bytes) -> None:
    try:
        told = _decoder.decode(line)
        if told.value is not None:
            answer.value = _value(told.value)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        answer.problem = str(error)[:200]
        return
    if told.shown is not None:
        answer.shown = encodable(told.shown[:VALUE_BYTES])
    if told.picture is not None:
        _add_picture(answer, told.picture)
    if told.left_out is not None:
        answer.left_out = min(max(told.left_out, 0), 1_000_000)
    if told.error is not None:
        kind, message, lines = told.error.kind, told.error.message, told.error.lines
        answer.error = Failure(*(encodable(text[:20_000]) for text in (kind, message, lines)))
    answer.is_done = answer.is_done or told.is_done
    if told.end is not None:
        answer.is_whole = not told.end.is_torn
        answer.is_late, answer.is_cut = told.end.is_late, told.end.is_cut


def _add_picture(answer: Answer, data: bytes) -> None:
    kind = kind_of(data) if len(data) <= PICTURE_BYTES else ""
    if kind and len(answer.pictures) < MOST_PICTURES:
        answer.pictures.append(Image(data=data, media_type=kind))
    else:
        answer.left_out += 1


def _value(text: str) -> object:
    if len(text) > VALUE_BYTES:
        raise ValueError("its value is too long")
    value: object = json.loads(text, parse_constant=_no_constant)
    _check(value)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _check(value: object) -> None:
    """Whoever walks through it later does so by recursion."""
    count, level = 0, [value]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for each in level:
            if isinstance(each, list):
                inner += cast("list[object]", each)
            elif isinstance(each, dict):
                inner += cast("dict[str, object]", each).values()
        count += len(inner)
        if count > _MOST_VALUES:
            raise ValueError("its value has too many parts")
        if not inner:
            return
        level = inner
    raise ValueError("its value is nested too deep")
