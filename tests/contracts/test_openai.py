"""OpenAI keeps its word, by both of its APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from gnomon.contracts.provider import Provider
from gnomon.providers.openai import OpenAIProvider
from gnomon.testing import Wire, WireContract, WireLimits
from gnomon.testing._server import ReceivedRequest
from sdk_types import read_as

_WIRES = Path(__file__).parent.parent / "wire"


class TestOpenAI(WireContract):
    wire = Wire(_WIRES / "openai")
    api: ClassVar[Literal["responses", "chat"]] = "responses"
    params: ClassVar[Any] = ResponseCreateParamsStreaming

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return OpenAIProvider(
            key=self.key,
            base_url=url,
            api=self.api,
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        read_as(self.params, request.body)


class TestOpenAIChat(TestOpenAI):
    wire = Wire(_WIRES / "openai_chat")
    api = "chat"
    params = CompletionCreateParamsStreaming
