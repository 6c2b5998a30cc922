"""Who speaks Chat Completions, and how each differs from OpenAI: facts with their source, and no code.

Read in November 2026. A vendor that changes its mind is a line here. What is not
said of a vendor is as `_SERVER` has it, the careful form that most servers take.
"""

from __future__ import annotations

import re

import msgspec

from gnomon.providers._chat_quirks import ChatQuirks, ThinkingParams

__all__ = ["VENDORS", "ModelRule", "Vendor"]


class ModelRule(msgspec.Struct, frozen=True):
    """What holds for the models whose name the pattern finds, in place of the vendor's quirks."""

    pattern: str
    quirks: ChatQuirks


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """One service or kind of server."""

    name: str
    base_url: str | None
    key_variable: str
    needs_key: bool = True
    quirks: ChatQuirks
    rules: tuple[ModelRule, ...] = ()
    model: str = ""
    """What is asked when no model is named; empty when one has to be."""

    def quirks_for(self, model: str) -> ChatQuirks:
        return next((rule.quirks for rule in self.rules if re.search(rule.pattern, model)), self.quirks)


_replace = msgspec.structs.replace
_NO_MINIMAL = {"minimal": "low"}

_SERVER = ChatQuirks(
    needs_done=False,
    names_stop=True,
    system_role="system",
    system_first=True,
    metadata="never",
    top_k=True,
    max_tokens="max_tokens",
    strict_tools=False,
    output="schema",
    broken_arguments=False,
    refusals=False,
)

# https://console.groq.com/docs/openai: 400 for messages[].name, and metadata is not supported
# (groq-python, types/chat/completion_create_params.py). The model's own `reasoning` is a field of its
# messages (chat_completion_assistant_message_param.py).
_GROQ = _replace(
    _SERVER,
    system_first=False,
    names=False,
    top_k=False,
    max_tokens="max_completion_tokens",
    media=frozenset({"image"}),
    replay="reasoning",
    thinking=ThinkingParams(efforts=_NO_MINIMAL),
)
# https://console.groq.com/docs/reasoning: Qwen thinks as usual or not at all, and raw unless told otherwise.
_GROQ_QWEN = _replace(
    _GROQ,
    thinking=ThinkingParams(
        efforts={"minimal": "default", "low": "default", "medium": "default", "high": "default"},
        on={"reasoning_format": "parsed"},
    ),
)

# together-py, types/chat/completion_create_params.py: no stream_options, and usage comes all the same
# (chat_completion_chunk.py); no files, and audio as wav.
_TOGETHER = _replace(
    _SERVER,
    system_first=False,
    asks_usage=False,
    media=frozenset({"image", "audio"}),
    audio_formats=frozenset({"wav"}),
    thinking=ThinkingParams(efforts=_NO_MINIMAL, off={"reasoning": {"enabled": False}}),
)

# https://api-docs.deepseek.com/guides/thinking_mode: once a tool was called, the reasoning_content of every
# message must return, or the request is refused; elsewhere it is ignored. Efforts are mapped by the server.
# https://api-docs.deepseek.com/api/create-chat-completion: text only, and JSON without a schema.
_DEEPSEEK = _replace(
    _SERVER,
    system_first=False,
    part_lists=False,
    media=frozenset(),
    top_k=False,
    output="object",
    thinking=ThinkingParams(on={"thinking": {"type": "enabled"}}, off={"thinking": {"type": "disabled"}}),
    replay="reasoning_content",
    replay_empty=True,
)

# https://openrouter.ai/docs/use-cases/reasoning-tokens: an effort or a number of tokens, never both; a model
# gets its reasoning_details back unchanged, or its plain reasoning where it has no details.
# https://openrouter.ai/docs/guides/overview/multimodal/audio and …/pdfs: files by address too, audio not.
_OPENROUTER = _replace(
    _SERVER,
    system_first=False,
    output="strict",
    file_urls=True,
    audio_formats=frozenset({"wav", "mp3", "aiff", "aac", "ogg", "flac", "m4a"}),
    thinking=ThinkingParams(effort=("reasoning", "effort"), budget=("reasoning", "max_tokens")),
    replay="reasoning",
)

# fireworks-ai, types/chat/completion_create_params.py: no stream_options (usage is in the last chunk), an
# effort may be a number of tokens, metadata is kept. https://docs.fireworks.ai/guides/reasoning.
_FIREWORKS = _replace(
    _SERVER,
    system_first=False,
    asks_usage=False,
    metadata="always",
    media=frozenset({"image"}),
    thinking=ThinkingParams(efforts=_NO_MINIMAL, budget=("reasoning_effort",)),
    replay="reasoning_content",
)
_FIREWORKS_GPT_OSS = _replace(_FIREWORKS, thinking=ThinkingParams(efforts=_NO_MINIMAL))

# perplexity-py, types/chat/completion_create_params.py: tool_choice is a word, no stream_options (usage comes
# with every chunk), efforts from minimal to high.
_PERPLEXITY = _replace(
    _SERVER,
    asks_usage=False,
    one_tool=False,
    media=frozenset({"image"}),
    thinking=ThinkingParams(efforts={"none": "minimal"}),
)

# https://docs.x.ai/docs/api-reference#chat-completions: images are the only media here, no top_k.
_XAI = _replace(
    _SERVER,
    system_first=False,
    top_k=False,
    max_tokens="max_completion_tokens",
    media=frozenset({"image"}),
    thinking=ThinkingParams(efforts=_NO_MINIMAL),
)
# These refuse every effort: https://github.com/vercel/ai/blob/main/packages/xai/src/supports-reasoning-effort.ts
_XAI_FIXED = _replace(_XAI, thinking=None)

