"""What the bodies of all vendors have in common: what a user adds to them, and the words for an effort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from gnomon._http import HTTP
from gnomon.types.messages import Meta

__all__ = ["effort_for", "merged", "model_names"]

_EFFORT_UP_TO = ((0, "none"), (2_048, "low"), (8_192, "medium"))


def effort_for(budget_tokens: int) -> str:
    """The effort that comes nearest to a budget, for a vendor that takes none."""
    return next((effort for most, effort in _EFFORT_UP_TO if budget_tokens <= most), "high")


def merged(body: Meta, extra: Mapping[str, object]) -> Meta:
    """Objects become one and lists are added, so that a tool of the vendor's own can stand beside ours."""
    made = dict(body)
    for name, value in extra.items():
        there = made.get(name)
        if isinstance(there, list) and isinstance(value, list | tuple):
            made[name] = [*cast("list[object]", there), *cast("list[object]", value)]
        elif isinstance(there, dict) and isinstance(value, Mapping):
            made[name] = _one(cast(Meta, there), cast("Mapping[str, object]", value))
        else:
            made[name] = value
    return made


def _one(there: Meta, value: Mapping[str, object]) -> Meta:
    """Of two types, such as one way to think and another, the fields do not go together."""
    return {**there, **value} if there.get("type") == value.get("type") else dict(value)


class _Model(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    data: list[_Model]


# Under `data`, as OpenAI has it, or the bare list.
_MODELS = cast("type[_Listed | list[_Model]]", _Listed | list[_Model])


async def model_names(http: HTTP, path: str = "/models") -> tuple[str, ...]:
    """The names in the service's list of models."""
    listed = await http.get_as(path, _MODELS)
    models = listed.data if isinstance(listed, _Listed) else listed
    return tuple(sorted(model.id for model in models))
