"""The bodies that Microsoft documents for Azure OpenAI, as tables: the v1 surface and the deployment surface.

Sources, all public; paths without a host are in https://github.com/Azure/azure-rest-api-specs or below
https://learn.microsoft.com/azure/foundry/openai/

- v1: specification/ai/data-plane/OpenAI.v1/azure-v1-v1-generated.yaml, and `latest`
- deployments: specification/cognitiveservices/data-plane/AzureOpenAI/inference/, stable/2024-10-21 and
  preview/2025-04-01-preview, and `reference`, `reference-preview`; when a field came is told by the
  changelog in `api-version-lifecycle`
- the guides, where the reference lags behind them: `how-to/reasoning` (effort, verbosity, custom tools),
  `how-to/responses` (items go back as they came), `how-to/prompt-caching`, `concepts/priority-processing`
- Microsoft's reference of its own clients, for `phase` and for the parts of a function's output:
  https://learn.microsoft.com/javascript/api/@azure/ai-projects/functionandcustomtoolcalloutputtype and
  https://learn.microsoft.com/dotnet/api/azure.ai.agentserver.responses.models.messagephase
"""

from __future__ import annotations

from collections.abc import Mapping

from json_shapes import (
    Shape,
    anything,
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
)

__all__ = ["DEPLOYMENT_VERSIONS", "V1_VERSIONS", "deployment_chat", "deployment_embeddings", "v1_bodies"]

V1_VERSIONS = ("v1", "preview", "latest")

DEPLOYMENT_VERSIONS = (
    "2024-02-01",
    "2024-03-01-preview",
    "2024-04-01-preview",
    "2024-05-01-preview",
    "2024-06-01",
    "2024-07-01-preview",
    "2024-08-01-preview",
    "2024-09-01-preview",
    "2024-10-01-preview",
    "2024-10-21",
    "2024-12-01-preview",
    "2025-01-01-preview",
    "2025-02-01-preview",
    "2025-03-01-preview",
    "2025-04-01-preview",
)

# --- what several bodies have ---------------------------------------------------------

_NAME = matching(r"[A-Za-z0-9_-]{1,64}", "a name of at most 64 letters, digits, _ and -")
_SCHEMA = mapped(anything)
_METADATA = mapped(text)
_EFFORT = nullable(const("none", "minimal", "low", "medium", "high", "xhigh"))
_VERBOSITY = nullable(const("low", "medium", "high"))
_TIER = const("auto", "default", "priority")
_DETAIL = const("auto", "low", "high")
_STOP = nullable(either(text, listed(text, least=1, most=4)))
_PENALTY = nullable(number(-2, 2))
_SECURITY = fields(
    optional={"application_name": text, "end_user_id": text, "end_user_tenant_id": text, "source_ip": text}
)
_EMBEDDED = either(text, listed(text, most=2048), listed(whole, most=2048), listed(listed(whole), most=2048))

# --- chat completions --------------------------------------------------------------------

_TEXT_PART = fields({"type": const("text"), "text": text})
_REFUSAL_PART = fields({"type": const("refusal"), "refusal": text})
_IMAGE_PART = fields({"type": const("image_url"), "image_url": fields({"url": text}, {"detail": _DETAIL})})
_AUDIO_PART = fields(
    {"type": const("input_audio"), "input_audio": fields({"data": text, "format": const("wav", "mp3")})}
)
_FILE_PART = fields(
    {"type": const("file"), "file": fields(optional={"filename": text, "file_data": text, "file_id": text})}
)

_USER_PARTS: Mapping[str, Shape] = {"text": _TEXT_PART, "image_url": _IMAGE_PART}
_LATER_USER_PARTS: Mapping[str, Shape] = {**_USER_PARTS, "input_audio": _AUDIO_PART, "file": _FILE_PART}

_CHAT_CALL = fields(
    {"id": text, "type": const("function"), "function": fields({"name": _NAME, "arguments": text})}
)
_OLD_CALL = fields({"name": _NAME, "arguments": text})


def _content(part: Shape) -> Shape:
    return either(text, listed(part, least=1))


def _messages(user_parts: Mapping[str, Shape], developer: bool) -> Shape:
    """The messages of a chat, by who speaks."""
    plain = fields({"role": text, "content": _content(_TEXT_PART)}, {"name": text})
    spoken = by("type", {"text": _TEXT_PART, "refusal": _REFUSAL_PART})
    roles: dict[str, Shape] = {
        "system": plain,
        "user": fields({"role": text, "content": _content(by("type", user_parts))}, {"name": text}),
        "assistant": fields(
            {"role": text},
            {
                "content": nullable(_content(spoken)),
                "refusal": nullable(text),
                "name": text,
                "audio": nullable(fields({"id": text})),
                "tool_calls": listed(_CHAT_CALL, least=1),
                "function_call": nullable(_OLD_CALL),
                "context": mapped(anything),  # of the On Your Data feature, sent back
            },
        ),
        "tool": fields({"role": text, "content": _content(_TEXT_PART), "tool_call_id": text}),
        "function": fields({"role": text, "content": nullable(text), "name": text}),
    }
    return listed(by("role", {**roles, **({"developer": plain} if developer else {})}), least=1)


