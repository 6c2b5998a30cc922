"""An output type: what the model is told, and what becomes of its answer."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypedDict, TypeVar

import annotated_types
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
import typing_extensions

from gnomon.engine._nulls import without_nulls
from gnomon.engine.output import OutputType, PartialJSON, partial_of
from gnomon.errors import ConfigError, InvalidOutput


class Colour(enum.Enum):
    """What it looks like."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    item: str
    count: int = 1


@dataclasses.dataclass
class Order:
    """What somebody ordered."""

    lines: list[Line]
    note: str | None = None
    colour: Colour = Colour.RED


class Place(TypedDict):
    """Where it is."""

    city: str
    zip: NotRequired[str]


class Money(msgspec.Struct):
    amount: decimal.Decimal
    currency: Annotated[str, msgspec.Meta(min_length=3)] = "EUR"


class Node(msgspec.Struct):
    """A tree."""

    name: str
    kids: list[Node] = []


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    name: str = "Rex"


class Person(pydantic.BaseModel):
    """Somebody."""

    name: str = pydantic.Field(min_length=2, description="as on the passport")
    age: pydantic.PositiveInt = 18
    email: str | None = None
    home: Place2 | None = None

    @pydantic.field_validator("name")
    @classmethod
    def no_digits(cls, name: str) -> str:
        if any(sign.isdigit() for sign in name):
            raise ValueError("a name has no digits")
        return name


class Place2(pydantic.BaseModel):
    city: str
    floor: int = 0


class Tree(pydantic.BaseModel):
    name: str
    kids: list[Tree] = []


@dataclasses.dataclass
class Team:
    lead: Person
    size: int = 1


class Crew(msgspec.Struct):
    lead: Person
    second: Person | None = None
    tree: Tree | None = None


class Pair(NamedTuple):
    left: int
    right: str


@dataclasses.dataclass
class Answer:
    text: str
    sure: bool = True


@dataclasses.dataclass
class Question:
    text: str
    options: list[str]


def refusal(kind: object, text: str) -> str:
    with pytest.raises(InvalidOutput) as caught:
        OutputType(kind).parse(text)
    return str(caught.value)


# --- what can be an output type ------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Order, '{"lines": [{"item": "tea"}], "colour": "blue"}', Order([Line("tea")], None, Colour.BLUE)),
        (Place, '{"city": "Ulm"}', {"city": "Ulm"}),
        (Money, '{"amount": 1.10000000000000000001}', Money(decimal.Decimal("1.10000000000000000001"))),
        (Node, '{"name": "a", "kids": [{"name": "b"}]}', Node("a", [Node("b")])),
        (Person, '{"name": "Al", "age": 20}', Person(name="Al", age=20)),
        (Tree, '{"name": "a", "kids": [{"name": "b"}]}', Tree(name="a", kids=[Tree(name="b")])),
        (Team, '{"lead": {"name": "Al"}}', Team(Person(name="Al"))),
        (Crew, '{"lead": {"name": "Al"}}', Crew(Person(name="Al"))),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (dict, '{"a": [1]}', {"a": [1]}),
        (dict[int, str], '{"1": "a"}', {1: "a"}),
    ],
)
def test_an_object_is_described_and_read_as_it_is(kind: object, text: str, value: object):
    output = OutputType(kind)
    assert not output.wrapped
    assert output.schema["type"] == "object"
    assert output.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "3", 3),
        (bool, "true", True),
        (float, "1.5", 1.5),
        (list[int], "[1, 2]", [1, 2]),
        (list, "[1, null]", [1, None]),
        (list[Line], '[{"item": "tea"}]', [Line("tea")]),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (set[int], "[1, 1]", {1}),
        (Pair, '[1, "a"]', Pair(1, "a")),
        (Colour, '"red"', Colour.RED),
        (Literal["a", 2], '"a"', "a"),
        (int | str, '"a"', "a"),
        (Optional[Line], "null", None),  # noqa: UP045 - both ways of writing it
        (Line | None, '{"item": "tea"}', Line("tea")),
        (Cat | Dog, '{"type": "dog"}', Dog()),
        (Annotated[int, msgspec.Meta(ge=1)], "1", 1),
        (Any, '{"a": 1}', {"a": 1}),
        (datetime.date, '"2024-02-29"', datetime.date(2024, 2, 29)),
        (list[Person], '[{"name": "Al"}]', [Person(name="Al")]),
        (Person | Place2, '{"city": "Ulm"}', Place2(city="Ulm")),
        (Person | int, "3", 3),
        (Annotated[int, pydantic.Field(ge=1)], "1", 1),
        (pydantic.RootModel[list[int]], "[1]", pydantic.RootModel[list[int]]([1])),
        (dict[str, Person] | None, '{"a": {"name": "Al"}}', {"a": Person(name="Al")}),
    ],
)
def test_anything_else_stands_under_result(kind: object, text: str, value: object):
    output = OutputType(kind)
    assert output.wrapped
    assert output.schema["type"] == "object"
    assert output.schema["required"] == ["result"]
    assert output.schema["additionalProperties"] is False
    assert list(output.schema["properties"]) == ["result"]  # type: ignore[call-overload]
    assert output.parse(f'{{"result": {text}}}') == value
    assert output.parse(text) == value
    assert repr(output.parse(text)) == repr(value)


