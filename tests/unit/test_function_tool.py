"""A function as a tool: what the model is told, what the function gets, what the model gets back."""

import asyncio
import contextvars
import dataclasses
import enum
import functools
import inspect
import json
import sys
import threading
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest
from typing_extensions import TypeAliasType

from gnomon import Agent, Provider, ToolContext, ToolFailed, ToolResult, tool
from gnomon.contracts.tool import Context, SupportsEffects, SupportsTimeout, Tool
from gnomon.errors import ConfigError, InvalidArguments
from gnomon.tools.function import FunctionTool, StreamingFunctionTool

Define = Callable[[str], dict[str, Any]]


async def answer(made: Tool, arguments: str = "{}") -> ToolResult:
    return await made.execute(arguments, ToolContext(call_id="call_1", turn_id="turn_1"))


async def refusal(made: Tool, arguments: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        await answer(made, arguments)
    return str(caught.value)


def properties(made: Tool) -> dict[str, dict[str, Any]]:
    return made.parameters["properties"]  # type: ignore[return-value]


# --- the schema -------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    city: str
    country: str


class Order(msgspec.Struct):
    item: str
    count: int = 1


class Box(msgspec.Struct):
    corner: Point
    inside: "list[Box]" = []


def test_plain_types_become_a_schema_of_an_object() -> None:
    @tool
    def weather(city: str, days: int, exact: bool, limit: float) -> str:
        return city

    assert weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
            "limit": {"type": "number"},
        },
        "required": ["city", "days", "exact", "limit"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_object() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.parameters["properties"] == {}
    assert ping.parameters["required"] == []
    assert ping.parameters["type"] == "object"


def test_defaults_are_told_and_make_a_parameter_optional() -> None:
    @tool
    def search(query: str, limit: int = 10, tags: list[str] = ["a"], colour: Colour = Colour.RED) -> None: ...  # noqa: B006

    assert search.parameters["required"] == ["query"]
    assert properties(search)["limit"] == {"type": "integer", "default": 10}
    assert properties(search)["tags"]["default"] == ["a"]
    assert properties(search)["colour"]["default"] == "red"


@pytest.mark.parametrize("default", [object(), lambda: 1, float("inf"), float("nan"), {(1, 2): 3}])
def test_a_default_that_json_cannot_say_is_left_out_of_the_schema(default: object) -> None:
    def search(query: Any = default) -> None: ...

    described = FunctionTool(search).parameters
    json.dumps(described, allow_nan=False)
    assert described["properties"] == {"query": {}}


async def test_a_default_is_the_functions_own_and_not_a_copy() -> None:
    marker = object()

    @tool
    def same(given: Any = marker) -> bool:
        return given is marker

    assert (await answer(same)).text == "true"


@pytest.mark.parametrize("hint", [Optional[int], int | None])  # noqa: UP045
def test_an_optional_parameter_may_be_null(hint: Any) -> None:
    def search(limit=None) -> None: ...

    search.__annotations__["limit"] = hint
    described = properties(FunctionTool(search))["limit"]
    assert described["default"] is None
    assert {kind.get("type") for kind in described["anyOf"]} == {"integer", "null"}


async def test_an_int_whose_default_is_none_may_be_null_too() -> None:
    @tool
    def search(limit: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
        return repr(limit)

    assert (await answer(search, '{"limit": null}')).text == "None"
    assert (await answer(search, '{"limit": 3}')).text == "3"


def test_choices_are_enumerated() -> None:
    @tool
    def paint(colour: Colour, finish: Literal["matt", "gloss"] = "matt") -> None: ...

    described = paint.parameters
    assert sorted(properties(paint)["finish"]["enum"]) == ["gloss", "matt"]
    assert properties(paint)["finish"]["default"] == "matt"
    assert sorted(described["$defs"]["Colour"]["enum"]) == ["blue", "red"]  # type: ignore[index]


async def test_structured_arguments_arrive_as_their_types() -> None:
    seen: list[object] = []

    @tool
    def take(
        point: Point, place: Place, order: Order, box: Box, many: list[Point], by: dict[str, Order], c: Colour
    ) -> None:
        seen.extend([point, place, order, box, many, by, c])

    given = {
        "point": {"x": 1},
        "place": {"city": "Rome", "country": "it"},
        "order": {"item": "tea"},
        "box": {"corner": {"x": 1, "y": 2}, "inside": [{"corner": {"x": 3}}]},
        "many": [{"x": 1}, {"x": 2}],
        "by": {"a": {"item": "tea", "count": 2}},
        "c": "blue",
    }
    await answer(take, json.dumps(given))
    assert seen == [
        Point(1),
        {"city": "Rome", "country": "it"},
        Order("tea"),
        Box(Point(1, 2), [Box(Point(3))]),
        [Point(1), Point(2)],
        {"a": Order("tea", 2)},
        Colour.BLUE,
    ]


def test_every_reference_in_a_schema_is_defined_in_it() -> None:
    @tool
    def take(box: Box, place: Place, order: Order | None = None) -> None: ...

    text = json.dumps(take.parameters)
    wanted = {piece.split('"')[0] for piece in text.split("#/$defs/")[1:]}
    assert wanted >= {"Box", "Place", "Order", "Point"}
    assert wanted <= take.parameters["$defs"].keys()  # type: ignore[union-attr]


async def test_a_type_of_the_users_may_have_any_name() -> None:
    @dataclasses.dataclass
    class Arguments:
        x: int

    @tool
    def take(given: Arguments) -> int:
        return given.x

    assert "given" in properties(take)
    assert (await answer(take, '{"given": {"x": 7}}')).text == "7"


def test_help_may_stand_in_annotated() -> None:
    @tool
    def search(
        query: Annotated[str, "what to look for"],
        limit: Annotated[int, msgspec.Meta(ge=1, le=50, description="how many")] = 10,
        page: Annotated[int, "which page", msgspec.Meta(ge=1)] = 1,
    ) -> None: ...

    assert properties(search) == {
        "query": {"type": "string", "description": "what to look for"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many", "default": 10},
        "page": {"type": "integer", "minimum": 1, "description": "which page", "default": 1},
    }


City = Annotated[str, "a city"]


def test_of_two_helps_the_nearer_one_is_told() -> None:
    @tool
    def travel(
        start: City,
        to: Annotated[City, "where to"],
        by: Annotated[str, msgspec.Meta(description="a means"), "train or ship"],
        via: Annotated[int, "stops"] | None = None,
    ) -> None:
        """Travel.

        via: no
        """

    assert {name: told["description"] for name, told in properties(travel).items()} == {
        "start": "a city",
        "to": "where to",
        "by": "train or ship",
        "via": "stops",
    }


async def test_constraints_are_checked() -> None:
    @tool
    def search(limit: Annotated[int, msgspec.Meta(ge=1)]) -> int:
        return limit

    assert "`int` >= 1" in await refusal(search, '{"limit": 0}')


async def test_an_unannotated_parameter_takes_anything() -> None:
    @tool
    def echo(value, other=5):
        return [value, other]

    assert properties(echo) == {"value": {}, "other": {"default": 5}}
    assert (await answer(echo, '{"value": {"a": [1]}}')).text == '[{"a":[1]},5]'


async def test_positional_only_and_keyword_only_parameters_are_called_as_they_must_be() -> None:
    @tool
    def mix(a: int, /, b: int, *, c: int) -> list[int]:
        return [a, b, c]

    assert (await answer(mix, '{"c": 3, "b": 2, "a": 1}')).text == "[1,2,3]"


async def test_a_positional_only_default_that_is_left_out_does_not_shift_the_others() -> None:
    @tool
    def span(start: int = 1, stop: int = 2, /) -> list[int]:
        return [start, stop]

    assert (await answer(span, '{"stop": 5}')).text == "[1,5]"
    assert (await answer(span, '{"start": 5}')).text == "[5,2]"
    assert (await answer(span)).text == "[1,2]"


def test_parameters_without_names_are_refused() -> None:
    @tool
    def rest(*args: int) -> None: ...

    @tool
    def options(**kwargs: int) -> None: ...

    for made in (rest, options):
        with pytest.raises(ConfigError, match=r"cannot be described to a model \(name each parameter\)"):
            made.parameters


def test_a_type_no_model_can_send_is_refused_by_the_tools_name() -> None:
    @tool
    def take(handle: threading.Thread) -> None: ...

    with pytest.raises(ConfigError, match=r"tool 'take': its parameters cannot be described"):
        take.parameters


def test_an_agent_refuses_a_tool_it_cannot_describe_when_it_is_made() -> None:
    def take(handle: threading.Thread) -> None: ...

    with pytest.raises(ConfigError, match="tool 'take'"):
        Agent(Silent(), tools=[take])


class Silent(Provider):
    name = "silent"
    model = "silent"

    def events(self, request: Any) -> Any:
        raise NotImplementedError


def test_the_schema_is_the_same_on_every_read() -> None:
    @tool
    def take(order: Order) -> None: ...

    assert take.parameters == take.parameters
    assert take.parameters["$defs"]


# --- the context ------------------------------------------------------------


async def test_the_context_is_injected_under_any_name_and_not_told_to_the_model() -> None:
    @tool
    def first(ctx: ToolContext, n: int) -> str:
        return f"{ctx.call_id} {n}"

    @tool
    def last(n: int, *, whatever: ToolContext) -> str:
        return f"{whatever.call_id} {n}"

    @tool
    def only(positional: ToolContext, /) -> str:
        return positional.call_id

    for made in (first, last):
        assert list(properties(made)) == ["n"]
        assert (await answer(made, '{"n": 1}')).text == "call_1 1"
    assert properties(only) == {}
    assert (await answer(only)).text == "call_1"


async def test_a_context_may_be_written_with_a_default_or_a_note() -> None:
    @tool
    def optional(ctx: ToolContext | None = None) -> str:
        return ctx.call_id if ctx else "none"

    @tool
    def noted(ctx: Annotated[ToolContext, "for the key"]) -> str:
        return ctx.call_id

    for made in (optional, noted):
        assert properties(made) == {}, "a model must never be able to send the context"
        assert (await answer(made)).text == "call_1"


@dataclasses.dataclass
class Deps:
    user: str


async def test_a_context_may_say_what_its_deps_are() -> None:
    @tool
    def plain(n: int, who: Context[Deps]) -> str:
        return f"{who.deps.user} {n}"

    @tool
    def optional(n: int, c: Optional[ToolContext[Deps]] = None) -> str:  # noqa: UP045
        return f"{c.deps.user if c else None} {n}"

    @tool
    def noted(n: int, *, c: "Annotated[Context[Deps], 'a note'] | None") -> str:
        return f"{c.deps.user if c else None} {n}"

    @tool
    def aliased(n: int, c) -> str:
        return f"{c.deps.user} {n}"

    aliased.__annotations__["c"] = aliased.function.__annotations__["c"] = TypeAliasType("C", Context[Deps])
    context = ToolContext(call_id="c", deps=Deps("ada"))
    for made in (plain, optional, noted, aliased):
        assert list(properties(made)) == ["n"], made
        assert (await made.execute('{"n": 1}', context)).text == "ada 1"
        assert "unknown field" in await refusal(made, '{"n": 1, "c": {}, "who": {}}')


def test_a_context_is_generic_and_still_small() -> None:
    made = Context[int](call_id="c", deps=3)
    assert (type(made), made.deps, Context) == (ToolContext, 3, ToolContext)
    assert not hasattr(made, "__dict__")
    assert ToolContext(call_id="c").deps is None


async def test_deps_known_to_a_type_checker_only_do_not_hide_the_context(in_module: Define) -> None:
    users = in_module("""
from gnomon import tool
from gnomon.contracts import tool as contracts
from gnomon.contracts.tool import Context

@tool
def one(n: int, ctx: Context[Unseen]) -> str:
    return ctx.call_id

@tool
def other(n: int, ctx: contracts.ToolContext[Unseen] | None = None) -> str:
    return ctx.call_id

@tool
def wrong(n: list[Unseen]) -> None: ...
""")
    for name in ("one", "other"):
        assert list(properties(users[name])) == ["n"]
        assert (await answer(users[name], '{"n": 1}')).text == "call_1"
    with pytest.raises(ConfigError, match="Unseen"):
        users["wrong"].parameters


async def test_a_model_cannot_send_a_context_of_its_own() -> None:
    @tool
    def pay(ctx: ToolContext) -> str:
        return ctx.idempotency_key

    assert "unknown field `ctx`" in await refusal(pay, '{"ctx": {"idempotency_key": "mine"}}')


async def test_two_context_parameters_both_get_it() -> None:
    @tool
    def both(a: ToolContext, b: ToolContext) -> bool:
        return a is b

    assert (await answer(both)).text == "true"


# --- annotations as text ----------------------------------------------------


@pytest.fixture
def in_module(monkeypatch: pytest.MonkeyPatch) -> Define:
    """The names that a module with this text defines."""

    def define(source: str) -> dict[str, Any]:
        module = types.ModuleType("a_users_module")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile("from __future__ import annotations\n" + source, "users.py", "exec"), module.__dict__)
        return module.__dict__

    return define


async def test_annotations_may_be_text_and_name_what_is_defined_later(in_module: Define) -> None:
    users = in_module("""
from dataclasses import dataclass
from typing import Annotated
from gnomon import ToolContext, tool

@tool
def move(to: Point, by: Annotated[int, "how far"] = 1, *, ctx: ToolContext) -> str:
    return f"{to.x} {by} {ctx.call_id}"

@dataclass
class Point:
    x: int
""")
    assert list(properties(users["move"])) == ["to", "by"]
    assert properties(users["move"])["by"]["description"] == "how far"
    assert (await answer(users["move"], '{"to": {"x": 4}}')).text == "4 1 call_1"


def test_a_hint_that_names_nothing_is_refused_by_the_tools_name(in_module: Define) -> None:
    users = in_module("from gnomon import tool\n\n@tool\ndef move(to: Nowhere) -> None: ...\n")
    with pytest.raises(ConfigError, match=r"'move': its type hints cannot be read: .*Nowhere.*\(import or"):
        users["move"].parameters


def test_a_hint_that_is_no_expression_is_refused_by_the_tools_name() -> None:
    def move(to) -> None: ...

    move.__annotations__["to"] = "a point"
    with pytest.raises(ConfigError, match="tool 'move': its type hints cannot be read"):
        FunctionTool(move).parameters


async def test_a_result_type_that_only_a_type_checker_sees_is_no_obstacle(in_module: Define) -> None:
    users = in_module("from gnomon import tool\n\n@tool\ndef count(n: int) -> DataFrame:\n    return n\n")
    assert properties(users["count"]) == {"n": {"type": "integer"}}
    assert (await answer(users["count"], '{"n": 4}')).text == "4"


# --- what can be a tool -----------------------------------------------------


class Shop:
    def __init__(self, stock: int) -> None:
        self.stock = stock

    def take(self, count: int) -> int:
        """Take from the shelf.

        count: how many
        """
        self.stock -= count
        return self.stock

    async def ask(self, count: int) -> bool:
        return count <= self.stock


async def test_the_methods_of_an_object_are_tools() -> None:
    shop = Shop(10)
    take = tool(shop.take)
    assert (take.name, take.description) == ("take", "Take from the shelf.")
    assert properties(take) == {"count": {"type": "integer", "description": "how many"}}
    assert (await answer(take, '{"count": 3}')).text == "7"
    assert shop.stock == 7
    assert (await answer(tool(shop.ask), '{"count": 8}')).text == "false"


def test_a_method_decorated_in_its_class_is_not_told_to_a_model_with_its_self() -> None:
    class Till:
        @tool
        def pay(self, amount: int) -> int:
            return amount

    with pytest.raises(ConfigError, match=r"'pay'.*self"):
        Agent(Silent(), tools=[Till.pay])


async def test_a_partial_is_a_tool_of_the_parameters_that_are_left() -> None:
    def order(shop: str, item: str, count: int = 1) -> str:
        """Order something.

        item: what to buy
        """
        return f"{shop} {item} {count}"

    made = tool(name="order")(functools.partial(order, "corner"))
    assert made.parameters["required"] == ["item"]
    assert properties(made)["item"] == {"type": "string", "description": "what to buy"}
    assert made.description == "Order something."
    assert (await answer(made, '{"item": "tea"}')).text == "corner tea 1"


async def test_a_partial_of_an_async_function_is_awaited() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    made = tool(name="add")(functools.partial(add, b=2))
    assert (await answer(made, '{"a": 1}')).text == "3"


async def test_what_a_partial_fixes_by_name_is_neither_shown_to_a_model_nor_taken_from_one() -> None:
    def look_up(what: str, tenant: str, limit: int = 3) -> str:
        return f"{tenant} {what} {limit}"

    for function in (look_up, tool(look_up), functools.partial(look_up, limit=5)):
        made = tool(name="look_up")(functools.partial(function, tenant="ours"))
        assert "ours" not in json.dumps(made.parameters)
        assert "tenant" not in properties(made)
        assert (await answer(made, '{"what": "tea"}')).text.startswith("ours tea")
        with pytest.raises(InvalidArguments, match="tenant"):
            await answer(made, '{"what": "tea", "tenant": "theirs"}')


async def test_an_object_that_can_be_called_is_a_tool_under_a_given_name() -> None:
    class Adder:
        def __init__(self) -> None:
            self.name = "something else"  # an attribute of the object, not of the tool
            self.timeout_s = 0.0

        def __call__(self, n: int) -> int:
            """Add one."""
            return n + 1

    made = tool(name="add_one", timeout_s=5)(Adder())
    assert (made.name, made.timeout_s) == ("add_one", 5)
    assert made.description == "Add one."
    assert properties(made) == {"n": {"type": "integer"}}
    assert (await answer(made, '{"n": 1}')).text == "2"


@pytest.mark.parametrize("attribute", ["name", "description", "read_only", "timeout_s", "function"])
def test_attributes_of_a_function_do_not_overwrite_those_of_the_tool(attribute: str) -> None:
    def work(n: int) -> int:
        return n

    setattr(work, attribute, "planted")
    made = tool(name="worker", description="Works.", read_only=True, timeout_s=3)(work)
    assert (made.name, made.description, made.read_only, made.timeout_s) == ("worker", "Works.", True, 3)
    assert made(4) == 4


async def test_a_tool_made_from_a_tool_has_the_new_options() -> None:
    @tool
    def work(n: int) -> int:
        return n + 1

    made = tool(name="worker", read_only=True)(work)
    assert (made.name, made.read_only) == ("worker", True)
    assert (work.name, work.read_only) == ("work", False)
    assert (await answer(made, '{"n": 1}')).text == "2"


def test_a_class_is_not_a_tool() -> None:
    class Search:
        def __init__(self, query: str) -> None: ...

    with pytest.raises((ConfigError, TypeError), match="Search"):
        Agent(Silent(), tools=[Search])


async def test_a_decorated_function_keeps_its_signature_and_its_help() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def search(query: str) -> str:
        """Search.

        query: what to look for
        """
        return query

    assert properties(search) == {"query": {"type": "string", "description": "what to look for"}}
    assert search.description == "Search."
    assert (await answer(search, '{"query": "x"}')).text == "x"


def test_a_builtin_without_a_signature_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'max'"):
        Agent(Silent(), tools=[max])


@pytest.mark.parametrize("name", ["<lambda>", "über", "two words", "a" * 65, "dots.in.it", "tab\n"])
def test_a_name_that_not_every_model_takes_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"tool name .* is not one that every model takes .*@tool\(name="):
        tool(name=name)(lambda: 1)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="<lambda>"):
        tool(lambda: 1)
    assert tool(name="one")(lambda: 1).name == "one"


