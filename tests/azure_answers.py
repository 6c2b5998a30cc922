"""What the stand-in for Azure OpenAI answers: lists, vectors, and texts that repeat what was said."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from standins import Reply, filled, json_reply, unit_vector

__all__ = ["chat", "embeddings", "models", "response"]

_SAFE = {
    name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")
}


def models(names: Sequence[str]) -> Reply:
    return json_reply({"object": "list", "data": [_model(name) for name in names]})


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_794_000_000, "owned_by": "system"}


def embeddings(request: Mapping[str, Any], name: str) -> Reply:
    given = request["input"]
    texts = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    vectors = [unit_vector(json.dumps(said), request.get("dimensions", 8)) for said in texts]
    packed = request.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": place, "embedding": _packed(vector) if packed else vector}
        for place, vector in enumerate(vectors)
    ]
    tokens = sum(max(1, len(json.dumps(said)) // 4) for said in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_reply({"object": "list", "data": data, "model": name, "usage": usage})


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


# --- chat completions


def chat(request: Mapping[str, Any], name: str) -> Reply:
    last = request["messages"][-1]
    call = _chat_call(request) if request.get("tools") and last["role"] == "user" else None
    said = None if call else _said(request, json.dumps(last.get("content"), ensure_ascii=False))
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    if request.get("stream"):
        return _events([*_chat_chunks(request, name, said, call, usage), "[DONE]"])
    message = {"role": "assistant", "content": said, "refusal": None} | (
        {"tool_calls": [call]} if call else {}
    )
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if call else "stop",
        "content_filter_results": _SAFE,
    }
    head = {**_chat_head(name), "object": "chat.completion", "prompt_filter_results": _PROMPT}
    return json_reply({**head, "choices": [choice], "usage": usage})


_PROMPT = [{"prompt_index": 0, "content_filter_results": _SAFE}]


def _chat_head(name: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-CaODNsQOHoRLcb9JVSKYY1e2Iss5s",
        "object": "chat.completion.chunk",
        "created": 1_794_700_800,
        "model": name,
        "system_fingerprint": "fp_503a95a7d8",
    }


def _chat_chunks(
    request: Mapping[str, Any], name: str, said: str | None, call: Mapping[str, Any] | None, usage: Any
) -> Iterator[dict[str, Any]]:
    """As Azure streams: first what was found in the prompt, in a chunk without a choice."""
    nobody = {"id": "", "object": "", "created": 0, "model": ""}
    yield {**nobody, "choices": [], "prompt_filter_results": _PROMPT}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if call else ""}]
    deltas += (
        [{"tool_calls": [{"index": 0, **call}]}] if call else [{"content": part} for part in _parts(said)]
    )
    for delta in deltas:
        yield {**_chat_head(name), "choices": [_choice(delta, None)]}
    yield {**_chat_head(name), "choices": [_choice({}, "tool_calls" if call else "stop")]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**_chat_head(name), "choices": [], "usage": usage}


def _choice(delta: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
    results = {"content_filter_results": _SAFE if delta.get("content") else {}}
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **results}


def _chat_call(request: Mapping[str, Any]) -> dict[str, Any]:
    function = request["tools"][0]["function"]
    arguments = json.dumps(filled(function.get("parameters", {})))
    return {
        "id": "call_0AzureStandIn",
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


# --- responses


def response(request: Mapping[str, Any], name: str) -> Reply:
    given = request.get("input", "")
    last = given[-1] if isinstance(given, list) and given else {"role": "user", "content": given}
    item = _response_item(request, last)
    done = _response_body(name, "completed", [item])
    if not request.get("stream"):
        return json_reply(done)
    return _events(_response_events(name, item, done))


def _response_item(request: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    if request.get("tools") and last.get("role") == "user":
        tool = request["tools"][0]
        arguments = json.dumps(filled(tool.get("parameters") or {}))
        made = {"call_id": "call_0AzureStandIn", "name": tool["name"], "arguments": arguments}
        return {"id": "fc_01", "type": "function_call", "status": "completed", **made}
    said = _said(request, json.dumps(last.get("content", last.get("output")), ensure_ascii=False))
    content = [{"type": "output_text", "text": said, "annotations": [], "logprobs": []}]
    return {"id": "msg_01", "type": "message", "status": "completed", "role": "assistant", "content": content}


def _response_body(name: str, status: str, output: Sequence[Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 13,
    }
    return {
        "id": "resp_689a0a3090808190b418acf12b5cc40e0fc1c31bc69d8719",
        "object": "response",
        "created_at": 1_794_700_800,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": name,
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
        "user": None,
        "content_filters": [{"blocked": False, "source_type": "prompt", "content_filter_results": _SAFE}],
        "store": True,
    }


def _response_events(name: str, item: Mapping[str, Any], done: Any) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "function_call":
        begun = {**item, "status": "in_progress", "arguments": ""}
        deltas = [
            {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]},
            {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]},
        ]
    else:
        begun = {**item, "status": "in_progress", "content": []}
        deltas = list(_text_events(item, place))
    events = [
        {"type": "response.created", "response": _response_body(name, "in_progress", [])},
        {"type": "response.in_progress", "response": _response_body(name, "in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _text_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    part, where = item["content"][0], {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
    for piece in _parts(part["text"]):
        yield {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **where, "part": part}


# --- both


def _said(request: Mapping[str, Any], heard: str) -> str:
    """A repeat of what was heard, or the schema that was asked for, filled in."""
    wanted = (request.get("text") or {}).get("format") or request.get("response_format") or {}
    inner = wanted.get("json_schema", wanted)
    return json.dumps(filled(inner["schema"])) if "schema" in inner else f"You said: {heard}"


def _parts(said: str | None) -> list[str]:
    return re.findall(r"\s*\S+|\s+", said or "")


def _events(values: Sequence[Any]) -> Reply:
    pieces = []
    for value in values:
        name = f"event: {value['type']}\n" if isinstance(value, dict) and "type" in value else ""
        data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        pieces.append(f"{name}data: {data}\n\n".encode())
    return Reply(pieces, kind="text/event-stream; charset=utf-8")
