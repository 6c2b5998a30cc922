"""The schema compiler: one JSON Schema in the dialect of each service, and a sentence for what that costs."""

from __future__ import annotations

import copy
import inspect
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnomon.errors import InvalidInput
from gnomon.providers._schema import (
    ANTHROPIC_STRICT,
    INLINE,
    OPENAI_STRICT,
    PLAIN,
    Compiled,
    Dialect,
    any_root,
    cached_compile,
    compile_schema,
)

Json = dict[str, Any]

EVERY = [OPENAI_STRICT, ANTHROPIC_STRICT, INLINE, PLAIN]
STRICT = [OPENAI_STRICT, ANTHROPIC_STRICT]
LOOSE = [INLINE, PLAIN]


def names(dialect: Dialect) -> str:
    return dialect.name


def closed(required: list[str] | None = None, **properties: Any) -> Json:
    wanted = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": wanted, "additionalProperties": False}


def inner(schema: Any, dialect: Dialect, **definitions: Any) -> tuple[Json, Compiled]:
    """What becomes of a schema that stands in a required property."""
    whole = closed(x=schema) | ({"$defs": definitions} if definitions else {})
    compiled = compile_schema(whole, dialect)
    return compiled.schema["properties"]["x"], compiled  # type: ignore[index, return-value]


def lost(schema: Any, dialect: Dialect, **definitions: Any) -> str:
    return "\n".join(inner(schema, dialect, **definitions)[1].lost)


# Pain 10

PERSON: Json = {
    "$defs": {
        "Address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "floor": {"type": "integer", "minimum": 0}},
            "required": ["street"],
        }
    },
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "nick": {"type": "string"},
        "house": {"$ref": "#/$defs/Address", "description": "where she lives"},
    },
    "required": ["name", "house"],
}


def test_pain_10_three_schema_dialects_an_optional_field_is_nullable_for_openai() -> None:
    compiled = compile_schema(PERSON, OPENAI_STRICT)
    assert compiled.schema["required"] == ["name", "nick", "house"]
    assert compiled.schema["properties"]["nick"] == {"type": ["string", "null"]}  # type: ignore[index]
    assert "properties/nick: it may be left out, and is null instead" in compiled.changed
    assert not compiled.exact
    assert list(refusals(compiled.schema, OPENAI_STRICT)) == []


def test_pain_10_three_schema_dialects_an_optional_field_stays_optional_for_anthropic() -> None:
    compiled = compile_schema(PERSON, ANTHROPIC_STRICT)
    assert compiled.schema["required"] == ["name", "house"]
    assert compiled.schema["properties"]["nick"] == {"type": "string"}  # type: ignore[index]
    assert list(refusals(compiled.schema, ANTHROPIC_STRICT)) == []


def test_pain_10_three_schema_dialects_definitions_are_written_out_where_nobody_resolves_them() -> None:
    compiled = compile_schema(PERSON, INLINE)
    assert "$" not in json.dumps(compiled.schema)
    house = compiled.schema["properties"]["house"]  # type: ignore[index]
    assert house == {**PERSON["$defs"]["Address"], "description": "where she lives"}
    assert compiled.exact
    assert compiled.changed == ("properties/house: the reference '#/$defs/Address' is written out",)


def test_pain_10_three_schema_dialects_nothing_is_dropped_in_silence() -> None:
    assert compile_schema(PERSON, OPENAI_STRICT).lost == (
        "properties/name: 'minLength' cannot be expressed and is not sent",
    )
    assert compile_schema(PERSON, ANTHROPIC_STRICT).lost == (
        "properties/name: 'minLength' cannot be expressed and is not sent",
        "properties/house/properties/floor: 'minimum' cannot be expressed and is not sent",
    )


@pytest.mark.parametrize("dialect", EVERY, ids=names)
def test_pain_10_three_schema_dialects_no_reference_is_left_dangling(dialect: Dialect) -> None:
    schema = closed(a={"$ref": "#/$defs/Gone"}, b={"$ref": "other.json"}, c={"$ref": "#/$defs/Here"})
    compiled = compile_schema({**schema, "$defs": {"Here": {"type": "string"}}}, dialect)
    assert "properties/a: the reference '#/$defs/Gone' leads nowhere and is not sent" in compiled.lost
    for reference in re.findall(r'"\$ref": "(#[^"]*)"', json.dumps(compiled.schema)):
        assert at(compiled.schema, reference) is not None
    assert not compiled.exact


@pytest.mark.parametrize("dialect", EVERY, ids=names)
def test_pain_10_three_schema_dialects_a_schema_all_of_them_know_is_the_same_in_all(dialect: Dialect) -> None:
    schema = closed(
        city=TEXT, days={"type": "array", "items": {"type": "integer"}}, unit={"enum": ["C", "F"]}
    )
    schema["properties"]["unit"]["type"] = "string"
    compiled = compile_schema(schema, dialect)
    assert compiled.schema == schema
    assert (compiled.exact, compiled.sound, compiled.lost, compiled.changed) == (True, True, (), ())


TEXT: Json = {"type": "string"}


# References