def test_a_class_of_tools_takes_only_the_functions_it_is_for() -> None:
    def counts() -> Any:
        yield 1

    async def acounts() -> Any:
        yield 1

    for function in (counts, acounts):
        with pytest.raises(ConfigError, match=r"yields, so that it is no FunctionTool \(make it with tool"):
            FunctionTool(function)
    with pytest.raises(ConfigError, match="yields nothing on the way"):
        StreamingFunctionTool(lambda: 1, name="one")


@pytest.mark.parametrize("thing", ["text", 5, None.__class__()])
def test_what_cannot_be_called_is_refused(thing: Any) -> None:
    with pytest.raises((ConfigError, TypeError), match="not"):
        FunctionTool(thing)


def test_the_function_can_be_called_as_before() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @tool(read_only=True)
    async def later(a: int) -> int:
        return a

    assert add(1) == 3
    assert add(1, b=4) == 5
    assert asyncio.run(later(4)) == 4
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    assert repr(add) == "<tool add>"
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add()  # type: ignore[call-arg]


def test_the_options_of_a_tool_are_the_ones_given() -> None:
    @tool(read_only=True, destructive=True, idempotent=True, timeout_s=1.5, name="n", description="d")
    def work() -> None:
        """Not this."""

    assert isinstance(work, Tool)
    assert isinstance(work, SupportsEffects)
    assert isinstance(work, SupportsTimeout)
    assert (work.name, work.description) == ("n", "d")
    assert (work.read_only, work.destructive, work.idempotent, work.timeout_s) == (True, True, True, 1.5)