_CHAT_FUNCTION = fields(
    {"name": _NAME}, {"description": text, "parameters": _SCHEMA, "strict": nullable(truth)}
)
_OLD_FUNCTION = fields({"name": _NAME}, {"description": text, "parameters": _SCHEMA})
_CHAT_TOOL = fields({"type": const("function"), "function": _CHAT_FUNCTION})
_CHAT_CHOICE = either(
    const("none", "auto", "required"),
    fields({"type": const("function"), "function": fields({"name": _NAME})}),
)
_FORMATS: Mapping[str, Shape] = {"text": fields({"type": text}), "json_object": fields({"type": text})}
_JSON_SCHEMA = fields(
    {
        "type": text,
        "json_schema": fields(
            {"name": _NAME}, {"description": text, "schema": _SCHEMA, "strict": nullable(truth)}
        ),
    }
)

_CHAT: Mapping[str, Shape] = {
    "temperature": nullable(number(0, 2)),
    "top_p": nullable(number(0, 1)),
    "stream": nullable(truth),
    "stop": _STOP,
    "max_tokens": nullable(whole),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "logit_bias": nullable(mapped(whole)),
    "user": text,
    "data_sources": listed(fields({"type": text}, {"parameters": mapped(anything)})),
    "logprobs": nullable(truth),
    "top_logprobs": nullable(number(0, 20, only_whole=True)),
    "n": nullable(number(1, 128, only_whole=True)),
    "seed": nullable(whole),
    "tools": listed(_CHAT_TOOL, least=1, most=128),
    "tool_choice": _CHAT_CHOICE,
    "function_call": either(const("none", "auto"), fields({"name": _NAME})),
    "functions": listed(_OLD_FUNCTION, least=1, most=128),
}

# What came later to the deployment surface, by the day of the version that brought it.
_CHAT_SINCE: Mapping[str, Mapping[str, Shape]] = {
    "2024-09-01": {
        "stream_options": nullable(fields(optional={"include_usage": truth})),
        "max_completion_tokens": nullable(whole),
        "parallel_tool_calls": truth,
    },
    "2024-12-01": {
        "store": nullable(truth),
        "metadata": _METADATA,
        "reasoning_effort": _EFFORT,
        "user_security_context": _SECURITY,
    },
    "2025-01-01": {
        "prediction": nullable(fields({"type": const("content"), "content": _content(_TEXT_PART)})),
        "modalities": nullable(listed(const("text", "audio"))),
        "audio": nullable(
            fields({"voice": text, "format": const("wav", "aac", "mp3", "flac", "opus", "pcm16")})
        ),
    },
}
_JSON_SCHEMA_SINCE = "2024-08-01"
_DEVELOPER_SINCE = "2024-12-01"
_AUDIO_SINCE = "2025-01-01"


def deployment_chat(version: str) -> Shape:
    """The chat body of one dated version."""
    later = {
        name: shape for since, new in _CHAT_SINCE.items() if version >= since for name, shape in new.items()
    }
    formats = {**_FORMATS, **({"json_schema": _JSON_SCHEMA} if version >= _JSON_SCHEMA_SINCE else {})}
    parts = {**_USER_PARTS, **({"input_audio": _AUDIO_PART} if version >= _AUDIO_SINCE else {})}
    return fields(
        {"messages": _messages(parts, developer=version >= _DEVELOPER_SINCE)},
        # The deployment is in the address; Microsoft's own client names it in the body as well.
        {**_CHAT, **later, "response_format": by("type", formats), "model": text},
    )


_CUSTOM_CHAT_TOOL = fields(
    {"type": text, "custom": fields({"name": _NAME}, {"description": text, "format": mapped(anything)})},
    {"name": text},
)

_V1_CHAT = fields(
    {"model": text, "messages": _messages(_LATER_USER_PARTS, developer=True)},
    {
        **_CHAT,
        **{name: shape for new in _CHAT_SINCE.values() for name, shape in new.items()},
        "response_format": by("type", {**_FORMATS, "json_schema": _JSON_SCHEMA}),
        "tools": listed(by("type", {"function": _CHAT_TOOL, "custom": _CUSTOM_CHAT_TOOL}), least=1, most=128),
        "verbosity": _VERBOSITY,
        "prompt_cache_key": text,
        "service_tier": _TIER,
    },
)

# --- embeddings ------------------------------------------------------------------------------

_EMBEDDING: Mapping[str, Shape] = {
    "user": text,
    "encoding_format": const("float", "base64"),
    "dimensions": number(1, only_whole=True),
}
deployment_embeddings = fields({"input": _EMBEDDED}, {**_EMBEDDING, "input_type": text, "model": text})
_V1_EMBEDDINGS = fields({"model": text, "input": _EMBEDDED}, _EMBEDDING)

# --- responses ---------------------------------------------------------------------------------

