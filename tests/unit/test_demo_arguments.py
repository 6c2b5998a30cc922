"""How the demo model fills in a schema: from the prompt where it can, and always so that it fits."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import itertools
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict, Union

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from gnomon.providers._demo.arguments import Filler, arguments_for
from gnomon.providers._demo.prompt import Asked
from gnomon.types.messages import ToolDef


def filled(model: type, prompt: str, name: str = "run") -> dict[str, object]:
    return arguments_for(ToolDef(name=name, schema=msgspec.json.schema(model)), Asked(prompt))


# --- from the prompt ------------------------------------------------------------------


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Flight(msgspec.Struct):
    origin: str
    destination: str
    seats: Annotated[int, msgspec.Meta(ge=1, le=9)]
    cabin: Literal["business", "economy"]
    window: bool = False
    stops: list[str] | None = None
    email: str | None = None


class Plot(msgspec.Struct):
    points: list[Point]
    colours: set[Literal["red", "blue", "green"]]
    scale: float = 1.0


class Sum(msgspec.Struct):
    a: int
    b: int


class Total(msgspec.Struct):
    numbers: list[int]


class Cities(msgspec.Struct):
    cities: list[str]
    country: str


class Meeting(msgspec.Struct):
    host: str
    guest: str


class Page(msgspec.Struct):
    url: str
    save_to_path: str
    since: datetime.date


class Search(msgspec.Struct):
    query: str
    limit: int = 10
    strict: bool = True


@pytest.mark.parametrize(
    ("model", "prompt", "expected"),
    [
        (
            Flight,
            "Book an economy flight from Rome to Paris, 2 seats",
            {"origin": "Rome", "destination": "Paris", "seats": 2, "cabin": "economy"},
        ),
        (
            Flight,
            "Book a window flight to Oslo from Bern for 3, mail ada@example.org",
            {
                "origin": "Bern",
                "destination": "Oslo",
                "seats": 3,
                "cabin": "business",
                "window": True,
                "email": "ada@example.org",
            },
        ),
        (
            Flight,
            "Book a flight: origin=Rome destination: 'New York' and 40 seats",
            {"origin": "Rome", "destination": "New York", "seats": 1, "cabin": "business"},
        ),
        (Meeting, "introduce Ada Lovelace and Grace", {"host": "Ada Lovelace", "guest": "Grace"}),
        (Sum, "add 2 and 3", {"a": 2, "b": 3}),
        (Sum, "add 2 to b=5", {"a": 2, "b": 5}),
        (Total, "the sum of the numbers 3, 4 and 5", {"numbers": [3, 4, 5]}),
        (Plot, "plot points in red and green", {"points": [{"x": 1}], "colours": ["green", "red"]}),
        (Plot, "plot points, scale 2.5", {"points": [{"x": 1}], "colours": ["blue"], "scale": 2.5}),
        (Cities, "compare Rome, Paris and Oslo", {"cities": ["Rome", "Paris", "Oslo"], "country": "Rome"}),
        (
            Page,
            "fetch https://example.org/a?b=1, into out/page.html, if changed after 2024-05-01.",
            {"url": "https://example.org/a?b=1", "save_to_path": "out/page.html", "since": "2024-05-01"},
        ),
        (Search, "search for tea in China, limit 3", {"query": "tea in China, limit 3", "limit": 3}),
        (Search, 'search for "tea", not strict', {"query": "tea", "strict": False}),
    ],
)
def test_arguments_are_filled_in_from_the_prompt(
    model: type, prompt: str, expected: dict[str, object]
) -> None:
    assert filled(model, prompt) == expected


# --- any schema that a signature can give ------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 9


@dataclasses.dataclass
class Address:
    street: str
    zip_code: str | None = None


class Options(TypedDict):
    verbose: bool
    limit: NotRequired[int]


class Pair(NamedTuple):
    first: int
    second: str = ""


class Node(msgspec.Struct):
    value: int
    parent: Node | None
    children: list[Node]


class Leaf(msgspec.Struct, tag="leaf"):
    a: str
    b: str
    c: str


class Branch(msgspec.Struct, tag="branch"):
    left: Leaf | Branch
    right: Leaf | Branch


class Row(msgspec.Struct, array_like=True):
    key: str
    count: int
    note: str = ""


meta = msgspec.Meta
PLAIN_TYPES: list[object] = [
    int,
    float,
    str,
    bool,
    bytes,
    None,
    Any,
    datetime.date,
    Annotated[datetime.datetime, meta(tz=True)],
    Annotated[datetime.time, meta(tz=True)],
    Annotated[datetime.time, meta(tz=False)],
    datetime.timedelta,
    uuid.UUID,
    decimal.Decimal,
    Colour,
    Level,
    Address,
    Options,
    Pair,
    Node,
    Branch,
    Leaf | Branch,
    Leaf | Branch | None,
    Row,
    Literal["fast", "slow"],
    Literal[3, "three", None],
    Annotated[int, meta(ge=5)],
    Annotated[int, meta(gt=5, multiple_of=4)],
    Annotated[int, meta(lt=-3)],
    Annotated[int, meta(ge=-10, le=-7)],
    Annotated[float, meta(gt=0.5, lt=0.75)],
    Annotated[float, meta(le=-0.5)],
    Annotated[str, meta(min_length=20)],
    Annotated[str, meta(max_length=3)],
    Annotated[str, meta(pattern="^[a-z]+$")],
    Annotated[str, meta(pattern=r"^\d+$", description="digits")],
    Annotated[str, meta(examples=["x-1"], pattern="^x-1$")],
    Annotated[bytes, meta(min_length=4, max_length=9)],
    Annotated[list[int], meta(min_length=3, max_length=4)],
    Annotated[list[int], meta(max_length=0)],
    Annotated[set[int], meta(min_length=3)],
    Annotated[set[str], meta(min_length=2)],
    Annotated[dict[str, int], meta(min_length=2)],
    Annotated[dict[int, str], meta(min_length=1)],
    dict[Annotated[str, meta(min_length=3)], bool],
    list,
    dict,
    tuple[()],
]


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: Optional[kind]),  # noqa: UP045 - the type is a value here
        st.lists(inner, min_size=1, max_size=3).map(lambda kinds: tuple[tuple(kinds)]),
        st.lists(inner, min_size=1, max_size=3).map(struct_of),
        st.lists(inner, min_size=1, max_size=3).map(dataclass_of),
    )


COUNT = itertools.count()  # the classes of one schema must have names of their own


def struct_of(kinds: list[object]) -> type:
    return msgspec.defstruct(f"Inner{next(COUNT)}", [(f"field_{at}", kind) for at, kind in enumerate(kinds)])


def dataclass_of(kinds: list[object]) -> type:
    return dataclasses.make_dataclass(
        f"Record{next(COUNT)}", [(f"part_{at}", kind) for at, kind in enumerate(kinds)]
    )


TYPES = st.recursive(st.sampled_from(PLAIN_TYPES), nested, max_leaves=5)
WORDS = "city path url when query from_ to count size flag items expression timezone email x"
PROMPTS = [
    "",
    "run it",
    "what is 12*(3+4)?",
    "From Rome to Paris on 2024-05-01 with 3 items, flag it, size=7 and 'quoted words'",
    "see https://example.org/a?b=1, notes/today.md, ada@example.org at Europe/Paris: -5 and 2.5",
    "fast slow three red blue leaf branch verbose no",
    'path="" count= size is 99999999999999999999999 x: ! 1e999',
    "日本語 Ünïcödé \U0001f600 'ß'",
]


@hypothesis.given(
    kinds=st.lists(TYPES, max_size=4),
    names=st.permutations(WORDS.split()),
    optional=st.integers(0, 4),
    prompt=st.one_of(st.sampled_from(PROMPTS), st.text(max_size=80)),
)
def test_arguments_fit_any_schema_that_a_signature_gives(
    kinds: list[object], names: list[str], optional: int, prompt: str
) -> None:
    fields = [
        (name, kind) if at < optional else (name, Union[kind, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007
        for at, (name, kind) in enumerate(zip(names, kinds, strict=False))
    ]
    try:
        model = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        schema = msgspec.json.schema(model)
    except TypeError:  # two kinds that JSON could not tell apart
        hypothesis.reject()
    tool = ToolDef(name="run", schema=schema)
    arguments = msgspec.json.encode(arguments_for(tool, Asked(prompt)))
    msgspec.json.decode(arguments, type=model)


@pytest.mark.parametrize("prompt", ["", "in 'the box' of 3?", "7, -8, 0.6, 5 and 10 in Rome and Paris"])
@pytest.mark.parametrize("kind", [*PLAIN_TYPES, list[Annotated[str, meta(max_length=3)]]], ids=str)
def test_a_value_fits_a_schema_that_is_no_object(kind: object, prompt: str) -> None:
    filler = Filler(msgspec.json.schema(kind), Asked(prompt), spare="a box of tea")
    msgspec.json.decode(msgspec.json.encode(filler.whole()), type=kind)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nowhere"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": True, "b": None}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<x"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"allOf": [{"type": "integer"}]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]},
        {"type": "array"},
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}},
        {
            "$ref": "#/$defs/A",
            "$defs": {
                "A": {
                    "type": "object",
                    "properties": {name: {"$ref": "#/$defs/A"} for name in "abcdefgh"},
                    "required": list("abcdefgh"),
                }
            },
        },
        {"type": "object", "minProperties": 10**9, "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"minItems": 10**9, "type": "array"}}, "required": ["a"]},
    ],
)
def test_a_strange_schema_does_no_harm(schema: dict[str, object]) -> None:
    arguments = arguments_for(ToolDef(name="run", schema=schema), Asked("run it"))
    assert isinstance(arguments, dict)
    assert len(msgspec.json.encode(arguments)) < 20_000
