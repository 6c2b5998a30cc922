"""E-mail addresses, telephone numbers, accounts and cards: what identifies a person."""

from __future__ import annotations

from collections.abc import Collection

from gnomon.contracts.guardrail import Position, Window
from gnomon.guardrails._choices import OnMatch, chosen, named, standing
from gnomon.guardrails._personal import KINDS, Kind, Search
from gnomon.guardrails._replacing import Found, mended, replaced, stopped
from gnomon.types.steps import GuardrailResult

__all__ = ["Kind", "PIIGuardrail"]

_TITLE = "guardrail 'pii'"


class PIIGuardrail:
    """Takes personal data out of a text, or stops at it; each kind has a mark, such as `[email]`.

    `kinds` says what is looked for: `email`, `phone`, `iban`, `card` and `ssn` unless you choose,
    and `ip` when you do. Card numbers and IBANs must have the right check digits; a telephone number
    must have its country before it, look American, or follow a word like "phone". It is made for
    what people say without thinking of it, not for somebody who wants to get past it.
    """

    def __init__(
        self,
        *,
        kinds: Collection[Kind] = ("email", "phone", "iban", "card", "ssn"),
        on_match: OnMatch = "redact",
        positions: Collection[Position] = ("input", "output", "tool_arguments", "tool_results"),
        name: str = "pii",
    ) -> None:
        chosen(_TITLE, "on_match", [on_match], ("stop", "redact"))
        wanted = chosen(_TITLE, "kinds", kinds, KINDS)
        self._search = Search(wanted)
        self._on_match = on_match
        self._name = named(_TITLE, name)
        self._positions = standing(_TITLE, positions)
        self._view = Window(max(KINDS[kind][1] for kind in wanted))

    @property
    def name(self) -> str:
        return self._name

    @property
    def positions(self) -> frozenset[Position]:
        return self._positions

    @property
    def view(self) -> Window:
        """As long as the longest of what is looked for."""
        return self._view

    async def check(self, content: str) -> GuardrailResult:
        found = self._found(content)
        if not found or self._on_match == "stop":
            return stopped(found)
        return mended(found, replaced(content, found), self._found)

    def _found(self, text: str) -> list[Found]:
        return [Found(start, end, KINDS[kind][0], f"[{kind}]") for start, end, kind in self._search(text)]
