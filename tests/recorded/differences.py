"""Where we and the vendors' libraries differ, each with its reason.

What stands here and is no longer so fails. Fields are named as `told.differing` names them.
"""

from __future__ import annotations

__all__ = ["FOLD", "REQUESTS", "RETURNED", "TYPES"]

FOLD: dict[str, dict[str, str]] = {}
"""Of an answer: what we make of it, and what the official library does."""

_AWAITED = "the vendor refuses it without an answer that its caller alone can give: left out, with a warning"

RETURNED: dict[str, str] = {
    "langchain-openai/test_apply_patch#1": _AWAITED,
    "langchain-openai/test_codex_custom_tool#0": _AWAITED,
    "langchain-openai/test_custom_tool#2": _AWAITED,
}
"""Answers that do not return whole with the next request, beyond what was lost in reading them."""

TYPES: dict[str, str] = {
    "langchain-anthropic/test_code_execution_old#1": "the types have no `abort_reason`; the service takes it",
}
"""Next requests that hold what the library's types do not know."""

REQUESTS: dict[str, str] = {
    "langchain-anthropic/test_code_execution_old#2": "`abort_reason` of a result",
    "langchain-openai/test_client_executed_tool_search#1": "`parameters` of a found tool without `strict`",
    "langchain-openai/test_client_executed_tool_search#2": "`parameters` of a found tool without `strict`",
    "langchain-openai/test_code_interpreter#2": "a call of the code interpreter without `outputs`",
    "langchain-openai/test_codex_custom_tool#1": "`status` of a custom tool's call",
    "langchain-openai/test_custom_tool#1": "`status` of a custom tool's call",
    "langchain-openai/test_image_generation_multi_turn#1": "a picture by its id alone",
    "langchain-openai/test_system_additional_tools#0": "`parameters` of an added tool without `strict`",
}
"""Recorded requests that the service took and the types of the library do not."""
