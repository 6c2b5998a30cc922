"""Nothing in the recordings is passed over: every exchange is of a known sort, and the sorts add up."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

import pytest
from cassettes import Exchange, Wire, sort_of
from differences import REQUESTS
from pydantic import ValidationError
from replay import answered, providers_for
from returned import request_type

from gnomon.errors import Unauthorized
from sdk_types import read_as

CASSETTES = {"anthropic": 19, "langchain-anthropic": 24, "langchain-openai": 102}

SORTS = {
    "stream of messages": 40,
    "stream of responses": 128,
    "stream of chat": 3,
    "whole answer of messages": 44,
    "whole answer of responses": 45,
    "whole answer of chat": 2,
    "error 401": 1,
    "other: embeddings": 4,
    "other: a file fetched for a request": 6,
    "other: the recorder's own tracing": 9,
}
"""The archives are pinned, so the numbers are. Whole answers are no streams: nothing of ours reads them."""


def test_every_cassette_holds_exchanges(recordings: list[Exchange], counts: dict[str, str]) -> None:
    cassettes = {(exchange.source, exchange.cassette) for exchange in recordings}
    assert Counter(source for source, _ in cassettes) == CASSETTES
    assert len({exchange.name for exchange in recordings}) == len(recordings)
    counts["cassettes"] = f"{len(cassettes)}, {len(recordings)} exchanges"


def test_every_exchange_is_accounted_for(recordings: list[Exchange], counts: dict[str, str]) -> None:
    found = Counter(sort_of(exchange) for exchange in recordings)
    assert found == SORTS
    assert sum(SORTS.values()) == len(recordings)
    out_of_scope = sum(count for sort, count in found.items() if sort.startswith("other"))
    whole = sum(count for sort, count in found.items() if sort.startswith("whole"))
    counts["not replayed"] = f"{whole} whole answers, {out_of_scope} out of scope"


# --- what clients send, and services take ---------------------------------------------


def test_the_types_that_judge_our_requests_take_those_that_services_took(
    recordings: list[Exchange], counts: dict[str, str]
) -> None:
    """A judge that refused what the services accept would prove nothing."""
    asked: list[tuple[Exchange, Wire]] = [
        (exchange, wire) for exchange in recordings if (wire := _wire_asked(exchange)) is not None
    ]
    refused = {exchange.name for exchange, wire in asked if not _is_taken(exchange, wire)}
    assert refused == set(REQUESTS)
    counts["requests"] = f"{len(asked)}, of which the libraries' types take {len(asked) - len(refused)}"


def _wire_asked(exchange: Exchange) -> Wire | None:
    sort, _, wire = sort_of(exchange).rpartition(" ")
    is_answer = sort in ("stream of", "whole answer of") and exchange.question.get("model")
    return cast(Wire, wire) if is_answer else None


def _is_taken(exchange: Exchange, wire: Wire) -> bool:
    question = _mended(exchange.question) if wire == "responses" else exchange.question
    try:
        read_as(request_type(exchange, wire), json.dumps(question).encode())
    except (ValidationError, AssertionError):
        return False
    return True


def _mended(question: dict[str, Any]) -> dict[str, Any]:
    """With the fields that OpenAI's types demand and its service does not."""
    for tool in question.get("tools", ()):
        if tool["type"] == "function":
            tool.setdefault("strict", None)
    items = question["input"] if isinstance(question["input"], list) else []
    for item in items:
        pieces = item["content"] if isinstance(item.get("content"), list) else []
        if item.get("role") == "assistant" and pieces:
            item |= {"id": "any", "status": "completed", **item, "type": "message"}
        for piece in pieces:
            piece |= _DEMANDED.get(piece["type"], {}) | piece
    return question


_DEMANDED: dict[str, dict[str, Any]] = {"output_text": {"annotations": []}, "input_image": {"detail": "auto"}}


# --- errors ---------------------------------------------------------------------------


async def test_a_recorded_refusal_becomes_the_error_of_its_status(recordings: list[Exchange]) -> None:
    (refused,) = [exchange for exchange in recordings if exchange.status >= 400]
    for provider in providers_for(refused, "responses"):
        with pytest.raises(Unauthorized) as caught:
            await answered(provider, refused)
        assert caught.value.status == 401
        assert caught.value.retryable is False
        assert refused.answer["detail"] in str(caught.value)
