"""A docstring as what a model is told: a description, and help for each parameter.

Read are the sections of Google and of NumPy, the fields of Sphinx, and plain `name: what it is` lines. What
a call gives back stays in the description, since a model can use it. What a function raises, and examples
that are typed at a Python prompt, are for programmers and are left out. One pass over the lines, no
backtracking: a docstring may come from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Docstring", "parse_docstring"]

_Kind: TypeAlias = Literal["parameters", "kept", "dropped", "examples"]

_SECTIONS: dict[str, _Kind] = {
    **dict.fromkeys(("args", "arguments", "params", "parameters", "other parameters"), "parameters"),
    **dict.fromkeys(("keyword args", "keyword arguments"), "parameters"),
    **dict.fromkeys(("return", "returns", "yield", "yields"), "kept"),
    **dict.fromkeys(("note", "notes", "warning", "warnings"), "kept"),
    **dict.fromkeys(("raise", "raises", "warns", "receives", "except", "exceptions"), "dropped"),
    **dict.fromkeys(("see also", "references", "attributes", "methods"), "dropped"),
    **dict.fromkeys(("example", "examples"), "examples"),
}
_LONGEST_HEADING = max(map(len, _SECTIONS))

_HELP_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_RESULT_FIELDS = {"return": "Returns", "returns": "Returns", "yield": "Yields", "yields": "Yields"}
_DROPPED_FIELDS = frozenset(
    {"type", "rtype", "raise", "raises", "except", "exception", "var", "ivar", "cvar", "vartype", "meta"}
)

_NAME = re.compile(r"\*{0,2}(\w+)")


class Docstring(NamedTuple):
    description: str
    parameters: dict[str, str]


def parse_docstring(text: str, names: Collection[str]) -> Docstring:
    """What a docstring, with its indentation taken off, says of a function with these parameters."""
    reader = _Reader(text.splitlines(), names)
    reader.read()
    found = {name: " ".join(filter(None, words)) for name, words in reader.found.items() if any(words)}
    return Docstring(_without_gaps(reader.kept), found)


class _Reader:
    """Goes down the lines once; each method takes what is its own, and leaves `at` behind it."""

    def __init__(self, lines: list[str], names: Collection[str]) -> None:
        self.lines = lines
        self.names = frozenset(names)
        self.at = 0
        self.kept: list[str] = []
        self.found: dict[str, list[str]] = {}

    def read(self) -> None:
        while self.at < len(self.lines):
            if not (self._underlined_section() or self._section() or self._field() or self._plain_help()):
                self.kept.append(self.lines[self.at].rstrip())
                self.at += 1

    # --- Google: a heading with a colon, and what stands deeper

    def _section(self) -> bool:
        line = self.lines[self.at]
        kind = _heading(line, ":")
        if kind is None:
            return self._raises_in_a_line()
        self.at += 1
        block = self._deeper(_depth(line))
        if kind == "parameters":
            self._entries(block)
        elif _is_for_a_model(kind, block):
            self.kept += [line.rstrip(), *(below.rstrip() for below in block)]
        return True

    def _raises_in_a_line(self) -> bool:
        line = self.lines[self.at]
        if not line.lstrip().startswith("Raises: ") or "Raises" in self.names:
            return False
        self.at += 1
        self._deeper(_depth(line))
        return True

    def _entries(self, block: list[str]) -> None:
        """`name (type): help`, with what stands deeper, or is no entry, as more of the same."""
        first = next((_depth(line) for line in block if line.strip()), 0)
        words: list[str] = []
        for line in block:
            entry = _entry(line) if _depth(line) <= first else None
            if entry is not None:
                words = self._help_for(entry[0])
                words.append(entry[1])
            elif line.strip():
                words.append(line.strip())

    # --- NumPy: a heading with a line under it, up to the next one

    def _underlined_section(self) -> bool:
        if not self._is_underlined(self.at):
            return False
        heading = self.lines[self.at].strip()
        kind = _heading(heading, "")
        if kind is None:
            return False
        depth = _depth(self.lines[self.at])
        self.at += 2
        if kind == "parameters":
            self._underlined_entries(depth)
            return True
        start = self.at
        while self.at < len(self.lines) and not self._is_underlined(self.at):
            self.at += 1
        block = self.lines[start : self.at]
        if _is_for_a_model(kind, block):
            self.kept += [f"{heading}:", *(below.rstrip() for below in block)]
        return True

    def _underlined_entries(self, depth: int) -> None:
        """`name : type` or `one, other`, each with its help below it and deeper."""
        words: list[str] = []
        while self.at < len(self.lines) and not self._is_underlined(self.at):
            line = self.lines[self.at]
            if line.strip() and _depth(line) <= depth:
                names = _listed_names(line)
                if not names:
                    return  # prose: the section is over
                words = self._shared_help(names)
            elif line.strip():
                words.append(line.strip())
            self.at += 1

    def _shared_help(self, names: list[str]) -> list[str]:
        words: list[str] = []
        for name in names:
            if name in self.names:
                self.found[name] = words
        return words

    def _is_underlined(self, at: int) -> bool:
        if at + 1 >= len(self.lines) or not self.lines[at].strip():
            return False
        below = self.lines[at + 1].strip()
        return len(below) >= 3 and below.strip(below[0]) == "" and below[0] in "-="

    # --- Sphinx: `:param name: help`

    def _field(self) -> bool:
        line = self.lines[self.at]
        field, colon, text = line.strip()[1:].partition(":")
        role, *rest = field.split() or [""]
        if not line.lstrip().startswith(":") or not colon:
            return False
        if not (rest and role in _HELP_FIELDS) and role not in _RESULT_FIELDS and role not in _DROPPED_FIELDS:
            return False
        self.at += 1
        words = [piece for piece in (text.strip(), *map(str.strip, self._deeper(_depth(line)))) if piece]
        if role in _HELP_FIELDS:
            self._help_for(rest[-1].lstrip("*")).extend(words)
        elif role in _RESULT_FIELDS and words:
            self.kept.append(f"{_RESULT_FIELDS[role]}: {' '.join(words)}")
        return True

    # --- plain: `name: help`, for the names of parameters only

    def _plain_help(self) -> bool:
        line = self.lines[self.at]
        entry = _entry(line)
        if entry is None or not entry[1] or entry[0] not in self.names:
            return False
        self.at += 1
        words = self._help_for(entry[0])
        words.append(entry[1])
        while self.at < len(self.lines):
            below = self.lines[self.at]
            if _depth(below) <= _depth(line):
                break
            words.append(below.strip())
            self.at += 1
        return True

    # --- for all of them

    def _help_for(self, name: str) -> list[str]:
        """Where the words about a parameter go; those about something else go nowhere."""
        words: list[str] = []
        if name in self.names:
            self.found[name] = words
        return words

    def _deeper(self, depth: int) -> list[str]:
        """The lines from here that stand deeper, with the empty ones between them."""
        start = end = self.at
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip():
                if _depth(line) <= depth:
                    break
                end = self.at + 1
            self.at += 1
        self.at = end
        return self.lines[start:end]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _heading(line: str, end: str) -> _Kind | None:
    title = line.strip()
    if len(title) > _LONGEST_HEADING + len(end) or not title.endswith(end):
        return None
    return _SECTIONS.get(title.removesuffix(end).lower())


def _is_for_a_model(kind: _Kind, block: list[str]) -> bool:
    if kind == "examples":
        return not any(line.lstrip().startswith(">>>") for line in block)
    return kind == "kept"


def _entry(line: str) -> tuple[str, str] | None:
    """The name and the help of `name: help` or `name (type): help`."""
    text = line.strip()
    name = _NAME.match(text)
    if name is None:
        return None
    rest = _after_brackets(text[name.end() :].lstrip())
    if not rest.startswith(":") or rest[1:2].strip():
        return None
    return name[1], rest[1:].strip()


def _after_brackets(text: str) -> str:
    """What follows a type in brackets, which may hold colons and brackets of its own."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[at + 1 :].lstrip()
    return ""


def _listed_names(line: str) -> list[str]:
    """The names of `one, other : type`; none when the line is prose."""
    matches = [_NAME.fullmatch(name.strip()) for name in line.partition(":")[0].split(",")]
    return [match[1] for match in matches if match] if all(matches) else []


def _without_gaps(lines: list[str]) -> str:
    """The lines, with no more than one empty line where something was taken out."""
    kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
    return "\n".join(kept).strip()
