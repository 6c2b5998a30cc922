"""What Anthropic's models take and refuse, as data: how they think, how much they say, what they reject.

Where the facts come from, as read in November 2026:

- https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting (thinking, by model)
- https://platform.claude.com/docs/en/build-with-claude/effort
- https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5 and its neighbours (forced tools)
- https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
- https://platform.claude.com/docs/en/about-claude/models/overview (how much a model can say)
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

__all__ = ["Family", "family_of"]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The ways of one model, or of several that have the same."""

    thinks: Literal["adaptive", "budget"] = "adaptive"
    """"adaptive": as much as it likes, steered by an effort. "budget": when given a number of tokens."""
    effort: bool = True
    """Whether `output_config.effort` is taken."""
    off: Literal["disabled", "between_tools"] | None = None
    """How thinking is turned off; `None` where it cannot be."""
    forced_tools: bool = False
    """Whether a request may insist on a tool."""
    system_messages: bool = True
    """Whether a system message may stand among the messages."""
    prefill: bool = False
    """Whether the last message may be the beginning of the answer."""
    sampling: bool = False
    """Whether temperature, top_p and top_k are taken, by the version of the API that has them."""
    always_sampling: bool = False
    """Whether they are taken by any version."""
    most_tokens: int = 128_000
    """The largest `max_tokens`."""
    usual_tokens: int = 64_000
    """`max_tokens` when the request does not say; thinking counts as well."""


# A Claude that is not known here is taken to be newer: what the newest refuse is not sent. A model of
# somebody else's, behind a server that speaks this wire, gets what it is asked for.
_NEWEST = Family(usual_tokens=32_000)
_FOREIGN = Family(
    thinks="budget", effort=False, off="disabled", forced_tools=True, system_messages=False, prefill=True,
    sampling=True, always_sampling=True, usual_tokens=4_096,
)  # fmt: skip
_ALWAYS = Family()
_FIFTH = Family(off="disabled", forced_tools=True)
_EARLIER = msgspec.structs.replace(_FIFTH, system_messages=False)
_SIXTH_OF_FOUR = msgspec.structs.replace(_EARLIER, sampling=True)
_BUDGET = Family(
    thinks="budget", effort=False, off="disabled", forced_tools=True, system_messages=False, prefill=True,
    sampling=True, most_tokens=64_000, usual_tokens=32_000,
)  # fmt: skip

_FAMILIES: dict[str, Family] = {
    "fable-5-2": _ALWAYS,
    "fable-5-1": _ALWAYS,
    "fable-5": msgspec.structs.replace(_ALWAYS, forced_tools=True),
    "mythos-5-2": _ALWAYS,
    "mythos-5-1": _ALWAYS,
    "mythos-5": msgspec.structs.replace(_ALWAYS, forced_tools=True),
    "opus-5-5": _ALWAYS,
    "opus-5": _FIFTH,
    "opus-4-8": _FIFTH,
    "opus-4-7": _EARLIER,
    "opus-4-6": _SIXTH_OF_FOUR,
    "opus-4-5": msgspec.structs.replace(_BUDGET, effort=True),
    "sonnet-5-5": Family(off="between_tools"),
    "sonnet-5": _EARLIER,
    "sonnet-4-6": _SIXTH_OF_FOUR,
    "sonnet-4-5": _BUDGET,
    "haiku-5-5": _FIFTH,
    "haiku-4-5": _BUDGET,
}

_BEFORE_THESE = msgspec.structs.replace(_BUDGET, most_tokens=32_000, usual_tokens=16_000)

# A minor version has one or two digits, a date eight.
_NAME = re.compile(r"claude-(?:(?P<line>[a-z]+)-)?(?P<major>\d)(?:[-.](?P<minor>\d{1,2}))?(?!\d)")


def family_of(model: str) -> Family:
    """By the name, in whatever stands around it: a date, a region, the name of a cloud."""
    found = _NAME.search(model)
    if found is None:
        return _NEWEST if "claude" in model else _FOREIGN
    version = "-".join(part for part in found.groups() if part)
    if version in _FAMILIES:
        return _FAMILIES[version]
    return _BEFORE_THESE if int(found["major"]) <= 4 else _NEWEST