def test_openai_keeps_references_and_recursion() -> None:
    node = closed(text=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    compiled = compile_schema(
        {**closed(tree={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}, OPENAI_STRICT
    )
    assert compiled.schema["$defs"] == {"Node": node}
    assert compiled.exact


def test_a_reference_to_the_top_stays_one_for_openai() -> None:
    schema = closed(next={"anyOf": [{"$ref": "#"}, {"type": "null"}]})
    assert compile_schema(schema, OPENAI_STRICT) == compile_schema(
        compile_schema(schema, OPENAI_STRICT).schema, OPENAI_STRICT
    )
    assert compile_schema(schema, OPENAI_STRICT).schema == schema


@pytest.mark.parametrize("dialect", [ANTHROPIC_STRICT, INLINE], ids=names)
def test_a_recursion_is_cut_off_where_there_is_none(dialect: Dialect) -> None:
    node = closed(text=TEXT, next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
    compiled = compile_schema({**closed(list={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}, dialect)
    assert "$ref" not in json.dumps(compiled.schema)
    assert compiled.lost == (
        "properties/list/properties/next/anyOf/0: "
        "the recursion through '#/$defs/Node' cannot be expressed and is cut off",
    )


def test_a_constraint_beside_a_recursive_reference_holds_once_and_is_then_lost() -> None:
    tree = closed(
        v={"type": "integer"}, left={"anyOf": [{"$ref": "#/$defs/T", "maxProperties": 2}, {"type": "null"}]}
    )
    made, compiled = inner({"$ref": "#/$defs/T"}, OPENAI_STRICT, T=tree)
    assert made == {"$ref": "#/$defs/T"}
    assert any(
        "'maxProperties' beside a recursive reference cannot be expressed" in said for said in compiled.lost
    )
    assert list(refusals(compiled.schema, OPENAI_STRICT)) == []


def test_a_dynamic_reference_cannot_be_followed() -> None:
    assert "the reference '#node' cannot be followed and is not sent" in lost(
        {"$dynamicRef": "#node"}, INLINE
    )
    assert "'$dynamicRef' cannot be expressed" in lost({"$dynamicRef": "#node"}, OPENAI_STRICT)


def test_what_is_cut_off_takes_no_definitions_along() -> None:
    schema = {"$ref": "#/$defs/X", "$defs": {"X": {"anyOf": [{"$ref": "#"}, TEXT]}}}
    assert "$" not in json.dumps(compile_schema(schema, any_root(INLINE)).schema)


def test_anthropic_keeps_a_reference_that_is_not_recursive() -> None:
    made, compiled = inner({"$ref": "#/$defs/A"}, ANTHROPIC_STRICT, A=closed(a=TEXT))
    assert made == {"$ref": "#/$defs/A"}
    assert compiled.schema["$defs"] == {"A": closed(a=TEXT)}
    assert compiled.exact


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/a~1b~0c", {"$defs": {"a/b~c": TEXT}}),
        ("#/$defs/~01", {"$defs": {"~1": TEXT}}),
        ("#/$defs/caf%C3%A9%20au", {"$defs": {"café au": TEXT}}),
        ("#/definitions/Old", {"definitions": {"Old": TEXT}}),
        ("#/$defs/Two/anyOf/1", {"$defs": {"Two": {"anyOf": [{"type": "null"}, TEXT]}}}),
        ("#/properties/other", {}),
    ],
)
@pytest.mark.parametrize("dialect", EVERY, ids=names)
def test_every_way_to_point_at_a_schema_is_followed(
    reference: str, definitions: Json, dialect: Dialect
) -> None:
    schema = {**closed(x={"$ref": reference}, other=TEXT), **definitions}
    compiled = compile_schema(schema, dialect)
    assert compiled.exact
    assert compiled.lost == ()
    assert fits({"x": "a", "other": "b"}, compiled.schema)
    assert not fits({"x": 1, "other": "b"}, compiled.schema)


def test_definitions_of_the_same_name_are_told_apart() -> None:
    schema = {**closed(a={"$ref": "#/$defs/N"}, b={"$ref": "#/definitions/N"}), "$defs": {"N": TEXT}}
    compiled = compile_schema({**schema, "definitions": {"N": {"type": "integer"}}}, OPENAI_STRICT)
    assert compiled.schema["$defs"] == {"N": TEXT, "N_2": {"type": "integer"}}


def test_words_beside_a_reference_are_kept_the_way_each_service_takes_them() -> None:
    schema = {"$ref": "#/$defs/A", "description": "the first"}
    assert inner(schema, OPENAI_STRICT, A=TEXT)[0] == {
        "description": "the first",
        "anyOf": [{"$ref": "#/$defs/A"}],
    }
    for dialect in (ANTHROPIC_STRICT, INLINE):
        assert inner(schema, dialect, A=TEXT)[0] == {"type": "string", "description": "the first"}
    assert inner(schema, PLAIN, A=TEXT)[0] == schema


@pytest.mark.parametrize("dialect", [OPENAI_STRICT, INLINE], ids=names)
def test_constraints_beside_a_reference_hold_together_with_it(dialect: Dialect) -> None:
    made, compiled = inner({"$ref": "#/$defs/A", "maximum": 5}, dialect, A={"type": "integer", "minimum": 1})
    assert made == {"type": "integer", "minimum": 1, "maximum": 5}
    assert compiled.exact


@pytest.mark.parametrize("dialect", EVERY, ids=names)
def test_a_reference_at_the_top_is_an_object_all_the_same(dialect: Dialect) -> None:
    compiled = compile_schema({"$ref": "#/$defs/A", "$defs": {"A": closed(a=TEXT)}}, dialect)
    assert {key: compiled.schema[key] for key in closed()} == closed(a=TEXT)
    assert compiled.exact


# allOf, anyOf, oneOf


def test_all_of_one_is_that_one() -> None:
    for dialect in (*STRICT, INLINE):
        made, compiled = inner({"allOf": [{"type": "string"}], "description": "d"}, dialect)
        assert made == {"type": "string", "description": "d"}
        assert compiled.exact


@pytest.mark.parametrize("dialect", [OPENAI_STRICT, ANTHROPIC_STRICT, INLINE], ids=names)
def test_all_of_several_objects_is_one_object(dialect: Dialect) -> None:
    parts = [{"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"$ref": "#/$defs/B"}]
    schema = {"allOf": parts, "unevaluatedProperties": False}
    b = {"properties": {"b": {"type": "integer"}}, "required": ["b"]}
    made, compiled = inner(schema, dialect, B=b)
    assert made == closed(a=TEXT, b={"type": "integer"})
    assert compiled.exact


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_bounds_the_stricter_holds(order: int) -> None:
    parts = [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "number", "minimum": 3, "maximum": 7}]
    made, compiled = inner({"allOf": parts[::order]}, OPENAI_STRICT)
    assert made == {"type": "integer", "minimum": 3, "maximum": 7}
    assert compiled.exact


def test_an_object_is_not_closed_over_properties_that_only_a_branch_names() -> None:
    parts = [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]
    branches = [{"properties": {"c": TEXT}}]
    made, compiled = inner({"allOf": parts, "anyOf": branches, "unevaluatedProperties": False}, INLINE)
    assert made == {
        "anyOf": branches,
        "unevaluatedProperties": False,
        "properties": {"a": TEXT, "b": TEXT},
    }
    assert compiled.exact


def test_what_two_parts_say_of_further_properties_holds_together() -> None:
    parts = [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"additionalProperties": {"minimum": 1}},
    ]
    made, compiled = inner({"allOf": parts}, INLINE)
    assert made == {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}
    assert compiled.exact


def test_a_part_that_is_closed_for_itself_stays_a_part() -> None:
    parts = [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}, "unevaluatedProperties": False}]
    made, compiled = inner({"allOf": parts}, INLINE)
    assert made == {"allOf": parts}
    assert compiled.exact


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([{"multipleOf": 4}, {"multipleOf": 6}], {"multipleOf": 12}),
        ([{"uniqueItems": False}, {"uniqueItems": True}], {"uniqueItems": True}),
        ([{"items": {"minimum": 1}}, {"items": {"maximum": 2}}], {"items": {"minimum": 1, "maximum": 2}}),
        ([{"required": ["a", "b"]}, {"required": ["b", "c"]}], {"required": ["a", "b", "c"]}),
        (
            [{"properties": {"a": TEXT}}, {"properties": {"a": {"minLength": 1}}}],
            {"properties": {"a": {"type": "string", "minLength": 1}}},
        ),
        (
            [{"patternProperties": {"^a": TEXT}}, {"patternProperties": {"^b": TEXT}}],
            {"patternProperties": {"^a": TEXT, "^b": TEXT}},
        ),
        ([{"enum": [1, 2]}, {"enum": [2, 3]}, {"const": 2}], {"enum": [2]}),
        ([True, {"type": ["string", "integer"]}, {"type": ["number", "null"]}], {"type": "integer"}),
        ([{"title": "first"}, {"title": "second"}], {"title": "first"}),
    ],
)
def test_parts_are_put_together_word_by_word(parts: list[Any], whole: Json) -> None:
    made, compiled = inner({"allOf": parts}, INLINE)
    assert made == whole
    assert compiled.exact


