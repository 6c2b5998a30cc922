"""JSON Schema, compiled to what a service takes of it.

Each service has its own dialect: one refuses optional properties, another bounds on
numbers, a third references. `compile_schema` rewrites a schema for one of them and
says in sentences what it had to change and what could not be said at all. Nothing is
dropped in silence: what is `lost` has to be checked when the answer is there.

The schema may come from a stranger's server. It is never changed, never trusted
to be small or sound, and the same schema always gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from gnomon.errors import InvalidInput
from gnomon.providers._schema.dialects import (
    ANTHROPIC_STRICT,
    GEMINI,
    INLINE,
    OPENAI_STRICT,
    PLAIN,
    Dialect,
    Size,
    any_root,
)
from gnomon.providers._schema.inline import InlineWalk
from gnomon.providers._schema.plain import PlainWalk
from gnomon.providers._schema.reading import Schema, plain_copy
from gnomon.providers._schema.sizes import measured, too_large
from gnomon.providers._schema.strict import StrictWalk
from gnomon.providers._schema.walk import Walk

__all__ = [
    "Dialect",
    "Size",
    "OPENAI_STRICT",
    "ANTHROPIC_STRICT",
    "GEMINI",
    "PLAIN",
    "INLINE",
    "any_root",
    "Compiled",
    "compile_schema",
    "cached_compile",
]

_MOST_REMEMBERED = 256
_LARGEST_REMEMBERED_BYTES = 32_768


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """A schema in a dialect, and what became of it on the way there.

    - `lost`: what cannot be said in the dialect, one sentence each, with the place.
    - `changed`: what is said otherwise, for better reading as well as of necessity.
    - `exact`: every value is right or wrong as it was before.
    - `sound`: what is right now was right before; less may be.
    """

    schema: Schema
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    exact: bool = True
    sound: bool = True
    size: Size = Size()


def compile_schema(schema: Mapping[str, object], dialect: Dialect) -> Compiled:
    """The schema in the words of the dialect; `InvalidInput` when it is no schema that could be sent."""
    return _compiled(plain_copy(schema), dialect)


def cached_compile(schema: Mapping[str, object], dialect: Dialect) -> Compiled:
    """The same, remembered: a tool's schema goes out with every request."""
    text = msgspec.json.encode(plain_copy(schema))
    if len(text) > _LARGEST_REMEMBERED_BYTES:
        return _compiled(msgspec.json.decode(text), dialect)
    found, made = _remembered(text, dialect)
    # Whoever gets it may change it; the next one must not see that.
    return msgspec.structs.replace(found, schema=msgspec.json.decode(made, type=dict))


@lru_cache(_MOST_REMEMBERED)
def _remembered(text: bytes, dialect: Dialect) -> tuple[Compiled, bytes]:
    found = _compiled(msgspec.json.decode(text), dialect)
    return found, msgspec.json.encode(found.schema)


def _compiled(schema: Schema, dialect: Dialect) -> Compiled:
    walk = _walk(schema, dialect)
    try:
        made = walk.compiled()
    except RecursionError as error:
        raise InvalidInput("the schema cannot be used: it is too deep") from error
    size = measured(made)
    for sentence in too_large(size, dialect.limits):
        walk.notes.lose((), sentence)
    notes = walk.notes
    return Compiled(
        schema=made, lost=notes.lost, changed=notes.changed, exact=notes.exact, sound=notes.sound, size=size
    )


def _walk(schema: Schema, dialect: Dialect) -> Walk:
    if dialect.verbatim:
        return PlainWalk(schema, dialect)
    return InlineWalk(schema, dialect) if dialect.keywords is None else StrictWalk(schema, dialect)
