"""What services refuse beyond the types of their libraries: the form of ids and names, who may follow whom.

Each rule has its source:

- Responses: every call is answered (`No tool output found for function call`), and a reasoning item stands
  before what it led to: https://github.com/openai/openai-node/issues/1567
- Chat Completions: tool messages follow the message with their calls, all of them, before anybody else
  speaks: https://github.com/agno-agi/agno/issues/4345
- Messages: https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use (results at the
  head of the turn after the calls, the form of ids and names) and the errors of the API (no blank text)
- Gemini: https://ai.google.dev/api/caching#Content, and
  https://github.com/google-gemini/gemini-cli/issues/3814 (as many responses as calls)
- Mistral: protocol/instruct/validator.py in https://github.com/mistralai/mistral-common
- DeepSeek: https://api-docs.deepseek.com/guides/thinking_mode
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from switch_ends import End, Form
from switch_reading import Seen, Turn

__all__ = ["broken_rules"]


def broken_rules(seen: Seen, end: End) -> list[str]:
    """In sentences."""
    return [*_ids_and_names(seen, end.form), *_pairs(seen, end.form), *_OWN[end.form](seen, end)]


# --- ids and names --------------------------------------------------------------------

_IDS: Mapping[Form, str] = {
    "responses": r"(?s).{1,64}",
    "chat": r"(?s).{1,40}",
    "mistral": r"[a-zA-Z0-9]{9}",
    "messages": r"[a-zA-Z0-9_-]+",
    "contents": r"(?s).+",
    "ollama": r"(?s).*",
}
_NAMES: Mapping[Form, str] = {
    "responses": r"[a-zA-Z0-9_-]{1,64}",
    "chat": r"[a-zA-Z0-9_.-]{1,64}",
    "mistral": r"[a-zA-Z0-9_-]{1,64}",
    "messages": r"[a-zA-Z0-9_-]{1,128}",
    "contents": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    "ollama": r"(?s).+",
}


def _ids_and_names(seen: Seen, form: Form) -> Iterator[str]:
    for item in (*seen.calls, *seen.results):
        if not re.fullmatch(_IDS[form], item.id):
            yield f"the id {item.id!r} is not of the form {_IDS[form]}"
        if item.name is not None and not re.fullmatch(_NAMES[form], item.name):
            yield f"the name {item.name!r} is not of the form {_NAMES[form]}"


# --- calls and results ----------------------------------------------------------------


def _pairs(seen: Seen, form: Form) -> Iterator[str]:
    """Every call has one result, before the user speaks again; a result has a call before it."""
    open_calls: set[str] = set()
    closed: set[str] = set()
    for turn in seen.turns:
        for result in turn.results:
            if result.id not in open_calls:
                yield f"the result {result.id!r} answers no open call"
            open_calls.discard(result.id)
            closed.add(result.id)
        # By the Responses API the model's words and calls are items of their own, in any order.
        speaks = turn.role in ("user", "system") or (turn.role == "assistant" and form != "responses")
        if open_calls and speaks:
            yield f"{turn.role} speaks before {sorted(open_calls)} are answered"
        for call in turn.calls:
            if call.id in open_calls | closed:
                yield f"two calls share the id {call.id!r}"
            open_calls.add(call.id)
    if open_calls:
        yield f"{sorted(open_calls)} are never answered"


# --- what each wants besides ----------------------------------------------------------


def _responses(seen: Seen, end: End) -> Iterator[str]:
    kinds = [_kind(item) for item in seen.body["input"]]
    for kind, follower in pairwise([*kinds, "the end"]):
        if kind == "reasoning" and follower in ("user", "system", "function_call_output", "the end"):
            yield f"a reasoning item is followed by {follower}, and by nothing that it led to"
    yield from _nothing_empty(seen, ("system", "user", "assistant"))


def _kind(item: Mapping[str, Any]) -> str:
    kind = item.get("type", "message")
    return item["role"] if kind == "message" else kind


_ONE_SYSTEM = ("compatible", "perplexity", "vllm", "llamacpp", "lmstudio", "local")
"""Templates of models that take instructions at the beginning, once."""


def _chat(seen: Seen, end: End) -> Iterator[str]:
    messages = seen.body["messages"]
    for message in messages:
        if message["role"] == "assistant" and not (message.get("content") or message.get("tool_calls")):
            yield f"an answer has neither content nor calls: {message}"
        if message["role"] == "user" and not message["content"]:
            yield "a user message is empty"
    places = [place for place, turn in enumerate(seen.turns) if turn.role == "system"]
    if end.provider in _ONE_SYSTEM and places != [0]:
        yield f"instructions stand at {places}, and one at the beginning is taken"
    if end.provider == "deepseek":
        yield from _deepseek(messages)


def _deepseek(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "assistant" and not isinstance(message.get("reasoning_content"), str):
            yield "an answer has no reasoning_content"
        if isinstance(message.get("content"), list):
            yield "content is a list, and text is taken"


def _messages(seen: Seen, end: End) -> Iterator[str]:
    turns = seen.body["messages"]
    if turns[0]["role"] != "user" or turns[-1]["role"] == "assistant":
        yield "the user does not speak first and last"
    for before, turn in pairwise([{"role": "", "content": []}, *turns]):
        yield from _results_first(_blocks(before), _blocks(turn))
        for block in _blocks(turn):
            yield from _sound_block(block)
    for turn in turns:
        if turn["role"] == "assistant" and _blocks(turn)[-1]["type"] in ("thinking", "redacted_thinking"):
            yield "an answer ends in a thought"


def _blocks(turn: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = turn["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _results_first(before: list[dict[str, Any]], turn: list[dict[str, Any]]) -> Iterator[str]:
    """The results of the calls just before, at the head of the turn, and no others."""
    called = {block["id"] for block in before if block["type"] == "tool_use"}
    head = {block["tool_use_id"] for block in turn[: len(called)] if block["type"] == "tool_result"}
    anywhere = [block["tool_use_id"] for block in turn if block["type"] == "tool_result"]
    if called != head or len(anywhere) != len(head):
        yield f"the calls {sorted(called)} are followed by the results {anywhere}"


def _sound_block(block: Mapping[str, Any]) -> Iterator[str]:
    if block["type"] == "text" and not block["text"].strip():
        yield "a text block is blank"
    if block["type"] == "tool_result":
        inner = block.get("content", [])
        blocks = [] if isinstance(inner, str) else inner
        if block.get("is_error") and any(one["type"] != "text" for one in blocks):
            yield "a failed result holds more than text"
        for one in blocks:
            yield from _sound_block(one)


def _contents(seen: Seen, end: End) -> Iterator[str]:
    contents = seen.body["contents"]
    if contents[0]["role"] != "user":
        yield "the user does not speak first"
    for content, turn in pairwise([*contents, {"parts": []}]):
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in turn["parts"] if "functionResponse" in part]
        if [(call["id"], call["name"]) for call in calls] != [(one["id"], one["name"]) for one in results]:
            yield f"{len(calls)} calls are followed by {len(results)} results, or by those of others"
    if "gemini-3" in end.model:
        yield from _signed_calls(contents)


def _signed_calls(contents: list[dict[str, Any]]) -> Iterator[str]:
    """From Gemini 3 on: https://ai.google.dev/gemini-api/docs/thought-signatures."""
    for content in contents:
        first = next((part for part in content["parts"] if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            yield f"the first call of a step is not signed: {first}"


_MAY_FOLLOW: Mapping[str, tuple[str, ...]] = {
    "": ("system", "user"),
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool"),
}


def _mistral(seen: Seen, end: End) -> Iterator[str]:
    messages = seen.body["messages"]
    for before, message in pairwise([{"role": ""}, *messages]):
        if message["role"] not in _MAY_FOLLOW[before["role"]]:
            yield f"{message['role']} follows {before['role'] or 'nobody'}"
        if message["role"] == "assistant" and not (message.get("content") or message.get("tool_calls")):
            yield "an answer has neither content nor calls"
    if messages[-1]["role"] not in ("user", "tool") and not messages[-1].get("prefix"):
        yield f"{messages[-1]['role']} speaks last"


def _ollama(seen: Seen, end: End) -> Iterator[str]:
    places = [place for place, turn in enumerate(seen.turns) if turn.role == "system"]
    if places != [0]:
        yield f"instructions stand at {places}, and one at the beginning is taken"
    yield from _nothing_empty(seen, ("system", "user"))


def _nothing_empty(seen: Seen, roles: tuple[str, ...]) -> Iterator[str]:
    for turn in seen.turns:
        if turn.role in roles and not _says(turn):
            yield f"a message of the {turn.role} is empty"


def _says(turn: Turn) -> bool:
    return bool(any(turn.texts) or turn.calls or turn.results)


_OWN: Mapping[Form, Callable[[Seen, End], Iterator[str]]] = {
    "responses": _responses,
    "chat": _chat,
    "messages": _messages,
    "contents": _contents,
    "mistral": _mistral,
    "ollama": _ollama,
}