def test_options_given_beside_the_function_are_not_lost() -> None:
    def work() -> None: ...

    made = tool(work, name="other", read_only=True)  # type: ignore[call-overload]
    assert (made.name, made.read_only) == ("other", True)


def test_a_tool_may_have_effects_unless_it_says_otherwise() -> None:
    @tool
    def work() -> None: ...

    assert (work.read_only, work.destructive, work.idempotent) == (False, False, False)
    assert work.timeout_s == 60


# --- the docstring ----------------------------------------------------------


def test_the_docstring_is_the_description_and_helps_with_parameters() -> None:
    @tool
    def weather(city: str, days: int = 1) -> str:
        """The weather of a city.

        It is often wrong.

        Args:
            city (str): the name of the city,
                in English
            days: how many days
        """
        return city

    assert weather.description == "The weather of a city.\n\nIt is often wrong."
    assert properties(weather)["city"]["description"] == "the name of the city, in English"
    assert properties(weather)["days"]["description"] == "how many days"


def test_a_line_about_something_that_is_no_parameter_stays_in_the_description() -> None:
    @tool
    def weather(city: str) -> str:
        """The weather.

        note: this costs money
        city: where
        """
        note = city.upper()
        return note + city

    assert "note: this costs money" in weather.description
    assert properties(weather) == {"city": {"type": "string", "description": "where"}}