@pytest.mark.parametrize(
    "kind", [Order, Node, Person, Tree, Team, Crew, Answer | Question, list[Node], Crew | Team]
)
def test_every_reference_of_a_schema_leads_somewhere(kind: object):
    schema = OutputType(kind).schema
    text = json.dumps(schema)
    named = set(re.findall(r'"#/\$defs/([^"]+)"', text))
    assert named == set(schema.get("$defs", {}))  # type: ignore[call-overload]
    assert "$ref" not in schema


def test_models_in_a_struct_keep_their_schema():
    schema: Any = OutputType(Crew).schema
    lead = schema["properties"]["lead"]
    assert lead["properties"]["name"]["description"] == "as on the passport"
    (home, _) = lead["properties"]["home"]["anyOf"]
    place = schema["$defs"][home["$ref"].removeprefix("#/$defs/")]
    assert list(place["properties"]) == ["city", "floor"]


def test_two_choices_may_have_parts_of_one_name():
    def made(field: str) -> type:
        part = msgspec.defstruct("Part", [(field, int)])
        return msgspec.defstruct("Whole", [("part", part), ("others", list[part])])

    output = OutputType(made("a") | made("b"))
    assert len(output.schema["$defs"]) == 2  # type: ignore[arg-type]
    value: Any = output.parse('{"part": {"b": 1}, "others": []}')
    assert value.part.b == 1


@pytest.mark.parametrize(
    ("kind", "name", "description"),
    [
        (Order, "Order", "What somebody ordered."),
        (Line, "Line", ""),
        (Place, "Place", "Where it is."),
        (Person, "Person", "Somebody."),
        (Node, "Node", "A tree."),
        (Colour, "Colour", "What it looks like."),
        (list[int], "output", ""),
        (int, "output", ""),
        (int | str, "output", ""),
        (Answer | Question, "output", ""),
        (Literal["a"], "output", ""),
        (msgspec.defstruct("Größe", []), "Gr_e", ""),
        (msgspec.defstruct("Ü1", []), "output", ""),
        (msgspec.defstruct("Ü", []), "output", ""),
        (msgspec.defstruct("_Mine", []), "Mine", ""),
        (msgspec.defstruct("N" * 99, []), "N" * 64, ""),
    ],
)
def test_it_has_a_name_that_every_service_takes(kind: object, name: str, description: str):
    output = OutputType(kind)
    assert (output.name, output.description) == (name, description)


T = TypeVar("T")


class Page(msgspec.Struct, Generic[T]):
    items: list[T]


class Sheet(pydantic.BaseModel, Generic[T]):
    items: list[T]


def test_generic_types_are_read():
    assert OutputType(Page[int]).parse('{"items": [1]}') == Page([1])
    assert OutputType(Page[int]).name == "Page"
    assert OutputType(Sheet[int]).parse('{"items": [1]}') == Sheet[int](items=[1])
    assert OutputType(Sheet[int]).name == "Sheet_int"
    assert OutputType(Page[Person]).parse('{"items": [{"name": "Al"}]}') == Page([Person(name="Al")])


class Custom:
    pass


@dataclasses.dataclass
class Lost:
    field: Nowhere  # type: ignore[name-defined] # noqa: F821


