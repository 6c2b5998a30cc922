"""The way through a folder of the workspace, for tools that look at all that is in it.

Each folder is opened by its real path and by no link, so that what is swapped meanwhile leads nobody out.
Links are named and not followed. The way ends when there was too much, or when its time is up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from gnomon.errors import InvalidInput
from gnomon.tools._files import Files, is_draft, plainly
from gnomon.tools._ignored import NOBODY_ASKS_FOR, Ignored, is_made_again
from gnomon.tools._path_patterns import PathPattern
from gnomon.tools._searches import Span, counted, some

__all__ = ["Entry", "Walk"]

MOST_NAMES = 200_000
"""How many are looked at, whether they fit or not."""

_LONGEST_RULES = 1 << 18

Kind: TypeAlias = Literal["file", "folder", "link", "other"]


class Entry(NamedTuple):
    place: str
    kind: Kind


class Walk:
    """What lies below a folder and fits, in the order of the paths; `notes` tell what was not looked at.

    The order is always the same for the same files. That of their times would be another in every copy of
    them, and after a restart.
    """

    def __init__(
        self, files: Files, place: str, span: Span, *, pattern: PathPattern | None, ignored: bool
    ) -> None:
        self._files = files
        self._place = place
        self._skipped = 0 if place == "." else len(place) + 1
        self._span = span
        self._pattern = pattern
        self._takes_all = ignored
        self._names_left = MOST_NAMES
        self._locked: list[str] = []
        self._folders_out: list[str] = []
        self._files_out = 0
        self._is_late = False

    def __iter__(self) -> Iterator[Entry]:
        to_do = self._inside(self._place, self._rules_above())
        while to_do:
            if self._span.is_over:
                self._is_late = True
                return
            entry, rules = to_do.pop()
            if self._fits(entry.place):
                yield entry
            if entry.kind == "folder" and self._may_fit_below(entry.place):
                to_do += self._inside(entry.place, rules)

    @property
    def ending(self) -> str:
        """Why it came to its end before all was seen, where that is so."""
        if self._is_late:
            return f"ended after {self._span.seconds:g} s: {_NARROWER}"
        return f"ended after {MOST_NAMES:,} names: {_NARROWER}" if self._names_left <= 0 else ""

    def notes(self) -> list[str]:
        """What is there and was not looked at."""
        out = list(map(_as_folder, sorted(self._folders_out)))
        if self._files_out:
            out.append(counted(self._files_out, "file"))
        notes = [f"left out as ignored: {some(out)}; ignored=true looks there too"] if out else []
        if self._locked:
            locked = some(map(_as_folder, self._locked))
            notes.append(f"{counted(len(self._locked), 'folder')} not entered, cannot be opened: {locked}")
        return notes

    # --- which of them --------------------------------------------------------

    def _fits(self, place: str) -> bool:
        return self._pattern is None or self._pattern.fits(place[self._skipped :])

    def _may_fit_below(self, folder: str) -> bool:
        if self._files.is_of_system(folder):
            return False
        return self._pattern is None or self._pattern.may_fit_below(folder[self._skipped :])

    def _is_left_out(self, entry: Entry, name: str, rules: Ignored) -> bool:
        is_folder = entry.kind == "folder"
        if self._takes_all or self._is_named(name):
            return False
        if is_folder and name in NOBODY_ASKS_FOR:
            return True
        if not (is_folder and is_made_again(name)) and not rules.names(entry.place, is_folder=is_folder):
            return False
        if is_folder:
            self._folders_out.append(entry.place)
        else:
            self._files_out += 1
        return True

    def _is_named(self, name: str) -> bool:
        return self._pattern is not None and name in self._pattern.named

    # --- what is in a folder --------------------------------------------------

    def _inside(self, folder: str, rules: Ignored) -> list[tuple[Entry, Ignored]]:
        """What is in it and leads on, the last one first."""
        found = self._read(folder)
        if not self._takes_all:
            if folder != self._place and self._is_marked(folder, found):
                self._folders_out.append(folder)
                return []
            if ".gitignore" in found:
                rules = self._with_rules_of(folder, rules)
        start = "" if folder == "." else f"{folder}/"
        names = sorted(found, key=lambda name: f"{name}/" if found[name] == "folder" else name, reverse=True)
        entries = [(Entry(start + name, found[name]), name) for name in names]
        return [
            (entry, rules)
            for entry, name in entries
            if self._leads_on(entry) and not self._is_left_out(entry, name, rules)
        ]

    def _leads_on(self, entry: Entry) -> bool:
        return self._fits(entry.place) or (entry.kind == "folder" and self._may_fit_below(entry.place))

    def _read(self, folder: str) -> dict[str, Kind]:
        try:
            opened = self._files.beneath.open(folder, os.O_RDONLY | os.O_DIRECTORY, links=False)
        except (FileNotFoundError, NotADirectoryError):  # gone meanwhile
            return {}
        except (OSError, InvalidInput):
            self._locked.append(folder)
            return {}
        found: dict[str, Kind] = {}
        try:
            with os.scandir(opened) as entries:
                for entry in islice(entries, self._names_left):
                    self._names_left -= 1
                    if not is_draft(entry.name):
                        found[entry.name] = _kind(entry)
        except OSError:
            self._locked.append(folder)
        finally:
            os.close(opened)
        return found

    def _is_marked(self, folder: str, found: dict[str, Kind]) -> bool:
        name = folder.rpartition("/")[2]
        return is_made_again(name, found) and not self._is_named(name)

    # --- .gitignore -------------------------------------------------------------

    def _rules_above(self) -> Ignored:
        rules = Ignored()
        if self._takes_all or self._place == ".":
            return rules
        names = self._place.split("/")
        for depth in range(len(names)):
            rules = self._with_rules_of("/".join(names[:depth]) or ".", rules)
        return rules

    def _with_rules_of(self, folder: str, rules: Ignored) -> Ignored:
        try:
            text = self._files.beneath.read(f"{folder}/.gitignore", limit_bytes=_LONGEST_RULES, links=False)
        except InvalidInput:
            return rules
        return rules if text is None else rules.also(folder, text.decode("utf-8-sig", "surrogateescape"))


_NARROWER = "look in a smaller folder, or for a pattern that begins with one"


def _as_folder(place: str) -> str:
    return f"{plainly(place)}/"


def _kind(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"
