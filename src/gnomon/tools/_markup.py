"""HTML as tags and text, in one pass: no page, however broken, takes longer than its length asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import NamedTuple, TypeAlias

__all__ = ["Piece", "Tag", "pieces"]


class Tag(NamedTuple):
    """`<name …>`, or `</name>` where it closes."""

    name: str
    closes: bool
    attributes: Mapping[str, str]


Piece: TypeAlias = Tag | str

_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_SPACE = re.compile(r"[\s/]*")
_ATTRIBUTE = re.compile(r"""([^\s/>=][^\s/>=]*)\s*(?:=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*)))?""")
_NOT_SHOWN = frozenset({"script", "style", "iframe", "noembed", "noframes", "xmp", "template"})
_PLAIN = frozenset({"title", "textarea"})
"""Elements that hold text and no tags."""


def pieces(page: str) -> Iterator[Piece]:
    """Tags and text in their order, without scripts, styles, comments, and what is never closed of them."""
    place, end = 0, len(page)
    while place < end:
        start = page.find("<", place)
        if start < 0:
            yield unescape(page[place:])
            return
        if start > place:
            yield unescape(page[place:start])
        found = _NAME.match(page, start)
        if found is not None:
            tag, place = _tag(page, found)
            yield tag
            if not tag.closes and (tag.name in _NOT_SHOWN or tag.name in _PLAIN):
                close = _closing(page, tag.name, place)
                if tag.name in _PLAIN:
                    yield unescape(page[place:close])
                place = close
        elif page.startswith(("<!", "<?", "</"), start):
            place = _passed_by(page, start)
        else:
            yield "<"
            place = start + 1


def _tag(page: str, found: re.Match[str]) -> tuple[Tag, int]:
    """The tag that begins there, and where it ends."""
    attributes: dict[str, str] = {}
    place = found.end()
    while True:
        place = _end(_SPACE.match(page, place), place)
        attribute = _ATTRIBUTE.match(page, place)
        if attribute is None:
            break
        name, double, single, bare = attribute.groups()
        attributes.setdefault(name.lower(), unescape(double or single or bare or ""))
        place = attribute.end()
    closes = page.startswith("</", found.start())
    # Here is a ">", a "=" that belongs to nothing, or the end of the page.
    place = page.find(">", place)
    return Tag(found[1].lower(), closes, attributes), place + 1 if place >= 0 else len(page)


def _end(found: re.Match[str] | None, place: int) -> int:
    return found.end() if found is not None else place


def _closing(page: str, name: str, place: int) -> int:
    """Where `</name` stands; the end of the page, where it does not."""
    found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(page, place)
    return found.start() if found is not None else len(page)


def _passed_by(page: str, start: int) -> int:
    """Where a comment ends, or whatever else is not for readers."""
    mark = "-->" if page.startswith("<!--", start) else ">"
    end = page.find(mark, start + 2)
    return end + len(mark) if end >= 0 else len(page)