class Arbitrary(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    custom: Custom


@pydantic.dataclasses.dataclass
class Checked:
    count: pydantic.PositiveInt


class HasChecked(msgspec.Struct):
    checked: Checked


class HasField(msgspec.Struct):
    count: Annotated[int, pydantic.Field(ge=1)]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Custom, "Custom: Custom is no type that JSON can be read into"),
        (list[Custom], "Custom is no type that JSON can be read into"),
        (complex, "complex"),
        (object, "object"),
        (3, "3"),
        ("Order", "'Order'"),
        ({"type": "object"}, "{'type': 'object'}"),
        (Line("tea"), "Line(item='tea', count=1)"),
        (Callable[[], int], "Callable"),
        (Lost, "Nowhere"),
        (Arbitrary, "Custom"),
        (list[Answer | Question], "more than one dataclass"),
        (Answer | Custom, "Custom is no type"),
        (HasChecked, "HasChecked"),
        (HasField, "HasField"),
        (Checked | HasField, "HasField"),
    ],
)
def test_what_cannot_be_an_output_type_is_refused_when_the_agent_is_made(kind: object, why: str):
    with pytest.raises(ConfigError) as caught:
        OutputType(kind)
    assert caught.value.message.startswith("output type ")
    assert why in caught.value.message
    assert "\n" not in caught.value.message
    assert "dataclass, TypedDict" in (caught.value.hint or "")


def test_none_is_no_output_type():
    with pytest.raises(ConfigError, match="leave it out"):
        OutputType(None)


def test_it_shows_what_it_is():
    assert repr(OutputType(Order)) == "<output Order>"
    assert repr(OutputType(list[int])) == "<output list[int]>"


