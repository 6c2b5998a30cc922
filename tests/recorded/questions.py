"""Recorded requests in our own words, and how many tokens the service says that each of them was.

Read here by rules of their own, and not by those with which the providers write.
What the service adds of its own (its tools, what it kept of earlier turns) is no part of a
request: `outside` names it, and such a request cannot be counted by anybody but the service.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
    UnknownPart,
)
from gnomon.types.requests import Request

__all__ = ["Api", "as_request", "outside", "reported_input"]

Api: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
Fields: TypeAlias = dict[str, Any]


def as_request(api: Api, body: Fields, model: str) -> Request:
    return _READERS[api](body, model)


# --- Chat Completions -------------------------------------------------------------


def _chat(body: Fields, model: str) -> Request:
    schema = (body.get("response_format") or {}).get("json_schema") or {}
    tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    tools += body.get("functions") or []
    return Request(
        model=model,
        messages=tuple(_chat_message(said) for said in body["messages"]),
        tools=tuple(_tool(tool, "parameters") for tool in tools),
        output_schema=schema.get("schema"),
    )


def _chat_message(said: Fields) -> Message:
    parts = _chat_parts(said.get("content"))
    if said["role"] in ("tool", "function"):
        result = ToolResult(
            call_id=said.get("tool_call_id") or "", name=said.get("name") or "", content=parts
        )
        return Message("tool", (result,))
    calls = [
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in said.get("tool_calls") or ()
    ]
    if said.get("function_call"):
        calls.append(ToolCall(id="", **said["function_call"]))
    role = "system" if said["role"] == "developer" else said["role"]
    return Message(role, (*parts, *calls), said.get("name"))


def _chat_parts(content: str | list[Fields] | None) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_chat_part(part) if isinstance(part, dict) else Text(part) for part in content)


def _chat_part(part: Fields) -> Part:
    match part["type"]:
        case "text":
            return Text(part["text"])
        case "image_url":
            return _image(part["image_url"]["url"], part["image_url"].get("detail"))
        case "input_audio":
            return Audio(data=base64.b64decode(part["input_audio"]["data"]))
        case "file":
            return _file(part["file"])
        case other:
            raise ValueError(f"a part of kind {other} in a chat")


# --- Responses ----------------------------------------------------------------------


def _responses(body: Fields, model: str) -> Request:
    given = body.get("input") or ""
    items: list[Fields] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    tools = [tool for tool in body.get("tools") or () if tool["type"] in ("function", "custom")]
    return Request(
        model=model,
        system=body.get("instructions"),
        messages=tuple(_item(item) for item in items),
        tools=tuple(_tool(tool, "parameters") for tool in tools),
        output_schema=((body.get("text") or {}).get("format") or {}).get("schema"),
    )


def _item(item: Fields) -> Message:
    match item.get("type") or "message":
        case "message":
            role = "system" if item["role"] == "developer" else item["role"]
            return Message(role, _responses_parts(item["content"]))
        case "function_call":
            return Message.assistant(
                ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"])
            )
        case "custom_tool_call":
            return Message.assistant(ToolCall(id=item["call_id"], name=item["name"], arguments=item["input"]))
        case "function_call_output" | "custom_tool_call_output":
            return Message.tool(ToolResult(call_id=item["call_id"], content=_responses_parts(item["output"])))
        case "reasoning":
            said = "\n".join(piece["text"] for piece in (*item["summary"], *(item.get("content") or ())))
            return Message.assistant(Thinking(said, redacted=item.get("encrypted_content")))
        case other:
            return Message.assistant(UnknownPart(other, {"json": json.dumps(item)}))


def _responses_parts(content: str | list[Fields]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_responses_part(part) for part in content)


def _responses_part(part: Fields) -> Part:
    match part["type"]:
        case "input_text" | "output_text":
            return Text(part["text"])
        case "refusal":
            return Text(part["refusal"])
        case "input_image":
            return _image(part.get("image_url") or part["file_id"], part.get("detail"))
        case "input_file":
            return _file(part)
        case other:
            raise ValueError(f"a part of kind {other} in a list of items")


# --- Messages -------------------------------------------------------------------------


def _messages(body: Fields, model: str) -> Request:
    system = body.get("system")
    lines: list[Message] = []
    if isinstance(system, list):
        lines.append(Message("system", tuple(Text(block["text"]) for block in system)))
    lines += [Message(said["role"], tuple(_blocks(said["content"]))) for said in body["messages"]]
    output = body.get("output_config") or {}
    form = output.get("format") or body.get("output_format") or {}
    return Request(
        model=model,
        system=system if isinstance(system, str) else None,
        messages=tuple(lines),
        tools=tuple(
            _tool(tool, "input_schema") for tool in body.get("tools") or () if "input_schema" in tool
        ),
        output_schema=form.get("schema"),
    )


def _blocks(content: str | list[Fields]) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
        return
    for block in content:
        yield _block(block)


def _block(block: Fields) -> Part:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "image":
            return Image(**_source(block["source"]))
        case "document":
            return File(**_source(block["source"]), name=block.get("title"))
        case "tool_use":
            return ToolCall(id=block["id"], name=block["name"], arguments=json.dumps(block["input"]))
        case "tool_result":
            return ToolResult(
                call_id=block["tool_use_id"], content=tuple(_blocks(block.get("content") or ""))
            )
        case "thinking":
            return Thinking(block["thinking"], block["signature"])
        case "redacted_thinking":
            return Thinking(redacted=block["data"])
        case other:
            return UnknownPart(other, {"json": json.dumps(block)})


def _source(source: Fields) -> Fields:
    if source["type"] == "base64":
        return {"data": base64.b64decode(source["data"]), "media_type": source["media_type"]}
    if source["type"] in ("text", "content"):
        return {"data": json.dumps(source.get("data") or source["content"]).encode()}
    return {"url": source.get("url") or source["file_id"]}


# --- Gemini -----------------------------------------------------------------------------


def _gemini(body: Fields, model: str) -> Request:
    system = body.get("systemInstruction") or body.get("system_instruction")
    lines = [Message("system", tuple(_gemini_parts(system)))] if system else []
    lines += [_content(content) for content in body["contents"]]
    settings = body.get("generationConfig") or {}
    tools = [tool for group in body.get("tools") or () for tool in group.get("functionDeclarations") or ()]
    return Request(
        model=model,
        messages=tuple(lines),
        tools=tuple(_gemini_tool(tool) for tool in tools),
        output_schema=settings.get("responseSchema") or settings.get("responseJsonSchema"),
    )


def _content(content: Fields) -> Message:
    parts = tuple(_gemini_parts(content))
    if any(isinstance(part, ToolResult) for part in parts):
        return Message("tool", parts)
    return Message("assistant" if content.get("role") == "model" else "user", parts)


def _gemini_parts(content: Fields) -> Iterator[Part]:
    for part in content["parts"]:
        if "functionCall" in part:
            call = part["functionCall"]
            yield ToolCall(id="", name=call["name"], arguments=json.dumps(call.get("args") or {}))
        elif "functionResponse" in part:
            said = part["functionResponse"]
            yield ToolResult(call_id="", name=said["name"], content=(Text(json.dumps(said["response"])),))
        elif "inlineData" in part:
            yield _inline(part["inlineData"])
        elif "fileData" in part:
            yield File(url=part["fileData"]["fileUri"])
        else:
            yield Text(part["text"])


def _inline(data: Fields) -> Part:
    kind = data["mimeType"]
    made: Callable[..., Part] = {"image": Image, "audio": Audio}.get(kind.partition("/")[0], File)  # type: ignore[assignment]
    return made(data=base64.b64decode(data["data"] + "==", altchars=b"-_"), media_type=kind)


def _gemini_tool(tool: Fields) -> ToolDef:
    schemas = ("parameters", "parametersJsonSchema", "parameters_json_schema")
    return _tool(tool, next((name for name in schemas if name in tool), "parameters"))


# --- shared -----------------------------------------------------------------------------


_READERS: dict[Api, Callable[[Fields, str], Request]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "gemini": _gemini,
}


def _tool(tool: Fields, schema: str) -> ToolDef:
    return ToolDef(
        name=tool["name"], description=tool.get("description") or "", schema=tool.get(schema) or {}
    )


def _image(url: str, detail: str | None = None) -> Image:
    meta: Fields = {"detail": detail} if detail else {}
    if url.startswith("data:"):
        return Image(data=base64.b64decode(url.partition(",")[2]), meta=meta)
    return Image(url=url, meta=meta)


def _file(said: Fields) -> File:
    if data := said.get("file_data"):
        return File(data=base64.b64decode(data.rpartition(",")[2]), name=said.get("filename"))
    return File(url=said.get("file_url") or said["file_id"], name=said.get("filename"))


# --- what is outside of a request ---------------------------------------------------------


def outside(api: Api, body: Fields, request: Request) -> str | None:
    """What the service counts and the request does not hold, in words; `None` when there is nothing."""
    if body.get("previous_response_id") or body.get("conversation") or body.get("prompt"):
        return "earlier turns kept by the service"
    if body.get("context_management"):
        return "a prompt that the service shortens"
    own = [tool for tool in body.get("tools") or () if not _is_function(api, tool)]
    if own or body.get("mcp_servers") or body.get("container") or body.get("web_search_options"):
        return "a tool of the vendor's"
    parts = [part for message in request.messages for part in _flat(message.content)]
    if any(isinstance(part, UnknownPart) for part in parts):
        return "a call of a vendor's tool among the messages"
    if any(isinstance(part, File) for part in parts):
        return "a file, which the service makes pages or text of"
    if any(isinstance(part, Image | Audio) and part.url for part in parts):
        return "media by its address, whose size only the service sees"
    if any(isinstance(part, Thinking) and part.redacted for part in parts):
        return "encrypted thinking"
    return None


def _is_function(api: Api, tool: Fields) -> bool:
    match api:
        case "chat" | "responses":
            return tool.get("type") == "function" and not tool.get("defer_loading")
        case "messages":
            return "input_schema" in tool and not tool.get("defer_loading")
        case "gemini":
            return set(tool) <= {"functionDeclarations"}


def _flat(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, ToolResult):
            yield from _flat(part.content)


# --- what the service reports ---------------------------------------------------------------


def reported_input(api: Api, answer: bytes) -> int | None:
    """All tokens of the prompt: read from a cache, written to one, and new."""
    if answer[:2] == b"\x1f\x8b":
        answer = gzip.decompress(answer)
    total: int | None = None
    for said in _events(answer):
        found = _USAGE[api](said)
        total = found or total
    return total


def _events(answer: bytes) -> Iterator[Fields]:
    try:
        whole = json.loads(answer)
        yield from whole if isinstance(whole, list) else [whole]
    except ValueError:
        lines = [line[5:].strip() for line in answer.splitlines() if line.startswith(b"data:")]
        for line in lines:
            if line.startswith(b"{"):
                yield json.loads(line)


def _chat_usage(said: Fields) -> int | None:
    return (said.get("usage") or {}).get("prompt_tokens")


def _responses_usage(said: Fields) -> int | None:
    return ((said.get("response") or said).get("usage") or {}).get("input_tokens")


def _messages_usage(said: Fields) -> int | None:
    if said.get("type") not in ("message", "message_start"):
        return None
    usage = (said.get("message") or said).get("usage") or {}
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


def _gemini_usage(said: Fields) -> int | None:
    return (said.get("usageMetadata") or {}).get("promptTokenCount")


_USAGE: dict[Api, Callable[[Fields], int | None]] = {
    "chat": _chat_usage,
    "responses": _responses_usage,
    "messages": _messages_usage,
    "gemini": _gemini_usage,
}
