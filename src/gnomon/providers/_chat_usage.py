"""The token counts of Chat Completions, in classes that do not overlap."""

from __future__ import annotations

from typing import cast

import msgspec

from gnomon.types.messages import Meta
from gnomon.types.requests import Usage

__all__ = ["usage_in"]


class _OfPrompt(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OfOutput(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Counts(msgspec.Struct):
    """As services report them; the last three stand for what others have in the details."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _OfPrompt | None = None
    completion_tokens_details: _OfOutput | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


_NO_PROMPT, _NO_OUTPUT = _OfPrompt(), _OfOutput()


def usage_in(said: object) -> Usage | None:
    """Tokens in classes that do not overlap; a class that was not reported is `None` (U1 to U3)."""
    if not isinstance(said, dict):
        return None
    try:
        counts = msgspec.convert(said, _Counts)
    except msgspec.ValidationError:
        counts = msgspec.convert(_whole_numbers(cast(Meta, said)), _Counts)
    return _usage(counts)


def _usage(said: _Counts) -> Usage | None:
    prompt, output = said.prompt_tokens, said.completion_tokens
    if prompt is None and output is None:
        return None
    of_prompt = said.prompt_tokens_details or _NO_PROMPT
    of_output = said.completion_tokens_details or _NO_OUTPUT
    read, written = of_prompt.cached_tokens, of_prompt.cache_write_tokens
    if read is None:
        read = said.cached_tokens if said.prompt_cache_hit_tokens is None else said.prompt_cache_hit_tokens
    reasoning = said.reasoning_tokens if of_output.reasoning_tokens is None else of_output.reasoning_tokens
    return Usage(
        input_tokens=None if prompt is None else max(0, prompt - (read or 0) - (written or 0)),
        output_tokens=_with_reasoning(said, output, reasoning),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
    )


def _with_reasoning(said: _Counts, output: int | None, reasoning: int | None) -> int | None:
    """Some count thinking beside the output; their own total tells (U1)."""
    total, prompt = said.total_tokens, said.prompt_tokens
    if output is None or not reasoning or total is None or prompt is None:
        return output
    return output + reasoning if total == prompt + output + reasoning else output


def _whole_numbers(fields: Meta) -> Meta:
    """Counts as whole numbers, where some server has others, and nothing in place of what is none."""
    kept: Meta = {}
    for name, found in fields.items():
        if isinstance(found, dict):
            kept[name] = _whole_numbers(cast(Meta, found)) if name.endswith("_details") else None
        elif isinstance(found, int | float) and not isinstance(found, bool):
            kept[name] = int(found)
    return kept