def test_help_in_the_signature_wins_over_the_docstring() -> None:
    @tool
    def weather(city: Annotated[str, "from the signature"]) -> None:
        """The weather.

        city: from the docstring
        """

    assert properties(weather)["city"]["description"] == "from the signature"


def test_a_function_that_says_nothing_has_an_empty_description() -> None:
    @tool
    def quiet() -> None: ...

    assert quiet.description == ""


# --- what the model may send ------------------------------------------------


@tool
def book(city: str, nights: int = 1, guests: list[str] = []) -> str:  # noqa: B006
    return f"{city} {nights} {guests}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"city": 5}', "Expected `str`, got `int` - at `$.city`"),
        ('{"city": "Rome", "nights": "two"}', "Expected `int`, got `str` - at `$.nights`"),
        ('{"city": "Rome", "nights": true}', "Expected `int`, got `bool` - at `$.nights`"),
        ('{"city": "Rome", "guests": ["a", 1]}', "at `$.guests[1]`"),
        ('{"city": "Rome", "town": "x"}', "unknown field `town`"),
        ("{}", "missing required field `city`"),
        ("", "missing required field `city`"),
        ("[]", "Expected `object`, got `array`"),
        ('"Rome"', "Expected `object`, got `str`"),
        ("null", "Expected `object`, got `null`"),
        ('{"city": "Rome"', "the arguments are not JSON"),
        ('{"city": "Rome"} x', "the arguments are not JSON"),
        ("{'city': 'Rome'}", "the arguments are not JSON"),
        ('{"city": "Rome", "nights": NaN}', "the arguments are not JSON"),
        ('{"city": "Rome", "nights": 1e999}', "at `$.nights`"),
        ('{"city": "\ud800"}', "the arguments are not JSON"),
        ('{"city": "\\ud800"}', "the arguments are not JSON"),
    ],
)
async def test_wrong_arguments_are_answered_with_a_short_exact_error(arguments: str, said: str) -> None:
    told = await refusal(book, arguments)
    assert said in told
    assert len(told) < 200
    assert "Arguments" not in told, "the model knows nothing of our classes"


