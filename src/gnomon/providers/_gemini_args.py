"""The arguments of a call that come in pieces: each says where it belongs by a JSON path.

The pieces come in any order that the service likes, so they are put together as data; the
text is made when the call is whole. Numbers stay as they were written.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TypeAlias, cast

import msgspec

from gnomon.providers._gemini_wire import PartialArgIn

__all__ = ["PartialArgs"]

_Step: TypeAlias = str | int
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")
_read_object = msgspec.json.Decoder(dict[str, object]).decode


class PartialArgs:
    """An object in the making."""

    def __init__(self) -> None:
        self._root: dict[str, object] = {}

    @property
    def text(self) -> str:
        return msgspec.json.encode(self._root).decode()

    def seed(self, args: msgspec.Raw) -> None:
        """Arguments that came whole."""
        self._root.update(_read_object(args))

    def add(self, piece: PartialArgIn) -> None:
        steps = _steps(piece.json_path)
        last = steps[-1]
        holder: object = self._root
        for step, following in pairwise(steps):
            if _at(holder, step) is None:
                _put(holder, step, list[object]() if isinstance(following, int) else dict[str, object]())
            holder = _at(holder, step)
        before = _at(holder, last)  # which says whether there is such a place
        if piece.string_value is not None:
            _put(holder, last, (before if isinstance(before, str) else "") + piece.string_value)
        elif (value := _plain(piece)) is not None:
            _put(holder, last, value)


def _plain(piece: PartialArgIn) -> object:
    if piece.bool_value is not None:
        return piece.bool_value
    if bytes(piece.number_value):
        return piece.number_value.copy()
    return msgspec.Raw(b"null") if bytes(piece.null_value) else None


def _steps(path: str) -> list[_Step]:
    """`$.places[0].name` as its steps; what is no such path cannot be read."""
    steps: list[_Step] = []
    at = 1
    while found := _STEP.match(path, at):
        at = found.end()
        name = next(group for group in found.groups() if group is not None)
        steps.append(int(name) if found[2] else _ESCAPED.sub(r"\1", name))
    if not steps or at != len(path) or path[0] != "$":
        raise msgspec.DecodeError(f"{path!r} is no path to an argument")
    return steps


def _at(holder: object, step: _Step) -> object:
    if isinstance(holder, dict) and isinstance(step, str):
        return cast("dict[str, object]", holder).get(step)
    if isinstance(holder, list) and isinstance(step, int):
        items = cast("list[object]", holder)
        return items[step] if step < len(items) else None
    raise msgspec.DecodeError(f"the pieces of an argument do not go together at {step!r}")


def _put(holder: object, step: _Step, value: object) -> None:
    if isinstance(step, str):
        cast("dict[str, object]", holder)[step] = value
        return
    items = cast("list[object]", holder)
    if step > len(items):
        raise msgspec.DecodeError(f"the item {step} of an argument comes before those in front of it")
    items[step : step + 1] = [value]