def test_pydantic_is_not_imported_for_those_who_do_not_use_it():
    code = (
        "import sys, dataclasses\n"
        "from gnomon.engine.output import OutputType\n"
        "@dataclasses.dataclass\n"
        "class A:\n    x: int\n"
        "a = OutputType(A)\n"
        "assert a.builtins(a.parse('{\"x\": 1}')) == {'x': 1}\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_pydantic_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "pydantic")
    assert OutputType(Order).parse('{"lines": []}') == Order([])


def test_what_is_pydantics_is_read_by_pydantic():
    assert OutputType(Checked).parse('{"count": 1}') == Checked(1)
    assert "greater than 0 - at `$.count`" in refusal(Checked, '{"count": 0}')
    assert "greater than 0" in refusal(Annotated[int, annotated_types.Gt(0)], "0")
    assert "greater than 0" in refusal(pydantic.PositiveInt, "0")


class Hosting(TypedDict):
    host: Person


class Hosting2(typing_extensions.TypedDict):
    host: Person


@pytest.mark.parametrize("kind", [Hosting, Hosting2])
def test_a_typed_dict_may_hold_a_model(kind: object):
    assert OutputType(kind).parse('{"host": {"name": "Al"}}') == {"host": Person(name="Al")}
    assert "no digits" in refusal(kind, '{"host": {"name": "A1"}}')


# --- a union of classes ----------------------------------------------------------


def test_a_union_of_dataclasses_is_tried_one_by_one():
    output = OutputType(Answer | Question | int | None)
    assert output.parse('{"result": {"text": "yes"}}') == Answer("yes")
    assert output.parse('{"text": "which?", "options": ["a"]}') == Question("which?", ["a"])
    assert output.parse('{"text": "yes", "sure": false}') == Answer("yes", sure=False)
    assert output.parse("3") == 3
    assert output.parse("null") is None
    schema: Any = output.schema
    assert len(schema["properties"]["result"]["anyOf"]) == 4


def test_a_union_may_mix_pydantic_and_msgspec():
    output = OutputType(Person | Money)
    assert output.parse('{"name": "Al"}') == Person(name="Al")
    assert output.parse('{"amount": 1}') == Money(decimal.Decimal(1))
    assert output.builtins(Person(name="Al")) == {"name": "Al", "age": 18, "email": None, "home": None}
    assert output.builtins(Money(decimal.Decimal("1.5"))) == {"amount": "1.5", "currency": "EUR"}


def test_what_fits_no_part_of_a_union_is_told_for_each():
    assert refusal(Answer | Question, '{"text": 1}') == (
        "the answer does not fit: it is none of the alternatives: "
        "Answer: Expected `str`, got `int` - at `$.text`; Question: Expected `str`, got `int` - at `$.text`"
    )


# --- what does not fit -----------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Order, "{}", "the answer does not fit: Object missing required field `lines`"),
        (
            Order,
            '{"lines": [{"item": "a"}, {"item": 3}]}',
            "the answer does not fit: Expected `str`, got `int` - at `$.lines[1].item`",
        ),
        (Order, "[]", "the answer does not fit: Expected `object`, got `array`"),
        (Order, '"{}"', "the answer does not fit: Expected `object`, got `str`"),
        (list[int], '["a"]', "the answer does not fit: Expected `int`, got `str` - at `$.result[0]`"),
        (
            list[int],
            '{"result": [], "more": 1}',
            "the answer does not fit: Expected `array`, got `object` - at `$.result`",
        ),
        (Colour, '"green"', "the answer does not fit: Invalid enum value 'green' - at `$.result`"),
        (Person, "{}", "the answer does not fit: Field required - at `$.name`"),
        (
            Person,
            '{"name": "A1", "age": -1, "home": {"city": 1}}',
            "the answer does not fit: Value error, a name has no digits - at `$.name`; "
            "Input should be greater than 0 - at `$.age`; "
            "Input should be a valid string - at `$.home.city`",
        ),
        (
            list[Person],
            '[{"name": "A"}]',
            "the answer does not fit: String should have at least 2 characters - at `$.result[0].name`",
        ),
        (
            Crew,
            '{"lead": {"name": "A1"}}',
            "the answer does not fit: Value error, a name has no digits - at `$.name` - at `$.lead`",
        ),
        (Person, "[]", "the answer does not fit: Input should be an object"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line_that_names_the_field(kind: object, text: str, message: str):
    assert refusal(kind, text) == message


def test_of_many_complaints_the_first_are_told():
    message = refusal(list[Person], json.dumps([{}] * 9))
    assert message.count("Field required") == 5
    assert message.endswith("; and 4 more")


def test_a_complaint_about_a_long_value_is_short_and_still_names_the_field():
    kind = TypedDict("kind", {"colour": Colour})  # noqa: UP013 - it needs no name of its own
    message = refusal(kind, json.dumps({"colour": "x" * 100_000}))
    assert len(message) < 400
    assert message.endswith("- at `$.colour`")


def test_an_error_in_somebodys_own_code_is_not_the_models():
    class Buggy(msgspec.Struct):
        x: int

        def __post_init__(self) -> None:
            raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        OutputType(Buggy).parse('{"x": 1}')


# --- finding the JSON --------------------------------------------------------------

TEA = '{"item": "tea {[ ```"}'


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff \n{TEA}\n",
        f"```json\n{TEA}\n```",
        f"```\n{TEA}\n```\n",
        f"```json\r\n{TEA}\r\n```",
        f"```json {TEA} ```",
        f"Sure!\n\n```json\n{TEA}\n```\nAnything else?",
        f"Here: {TEA}.",
        f"Use [brackets] or {{braces}}: {TEA}",
        f'A 5" pipe, one [ too many: {TEA} }} and more',
        f'an open {{ and "\n{TEA}',
        f'{{"wrong": "shape"}} I mean {TEA} (see [1])',
        f"{{'item': 'tea'}} I mean {TEA}",
        f"{TEA}\nFurther [",
    ],
)
def test_json_in_prose_or_a_fence_is_found(text: str):
    assert OutputType(Line).parse(text) == Line("tea {[ ```")


def test_a_fence_may_hold_a_scalar():
    assert OutputType(int).parse("```json\n42\n```") == 42


def test_two_values_that_fit_are_one_too_many():
    message = refusal(Line, f"{TEA} or {TEA}")
    assert message == "2 JSON values in the answer fit: answer with exactly one"


