"""Pydantic, for whoever uses it: what is its in a type, and what it complains of.

It is the user's: nothing here imports it before one of its types was met.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, cast, get_args, get_origin, get_type_hints, is_typeddict

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["complaints", "is_model", "pydantic_in"]

_HOMES = ("pydantic", "pydantic_core", "annotated_types")
_MARKS = ("__get_pydantic_core_schema__", "__pydantic_validator__")


def is_model(kind: object) -> bool:
    return (
        isinstance(kind, type) and hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_fields")
    )


def pydantic_in(kind: object) -> list[object]:
    """What a type has of pydantic, at any depth: models, its dataclasses, constraints, types it is taught."""
    if "pydantic" not in sys.modules:
        return []
    found: list[object] = []
    seen: dict[int, object] = {}  # the objects too: an id is somebody else's once its object is gone
    ahead = [kind]
    while ahead:
        item = ahead.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if _is_its(item):
            found.append(item)
        else:
            ahead += [*get_args(item), *_fields(get_origin(item) or item)]
    return found


def _is_its(item: object) -> bool:
    owner = (
        item if isinstance(item, type) else type(item)
    )  # `Field(…)` stands beside a type, in an `Annotated`
    return owner.__module__.partition(".")[0] in _HOMES or any(hasattr(item, mark) for mark in _MARKS)


def _fields(kind: object) -> list[object]:
    hints: dict[str, object] = {}
    if is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "__struct_fields__"):
        with suppress(Exception):  # whoever reads the type says what is wrong with it
            hints = get_type_hints(cast(type, kind), include_extras=True)
    return list(hints.values())


def complaints(error: ValidationError, *root: str, most: int) -> tuple[list[tuple[str, str]], int]:
    """The first few, each with its place (empty for the whole), and how many there are besides."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [(each["msg"], _path((*root, *each["loc"]))) for each in found[:most]]
    return told, len(found) - len(told)


def _path(place: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
