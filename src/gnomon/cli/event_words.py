"""The events of a session in words: one short line each, without anything that moves a terminal's cursor."""

from __future__ import annotations

from collections.abc import Iterable

from gnomon.cli.problems import one_line
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetWarning,
    CancelRequested,
    Claimed,
    Compacted,
    Error,
    Guarded,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    Released,
    SessionEvent,
    SubagentFinished,
    SubagentStarted,
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
from gnomon.types.requests import Usage

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
            return (*_of_a_call(event), *_of_a_turn(event), *_around_it(event))


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
            return stop, _tokens(usage), _dollars(cost)
        case TurnFailed(error=error):
            return error.code, error.message
        case TurnCancelled(reason=reason) | TurnPaused(reason=reason):
            return (reason,)
        case CancelRequested(mode=mode, reason=reason):
            return mode, reason
        case TurnResumed(by=by):
            return (by,)
        case BudgetWarning(kind=kind, used=used, limit=limit):
            return (f"{kind}: {used:,g} of {limit:,g}",)
        case Error(code=code, message=message):
            return code, message
        case _:
            return ()


def _around_it(event: SessionEvent) -> Iterable[str]:
    match event:
        case ApprovalRequested(call=call, reason=reason, approval_id=approval_id, path=path):
            return f"{call.name}({call.arguments})", reason, approval_id, "of a sub-agent" if path else ""
        case ApprovalDecided(decision=decision, by=by, reason=reason, rule=rule):
            return decision, f"by {by}" if by else "", reason or "", f"always: {rule}" if rule else ""
        case Guarded(guardrail=name, position=position, reason=reason, replaced=replaced):
            return name, position.replace("_", " "), "replaced" if replaced else "stopped", reason
        case Compacted():
            return _compaction(event)
        case SubagentStarted(name=name, session_id=session_id):
            return name, session_id
        case SubagentFinished(status=status, output=output, usage=usage, cost=cost, error=error):
            said = error.message if error is not None else output
            return status, said, _tokens(usage), _dollars(cost)
        case _:
            return ()


def _compaction(event: Compacted) -> Iterable[str]:
    """What the view was, what it is, who made it so, and what for."""
    return (
        f"{event.messages_before:,} → {event.messages_after:,} messages",
        f"{event.tokens_before:,} → {event.tokens_after:,} tokens",
        event.compactor,
        _WHAT_FOR[event.reason],
        _dollars(event.cost),
    )


_WHAT_FOR = {
    "budget": "it grew long",
    "too_long": "it was too long for the model",
    "asked": "it was asked for",
}


def _tokens(usage: Usage) -> str:
    return f"{usage.total_tokens:,} tokens" if usage.total_tokens is not None else ""


def _dollars(cost: float | None) -> str:
    return f"${cost:.6f}" if cost else ""


def _said(message: Message) -> str:
    others = sum(
        part.__struct_config__.tag not in ("text", "thinking", "tool_call") for part in message.content
    )
    attached = f"{others} attached" if others else ""
    return " · ".join(part for part in (message.text, attached) if part)


def _calls(message: Message) -> str:
    return ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
