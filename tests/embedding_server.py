"""A stand-in for OpenAI's `POST /v1/embeddings`, from its documentation: what that does not have is refused.

Sources: the API reference of embeddings, whose words the openai package carries (`EmbeddingCreateParams`):
at most 2,048 inputs, none of them empty, 8,192 tokens each, 300,000 tokens in all. The types of that
package judge every body and every answer.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from openai.types import CreateEmbeddingResponse, EmbeddingCreateParams

from sdk_types import read_as
from standins import Asked, Reply, StandIn, json_reply, unit_vector

__all__ = ["EmbeddingServer", "tokens_in"]

_MOST_TEXTS = 2048
_MOST_TOKENS = 300_000
_MOST_TOKENS_EACH = 8192
_LENGTHS = {"text-embedding-3-small": 24, "text-embedding-3-large": 48, "text-embedding-ada-002": 24}
"""A sixty-fourth of the real ones."""


def tokens_in(text: str) -> int:
    """As a tokenizer would count, more or less: four bytes of English, and fewer of anything else."""
    return sum(-(-len(word.encode()) // (4 if word.isascii() else 2)) for word in text.split(" ")) or 1


class EmbeddingServer(StandIn):
    """OpenAI, or a server that is like it. The vectors come last first: their order is in `index`."""

    def __init__(self, key: str | None = None, *, most_bytes: int = 2**30) -> None:
        super().__init__()
        self._key = key
        self._most_bytes = most_bytes

    def check(self, asked: Asked) -> None:
        assert (asked.method, asked.path) == ("POST", "/v1/embeddings"), f"{asked.path} is not documented"
        assert asked.headers.get("content-type") == "application/json"
        body = read_as(EmbeddingCreateParams, asked.body)
        assert body["input"] != "", "'$.input' is invalid."
        if isinstance(body["input"], list):
            assert 0 < len(body["input"]) <= _MOST_TEXTS, "'$.input' is invalid: 1 to 2048 inputs"
            assert "" not in body["input"], "'$.input' is invalid."
        if "dimensions" in body:
            assert body["model"] != "text-embedding-ada-002", (
                "This model does not support specifying dimensions."
            )
            assert 0 < body["dimensions"] <= _LENGTHS[body["model"]], "Invalid value for 'dimensions'"

    def refusal(self, reason: str) -> Reply:
        return _error(400, reason)

    def answer(self, asked: Asked) -> Reply:
        given = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if self._key and given != self._key:
            return _error(401, f"Incorrect API key provided: {given}.", code="invalid_api_key")
        if len(asked.body) > self._most_bytes:
            return Reply([b"<html><title>413 Request Entity Too Large</title></html>"], 413, "text/html")
        body = read_as(EmbeddingCreateParams, asked.body)
        if body["model"] not in _LENGTHS:
            return _error(404, f"The model `{body['model']}` does not exist.", code="model_not_found")
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        return _too_long(texts) or json_reply(_embedded(body, texts))


def _too_long(texts: Sequence[str]) -> Reply | None:
    counts = [tokens_in(text) for text in texts]
    if max(counts) > _MOST_TOKENS_EACH:
        return _error(
            400,
            f"This model's maximum context length is {_MOST_TOKENS_EACH} tokens, however you requested "
            f"{max(counts)} tokens ({max(counts)} in your prompt; 0 for the completion).",
        )
    if sum(counts) > _MOST_TOKENS:
        said = f"Requested {sum(counts)} tokens, max {_MOST_TOKENS} tokens per request"
        return _error(400, said, code="max_tokens_per_request", kind="max_tokens_per_request")
    return None


def _embedded(body: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    length = body.get("dimensions") or _LENGTHS[body["model"]]
    tokens = sum(map(tokens_in, texts))
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": at, "embedding": unit_vector(text, length)}
            for at, text in reversed(list(enumerate(texts)))
        ],
        "model": body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    CreateEmbeddingResponse.model_validate(answer, strict=True)
    if body.get("encoding_format") == "base64":
        for item in answer["data"]:
            item["embedding"] = _packed(item["embedding"])
    return answer


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _error(
    status: int, message: str, *, code: str | None = None, kind: str = "invalid_request_error"
) -> Reply:
    return json_reply({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)
