"""A stand-in for Ollama's native API, from its documentation: any path, query or field beside it is refused.

Sources: docs/openapi.yaml, docs/api.md, docs/capabilities/{tool-calling,thinking}.mdx and docs/faq.mdx in
https://github.com/ollama/ollama, which docs.ollama.com shows; what those leave out of a message or a
request stands in api/types.go there (`id`, `tool_call_id`, `truncate`, `shift`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from json_shapes import (
    Shape,
    anything,
    base64_text,
    by,
    const,
    either,
    fields,
    listed,
    mapped,
    matching,
    nullable,
    number,
    text,
    truth,
    whole,
    why_not,
)
from standins import Asked, Reply, StandIn, filled, json_reply, unit_vector

__all__ = ["OllamaStandIn", "check"]

# --- what is documented -------------------------------------------------------------

_SOME_TEXT = matching(r"(?s).+", "text that is not empty")

# A Go duration; -1m and the like mean for ever. Without a unit only 0 is one.
_DURATION = matching(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+)", "a duration such as 5m")
_KEEP_ALIVE = either(_DURATION, number())

_OPTIONS = fields(
    optional={
        # while the model answers
        "num_keep": whole,
        "seed": whole,
        "num_predict": whole,
        "top_k": whole,
        "top_p": number(),
        "min_p": number(),
        "typical_p": number(),
        "repeat_last_n": whole,
        "temperature": number(),
        "repeat_penalty": number(),
        "presence_penalty": number(),
        "frequency_penalty": number(),
        "mirostat": whole,
        "mirostat_tau": number(),
        "mirostat_eta": number(),
        "penalize_newline": truth,
        "stop": either(text, listed(text)),
        # when the model is loaded
        "numa": truth,
        "num_ctx": whole,
        "num_batch": whole,
        "num_gpu": whole,
        "main_gpu": whole,
        "low_vram": truth,
        "vocab_only": truth,
        "use_mmap": truth,
        "use_mlock": truth,
        "num_thread": whole,
    }
)


def _property(value: Any, where: str) -> str | None:
    """One property of a schema. The server reads some keywords itself: a wrong type there is its 400."""
    return _PROPERTY(value, where)


_SCHEMA_KEYWORDS: Mapping[str, Shape] = {
    "type": either(text, listed(text)),
    "description": text,
    "enum": listed(anything),
    "anyOf": listed(_property),
    "properties": mapped(_property),
    "required": listed(text),
}
_PROPERTY = fields(optional=_SCHEMA_KEYWORDS, others=anything)
_PARAMETERS = fields(optional={**_SCHEMA_KEYWORDS, "type": text}, others=anything)

_TOOL = fields(
    {
        "type": const("function"),
        "function": fields({"name": _SOME_TEXT, "parameters": _PARAMETERS}, {"description": text}),
    }
)

_TOOL_CALL = fields(
    {"function": fields({"name": _SOME_TEXT, "arguments": mapped(anything)}, {"index": whole})},
    {"id": text, "type": const("function")},
)

_SAID = {"content": text, "images": listed(base64_text)}
_MESSAGE = by(
    "role",
    {
        "system": fields({"role": text, "content": text}, _SAID),
        "user": fields({"role": text, "content": text}, _SAID),
        "tool": fields({"role": text, "content": text}, {**_SAID, "tool_name": text, "tool_call_id": text}),
        # Its text may be missing, when it called tools.
        "assistant": either(
            fields(
                {"role": text, "content": text}, {**_SAID, "thinking": text, "tool_calls": listed(_TOOL_CALL)}
            ),
            fields({"role": text, "tool_calls": listed(_TOOL_CALL, least=1)}, {**_SAID, "thinking": text}),
        ),
    },
)

_CHAT = fields(
    {"model": _SOME_TEXT, "messages": listed(_MESSAGE)},
    {
        "tools": listed(_TOOL),
        "format": either(const("json"), mapped(anything)),
        "options": _OPTIONS,
        "stream": truth,
        # Levels are the model's own words: `/api/show` lists them.
        "think": nullable(either(truth, _SOME_TEXT)),
        "keep_alive": _KEEP_ALIVE,
        "logprobs": truth,
        "top_logprobs": number(0, 20, only_whole=True),
        "truncate": truth,
        "shift": truth,
    },
)

_EMBED = fields(
    {"model": _SOME_TEXT, "input": either(text, listed(text))},
    {
        "truncate": truth,
        "dimensions": number(1, only_whole=True),
        "keep_alive": _KEEP_ALIVE,
        "options": _OPTIONS,
    },
)

_SHOW = fields({"model": _SOME_TEXT}, {"verbose": truth})

_BODIES: Mapping[tuple[str, str], Shape | None] = {
    ("POST", "/api/chat"): _CHAT,
    ("POST", "/api/embed"): _EMBED,
    ("POST", "/api/show"): _SHOW,
    ("GET", "/api/tags"): None,
    ("GET", "/api/version"): None,
}


def check(method: str, path: str, body: bytes) -> None:
    """AssertionError, in a sentence, when Ollama's documentation does not have this request."""
    address = urlsplit(path)
    wanted = (method.upper(), address.path)
    assert wanted in _BODIES, f"{method} {path} is not documented"
    assert not address.query, f"{method} {path}: no query is documented"
    shape = _BODIES[wanted]
    if shape is None:
        assert not body, f"{method} {path} has a body, and none is documented"
        return
    reason = why_not(shape, body)
    assert reason is None, f"{method} {path}: {reason}"