@pytest.mark.parametrize(
    "parts",
    [
        [{"items": TEXT}, {"prefixItems": [TEXT]}],
        [{"multipleOf": 0.5}, {"multipleOf": 0.3}],
        [{"format": "date"}, {"format": "time"}],
        [{"not": {"enum": [1]}}, {"not": {"enum": [2]}}],
        [{"patternProperties": {"^a": TEXT}}, {"properties": {"a": TEXT}, "additionalProperties": False}],
    ],
)
def test_parts_that_do_not_go_together_stay_apart(parts: list[Any]) -> None:
    made, compiled = inner({"allOf": parts}, INLINE)
    assert made == {"allOf": parts}
    assert compiled.exact
    assert "is said differently" in lost({"allOf": parts}, OPENAI_STRICT)


@pytest.mark.parametrize(
    "parts", [[TEXT, {"type": "integer"}], [{"enum": [1]}, {"enum": [True]}], [TEXT, False]]
)
def test_parts_that_exclude_one_another_leave_nothing(parts: list[Any]) -> None:
    assert compile_schema(closed(x={"allOf": parts}), INLINE).schema["properties"] == {"x": False}
    assert "there is nothing that could be sent here" in lost({"allOf": parts}, OPENAI_STRICT)
    assert compile_schema(closed([], x={"allOf": parts}), OPENAI_STRICT).schema == closed()


def test_parts_that_contradict_one_another_are_told_of() -> None:
    schema = {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]}
    assert "properties/x: 'pattern' is said differently in the parts of 'allOf'" in lost(
        schema, OPENAI_STRICT
    )
    made, compiled = inner(schema, INLINE)
    assert made["allOf"] == [{"type": "string"}, {"pattern": "^a"}, {"pattern": "b$"}]
    assert compiled.exact


def test_parts_that_forbid_one_anothers_properties_are_told_of_and_both_are_kept() -> None:
    made, compiled = inner({"allOf": [closed(a=TEXT), closed(b=TEXT)]}, OPENAI_STRICT)
    assert list(made["properties"]) == ["a", "b"]
    assert "'additionalProperties' is said differently" in compiled.lost[0]


@pytest.mark.parametrize("dialect", STRICT, ids=names)
def test_one_of_is_any_of_and_the_same_where_no_value_fits_two(dialect: Dialect) -> None:
    cat = {
        "type": "object",
        "properties": {"kind": {"const": "cat"}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    dog = copy.deepcopy(cat) | {"properties": {"kind": {"const": "dog"}}}
    made, compiled = inner({"oneOf": [{"$ref": "#/$defs/C"}, {"$ref": "#/$defs/D"}]}, dialect, C=cat, D=dog)
    assert made == {"anyOf": [{"$ref": "#/$defs/C"}, {"$ref": "#/$defs/D"}]}
    assert compiled.changed == ("properties/x: 'oneOf' is sent as 'anyOf'",)
    assert compiled.exact


def test_one_of_that_overlaps_is_not_the_same_as_any_of() -> None:
    _, compiled = inner({"oneOf": [{"type": "number"}, {"type": "integer"}]}, OPENAI_STRICT)
    assert not compiled.exact
    assert "a value that fits several is not told apart" in compiled.changed[0]


def test_what_stands_beside_any_of_holds_in_each_branch() -> None:
    schema = {"type": "string", "anyOf": [{"pattern": "^a"}, {"type": "integer"}, {"pattern": "b$"}]}
    made, compiled = inner(schema, OPENAI_STRICT)
    assert made == {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "b$"}]}
    assert compiled.exact


