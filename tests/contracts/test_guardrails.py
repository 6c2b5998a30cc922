"""Every guardrail keeps its word: a few small classes each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gnomon.contracts.guardrail import Guardrail
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.guardrails.max_length import MaxLengthGuardrail
from gnomon.guardrails.pii import PIIGuardrail
from gnomon.guardrails.secrets import SecretsGuardrail
from gnomon.testing import GuardrailContract
from secret_samples import HARMLESS, LETTERS, MADE, NAMED

# --- blocklist --------------------------------------------------------------

TERMS = ["grockle", "low water", "c--", "@ebb", "naïve", "赌博", "🖕", "evil-site.example"]


class _Blocklist(GuardrailContract):
    passing = (
        "The tide is high.",
        "grockles and grocklers",
        "low tide, high water",
        "c-",
        "evil site example",
    )
    failing = {
        "A GROCKLE!": "GROCKLE",
        "g\u200brock\u0336le": "rock",
        "ｇｒｏｃｋｌｅ": "ｏｃｋ",
        "low  water": "low",
        "Low-Water": "Water",
        "nai\u0308ve and NAIVE": "NAIVE",
        "我喜欢赌博游戏": "赌博",
        "well 🖕🏽": "🖕",
        "see https://EVIL-SITE.example/x": "EVIL",
        "hey @ebb": "ebb",
        "g" + "\u200b" * 500 + "rockle": "rockle",
    }


class TestBlocklist(_Blocklist):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield BlocklistGuardrail(TERMS)


class TestBlocklistThatRedacts(_Blocklist):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield BlocklistGuardrail(TERMS, on_match="redact")


# --- length -----------------------------------------------------------------


class TestMaxCharacters(GuardrailContract):
    passing = ("short", "a" * 48)
    failing = {"The tide comes in twice a day, and then it goes out. ": "", "e\u0301" * 40: ""}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield MaxLengthGuardrail(characters=48)


class TestMaxCharactersThatCuts(TestMaxCharacters):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield MaxLengthGuardrail(characters=48, on_match="cut")


class TestMaxTokensThatCuts(TestMaxCharacters):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield MaxLengthGuardrail(tokens=12, on_match="cut")


# --- personal data ----------------------------------------------------------


class _Personal(GuardrailContract):
    passing = ("On 2026-11-16 at 12:30:45, order 4711-555 came to $1,234.56.", "git@github.com:ada/engine")
    failing = {
        "write to ada.lovelace+x@mail.example.co.uk.": "lovelace",
        "DE89 3704 0044 0532 0130 00": "3704",
        "gb82west12345698765432": "west",
        "4111 1111 1111 1111": "1111",
        '{"card": 378282246310005, "at": [4111111111111111]}': "3782",
        "+49 (0) 30 / 1234567": "1234567",
        "call me at 555 123 4567": "4567",
        "(555) 123-4567 or 555-123-4567": "4567",
        "Social security number: 123 45 6789": "6789",
        "from 192.0.2.44 or 2001:db8::7:1": "2001",
    }


class TestPII(_Personal):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield PIIGuardrail(kinds=["email", "phone", "iban", "card", "ssn", "ip"])


class TestPIIThatStops(_Personal):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield PIIGuardrail(kinds=["email", "phone", "iban", "card", "ssn", "ip"], on_match="stop")


# --- secrets ----------------------------------------------------------------


class _Secrets(GuardrailContract):
    passing = HARMLESS
    failing = {
        **{f"It is {secret} for now": secret[8:24] for secret in MADE.values()},
        **NAMED,
        f"eyJ{LETTERS[:300]}.{LETTERS[:20]}.": LETTERS[200:216],
        f"password={LETTERS[:60]}{'long' * 2_000}": "longlong",
    }


class TestSecrets(_Secrets):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield SecretsGuardrail()


class TestSecretsThatStop(_Secrets):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Guardrail]:
        yield SecretsGuardrail(on_match="stop")
