"""Arguments that are pydantic's: what the model is told, what holds, and what it hears when it does not."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import os
import subprocess
import sys
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from gnomon import ToolContext, tool
from gnomon.contracts.tool import Context, Tool
from gnomon.errors import ConfigError, InvalidArguments
from gnomon.tools._pydantic import adapter_for


async def answer(made: Tool, arguments: object) -> str:
    return (await made.execute(json.dumps(arguments), ToolContext(call_id="call_1"))).text


async def refusal(made: Tool, arguments: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        await answer(made, arguments)
    return str(caught.value)


def properties(made: Tool) -> dict[str, Any]:
    return made.parameters["properties"]  # type: ignore[return-value]


def definitions(made: Tool) -> dict[str, Any]:
    return made.parameters["$defs"]  # type: ignore[return-value]


def resolvable(made: Tool) -> None:
    """Every reference in the schema leads somewhere, and it is JSON."""
    text = json.dumps(made.parameters, allow_nan=False)
    for piece in text.split('"$ref": "')[1:]:
        assert piece.split('"')[0].removeprefix("#/$defs/") in definitions(made)


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Line(BaseModel):
    """One line of an order."""

    item: str = Field(max_length=5, description="what to buy")
    count: int = Field(default=1, ge=1)

    @field_validator("item")
    @classmethod
    def _is_sold_here(cls, item: str) -> str:
        if item == "gold":
            raise ValueError("gold is not sold here")
        return item


class Order(BaseModel):
    lines: list[Line]
    size: Size = Size.SMALL
    due: datetime.date | None = None
    inside: Optional[Order] = None  # noqa: UP045


@dataclasses.dataclass
class Parcel:
    order: Order
    weight: float = 1.0


@pydantic.dataclasses.dataclass
class Weighed:
    weight: float = Field(gt=0)


class Noted(TypedDict):
    line: Line
    note: str


class Kept(msgspec.Struct):
    order: Order
    count: int = 1


class Limited(msgspec.Struct):
    count: Annotated[int, Field(ge=1)]


# --- the schema -------------------------------------------------------------


def test_a_model_is_described_with_all_it_refers_to() -> None:
    @tool
    def place(order: Order, express: bool = False) -> None:
        """Place an order.

        order: what is wanted
        """

    assert properties(place) == {
        "order": {"$ref": "#/$defs/Order", "description": "what is wanted"},
        "express": {"type": "boolean", "default": False},
    }
    assert place.parameters["required"] == ["order"]
    assert definitions(place).keys() == {"Order", "Line", "Size"}
    assert definitions(place)["Line"]["description"] == "One line of an order."
    assert definitions(place)["Line"]["properties"] == {
        "item": {"type": "string", "maxLength": 5, "description": "what to buy"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
    }
    resolvable(place)


def test_the_schema_is_the_same_in_every_process() -> None:
    """A turn that goes on after a crash compares the definition of its agent."""
    program = """
import enum, json
from typing import Literal, Union
from pydantic import BaseModel
from gnomon import tool

Size = enum.Enum("Size", {name: name for name in "abcdef"})

class One(BaseModel):
    size: Size
    word: Literal["x", "y", "z"]

class Other(BaseModel):
    one: One

@tool
def take(a: Union[One, Other, str], b: list[Other], c: Literal["p", "q", "r"], d: Size): ...

