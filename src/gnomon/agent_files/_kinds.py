"""What kind of value a field takes, and how one is made from what the file says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from gnomon.agent_files._place import Found, wrong
from gnomon.agent_files._spec import OnChange, Permissions
from gnomon.agent_files._values import filled, has_reference

__all__ = [
    "BUDGET",
    "EFFORT",
    "FLAG",
    "FILE",
    "LINES",
    "MODEL",
    "NAME",
    "ON_CHANGE",
    "PERMISSIONS",
    "PROVIDER",
    "RULES",
    "SECONDS",
    "TEMPERATURE",
    "TEXT",
    "TEXTS",
    "TOKENS",
    "TOOL",
    "Effort",
    "Kind",
    "converted",
]

_T = TypeVar("_T")
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]


class Kind(NamedTuple, Generic[_T]):
    """`type` is for msgspec, `expected` for whoever wrote something else."""

    type: object
    expected: str


# No half characters, which cannot be sent, and in names nothing that moves a terminal's cursor.
_Text = Annotated[str, msgspec.Meta(pattern=r"\A[^\ud800-\udfff]*\Z")]
_Name = Annotated[
    str, msgspec.Meta(pattern=r"\A(?! )[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+(?<! )\Z", max_length=200)
]
_ToolName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
_Count = Annotated[int, msgspec.Meta(gt=0, le=2**63 - 1)]
_Number = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]  # infinity and nan are out as well
_Warmth = Annotated[float, msgspec.Meta(ge=0, le=100)]

NAME = Kind[str](_Name, "a name of up to 200 characters")
PROVIDER = Kind[str](_Name, "the name of a provider such as openai")
MODEL = Kind[str](_Name, "the name of a model")
FILE = Kind[str](_Name, "the path of a file")
TEXT = Kind[str](_Text, "text")
RULES = Kind[list[str]](list[_Text], "text, or a list of texts")
LINES = Kind[list[str]](list[_Name], "a list of rules such as `ask pay`")
TEXTS = Kind[tuple[str, ...]](tuple[_Name, ...], "a list of texts")
TOOL = Kind[str](_ToolName, "the name of a registered tool: letters, digits, _ and -")
TOKENS = Kind[int](_Count, "a whole number above zero")
TEMPERATURE = Kind[float](_Warmth, "a number from 0 to 100")
FLAG = Kind[bool](bool, "true or false")
EFFORT = Kind[Effort](Effort, "none, minimal, low, medium or high")
PERMISSIONS = Kind[Permissions](Permissions, "ask, accept_edits, auto, plan, deny or bypass")
SECONDS = Kind[float](_Number, "a number of seconds above zero")
ON_CHANGE = Kind[OnChange](OnChange, "continue, pause or refuse")
_WHOLE = Kind[int | float](_Count, TOKENS.expected)
_AMOUNT = Kind[int | float](_Number, "a number above zero")
BUDGET = {"rounds": _WHOLE, "tokens": _WHOLE, "cost": _AMOUNT, "seconds": _AMOUNT}


def converted(found: Found, kind: Kind[_T], env: Mapping[str, str]) -> _T:
    """The value, filled in. A variable holds text, so it may give a number; a `"5"` in the file does not."""
    value = filled(found, env)
    try:
        made: object = msgspec.convert(
            value, cast("type[object]", kind.type), strict=not has_reference(found.value)
        )
    except msgspec.ValidationError:
        raise wrong(found, kind.expected, shown=True) from None
    return cast(_T, made)