# https://inference-docs.cerebras.ai/resources/openai and …/capabilities/reasoning; parameters by
# cerebras-cloud-sdk-python, types/chat/completion_create_params.py.
_CEREBRAS = _replace(
    _SERVER,
    system_first=False,
    top_k=False,
    max_tokens="max_completion_tokens",
    output="strict",
    media=frozenset({"image"}),
    thinking=ThinkingParams(efforts=_NO_MINIMAL),
)
_CEREBRAS_GPT_OSS = _replace(_CEREBRAS, thinking=ThinkingParams(efforts={"none": "low", "minimal": "low"}))

# https://docs.vllm.ai/en/stable/serving/openai_compatible_server/ and …/features/reasoning_outputs/; the
# thoughts of an earlier message are read from `reasoning` (…/features/interleaved_thinking/).
# Templates of Qwen and others want one system message, first: https://github.com/vllm-project/vllm/pull/44505
_TEMPLATE = {"enable_thinking": True}
_VLLM = _replace(
    _SERVER,
    media=frozenset({"image", "audio"}),
    thinking=ThinkingParams(
        efforts=_NO_MINIMAL,
        on={"chat_template_kwargs": _TEMPLATE},
        off={"chat_template_kwargs": {"enable_thinking": False}},
    ),
    replay="reasoning",
)

# https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md; a tool_choice that is an object is
# taken for "auto", says the README of langchain-llama-cpp.
_LLAMACPP = _replace(
    _SERVER,
    one_tool=False,
    media=frozenset({"image", "audio"}),
    audio_formats=frozenset({"wav", "mp3", "flac"}),
    thinking=ThinkingParams(
        on={"chat_template_kwargs": _TEMPLATE},
        off={"chat_template_kwargs": {"enable_thinking": False}},
    ),
    replay="reasoning_content",
)

# https://lmstudio.ai/docs/developer/openai-compat; no named tool
# (https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/670), images by value only (…/issues/1120).
_LMSTUDIO = _replace(_SERVER, one_tool=False, media=frozenset({"image"}), image_urls=False)

# https://docs.litellm.ai/docs/proxy/user_keys: OpenAI's form for whatever stands behind it.
_LITELLM = _replace(_SERVER, system_first=False, metadata="always", output="strict")


VENDORS: dict[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            name="compatible",
            base_url=None,
            key_variable="COMPATIBLE_API_KEY",
            needs_key=False,
            quirks=_SERVER,
        ),
        Vendor(
            name="groq",
            base_url="https://api.groq.com/openai/v1",
            key_variable="GROQ_API_KEY",
            quirks=_GROQ,
            rules=(ModelRule(r"qwen", _GROQ_QWEN),),
        ),
        Vendor(
            # https://docs.together.ai/docs/inference/openai-compatibility
            name="together",
            base_url="https://api.together.ai/v1",
            key_variable="TOGETHER_API_KEY",
            quirks=_TOGETHER,
        ),
        Vendor(
            name="deepseek",
            base_url="https://api.deepseek.com",
            key_variable="DEEPSEEK_API_KEY",
            quirks=_DEEPSEEK,
        ),
        Vendor(
            name="openrouter",
            base_url="https://openrouter.ai/api/v1",
            key_variable="OPENROUTER_API_KEY",
            quirks=_OPENROUTER,
        ),
        Vendor(
            # https://docs.fireworks.ai/tools-sdks/openai-compatibility
            name="fireworks",
            base_url="https://api.fireworks.ai/inference/v1",
            key_variable="FIREWORKS_API_KEY",
            quirks=_FIREWORKS,
            rules=(ModelRule(r"gpt-oss", _FIREWORKS_GPT_OSS),),
        ),
        Vendor(
            # https://docs.perplexity.ai/docs/sonar/openai-compatibility
            name="perplexity",
            base_url="https://api.perplexity.ai",
            key_variable="PERPLEXITY_API_KEY",
            quirks=_PERPLEXITY,
        ),
        Vendor(
            name="xai",
            base_url="https://api.x.ai/v1",
            key_variable="XAI_API_KEY",
            quirks=_XAI,
            rules=(ModelRule(r"^grok-4\.20(-\d{4})?-(non-)?reasoning$", _XAI_FIXED),),
        ),
        Vendor(
            name="cerebras",
            base_url="https://api.cerebras.ai/v1",
            key_variable="CEREBRAS_API_KEY",
            quirks=_CEREBRAS,
            rules=(ModelRule(r"^gpt-oss", _CEREBRAS_GPT_OSS),),
        ),
        Vendor(
            name="vllm",
            base_url="http://127.0.0.1:8000/v1",
            key_variable="VLLM_API_KEY",
            needs_key=False,
            quirks=_VLLM,
        ),
        Vendor(
            # The port was 8080 before: https://github.com/ggml-org/llama.cpp/pull/26508
            name="llamacpp",
            base_url="http://127.0.0.1:9931/v1",
            key_variable="LLAMA_API_KEY",
            needs_key=False,
            quirks=_LLAMACPP,
            model="default",  # one model is loaded, whatever it is called
        ),
        Vendor(
            name="lmstudio",
            base_url="http://127.0.0.1:1234/v1",
            key_variable="LMSTUDIO_API_KEY",
            needs_key=False,
            quirks=_LMSTUDIO,
        ),
        Vendor(
            name="litellm",
            base_url="http://127.0.0.1:4000",
            key_variable="LITELLM_API_KEY",
            needs_key=False,
            quirks=_LITELLM,
        ),
    )
}