async def test_the_function_does_not_run_on_wrong_arguments() -> None:
    ran: list[int] = []

    @tool
    def act(n: int) -> None:
        ran.append(n)

    await refusal(act, '{"n": "1"}')
    assert ran == []


async def test_a_huge_number_is_a_number() -> None:
    @tool
    def echo(n: int) -> int:
        return n

    assert (
        await answer(echo, '{"n": 123456789012345678901234567890}')
    ).text == "123456789012345678901234567890"


async def test_arguments_nested_without_end_are_refused_like_other_wrong_ones() -> None:
    @tool
    def echo(value) -> None: ...

    depth = 100_000
    await refusal(echo, '{"value": ' + "[" * depth + "]" * depth + "}")


async def test_what_the_model_leaves_out_is_left_to_the_function() -> None:
    assert (await answer(book, '{"city": "Rome"}')).text == "Rome 1 []"


async def test_a_whole_number_is_taken_where_a_float_is_asked_for() -> None:
    @tool
    def half(n: float) -> float:
        return n / 2

    assert (await answer(half, '{"n": 3}')).text == "1.5"


# --- sync and async ---------------------------------------------------------


async def test_a_sync_function_runs_beside_the_loop_and_an_async_one_on_it() -> None:
    here = threading.get_ident()

    @tool
    def beside() -> bool:
        return threading.get_ident() == here

    @tool
    async def on_it() -> bool:
        return threading.get_ident() == here

    assert (await answer(beside)).text == "false"
    assert (await answer(on_it)).text == "true"


