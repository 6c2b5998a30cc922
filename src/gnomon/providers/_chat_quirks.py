"""How a server of Chat Completions may differ from OpenAI's own: data, no code."""

from __future__ import annotations

from typing import Literal

import msgspec

from gnomon.types.messages import Meta

__all__ = ["ChatQuirks", "ThinkingParams"]


class ThinkingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request says how much to think. A path leads into the body; an empty one is no such place."""

    effort: tuple[str, ...] = ("reasoning_effort",)
    efforts: dict[str, str] = {}
    """Our word for an effort → the server's, where they differ."""
    budget: tuple[str, ...] = ()
    on: Meta = {}
    """What goes into the body whenever thinking is asked for."""
    off: Meta | None = None
    """What goes into it instead of the effort `none`; `None` when `none` is an effort like the others."""


class ChatQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """How a server differs from OpenAI's own, whose behaviour is the defaults."""

    # What it sends.
    needs_done: bool = True
    """Only `[DONE]` completes an answer. Else a finish reason does, once the bytes end."""
    names_stop: bool = False
    """A choice says in `stop_reason` which stop sequence it met."""

    # What it takes.
    system_role: Literal["system", "developer"] = "developer"
    system_first: bool = False
    """System messages are one, at the beginning."""
    part_lists: bool = True
    """Several texts may stand in one message; else they are joined."""
    media: frozenset[str] = frozenset({"image", "audio", "file"})
    image_urls: bool = True
    file_urls: bool = False
    audio_formats: frozenset[str] = frozenset({"wav", "mp3"})
    names: bool = True
    metadata: Literal["always", "stored", "never"] = "stored"
    """`stored`: only beside `"store": true`, which a user sets in `extra`."""
    top_k: bool = False
    max_tokens: str = "max_completion_tokens"
    asks_usage: bool = True
    """`stream_options` is understood."""
    strict_tools: bool = True
    one_tool: bool = True
    """`tool_choice` may name the tool."""
    output: Literal["strict", "schema", "object"] = "strict"
    """What an answer can be held to: a schema in OpenAI's strict dialect, any schema, or JSON of any form."""
    longest_id: int | None = 40
    """Characters of a call's id; longer ones, of another vendor's, are replaced."""
    broken_arguments: bool = True
    """Arguments of an earlier call may be no JSON."""
    refusals: bool = True
    thinking: ThinkingParams | None = ThinkingParams()

    # What of its own thinking it wants back (S9), beside `reasoning_details`, which always return.
    replay: Literal["reasoning_content", "reasoning"] | None = None
    replay_empty: bool = False
    """Every message of the model's has the field, be it empty, or the request is refused."""