# Words


def test_const_is_an_enum_of_one_where_const_is_not_known() -> None:
    assert inner({"const": "a"}, OPENAI_STRICT)[0] == {"type": "string", "enum": ["a"]}
    assert inner({"const": "a"}, ANTHROPIC_STRICT)[0] == {"type": "string", "const": "a"}
    assert inner({"const": "a"}, INLINE)[0] == {"enum": ["a"]}
    assert inner({"const": "a"}, PLAIN)[0] == {"const": "a"}


def test_an_optional_enum_may_be_null() -> None:
    compiled = compile_schema(closed([], x={"type": "string", "enum": ["a"]}), OPENAI_STRICT)
    assert compiled.schema["properties"] == {"x": {"type": ["string", "null"], "enum": ["a", None]}}


def test_an_optional_object_reference_or_union_may_be_null() -> None:
    schema = closed([], o=closed(a=TEXT), r={"$ref": "#/$defs/A"}, u={"anyOf": [TEXT, {"type": "integer"}]})
    made = compile_schema({**schema, "$defs": {"A": TEXT}}, OPENAI_STRICT).schema["properties"]
    null = {"type": "null"}
    assert made == {
        "o": {"anyOf": [closed(a=TEXT), null]},
        "r": {"anyOf": [{"$ref": "#/$defs/A"}, null]},
        "u": {"anyOf": [TEXT, {"type": "integer"}, null]},
    }


def test_what_may_be_null_anyway_is_only_asked_for() -> None:
    compiled = compile_schema(closed([], x={"type": ["string", "null"]}), OPENAI_STRICT)
    assert compiled.schema == closed(x={"type": ["string", "null"]})
    assert (compiled.exact, compiled.sound) == (False, True)


