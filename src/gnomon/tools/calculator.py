"""Arithmetic, exact where it can be, and safe on any text a model may send."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from gnomon.contracts.tool import Touches
from gnomon.errors import ToolFailed
from gnomon.tools.function import tool

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

__all__ = ["calculate"]

_Number: TypeAlias = int | float

_MAX_CHARACTERS = 1_000
_MAX_DEPTH = 40
_MAX_BITS = 10_000  # about 3,000 digits
_MAX_PLACES = 300

_WRITTEN_OTHERWISE = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**"})
_FUNCTIONS = ("sqrt", "abs", "round", "min", "max")
_CONSTANTS = {"pi": 3.141592653589793, "e": 2.718281828459045}
_NUMERALS = re.compile(r"(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?")
_WORDS = re.compile(r"[^\W\d]\w*")


@tool(read_only=True, touches=Touches())
def calculate(expression: str) -> str:
    """The value of an arithmetic expression: exact for whole numbers, 15 digits for others.

    expression: numbers with + - * / // % ** and parentheses, the functions sqrt, abs, round, min, max,
        and the constants pi and e, as in 12*(3+4) or round(sqrt(2), 3)
    """
    try:
        return _written(_value(_parsed(expression), 0))
    except ZeroDivisionError:
        raise ToolFailed("division by zero") from None
    except OverflowError:
        raise ToolFailed("the result is too large for this calculator") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: brackets without end
        raise ToolFailed(f"not an arithmetic expression: {_short(expression)!r}") from None


def _parsed(expression: str) -> ast.expr:
    """The expression as a tree, once nothing but arithmetic is seen in it."""
    import ast

    if len(expression) > _MAX_CHARACTERS:
        raise ToolFailed(
            f"the expression has {len(expression):,} characters; {_MAX_CHARACTERS:,} are allowed"
        )
    text = " ".join(expression.translate(_WRITTEN_OTHERWISE).split())
    _check_words(text)
    return ast.parse(text, mode="eval").body


def _check_words(text: str) -> None:
    for word in _WORDS.findall(_NUMERALS.sub(" ", text)):
        if word not in _CONSTANTS and word not in _FUNCTIONS:
            known = ", ".join((*_FUNCTIONS, *_CONSTANTS))
            raise ToolFailed(f"{_short(word)!r} is not known to this calculator; known are {known}")


def _value(node: ast.expr, depth: int) -> _Number:
    import ast

    if depth > _MAX_DEPTH:
        raise ToolFailed(f"the expression is nested more than {_MAX_DEPTH} deep")
    match node:
        case ast.BinOp():
            return _chain(node, depth)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, depth + 1)
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _called(name, [_value(argument, depth + 1) for argument in args])
        case _:
            raise SyntaxError


def _chain(node: ast.BinOp, depth: int) -> _Number:
    """The value of a + b + c + …: a long sum is not a deep one."""
    import ast

    links: list[ast.BinOp] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp):
        links.append(first)
        first = first.left
    value = _value(first, depth + 1)
    for link in reversed(links):
        value = _combined(link, value, _value(link.right, depth + 1))
    return value


def _combined(link: ast.BinOp, left: _Number, right: _Number) -> _Number:
    operation = _OPERATIONS.get(type(link.op).__name__)
    if operation is None:
        raise SyntaxError
    return _bounded(operation(left, right))


def _divided(left: _Number, right: _Number) -> _Number:
    """Whole numbers that divide evenly stay whole, and so exact."""
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _raised(base: _Number, exponent: _Number) -> _Number:
    # Looked at before it is computed: a tower of powers would take all memory.
    if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > _MAX_BITS:
        raise OverflowError
    if base < 0 and isinstance(exponent, float) and not exponent.is_integer():
        raise ToolFailed("a negative number to a fractional power is not a real number")
    return base**exponent


_OPERATIONS: dict[str, Callable[[_Number, _Number], _Number]] = {
    "Add": lambda left, right: left + right,
    "Sub": lambda left, right: left - right,
    "Mult": lambda left, right: left * right,
    "Div": _divided,
    "FloorDiv": lambda left, right: left // right,
    "Mod": lambda left, right: left % right,
    "Pow": _raised,
}


def _called(name: str, values: list[_Number]) -> _Number:
    most = {"sqrt": 1, "abs": 1, "round": 2}.get(name, _MAX_CHARACTERS)
    if not 1 <= len(values) <= most:
        raise ToolFailed(f"{name} does not take {len(values)} numbers")
    if name == "round":
        return _rounded(*values)
    if name in ("min", "max"):
        return min(values) if name == "min" else max(values)
    return abs(values[0]) if name == "abs" else _root(values[0])


def _root(value: _Number) -> _Number:
    import math

    if value < 0:
        raise ToolFailed("the square root of a negative number is not a real number")
    if isinstance(value, int) and (whole := math.isqrt(value)) ** 2 == value:
        return whole
    return math.sqrt(value)


def _rounded(value: _Number, places: _Number = 0) -> _Number:
    if not isinstance(places, int) or abs(places) > _MAX_PLACES:
        raise ToolFailed(f"round takes a whole number of places, at most {_MAX_PLACES}")
    return round(value, places or None)


def _bounded(value: _Number) -> _Number:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise OverflowError
    elif value - value != 0:  # infinite, or not a number
        raise OverflowError
    return value


def _written(value: _Number) -> str:
    """Fifteen digits are what a float is good for: 0.1+0.2 is 0.3 to a reader."""
    return str(value) if isinstance(value, int) else format(value, ".15g")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