# Items that came in an answer go back as they are, with their ids and how they ended.
_CAME: Mapping[str, Shape] = {
    "id": text,
    "status": nullable(const("in_progress", "completed", "incomplete")),
}

_LOGPROBS = nullable(listed(mapped(anything)))
_GIVEN: Mapping[str, Shape] = {
    "input_text": fields({"type": text, "text": text}),
    "input_image": fields(
        {"type": text}, {"image_url": nullable(text), "file_id": nullable(text), "detail": _DETAIL}
    ),
    "input_file": fields({"type": text}, {"file_id": nullable(text), "filename": text, "file_data": text}),
}
_ITEM_CONTENT = by(
    "type",
    {
        **_GIVEN,
        "input_audio": fields({"type": text, "data": text, "format": const("mp3", "wav")}),
        "output_text": fields(
            {"type": text, "text": text, "annotations": listed(mapped(anything))}, {"logprobs": _LOGPROBS}
        ),
        "output_audio": fields({"type": text, "data": text, "transcript": text}),
        "refusal": fields({"type": text, "refusal": text}),
    },
)

_ITEM = by(
    "type",
    {
        "message": fields(
            {"role": const("system", "developer", "user", "assistant"), "content": _content(_ITEM_CONTENT)},
            {"type": text, "phase": nullable(const("commentary", "final_answer")), **_CAME},
        ),
        "function_call": fields({"type": text, "call_id": text, "name": _NAME, "arguments": text}, _CAME),
        "function_call_output": fields(
            {"type": text, "call_id": text, "output": _content(by("type", _GIVEN))}, _CAME
        ),
        "reasoning": fields(
            {"type": text, "summary": listed(fields({"type": const("summary_text"), "text": text}))},
            {"encrypted_content": nullable(text), **_CAME},
        ),
        "item_reference": fields({"type": text, "id": text}),
        "mcp_approval_response": fields(
            {"type": text, "approve": truth, "approval_request_id": text},
            {"id": text, "reason": nullable(text)},
        ),
    },
    default="message",
)

_TOOL = by(
    "type",
    {
        "function": fields(
            {"type": text, "name": _NAME},
            {"description": nullable(text), "parameters": nullable(_SCHEMA), "strict": nullable(truth)},
        ),
        "custom": fields({"type": text, "name": _NAME}, {"description": text, "format": mapped(anything)}),
        "code_interpreter": fields(
            {
                "type": text,
                "container": either(text, fields({"type": const("auto")}, {"file_ids": listed(text)})),
            }
        ),
        "local_shell": fields({"type": text}),
        "file_search": fields(
            {"type": text, "vector_store_ids": listed(text)},
            {"max_num_results": whole, "ranking_options": mapped(anything), "filters": mapped(anything)},
        ),
        "image_generation": fields({"type": text}, others=anything),
        "mcp": fields({"type": text, "server_label": text, "server_url": text}, others=anything),
    },
)

_TEXT_FORMAT = by(
    "type",
    {
        **_FORMATS,
        "json_schema": fields(
            {"type": text, "name": _NAME, "schema": _SCHEMA}, {"description": text, "strict": nullable(truth)}
        ),
    },
)

_INCLUDABLE = const(
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
)

_SUMMARY = nullable(const("auto", "concise", "detailed"))

_RESPONSE = fields(
    {"model": text},
    {
        "input": either(text, listed(_ITEM)),
        "metadata": _METADATA,
        "temperature": nullable(number(0, 2)),
        "top_p": nullable(number(0, 1)),
        "user": text,
        "top_logprobs": number(0, 20, only_whole=True),
        "previous_response_id": nullable(text),
        "reasoning": nullable(
            fields(optional={"effort": _EFFORT, "summary": _SUMMARY, "generate_summary": _SUMMARY})
        ),
        "background": nullable(truth),
        "max_output_tokens": nullable(whole),
        "max_tool_calls": nullable(whole),
        "text": fields(optional={"format": _TEXT_FORMAT, "verbosity": _VERBOSITY}),
        "tools": listed(_TOOL),
        "tool_choice": either(
            const("none", "auto", "required"),
            fields({"type": text, "name": _NAME}),
            fields({"type": text}, {"server_label": text}),
            fields(
                {"type": const("allowed_tools"), "mode": const("auto", "required"), "tools": listed(_SCHEMA)}
            ),
        ),
        "prompt": nullable(fields({"id": text}, {"version": nullable(text), "variables": nullable(_SCHEMA)})),
        "truncation": nullable(const("auto", "disabled")),
        "include": nullable(listed(_INCLUDABLE)),
        "parallel_tool_calls": nullable(truth),
        "store": nullable(truth),
        "instructions": nullable(text),
        "stream": nullable(truth),
        "prompt_cache_key": text,
        "service_tier": _TIER,
    },
)

v1_bodies: Mapping[tuple[str, str], Shape | None] = {
    ("POST", "/chat/completions"): _V1_CHAT,
    ("POST", "/embeddings"): _V1_EMBEDDINGS,
    ("POST", "/responses"): _RESPONSE,
    ("GET", "/models"): None,
}