# --- the server -----------------------------------------------------------------------


class OllamaStandIn(StandIn):
    """Ollama on this machine, with these models.

    It repeats the last message; asked to think, it says so first; with tools it calls the first of
    them when a user spoke last; with a `format` it fills the schema in.
    """

    def __init__(self, models: Sequence[str] = ("llama3.2:latest", "nomic-embed-text:latest")) -> None:
        super().__init__()
        self.models = tuple(models)

    def check(self, asked: Asked) -> None:
        check(asked.method, asked.path, asked.body)

    def refusal(self, reason: str) -> Reply:
        return json_reply({"error": reason}, 400)

    def answer(self, asked: Asked) -> Reply:
        request = json.loads(asked.body) if asked.body else {}
        model = request.get("model")
        if model and not self._has(model):
            return json_reply({"error": f"model '{model}' not found"}, 404)
        return {
            "/api/chat": _chat,
            "/api/embed": _embed,
            "/api/show": _show,
            "/api/tags": lambda _: json_reply({"models": [_listed_model(name) for name in self.models]}),
            "/api/version": lambda _: json_reply({"version": "0.40.12"}),
        }[asked.path](request)

    def _has(self, model: str) -> bool:
        return (model if ":" in model else f"{model}:latest") in self.models


def _chat(request: Mapping[str, Any]) -> Reply:
    lines = [{**_stamp(request), "message": message, "done": False} for message in _messages(request)]
    last = {
        **_stamp(request),
        "message": {"role": "assistant", "content": ""},
        "done": True,
        **_end(request, lines),
    }
    if request.get("stream", True):
        return Reply([_line(line) for line in [*lines, last]], kind="application/x-ndjson")
    return json_reply({**last, "message": _joined([line["message"] for line in lines])})


def _messages(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer in the pieces that a stream would have."""
    history = request["messages"]
    if not history:
        return
    if request.get("think"):
        yield {"role": "assistant", "content": "", "thinking": "Let me see."}
    if request.get("tools") and history[-1]["role"] == "user":
        yield {"role": "assistant", "content": "", "tool_calls": [_call(request["tools"][0]["function"])]}
        return
    for word in _answer_text(request).split(" "):
        yield {"role": "assistant", "content": f"{word} "}


def _answer_text(request: Mapping[str, Any]) -> str:
    wanted = request.get("format")
    if wanted:
        return json.dumps({} if wanted == "json" else filled(wanted))
    return f"You said: {request['messages'][-1]['content']}"


def _call(function: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": {"name": function["name"], "arguments": filled(function["parameters"])}}


def _joined(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole_message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(message["content"] for message in messages),
    }
    thinking = "".join(message.get("thinking", "") for message in messages)
    calls = [call for message in messages for call in message.get("tool_calls", [])]
    return (
        whole_message
        | ({"thinking": thinking} if thinking else {})
        | ({"tool_calls": calls} if calls else {})
    )


def _end(request: Mapping[str, Any], lines: Sequence[Any]) -> dict[str, Any]:
    if not request["messages"]:
        return {"done_reason": "load"}  # nothing was asked: the model is loaded, and that is all
    return {
        "done_reason": "stop",
        "total_duration": 174_560_334,
        "load_duration": 101_397_084,
        "prompt_eval_count": len(json.dumps(request["messages"])) // 4,
        "prompt_eval_duration": 13_074_791,
        "eval_count": len(lines),
        "eval_duration": 52_479_709,
    }


def _embed(request: Mapping[str, Any]) -> Reply:
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    vectors = [unit_vector(said, request.get("dimensions", 8)) for said in texts]
    return json_reply(
        {
            "model": request["model"],
            "embeddings": vectors,
            "total_duration": 14_143_917,
            "load_duration": 1_019_500,
            "prompt_eval_count": sum(max(1, len(said) // 4) for said in texts),
        }
    )


def _show(request: Mapping[str, Any]) -> Reply:
    return json_reply(
        {
            "license": "MIT",
            "modelfile": "FROM llama3.2",
            "parameters": "num_ctx 4096",
            "template": "{{ .Prompt }}",
            "details": _DETAILS,
            "model_info": {"general.architecture": "llama", "llama.context_length": 131_072},
            "capabilities": ["completion", "tools"],
            "modified_at": "2026-10-29T19:01:12.5+02:00",
        }
    )


_DETAILS: Mapping[str, Any] = {
    "parent_model": "",
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "3.2B",
    "quantization_level": "Q4_K_M",
}


def _listed_model(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": "2026-10-29T19:01:12.5+02:00",
        "size": 2_019_393_189,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "details": _DETAILS,
    }


def _stamp(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": request["model"], "created_at": "2026-11-15T10:00:00.123456Z"}


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
