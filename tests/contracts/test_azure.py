"""Azure OpenAI keeps its word, by the v1 API and by the one before it."""

from __future__ import annotations

from pathlib import Path

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from azure_standin import check
from gnomon.contracts.provider import Provider
from gnomon.providers.azure import AzureProvider
from gnomon.testing import ReceivedRequest, Wire, WireContract, WireLimits
from sdk_types import read_as

_WIRES = Path(__file__).parent.parent / "wire"
_VERSION = "2024-10-21"


class TestAzure(WireContract):
    wire = Wire(_WIRES / "azure")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return AzureProvider(
            model="my-deployment",
            key=self.key,
            endpoint=url.removesuffix("/v1"),
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        assert request.path == "/openai/v1/responses"
        assert request.headers["api-key"] == self.key
        check(request.method, request.path, request.body, request.headers)
        read_as(ResponseCreateParamsStreaming, request.body)


class TestAzureChat(WireContract):
    wire = Wire(_WIRES / "azure_chat")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return AzureProvider(
            model="my-deployment",
            key=self.key,
            endpoint=url.removesuffix("/v1"),
            api_version=_VERSION,
            deployment="my-deployment",
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        assert request.path == f"/openai/deployments/my-deployment/chat/completions?api-version={_VERSION}"
        assert request.headers["api-key"] == self.key
        check(request.method, request.path, request.body, request.headers)
        read_as(CompletionCreateParamsStreaming, request.body)
