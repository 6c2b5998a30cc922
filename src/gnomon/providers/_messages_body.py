"""A request in the words of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.errors import BadRequest, InvalidInput
from gnomon.providers._body import merged
from gnomon.providers._messages_history import History
from gnomon.providers._messages_models import Family, family_of
from gnomon.providers._messages_parts import Block, Remarks, is_blank, tool_name
from gnomon.providers._schema import ANTHROPIC_STRICT, PLAIN, any_root, cached_compile
from gnomon.types.events import StreamWarning
from gnomon.types.messages import ToolDef
from gnomon.types.requests import OneTool, Reasoning, Request

__all__ = ["LATEST_VERSION", "Cache", "Ways", "body_of", "count_body_of"]

LATEST_VERSION = "2026-10-21"
"""From this version of the API on, no model takes temperature, top_p or top_k."""

Cache: TypeAlias = bool | Literal["1h"]


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has set once, for every request."""

    provider: str = "anthropic"
    version: str = LATEST_VERSION
    cache: Cache = True
    strict: bool = True
    eager: bool = False
    show_thinking: bool = True
    extra: Mapping[str, object] = {}


def body_of(request: Request, model: str, ways: Ways) -> tuple[bytes, tuple[StreamWarning, ...]]:
    """The body, and what could not be sent as it was asked."""
    remarks = Remarks()
    family = family_of(model)
    body = _conversation(request, model, family, ways, remarks)
    body["stream"] = True
    _set_thinking(body, request, family, ways, remarks)
    _set_tool_choice(body, request, model, family, remarks)
    _set_format(body, request, remarks)
    _set_sampling(body, request, model, family, ways, remarks)
    _set_the_rest(body, request, remarks)
    if ways.cache:
        _mark(body, {"type": "ephemeral", "ttl": "1h"} if ways.cache == "1h" else {"type": "ephemeral"})
    return _encoded(merged(body, ways.extra)), remarks.warnings()


def count_body_of(request: Request, model: str, ways: Ways) -> bytes:
    """What is sent to have tokens counted: the conversation and the tools."""
    return _encoded(_conversation(request, model, family_of(model), ways, Remarks()))


def _conversation(request: Request, model: str, family: Family, ways: Ways, remarks: Remarks) -> Block:
    history = History(ways.provider, model, family, remarks)
    if request.system is not None and not is_blank(request.system):
        history.system.append(request.system)
    history.take(request.messages)
    body: Block = {"model": model}
    if tools := _tools(request.tools, ways, remarks):
        body["tools"] = tools
    if history.system:
        body["system"] = [{"type": "text", "text": text} for text in history.system]
    body["messages"] = history.turns
    return body


def _encoded(body: Block) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"a text cannot be sent: it holds half a character ({error.reason})", vendor="anthropic"
        ) from None


# --- tools ----------------------------------------------------------------------------

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs: of one request, all together.
_MOST_STRICT = 20
_MOST_OPTIONAL = 24
_MOST_UNIONS = 16


class _Allowance:
    """How much a request may still be strict about."""

    def __init__(self) -> None:
        self._tools, self._optional, self._unions = _MOST_STRICT, _MOST_OPTIONAL, _MOST_UNIONS

    def takes(self, optional: int, unions: int) -> bool:
        if not self._tools or optional > self._optional or unions > self._unions:
            return False
        self._tools -= 1
        self._optional -= optional
        self._unions -= unions
        return True


def _tools(tools: Sequence[ToolDef], ways: Ways, remarks: Remarks) -> list[Block]:
    """Sorted, so that the same tools are the same bytes: they stand before all else in the prompt."""
    allowance = _Allowance()
    ours = sorted(tools, key=lambda tool: tool.name)
    return [_tool(tool, ways, allowance, remarks) for tool in ours]


def _tool(tool: ToolDef, ways: Ways, allowance: _Allowance, remarks: Remarks) -> Block:
    if tool_name(tool.name) != tool.name:
        raise BadRequest(
            f"anthropic takes no tool of the name {tool.name!r}",
            vendor="anthropic",
            hint="use up to 128 letters, digits, _ and -",
        )
    schema, strict = _input_schema(tool, ways.strict, allowance, remarks)
    block: Block = {"name": tool.name, "description": tool.description, "input_schema": schema}
    if not tool.description:
        del block["description"]
    if strict:
        block["strict"] = True
    if ways.eager:
        block["eager_input_streaming"] = True
    return block


