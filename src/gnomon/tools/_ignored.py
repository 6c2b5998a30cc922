"""What a search leaves out unless it is asked for: what `.gitignore` names, what programs make again.

`.gitignore` is read as git does, in every folder of the workspace on the way. What git has been told
elsewhere, and what it keeps although a pattern names it, is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import translate
from typing import NamedTuple, Self

from gnomon.tools._path_patterns import PathPattern

__all__ = ["NOBODY_ASKS_FOR", "Ignored", "is_made_again"]

NOBODY_ASKS_FOR = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", "__pycache__"})
"""Left out without a word."""

_MADE_AGAIN = frozenset({"node_modules", ".venv", ".tox", ".nox"})
_MARKS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
"""Files by which a cache and a virtual environment of Python are known, whatever they are called."""

_MOST_RULES = 2_000
_LONGEST_RULE = 1_000


def is_made_again(name: str, there: Collection[str] = ()) -> bool:
    """Whether a folder, by its name or by what is in it, holds what a program has put there by itself."""
    return name in _MADE_AGAIN or not _MARKS.isdisjoint(there)


class Ignored:
    """What the `.gitignore` files name that lie in a folder, and in those above it."""

    def __init__(self, levels: tuple[_Level, ...] = ()) -> None:
        self._levels = levels

    def also(self, folder: str, text: str) -> Self:
        """The same, with the file of a folder that lies deeper."""
        rules = [rule for line in text.split("\n")[:_MOST_RULES] if (rule := _rule(line)) is not None]
        if not rules:
            return self
        start = "" if folder == "." else f"{folder}/"
        return type(self)((_Level(start, rules), *self._levels))

    def names(self, place: str, *, is_folder: bool) -> bool:
        for level in self._levels:
            found = level.verdict(place, is_folder)
            if found is not None:
                return found
        return False


class _Rule(NamedTuple):
    """One line of the file: about a name at any depth, or about a path."""

    name: re.Pattern[str] | None
    path: PathPattern | None
    is_taken_back: bool
    folders_only: bool


class _Level:
    """The rules of one file. The last one that fits counts."""

    def __init__(self, start: str, rules: list[_Rule]) -> None:
        self._start = start
        self._rules = rules[::-1]
        self._paths = [rule for rule in self._rules if rule.path is not None]
        # Most rules are about names, and most names are in none of them: one look tells.
        names = [rule.name.pattern for rule in rules if rule.name is not None]
        self._names = re.compile("|".join(names) or r"(?!)")

    def verdict(self, place: str, is_folder: bool) -> bool | None:
        path = place[len(self._start) :]
        name = path.rpartition("/")[2]
        for rule in self._rules if self._names.match(name) else self._paths:
            if rule.folders_only and not is_folder:
                continue
            if rule.path.fits(path) if rule.path is not None else rule.name and rule.name.match(name):
                return not rule.is_taken_back
        return None


def _rule(line: str) -> _Rule | None:
    text = _trimmed(line)
    if not text or text.startswith("#") or len(text) > _LONGEST_RULE:
        return None
    is_taken_back = text.startswith("!")
    text = text[1:] if is_taken_back else text
    folders_only = text.endswith("/")
    text = _with_classes(text[:-1] if folders_only else text)
    if not text:
        return None
    if "/" not in text:
        return _Rule(re.compile(translate(text)), None, is_taken_back, folders_only)
    if not {"", ".", ".."}.isdisjoint(text.removeprefix("/").split("/")):
        return None  # no path of git's is written so
    if text.endswith("/**"):
        text += "/*"  # all that is in there, and not the folder itself
    try:
        return _Rule(None, PathPattern(text, braces=False), is_taken_back, folders_only)
    except ValueError:
        return None


def _trimmed(line: str) -> str:
    text = line.removesuffix("\r")
    found = text.rstrip(" ")
    return f"{found} " if found.endswith("\\") and found != text else found


def _with_classes(text: str) -> str:
    """With classes for what is taken literally: patterns here have no backslash."""
    text = text.replace("[^", "[!")
    return re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], text)
