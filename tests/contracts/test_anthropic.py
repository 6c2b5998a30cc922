"""Anthropic keeps its word."""

from __future__ import annotations

from pathlib import Path

from anthropic.types.message_create_params import MessageCreateParamsStreaming

from gnomon.contracts.provider import Provider
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.testing import ReceivedRequest, Wire, WireContract, WireLimits
from sdk_types import read_as


class TestAnthropic(WireContract):
    wire = Wire(Path(__file__).parent.parent / "wire" / "anthropic")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return AnthropicProvider(
            key=self.key,
            base_url=url,
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        """By the types of the vendor's own library."""
        assert request.path == "/v1/messages"
        assert request.headers["x-api-key"] == self.key
        assert request.headers["anthropic-version"] == "2026-10-21"
        read_as(MessageCreateParamsStreaming, request.body)
