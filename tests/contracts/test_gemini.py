"""Gemini keeps its word."""

from __future__ import annotations

import re
from pathlib import Path

from gemini_types import read_as_gemini
from gnomon.contracts.provider import Provider
from gnomon.providers.gemini import GeminiProvider
from gnomon.testing import ReceivedRequest, Wire, WireContract, WireLimits

_PATH = re.compile(r"/v1beta/models/fixture-\w+:streamGenerateContent\?alt=sse")


class TestGemini(WireContract):
    wire = Wire(Path(__file__).parent.parent / "wire" / "gemini")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return GeminiProvider(
            key=self.key,
            base_url=url,
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        """By the types of the vendor's own library."""
        assert _PATH.fullmatch(request.path), request.path
        assert request.headers["x-goog-api-key"] == self.key
        assert "authorization" not in request.headers
        read_as_gemini(request.body)
