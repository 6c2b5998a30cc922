"""A rule as a line of text, such as `allow write_file(path="src/**", mode=1)`, and back."""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from gnomon.engine._arguments import JSON, decode_at, written
from gnomon.engine._matchers import Exact, Matcher
from gnomon.errors import InvalidInput

__all__ = ["RULE_HINT", "RuleLine", "RuleParts", "rule_text", "short"]

RULE_HINT = 'write it like: allow write_file(path="src/**", mode=1), or deny shell(@command="rm *")'

_WORD = re.compile(r"[^\s(]*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[\w.:/*?@\\-]+", re.ASCII)


class RuleParts(NamedTuple):
    """What a line says, before anybody asked whether it makes a rule."""

    decision: str
    tool: str
    where: dict[str, Matcher]


def rule_text(decision: str, tool: str, where: dict[str, Matcher]) -> str:
    conditions = ", ".join(_condition(path, matcher) for path, matcher in where.items())
    return f"{decision} {_bare(tool)}" + (f"({conditions})" if conditions else "")


def _condition(path: str, matcher: Matcher) -> str:
    if isinstance(matcher, Exact):
        return f"{_bare(path)}=={_shown(matcher.exact)}"
    return f"{_bare(path)}={_shown(matcher)}"


def _bare(text: str) -> str:
    return text if text == "" or _BARE.fullmatch(text) else _shown(text)


def _shown(value: object) -> str:
    """JSON in which every sign can be seen: what is no print is an escape."""
    from json import dumps

    text = written(value)
    return text if text.isprintable() else "".join(s if s.isprintable() else dumps(s)[1:-1] for s in text)


class RuleLine:
    """A rule being read from its text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parts(self) -> RuleParts:
        self._skip()
        decision = self._word()
        if decision not in ("allow", "ask", "deny"):
            raise self._wrong("a rule begins with allow, ask or deny", self._at - len(decision))
        self._skip()
        tool = self._name("the name of a tool")
        self._skip()
        where = self._where() if self._takes("(") else {}
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("the rule should end here")
        return RuleParts(decision, tool, where)

    def _where(self) -> dict[str, Matcher]:
        where: dict[str, Matcher] = {}
        while True:
            self._skip()
            start = self._at
            path = "" if self._sees("=") else self._name("the name of an argument")
            if path in where:
                raise self._wrong(f"the argument {path!r} stands twice", start)
            self._skip()
            where[path] = self._matcher()
            self._skip()
            if self._takes(")"):
                return where
            if not self._takes(","):
                raise self._wrong("there should be a comma or a closing bracket")

    def _matcher(self) -> Matcher:
        if not self._takes("="):
            raise self._wrong("there should be = or ==")
        exactly = self._takes("=")
        self._skip()
        start = self._at
        value = self._value()
        if exactly:
            return Exact(value)
        if isinstance(value, dict):
            raise self._wrong("an object is matched with ==", start)
        return cast(Matcher, tuple(value) if isinstance(value, list) else value)

    def _value(self) -> JSON:
        try:
            value, self._at = decode_at(self._text, self._at)
        except ValueError as error:
            raise self._wrong(f"there should be a JSON value ({_why(error)})") from None
        return value

    def _name(self, what: str) -> str:
        if self._sees('"'):
            return cast(str, self._value())
        found = _BARE.match(self._text, self._at)
        if found is None:
            raise self._wrong(f"there should be {what}")
        self._at = found.end()
        return found.group()

    def _word(self) -> str:
        found = cast("re.Match[str]", _WORD.match(self._text, self._at))
        self._at = found.end()
        return found.group()

    def _skip(self) -> None:
        self._at = cast("re.Match[str]", _SPACE.match(self._text, self._at)).end()

    def _sees(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _takes(self, sign: str) -> bool:
        seen = self._sees(sign)
        self._at += len(sign) if seen else 0
        return seen

    def _wrong(self, why: str, at: int | None = None) -> InvalidInput:
        place = self._at if at is None else at
        found = (
            f"{self._text[place : place + 20]!r} stands there" if place < len(self._text) else "it ends there"
        )
        return InvalidInput(
            f"the rule {short(self._text)} cannot be read at column {place + 1}: {why}, and {found}",
            hint=RULE_HINT,
        )


def short(text: str) -> str:
    return repr(text) if len(text) <= 100 else f"{text[:60]!r} … {text[-30:]!r}"


def _why(error: ValueError) -> str:
    return str(getattr(error, "msg", error))
