"""The head of a `SKILL.md`: the part of YAML that such files use, and no more.

    key: text               to the end of the line, with colons in it too
    key: "text"  'text'     in quotes
    key: >                  indented lines, joined to one (`>`), or as they are (`|`)
    key:                    what is indented under it, or a list, is passed over: nothing here needs it

So it means the same whether PyYAML is installed or not. A key that stands twice, a tag, an anchor or a line
that is none of these is refused.
"""

from __future__ import annotations

import re

from gnomon.errors import InvalidInput

__all__ = ["split_front_matter"]

_KEY = re.compile(r"([A-Za-z0-9_.-]{1,64})[ \t]*:(?:[ \t]+(.*))?")
_FOLDED = re.compile(r"([>|])[-+0-9]{0,2}[ \t]*(?:#.*)?")
_COMMENT = re.compile(r"[ \t]#.*")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


def split_front_matter(where: str, text: str) -> tuple[dict[str, str], str]:
    """The texts of the head by their keys, and the body; `where` is how a complaint begins."""
    lines = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    if lines[0].rstrip() != "---":
        raise InvalidInput(f"{where}, line 1: the file begins with `---`, a name and a description")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return _fields(where, lines[1:number]), "\n".join(lines[number + 1 :]).strip()
    raise InvalidInput(f"{where}: the head that begins with `---` has no end", hint="end it with `---`")


def _fields(where: str, lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if not line.strip() or line.startswith("#"):
            continue
        place = f"{where}, line {at + 1}"
        found = _KEY.fullmatch(line)
        if found is None:
            raise InvalidInput(f"{place}: not `key: text`")
        key, said = found[1], (found[2] or "").strip()
        if key in fields:
            raise InvalidInput(f"{place}: `{key}` stands twice")
        under = _under(lines, at)
        at += len(under)
        fields[key] = _value(place, said, under)
    return fields


def _under(lines: list[str], start: int) -> list[str]:
    """The lines that belong to a key: indented ones, the items of a list, and empty ones between them."""
    end = start
    for at in range(start, len(lines)):
        if lines[at][:1] in (" ", "\t") or lines[at].startswith("- ") or lines[at] == "-":
            end = at + 1
        elif lines[at].strip():
            break
    return lines[start:end]


def _value(place: str, said: str, under: list[str]) -> str:
    if style := _FOLDED.fullmatch(said):
        indent = min((len(line) - len(line.lstrip()) for line in under if line.strip()), default=0)
        kept = [line[indent:].rstrip() for line in under]
        return ("\n" if style[1] == "|" else " ").join(kept).strip()
    if said[:1] in ("'", '"'):
        return _quoted(place, " ".join((said, *(line.strip() for line in under))).rstrip())
    if said[:1] in tuple("&*!%@`"):
        raise InvalidInput(f"{place}: `{said[0]}` begins something that is not read", hint="put it in quotes")
    if not said or said[:1] in ("[", "{", "#"):
        return ""  # a list or a table, which nothing here needs
    # A line that goes on is joined to one, as YAML does it.
    return " ".join((_COMMENT.sub("", said), *(line.strip() for line in under))).strip()


def _quoted(place: str, said: str) -> str:
    mark = said[0]
    inner = r"(?:[^'\\]|\\|'')*" if mark == "'" else r'(?:[^"\\]|\\.)*'
    found = re.fullmatch(f"{mark}({inner}){mark}(?:[ \t]+#.*)?", said)
    if found is None:
        raise InvalidInput(f"{place}: the quotes do not end where the text does")
    if mark == "'":
        return found[1].replace("''", "'")
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), found[1])
