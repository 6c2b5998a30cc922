"""The tables of rules in docs/conformance.md: every rule is there, and every check that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gnomon import testing

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
ROWS = dict(re.findall(r"^\| ([A-Z]\d) \| (.*) \|$", PAGE, re.MULTILINE))
RULES = [
    *(f"H{n}" for n in range(1, 9)),
    *(f"{c}{n}" for c in "GC" for n in range(1, 5)),
    *("L5", "L6"),
    *(f"X{n}" for n in range(1, 7)),
]


def test_every_rule_has_its_row() -> None:
    assert list(ROWS) == RULES


@pytest.mark.parametrize("rule", RULES)
def test_every_check_that_is_named_exists(rule: str) -> None:
    row, suite = ROWS[rule], ""
    named = re.findall(r"`(?:(\w+Contract)\.?)?(test_\w+(?!\.py)…?)?`", row)
    for contract, check in named:
        suite = contract or suite
        if suite and check:
            found = [
                name for name in dir(getattr(testing, suite)) if name.startswith(check.removesuffix("…"))
            ]
            assert found, f"{rule}: there is no {suite}.{check}"
    for file in re.findall(r"`(tests/[\w/]+\.py)`", row):
        assert (ROOT / file).is_file(), f"{rule}: there is no {file}"
    assert "Contract" in row or "tests/" in row