async def test_a_sync_function_that_blocks_does_not_hold_up_the_loop() -> None:
    released = threading.Event()

    @tool
    def block() -> bool:
        return released.wait(10)

    waiting = asyncio.create_task(answer(block))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(released.set)
    assert (await waiting).text == "true"


async def test_a_plain_function_that_returns_a_coroutine_is_awaited() -> None:
    async def later(n: int) -> int:
        return n + 1

    @tool
    def now(n: int):
        return later(n)

    assert (await answer(now, '{"n": 1}')).text == "2"


async def test_both_kinds_see_the_context_variables_of_the_caller() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    @tool
    def plain() -> str:
        return user.get()

    @tool
    async def later() -> str:
        return user.get()

    user.set("ada")
    assert [(await answer(made)).text for made in (plain, later)] == ["ada", "ada"]


async def test_the_functions_own_errors_come_out_as_they_are() -> None:
    @tool
    def breaks() -> None:
        raise KeyError("lost")

    @tool
    async def refuses() -> None:
        raise ToolFailed("the shop is closed")

    with pytest.raises(KeyError, match="lost"):
        await answer(breaks)
    with pytest.raises(ToolFailed, match="the shop is closed"):
        await answer(refuses)


async def test_a_method_made_a_tool_in_its_class_is_the_tool_of_each_object() -> None:
    class Till:
        def __init__(self, currency: str) -> None:
            self.currency = currency

        @tool(name="pay_out", read_only=True)
        def pay(self, amount: int) -> str:
            """Pay.

            amount: how much
            """
            return f"{amount} {self.currency}"

    till = Till("EUR")
    assert till.pay(3) == "3 EUR"
    assert (till.pay.name, till.pay.read_only, till.pay.description) == ("pay_out", True, "Pay.")
    assert properties(till.pay) == {"amount": {"type": "integer", "description": "how much"}}
    assert (await answer(till.pay, '{"amount": 5}')).text == "5 EUR"


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_time_limit_that_allows_nothing_is_refused(limit: float) -> None:
    with pytest.raises(ConfigError, match=r"'work'.*allows nothing"):

        @tool(timeout_s=limit)
        def work() -> None: ...
