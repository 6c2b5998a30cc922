"""Servers that speak Chat Completions keep their word, whatever their oddities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from gnomon.contracts.provider import Provider
from gnomon.providers.compatible import CompatibleProvider
from gnomon.testing import Wire, WireContract, WireLimits
from gnomon.testing._server import ReceivedRequest
from sdk_types import read_as


class TestCompatible(WireContract):
    wire = Wire(Path(__file__).parent.parent / "wire" / "compatible")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return CompatibleProvider(
            model="fixture-text",
            key=self.key,
            base_url=url,
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        """OpenAI's own form, but for what a server gets back as it sent it."""
        body: dict[str, Any] = msgspec.json.decode(request.body)
        body.pop("top_k", None)
        for message in body["messages"]:
            message.pop("reasoning_details", None)
            for call in message.get("tool_calls", ()):
                call.pop("extra_content", None)
        read_as(CompletionCreateParamsStreaming, msgspec.json.encode(body))