def test_an_open_object_is_closed_and_that_is_said() -> None:
    made, compiled = inner({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, OPENAI_STRICT)
    assert made == closed(a=TEXT)
    assert compiled.changed == (
        "properties/x: the object is closed: it has the named properties and no others",
    )
    assert (compiled.exact, compiled.sound) == (False, True)


@pytest.mark.parametrize("dialect", STRICT, ids=names)
@pytest.mark.parametrize(
    "free", [{}, {"additionalProperties": {"type": "integer"}}, {"additionalProperties": True}]
)
def test_a_map_cannot_be_expressed(free: Json, dialect: Dialect) -> None:
    assert "properties/x: properties without a fixed name cannot be expressed" in lost(
        {"type": "object", **free}, dialect
    )


@pytest.mark.parametrize(
    "word", ["not", "if", "contains", "propertyNames", "patternProperties", "dependentRequired"]
)
@pytest.mark.parametrize("dialect", STRICT, ids=names)
def test_what_a_grammar_cannot_say_is_lost_with_its_name(word: str, dialect: Dialect) -> None:
    schema = {
        "type": ["object", "array"],
        "properties": {"a": TEXT},
        "additionalProperties": False,
        "items": TEXT,
        "not": {"const": []},
        "if": {"type": "array"},
        "then": {"minItems": 1},
        "contains": TEXT,
        "propertyNames": {"maxLength": 1},
        "patternProperties": {"^x": TEXT},
        "dependentRequired": {"a": ["b"]},
    }
    assert f"properties/x: {word!r} cannot be expressed and is not sent" in lost(schema, dialect)


@pytest.mark.parametrize("dialect", LOOSE, ids=names)
def test_without_a_grammar_everything_stays(dialect: Dialect) -> None:
    schema = {
        "type": "object",
        "not": {"required": ["b"]},
        "if": {"required": ["a"]},
        "then": {"minProperties": 2},
        "patternProperties": {"^x": {"type": "integer", "default": 1}},
        "additionalProperties": {"oneOf": [TEXT, {"type": "array", "prefixItems": [TEXT], "items": False}]},
        "examples": [{}],
        "title": "T",
        "x-more": 1,
    }
    made, compiled = inner(schema, dialect)
    assert made == schema
    assert compiled.exact


def test_what_is_told_of_the_only_branch_is_not_forgotten() -> None:
    schema = {"anyOf": [{"type": "string", "maxLength": 3}], "description": "A code."}
    assert inner(schema, OPENAI_STRICT)[0] == {"type": "string", "description": "A code. (maxLength: 3)"}


def test_a_lost_constraint_is_told_to_the_model() -> None:
    schema = {"type": "integer", "description": "How many.", "minimum": 1, "maximum": 9, "default": 3}
    assert inner(schema, ANTHROPIC_STRICT)[0] == {
        "type": "integer",
        "description": "How many. (default: 3, minimum: 1, maximum: 9)",
    }


def test_numbers_and_lists_keep_their_bounds_for_openai() -> None:
    schema = {
        "type": "array",
        "items": {"type": "number", "minimum": 0, "multipleOf": 2},
        "minItems": 2,
        "maxItems": 3,
    }
    made, compiled = inner(schema, OPENAI_STRICT)
    assert made == schema
    assert compiled.exact


def test_anthropic_takes_a_minimum_of_one_item() -> None:
    made, compiled = inner({"type": "array", "items": TEXT, "minItems": 3}, ANTHROPIC_STRICT)
    assert made["minItems"] == 1
    assert compiled.lost == (
        "properties/x: 'minItems' cannot be expressed and is not sent; minItems 1 is sent",
    )
    assert inner({"type": "array", "items": TEXT, "minItems": 1}, ANTHROPIC_STRICT)[1].exact


@pytest.mark.parametrize(
    ("format", "openai", "anthropic"), [("email", True, True), ("uri", False, True), ("iban", False, False)]
)
def test_formats_are_sent_where_they_are_known(format: str, openai: bool, anthropic: bool) -> None:
    schema = {"type": "string", "format": format}
    assert ("format" in inner(schema, OPENAI_STRICT)[0]) is openai
    assert ("format" in inner(schema, ANTHROPIC_STRICT)[0]) is anthropic


@pytest.mark.parametrize(
    ("pattern", "openai", "anthropic"),
    [
        (r"^\d{5}$", True, True),
        (r"^[a-z]+(?:-[a-z]+)*$", True, True),
        (r"^(?=.*\d)", False, False),
        (r"\bword\b", False, False),
        (r"(a)\1", False, False),
        (r"\\b", True, True),
        (r"a{1,100}", True, True),
        (r"a{1,5000}", True, False),
    ],
)
def test_patterns_are_sent_when_a_grammar_can_hold_them(pattern: str, openai: bool, anthropic: bool) -> None:
    schema = {"type": "string", "pattern": pattern}
    assert ("pattern" in inner(schema, OPENAI_STRICT)[0]) is openai
    assert ("pattern" in inner(schema, ANTHROPIC_STRICT)[0]) is anthropic


def test_a_tuple_becomes_a_list_of_what_may_stand_in_it() -> None:
    schema = {
        "type": "array",
        "prefixItems": [TEXT, {"type": "integer"}, TEXT],
        "items": False,
        "minItems": 3,
    }
    made, compiled = inner(schema, OPENAI_STRICT)
    assert made == {
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
        "items": {"anyOf": [TEXT, {"type": "integer"}]},
    }
    assert compiled.lost == ("properties/x: which item stands where cannot be expressed",)
    old = {"type": "array", "items": schema["prefixItems"], "additionalItems": False, "minItems": 3}
    assert inner(old, OPENAI_STRICT)[0] == made


def test_what_follows_a_tuple_may_stand_in_the_list_too() -> None:
    made, _ = inner({"type": "array", "prefixItems": [TEXT], "items": {"type": "integer"}}, OPENAI_STRICT)
    assert made == {"type": "array", "items": {"anyOf": [TEXT, {"type": "integer"}]}}


def test_a_type_that_there_is_not_is_lost() -> None:
    assert "properties/x: there is no type 'any'; it is not sent" in lost({"type": "any"}, OPENAI_STRICT)


def test_a_list_that_may_hold_nothing_is_empty() -> None:
    made, compiled = inner({"type": "array", "items": False}, OPENAI_STRICT)
    assert made["maxItems"] == 0
    assert compiled.exact
    assert not inner({"type": "array", "items": False}, ANTHROPIC_STRICT)[1].exact


def test_boolean_schemas_are_understood() -> None:
    schema = closed(["a"], a=True, b=False)
    compiled = compile_schema(schema, OPENAI_STRICT)
    assert list(compiled.schema["properties"]) == ["a"]  # type: ignore[call-overload]
    assert compiled.lost == (
        "properties/a: that any value is right cannot be expressed; objects and lists are left out",
    )
    assert compile_schema(schema, PLAIN).schema == schema
    assert inner({"anyOf": [False, TEXT]}, OPENAI_STRICT)[0] == TEXT


def test_a_type_that_is_not_said_is_taken_from_the_words() -> None:
    made, compiled = inner({"minimum": 1}, OPENAI_STRICT)
    assert made == {"type": "number", "minimum": 1}
    assert compiled.changed == ("properties/x: the type, which is not said, is taken to be number",)
    assert (compiled.exact, compiled.sound) == (False, True)
    made, compiled = inner({"enum": ["a", 1, None]}, OPENAI_STRICT)
    assert made == {"type": ["string", "number", "null"], "enum": ["a", 1, None]}
    assert compiled.exact


def test_values_of_an_enum_that_its_type_forbids_are_not_sent() -> None:
    made, compiled = inner({"type": "string", "enum": ["a", None]}, OPENAI_STRICT)
    assert made == {"type": "string", "enum": ["a"]}
    assert compiled.exact


def test_words_that_say_nothing_of_this_type_are_left_out_without_loss() -> None:
    made, compiled = inner(
        {"type": "integer", "minLength": 3, "format": "int32", "uniqueItems": True}, OPENAI_STRICT
    )
    assert made == {"type": "integer"}
    assert compiled.exact


def test_true_and_one_are_two_values() -> None:
    made, compiled = inner({"allOf": [{"enum": [True, 1, 0]}, {"enum": [1.0, False]}]}, OPENAI_STRICT)
    assert made == {"type": "number", "enum": [1]}
    assert compiled.exact


# The top


@pytest.mark.parametrize("dialect", EVERY, ids=names)
@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": TEXT}, TEXT, {"anyOf": [TEXT, {"type": "null"}]}]
)
def test_a_top_that_is_no_object_is_refused(schema: Json, dialect: Dialect) -> None:
    with pytest.raises(InvalidInput, match="the top of the schema must be an object"):
        compile_schema(schema, dialect)


