"""The calculator: exact, bounded, and never more than arithmetic."""

from __future__ import annotations

import math
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.contracts.tool import ToolContext
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.tools.calculator import calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12*(3+4)", "84"),
        ("  1 +\n 1 ", "2"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("2 ** 10", "1024"),
        ("2^10", "1024"),
        ("2 ** 3 ** 2", "512"),
        ("-2 ** 2", "-4"),
        ("+5", "5"),
        ("--5", "5"),
        ("1_000 * 3", "3000"),
        ("6 × 7 − 2 ÷ 4", "41.5"),
        ("1e5", "100000"),
        ("2 ** -2", "0.25"),
        ("0 ** 0", "1"),
    ],
)
def test_arithmetic_is_done_as_it_is_written(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sqrt(16)", "4"),
        ("sqrt(10 ** 800)", "1" + "0" * 400),
        ("sqrt(0.25)", "0.5"),
        ("abs(-3)", "3"),
        ("round(2.567, 2)", "2.57"),
        ("round(1250, -2)", "1200"),
        ("round(7/2)", "4"),
        ("min(3, 1, 2) + max(3, 1, 2)", "4"),
        ("max(5)", "5"),
        ("round(2 * pi, 4)", "6.2832"),
        ("round(e, 4)", "2.7183"),
    ],
)
def test_functions_and_constants_are_known(expression: str, value: str) -> None:
    assert calculate(expression) == value


def test_whole_numbers_are_exact_and_others_read_as_a_person_would_write_them() -> None:
    assert calculate("10**30 / 10**10 + 1") == "100000000000000000001"
    assert calculate("0.1 + 0.2") == "0.3"
    assert calculate("0.5 * 4") == "2"


@given(st.integers(-(10**40), 10**40), st.integers(-(10**40), 10**40))
def test_sums_and_products_of_whole_numbers_are_exact(a: int, b: int) -> None:
    assert calculate(f"({a}) + ({b})") == str(a + b)
    assert calculate(f"({a}) * ({b})") == str(a * b)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("1/0", "division by zero"),
        ("5 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("10**4000", "too large"),
        ("9**9**9**9", "too large"),
        ("9" * 900 + "**" + "9" * 90, "too large"),
        ("*".join(["10**3000"] * 20), "too large"),
        ("1e308 * 10", "too large"),
        ("1e400", "too large"),
        ("2.0 ** 5000", "too large"),
        ("10**400 / 3", "too large"),
        ("(-8) ** 0.5", "not a real number"),
        ("sqrt(-1)", "not a real number"),
        ("round(5, -10**9)", "whole number of places"),
        ("round(5, 0.5)", "whole number of places"),
        ("max()", "does not take 0"),
        ("abs(1, 2)", "does not take 2"),
        ("1 +", "not an arithmetic expression: '1 +'"),
        ("", "not an arithmetic expression"),
        ("1 2", "not an arithmetic expression"),
        ("2pi", "not an arithmetic expression"),
        ("2 << 3", "not an arithmetic expression"),
        ("1 @ 2", "not an arithmetic expression"),
        ("~5", "not an arithmetic expression"),
        ("1 < 2", "not an arithmetic expression"),
        ("(1, 2)", "not an arithmetic expression"),
        ("[1]", "not an arithmetic expression"),
        ("min(*(1, 2))", "not an arithmetic expression"),
        ("sqrt", "not an arithmetic expression"),
        ("pi()", "not an arithmetic expression"),
        ("(sqrt)(4)(4)", "not an arithmetic expression"),
        ("'1'", "not an arithmetic expression"),
        ("1\0", "not an arithmetic expression"),
        ("\ud800", "not an arithmetic expression"),
        ("[" * 190 + "]" * 190, "not an arithmetic expression"),
        ("(" * 400 + "1" + ")" * 400, "not an arithmetic expression"),
        ("-" * 500 + "1", "nested"),
        ("1" * 1001, "1,001 characters"),
        ("__import__('os')", "'__import__' is not known"),
        ("().__class__", "'__class__' is not known"),
        ("True", "'True' is not known"),
        ("3j", "'j' is not known"),
        ("1if 2 else 3", "'if' is not known"),
        ("x = 1", "'x' is not known"),
    ],
)
def test_what_cannot_be_computed_is_said_in_one_short_sentence(expression: str, said: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        calculate(expression)
    assert said in str(failure.value)
    assert len(str(failure.value)) < 160
    assert "\n" not in str(failure.value)


def test_a_long_sum_is_not_a_deep_one() -> None:
    assert calculate("+".join("1" * 500)) == "500"


def test_a_tower_of_powers_is_refused_before_it_is_computed() -> None:
    started = time.process_time()
    with pytest.raises(ToolFailed, match="too large"):
        calculate("7 ** 10 ** 9")
    assert time.process_time() - started < 1.0


@given(st.text(alphabet="0123456789.,+-*/%^()_ eEpisqrtabound×÷−jx\n\0[]='", max_size=60))
def test_any_text_gives_a_number_or_a_tool_failure(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nor does Python complain of what the model wrote
        try:
            value = calculate(text)
        except ToolFailed:
            return
    assert math.isfinite(float(value)) or len(value) > 300


async def test_a_model_can_call_it() -> None:
    result = await calculate.execute('{"expression": "6*7"}', ToolContext(call_id="c1"))
    assert (result.call_id, result.name, result.text) == ("c1", "calculate", "42")
    assert calculate.read_only
    assert calculate.parameters["required"] == ["expression"]
    with pytest.raises(InvalidArguments):
        await calculate.execute('{"expression": 6}', ToolContext(call_id="c1"))
