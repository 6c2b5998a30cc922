"""Texts that are made to keep a guardrail busy: eight times as much of them costs about eight times as much.

With `GNOMON_SOAK=1` they have a million characters.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.guardrails.pii import PIIGuardrail
from gnomon.guardrails.secrets import SecretsGuardrail

SIZE = 1_000_000 if os.environ.get("GNOMON_SOAK") == "1" else 100_000
TRIES = 3
MOST = 24
"""Where the cost grew with the square of the text, it would be 64 times as much."""

TERMS = ["bad", "a b c", "b a", "a-a", "--", "( )", "字字", "a" * 40]
MAKERS: dict[str, Callable[[], Any]] = {
    "blocklist": lambda: BlocklistGuardrail(TERMS, on_match="redact"),
    "pii": lambda: PIIGuardrail(kinds=["email", "phone", "iban", "card", "ssn", "ip"]),
    "secrets": SecretsGuardrail,
}
UNITS = {
    "blocklist": [
        *(
            "a",
            "a ",
            "b a ",
            "a-",
            "--",
            "( ",
            "字",
            "字 ",
            "\u0301",
            "a\u0301",
            "a\u200b",
            "bad ",
            "é",
            "\x00",
        ),
        *("a" * 39 + " ", "a" + "\u200b" * 7, "\u200b" * 7 + " ", "か\u3099"),
    ],
    "pii": [
        *(
            "1",
            "1 ",
            "1.",
            "1-",
            "1:",
            ":",
            "@",
            "a@",
            "a@a.",
            "a.",
            "+1",
            "(1",
            "f:",
            "f",
            "00 1",
            "DE89",
            "DE89 ",
        ),
        *("4111 ", "4111-1111-", "phone ", "phone 1 ", "phone 1234567 ", "ssn 123-4", "123-45-", "2001:db8:"),
    ],
    "secrets": [
        *(
            "sk-",
            "sk-a",
            "-eyJ",
            "eyJ" + "a" * 300 + " ",
            "eyJaaaaaaaa.",
            "a://",
            "a://b:",
            "a://b:c@",
            "ab.",
        ),
        *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nabcdefgh"),
        *(
            "password=",
            "password=a1b2c3d4",
            "password=" + "a1" * 500,
            "token",
            "token=",
            "token=a1b2c3d4e5f6",
        ),
        *("bearer ", "api ", "&key=", "xoxb-", "Q~", ":AA", "SG.aaaaaaaaaaaaaaaa.", "=", '"', "\\"),
    ],
}


def cost(guardrail: Any, text: str) -> float:
    start = time.process_time()
    asyncio.run(guardrail.check(text))
    return time.process_time() - start


def growth(guardrail: Any, unit: str) -> float:
    short, long = (unit * (size // len(unit)) for size in (SIZE // 8, SIZE))
    return cost(guardrail, long) / cost(guardrail, short)


@pytest.mark.parametrize(("name", "unit"), [(name, unit) for name in UNITS for unit in UNITS[name]])
def test_the_cost_of_a_hostile_text_grows_with_its_length_and_no_faster(name: str, unit: str) -> None:
    guardrail = MAKERS[name]()
    for _ in range(TRIES):
        if (found := growth(guardrail, unit)) < MOST:
            return
    pytest.fail(f"eight times {unit!r} costs {found:.0f} times as much")
