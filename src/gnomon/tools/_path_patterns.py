"""Patterns of paths: `*` and `?` within a name, `**` for any number of folders, `[ab]`, `{a,b}`.

A pattern is compared name by name. `fnmatch` writes an expression for a name that does not try the same thing
twice, and `**` is worked out here: so none of them takes long, whatever a model thinks of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

__all__ = ["PathPattern"]

_MOST_FORMS = 100
_MOST_NAMES = 100


class PathPattern:
    """One pattern. `ValueError` says what is wrong with one that cannot be used."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._forms = [_names(form) for form in _forms(pattern)]

    def fits(self, path: str) -> bool:
        """Whether a path, relative to where the pattern counts from, is one of those."""
        names = path.split("/")
        return any(_fits(form, names) for form in self._forms)

    def __repr__(self) -> str:
        return f"PathPattern({self.pattern!r})"


_Name = re.Pattern[str] | None
"""What a name has to be; `None` is `**`."""


def _forms(pattern: str) -> list[str]:
    """The pattern without braces: one for each choice."""
    done: list[str] = []
    to_do = [pattern]
    while to_do:
        form = to_do.pop()
        found = re.search(r"\{([^{}]*,[^{}]*)\}", form)
        if found is None:
            done.append(form)
        else:
            to_do += [form[: found.start()] + choice + form[found.end() :] for choice in found[1].split(",")]
        if len(done) + len(to_do) > _MOST_FORMS:
            raise ValueError(f"its braces stand for more than {_MOST_FORMS} patterns")
    return done


def _names(form: str) -> list[_Name]:
    names = [name for name in form.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError("it has '..' in it")
    if not names:
        raise ValueError("it is empty")
    if len(names) > _MOST_NAMES:
        raise ValueError(f"it has more than {_MOST_NAMES} names")
    return [None if name == "**" else _name(name) for name in names]


@lru_cache(maxsize=512)
def _name(name: str) -> re.Pattern[str]:
    return re.compile(translate(name))


def _fits(form: Sequence[_Name], names: Sequence[str]) -> bool:
    """Gone through once: `reached` is how many names may have been used up by the pattern so far."""
    reached = {0}
    for wanted in form:
        if wanted is None:
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and wanted.match(names[at])}
        if not reached:
            return False
    return len(names) in reached
