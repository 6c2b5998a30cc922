"""What is different about OpenAI's APIs at Azure: what a version takes, and what its content filter says.

The verdicts of the filter stand in the first chunk, for what was asked, in every choice, for what was
answered, and in the whole response at the end. Those that stopped or found something become warnings.
https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter-annotations
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gnomon._complaint import verdicts_in
from gnomon.providers._chat import ChatDecoder
from gnomon.providers._chat_quirks import ChatQuirks, ThinkingParams
from gnomon.providers._responses import ResponsesDecoder
from gnomon.types.events import ProviderEvent, StreamWarning, TextDelta

__all__ = ["AzureChatDecoder", "AzureResponsesDecoder", "chat_quirks"]


def chat_quirks(version: str | None) -> ChatQuirks:
    """How Chat Completions are asked: by the v1 API, or by a dated version before it.

    Models of every age take `system`, and read it as `developer` where they know that word.
    https://github.com/Azure/azure-rest-api-specs: cognitiveservices/data-plane/AzureOpenAI/inference
    """
    if version is None:
        return ChatQuirks(system_role="system")
    return ChatQuirks(
        system_role="system",
        media=frozenset({"image", "audio"} if version >= "2025-01-01" else {"image"}),
        metadata="stored" if version >= "2024-12-01" else "never",
        thinking=ThinkingParams() if version >= "2024-12-01" else None,
        max_tokens="max_completion_tokens" if version >= "2024-09-01" else "max_tokens",
        asks_usage=version >= "2024-09-01",
        output="strict" if version >= "2024-08-01" else "object",
        strict_tools=version >= "2024-08-01",
    )


class _Filter:
    """The verdicts of one answer, each told of once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def warnings_in(self, data: bytes) -> list[StreamWarning]:
        found: list[str] = []
        for kind, verdict in verdicts_in(msgspec.json.decode(data)):
            done = "stopped the answer" if verdict.get("filtered") is True else ""
            if not done and verdict.get("detected") is True:
                done = "found something, and let it pass"
            if done:
                found.append(f"the content filter {done}: {kind}")
        fresh = [text for text in dict.fromkeys(found) if text not in self._told]
        self._told.update(fresh)
        return [StreamWarning(text, "content_filter") for text in fresh]


def _may_tell(data: bytes) -> bool:
    """Whether a verdict may be other than that all is well. Inside a text the quotation mark is escaped."""
    return b'ed":true' in data or b'ed": true' in data


class AzureChatDecoder(ChatDecoder):
    """The chunks of one answer, by Chat Completions."""

    def __init__(self, vendor: str, model: str, quirks: ChatQuirks) -> None:
        super().__init__(vendor, model, quirks)
        self._filter = _Filter()

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        events = super().feed(data)
        return [*self._filter.warnings_in(data), *events] if _may_tell(data) else events


class AzureResponsesDecoder(ResponsesDecoder):
    """The events of one answer, by the Responses API."""

    def __init__(self, vendor: str, model: str) -> None:
        super().__init__(vendor, model)
        self._filter = _Filter()

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        events = super().feed(data)
        if len(events) == 1 and type(events[0]) is TextDelta:
            return events  # verdicts come with the whole response, not with a piece of it
        return [*self._filter.warnings_in(data), *events] if _may_tell(data) else events