def test_of_values_that_do_not_fit_the_largest_is_told_of():
    assert "`$.count`" in refusal(Line, 'see [1]: {"item": "tea", "count": "one"} [2]')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the answer is empty, and JSON was expected"),
        (" \n\ufeff", "the answer is empty, and JSON was expected"),
        ("```json\n\n```", "the answer is empty, and JSON was expected"),
        ("I cannot do that.", "there is no JSON in the answer"),
        ('{"item": "te', "the JSON is cut off: it ends before its last bracket is closed"),
        ('Sure: {"a": {"item": "tea"}, ', "the JSON is cut off: it ends before its last bracket is closed"),
        ("```json\n[{", "the JSON is cut off: it ends before its last bracket is closed"),
        ("{'item': 'tea'}", "not JSON: Expecting property name enclosed in double quotes at line 1 column 2"),
        ('{\n "item": tea}', "not JSON: Expecting value at line 2 column 10"),
        ('so {"item": tea}', "not JSON: Expecting value at line 1 column 10"),
        ('{"item": "a\nb"}', "not JSON: Invalid control character at at line 1 column 12"),
        ('{"item": "a", "item": "b"}', "the key 'item' stands twice in one object"),
        ('so {"a": {"x": 1, "y": 1, "x": 1}}', "the key 'x' stands twice in one object"),
        ('{"count": NaN}', "NaN is not JSON"),
        ('{"count": -Infinity}', "-Infinity is not JSON"),
        ('{"count": 1e999}', "the number 1e999 is out of range"),
        ('{"count": ' + "9" * 5000 + "}", "a number in it has too many digits"),
        ('{"item": "\\ud83d"}', "a \\u escape in it is half a surrogate pair"),
        ('{"item": "\ud83d"}', "a \\u escape in it is half a surrogate pair"),
    ],
)
@pytest.mark.parametrize("kind", [Line, Person])
def test_what_is_no_json_is_told_exactly(kind: object, text: str, message: str):
    assert refusal(kind, text) == message


def test_a_whole_surrogate_pair_is_text():
    assert OutputType(Line).parse('{"item": "\\ud83d\\ude00"}') == Line("😀")


def nested(depth: int) -> str:
    return '{"a": ' * (depth - 1) + "{}" + "}" * (depth - 1)


def test_nesting_has_a_limit_that_does_not_depend_on_the_stack():
    assert OutputType(dict).parse(nested(200))
    told = "it is nested too deeply: at most 200 lists and objects in one another"
    for depth in (201, 900, 100_000):
        assert refusal(dict, nested(depth)) == told
        assert refusal(Person, nested(depth)) == told
        assert refusal(list, "[" * depth + "]" * depth) == told
    assert OutputType(list).parse("[" * 200 + "1" + "]" * 200)


