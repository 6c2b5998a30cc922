"""The limit of length: in characters or in tokens, and what is left when a text is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.contracts.guardrail import Whole
from gnomon.errors import ConfigError, UnknownName
from gnomon.guardrails.max_length import MaxLengthGuardrail
from gnomon.types.messages import Message, ToolDef
from gnomon.types.steps import GuardrailResult


class WordCounter:
    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        raise AssertionError("a text is no message")

    def count_text(self, text: str) -> int:
        return len(text.split())


async def test_it_says_what_it_counts_and_how_many_there_are() -> None:
    limit = MaxLengthGuardrail(characters=4)
    assert await limit.check("ebbs") == GuardrailResult(True)
    assert await limit.check("tides") == GuardrailResult(False, "it has 5 characters, and 4 are allowed")
    assert (await limit.check("a" * 1_234_567)).reason == "it has 1,234,567 characters, and 4 are allowed"


async def test_tokens_are_estimated_unless_a_counter_is_given() -> None:
    limit = MaxLengthGuardrail(tokens=2)
    assert (await limit.check("a" * 8)).passed
    assert (await limit.check("a" * 9)).reason == "it has 3 tokens, and 2 are allowed"
    assert (
        await MaxLengthGuardrail(tokens=2, counter="calibrated").check("tide tide tide tide")
    ).passed is False
    words = MaxLengthGuardrail(tokens=2, counter=WordCounter())
    assert (await words.check("a" * 100)).passed
    assert (await words.check("a b c")).reason == "it has 3 tokens, and 2 are allowed"


async def test_a_text_that_is_cut_keeps_what_may_pass() -> None:
    assert (await MaxLengthGuardrail(characters=4, on_match="cut").check("tides")).replacement == "tide"
    assert (await MaxLengthGuardrail(tokens=2, on_match="cut").check("a" * 20)).replacement == "a" * 8
    words = MaxLengthGuardrail(tokens=2, counter=WordCounter(), on_match="cut")
    assert (await words.check("one two three four")).replacement == "one two "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abce\u0301", "abc"),
        ("abc👩\u200d👧", "abc"),
        ("abc1\ufe0f\u20e3", "abc"),
        ("tide" + "\u0301", "tid"),
        ("tides", "tide"),
        ("e" + "\u0301" * 9, ""),
    ],
)
async def test_a_cut_leaves_no_half_of_a_character(text: str, expected: str) -> None:
    found = (await MaxLengthGuardrail(characters=4, on_match="cut").check(text)).replacement
    assert found == expected


@given(st.text(), st.integers(1, 20), st.booleans())
def test_what_is_left_is_a_beginning_that_passes(text: str, limit: int, in_tokens: bool) -> None:
    sizes = {"tokens": limit} if in_tokens else {"characters": limit}
    guardrail = MaxLengthGuardrail(**sizes, on_match="cut")
    result = asyncio.run(guardrail.check(text))
    left = text if result.replacement is None else result.replacement
    assert text.startswith(left)
    assert asyncio.run(guardrail.check(left)).passed
    assert result.passed is (left == text)


def test_it_has_to_see_the_whole_of_an_answer() -> None:
    assert MaxLengthGuardrail(characters=4, positions=["output"]).view == Whole()


@pytest.mark.parametrize("sizes", [{}, {"characters": 1, "tokens": 1}, {"characters": 0}, {"tokens": -1}])
def test_it_needs_one_limit_that_something_can_keep(sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"one limit|at least 1"):
        MaxLengthGuardrail(**sizes)  # type: ignore[arg-type]


def test_arguments_of_tools_cannot_be_cut() -> None:
    with pytest.raises(ConfigError, match="cannot be cut"):
        MaxLengthGuardrail(characters=4, on_match="cut", positions=["input", "tool_arguments"])
    MaxLengthGuardrail(characters=4, positions=["input", "tool_arguments"])


def test_a_counter_that_is_none_is_refused() -> None:
    with pytest.raises(UnknownName, match="token counter called 'exact'"):
        MaxLengthGuardrail(tokens=4, counter="exact")
    with pytest.raises(ConfigError, match="not a TokenCounter"):
        MaxLengthGuardrail(tokens=4, counter=4)  # type: ignore[arg-type]