@pytest.mark.parametrize("dialect", [ANTHROPIC_STRICT, INLINE, PLAIN], ids=names)
def test_any_root_takes_a_list_at_the_top(dialect: Dialect) -> None:
    schema = {"type": "array", "items": TEXT}
    assert compile_schema(schema, any_root(dialect)).schema == schema


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize("dialect", EVERY, ids=names)
def test_branches_at_the_top_are_sent_as_one_object(word: str, dialect: Dialect) -> None:
    branches = [closed(kind={"const": "a"}, x=TEXT), {"$ref": "#/$defs/B"}]
    compiled = compile_schema({word: branches, "$defs": {"B": closed(kind={"const": "b"}, y=TEXT)}}, dialect)
    assert set(compiled.schema) & {"anyOf", "oneOf", "allOf"} == set()
    assert list(compiled.schema["properties"]) == ["kind", "x", "y"]  # type: ignore[call-overload]
    assert compiled.lost[0].startswith(f"at the top: {word!r} cannot stand at the top")
    for value in ({"kind": "a", "x": "1"}, {"kind": "b", "y": "2"}):
        whole = {"x": None, "y": None, **value} if dialect is OPENAI_STRICT else value
        assert fits(whole, compiled.schema)


@pytest.mark.parametrize("dialect", LOOSE, ids=names)
def test_what_services_ask_for_though_it_says_nothing_is_put_in(dialect: Dialect) -> None:
    assert compile_schema({"type": "object"}, dialect).schema == {"type": "object", "properties": {}}
    assert inner({"type": "array"}, dialect)[0] == {"type": "array", "items": {}}


# Limits


def test_limits_of_the_service_are_told() -> None:
    many = closed(x={"type": "string", "enum": [f"v{n}" for n in range(1001)]})
    assert (
        "at the top: 1001 enum values are more than the 1000 that the service takes"
        in compile_schema(many, OPENAI_STRICT).lost
    )
    deep = TEXT
    for _ in range(11):
        deep = closed(x=deep)
    assert (
        "at the top: 11 levels of objects are more than the 10 that the service takes"
        in compile_schema(deep, OPENAI_STRICT).lost
    )
    optional = closed([], **{f"p{n}": TEXT for n in range(25)})
    assert (
        "at the top: 25 properties that may be left out are more than the 24 that the service takes"
        in compile_schema(optional, ANTHROPIC_STRICT).lost
    )
    unions = closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(17)})
    assert not compile_schema(unions, ANTHROPIC_STRICT).exact
    assert compile_schema(unions, OPENAI_STRICT).exact


def test_the_size_is_there_to_be_added_up_over_a_request() -> None:
    size = compile_schema(
        closed(["a"], a={"type": ["string", "null"]}, b=closed(c=TEXT)), ANTHROPIC_STRICT
    ).size
    assert (size.properties, size.optional, size.unions, size.depth) == (3, 1, 1, 2)


# Strangers' schemas

R = {f"l{n}": {"$ref": f"#/$defs/l{n}"} for n in range(41)}


def bomb(**beside: Any) -> Json:
    levels = {
        f"l{n}": closed([], a={**R[f"l{n + 1}"], **beside}, b={**R[f"l{n + 1}"], **beside}) for n in range(40)
    }
    return {**closed(x=R["l0"]), "$defs": {**levels, "l40": TEXT}}


def nested(depth: int, word: str) -> Json:
    schema: Json = {}
    for _ in range(depth):
        schema = {word: schema}
    return schema


HOSTILE: dict[str, Json] = {
    "a reference bomb": bomb(),
    "a described bomb": bomb(description="d"),
    "an allOf bomb": {
        **closed(x=R["l0"]),
        "$defs": {
            f"l{n}": {"allOf": [R[f"l{n + 1}"], R[f"l{n + 1}"], {**R[f"l{n + 1}"], "minimum": n}]}
            for n in range(40)
        },
    },
    "an anyOf bomb": {
        **closed(x=R["l0"]),
        "$defs": {
            f"l{n}": {"minimum": n, "anyOf": [R[f"l{n + 1}"], {"maximum": n, **R[f"l{n + 1}"]}]}
            for n in range(40)
        },
    },
    "a bomb of long names": {
        **closed(x=R["l0"]),
        "$defs": {f"l{n}": closed(**{"a" * 50_000: R[f"l{n + 1}"], "b": R[f"l{n + 1}"]}) for n in range(12)},
    },
    "references in a ring": {**closed(x=R["l0"]), "$defs": {"l0": R["l1"], "l1": R["l0"]}},
    "a described ring": {
        **closed(x=R["l0"]),
        "$defs": {"l0": {**R["l1"], "title": "a"}, "l1": {**R["l0"], "title": "b"}},
    },
    "allOf in a ring": {
        **closed(x=R["l0"]),
        "$defs": {"l0": {"allOf": [R["l1"], TEXT]}, "l1": {"allOf": [R["l0"], TEXT]}},
    },
    "itself": {"$ref": "#"},
    "all of itself": {"allOf": [{"$ref": "#"}, {"type": "object"}]},
    "a clique": {
        **closed(x=R["l0"]),
        "$defs": {f"l{n}": closed(**{f"p{m}": R[f"l{m}"] for m in range(30)}) for n in range(30)},
    },
    "a deep list": closed(x=nested(95, "items")),
    "a deep allOf": closed(x=nested(40, "not")),
    "a long chain": {
        **closed(x={"$ref": "#/$defs/l0"}),
        "$defs": {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"minimum": n}]} for n in range(2000)},
    },
    "references on and on": {
        **closed(x={"$ref": "#/$defs/l0"}),
        "$defs": {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}], "title": f"{n}"} for n in range(90)},
    },
    "no schema at all": {
        "type": 5,
        "properties": [1],
        "required": "a",
        "anyOf": {"a": 1},
        "$ref": 7,
        "items": 3,
    },
    "no schema inside": closed(
        x={"type": "str", "enum": [], "minimum": "3", "pattern": 4, "format": []}, y=None, z=3
    ),
    "a wild pattern": closed(x={"type": "string", "pattern": "a{" + "9" * 9999 + "}" + "\\" * 9999}),
}