def _input_schema(
    tool: ToolDef, strict: bool, allowance: _Allowance, remarks: Remarks
) -> tuple[Mapping[str, object], bool]:
    """Strict where that changes nothing of what the schema means, as it is where it would."""
    given = tool.schema or {"type": "object", "properties": {}, "additionalProperties": False}
    try:
        if strict:
            exact = cached_compile(given, ANTHROPIC_STRICT)
            if exact.exact and allowance.takes(exact.size.optional or 0, exact.size.unions or 0):
                return exact.schema, True
        plain = cached_compile(given, PLAIN)
    except InvalidInput as error:
        raise BadRequest(
            f"the schema of tool {tool.name!r} cannot be sent: {error}", vendor="anthropic"
        ) from error
    for sentence in plain.lost:
        remarks.add("schema", f"the schema of tool {tool.name!r}, {sentence}")
    return plain.schema, False


def _set_tool_choice(body: Block, request: Request, model: str, family: Family, remarks: Remarks) -> None:
    choice = request.tool_choice
    if choice is None:
        return
    if "tools" not in body:
        if choice not in ("auto", "none"):
            remarks.add("tool_choice", "there are no tools: the choice of one is not sent")
        return
    if choice in ("auto", "none"):
        body["tool_choice"] = {"type": choice}
        return
    if not family.forced_tools:
        remarks.add("tool_choice", f"{model} cannot be made to call a tool: whether it does is left to it")
        body["tool_choice"] = {"type": "auto"}
        return
    if isinstance(choice, OneTool):
        body["tool_choice"] = {"type": "tool", "name": choice.name}
    else:
        body["tool_choice"] = {"type": "any"}
    if _is_thinking(body):
        del body["thinking"]
        remarks.add(
            "thinking", "anthropic does not think before a call that it is made to do: thinking is left out"
        )


def _set_format(body: Block, request: Request, remarks: Remarks) -> None:
    if request.output_schema is None:
        return
    try:
        compiled = cached_compile(request.output_schema, any_root(ANTHROPIC_STRICT))
    except InvalidInput as error:
        raise BadRequest(f"the output schema cannot be sent: {error}", vendor="anthropic") from error
    for sentence in compiled.lost:
        remarks.add("schema", f"the output schema, {sentence}")
    _configure(body, "format", {"type": "json_schema", "schema": compiled.schema})


def _configure(body: Block, name: str, value: object) -> None:
    cast(Block, body.setdefault("output_config", {}))[name] = value


# --- thinking, and how much to say ------------------------------------------------------

_LEAST_BUDGET = 1024
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 24_000}
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}


def _set_thinking(body: Block, request: Request, family: Family, ways: Ways, remarks: Remarks) -> None:
    body["max_tokens"] = family.usual_tokens if request.max_tokens is None else request.max_tokens
    asked = request.thinking
    if asked is None or (asked.effort is None and asked.budget_tokens is None):
        return
    if asked.effort == "none" or (asked.effort is None and asked.budget_tokens == 0):
        _think_not(body, family, remarks)
    elif family.thinks == "budget":
        _think_within(body, asked, request, family, remarks)
    else:
        _think_freely(body, asked, ways, remarks)
    if family.effort and asked.effort in _EFFORTS:
        if asked.effort == "minimal":
            remarks.add("effort", "anthropic knows no effort below low: it is low")
        _configure(body, "effort", _EFFORTS[asked.effort])


def _think_not(body: Block, family: Family, remarks: Remarks) -> None:
    if family.off is not None:
        body["thinking"] = {"type": family.off}
        return
    remarks.add("thinking", f"{body['model']} always thinks: it is asked for the least effort instead")
    _configure(body, "effort", "low")


def _think_freely(body: Block, asked: Reasoning, ways: Ways, remarks: Remarks) -> None:
    body["thinking"] = {"type": "adaptive"}
    if ways.show_thinking:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    if asked.budget_tokens is not None:
        remarks.add("thinking", f"{body['model']} keeps to no thinking budget: an effort is what steers it")