print(json.dumps(take.parameters))
"""
    told = {
        subprocess.check_output(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, timeout=60
        )
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1


def test_the_help_of_a_field_wins_over_the_docstring() -> None:
    @tool
    def buy(
        count: Annotated[int, Field(ge=1, description="how many")],
        item: str = Field("tea", max_length=5, description="what"),
        line: Annotated[Line | None, "a whole line"] = None,
        other: Annotated[int, Field(ge=1)] | None = None,
    ) -> None:
        """Buy.

        count: no
        item: no
        line: no
        other: yes
        """

    assert {name: told["description"] for name, told in properties(buy).items()} == {
        "count": "how many",
        "item": "what",
        "line": "a whole line",
        "other": "yes",
    }
    assert properties(buy)["count"] == {"type": "integer", "minimum": 1, "description": "how many"}
    assert properties(buy)["item"] == {
        "type": "string",
        "maxLength": 5,
        "default": "tea",
        "description": "what",
    }
    assert buy.parameters["required"] == ["count"]


def test_two_types_of_one_name_do_not_meet() -> None:
    ours, theirs = Line, msgspec.defstruct("Line", [("x", int)])

    def take(a, b, c) -> None: ...

    take.__annotations__ = {"a": ours, "b": theirs, "c": list[ours]}  # type: ignore[valid-type]
    made = tool(take)
    resolvable(made)
    assert len(definitions(made)) == 2
    named = {key: json.dumps(told).split("$defs/")[1].split('"')[0] for key, told in properties(made).items()}
    assert named["a"] == named["c"] != named["b"]
    assert "x" in definitions(made)[named["b"]]["properties"]


# --- what the function gets -------------------------------------------------


async def test_models_arrive_as_models_wherever_they_stand() -> None:
    seen: list[object] = []

    @tool
    def take(
        line: Line,
        many: list[Line],
        by: dict[str, Line],
        maybe: Line | None,
        either: Line | str,
        choice: Literal["a", "b"],
        parcel: Parcel,
        weighed: Weighed,
        plain: int = 3,
        *,
        ctx: Context[int],
    ) -> None:
        seen.extend([line, many, by, maybe, either, choice, parcel, weighed, plain, ctx.call_id])

    line, made = {"item": "tea"}, Line(item="tea")
    await answer(
        take,
        {
            "line": line,
            "many": [line, {"item": "jam", "count": 2}],
            "by": {"k": line},
            "maybe": None,
            "either": "words",
            "choice": "b",
            "parcel": {"order": {"lines": [line], "size": "large", "due": "2026-01-02"}},
            "weighed": {"weight": 2},
        },
    )
    assert seen == [
        made,
        [made, Line(item="jam", count=2)],
        {"k": made},
        None,
        "words",
        "b",
        Parcel(Order(lines=[made], size=Size.LARGE, due=datetime.date(2026, 1, 2))),
        Weighed(2.0),
        3,
        "call_1",
    ]
    assert "ctx" not in properties(take)
    resolvable(take)


async def test_a_model_inside_a_type_that_pydantic_does_not_take() -> None:
    @tool
    def take(kept: Kept, noted: Noted | None = None) -> str:
        return f"{type(kept.order).__name__} {kept.order.lines[0].count}"

    assert await answer(take, {"kept": {"order": {"lines": [{"item": "tea", "count": 4}]}}}) == "Order 4"
    told = await refusal(take, {"kept": {"order": {"lines": [{"item": "tea", "count": 0}]}}})
    assert "greater than or equal to 1" in told
    assert "lines[0].count" in told
    assert "kept.order" in told
    resolvable(take)


def test_a_constraint_that_nobody_would_hold_is_refused() -> None:
    @tool
    def take(limited: Limited) -> None: ...

    with pytest.raises(ConfigError, match=r"tool 'take': its parameters cannot be described.*Limited"):
        take.parameters


async def test_a_strict_model_takes_what_json_can_say() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        day: datetime.date
        pair: tuple[int, int]

    def take(given) -> str:
        return f"{given.day.year} {given.pair}"

    take.__annotations__["given"] = Strict
    assert await answer(tool(take), {"given": {"day": "2026-01-02", "pair": [1, 2]}}) == "2026 (1, 2)"
    assert "$.given.pair" in await refusal(tool(take), {"given": {"day": "2026-01-02", "pair": ["1", 2]}})


async def test_a_field_in_place_of_a_default_gives_the_default() -> None:
    @tool
    def buy(
        item: str = Field(max_length=5),
        count: int = Field(2, ge=1),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
    ) -> str:
        tags.append(item)
        return f"{item} {count} {tags}"

    for _ in range(2):
        assert await answer(buy, {"item": "tea"}) == "tea 2 ['tea']"
    assert buy.parameters["required"] == ["item"]
    assert "$.count" in await refusal(buy, {"item": "tea", "count": 0})
    assert "missing required field `item`" in await refusal(buy, {})


async def test_a_huge_number_and_a_deep_nest_are_as_safe_as_elsewhere() -> None:
    @tool
    def take(n: PositiveInt, anything: Annotated[Any, Field(description="x")] = None) -> int:
        return n

    assert await answer(take, {"n": 10**30}) == str(10**30)
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(InvalidArguments) as caught:
        await take.execute('{"n": 1, "anything": ' + deep + "}", ToolContext(call_id="c"))
    assert len(str(caught.value)) < 300


# --- what the model hears ---------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"item": "tea", "count": 0}, "greater than or equal to 1 - at `$.lines[1].count`"),
        ({"item": "coffee"}, "at most 5 characters - at `$.lines[1].item`"),
        ({"item": "gold"}, "gold is not sold here - at `$.lines[1].item`"),
        ({}, "Field required - at `$.lines[1].item`"),
        ({"item": 5}, "valid string - at `$.lines[1].item`"),
        ("tea", "- at `$.lines[1]`"),
    ],
)
async def test_an_error_is_short_and_names_the_field(given: object, said: str) -> None:
    ran: list[object] = []

    @tool
    def place(lines: list[Line], express: bool = False) -> None:
        ran.append(lines)

    told = await refusal(place, {"lines": [{"item": "tea"}, given]})
    assert told.startswith("invalid arguments: ")
    assert said in told
    assert len(told) < 200
    assert "pydantic" not in told
    assert ran == []


async def test_of_many_errors_the_first_are_told_and_the_rest_counted() -> None:
    @tool
    def place(lines: list[Line]) -> None: ...

    told = await refusal(place, {"lines": [{"item": "x", "count": 0}] * 10})
    assert told.count("greater than or equal") == 3
    assert told.endswith("; and 7 more")


async def test_what_was_sent_is_not_said_back_and_a_long_text_is_cut() -> None:
    class Loud(BaseModel):
        word: str

        @field_validator("word")
        @classmethod
        def _never(cls, word: str) -> str:
            raise ValueError("no" * 10_000)

    def take(loud) -> None: ...

    take.__annotations__["loud"] = Loud
    told = await refusal(tool(take), {"loud": {"word": "hush hush"}})
    assert "hush" not in told
    assert len(told) < 500


async def test_wrong_plain_arguments_beside_a_model_are_told_as_ever() -> None:
    @tool
    def place(line: Line, express: bool = False) -> None: ...

    assert "Expected `bool`" in await refusal(place, {"line": {"item": "tea"}, "express": "yes"})
    assert "unknown field `ctx`" in await refusal(place, {"line": {"item": "tea"}, "ctx": 1})


async def test_a_bug_in_a_validator_is_a_bug_and_no_wrong_argument() -> None:
    class Broken(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _breaks(cls, x: int) -> int:
            raise KeyError(x)

    def take(broken) -> None: ...

    take.__annotations__["broken"] = Broken
    with pytest.raises(KeyError):
        await answer(tool(take), {"broken": {"x": 1}})


# --- whose pydantic is ------------------------------------------------------


@pytest.mark.parametrize("hint", [int, list[int], str | None, Literal["a"], Annotated[int, "x"], msgspec.Raw])
def test_what_has_nothing_of_pydantics_is_not_given_to_it(hint: object) -> None:
    assert adapter_for(hint) is None


def test_a_type_that_holds_itself_is_looked_through_once() -> None:
    assert adapter_for(Order) is not None
    nested = msgspec.defstruct("Nested", [("inside", "list[Nested] | None", None)])
    assert adapter_for(nested) is None


def test_pydantic_is_not_loaded_unless_the_user_brings_it() -> None:
    program = """
import asyncio, sys
from gnomon import ToolContext, tool

@tool
def add(a: int, b: int = 2) -> dict[str, int]:
    return {"sum": a + b}

assert add.parameters["required"] == ["a"]
print(asyncio.run(add.execute('{"a": 1}', ToolContext(call_id="c"))).text, "pydantic" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ('{"sum":3} False\n', "")
