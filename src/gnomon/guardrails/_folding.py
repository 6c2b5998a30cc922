"""Texts as a reader takes them: without case, accents, width, look-alikes and what cannot be seen.

`seen` is for looking whether a word is there at all, and is fast. `Folded` is the same text with
the way back: where each of its characters stands in the text it was made from.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from unicodedata import category, normalize

__all__ = [
    "GAP",
    "HIDDEN",
    "RUN",
    "SPACED",
    "WORD",
    "Folded",
    "closed_up",
    "fold",
    "is_veiled",
    "seen",
    "unveiled",
]

HIDDEN = 6
"""How many characters that cannot be seen may follow a letter. More of them hide something."""

GAP = 8
"""How far two words of a term may stand apart."""

# Control characters; those that Unicode calls ignorable (joiners, marks of direction, fillers,
# variation selectors, tags); and the combining marks that are made for any script. The marks
# of one script are letters to whoever reads it, and stay.
_UNSEEN = (
    "\x00-\x08\x0e-\x1b\x7f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u0300-\u034e\u0350-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_ANY_UNSEEN = re.compile(f"[{_UNSEEN}]+")
_FEW_UNSEEN = re.compile(f"(?<![{_UNSEEN}])[{_UNSEEN}]{{1,{HIDDEN}}}+(?![{_UNSEEN}])")
_MANY_UNSEEN = re.compile(f"[{_UNSEEN}]{{{HIDDEN + 1}}}")
_VEIL = re.compile(f"(?<=[^\\W_]){_MANY_UNSEEN.pattern}")

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uaa60-\uaadf\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts that put no spaces between words: each of their characters is a word of its own."""
_SIGNS = "".join(
    chr(code)
    for code in (*range(0x0590, 0x10A0), *range(0x1780, 0x1800), 0x3099, 0x309A)
    if category(chr(code)).startswith("M")
)
"""Vowel signs and the like, from Hebrew to Khmer, and the sounds of kana: part of the letter before them."""

SPACED = re.compile(f"(?:[^\\W_{_UNSPACED}]++[{_SIGNS}]*+)++")
RUN = re.compile(f"[{_UNSPACED}]+")
WORD = re.compile(f"[{_UNSPACED}][{_SIGNS}]*+|{SPACED.pattern}")
_BETWEEN = re.compile(f"[\\s_\\-{_UNSEEN}]+")

# Letters of other alphabets that look like Latin ones, whether they are large or small.
_OTHERS, _LATIN = "аеорсухіјѕһԁԛԝӏοϲϳ", "aeopcyxijshdqwlocj"
_LOOK_ALIKE = str.maketrans(_OTHERS, _LATIN)
_HAS_LOOK_ALIKE = re.compile(f"[{_OTHERS}]")
_DASH = re.compile("[\u2010-\u2015\u2212\u2e3a\u2e3b]")

# What is folded at one go: plain text, or a character with the unseen ones that belong to it.
_PIECE = re.compile(f"([\t-\r\x1c-~\u4e00-\u9fff]+)(?![{_UNSEEN}])|[\\s\\S][{_UNSEEN}]*+")


class Folded:
    """A folded text, and where each of its characters stands in the text it was made from."""

    def __init__(self, text: str) -> None:
        pieces = list[str]()
        self._at, self._spans = list[int](), list[tuple[int, int, bool]]()
        known = dict[str, str]()
        at = 0
        for piece in _PIECE.finditer(text):
            pieces.append(piece[0].lower() if piece[1] else _known(piece[0], known))
            self._at.append(at)
            self._spans.append((*piece.span(), bool(piece[1])))
            at += len(pieces[-1])
        self.text = "".join(pieces)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place in the first text of what goes from here to there in the folded one."""
        first, begin = self._piece(start)
        last, finish = self._piece(end - 1)
        return (
            first[0] + begin if first[2] else first[0],
            last[0] + finish + 1 if last[2] else last[1],
        )

    def _piece(self, place: int) -> tuple[tuple[int, int, bool], int]:
        number = bisect_right(self._at, place) - 1
        return self._spans[number], place - self._at[number]


def _known(piece: str, known: dict[str, str]) -> str:
    found = known.get(piece)
    if found is None:
        found = known[piece] = fold(piece)
    return found


def fold(text: str) -> str:
    """The text in the form in which it is compared. Where too much is unseen, it is left in."""
    return seen(text) or _FEW_UNSEEN.sub("", _plain(text))


def seen(text: str) -> str | None:
    """The folded text; `None` when so much is unseen in one place that something may be hidden there."""
    plain = _plain(text)
    if _ANY_UNSEEN.search(plain) is None:
        return plain
    return None if _MANY_UNSEEN.search(plain) else _ANY_UNSEEN.sub("", plain)


def is_veiled(text: str) -> bool:
    """Whether a letter is followed by more unseen characters than any script puts there."""
    return _VEIL.search(_plain(text)) is not None


def unveiled(text: str) -> str:
    """The text without the unseen characters where they are too many."""
    return _PIECE.sub(_unveiled_piece, text)


def _unveiled_piece(piece: re.Match[str]) -> str:
    return piece[0][:1] if not piece[1] and is_veiled(piece[0]) else piece[0]


def closed_up(between: str) -> str:
    """What stands between two words, as it is compared: spaces, hyphens and the unseen are one space."""
    return between if between in ("", " ") else _BETWEEN.sub(" ", between)


def _plain(text: str) -> str:
    plain = normalize("NFKD", text).casefold()
    if plain.isascii():
        return plain
    if _HAS_LOOK_ALIKE.search(plain):
        plain = plain.translate(_LOOK_ALIKE)
    return _DASH.sub("-", plain)
