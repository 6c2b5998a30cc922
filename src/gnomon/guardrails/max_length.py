"""A limit to how long a text may be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Literal
from unicodedata import combining

from gnomon import registry
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.guardrail import Position, Whole
from gnomon.errors import ConfigError
from gnomon.guardrails._choices import chosen, named, standing
from gnomon.types.steps import GuardrailResult

__all__ = ["MaxLengthGuardrail"]

_TITLE = "guardrail 'max_length'"
_JOINERS = "\u200d\ufe0e\ufe0f"


class MaxLengthGuardrail:
    """Stops a text that is too long, or cuts it: `characters=8_000`, or `tokens=2_000`.

    Tokens are counted by a `TokenCounter`, or the name of one. On an answer it has to see the
    whole: how long it is shows at its end, and nothing of one that is too long is to be shown.
    To end a long answer early, and not pay for it, set a `Budget` or the model's own limit.
    """

    def __init__(
        self,
        *,
        characters: int | None = None,
        tokens: int | None = None,
        counter: TokenCounter | str = "estimating",
        on_match: Literal["stop", "cut"] = "stop",
        positions: Collection[Position] = ("input",),
        name: str = "max_length",
    ) -> None:
        chosen(_TITLE, "on_match", [on_match], ("stop", "cut"))
        self._limit, self._unit = _limit(characters, tokens)
        self._counter = _counter(counter) if tokens is not None else None
        self._on_match = on_match
        self._name = named(_TITLE, name)
        self._positions = standing(_TITLE, positions)
        if on_match == "cut" and "tool_arguments" in self._positions:
            raise ConfigError(f"{_TITLE}: arguments of tools cannot be cut", hint='use on_match="stop" there')

    @property
    def name(self) -> str:
        return self._name

    @property
    def positions(self) -> frozenset[Position]:
        return self._positions

    @property
    def view(self) -> Whole:
        """All of the text, once."""
        return Whole()

    async def check(self, content: str) -> GuardrailResult:
        found = self._length(content)
        if found <= self._limit:
            return GuardrailResult(True)
        reason = f"it has {found:,} {self._unit}, and {self._limit:,} are allowed"
        return GuardrailResult(False, reason, self._cut(content) if self._on_match == "cut" else None)

    def _length(self, text: str) -> int:
        return len(text) if self._counter is None else self._counter.count_text(text)

    def _cut(self, text: str) -> str:
        """As much of the beginning as may pass, and no half of a character."""
        size = bisect_right(range(len(text)), self._limit, key=lambda size: self._length(text[: size + 1]))
        while 0 < size < len(text) and (combining(text[size]) or text[size] in _JOINERS):
            size -= 1
        return text[:size]


def _limit(characters: int | None, tokens: int | None) -> tuple[int, str]:
    if (characters is None) == (tokens is None):
        raise ConfigError(f"{_TITLE} needs one limit", hint="characters=… or tokens=…")
    limit, unit = (characters, "characters") if characters is not None else (tokens, "tokens")
    if limit is None or limit < 1:
        raise ConfigError(f"{_TITLE}: {unit} is {limit}", hint="at least 1")
    return limit, unit


def _counter(counter: TokenCounter | str) -> TokenCounter:
    found = counter
    if isinstance(counter, str):
        kind = registry.load("counters", counter)
        found = kind() if isinstance(kind, type) else kind
    if not isinstance(found, TokenCounter):
        raise ConfigError(f"{_TITLE}: counter is {counter!r}, not a TokenCounter")
    return found
