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

_LONGEST = 4_000
"""In characters. The end of a bracket or a brace that has none is looked for from each of them anew."""

_MOST_FORMS = 100
_MOST_NAMES = 100


class PathPattern:
    """One pattern. `ValueError` says what is wrong with one that cannot be used.

    Without `braces` they are characters like others.
    """

    def __init__(self, pattern: str, *, braces: bool = True) -> None:
        if len(pattern) > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST:,} characters")
        self.pattern = pattern
        written = [_written(form) for form in (_forms(pattern) if braces else [pattern])]
        self._forms = [[None if name == "**" else _name(name) for name in names] for names in written]
        self.named = frozenset(name for names in written for name in names if not _WILD.search(name))
        """The names that it has in full."""
        self.starts = _without_inner({_start(names) for names in written})
        """The folders below which all lies that fits."""

    def fits(self, path: str) -> bool:
        """Whether a path, relative to where the pattern counts from, is one of those."""
        names = path.split("/")
        return any(_fits(form, names) for form in self._forms)

    def may_fit_below(self, folder: str) -> bool:
        """Whether what lies in a folder may be one of those."""
        names = folder.split("/")
        return any(_leads_on(form, names) for form in self._forms)

    def __repr__(self) -> str:
        return f"PathPattern({self.pattern!r})"


_Name = re.Pattern[str] | None
"""What a name has to be; `None` is `**`."""

_WILD = re.compile(r"[*?\[]")


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


def _written(form: str) -> list[str]:
    names = [name for name in form.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError("it has '..' in it")
    if not names:
        raise ValueError("it is empty")
    if len(names) > _MOST_NAMES:
        raise ValueError(f"it has more than {_MOST_NAMES} names")
    return names


def _start(names: Sequence[str]) -> str:
    """The folder that the pattern names before anything else, but for its last name."""
    wild = next((at for at, name in enumerate(names) if _WILD.search(name)), len(names))
    return "/".join(names[: min(wild, len(names) - 1)]) or "."


def _without_inner(folders: set[str]) -> tuple[str, ...]:
    """The folders that lie in none of the others."""
    if "." in folders:
        return (".",)
    return tuple(
        folder for folder in sorted(folders) if not any(folder.startswith(f"{other}/") for other in folders)
    )


@lru_cache(maxsize=512)
def _name(name: str) -> re.Pattern[str]:
    return re.compile(translate(name))


def _fits(form: Sequence[_Name], names: Sequence[str]) -> bool:
    """Gone through once: `reached` is how many names may have been used up by the pattern so far."""
    reached = {0}
    for wanted in form:
        reached = _after(wanted, reached, names)
        if not reached:
            return False
    return len(names) in reached


def _leads_on(form: Sequence[_Name], names: Sequence[str]) -> bool:
    """The same: whether all names may have been used up while there is more of the pattern."""
    reached = {0}
    for wanted in form:
        if len(names) in reached:
            return True
        reached = _after(wanted, reached, names)
        if not reached:
            return False
    return form[-1] is None


def _after(wanted: _Name, reached: set[int], names: Sequence[str]) -> set[int]:
    if wanted is None:
        return set(range(min(reached), len(names) + 1))
    return {at + 1 for at in reached if at < len(names) and wanted.match(names[at])}