@pytest.mark.parametrize("dialect", EVERY, ids=names)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_ends_soon_and_small(name: str, dialect: Dialect) -> None:
    before = json.dumps(HOSTILE[name])
    began = time.process_time()
    compiled = compile_schema(HOSTILE[name], dialect)
    assert time.process_time() - began < 10
    assert len(json.dumps(compiled.schema)) < 5_000_000
    assert len(compiled.lost) <= 101
    assert json.dumps(HOSTILE[name]) == before
    assert list(refusals(compiled.schema, dialect)) == []


@pytest.mark.parametrize("name", ["a reference bomb", "a described bomb"])
def test_a_bomb_is_cut_and_that_is_said(name: str) -> None:
    compiled = compile_schema(HOSTILE[name], INLINE)
    assert "at the top: the schema becomes too large; what goes beyond is not sent" in compiled.lost


def endless() -> Json:
    schema = closed()
    schema["properties"]["x"] = schema
    return schema


def doubled() -> Json:
    schema: Json = TEXT
    for _ in range(60):
        schema = {"not": schema, "if": schema}
    return schema


@pytest.mark.parametrize("compiler", [compile_schema, cached_compile])
@pytest.mark.parametrize(
    "schema",
    [
        nested(10_000, "items"),
        endless(),
        doubled(),
        closed(**{f"p{n}": TEXT for n in range(25_000)}),
        {"default": float("nan")},
        {"default": {1, 2}},
        {"default": 2**70},
        {"default": "\ud800"},
        {"properties": {3: TEXT}},
    ],
    ids=["deep", "endless", "doubled", "large", "nan", "set", "huge", "surrogate", "key"],
)
def test_what_is_no_json_or_far_too_much_is_invalid_input(compiler: Any, schema: Any) -> None:
    with pytest.raises(InvalidInput, match="the schema cannot be used"):
        compiler(schema, PLAIN)


def test_a_stack_that_is_nearly_full_is_no_recursion_error() -> None:
    def below(levels: int) -> None:
        if levels:
            below(levels - 1)
        else:
            compile_schema(HOSTILE["a deep list"], OPENAI_STRICT)

    left = sys.getrecursionlimit() - len(inspect.stack(0))
    with pytest.raises(InvalidInput, match="it is too deep"):
        below(left - 100)


# Remembering


def test_a_remembered_schema_is_the_same_and_nobodys_changes_are_seen() -> None:
    first = cached_compile(PERSON, OPENAI_STRICT)
    assert first == compile_schema(PERSON, OPENAI_STRICT)
    first.schema.clear()
    assert cached_compile(copy.deepcopy(PERSON), OPENAI_STRICT) == compile_schema(PERSON, OPENAI_STRICT)


def test_a_schema_that_was_changed_is_compiled_again() -> None:
    schema = closed(a=TEXT)
    assert list(cached_compile(schema, PLAIN).schema["properties"]) == ["a"]  # type: ignore[call-overload]
    schema["properties"]["b"] = TEXT
    assert list(cached_compile(schema, PLAIN).schema["properties"]) == ["a", "b"]  # type: ignore[call-overload]


def test_the_dialect_is_part_of_what_is_remembered() -> None:
    compiled = [cached_compile(PERSON, dialect) for dialect in EVERY]
    assert compiled == [compile_schema(PERSON, dialect) for dialect in EVERY]


def test_a_large_schema_is_compiled_and_not_remembered() -> None:
    from gnomon.providers._schema import _remembered

    schema = closed(x={"type": "string", "description": "long " * 10_000})
    kept = _remembered.cache_info().currsize
    assert cached_compile(schema, PLAIN).schema == schema
    assert _remembered.cache_info().currsize == kept


# Whatever the schema: `exact` means the same verdict on every value, `sound` that nothing wrong gets through,
# and what comes out is what the service takes.

KEYS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, -3, "", "a", "bb"])
POINTERS = st.sampled_from(
    [
        "#/$defs/X",
        "#/$defs/Y",
        "#/$defs/a~1b",
        "#/definitions/X",
        "#/$defs/X/properties/a",
        "#/$defs/gone",
        "#",
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), part, max_size=3)
    ),
    max_leaves=6,
)


