"""Ollama keeps its word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from ollama import AsyncClient
from ollama._types import ChatRequest
from pydantic import ValidationError

import ollama_standin
from gnomon.contracts.provider import Provider
from gnomon.providers.ollama import OllamaProvider
from gnomon.testing import ReceivedRequest, Wire, WireContract, WireLimits
from gnomon.testing._player import Player
from gnomon.testing._server import FaultServer
from gnomon.types.requests import Response
from sdk_types import read_as


class TestOllama(WireContract):
    wire = Wire(Path(__file__).parent.parent / "wire" / "ollama")

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return OllamaProvider(
            model="fixture-text",
            key=self.key,
            base_url=url,
            connect_s=limits.connect_s,
            first_byte_s=limits.first_byte_s,
            idle_s=limits.idle_s,
            total_s=limits.total_s,
        )

    def check_request(self, request: ReceivedRequest) -> None:
        """By the documentation, and by the types of the vendor's own library as far as they go."""
        assert request.headers["authorization"] == f"Bearer {self.key}"
        ollama_standin.check(request.method, request.path, request.body)
        read_as(ChatRequest, _known_to_the_library(request.body))

    async def test_the_vendors_own_client_makes_the_same_of_an_answer(self) -> None:
        """Texts, thinking and calls, but for lines that the client itself cannot read."""
        compared: set[str] = set()
        async with self.serving() as link, FaultServer(Player(self.wire, self.key, lambda _: None)) as other:
            for fixture in self.wire.answers():
                ours = (await link.ask(fixture)).response
                theirs = await _read_by_the_library(other.url, f"fixture-{fixture.name}")
                if ours is not None and theirs is not None:
                    assert _as_the_library_has_it(ours) == theirs, fixture.name
                    compared.add(fixture.name)
        assert {"text", "thinking", "tool", "tools", "unicode_split"} <= compared


def _known_to_the_library(body: bytes) -> bytes:
    """Without two fields that only the server's own types have, and the schemas, which it reads in part."""
    sent: dict[str, Any] = msgspec.json.decode(body)
    assert (sent.pop("truncate"), sent.pop("shift")) == (False, False)
    for tool in sent.get("tools", ()):
        del tool["function"]["parameters"]
    return msgspec.json.encode(sent)


async def _read_by_the_library(url: str, model: str) -> dict[str, Any] | None:
    client = AsyncClient(host=url)
    text = thinking = ""
    calls: list[Any] = []
    try:
        async for chunk in await client.chat(model, [{"role": "user", "content": "Hi"}], stream=True):
            text += chunk.message.content or ""
            thinking += chunk.message.thinking or ""
            found = chunk.message.tool_calls or ()
            calls += [(call.function.name, call.function.arguments) for call in found]
    except ValidationError:
        return None
    finally:
        await client.close()
    return {"text": text, "thinking": thinking, "calls": calls}


def _as_the_library_has_it(response: Response) -> dict[str, Any]:
    calls = [(call.name, call.parsed()) for call in response.tool_calls]
    return {"text": response.text, "thinking": response.message.thinking, "calls": calls}
