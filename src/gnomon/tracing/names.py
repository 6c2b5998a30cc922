"""The names of OpenTelemetry's conventions for generative AI, as spans carry them. They stand here only.

Taken from open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md and
gen-ai-agent-spans.md, as of September 2026, where they have lived since they left
semantic-conventions 1.41. All of them are in development and may change: the newest
change here is `cache_write` for `cache_creation`, of August 2026 (its #440).
"""

from __future__ import annotations

__all__ = [
    "AGENT_NAME",
    "CHAT",
    "CONVERSATION_ID",
    "ERROR_TYPE",
    "EXECUTE_TOOL",
    "FINISH_REASONS",
    "FUNCTION",
    "INPUT_MESSAGES",
    "INVOKE_AGENT",
    "OPERATION",
    "OUTPUT_MESSAGES",
    "OWN",
    "PROVIDER",
    "PROVIDERS",
    "REQUEST_MODEL",
    "REQUEST_STREAM",
    "RESPONSE_ID",
    "RESPONSE_MODEL",
    "TOOL_ARGUMENTS",
    "TOOL_CALL_ID",
    "TOOL_NAME",
    "TOOL_RESULT",
    "TOOL_TYPE",
    "USAGE_CACHE_READ",
    "USAGE_CACHE_WRITE",
    "USAGE_INPUT",
    "USAGE_OUTPUT",
    "USAGE_REASONING",
]

ERROR_TYPE = "error.type"

OPERATION = "gen_ai.operation.name"
CHAT = "chat"
INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"

PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"

REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"

USAGE_INPUT = "gen_ai.usage.input_tokens"
"""With those that were read from a cache or written to one, which ours leaves out."""
USAGE_OUTPUT = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens"

TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
FUNCTION = "function"

# What was said: only when it is asked for.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Those of ours that the conventions call otherwise."""

OWN = "gnomon."
"""What an attribute begins with for which the conventions have no name."""