def larger(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(part, min_size=1, max_size=3)
    named = st.dictionaries(KEYS, part, max_size=3)
    words: dict[str, st.SearchStrategy[Any]] = {
        "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
        "properties": named,
        "required": st.lists(KEYS, max_size=2, unique=True),
        "additionalProperties": st.just(False) | part,
        "items": part,
        "prefixItems": several,
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "not": part,
        "if": part,
        "then": part,
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([1, 2, 3]),
        "minLength": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "$ref": POINTERS,
        "description": st.just("d"),
        "default": SCALARS,
        "x-more": SCALARS,
    }
    some = st.lists(st.sampled_from(sorted(words)), max_size=4, unique=True)
    return st.one_of(
        some.flatmap(lambda chosen: st.fixed_dictionaries({word: words[word] for word in chosen})),
        named.map(lambda properties: closed(**properties)),
        st.fixed_dictionaries({"type": KINDS}),
        st.fixed_dictionaries({"$ref": POINTERS}, optional={"description": st.just("r")}),
    )


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({"type": KINDS}), larger, max_leaves=8)
WHOLE = st.builds(
    lambda top, x, y, ab, old: {**top, "$defs": {"X": x, "Y": y, "a/b": ab}, "definitions": {"X": old}},
    larger(SCHEMAS) | st.dictionaries(KEYS, SCHEMAS, min_size=1).map(lambda named: closed(**named)),
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
)
DIALECTS = [*EVERY, any_root(ANTHROPIC_STRICT), any_root(INLINE), any_root(PLAIN)]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(WHOLE, st.sampled_from(DIALECTS), st.lists(VALUES, min_size=3, max_size=10))
def test_exact_means_the_same_verdict_and_sound_that_nothing_wrong_gets_through(
    schema: Json, dialect: Dialect, values: list[Any]
) -> None:
    before = json.dumps(schema)
    try:
        compiled = compile_schema(schema, dialect)
    except InvalidInput:
        return
    assert json.dumps(schema) == before
    assert json.dumps(compile_schema(schema, dialect).schema) == json.dumps(compiled.schema)
    assert list(refusals(compiled.schema, dialect)) == []
    assert compiled.exact <= compiled.sound
    assert not (compiled.lost and compiled.sound)
    for value in values if compiled.sound else []:
        try:
            was, now = fits(value, schema), fits(value, compiled.schema)
        except RecursionError:  # a schema that only refers to itself says nothing
            continue
        assert was or not now
        assert was == now or not compiled.exact


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(KEYS, SCHEMAS, min_size=1), st.sampled_from(STRICT))
def test_what_is_compiled_once_is_not_changed_by_compiling_it_again(named: Json, dialect: Dialect) -> None:
    compiled = compile_schema(closed(**named), dialect)
    again = compile_schema(compiled.schema, dialect)
    assert again.lost == tuple(sentence for sentence in compiled.lost if "than the" in sentence)
    assert again.schema == compiled.schema


# What the tests themselves need: a small validator, and the services' own rules once more


def at(root: Json, reference: str) -> Any:
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("%C3%A9", "é").replace("%20", " ").replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            return None
    return found


def is_kind(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "number": number,
        "integer": number and value == int(value),
    }[kind]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def fits(value: Any, schema: Any, root: Json | None = None) -> bool:
    """Whether a value is right under a schema: as much of JSON Schema as these tests use."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    kinds = schema.get("type", [])
    if "type" in schema and not any(
        is_kind(value, k) for k in ([kinds] if isinstance(kinds, str) else kinds)
    ):
        return False
    if "enum" in schema and not any(same(value, other) for other in schema["enum"]):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    return _logic(value, schema, root) and _structure(value, schema, root) and _bounds(value, schema)


def _logic(value: Any, schema: Json, root: Json) -> bool:
    if (
        "$ref" in schema
        and (target := at(root, schema["$ref"])) is not None
        and not fits(value, target, root)
    ):
        return False
    if not all(fits(value, part, root) for part in schema.get("allOf", [])):
        return False
    if "anyOf" in schema and not any(fits(value, part, root) for part in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(fits(value, part, root) for part in schema["oneOf"]) != 1:
        return False
    if "not" in schema and fits(value, schema["not"], root):
        return False
    return (
        "if" not in schema
        or not fits(value, schema["if"], root)
        or fits(value, schema.get("then", True), root)
    )


def _structure(value: Any, schema: Json, root: Json) -> bool:
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        beyond = schema.get("additionalProperties", True)
        return all(name in value for name in schema.get("required", [])) and all(
            fits(part, properties.get(name, beyond), root) for name, part in value.items()
        )
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        return all(fits(part, first[n] if n < len(first) else rest, root) for n, part in enumerate(value))
    return True


def _bounds(value: Any, schema: Json) -> bool:
    if is_kind(value, "number"):
        return (
            schema.get("minimum", value) <= value <= schema.get("maximum", value)
            and value % schema.get("multipleOf", value or 1) == 0
        )
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0)
    if isinstance(value, list):
        return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
    return True


COMMON = (
    "type title description enum anyOf $ref $defs properties required additionalProperties items "
    "pattern format minItems"
)
TAKEN = {
    OPENAI_STRICT.name: {
        *COMMON.split(),
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "maxItems",
    },
    ANTHROPIC_STRICT.name: {*COMMON.split(), "const"},
}


def refusals(schema: Json, dialect: Dialect) -> Iterator[str]:
    """Why the service would not take the schema: its documented rules, checked on what was made."""
    if dialect.root == "object" and schema.get("type") != "object":
        yield "the top is no object"
    if dialect.root == "object" and schema.keys() & {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"}:
        yield "a word that cannot stand at the top"
    if dialect.name == INLINE.name and '"$ref"' in json.dumps(schema):
        yield "a reference"
    if dialect.name in TAKEN:
        yield from _strict_refusals(schema, schema, dialect)


def _strict_refusals(schema: Json, root: Json, dialect: Dialect) -> Iterator[str]:
    if words := schema.keys() - TAKEN[dialect.name]:
        yield f"{words} not permitted"
    if "$ref" in schema and (len(schema) > 1 or at(root, schema["$ref"]) is None):
        yield "$ref cannot have keywords, and must lead somewhere"
    if not schema.keys() & {"type", "anyOf", "$ref"}:
        yield "schema must have a 'type' key"
    kinds = schema.get("type", [])
    if "object" in kinds and "enum" not in schema:
        if schema.get("additionalProperties") is not False:
            yield "'additionalProperties' is required to be false"
        missing = schema["properties"].keys() - set(schema["required"])
        if set(schema["required"]) - schema["properties"].keys() or (missing and dialect.all_required):
            yield "'required' must include every key in properties, and no other"
    if "array" in kinds and "items" not in schema:
        yield "array schema missing items"
    if schema.get("minItems", 0) > 1 and dialect.min_items == 1:
        yield "minItems of 0 or 1"
    if any(isinstance(value, dict | list) for value in schema.get("enum", [])):
        yield "complex types within enums"
    parts = [
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", []),
    ]
    for part in (*parts, *([schema["items"]] if "items" in schema else [])):
        yield from _strict_refusals(part, root, dialect)
