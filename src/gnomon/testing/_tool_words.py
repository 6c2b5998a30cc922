"""What a model is told of a tool, and what it is told of arguments that do not fit (T1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, cast

import msgspec

from gnomon.contracts.tool import Tool
from gnomon.errors import InvalidArguments
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.testing._tool_suite import ToolSuite, call, error_of, refusal_of
from gnomon.types.messages import Meta

__all__ = ["ToolWords", "misfits"]

_Misfit: TypeAlias = tuple[str, str, str]
"""What is wrong, the argument text, and a word that the refusal must say."""

_LONGEST = 500
"""How many characters are short for an error that a model reads."""

_NO_OBJECTS = {
    "no JSON": "city=Rome",
    "half of a JSON text": '{"a": ',
    "two JSON texts": "{} {}",
    "a list": "[]",
    "a text": '"{}"',
    "a number": "5",
    "null": "null",
    "a list without end": "[" * 100_000,
    "an object without end": '{"a":' * 100_000,
    "half a character": '{"a": "\ud800"}',
}
_OF_NO_KIND: dict[str, object] = {
    "string": [{}],
    "integer": "one",
    "number": "one",
    "boolean": "yes",
    "array": "one",
    "object": "one",
}


class ToolWords(ToolSuite):
    """The part of the suite about names, schemas and refusals."""

    async def test_name_and_description_are_set_and_do_not_change(self) -> None:
        """The description says to a model what the tool is for."""
        async with self.open() as tool:
            before = (tool.name, tool.description)
            await call(self, tool)
            expect("name and description after a call", before, (tool.name, tool.description))
        expect("what they are", ("str", "str"), (type(before[0]).__name__, type(before[1]).__name__))
        expect_some("the tool's name", before[0].strip())
        expect_some("the tool's description", before[1].strip())

    async def test_parameters_are_the_schema_of_an_object_the_same_on_every_read(self) -> None:
        """And it can be sent: it is JSON, and every reference in it leads somewhere."""
        async with self.open() as tool:
            first = msgspec.json.encode(tool.parameters)
            await call(self, tool)
            expect("the schema after a call", first, msgspec.json.encode(tool.parameters))
            schema = tool.parameters
        expect("the type of the schema", "object", schema.get("type"))
        lost = [name for name in _references(schema) if not _leads_somewhere(schema, name)]
        expect("references that lead nowhere", [], lost)

    async def test_the_schema_takes_the_arguments_that_the_tool_takes(self) -> None:
        """A model that keeps to the schema must be able to write this call."""
        async with self.open() as tool:
            schema = tool.parameters
            await call(self, tool)
        given = _object(self.arguments)
        known, required = _properties(schema), _required(schema)
        expect("required arguments that the call leaves out", [], sorted(required - given.keys()))
        expect("required arguments that are not described", [], sorted(required - known.keys()))
        if schema.get("additionalProperties") is not True:
            expect("arguments that are not described", [], sorted(given.keys() - known.keys()))

    async def test_what_is_no_json_object_is_refused(self) -> None:
        """T1: whatever a model may write, and before anything is done."""
        for what, text in {**_NO_OBJECTS, "a call that was cut off": self.arguments[:-1]}.items():
            async with self.open() as tool:
                await _refused(self, tool, what, text)

    async def test_arguments_that_do_not_fit_are_refused_by_name(self) -> None:
        """T1: with a short and exact message, and before anything is done."""
        if not self.invalid:
            skip(self, "arguments that do not fit")
        for text, word in self.invalid.items():
            async with self.open() as tool:
                said = await _refused(self, tool, f"arguments {text[:200]}", text)
            if word not in said:
                raise AssertionError(f"the refusal of {text[:200]}: expected {word!r} in it, found {said!r}")

    async def test_what_the_schema_forbids_is_refused_by_name(self) -> None:
        """T1: a required argument that is missing, one of another kind, and one that nobody knows."""
        async with self.open() as tool:
            wrong = misfits(tool.parameters, self.arguments)
        for what, text, word in wrong or skip(self, "a schema that forbids anything"):
            async with self.open() as tool:
                said = await _refused(self, tool, what, text)
            if word not in said:
                raise AssertionError(f"the refusal of {what}: expected {word!r} in it, found {said!r}")

    async def test_a_refusal_is_short_whatever_was_sent(self) -> None:
        """T1: it goes into the history, and what a model made up must not fill that."""
        given = _object(self.arguments)
        long = "x" * 100_000
        texts = [_text({**given, long: 1}), _text({**given, "x": long}), long, f'{{"{long}'] + [
            _text({**given, name: long}) for name in given
        ]
        for text in texts:
            async with self.open() as tool:
                error = await error_of(self, tool, text)
            if isinstance(error, InvalidArguments):
                _expect_short(f"the refusal of {text[:50]}…", str(error))


async def _refused(suite: ToolSuite, tool: Tool, what: str, text: str) -> str:
    """What the model is told; nothing may have happened."""
    said = refusal_of(what, await error_of(suite, tool, text), InvalidArguments)
    expect(f"effects after {what}", 0, suite.effects_so_far())
    _expect_short(f"the refusal of {what}", said)
    return said


def _expect_short(what: str, said: str) -> None:
    expect_some(what, said.strip())
    if len(said) > _LONGEST:
        raise AssertionError(
            f"{what}: expected at most {_LONGEST} characters, found {len(said)}: {said[:100]}…"
        )


# --- reading a schema ---------------------------------------------------------------


def misfits(schema: Meta, arguments: str) -> list[_Misfit]:
    """Calls that differ from one that fits in one thing that the schema forbids."""
    given = _object(arguments)
    found = [
        (f"a call without {name!r}", _text({key: value for key, value in given.items() if key != name}), name)
        for name in sorted(_required(schema) & given.keys())
    ]
    for name in given:
        kind = _properties(schema).get(name, {}).get("type")
        if isinstance(kind, str) and kind in _OF_NO_KIND:
            wrong = _OF_NO_KIND[kind]
            found.append((f"{name!r} that is no {kind}", _text({**given, name: wrong}), name))
    if schema.get("additionalProperties") is False:
        found.append(("an argument nobody knows", _text({**given, "nobody_knows": 1}), "nobody_knows"))
    return found


def _object(text: str) -> dict[str, object]:
    return msgspec.json.decode(text, type=dict[str, object])


def _text(value: dict[str, object]) -> str:
    return msgspec.json.encode(value).decode()


def _properties(schema: Meta) -> dict[str, Meta]:
    return cast("dict[str, Meta]", schema.get("properties") or {})


def _required(schema: Meta) -> set[str]:
    return set(cast("list[str]", schema.get("required") or []))


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in cast("dict[str, object]", schema).items():
            if name == "$ref" and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(schema, list):
        for value in cast("list[object]", schema):
            yield from _references(value)


def _leads_somewhere(schema: Meta, reference: str) -> bool:
    """Whether the schema has what one of its references names, such as `#/$defs/Item`."""
    place = schema
    for step in reference.removeprefix("#").split("/")[1:]:
        found = place.get(step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(found, dict):
            return False
        place = cast(Meta, found)
    return reference.startswith("#")
