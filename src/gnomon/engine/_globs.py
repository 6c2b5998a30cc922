"""Patterns for texts and paths: `*` and `?` stay within a `/`, `**` goes beyond, a backslash takes literally.

A text is compared in two ways. Strictly, for what allows: in every way it may be read, it
must fit. Widely, for what forbids: it is enough that it fits in one. So `src/**` never lets
`src/../etc` pass, and a rule against `secrets/**` also catches `/work/Secrets/key`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "check_pattern",
    "escaped",
    "fits",
    "fits_all_below",
    "fits_name",
    "fits_word",
    "has_wildcard",
    "may_fit_below",
]

_NAME_SIGN = re.compile(r"\*+|\?|\\.|[^*?\\]", re.DOTALL)
_SIGN = re.compile(r"(?<![^/])\*\*+/|" + _NAME_SIGN.pattern, re.DOTALL)
_WRONG_ESCAPE = re.compile(r"(?:[^\\]|\\[*?\\])*+(\\)", re.DOTALL)
_ELSEWHERE = re.compile(r"[/\\~]|[A-Za-z]:")
"""How a path begins that does not start from the working folder."""
_PATTERN_ELSEWHERE = re.compile(r"[/~]|\\\\|[A-Za-z]:")
_UP = re.compile(r"(?:\.\.(?:/|\Z))*")
_UP_WITHIN = re.compile(r"(?<![^/=:,])\.\.(?![^/])")
_ELSEWHERE_WITHIN = re.compile(r"(?<![^=:,])[/~]")
_ENDS_BEYOND = re.compile(r"(?<![*\\])\*\*+\Z")
_WILDCARD = re.compile(r"(?:[^\\*?]|\\.)*+[*?]", re.DOTALL)


def check_pattern(pattern: str) -> None:
    """Raises `ValueError` for a pattern that could not mean what it says."""
    wrong = _WRONG_ESCAPE.match(pattern)
    if wrong:
        raise ValueError(
            f"in the pattern {pattern!r} the backslash at {wrong.start(1)} stands before no * ? or \\"
        )
    if _tidied(pattern)[1]:
        raise ValueError(f"the pattern {pattern!r} goes up again with '..': write the path that is meant")
    if len(pattern) > 1 and pattern.endswith("/"):
        raise ValueError(
            f"the pattern {pattern!r} ends in '/': write {pattern + '**'!r} for what is in there"
        )


def escaped(text: str) -> str:
    """The pattern that only this text fits."""
    return re.sub(r"([*?\\])", r"\\\1", text)


def fits_name(pattern: str, name: str) -> bool:
    """Whether a name fits; a name has no parts, so that `*` is any text."""
    return pattern == name or _compiled(pattern, _NAME_SIGN).covers(name, separator="")


def fits(pattern: str, text: str, *, widely: bool) -> bool:
    """Whether a text fits; `widely` in any way it may be read, else in every one."""
    if pattern == escaped(text):
        return True
    pattern = _tidied(pattern)[0]
    if widely:
        return any(_fits_widely(pattern, reading) for reading in _readings(text))
    return all(_fits_strictly(pattern, reading) for reading in _readings(text))


def fits_word(pattern: str, word: str, *, widely: bool) -> bool:
    """Whether a word of a command fits, which may be a path, or have one behind `--option=`."""
    if pattern == escaped(word):
        return True
    if widely:
        return fits(pattern, word, widely=True)
    if not _compiled(pattern).covers(word, printable=True):
        return False
    names_root = _ELSEWHERE_WITHIN.search(pattern) is not None
    return not any(
        _UP_WITHIN.search(reading) or (_ELSEWHERE_WITHIN.search(reading) and not names_root)
        for reading in _readings(word)
    )


def fits_all_below(pattern: str, folder: str) -> bool:
    """Whether all that may be in a folder fits, in every way its path may be read."""
    pattern = _tidied(pattern)[0]
    if not _ENDS_BEYOND.search(pattern):
        return False
    return all(_fits_strictly(pattern, reading, is_folder=True) for reading in _readings(folder))


def may_fit_below(pattern: str, folder: str) -> bool:
    """Whether something in a folder might fit, in any way its path may be read."""
    pattern = _tidied(pattern)[0]
    return any(_begins_widely(pattern, reading) for reading in _readings(folder))


def has_wildcard(pattern: str) -> bool:
    return _WILDCARD.match(pattern) is not None


def _readings(text: str) -> Iterator[str]:
    """As it stands, as a Windows path, and as an address with escapes."""
    yield text
    if "\\" in text:
        yield text.replace("\\", "/")
    if "%" in text:
        from urllib.parse import unquote

        yield unquote(text).replace("\\", "/")


def _fits_strictly(pattern: str, text: str, *, is_folder: bool = False) -> bool:
    tidy, climbs = _tidied(text)
    # Behind a name '..' need not lead back: the name may be a link to anywhere.
    if climbs or _steps_up(tidy) != _steps_up(pattern):
        return False
    # No wildcard stands for the root, a home or a drive.
    if _ELSEWHERE.match(tidy) and not _PATTERN_ELSEWHERE.match(pattern):
        return False
    return _compiled(pattern).covers(_below(tidy) if is_folder else tidy, printable=True)


def _fits_widely(pattern: str, text: str) -> bool:
    tidy, _ = _tidied(text)
    if not _PATTERN_ELSEWHERE.match(pattern) and (_ELSEWHERE.match(tidy) or _steps_up(tidy)):
        pattern = "**/" + pattern  # nobody knows here where that leads: perhaps to the working folder
    # A rule about all in a folder is also about the folder.
    forms = {text, tidy, tidy + "/"}
    folded = _compiled(_folded(pattern))
    plain = _compiled(pattern)
    return any(plain.covers(form) or folded.covers(_folded(form)) for form in forms)


def _begins_widely(pattern: str, folder: str) -> bool:
    tidy, _ = _tidied(folder)
    is_elsewhere = bool(_ELSEWHERE.match(tidy) or _steps_up(tidy))
    if not _PATTERN_ELSEWHERE.match(pattern):
        pattern = "**/" + pattern if is_elsewhere else pattern
    elif not is_elsewhere:
        return False
    start = _below(tidy)
    return _compiled(pattern).begins(start) or _compiled(_folded(pattern)).begins(_folded(start))


def _below(tidy: str) -> str:
    """How the paths begin of what is in a folder."""
    return tidy if tidy in ("", "/") else f"{tidy}/"


def _folded(text: str) -> str:
    """As a file system compares that takes no notice of case and of how an accent is written."""
    from unicodedata import normalize

    return normalize("NFC", normalize("NFD", text).casefold())


def _steps_up(path: str) -> int:
    found = _UP.match(path)
    return found.group().count("..") if found else 0


def _tidied(path: str) -> tuple[str, bool]:
    """A path without '.', '//' and '..', and whether a '..' came after a name."""
    root = "/" if path.startswith("/") else ""
    kept: list[str] = []
    climbs = False
    for part in path.split("/"):
        if part == ".." and (root or (kept and kept[-1] != "..")):
            climbs = True
            kept[-1:] = []
        elif part not in ("", "."):
            kept.append(part)
    return root + "/".join(kept), climbs


class _Glob(NamedTuple):
    """A pattern as sets of places in it, one bit for each: time grows with its length, never beyond."""

    last: int
    literal: dict[str, int]
    within: int  # stays while there is no "/": *
    one: int  # goes on over anything but "/": ?
    beyond: int  # stays whatever comes: **
    folders: int  # goes on over "/": **/
    leaps: tuple[tuple[int, int], ...]  # from one place to others, over nothing

    def covers(self, text: str, *, printable: bool = False, separator: str = "/") -> bool:
        """Whether the whole text fits; `printable`: no wildcard stands for a line break or the like."""
        return bool(self._after(text, printable=printable, separator=separator) & self.last)

    def begins(self, text: str) -> bool:
        """Whether there are texts that fit and begin with this one."""
        return bool(self._after(text, printable=False, separator="/"))

    def _after(self, text: str, *, printable: bool, separator: str) -> int:
        """The places that may be reached with the text."""
        places = self._with_leaps(1)
        for sign in text:
            after = (places & self.literal.get(sign, 0)) << 1
            if not printable or sign.isprintable():
                after |= places & self.beyond
                if sign == separator:
                    after |= (places & self.folders) << 1
                else:
                    after |= places & self.within | (places & self.one) << 1
            if not after:
                return 0
            places = self._with_leaps(after)
        return places

    def _with_leaps(self, places: int) -> int:
        for start, targets in self.leaps:
            if places & start:
                places |= targets
        return places


@lru_cache(maxsize=512)
def _compiled(pattern: str, signs: re.Pattern[str] = _SIGN) -> _Glob:
    literal: dict[str, int] = {}
    within = one = beyond = folders = 0
    leaps: list[tuple[int, int]] = []
    here = 1
    for sign in signs.findall(pattern):
        if sign[0] == "*":
            leaps.append((here, here << 1))
            if sign[-1] == "/":
                leaps[-1] = (here, here << 1 | here << 2)
                here <<= 1
                folders |= here
                beyond |= here
            elif len(sign) > 1:
                beyond |= here
            else:
                within |= here
        elif sign == "?":
            one |= here
        else:
            literal[sign[-1]] = literal.get(sign[-1], 0) | here
        here <<= 1
    return _Glob(here, literal, within, one, beyond, folders, tuple(leaps))
