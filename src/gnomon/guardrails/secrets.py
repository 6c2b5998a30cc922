"""Keys, tokens and passwords: what opens something."""

from __future__ import annotations

import re
from collections.abc import Collection

from gnomon._secret_forms import FORMS, HEAD, Form, lowered
from gnomon.contracts.guardrail import Position, Window
from gnomon.errors import ConfigError
from gnomon.guardrails._choices import OnMatch, chosen, named, standing
from gnomon.guardrails._replacing import Found, mended, replaced, stopped
from gnomon.types.steps import GuardrailResult

__all__ = ["SecretsGuardrail"]

_TITLE = "guardrail 'secrets'"
_MARK = "[secret]"


class SecretsGuardrail:
    """Takes secrets out of a text, or stops at them.

    It knows the tokens of many services by how they begin, private keys, JSON web tokens, passwords
    in addresses, and what stands after `password=` or `token:` when it looks like one.

    A secret of more than `longest` characters stops the turn in any case: to take it out of a stream
    as a whole, so much of the answer would have to be held back.
    """

    def __init__(
        self,
        *,
        on_match: OnMatch = "redact",
        longest: int = 2_000,
        positions: Collection[Position] = ("input", "output", "tool_arguments", "tool_results"),
        name: str = "secrets",
    ) -> None:
        chosen(_TITLE, "on_match", [on_match], ("stop", "redact"))
        if longest < HEAD:
            raise ConfigError(f"{_TITLE}: longest is {longest}", hint=f"at least {HEAD} characters")
        self._on_match = on_match
        self._longest = longest
        self._name = named(_TITLE, name)
        self._positions = standing(_TITLE, positions)
        self._view = Window(HEAD if on_match == "stop" else longest + 1)

    @property
    def name(self) -> str:
        return self._name

    @property
    def positions(self) -> frozenset[Position]:
        return self._positions

    @property
    def view(self) -> Window:
        """Enough to know a secret; to take it out, enough to see all of it."""
        return self._view

    async def check(self, content: str) -> GuardrailResult:
        found = self._found(content)
        if not found or self._on_match == "stop":
            return stopped(found)
        is_whole = all(each.end - each.start <= self._longest for each in found)
        return mended(found, replaced(content, found) if is_whole else None, self._found)

    def _found(self, text: str) -> list[Found]:
        """In order, and none within another."""
        low = lowered(text)
        found = [self._secret(form, head) for form in FORMS for head in form.places(text, low)]
        kept: list[Found] = []
        for each in sorted(found):
            if not kept or each.start >= kept[-1].end:
                kept.append(each)
            elif each.end > kept[-1].end:
                kept[-1] = kept[-1]._replace(end=each.end)
        return kept

    def _secret(self, form: Form, head: re.Match[str]) -> Found:
        """From its first to its last character; one too many, where it is too long."""
        start = head.start(head.re.groups)
        return Found(start, form.end(head, start + self._longest + 1), form.what, _MARK)