def _think_within(body: Block, asked: Reasoning, request: Request, family: Family, remarks: Remarks) -> None:
    """A budget, which the whole answer must have room for."""
    if _begins_without_thought(cast("list[Block]", body["messages"])):
        remarks.add("thinking", "the calls before these results were made without thinking: it is left out")
        return
    budget = asked.budget_tokens or _BUDGETS[asked.effort or "medium"]
    wanted = max(budget, _LEAST_BUDGET)
    if request.max_tokens is None:
        body["max_tokens"] = min(wanted + family.usual_tokens, family.most_tokens)
    most = cast(int, body["max_tokens"]) - 1
    if most < _LEAST_BUDGET:
        remarks.add(
            "thinking", f"max_tokens leaves no room to think (at least {_LEAST_BUDGET}): it is left out"
        )
        return
    used = min(wanted, most)
    if asked.budget_tokens is not None and used != asked.budget_tokens:
        remarks.add("thinking", f"the thinking budget is {used} tokens in place of {asked.budget_tokens}")
    body["thinking"] = {"type": "enabled", "budget_tokens": used}


def _begins_without_thought(turns: list[Block]) -> bool:
    """Whether results follow calls that were made without thinking: then there must be none now."""
    if len(turns) < 2 or not _begins_with(turns[-1], "tool_result"):
        return False
    return not _begins_with(turns[-2], "thinking", "redacted_thinking")


def _begins_with(turn: Block, *kinds: str) -> bool:
    content = turn["content"]
    return isinstance(content, list) and cast("list[Block]", content)[0]["type"] in kinds


def _is_thinking(body: Block) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and cast(Block, thinking)["type"] in ("adaptive", "enabled")


# --- the rest ---------------------------------------------------------------------------


def _set_sampling(
    body: Block, request: Request, model: str, family: Family, ways: Ways, remarks: Remarks
) -> None:
    asked = {"temperature": request.temperature, "top_p": request.top_p, "top_k": request.top_k}
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return
    named = ", ".join(given)
    if not family.sampling:
        remarks.add("sampling", f"{model} takes no {named}: not sent")
    elif ways.version >= LATEST_VERSION and not family.always_sampling:
        remarks.add(
            "sampling",
            f"version {ways.version} of anthropic's API takes no {named}: not sent (2023-06-01 does)",
        )
    elif _is_thinking(body):
        remarks.add("sampling", f"anthropic takes no {named} together with thinking: not sent")
    else:
        if "temperature" in given and given.pop("top_p", None) is not None:
            remarks.add("sampling", "anthropic takes temperature or top_p, not both: top_p is not sent")
        body.update(given)


def _set_the_rest(body: Block, request: Request, remarks: Remarks) -> None:
    stop = [text for text in request.stop if not is_blank(text)]
    if stop:
        body["stop_sequences"] = stop
    if len(stop) < len(request.stop):
        remarks.add("stop", "anthropic takes no blank stop sequence: not sent")
    if "user_id" in request.metadata:
        body["metadata"] = {"user_id": request.metadata["user_id"]}
    if others := sorted(request.metadata.keys() - {"user_id"}):
        remarks.add("metadata", f"anthropic takes user_id as metadata: {', '.join(others)} not sent")


# --- the prompt cache -------------------------------------------------------------------


def _mark(body: Block, marker: Block) -> None:
    """At the end of what stays the same: the tools, the instructions, this turn and the one before.

    The mark on the turn before finds what the last request has written, however much has come since.
    """
    if tools := body.get("tools"):
        _mark_last(cast("list[Block]", tools), marker)
    if system := body.get("system"):
        _mark_last(cast("list[Block]", system), marker)
    left = 2
    for turn in reversed(cast("list[Block]", body["messages"])):
        if turn["role"] == "user":
            if isinstance(turn["content"], str):
                turn["content"] = [{"type": "text", "text": turn["content"]}]
            _mark_last(cast("list[Block]", turn["content"]), marker)
            left -= 1
            if not left:
                return


def _mark_last(blocks: list[Block], marker: Block) -> None:
    blocks[-1] = {**blocks[-1], "cache_control": marker}
