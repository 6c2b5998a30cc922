"""Whether what the loop writes is what was recorded, and how to say it when it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gnomon.engine.turn import REPAIR, Ended
from gnomon.replay.report import DifferenceKind
from gnomon.types.events import (
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAsked,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, Part, Text, ToolResult

__all__ = ["Mismatch", "mismatch", "shown", "spoken_of"]


class Mismatch(NamedTuple):
    """What is otherwise: a sentence, and both sides of it."""

    kind: DifferenceKind
    what: str
    expected: str = ""
    found: str = ""


def mismatch(found: LedgerEntry, expected: LedgerEntry, call: str) -> Mismatch | None:
    """`None` where both say the same, but for ids, times and costs. `call` is the tool that is called."""
    if type(found) is not type(expected):
        return _other_step(found, expected, call)
    match found, expected:
        case TurnStarted(), TurnStarted() if expected.inputs and found.inputs != expected.inputs:
            return Mismatch(
                "messages", "the turn answers other messages", *_both(expected.inputs, found.inputs)
            )
        case ModelStarted(), ModelStarted() if _counted(found.inputs) != _counted(expected.inputs):
            return Mismatch(
                "messages", "the model is told other messages", *_both(expected.inputs, found.inputs)
            )
        case MessageReceived(), MessageReceived() if found.message != expected.message:
            what = "the model is told otherwise that its output does not fit"
            return Mismatch("messages", what, expected.message.text, found.message.text)
        case MessageCompleted(), MessageCompleted():
            return _answers(found, expected)
        case ToolIntent(), ToolIntent() if (found.call_id, found.name) != (expected.call_id, expected.name):
            what = "another call is run next"
            return Mismatch(
                "call", what, f"{expected.name} ({expected.call_id})", f"{found.name} ({found.call_id})"
            )
        case SubagentStarted(), SubagentStarted() if (found.call_id, found.name) != (
            expected.call_id,
            expected.name,
        ):
            return Mismatch("call", "another sub-agent is started", spoken_of(expected), spoken_of(found))
        case ToolFinished(), ToolFinished():
            return _results(found, expected, call)
        case QuestionAsked(), QuestionAsked():
            return _questions(found, expected)
        case _:
            return _endings(found, expected)


def _both(expected: Sequence[str], found: Sequence[str]) -> tuple[str, str]:
    return ", ".join(expected), ", ".join(found)


def _counted(inputs: Sequence[str]) -> Counter[str]:
    """What the engine itself says has a new id each time."""
    return Counter(REPAIR if message_id.startswith(REPAIR) else message_id for message_id in inputs)


def _answers(found: MessageCompleted, expected: MessageCompleted) -> Mismatch | None:
    was, now = expected.response, found.response
    if (was.message.content, was.stop_reason) == (now.message.content, now.stop_reason):
        return None
    what = "the recorded answer does not come out of the stream as it was"
    return Mismatch(
        "answer", what, f"{was.stop_reason}: {shown(was.message)}", f"{now.stop_reason}: {shown(now.message)}"
    )


def _results(found: ToolFinished, expected: ToolFinished, call: str) -> Mismatch | None:
    was, now = expected.result, found.result
    if (was.call_id, was.status, was.content) == (now.call_id, now.status, now.content):
        return None
    if was.call_id != now.call_id:
        return Mismatch("call", "the calls end in another order", was.call_id, now.call_id)
    what = f"the result of {call!r} is shown otherwise"
    if now.status == "denied" != was.status:
        what = f"the call of {call!r} is denied now"
    elif now.text.startswith("there is no tool called"):
        what = f"tool {call!r} is not offered any more"
    return Mismatch(
        "result", what, f"{was.status}: {_text(was.content)}", f"{now.status}: {_text(now.content)}"
    )


def _questions(found: QuestionAsked, expected: QuestionAsked) -> Mismatch | None:
    was, now = ((it.call_id, it.question, it.options, it.multiple, it.unknown) for it in (expected, found))
    if was == now:
        return None
    return Mismatch("question", "a person is asked something else", spoken_of(expected), spoken_of(found))


def _endings(found: LedgerEntry, expected: LedgerEntry) -> Mismatch | None:
    match found, expected:
        case TurnFinished(), TurnFinished() if (found.stop, found.rounds) != (expected.stop, expected.rounds):
            return Mismatch("end", "the turn ends otherwise", spoken_of(expected), spoken_of(found))
        case TurnFailed(), TurnFailed() if found.error.code != expected.error.code:
            return Mismatch("end", "the turn fails with another error", spoken_of(expected), spoken_of(found))
        case _:
            return None


# --- where something else is done ---------------------------------------------------


def _other_step(found: LedgerEntry, expected: LedgerEntry, call: str) -> Mismatch:
    both = spoken_of(expected), spoken_of(found)
    match found, expected:
        case ToolIntent(), SubagentStarted():
            return Mismatch("call", f"the call of {call!r} was handed to a sub-agent, and is not now", *both)
        case SubagentStarted(), ToolIntent() | ToolFinished(result=ToolResult(status="ok")):
            return Mismatch("call", f"the call of {call!r} is handed to a sub-agent now", *both)
        case SubagentStarted(), ToolFinished():
            return Mismatch("call", f"the call of {call!r} was not run, and is now", *both)
        case ToolFinished(), ToolIntent() | SubagentStarted():
            return Mismatch("call", _not_run(found, call), *both)
        case ToolIntent(), ToolFinished():
            return Mismatch("call", _run_now(expected, call), *both)
        case QuestionAsked(), _:
            return Mismatch("question", f"a person is asked about the call of {call!r} now", *both)
        case _, QuestionAsked():
            return Mismatch(
                "question", f"a person was asked about the call of {call!r}, and is not now", *both
            )
        case _ if isinstance(expected, Ended):
            return Mismatch("end", "the turn ended here, and goes on now", *both)
        case _ if isinstance(found, Ended):
            return Mismatch("end", "the turn ends here, and went on", *both)
        case MessageReceived(), _:
            return Mismatch("answer", "the output does not fit any more, and the model is told so", *both)
        case _, MessageReceived():
            return Mismatch("answer", "the output did not fit, and does now", *both)
        case _:
            return Mismatch("call", "something else is done here", *both)


def _not_run(found: ToolFinished, call: str) -> str:
    if found.result.text.startswith("there is no tool called"):
        return f"tool {call!r} is not offered any more"
    if found.result.status == "denied":
        return f"the call of {call!r} is denied now"
    return f"the call of {call!r} had side effects, and only reads now"


def _run_now(expected: ToolFinished, call: str) -> str:
    if expected.result.status == "ok":
        return f"the call of {call!r} only read, and has side effects now"
    return f"the call of {call!r} was not run, and is now"


def spoken_of(entry: LedgerEntry) -> str:
    """An entry in a few words."""
    match entry:
        case TurnStarted():
            return "a turn begins"
        case ModelStarted():
            return "the model is asked"
        case MessageReceived(message=message):
            return f"the model is told: {message.text}"
        case MessageCompleted(response=response):
            return f"the model says: {shown(response.message)}"
        case ToolIntent(name=name):
            return f"{name!r} is run"
        case SubagentStarted(name=name):
            return f"the sub-agent {name!r} is started"
        case ToolFinished(result=result):
            return f"the result of {result.name!r} is {result.status}: {_text(result.content)}"
        case QuestionAsked(question=question):
            return f"a person is asked: {question}"
        case TurnFinished(stop=stop, rounds=rounds):
            return f"the turn ends with {stop!r} after {rounds} {'round' if rounds == 1 else 'rounds'}"
        case TurnFailed(error=error):
            return f"the turn fails with {error.code!r}: {error.message}"
        case TurnCancelled():
            return "the turn is cancelled"
        case _:
            return type(entry).__name__


def shown(message: Message) -> str:
    """A message in a line."""
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    results = [f"{result.name}: {result.status} {_text(result.content)}" for result in message.tool_results]
    return " ".join([message.text, *calls, *results]).strip() or _text(message.content)


def _text(content: Sequence[Part]) -> str:
    parts = [part.text if isinstance(part, Text) else f"[{part.__struct_config__.tag}]" for part in content]
    if all(isinstance(part, Text) and not part.meta for part in content):
        return "".join(parts)
    return "".join(parts) + " " + msgspec.json.encode(content).decode()
