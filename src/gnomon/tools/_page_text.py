"""A page of the web as a model reads it: its text with headings, lists, tables and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urljoin

from gnomon.tools._markup import Tag, pieces

__all__ = ["page_text"]

_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GAPS = _words(
    "p div section article header footer nav main aside dl table form fieldset figure figcaption "
    "blockquote address details summary body"
)
_LINES = _words("tr dt dd option caption legend thead tbody tfoot")
_CELLS = _words("td th")
_BLOCKS = _GAPS | _LINES | _HEADINGS.keys() | _words("hr li ol pre ul")
_VOID = _words("area base br col embed hr img input link meta source track wbr")
_LEFT_OUT = _words("svg math object audio video canvas select datalist")
_NEVER_HIDDEN = _words("html body")
"""Pages that hide themselves until a script has run show themselves in the end."""

_CLOSED_BY_OTHERS = _words("p li tr td th dt dd option thead tbody tfoot caption")
"""What needs no closing tag of its own."""

_UNSEEN = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_LONGEST_LINK = 2_000
_DEEPEST_LIST = 8


def page_text(page: str, url: str) -> str:
    """The text of a page that was found at this address. What is hidden from readers is left out."""
    reading = _Reading(url)
    for piece in pieces(page):
        if isinstance(piece, Tag):
            reading.tag(piece)
        else:
            reading.text(piece)
    return reading.whole()


class _Reading:
    def __init__(self, url: str) -> None:
        self._url = url
        self._lines: list[str] = []
        self._line: list[str] = []
        self._has_words = False
        """Whether there is more than space in the line."""
        self._prefix = ""
        """What the next line that is shown begins with, and whether a line is left empty before it."""
        self._gap = False
        self._title = ""
        self._in_title = False
        self._lists = 0
        self._preformatted = 0
        self._link: tuple[str, int, int] | None = None
        """Where an open link leads, and the line and the place in it where its text begins."""
        self._hidden = ""
        """The element that is left out, and how often it stands in itself."""
        self._depth = 0

    # --- what comes

    def text(self, text: str) -> None:
        if self._hidden:
            return
        if self._in_title:
            self._title = self._title or text
        elif self._preformatted:
            first, *rest = text.split("\n")
            self._line.append(first)
            for line in rest:
                self._end_line(keeps_empty=True)
                self._line.append(line)
        else:
            self._line.append(text)
            self._has_words = self._has_words or not text.isspace()

    def tag(self, tag: Tag) -> None:
        if self._is_left_out(tag):
            return
        name = tag.name
        if (act := _ACTS.get(name)) is not None:
            act(self, tag)
        elif name in _HEADINGS:
            self._block("" if tag.closes else _HEADINGS[name])
        elif name in _GAPS:
            self._block()
        elif name in _LINES:
            self._end_line()
        elif name in _CELLS and not tag.closes and self._has_words:
            self._line.append(" | ")

    def whole(self) -> str:
        self._end_line()
        title = " ".join(self._title.split())
        text = "\n".join(self._lines).strip("\n")
        return f"Title: {title}\n\n{text}" if title else text

    # --- what is left out

    def _is_left_out(self, tag: Tag) -> bool:
        if not self._hidden:
            if not tag.closes and _is_unseen(tag):
                self._hidden, self._depth = tag.name, 1
            return bool(self._hidden)
        if self._hidden in _CLOSED_BY_OTHERS:
            is_over = tag.name == self._hidden or tag.name in _BLOCKS
            if is_over:
                self._hidden = ""
                return self._is_left_out(tag)  # it may be hidden itself
            return True
        if tag.name == self._hidden:
            self._depth += -1 if tag.closes else 1
            self._hidden = self._hidden if self._depth else ""
        return True

    # --- lines

    def _end_line(self, *, keeps_empty: bool = False) -> None:
        text = "".join(self._line)
        self._line.clear()
        self._has_words = False
        shown = text.rstrip() if self._preformatted else " ".join(text.split())
        if not shown.strip(" |") and not keeps_empty:
            return
        if self._gap and self._lines:
            self._lines.append("")
        self._lines.append(self._prefix + shown)
        self._gap, self._prefix = False, ""

    def _block(self, prefix: str | None = None) -> None:
        """A block begins or ends. One in an item of a list begins with the mark of the item."""
        self._end_line()
        self._gap = self._gap or not self._lists
        self._prefix = self._prefix if prefix is None else prefix

    def title(self, tag: Tag) -> None:
        self._in_title = not tag.closes

    def preformatted(self, tag: Tag) -> None:
        self._block()
        self._preformatted = max(self._preformatted + (-1 if tag.closes else 1), 0)

    def list(self, tag: Tag) -> None:
        self._block()
        self._lists = max(self._lists + (-1 if tag.closes else 1), 0)
        self._gap = self._gap or not self._lists

    def item(self, tag: Tag) -> None:
        self._end_line()
        self._prefix = "" if tag.closes else "  " * (min(self._lists or 1, _DEEPEST_LIST) - 1) + "- "

    def line_break(self, tag: Tag) -> None:
        self._end_line()

    def rule(self, tag: Tag) -> None:
        self._block("")
        self._line.append("---")
        self._block()

    # --- within a line

    def image(self, tag: Tag) -> None:
        words = " ".join(tag.attributes.get("alt", "").split())
        if words:
            self._line.append(f"[image: {words}]")

    def base(self, tag: Tag) -> None:
        self._url = _joined(self._url, tag.attributes.get("href", "")) or self._url

    def anchor(self, tag: Tag) -> None:
        self._end_link()
        if not tag.closes and (address := _joined(self._url, tag.attributes.get("href", ""))):
            self._link = (address, len(self._lines), len(self._line))

    def _end_link(self) -> None:
        if self._link is None:
            return
        (address, line, place), self._link = self._link, None
        if line != len(self._lines):  # its text went over several lines
            self._line.append(f" ({address}) ")
            return
        text = "".join(self._line[place:])
        if words := " ".join(text.split()):
            before, after = " " * text[0].isspace(), " " * text[-1].isspace()
            self._line[place:] = [f"{before}[{words}]({address}){after}"]


_ACTS: Mapping[str, Callable[[_Reading, Tag], None]] = {
    "a": _Reading.anchor,
    "base": _Reading.base,
    "br": _Reading.line_break,
    "hr": _Reading.rule,
    "img": _Reading.image,
    "li": _Reading.item,
    "ol": _Reading.list,
    "pre": _Reading.preformatted,
    "title": _Reading.title,
    "ul": _Reading.list,
}


def _is_unseen(tag: Tag) -> bool:
    attributes = tag.attributes
    if tag.name in _VOID or tag.name in _NEVER_HIDDEN:
        return False
    if tag.name in _LEFT_OUT or "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return _UNSEEN.search(attributes.get("style", "")) is not None


def _joined(base: str, address: str) -> str:
    """Where a link leads; nothing for one that leads to a place on the same page, or to no page."""
    address = "".join(address.split())
    if not address or address.startswith("#") or len(address) > _LONGEST_LINK:
        return ""
    try:
        found = urljoin(base, address)
    except ValueError:
        return ""
    return found if found.startswith(("http://", "https://", "mailto:")) else ""
