"""The words of JSON Schema, by what they speak of."""

from __future__ import annotations

__all__ = [
    "KINDS",
    "KIND_OF",
    "MOST",
    "LEAST",
    "NEUTRAL",
    "OF_ONE_SCHEMA",
    "OF_SCHEMAS",
    "OF_NAMED_SCHEMAS",
    "SCAFFOLDING",
    "words",
]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS = ("object", "array", "string", "integer", "number", "boolean", "null")

# What holds a schema together and is not needed once it is compiled.
SCAFFOLDING = words(
    "$schema $id id $comment $anchor $dynamicAnchor $recursiveAnchor $vocabulary $defs definitions"
)
# What says nothing of which values are right.
NEUTRAL = SCAFFOLDING | words(
    "title description default examples example deprecated readOnly writeOnly contentMediaType "
    "contentEncoding contentSchema discriminator externalDocs xml nullable"
)

_STRING = "minLength maxLength pattern format"
_NUMBER = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
_ARRAY = (
    "items prefixItems additionalItems minItems maxItems uniqueItems contains minContains maxContains "
    "unevaluatedItems"
)
_OBJECT = (
    "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
    "dependentRequired dependentSchemas dependencies unevaluatedProperties"
)
# A keyword says something of values of one kind only; to all others it is nothing.
KIND_OF = {
    word: kind
    for kind, those in (("string", _STRING), ("number", _NUMBER), ("array", _ARRAY), ("object", _OBJECT))
    for word in those.split()
}

# Of two bounds the stricter holds.
LEAST = words("minimum exclusiveMinimum minLength minItems minProperties minContains")
MOST = words("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains")

OF_ONE_SCHEMA = words(
    "items additionalItems additionalProperties unevaluatedItems unevaluatedProperties contains "
    "propertyNames not if then else contentSchema"
)
OF_SCHEMAS = words("anyOf oneOf allOf prefixItems items")
OF_NAMED_SCHEMAS = words("properties patternProperties dependentSchemas dependencies")
