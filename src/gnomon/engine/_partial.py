"""JSON that is still being written, as the value it has so far.

The text is read once, whatever its pieces. A string is cut where the text ends; a
number counts when something stands behind it, since `1` may become `12`; a key
counts when its value has begun. What is open is there as if it were closed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias, cast

__all__ = ["DEPTH_LIMIT", "PartialJSON"]

DEPTH_LIMIT = 200
"""Lists and objects in one another. What is deeper no schema asked for, and it breaks whoever walks it."""

_Slot: TypeAlias = str | int
_Step: TypeAlias = Callable[["PartialJSON", str, int], int]

_BLANKS = re.compile(r"[ \t\r\n]*+")
_PLAIN = re.compile(r'[^"\\]++')
_DIGITS = re.compile(r"[-+.0-9eE]++")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, tuple[str, object]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_LAST = -1  # the slot of a list that is being filled
_NOT_A_CHARACTER = "\ufffd"  # half a surrogate pair, which nobody could print or encode


class PartialJSON:
    """Give it text with `feed`; `value` is the list or object so far, and `None` before it begins.

    `value` is live: one structure that grows, so that reading it costs nothing. `snapshot()` is
    for keeping: it never changes, and copies only the lists and objects that are still open.

    Text before the first list or object (prose, a fence) and after its end is passed over.
    `opening` says which of the two to look for. When the text is no JSON, the value stays
    at what was right, unless nothing was: then the bracket was prose, and the search goes on.
    """

    __slots__ = (
        "_begun", "_changed", "_held", "_high", "_in_text", "_open", "_opening", "_pieces", "_root", "_slots",
        "_step", "is_broken", "is_complete",
    )  # fmt: skip

    def __init__(self, opening: str = "{[") -> None:
        self._opening = re.compile(f"[{re.escape(opening)}]")
        self.is_complete = False
        self.is_broken = False
        self._changed = False
        self._begin()

    def _begin(self) -> None:
        self._root: object = None
        self._begun = False  # whether there is more than empty lists and objects
        self._open: list[dict[_Slot, object]] = []  # a list is filled like a dict whose key is _LAST
        self._slots: list[_Slot] = []
        self._pieces: list[str] = []
        self._held = ""  # an escape or a literal that is not whole yet
        self._high = 0  # the first half of a surrogate pair
        self._in_text = False  # whether the pieces belong to a string that is shown as it comes
        self._step: _Step = PartialJSON._seek  # not bound to this object, which would then hold itself

    @property
    def value(self) -> object:
        """What there is so far; live, see above."""
        return self._root

    @property
    def is_open(self) -> bool:
        """Whether the value has begun, and may go on."""
        return bool(self._open) and not self.is_broken

    def snapshot(self) -> object:
        """What there is so far, never to change again."""
        copies = [container.copy() for container in self._open]
        for outer, slot, inner in zip(copies, self._slots, copies[1:], strict=False):
            outer[slot] = inner
        return copies[0] if copies else self._root

    def feed(self, text: str) -> bool:
        """Read a piece of any size. Whether the value is another one than before."""
        self._changed = False
        at, end = 0, len(text)
        while at < end:
            at = self._step(self, text, at)
        if self._in_text:
            self._grow()
        return self._changed

    # Each step reads from a place on, sets the next one, and returns where that goes on.

    def _seek(self, text: str, at: int) -> int:
        found = self._opening.search(text, at)
        return self._descend(text[found.start()], found.end()) if found else len(text)

    def _pass_over(self, text: str, at: int) -> int:
        return len(text)

    def _first_value(self, text: str, at: int) -> int:
        at = _after_blanks(text, at)
        if text[at : at + 1] == "]":
            return self._ascend(at + 1)
        return self._next_value(text, at)

    def _next_value(self, text: str, at: int) -> int:
        at = _after_blanks(text, at)
        sign = text[at : at + 1]
        if not sign:
            return at
        if sign in "{[":
            return self._descend(sign, at + 1)
        if sign == '"':
            self._put("")
            self._in_text, self._step = True, PartialJSON._string
            return at + 1
        if sign not in "-0123456789tfn":
            return self._broken(at)
        self._step = PartialJSON._literal if sign in _LITERALS else PartialJSON._number
        return at

    def _first_key(self, text: str, at: int) -> int:
        at = _after_blanks(text, at)
        if text[at : at + 1] == "}":
            return self._ascend(at + 1)
        return self._next_key(text, at)

    def _next_key(self, text: str, at: int) -> int:
        at = _after_blanks(text, at)
        if text[at : at + 1] not in ('"', ""):
            return self._broken(at)
        if at < len(text):
            self._step = PartialJSON._string
        return at + 1

    def _colon(self, text: str, at: int) -> int:
        at = _after_blanks(text, at)
        if text[at : at + 1] not in (":", ""):
            return self._broken(at)
        if at < len(text):
            self._step = PartialJSON._next_value
        return at + 1

    def _after_value(self, text: str, at: int) -> int:
        at = _after_blanks(text, at)
        sign, in_list = text[at : at + 1], self._slots[-1] == _LAST
        if sign == ",":
            self._step = PartialJSON._next_value if in_list else PartialJSON._next_key
        elif sign and sign == ("]" if in_list else "}"):
            return self._ascend(at + 1)
        elif sign:
            return self._broken(at)
        return at + 1

    def _string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain:
            self._take(plain[0])
            return plain.end()
        if text[at] == '"':
            self._end_string()
        else:
            self._held, self._step = "\\", PartialJSON._escape
        return at + 1

    def _escape(self, text: str, at: int) -> int:
        sign = text[at]
        if self._held == "\\" and sign in _ESCAPES:
            self._take(_ESCAPES[sign])
            self._held, self._step = "", PartialJSON._string
        elif (self._held == "\\" and sign == "u") or (self._held != "\\" and sign in _HEX):
            self._held += sign
            if len(self._held) == len("\\u0000"):
                self._take_code(int(self._held[2:], 16))
                self._held, self._step = "", PartialJSON._string
        else:
            return self._broken(at)
        return at + 1

    def _number(self, text: str, at: int) -> int:
        digits = _DIGITS.match(text, at)
        if digits:
            self._pieces.append(digits[0])
            return digits.end()
        number = _number("".join(self._pieces))
        self._pieces = []
        if number is None:
            return self._broken(at)
        self._put(number)
        self._step = PartialJSON._after_value
        return at

    def _literal(self, text: str, at: int) -> int:
        whole, value = _LITERALS[self._held[:1] or text[at]]
        taken = text[at : at + len(whole) - len(self._held)]
        self._held += taken
        if not whole.startswith(self._held):
            return self._broken(at)
        if self._held == whole:
            self._held = ""
            self._put(value)
            self._step = PartialJSON._after_value
        return at + len(taken)

    # What the steps do to the value.

    def _put(self, value: object) -> None:
        self._begun = True
        self._place(value)

    def _place(self, value: object) -> None:
        self._changed = True
        container = self._open[-1]
        if self._slots[-1] == _LAST:
            cast("list[object]", container).append(value)
        else:
            container[self._slots[-1]] = value

    def _descend(self, sign: str, after: int) -> int:
        if len(self._open) == DEPTH_LIMIT:
            return self._broken(after)
        made: object = {} if sign == "{" else []
        if self._open:
            self._place(made)
        else:
            self._root, self._changed = made, True
        self._open.append(cast("dict[_Slot, object]", made))
        self._slots.append("" if sign == "{" else _LAST)
        self._step = PartialJSON._first_key if sign == "{" else PartialJSON._first_value
        return after

    def _ascend(self, after: int) -> int:
        self._open.pop()
        self._slots.pop()
        self.is_complete = not self._open
        self._step = PartialJSON._after_value if self._open else PartialJSON._pass_over
        return after

    def _take(self, text: str) -> None:
        if self._high:
            self._high = 0
            self._pieces.append(_NOT_A_CHARACTER)
        self._pieces.append(text)

    def _take_code(self, code: int) -> None:
        if self._high and 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((self._high - 0xD800) << 10) + (code - 0xDC00)
            self._high = 0
        if 0xD800 <= code < 0xDC00:
            self._take("")  # of two first halves in a row the former is alone
            self._high = code
        else:
            self._take(_NOT_A_CHARACTER if 0xDC00 <= code < 0xE000 else chr(code))

    def _end_string(self) -> None:
        self._take("")
        if self._in_text:
            self._grow()
            self._in_text, self._step = False, PartialJSON._after_value
        else:
            self._slots[-1] = "".join(self._pieces)
            self._pieces, self._step = [], PartialJSON._colon

    def _grow(self) -> None:
        piece = "".join(self._pieces)
        self._pieces = []
        if piece:
            self._changed = True
            container, slot = self._open[-1], self._slots[-1]
            text = cast(str, container[slot])
            container[slot] = None  # so that nobody else holds the text, and it can grow in place
            text += piece
            container[slot] = text

    def _broken(self, at: int) -> int:
        if self._begun:
            self.is_broken, self._step = True, PartialJSON._pass_over
        else:
            self._begin()
            self._changed = True
        return at


def _after_blanks(text: str, at: int) -> int:
    return cast("re.Match[str]", _BLANKS.match(text, at)).end()


def _number(text: str) -> int | float | None:
    """The number, or `None`: for what is none, or larger than a computer would have it."""
    shape = _NUMBER.fullmatch(text)
    if shape is None:
        return None
    try:
        if shape[1] is shape[2] is None:
            return int(text)
    except ValueError:  # more digits than Python reads
        return None
    number = float(text)
    return number if math.isfinite(number) else None