def test_a_large_whole_number_is_exact():
    assert OutputType(int).parse("9" * 400) == int("9" * 400)


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "{",
        "]",
        "}",
        '"',
        "\\",
        '"\\',
        '{"a":',
        "[}",
        "{]",
        "[]",
        "{x}",
        "```\n",
        '[1,"',
        '{"a":null},',
        "[[]",
    ],
    ids=repr,
)
def test_hostile_answers_take_linear_time(unit: str):
    output = OutputType(Line)

    def seconds(size: int) -> float:
        begun = time.process_time()
        for start in ("", "[", '{"item": "'):
            with pytest.raises(InvalidOutput):
                output.parse(start + unit * (size // len(unit)))
        return time.process_time() - begun

    # The best of three: a busy machine makes any one of them slow.
    assert min(seconds(60_000) for _ in range(3)) < 10 * min(seconds(15_000) for _ in range(3)) + 0.2


# --- nulls -------------------------------------------------------------------------


class Everything(msgspec.Struct):
    """Fields that may be left out, at every kind of place."""

    line: Line = msgspec.field(default_factory=lambda: Line("none"))
    lines: list[Line] = []
    by_name: dict[str, Line] = {}
    pair: tuple[Line, int] | None = None
    pet: Cat | Dog = msgspec.field(default_factory=Cat)
    node: Node | None = None
    anything: Any = 3
    colour: Colour = Colour.RED
    choice: Literal["a", None] = "a"
    unset: int | msgspec.UnsetType = msgspec.UNSET


def test_a_null_counts_as_left_out_where_null_is_not_allowed_at_all_levels():
    text = json.dumps(
        {
            "line": {"item": "tea", "count": None},
            "lines": [{"item": "tea", "count": None}],
            "by_name": {"x": {"item": "tea", "count": None}},
            "pair": [{"item": "tea", "count": None}, 1],
            "pet": {"type": "dog", "name": None},
            "node": {"name": "a", "kids": [{"name": "b", "kids": None}]},
            "colour": None,
            "unset": None,
        }
    )
    tea = Line("tea")
    assert OutputType(Everything).parse(text) == Everything(
        tea, [tea], {"x": tea}, (tea, 1), Dog(), Node("a", [Node("b")])
    )


def test_a_null_that_is_allowed_stays():
    text = '{"pair": null, "anything": null, "choice": null, "node": null}'
    assert OutputType(Everything).parse(text) == Everything(anything=None, choice=None)
    assert OutputType(dict).parse('{"a": null}') == {"a": None}
    assert OutputType(Place).parse('{"city": "Ulm", "zip": null}') == {"city": "Ulm"}


def test_a_null_for_what_is_required_is_told():
    assert "Expected `str`, got `null` - at `$.item`" in refusal(Line, '{"item": null}')
    assert "valid string - at `$.name`" in refusal(Person, '{"name": null}')
    assert "Expected `int`, got `null`" in refusal(dict[str, int], '{"a": null}')
    assert "Expected `int`, got `null`" in refusal(list[int], "[null]")


def test_a_null_counts_as_left_out_for_pydantic_too():
    text = '{"name": "Al", "age": null, "email": null, "home": {"city": "Ulm", "floor": null}}'
    expected = Person(name="Al", home=Place2(city="Ulm"))
    assert OutputType(Person).parse(text) == expected
    assert OutputType(list[Person]).parse(f"[{text}]") == [expected]
    assert OutputType(Crew).parse(f'{{"lead": {text}, "second": null}}') == Crew(expected)
    assert OutputType(Tree).parse('{"name": "a", "kids": [{"name": "b", "kids": null}]}') == Tree(
        name="a", kids=[Tree(name="b")]
    )


class Loose(pydantic.BaseModel):
    kind: Literal["loose"] = "loose"
    size: int = 1


class Tight(pydantic.BaseModel):
    kind: Literal["tight"] = "tight"
    size: int | None = 2


class Both(pydantic.BaseModel):
    either: Loose | Tight


def test_in_a_union_the_type_that_is_meant_says_whether_null_is_allowed():
    output = OutputType(Both)
    assert output.parse('{"either": {"kind": "tight", "size": null}}') == Both(either=Tight(size=None))
    assert output.parse('{"either": {"kind": "loose", "size": null}}') == Both(either=Loose())
    union = OutputType(Answer | Question)
    assert union.parse('{"result": {"text": "yes", "sure": null}}') == Answer("yes")


def test_a_schema_may_refer_to_itself_in_a_circle():
    schema: Any = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {
            "A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]},
            "B": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": ["integer", "null"]}]},
        },
    }
    assert without_nulls({"a": None, "b": None}, schema) == {"b": None}


@pytest.mark.parametrize(
    ("place", "takes_null"),
    [
        ({}, True),
        ({"description": "any"}, True),
        ({"type": "null"}, True),
        ({"type": "integer"}, False),
        ({"type": ["integer", "string"]}, False),
        ({"const": None}, True),
        ({"const": 1}, False),
        ({"enum": [1, None]}, True),
        ({"enum": [1]}, False),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, True),
        ({"allOf": [{"type": "integer"}]}, False),
        ({"$ref": "#/$defs/Null"}, True),
        ({"$ref": "#/$defs/Number"}, False),
    ],
)
def test_a_schema_says_whether_it_takes_null(place: Any, takes_null: bool):
    definitions = {"Null": {"type": "null"}, "Number": {"type": "number"}}
    schema: Any = {"type": "object", "properties": {"x": place}, "$defs": definitions}
    assert without_nulls({"x": None}, schema) == ({"x": None} if takes_null else {})
    assert without_nulls({"x": None}, {**schema, "required": ["x"]}) == {"x": None}


def test_digits_are_kept_beside_a_null_that_is_allowed():
    class Bill(msgspec.Struct):
        total: decimal.Decimal
        note: str | None = None

    exact = "0.1234567890123456789012345"
    parsed: Any = OutputType(Bill).parse(f'{{"total": {exact}, "note": null}}')
    assert parsed.total == decimal.Decimal(exact)


