"""What Google's models take and refuse, as data: how they think, how they are sampled, how a turn ends.

Where the facts come from, as read in November 2026:

- https://ai.google.dev/gemini-api/docs/models and …/docs/latest-model (which there are; 3.8 Flash)
- https://ai.google.dev/gemini-api/docs/generate-content/thinking (levels and budgets, by model)
- https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/gemini-3-8-flash
- https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.6 (from 3.6 Flash and
  3.5 Flash-Lite on: no temperature, top_p or top_k, and no request that ends with the model's turn)
- https://ai.google.dev/gemini-api/docs/thought-signatures (from Gemini 3 on: checked in calls)
- https://ai.google.dev/gemini-api/docs/function-calling (from Gemini 3 on: media inside of results)
- https://ai.google.dev/gemini-api/docs/structured-output (from Gemini 3 on: together with tools)
"""

from __future__ import annotations

import re

import msgspec

__all__ = ["Family", "family_of"]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The ways of one model, or of several that have the same."""

    levels: tuple[str, ...] = ()
    """The values of `thinkingLevel` that are taken, the least first; () where it is not known."""
    budget: tuple[int, int] | None = None
    """The least and the largest `thinkingBudget`, where thinking goes by tokens."""
    off: bool = False
    """Whether a budget of 0 turns thinking off."""
    sampling: bool = True
    """Whether temperature, top_p and top_k do anything."""
    prefill: bool = True
    """Whether the last turn may be the beginning of the answer."""
    signed_calls: bool = False
    """Whether the first call of a step must carry a thought signature."""
    media_in_results: bool = False
    """Whether the result of a function may hold images and documents."""
    schema_with_tools: bool = False
    """Whether an output schema may stand beside functions."""


_ALL_LEVELS = ("minimal", "low", "medium", "high")
_THIRD = Family(levels=_ALL_LEVELS, signed_calls=True, media_in_results=True, schema_with_tools=True)
_SINCE_3_6 = msgspec.structs.replace(_THIRD, sampling=False, prefill=False)
# A Gemini that is not known here is taken to be newer: what the newest refuse is not sent.
_NEWEST = msgspec.structs.replace(_SINCE_3_6, levels=_ALL_LEVELS[1:])
_SECOND = Family()
# Of somebody else's, or under a name of its own: what is not known to be taken is not sent.
_FOREIGN = Family(schema_with_tools=True)

_FAMILIES: dict[str, Family] = {
    "3.8-flash": _NEWEST,
    "3.7-flash": _NEWEST,
    "3.6-flash": _SINCE_3_6,
    "3.5-flash-lite": _SINCE_3_6,
    "3.5-flash": _THIRD,
    "3.1-flash-lite": _THIRD,
    "3.1-pro": msgspec.structs.replace(_THIRD, levels=("low", "medium", "high")),
    "3-flash": _THIRD,
    "3-pro": msgspec.structs.replace(_THIRD, levels=("low", "high")),
    "2.5-pro": msgspec.structs.replace(_SECOND, budget=(128, 32_768)),
    "2.5-flash": msgspec.structs.replace(_SECOND, budget=(1, 24_576), off=True),
    "2.5-flash-lite": msgspec.structs.replace(_SECOND, budget=(512, 24_576), off=True),
}
_NOT_THINKING = {"levels": (), "budget": None}

_NAME = re.compile(r"gemini-(?P<major>\d)(?:\.(?P<minor>\d+))?(?P<line>-[a-z]+(?:-lite)?)?(?P<rest>.*)")


def family_of(model: str) -> Family:
    """By the name, in whatever stands before and behind it: `models/`, a date, `-preview`."""
    found = _NAME.search(model)
    if found is None:
        return _NEWEST if "gemini" in model else _FOREIGN
    version = found["major"] + (f".{found['minor']}" if found["minor"] else "")
    family = _FAMILIES.get(version + (found["line"] or "")) or _unlisted(int(found["major"]))
    makes_media = any(word in found["rest"] for word in ("-image", "-tts", "-audio", "-live"))
    return msgspec.structs.replace(family, **_NOT_THINKING) if makes_media else family


def _unlisted(major: int) -> Family:
    return _SECOND if major < 3 else _NEWEST
