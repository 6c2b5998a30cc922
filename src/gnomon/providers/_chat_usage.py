"""The token counts of Chat Completions, in classes that do not overlap."""

from __future__ import annotations

from typing import cast

from gnomon.types.messages import Meta
from gnomon.types.requests import Usage

__all__ = ["usage_in"]


def usage_in(said: object) -> Usage | None:
    """Tokens in classes that do not overlap; a class that was not reported is `None` (U1 to U3)."""
    if not isinstance(said, dict):
        return None
    fields = cast(Meta, said)
    prompt, output = _count(fields, "prompt_tokens"), _count(fields, "completion_tokens")
    of_prompt, of_output = (
        _inner(fields, "prompt_tokens_details"),
        _inner(fields, "completion_tokens_details"),
    )
    read = _first(
        _count(of_prompt, "cached_tokens"),
        _count(fields, "prompt_cache_hit_tokens"),
        _count(fields, "cached_tokens"),
    )
    written = _count(of_prompt, "cache_write_tokens")
    reasoning = _first(_count(of_output, "reasoning_tokens"), _count(fields, "reasoning_tokens"))
    if prompt is None and output is None:
        return None
    if prompt is not None:
        prompt = max(0, prompt - (read or 0) - (written or 0))
    return Usage(
        input_tokens=prompt,
        output_tokens=_with_reasoning(fields, output, reasoning),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
    )


def _with_reasoning(fields: Meta, output: int | None, reasoning: int | None) -> int | None:
    """Some count thinking beside the output; their own total tells (U1)."""
    total, prompt = _count(fields, "total_tokens"), _count(fields, "prompt_tokens")
    if output is None or not reasoning or total is None or prompt is None:
        return output
    return output + reasoning if total == prompt + output + reasoning else output


def _inner(fields: Meta, name: str) -> Meta:
    found = fields.get(name)
    return cast(Meta, found) if isinstance(found, dict) else {}


def _count(fields: Meta, name: str) -> int | None:
    found = fields.get(name)
    if type(found) is int or found is None:
        return found
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return int(found)


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
