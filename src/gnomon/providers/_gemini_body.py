"""A request in the words of Google's Gemini API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import msgspec

from gnomon.errors import BadRequest, InvalidInput
from gnomon.providers._body import effort_for, merged
from gnomon.providers._gemini_history import History
from gnomon.providers._gemini_models import Family, family_of
from gnomon.providers._gemini_parts import Block, Remarks, tool_name
from gnomon.providers._schema import GEMINI, PLAIN, Compiled, Dialect, cached_compile
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Meta, ToolDef
from gnomon.types.requests import OneTool, Reasoning, Request

__all__ = ["Ways", "body_of", "count_body_of"]


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has set once, for every request."""

    provider: str = "gemini"
    vertex: bool = False
    """Whether it is Google Cloud that is asked: it takes labels, and counts tokens otherwise."""
    validated: bool = False
    show_thinking: bool = True
    extra: Mapping[str, object] = {}


def body_of(request: Request, model: str, ways: Ways) -> tuple[bytes, tuple[StreamWarning, ...]]:
    """The body, and what could not be sent as it was asked."""
    remarks = Remarks()
    family = family_of(model)
    history = _history(request, model, family, ways, remarks)
    body: Block = {"contents": history.contents}
    if tools := _tools(request.tools, remarks):
        body["tools"] = tools
    _set_tool_choice(body, request, ways, remarks)
    config = _config(request, model, family, ways, remarks)
    _set_format(config, history.system, request, model, family, remarks)
    if config:
        body["generationConfig"] = config
    if history.system:
        body["systemInstruction"] = _instruction(history.system)
    _set_labels(body, request, ways, remarks)
    return _encoded(merged(body, ways.extra)), remarks.warnings()


def count_body_of(request: Request, model: str, ways: Ways) -> bytes:
    """What is sent to have tokens counted: the conversation and the tools."""
    remarks = Remarks()
    history = _history(request, model, family_of(model), ways, remarks)
    body: Block = {"contents": history.contents}
    if tools := _tools(request.tools, remarks):
        body["tools"] = tools
    if history.system:
        body["systemInstruction"] = _instruction(history.system)
    if ways.vertex:
        return _encoded(body)
    named = model if "/" in model else f"models/{model}"
    return _encoded({"generateContentRequest": {"model": named, **body}})


def _history(request: Request, model: str, family: Family, ways: Ways, remarks: Remarks) -> History:
    history = History(ways.provider, model, family, remarks)
    if request.system:
        history.system.append(request.system)
    history.take(request.messages)
    return history


def _instruction(texts: list[str]) -> Block:
    return {"parts": [{"text": text} for text in texts]}


def _encoded(body: Block) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"a text cannot be sent: it holds half a character ({error.reason})", vendor="gemini"
        ) from None


# --- tools ----------------------------------------------------------------------------


def _tools(tools: tuple[ToolDef, ...], remarks: Remarks) -> list[Block]:
    return [{"functionDeclarations": [_declaration(tool, remarks) for tool in tools]}] if tools else []


