"""What each service takes of JSON Schema, as data.

Where the facts come from, as read in November 2026:

- OpenAI: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas and the
  service's own refusals ("$ref cannot have keywords …", "'minLength' is not permitted").
- Anthropic: https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations,
  for output formats and strict tools alike, and what its Python library sends.
- Google: https://ai.google.dev/gemini-api/docs/structured-output and the description of
  `response_json_schema` in its Python library.
- Both of the former refuse `oneOf`, `anyOf` and `allOf` at the top of a tool's parameters, strict or not.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["ANTHROPIC_STRICT", "GEMINI", "INLINE", "OPENAI_STRICT", "PLAIN", "Dialect", "Size", "any_root"]


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large a schema is, in what services count; in a dialect: how large it may be."""

    properties: int | None = None
    depth: int | None = None
    """Objects inside objects, the outermost counted."""
    enum_values: int | None = None
    enum_characters: int | None = None
    """Characters of the longest enum that has more than 250 values."""
    characters: int | None = None
    """Characters of the names of properties and definitions and of enum values."""
    optional: int | None = None
    """Properties that may be left out."""
    unions: int | None = None
    """`anyOf` and lists of types."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of service takes of JSON Schema."""

    name: str
    keywords: frozenset[str] | None = None
    """Constraints that may be sent beside types, properties, items, enum and anyOf. `None`: all there are.

    With such a list every schema has a type and every object only the properties it names.
    """
    formats: frozenset[str] = frozenset()
    large_repeats: bool = True
    """Whether a pattern may repeat more than a hundred times."""
    min_items: int | None = None
    """The largest `minItems`."""
    verbatim: bool = False
    """Nothing is rewritten below the top."""
    references: Literal["keep", "inline"] = "keep"
    beside_reference: Literal["wrap", "inline"] = "inline"
    """A description beside a `$ref`: `anyOf` around the reference, or the definition written out."""
    recursion: bool = True
    all_required: bool = False
    """Every property is required; what may be left out is nullable instead."""
    root: Literal["any", "object"] = "object"
    """"object": no anyOf, oneOf, allOf, enum or not at the top either."""
    explain: bool = False
    """A constraint that cannot be sent is told to the model in the description."""
    limits: Size = Size()


_NUMBERS = frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)

OPENAI_STRICT = Dialect(
    name="OpenAI's strict mode",
    keywords=_NUMBERS | {"pattern", "format", "minItems", "maxItems", "title"},
    formats=_FORMATS,
    beside_reference="wrap",
    all_required=True,
    explain=True,
    limits=Size(
        properties=5000,
        depth=10,
        enum_values=1000,
        enum_characters=15_000,
        characters=120_000,
    ),
)

# The page allows `pattern` and `default`, and the library moves both to the description. A simple pattern
# is sent, as the page says; a default is told, which does no harm.
ANTHROPIC_STRICT = Dialect(
    name="Anthropic's strict mode",
    keywords=frozenset({"pattern", "format", "minItems", "const", "title"}),
    formats=_FORMATS | {"uri"},
    large_repeats=False,
    min_items=1,
    recursion=False,
    explain=True,
    # Of one request, all its strict schemas together; `Compiled.size` is there to be added up.
    limits=Size(optional=24, unions=16),
)

# The page's list of keywords; others are passed over by the service, so the model is told of them in words.
GEMINI = Dialect(
    name="Gemini's structured output",
    keywords=frozenset({"minimum", "maximum", "minItems", "maxItems", "format", "title"}),
    formats=frozenset({"date-time", "date", "time"}),
    root="any",
    explain=True,
)

PLAIN = Dialect(name="plain JSON Schema", verbatim=True)
"""The schema as it is: what a tool sends when it is not strict."""

INLINE = Dialect(name="JSON Schema without references", references="inline", recursion=False)
"""For servers whose templates and grammars do not follow references."""


def any_root(dialect: Dialect) -> Dialect:
    """The dialect for an output format where the service takes lists and unions at the top as well."""
    return msgspec.structs.replace(dialect, root="any")
