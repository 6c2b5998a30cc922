"""Reading a page of Markdown: its blocks of code, the commands in them, its links."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PYTHON = {"python", "py", "python3"}
SHELL = {"console", "sh", "bash", "shell"}


# --- blocks -----------------------------------------------------------------


class Block(NamedTuple):
    """A fenced block: what language it is in, where its first line stands, why it is not run."""

    language: str
    text: str
    line: int
    excuse: str = ""


_FENCE = re.compile(r"^ *(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)")
_EXCUSE = re.compile(r"^\s*<!-- not run: (?P<reason>\S.*?) -->\s*$")


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    lines = text.splitlines()
    for start, end, language in _fences(lines):
        body = textwrap.dedent("\n".join(lines[start + 1 : end]))
        yield Block(language, body, start + 2, _excuse(lines[:start]))


def to_run(text: str, languages: set[str]) -> list[Block]:
    return [block for block in blocks(text) if block.language in languages and not block.excuse]


def prose(text: str) -> str:
    """The page without its code: neither blocks nor `spans`, but for a span that is the words of a link."""
    lines = text.splitlines()
    inside = {number for start, end, _ in _fences(lines) for number in range(start, end + 1)}
    kept = "\n".join(line for number, line in enumerate(lines) if number not in inside)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"\[`([^`\]]*)`\]", r"[\1]", kept))


def _fences(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Where each block opens and closes, and its language."""
    at = 0
    while at < len(lines):
        start, opened = at, _FENCE.match(lines[at])
        at += 1
        if opened is not None:
            while at < len(lines) and not lines[at].strip().startswith(opened["fence"]):
                at += 1
            yield start, at, opened["language"].lower()
            at += 1


def _excuse(before: list[str]) -> str:
    """The reason in a comment right above, at most one empty line away."""
    above = [line for line in before[-2:] if line.strip()]
    found = _EXCUSE.match(above[-1]) if above else None
    return found["reason"] if found else ""


# --- commands ---------------------------------------------------------------


class Shown(NamedTuple):
    """A command of a page, and the lines that the page says it prints."""

    command: str
    expected: list[str]


_OURS = re.compile(r"^(?:[^|]*\| *)*gnomon(?:\s|$)")


def commands(block: str) -> list[Shown]:
    """The commands of a block that run `gnomon`, each with the lines after it.

    `$ ` marks a command; in a block without any, every line is one.
    """
    marked = bool(re.search(r"^\$ ", block, re.M))
    found: list[Shown] = []
    for line in block.replace("\\\n", " ").splitlines():
        if marked and not line.startswith("$ "):
            if found:
                found[-1].expected.append(line.rstrip())
        else:
            found.append(Shown(line.removeprefix("$ "), []))
    return [shown for shown in found if _OURS.match(shown.command)]


def missing(output: str, expected: list[str]) -> str | None:
    """The first expected line that does not come, in its turn, in the output; `...` stands for anything."""
    at = 0
    for line in expected:
        if not line.strip():
            continue
        pattern = ".*?".join(re.escape(piece) for piece in line.split("..."))
        found = re.compile(rf"^{pattern} *$", re.M | re.S).search(output, at)
        if found is None:
            return line
        at = found.end() if line.strip() != "..." else at
    return None


def complaint(shown: Shown, code: int, output: str) -> str | None:
    """What is wrong with what a command did, if anything."""
    if "Traceback (most recent call last)" in output:
        return "it printed a traceback"
    if code != 0 and not any(line.strip() for line in shown.expected):
        return f"it ended with {code}, and the page does not show why"
    absent = missing(output, shown.expected)
    return f"it did not print {absent!r}" if absent is not None else None


# --- links ------------------------------------------------------------------

_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)")
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.I)


def dead_links(page: Path, root: Path) -> list[str]:
    """The links of a page to files, or headings in them, that are not in the repository."""
    found = _LINK.findall(prose(page.read_text("utf-8")))
    return [link for link in found if not _ELSEWHERE.match(link) and not _leads_somewhere(link, page, root)]


def _leads_somewhere(link: str, page: Path, root: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(root.resolve()):
        return False
    return not anchor or target.suffix != ".md" or anchor in anchors(target.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in a link."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