def _declaration(tool: ToolDef, remarks: Remarks) -> Block:
    if tool_name(tool.name) != tool.name:
        raise BadRequest(
            f"gemini takes no tool of the name {tool.name!r}",
            vendor="gemini",
            hint="use up to 128 letters, digits, _, ., : and -, and begin with a letter or _",
        )
    made: Block = {"name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if not _takes_nothing(tool.schema):
        compiled = _compiled(tool.schema, PLAIN, f"the schema of tool {tool.name!r}", remarks)
        made["parametersJsonSchema"] = compiled.schema
    return made


def _takes_nothing(schema: Meta) -> bool:
    """A function without parameters has no schema."""
    return not schema.get("properties") and schema.keys() <= _SAYING_NOTHING and not schema.get(_MORE)


_MORE = "additionalProperties"
_SAYING_NOTHING = frozenset(
    {"type", "properties", "required", _MORE, "title", "description", "$schema"},
)


def _compiled(schema: Meta, dialect: Dialect, title: str, remarks: Remarks) -> Compiled:
    try:
        compiled = cached_compile(schema, dialect)
    except InvalidInput as error:
        raise BadRequest(f"{title} cannot be sent: {error}", vendor="gemini") from error
    for sentence in compiled.lost:
        remarks.add("schema", f"{title}, {sentence}")
    return compiled


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def _set_tool_choice(body: Block, request: Request, ways: Ways, remarks: Remarks) -> None:
    choice = request.tool_choice
    if "tools" not in body:
        if choice not in (None, "auto", "none"):
            remarks.add("tool_choice", "there are no tools: the choice of one is not sent")
        return
    calling: Block = {}
    if isinstance(choice, OneTool):
        calling = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    elif ways.validated and choice in (None, "auto"):
        calling = {"mode": "VALIDATED"}
    elif choice is not None:
        calling = {"mode": _MODES[choice]}
    if calling:
        body["toolConfig"] = {"functionCallingConfig": calling}


# --- what is generated, and how ---------------------------------------------------------

_MOST_STOPS = 5  # https://ai.google.dev/api/generate-content#generationconfig


def _config(request: Request, model: str, family: Family, ways: Ways, remarks: Remarks) -> Block:
    config: Block = {}
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    _set_sampling(config, request, model, family, remarks)
    stop = [text for text in request.stop if text]
    if len(stop) > _MOST_STOPS:
        remarks.add("stop", f"gemini takes {_MOST_STOPS} stop sequences: the others are not sent")
    if stop:
        config["stopSequences"] = stop[:_MOST_STOPS]
    if thinking := _thinking(request.thinking, model, family, remarks):
        if ways.show_thinking:
            thinking["includeThoughts"] = True
        config["thinkingConfig"] = thinking
    return config


def _set_sampling(config: Block, request: Request, model: str, family: Family, remarks: Remarks) -> None:
    asked = {"temperature": request.temperature, "topP": request.top_p, "topK": request.top_k}
    given = {name: value for name, value in asked.items() if value is not None}
    if family.sampling:
        config.update(given)
    elif given:
        remarks.add("sampling", f"{model} takes no {', '.join(given)}: not sent")


def _set_format(
    config: Block, system: list[str], request: Request, model: str, family: Family, remarks: Remarks
) -> None:
    if request.output_schema is None:
        return
    compiled = _compiled(request.output_schema, GEMINI, "the output schema", remarks)
    if request.tools and not family.schema_with_tools:
        remarks.add(
            "schema", f"{model} takes no output schema beside tools: it is told of it in the instructions"
        )
        system.append(f"Answer with JSON that fits this schema: {_encoded(compiled.schema).decode()}")
        return
    config["responseMimeType"] = "application/json"
    config["responseJsonSchema"] = compiled.schema


# --- thinking ---------------------------------------------------------------------------

# What Google's own compatible surface makes of an effort: https://ai.google.dev/gemini-api/docs/openai
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
_LEVELS = ("minimal", "low", "medium", "high")


def _thinking(asked: Reasoning | None, model: str, family: Family, remarks: Remarks) -> Block:
    if asked is None or (asked.effort is None and asked.budget_tokens is None):
        return {}
    if family.levels:
        return {"thinkingLevel": _level(asked, model, family, remarks).upper()}
    if family.budget is not None:
        return {"thinkingBudget": _budget(asked, model, family, family.budget, remarks)}
    if asked.effort != "none":
        remarks.add("thinking", f"how much {model} thinks cannot be set: not sent")
    return {}


def _level(asked: Reasoning, model: str, family: Family, remarks: Remarks) -> str:
    """The level that is asked for, or the next one above that the model has."""
    effort = asked.effort or effort_for(asked.budget_tokens or 0)
    if asked.budget_tokens is not None:
        remarks.add("thinking", f"{model} keeps to no thinking budget: a level is what steers it")
    wanted = "minimal" if effort == "none" else effort
    higher = _LEVELS[_LEVELS.index(wanted) :]
    level = next((level for level in higher if level in family.levels), family.levels[-1])
    if effort == "none":
        remarks.add("thinking", f"{model} always thinks: its level is {level}")
    elif level != effort:
        remarks.add("effort", f"{model} knows no level {effort}: it is {level}")
    return level


def _budget(asked: Reasoning, model: str, family: Family, bounds: tuple[int, int], remarks: Remarks) -> int:
    least, most = bounds
    if asked.budget_tokens is None and asked.effort is not None and asked.effort != "none":
        return min(max(_BUDGETS[asked.effort], least), most)
    wanted = 0 if asked.effort == "none" else asked.budget_tokens or 0
    if wanted == 0 and family.off:
        return 0
    used = min(max(wanted, least), most)
    if used != wanted:
        remarks.add("thinking", f"the thinking budget of {model} is {used} tokens in place of {wanted}")
    return used


# --- labels -----------------------------------------------------------------------------

# https://docs.cloud.google.com/resource-manager/docs/labels-overview#requirements
_LABEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


def _set_labels(body: Block, request: Request, ways: Ways, remarks: Remarks) -> None:
    """Google Cloud takes what has the form of a label, to be found again on the bill."""
    fitting = {
        name: value
        for name, value in request.metadata.items()
        if ways.vertex and _LABEL_NAME.fullmatch(name) and _LABEL_VALUE.fullmatch(value)
    }
    if fitting:
        body["labels"] = cast(object, fitting)
    if others := sorted(request.metadata.keys() - fitting.keys()):
        remarks.add("metadata", f"gemini takes no metadata of this kind: {', '.join(others)} not sent")
