"""What a body says, read without our adapters: who speaks, which calls there are, what answers them.

One small reader for each form of body, after the vendors' documentation; all give the same turns.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from switch_ends import Form

from gnomon.testing._player import strings_in

__all__ = ["Called", "Returned", "Seen", "Turn", "hash_of", "seen"]


class Called(msgspec.Struct, frozen=True):
    """A call. `arguments` is a value where the form has one, and else the text."""

    id: str
    name: str
    arguments: Any


class Returned(msgspec.Struct, frozen=True):
    id: str
    texts: tuple[str, ...]
    name: str | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant", "tool"]
    texts: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    """Those that come in pieces, put together."""
    calls: tuple[Called, ...] = ()
    results: tuple[Returned, ...] = ()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A body, in a form that all bodies have."""

    body: dict[str, Any]
    turns: tuple[Turn, ...]
    strings: tuple[str, ...]
    hashes: frozenset[str]
    """Of everything that is given by value."""

    @property
    def calls(self) -> list[Called]:
        return [call for turn in self.turns for call in turn.calls]

    @property
    def results(self) -> list[Returned]:
        return [result for turn in self.turns for result in turn.results]


def seen(form: Form, body: bytes) -> Seen:
    read: dict[str, Any] = msgspec.json.decode(body)
    strings = tuple(strings_in(read))
    found = (data for text in strings if (data := _bytes_in(text)))
    return Seen(
        body=read,
        turns=tuple(_READERS[form](read)),
        strings=strings,
        hashes=frozenset(hash_of(data) for data in found),
    )


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_DATA_URL = re.compile(r"data:[^,]*;base64,(.*)", re.DOTALL)


def _bytes_in(text: str) -> bytes | None:
    """What a text holds as base64, alone or in a data URL."""
    held = _DATA_URL.fullmatch(text)
    try:
        return base64.b64decode(held[1] if held else text, validate=True)
    except (binascii.Error, ValueError):
        return None


# --- the forms ------------------------------------------------------------------------


def _texts(content: Any) -> tuple[str, ...]:
    """Of a string, or of a list of blocks."""
    if isinstance(content, str):
        return (content,)
    blocks = content if isinstance(content, list) else []
    found = [block.get("text", block.get("refusal")) for block in blocks if block.get("type") != "thinking"]
    return tuple(text for text in found if isinstance(text, str))


def _thoughts(content: Any) -> tuple[str, ...]:
    """Of Mistral's chunks, between which references may stand."""
    blocks = content if isinstance(content, list) else []
    found = [block["thinking"] for block in blocks if block.get("type") == "thinking"]
    return tuple("".join(_texts(pieces)) for pieces in found)


def _of_responses(body: Mapping[str, Any]) -> Iterator[Turn]:
    if "instructions" in body:
        yield Turn(role="system", texts=(body["instructions"],))
    for item in body["input"]:
        match item.get("type", "message"):
            case "message":
                role = "system" if item["role"] == "developer" else item["role"]
                yield Turn(role=role, texts=_texts(item["content"]))
            case "function_call":
                call = Called(item["call_id"], item["name"], item["arguments"])
                yield Turn(role="assistant", calls=(call,))
            case "function_call_output":
                yield Turn(role="tool", results=(Returned(item["call_id"], _texts(item["output"])),))
            case _:
                pass  # reasoning, and items of the vendor's own


def _of_chat(body: Mapping[str, Any]) -> Iterator[Turn]:
    for message in body["messages"]:
        texts, role = _texts(message.get("content")), message["role"]
        if role == "tool":
            result = Returned(message["tool_call_id"], texts, message.get("name"))
            yield Turn(role="tool", results=(result,))
            continue
        calls = tuple(
            Called(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        )
        yield Turn(
            role="system" if role == "developer" else role,
            texts=texts,
            thoughts=_thoughts(message.get("content")),
            calls=calls,
        )


def _of_ollama(body: Mapping[str, Any]) -> Iterator[Turn]:
    for message in body["messages"]:
        texts, role = _texts(message.get("content")), message["role"]
        if role == "tool":
            result = Returned(message["tool_call_id"], texts, message.get("tool_name"))
            yield Turn(role="tool", results=(result,))
            continue
        calls = tuple(
            Called(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", ())
        )
        yield Turn(role=role, texts=texts, calls=calls)


def _of_messages(body: Mapping[str, Any]) -> Iterator[Turn]:
    if "system" in body:
        yield Turn(role="system", texts=_texts(body["system"]))
    for message in body["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        yield Turn(
            role=message["role"],
            texts=_texts(content),
            calls=tuple(
                Called(block["id"], block["name"], block["input"])
                for block in blocks
                if block["type"] == "tool_use"
            ),
            results=tuple(
                Returned(block["tool_use_id"], _texts(block.get("content")))
                for block in blocks
                if block["type"] == "tool_result"
            ),
        )


def _of_contents(body: Mapping[str, Any]) -> Iterator[Turn]:
    if "systemInstruction" in body:
        yield Turn(role="system", texts=_texts(body["systemInstruction"]["parts"]))
    for content in body["contents"]:
        parts = content["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        yield Turn(
            role="assistant" if content["role"] == "model" else content["role"],
            texts=_texts([part for part in parts if not part.get("thought")]),
            calls=tuple(Called(call["id"], call["name"], call["args"]) for call in calls),
            results=tuple(
                Returned(result["id"], tuple(strings_in(result["response"])), result["name"])
                for result in results
            ),
        )


_READERS: Mapping[Form, Callable[[Mapping[str, Any]], Iterator[Turn]]] = {
    "responses": _of_responses,
    "chat": _of_chat,
    "mistral": _of_chat,
    "messages": _of_messages,
    "contents": _of_contents,
    "ollama": _of_ollama,
}
