"""What the demo model says: plainly that it is a demo, and what it was shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from gnomon.providers._demo.prompt import Asked
from gnomon.providers._play import Call
from gnomon.types.messages import Audio, File, Image, Message, Part, ToolCall, ToolDef, ToolResult, ToolStatus

__all__ = [
    "answer_from_results",
    "plain_answer",
    "text_before_calls",
    "thoughts_before_answer",
    "thoughts_before_calls",
]

_INTRODUCTION = "This is Gnomon's demo model, a small program and not a language model."
_REAL_MODEL = "For a real answer, name a model: gnomon -m provider:model."

_LONGEST_RESULT = 2_000
_LONGEST_QUOTE = 200
_LONG_LINES = 10
_MOST_NAMES = 8
_LONG_TEXT = 600

_OUTCOMES: dict[ToolStatus, str] = {
    "ok": "says",
    "error": "failed",
    "denied": "was not allowed",
    "cancelled": "was cancelled",
    "timeout": "took too long",
    "truncated": "was not run",
    "interrupted": "was interrupted",
    "unknown": "may or may not have run",
}


# --- thinking -----------------------------------------------------------------


def thoughts_before_calls(asked: Asked, tools: Sequence[ToolDef], reasons: Iterable[tuple[str, str]]) -> str:
    """What is asked, and why each tool fits."""
    offered = f"I have {_count(len(tools), 'tool')}: {_named(tools)}"
    because = " ".join(f"I will call {name}: {reason}." for name, reason in dict.fromkeys(reasons))
    return f"I am asked: {_quote(asked.text)}. {offered}. {because}"


def thoughts_before_answer(tools: Sequence[ToolDef], results: Sequence[ToolResult]) -> str:
    if results:
        return f"{_count(len(results), 'tool result')} came back. I pass on what was said."
    if not tools:
        return "I have no tools, and I know nothing by myself. I say so."
    return f"None of my {_count(len(tools), 'tool')} fits the prompt. I answer without."


# --- text -----------------------------------------------------------------------


def text_before_calls(calls: Sequence[Call]) -> str:
    names = list(dict.fromkeys(call.name for call in calls))
    return f"I will ask {_joined(names)}."


def answer_from_results(
    prompt: Message | None, asked: Asked, calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> str:
    """Every result in full, or its head and tail when it is very long."""
    called = {call.id: call for call in calls}
    told = [_told(called.get(result.call_id), result) for result in results]
    return "\n".join([_INTRODUCTION, *told, *_shown(prompt, asked)])


def plain_answer(
    prompt: Message | None, asked: Asked, tools: Sequence[ToolDef], earlier: Sequence[Message]
) -> str:
    """What was asked, given back, and how to get more than that."""
    question = (
        f"I was asked: {_quote(asked.text)}." if asked.text.strip() else "I was asked nothing in words."
    )
    without = f"None of my tools fits that ({_named(tools)})." if tools else "I have no tools to use."
    seen = [message for message in earlier if message.role in ("user", "assistant")]
    before = [f"I have seen {_count(len(seen), 'earlier message')} of this conversation."] if seen else []
    return " ".join([_INTRODUCTION, question, *_shown(prompt, asked), *before, without, _REAL_MODEL])


def _told(call: ToolCall | None, result: ToolResult) -> str:
    name = result.name or (call.name if call else "the tool")
    said = _trimmed(result.text)
    parts = [said] if said.strip() else []
    parts += [f"({attached})"] if (attached := _attached(result.content)) else []
    gap = "\n" if "\n" in said else " "
    return f"{name}{_arguments(call)} {_OUTCOMES[result.status]}:{gap}{' '.join(parts) or 'nothing'}"


def _arguments(call: ToolCall | None) -> str:
    try:
        given = call.parsed() if call is not None else None
    except msgspec.DecodeError:  # it was cut off
        return ""
    if not isinstance(given, dict) or not given:
        return ""
    named = cast("dict[str, object]", given).items()
    told = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in named)
    return f"({_short(told, 80)})"


def _shown(prompt: Message | None, asked: Asked) -> list[str]:
    """What came with the question: a long text, images, sound, files."""
    said: list[str] = []
    text = asked.whole
    lines = len(text.splitlines())
    if lines > _LONG_LINES or len(text) > _LONG_TEXT:
        said.append(f"I was shown {_count(lines, 'line')} of text, {_count(len(text.split()), 'word')}.")
    if prompt is not None and (attached := _attached(prompt.content)):
        said.append(f"I was shown {attached}.")
    return said


def _attached(parts: Iterable[Part]) -> str:
    groups: dict[str, list[str]] = {}
    for part in parts:
        for name, kind in (("image", Image), ("audio clip", Audio), ("file", File)):
            if isinstance(part, kind):
                groups.setdefault(name, []).append(_described(part))
    return _joined([f"{_count(len(told), name)} ({'; '.join(told)})" for name, told in groups.items()])


def _described(part: Image | Audio | File) -> str:
    name = part.name if isinstance(part, File) else None
    where = f"at {_short(part.url, 80)}" if part.url is not None else None
    size = _count(len(part.data), "byte") if part.data is not None else None
    return ", ".join(fact for fact in (name, part.media_type, where, size) if fact)


def _trimmed(text: str) -> str:
    if len(text) <= _LONGEST_RESULT:
        return text
    head, tail = text[: _LONGEST_RESULT * 3 // 4], text[-_LONGEST_RESULT // 4 :]
    return f"{head}\n[{len(text) - len(head) - len(tail):,} characters left out]\n{tail}"


def _named(tools: Sequence[ToolDef]) -> str:
    names = [tool.name for tool in tools]
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def _quote(text: str) -> str:
    return f"“{_short(' '.join(text.split()), _LONGEST_QUOTE)}”"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _joined(items: Sequence[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)