# --- and back ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "plain"),
    [
        (Line, '{"item": "tea"}', {"item": "tea", "count": 1}),
        (Colour, '"red"', "red"),
        (set[int], "[1]", [1]),
        (tuple[int, ...], "[1]", [1]),
        (dict[int, str], '{"1": "a"}', {"1": "a"}),
        (datetime.date, '"2024-02-29"', "2024-02-29"),
        (uuid.UUID, '"00000000-0000-0000-0000-000000000001"', "00000000-0000-0000-0000-000000000001"),
        (Place2, '{"city": "Ulm"}', {"city": "Ulm", "floor": 0}),
        (list[Place2], '[{"city": "Ulm"}]', [{"city": "Ulm", "floor": 0}]),
        (Page[Place2], '{"items": [{"city": "Ulm"}]}', {"items": [{"city": "Ulm", "floor": 0}]}),
        (Answer | Question, '{"text": "yes"}', {"text": "yes", "sure": True}),
    ],
)
def test_an_object_as_plain_data(kind: object, text: str, plain: object):
    output = OutputType(kind)
    value = output.parse(text)
    assert output.builtins(value) == plain
    assert type(output.builtins(value)) is type(plain)
    assert output.parse(json.dumps(plain)) == value


@dataclasses.dataclass(frozen=True)
class Corner:
    x: int
    y: int = 2
    z: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Slim:
    x: int
    y: int = 2


class Room(msgspec.Struct):
    corner: Corner
    slim: Slim


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (Corner, "", ""),
        (list[Corner], "[", "]"),
        (tuple[Corner, ...], "[", "]"),
        (dict[str, Corner], '{"a":', "}"),
        (Room, '{"corner":', ',"slim":{"x":1,"y":2}}'),
    ],
)
def test_a_dataclass_has_all_its_fields_in_their_order(kind: object, before: str, after: str):
    output = OutputType(kind)
    value = output.parse(before + '{"x":1}' + after)
    assert json.dumps(output.builtins(value), separators=(",", ":")) == (
        before + '{"x":1,"y":2,"z":[]}' + after
    )


@dataclasses.dataclass
class Child:
    name: str
    parent: Any = None


@dataclasses.dataclass
class Parent:
    children: list[Child]

    def __post_init__(self) -> None:
        for child in self.children:
            child.parent = self


def test_objects_may_know_one_another():
    parent: Any = OutputType(Parent).parse('{"children": [{"name": "Al"}]}')
    assert parent.children[0].parent is parent
    with pytest.raises(InvalidOutput, match="Parent is not JSON"):
        OutputType(Parent).builtins(parent)


class Aliased(pydantic.BaseModel):
    first_name: str = pydantic.Field(alias="firstName")


def test_a_field_with_another_name_outside_goes_by_that_name():
    output = OutputType(Aliased)
    value = output.parse('{"firstName": "Al"}')
    assert list(output.schema["properties"]) == ["firstName"]  # type: ignore[call-overload]
    assert output.builtins(value) == {"firstName": "Al"}


def test_infinity_is_plain_data_as_null():
    assert OutputType(list[float]).builtins([float("inf")]) == [None]
    assert OutputType(list[float] | Person).builtins([float("nan")]) == [None]


def test_what_is_no_json_cannot_be_plain_data():
    with pytest.raises(InvalidOutput, match="Custom is not JSON: a value of type Custom is not JSON"):
        OutputType(Any).builtins(Custom())


# --- while it is written ------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "partial"),
    [
        (Line, "", None),
        (Line, "[1", None),
        (Line, "{", {}),
        (Line, '{"item": "te', {"item": "te"}),
        (list[int], "{", None),
        (list[int], '{"result', None),
        (list[int], '{"result": [', []),
        (list[int], '{"result": [1, 2', [1]),
        (list[int], "[1, 2", [1]),
        (Line | None, '{"item": "te', {"item": "te"}),
        (Any, '{"result": "te', "te"),
    ],
)
def test_a_partial_answer_is_unwrapped(kind: object, text: str, partial: object):
    reader = PartialJSON()
    reader.feed(text)
    assert partial_of(OutputType(kind), reader.value) == partial
