"""How the demo model decides: which tools fit a prompt, how to call them, and when to answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from gnomon.errors import BadRequest
from gnomon.providers._demo import talk as talk
from gnomon.providers._demo.arguments import Filler, arguments_for, listed_values
from gnomon.providers._demo.choice import Choice, chosen, harmless_first
from gnomon.providers._demo.prompt import Asked
from gnomon.providers._play import Call, Reply
from gnomon.types.messages import Message, Text, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import OneTool, Request

__all__ = ["MOST_CALLS", "answer"]

MOST_CALLS = 4
"""How many tools are called in one message."""

_MOST_ROUNDS = 4
_SPARE = 500

_ANY_TOOL = r"\b(?:use|call|run|try|invoke)\b.{0,40}\btools?\b"
_ALL_TOOLS = r"\b(?:all|every|each|both)\b.{0,20}\btools?\b"
_NO_TOOL = r"\b(?:without|no|not use|don['’]t use|not call|don['’]t call)\b.{0,12}\btools?\b"


class _Turn(NamedTuple):
    """The request as the demo sees it: the last user message, and what came of it so far."""

    asked: Asked
    earlier: Sequence[Message]
    prompt: Message | None
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    rounds: int


def answer(request: Request) -> Reply:
    """What the demo says to a request: calls that are still to be made, else an answer."""
    turn = _read(request.messages)
    plan = _plan(request, turn)
    if plan:
        reply = _calling(request, turn, plan)
    elif request.output_schema is not None:
        reply = _fitting(request.output_schema, turn)
    else:
        reply = _answering(request, turn)
    quiet = request.thinking is not None and request.thinking.effort == "none"
    return msgspec.structs.replace(reply, thinking="") if quiet else reply


def _read(messages: Sequence[Message]) -> _Turn:
    at = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    prompt = messages[at] if at >= 0 else None
    texts = [part.text for part in prompt.content if isinstance(part, Text)] if prompt else []
    after = messages[at + 1 :]
    return _Turn(
        # An argument of a command line may hold bytes that are no text.
        asked=Asked("\n\n".join(texts).encode("utf-8", "replace").decode()),
        earlier=messages[: max(at, 0)],
        prompt=prompt,
        calls=tuple(call for message in after for call in message.tool_calls),
        results=tuple(result for message in after for result in message.tool_results),
        rounds=sum(message.role == "assistant" for message in after),
    )


# --- which calls ---------------------------------------------------------------


def _plan(request: Request, turn: _Turn) -> list[tuple[Choice, Call]]:
    """The calls to make now. None is made twice in a turn, so every turn ends."""
    choice, tools = request.tool_choice, request.tools
    if choice == "none" or not tools:
        return []
    if isinstance(choice, OneTool):
        return _fresh([Choice(_named(tools, choice.name), "I was told to use it")], turn)
    found = list(chosen(tools, turn.asked))
    if choice == "required":
        rest = [Choice(tool, "a tool is required") for tool in harmless_first(tools)]
        return _fresh(found, turn) or _fresh(rest, turn)[:1]
    if turn.rounds >= _MOST_ROUNDS or _wants(_NO_TOOL, turn):
        return []
    return _fresh(found or _any_tools(tools, turn), turn)


def _any_tools(tools: Sequence[ToolDef], turn: _Turn) -> list[Choice]:
    """When a tool is asked for and none fits better than another: the first, or all of them."""
    if _wants(_ALL_TOOLS, turn):
        return [Choice(tool, "all tools are asked for") for tool in tools]
    if _wants(_ANY_TOOL, turn):
        return [Choice(harmless_first(tools)[0], "a tool is asked for")]
    return []


def _wants(pattern: str, turn: _Turn) -> bool:
    return re.search(pattern, turn.asked.text, re.IGNORECASE | re.DOTALL) is not None


def _named(tools: Iterable[ToolDef], name: str) -> ToolDef:
    for tool in tools:
        if tool.name == name:
            return tool
    known = ", ".join(tool.name for tool in tools)
    raise BadRequest(
        f"tool_choice names {name!r}, which is not offered; the tools are {known}", vendor="demo"
    )


def _fresh(choices: Iterable[Choice], turn: _Turn) -> list[tuple[Choice, Call]]:
    made = {(call.name, call.arguments) for call in turn.calls}
    planned = ((choice, call) for choice in choices for call in _calls(choice.tool, turn.asked))
    fresh = (step for step in planned if (step[1].name, step[1].arguments) not in made)
    return list(islice(fresh, MOST_CALLS))


def _calls(tool: ToolDef, asked: Asked) -> Iterator[Call]:
    """One call, or one for each value that the prompt lists."""
    for value in listed_values(tool, asked) or [None]:
        arguments = arguments_for(tool, asked, value)
        yield Call(tool.name, msgspec.json.encode(arguments).decode())


# --- what is said ----------------------------------------------------------------


def _calling(request: Request, turn: _Turn, plan: list[tuple[Choice, Call]]) -> Reply:
    reasons = [(choice.tool.name, choice.because) for choice, _ in plan]
    calls = tuple(call for _, call in plan)
    return Reply(
        thinking=talk.thoughts_before_calls(turn.asked, request.tools, reasons),
        text=talk.text_before_calls(calls),
        calls=calls,
    )


def _fitting(schema: dict[str, object], turn: _Turn) -> Reply:
    results = "\n".join(result.text for result in turn.results)
    spare = (results or turn.asked.text).strip()[:_SPARE]
    value = Filler(schema, turn.asked, spare=spare or None).whole()
    return Reply(
        thinking="The answer must fit a schema. I fill it in from the prompt and the results.",
        text=msgspec.json.encode(value).decode(),
    )


def _answering(request: Request, turn: _Turn) -> Reply:
    if turn.results:
        text = talk.answer_from_results(turn.prompt, turn.asked, turn.calls, turn.results)
    else:
        text = talk.plain_answer(turn.prompt, turn.asked, request.tools, turn.earlier)
    return Reply(thinking=talk.thoughts_before_answer(request.tools, turn.results), text=text)
