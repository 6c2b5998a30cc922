"""The spans of one turn, as its events make them."""

from __future__ import annotations

from datetime import datetime

from gnomon.tracing._calls import CallSpan
from gnomon.tracing._content import message_of
from gnomon.tracing._ids import span_id
from gnomon.tracing._open import OpenSpan, spent
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    Compacted,
    Event,
    Guarded,
    MessageCompleted,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
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
)
from gnomon.types.messages import Message, Meta
from gnomon.types.records import Trace
from gnomon.types.requests import add_usage

__all__ = ["Ended", "TurnSpans", "note_compaction"]

Ended = TurnFinished | TurnFailed | TurnCancelled


class TurnSpans:
    """Takes in the events of a turn; its own span is the first of `spans`, and the parent of the others."""

    def __init__(self, session_id: str, started: TurnStarted, at: datetime, *, content: bool) -> None:
        self.id = started.turn_id
        self._session_id = session_id
        self._content = content
        provider, named, model = started.model.partition(":")
        self._asks = (provider, model) if named else ("", provider)
        self._said: list[Meta] = []
        """What the model is told next, when content is wanted."""
        self._heard: dict[str, Meta] = {}
        self._asking: OpenSpan | None = None
        self._asked: dict[str, OpenSpan] = {}
        self._message_id = ""
        self._seq = 0
        self._calls: dict[str, CallSpan] = {}
        self._waits: dict[str, OpenSpan] = {}
        self._subagents: dict[str, OpenSpan] = {}
        root = OpenSpan(self._id_of("turn"), started.agent, "turn", at, None)
        root.note(turn_id=self.id, agent=started.agent, model=started.model, agent_hash=started.agent_hash)
        self.root = root
        self.spans = [root]

    @property
    def is_over(self) -> bool:
        return self.root.ended_at is not None

    def traces(self) -> tuple[Trace, ...]:
        """The spans as they are known so far, the turn's own first."""
        return tuple(span.trace(self._session_id) for span in self.spans)

    def hear(self, message_id: str, message: Message) -> None:
        """A message that this turn takes."""
        if self._content:
            self._heard[message_id] = message_of(message)
            self._said.append(self._heard[message_id])
            self.root.input = list(self._heard.values())

    def _unhear(self, guarded: Guarded) -> None:
        """What a guardrail has kept from the model is kept from the spans too."""
        heard = self._heard.pop(guarded.message_id, None)
        if heard is not None:
            self._said = [each for each in self._said if each is not heard]
            self.root.input = list(self._heard.values()) or None
            if guarded.message is not None:
                self.hear(guarded.message_id, guarded.message)

    def take(self, seq: int, entry: Event, at: datetime) -> None:
        self._seq = seq
        match entry:
            case ModelStarted():
                self._ask(entry, at)
            case MessageCompleted():
                self._complete(entry, at)
            case ToolIntent() | ToolFinished() | QuestionAsked() | QuestionAnswered():
                self._take_call(entry, at)
            case ApprovalRequested() | ApprovalDecided() | TurnPaused() | TurnResumed():
                self._take_wait(entry, at)
            case Guarded():
                self._guard(entry, at)
            case Compacted():
                self._compact(entry, at)
            case SubagentStarted() | SubagentFinished():
                self._take_subagent(entry, at)
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self._end(entry, at)
            case _:
                pass

    # --- the model

    def _ask(self, started: ModelStarted, at: datetime) -> None:
        if self._asking is not None:  # another runner asks for the same: what the first was told is lost
            self._asking.end(at, "interrupted")
        provider, model = self._asks
        name = self._id_of("model", started.message_id, started.attempt)
        span = self._begin(name, model or "model", "model", at, self.root.id)
        span.note(request_model=model, provider=provider, message_id=started.message_id)
        span.note(attempt=".".join(map(str, started.attempt)))
        span.input = list(self._said) if self._content else None
        self._asking = self._asked[started.message_id] = span

    def _complete(self, completed: MessageCompleted, at: datetime) -> None:
        span, response = self._asking, completed.response
        if span is None:  # of a log that begins in the midst of a turn
            self._ask(ModelStarted(self.id, completed.message_id, (0, 0)), at)
            span = self._asked[completed.message_id]
        span.end(at)
        span.note(provider=response.provider, response_model=response.model, response_id=response.id)
        span.note(stop=response.stop_reason, **spent(response.usage, completed.cost))
        if response.discarded:
            lost = add_usage(response.discarded)
            span.note(discarded=len(response.discarded), discarded_input_tokens=lost.input_tokens)
            span.note(discarded_output_tokens=lost.output_tokens)
        self._asking, self._said = None, []
        if self._content:
            self.root.output = span.output = [message_of(response.message)]
        self._call(completed, at)

    # --- calls

    def _call(self, completed: MessageCompleted, at: datetime) -> None:
        """Ids of calls are unique within one message alone, and those of the one before are over."""
        self._cut_off_calls(at)
        self._message_id = completed.message_id
        calls = completed.message.tool_calls
        self._calls = {call.id: CallSpan(call, at, content=self._content) for call in calls}

    def _begun(self, call_id: str, at: datetime | None = None) -> OpenSpan | None:
        """The span of that call. It begins then, unless it has begun; with its message, when not said."""
        call = self._calls.get(call_id)
        if call is None:
            return None
        if call.span is None:
            name = self._id_of("tool", self._message_id, call_id)
            span = call.begin(name, self.root.id, at or call.called_at)
            span.note(turn_id=self.id)
            self.spans.append(span)
        return call.span

    def _take_call(
        self, entry: ToolIntent | ToolFinished | QuestionAsked | QuestionAnswered, at: datetime
    ) -> None:
        match entry:
            case ToolIntent(call_id=call_id):
                if self._begun(call_id, at) is not None:
                    self._calls[call_id].runs += 1
            case ToolFinished():
                self._finish(entry, at)
            case QuestionAsked(path=(below, *_)):
                # Of another session: its calls may be named like ours.
                span = self._wait(entry.question_id, "question", "", at, self._subagents.get(below))
                span.note(call_id=entry.call_id)
                span.input = entry.question if self._content else None
            case QuestionAsked(call_id=call_id):
                span = self._wait(entry.question_id or call_id, "question", call_id, at)
                span.note(unknown=entry.unknown or None)
                span.input = entry.question if self._content else None
            case QuestionAnswered(call_id=call_id):
                self._stop_waiting(entry.question_id or call_id, at, expired=entry.expired or None)

    def _finish(self, finished: ToolFinished, at: datetime) -> None:
        span = self._begun(finished.result.call_id)
        if span is None or span.ended_at is not None:  # a call has one result: of two, the first holds
            return
        self._calls[finished.result.call_id].finish(span, finished, at)
        if self._content:
            self._said.append(message_of(Message.tool(finished.result)))

    # --- waiting for a person

    def _take_wait(
        self, entry: ApprovalRequested | ApprovalDecided | TurnPaused | TurnResumed, at: datetime
    ) -> None:
        match entry:
            case ApprovalRequested(path=(below, *_), approval_id=approval_id, call=call):
                # Of another session: its calls may be named like ours.
                self._wait(approval_id, "approval", "", at, self._subagents.get(below)).note(
                    call_id=call.id, tool=call.name
                )
            case ApprovalRequested(approval_id=approval_id, call=call):
                self._wait(approval_id, "approval", call.id, at).note(tool=call.name)
            case ApprovalDecided(approval_id=approval_id, decision=decision):
                self._stop_waiting(approval_id, at, decision=decision)
            case TurnPaused():
                self._wait("pause", "pause", "", at)
            case TurnResumed():
                self._stop_waiting("pause", at)

    def _wait(
        self, name: str, kind: str, call_id: str, at: datetime, subagent: OpenSpan | None = None
    ) -> OpenSpan:
        above = self._begun(call_id, at)
        parent = above or subagent or self.root
        span = self._begin(self._id_of("wait", self._seq), kind, "wait", at, parent.id)
        span.note(call_id=call_id)
        self._waits[name] = span
        if above is not None:
            self._calls[call_id].waits.append(span)
        return span

    def _stop_waiting(self, name: str, at: datetime, **attributes: object) -> None:
        waiting = self._waits.pop(name, None)
        if waiting is not None:
            waiting.end(at)
            waiting.note(**attributes)

    # --- guardrails, compaction, sub-agents

    def _guard(self, guarded: Guarded, at: datetime) -> None:
        above = self._asked.get(guarded.message_id) or self._begun(guarded.call_id, at) or self.root
        if guarded.position == "input":
            self._unhear(guarded)
        span = self._begin(self._id_of("guardrail", self._seq), guarded.guardrail, "guardrail", at, above.id)
        span.end(at, None if guarded.replaced else "guardrail_tripped")
        span.note(position=guarded.position, replaced=guarded.replaced)
        span.output = guarded.reason if self._content else None

    def _compact(self, compacted: Compacted, at: datetime) -> None:
        name = compacted.compactor or "compaction"
        span = self._begin(self._id_of("compaction", self._seq), name, "compaction", at, self.root.id)
        note_compaction(span, compacted, at)

    def _take_subagent(self, entry: SubagentStarted | SubagentFinished, at: datetime) -> None:
        if isinstance(entry, SubagentStarted):
            above = self._begun(entry.call_id, at) or self.root
            name = self._id_of("subagent", entry.subagent_id)
            span = self._begin(name, entry.name, "subagent", at, above.id)
            span.note(subagent_id=entry.subagent_id, subagent_session_id=entry.session_id)
            self._subagents[entry.subagent_id] = span
        elif entry.subagent_id in self._subagents:
            span = self._subagents.pop(entry.subagent_id)
            span.end(at, None if entry.status in ("finished", "cancelled") else entry.status)
            span.note(status=entry.status, **spent(entry.usage, entry.cost))

    # --- the end

    def _end(self, ended: Ended, at: datetime) -> None:
        """What is open in a turn ends with it; but a sub-agent has a session of its own, and may go on."""
        error, status = None, "cancelled"
        if isinstance(ended, TurnFailed):
            error, status = ended.error.code, "failed"
        elif isinstance(ended, TurnFinished):
            status = "finished"
            self.root.note(stop=ended.stop, rounds=ended.rounds)
        self._end_inner(at, error)
        self.root.end(at, error)
        self.root.note(status=status, **spent(ended.usage, ended.cost))

    def _end_inner(self, at: datetime, error: str | None) -> None:
        if self._asking is not None:
            self._asking.end(at, error)
            self._asking.note(status="failed" if error else "cancelled")
        self._cut_off_calls(at)
        for waiting in self._waits.values():
            waiting.end(at)

    def _cut_off_calls(self, at: datetime) -> None:
        """Calls of which no result is known get none any more."""
        for call_id, call in self._calls.items():
            span = self._begun(call_id)
            if span is not None and span.ended_at is None:
                call.end(span, at, "interrupted")

    def _begin(self, name: str, shown: str, kind: str, at: datetime, parent_id: str) -> OpenSpan:
        span = OpenSpan(name, shown, kind, at, parent_id)
        span.note(turn_id=self.id)
        self.spans.append(span)
        return span

    def _id_of(self, kind: str, *names: object) -> str:
        return span_id(self._session_id, self.id, kind, *names)


def note_compaction(span: OpenSpan, compacted: Compacted, at: datetime) -> None:
    """Nobody tells how long it took: it is a point in time."""
    span.end(at)
    span.note(reason=compacted.reason, tokens_before=compacted.tokens_before)
    span.note(tokens_after=compacted.tokens_after, messages_before=compacted.messages_before)
    span.note(messages_after=compacted.messages_after, **spent(compacted.usage, compacted.cost))
