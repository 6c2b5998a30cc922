"""Mistral keeps its word."""

from __future__ import annotations

from pathlib import Path

from mistralai.client.models import ChatCompletionStreamRequest

from gnomon.contracts.provider import Provider
from gnomon.providers.mistral import MistralProvider
from gnomon.testing import ReceivedRequest, Wire, WireContract, WireLimits
from sdk_types import read_as


class TestMistral(WireContract):
    wire = Wire(Path(__file__).parent.parent / "wire" / "mistral")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return MistralProvider(
            key=self.key,
            base_url=url,
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        """By the types of the vendor's own library."""
        assert request.path.endswith("/chat/completions")
        assert request.headers["authorization"] == f"Bearer {self.key}"
        read_as(ChatCompletionStreamRequest, request.body)
