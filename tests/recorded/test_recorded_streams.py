"""Recorded streams through our providers: we make of them what the vendors' own libraries do."""

from __future__ import annotations

import os
import re
from itertools import zip_longest
from random import Random

import pytest
from cassettes import Exchange, Wire, stream_wire
from differences import FOLD, RETURNED, TYPES
from judges import judged
from pydantic import ValidationError
from replay import answered, cut, providers_for
from returned import as_sent, next_request, parts_sent, request_type
from told import Fields, differing, told_by_us

from gnomon.types.messages import Message, Text, Thinking, UnknownPart
from sdk_types import read_as

SEED = os.environ.get("GNOMON_TEST_SEED") or "1"
SPLITS = 20 if os.environ.get("GNOMON_SOAK") == "1" else 1
WIRES: tuple[Wire, ...] = ("messages", "responses", "chat")


def streams(recordings: list[Exchange], wire: Wire) -> list[Exchange]:
    return [exchange for exchange in recordings if stream_wire(exchange) == wire]


# --- reading ------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
async def test_a_recorded_stream_comes_to_what_the_official_library_makes_of_it(
    recordings: list[Exchange], counts: dict[str, str], wire: Wire
) -> None:
    found: dict[str, dict[str, str]] = {}
    replayed = streams(recordings, wire)
    for exchange in replayed:
        theirs = judged(exchange, wire)
        for provider in providers_for(exchange, wire):
            ours = told_by_us(await answered(provider, exchange))
            found.setdefault(exchange.name, {}).update(differing(ours, theirs))
    unnamed, settled = _against_names(found)
    assert not unnamed, "\n".join(unnamed)
    assert not settled, f"named as differences and none any more: {settled}"
    equal = sum(not fields for fields in found.values())
    counts[f"streams of {wire}"] = f"{len(replayed)} replayed, {equal} equal in every field"


def _against_names(found: dict[str, dict[str, str]]) -> tuple[list[str], list[str]]:
    """Differences that no name is known for, and names that stand for nothing any more."""
    unnamed = [
        f"{name}: {field}: {what}"
        for name, fields in found.items()
        for field, what in fields.items()
        if field not in FOLD.get(name, {})
    ]
    settled = [
        f"{name}: {field}" for name in found for field in FOLD.get(name, {}) if field not in found[name]
    ]
    return unnamed, settled


@pytest.mark.parametrize("wire", WIRES)
async def test_where_the_bytes_are_split_makes_no_difference(recordings: list[Exchange], wire: Wire) -> None:
    different: list[str] = []
    for exchange in streams(recordings, wire):
        for provider in providers_for(exchange, wire):
            whole = await answered(provider, exchange)
            for number in range(SPLITS):
                pieces = cut(exchange.body, Random(f"{SEED} {exchange.name} {number}"))
                if await answered(provider, exchange, pieces) != whole:
                    different.append(f"{exchange.name}, split {number} of seed {SEED}")
    assert not different, "\n".join(different)


# --- sending back ---------------------------------------------------------------------

KEPT = {"messages": 46, "responses": 10, "chat": 0}
"""How many texts the recordings hold that must return byte for byte: the check has something to look at."""


@pytest.mark.parametrize("wire", WIRES)
async def test_what_a_model_said_returns_with_the_next_request(
    recordings: list[Exchange], counts: dict[str, str], wire: Wire
) -> None:
    """Valid by the vendor's own types, every part in its place, and what is signed byte for byte."""
    lost: dict[str, list[str]] = {}
    outside: set[str] = set()
    kept = 0
    replayed = streams(recordings, wire)
    for exchange in replayed:
        for provider in providers_for(exchange, wire):
            response = await answered(provider, exchange)
            body, warnings = await next_request(provider, exchange, response.message)
            secrets = _secrets(response.message)
            found = _not_in(wire, body, told_by_us(response).parts)
            found += [
                f"{text[:60]!r} was changed" for text in secrets if not _is_in_both(text, body, exchange)
            ]
            # A call that was cut off is no JSON: it goes back as a text inside of an object, with a word.
            told = {"arguments_rewritten"} if any(call.truncated for call in response.tool_calls) else set()
            found += [f"warned of {one.code}: {one.message}" for one in warnings if one.code not in told]
            if found:
                lost.setdefault(exchange.name, []).extend(found)
            kept += len(secrets)
            if not _is_valid(exchange, wire, body):
                outside.add(exchange.name)
    names = {exchange.name for exchange in replayed}
    unnamed = [f"{name}: {what}" for name in lost if name not in RETURNED for what in lost[name]]
    assert not unnamed, "\n".join(unnamed)
    assert set(lost) == names & set(RETURNED)
    assert outside == names & set(TYPES)
    assert kept == KEPT[wire]
    valid = f"{len(replayed) - len(outside)} valid by the types"
    counts[f"round trips of {wire}"] = f"{len(replayed)}, {valid}, {kept} secrets byte for byte"


def _not_in(wire: Wire, body: bytes, read: list[Fields]) -> list[str]:
    """Parts of the answer that the request does not hold, or not in their place."""
    sent = [as_sent(wire, part) for part in parts_sent(wire, body)]
    wanted = [as_sent(wire, part) for part in read if part["kind"] != "text" or part["text"].strip()]
    return [f"{had!r} was sent as {now!r}" for had, now in zip_longest(wanted, sent) if had != now]


def _secrets(message: Message) -> list[bytes]:
    """Signatures, and what is encrypted; of OpenAI's reasoning, the whole item."""
    thoughts = [part for part in message.content if isinstance(part, Thinking)]
    kept = [value for part in thoughts for value in (part.signature, part.redacted, part.meta.get("item"))]
    others = [part.data for part in message.content if isinstance(part, UnknownPart)]
    others += [part.meta for part in message.content if isinstance(part, Text)]
    encrypted = _ENCRYPTED.findall(" ".join(str(value) for bag in others for value in bag.values()))
    return [value.encode() for value in (*kept, *encrypted) if isinstance(value, str)]


_ENCRYPTED = re.compile(r'"encrypted_\w+": ?"([^"]+)"')


def _is_in_both(text: bytes, body: bytes, exchange: Exchange) -> bool:
    return text in body and text in exchange.body


def _is_valid(exchange: Exchange, wire: Wire, body: bytes) -> bool:
    try:
        read_as(request_type(exchange, wire), body)
    except (ValidationError, AssertionError):
        return False
    return True
