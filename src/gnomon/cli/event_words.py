"""The events of a session in words: one short line each, without anything that moves a terminal's cursor."""

from __future__ import annotations

from collections.abc import Iterable

from gnomon.cli.problems import one_line
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    Compacted,
    Error,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    Released,
    SessionEvent,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
    Unknown,
)
from gnomon.types.messages import Message

__all__ = ["kind_of", "words"]

_LONGEST = 400


def kind_of(event: SessionEvent) -> str:
    """The name of its kind, as the wire has it."""
    kind = event.kind if isinstance(event, Unknown) else str(event.__struct_config__.tag)
    return one_line(kind, 20)


def words(event: SessionEvent) -> str:
    """What it says, shortened."""
    return one_line(" · ".join(part for part in _parts(event) if part), _LONGEST)


def _parts(event: SessionEvent) -> Iterable[str]:
    match event:
        case MessageReceived(message=message, steer=steer):
            return _said(message), "steers the turn" if steer else ""
        case MessageCompleted(response=response):
            return _said(response.message), _calls(response.message)
        case TurnStarted(model=model):
            return (model,)
        case ModelStarted(attempt=attempt):
            return (f"attempt {attempt[0]}.{attempt[1]}",)
        case Claimed(owner=owner, epoch=epoch) | Released(owner=owner, epoch=epoch):
            return owner, f"epoch {epoch}"
        case _:
            return (*_of_a_call(event), *_of_a_turn(event))


def _of_a_call(event: SessionEvent) -> Iterable[str]:
    match event:
        case ToolIntent(name=name, call_id=call_id):
            return name, call_id
        case ToolFinished(result=result):
            return result.name, result.status if result.status != "ok" else "", result.text
        case QuestionAsked(question=question, options=options, call_id=call_id):
            return question, " / ".join(options), call_id
        case QuestionAnswered(run_again=True):
            return ("run it again",)
        case QuestionAnswered(content=content):
            return (_said(Message("user", content)),)
        case _:
            return ()


def _of_a_turn(event: SessionEvent) -> Iterable[str]:
    match event:
        case TurnFinished(stop=stop, usage=usage, cost=cost):
            tokens = f"{usage.total_tokens:,} tokens" if usage.total_tokens is not None else ""
            return stop, tokens, f"${cost:.6f}" if cost else ""
        case TurnFailed(error=error):
            return error.code, error.message
        case TurnCancelled(reason=reason) | TurnPaused(reason=reason):
            return (reason,)
        case CancelRequested(mode=mode, reason=reason):
            return mode, reason
        case TurnResumed(by=by):
            return (by,)
        case Compacted(tokens_before=before, tokens_after=after):
            return (f"{before:,} → {after:,} tokens",)
        case Error(code=code, message=message):
            return code, message
        case _:
            return ()


def _said(message: Message) -> str:
    others = sum(
        part.__struct_config__.tag not in ("text", "thinking", "tool_call") for part in message.content
    )
    attached = f"{others} attached" if others else ""
    return " · ".join(part for part in (message.text, attached) if part)


def _calls(message: Message) -> str:
    return ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
