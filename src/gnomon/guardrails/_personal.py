"""Where a text says something that identifies a person.

One pass finds digits, `@` and colons; what may begin at one of them is tried there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple, TypeAlias

from gnomon.guardrails import _numbers

__all__ = ["KINDS", "Kind", "Personal", "Search"]

Kind: TypeAlias = Literal["email", "phone", "iban", "card", "ssn", "ip"]

KINDS: dict[Kind, tuple[str, int]] = {
    "email": ("an e-mail address", 192),
    "phone": ("a telephone number", 104),
    "iban": ("an IBAN", 64),
    "card": ("a card number", 24),
    "ssn": ("a social security number", 56),
    "ip": ("an IP address", 56),
}
"""Each kind: what it is called, and the most characters that it takes with the word before it."""

_Finder: TypeAlias = Callable[[str, int], int | None]

_NUMBERS: dict[Kind, _Finder] = {
    "card": _numbers.card,
    "ssn": _numbers.ssn,
    "ip": _numbers.ip,
    "phone": _numbers.phone,
}
_HEX = re.compile(r"[0-9A-Fa-f]{0,4}+")

_LOCAL = re.compile(r"[\w.+%-]{1,64}+")
_DOMAIN = re.compile(
    r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?+\.){1,8}(?:xn--[a-z0-9-]{2,20}+|[^\W\d_]{2,24}+)(?!\w)"
)
_DOMAIN_SIZE = 128
_NO_ADDRESS = re.compile(r"git@[\w.-]{1,99}+:|[\w.+%-]{1,64}+@[1-4]x\.(?:png|jpe?g|gif|svg|webp)\b")


class Personal(NamedTuple):
    """Where something stands, and of which kind it is."""

    start: int
    end: int
    kind: Kind


class Search:
    """Looks for some of the kinds."""

    def __init__(self, kinds: Collection[Kind]) -> None:
        self._kinds = frozenset(kinds)
        self._numbers: list[tuple[Kind, _Finder]] = [
            (kind, finder) for kind, finder in _NUMBERS.items() if kind in kinds
        ]
        signs = ("@" if "email" in kinds else "") + (":" if "ip" in kinds else "")
        self._start = re.compile(f"[{signs}0-9][0-9]*+")

    def __call__(self, text: str) -> Iterator[Personal]:
        """All that there is, in order."""
        at = end = 0
        while found := self._start.search(text, at):
            at = found.end()
            spot = self._at(text, found.start())
            if spot is not None and spot.start >= end:
                at = end = spot.end
                yield spot

    def _at(self, text: str, at: int) -> Personal | None:
        if text[at] == "@":
            return _email(text, at)
        if text[at] == ":":
            return self._after_hex(text, at)
        if at and text[at - 1].isalnum():
            return self._account(text, at - 2)
        return self._number(text, at - 1 if at and text[at - 1] in "+(" else at) or self._number(text, at)

    def _number(self, text: str, at: int) -> Personal | None:
        if _numbers.may_begin(text, at):
            for kind, finder in self._numbers:
                end = finder(text, at)
                if end is not None:
                    return Personal(at, end, kind)
        return None

    def _account(self, text: str, at: int) -> Personal | None:
        starts = at >= 0 and not text[max(at - 1, 0) : at].isalnum()
        end = _numbers.iban(text, at) if starts and "iban" in self._kinds else None
        return Personal(at, end, "iban") if end is not None else None

    def _after_hex(self, text: str, at: int) -> Personal | None:
        start = at - len((_HEX.match(text[max(at - 4, 0) : at][::-1]) or "")[0])
        if text[max(start - 1, 0) : start].isalnum() or text[max(start - 1, 0) : start] == ":":
            return None
        end = _numbers.ip(text, start)
        return Personal(start, end, "ip") if end is not None else None


def _email(text: str, at: int) -> Personal | None:
    domain = _DOMAIN.match(text, at, at + _DOMAIN_SIZE)
    # Read backwards: forwards, every word of the text would be the beginning of an address.
    local = _LOCAL.match(text[max(at - 64, 0) : at][::-1]) if domain else None
    if domain is None or local is None:
        return None
    name = local[0][::-1].lstrip(".-%+")
    start = at - len(name)
    if not name or name.endswith(".") or ".." in name or _NO_ADDRESS.match(text, start):
        return None
    return Personal(start, domain.end(), "email")
