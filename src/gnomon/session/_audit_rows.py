"""The audit rows that follow from a ledger: who was asked, who decided, what ran, what was kept back.

A row holds names, hashes and places, and nothing of what was said: rows are kept
longer than conversations. What a reason or a rule says stands in the ledger, at `seq`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

import msgspec

from gnomon.engine.ledger import Read
from gnomon.engine.permissions import arguments_hash
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    Claimed,
    Event,
    Guarded,
    MessageCompleted,
    Released,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Meta, ToolCall
from gnomon.types.records import AuditLog

__all__ = ["Deriving", "READ_TYPES", "is_told", "row_id"]

_READ = (
    ApprovalDecided,
    ApprovalRequested,
    Claimed,
    Guarded,
    MessageCompleted,
    Released,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnResumed,
    TurnStarted,
)
READ_TYPES = frozenset(str(kind.__struct_config__.tag) for kind in _READ)
"""The types of ledger events that are read; the others say nothing for a row."""

_NOBODY = "gnomon"


def row_id(session_id: str, seq: int) -> str:
    """The same for everybody who tells of that event."""
    return "audit_" + sha256(msgspec.json.encode((session_id, seq))).hexdigest()[:32]


def is_told(entry: Event) -> bool:
    """Whether there is a row to be written for it, as far as can be said of the event alone."""
    return isinstance(entry, ApprovalRequested | ApprovalDecided | Guarded | ToolFinished | TurnResumed)


class Deriving:
    """Takes the events of a session in their order, and gives the row of each that has one.

    It has to be given them from the claim or the start of the turn on: what a result is of stands earlier.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._holder: str | None = None
        self._claimed_at = 0
        self._since = 0
        self._agent = ""
        self._calls: dict[str, ToolCall] = {}
        self._keys: dict[str, str] = {}
        self._below: dict[str, str] = {}
        """The sessions of sub-agents, by the call that they see to."""
        self._requests: dict[str, ApprovalRequested] = {}
        self._shown: dict[str, str] = {}

    def rows(self, read: Read) -> Iterator[AuditLog]:
        match read.entry:
            case Claimed() as claim:
                yield from self._claimed(read, claim)
            case Released():
                self._holder = None
            case TurnStarted() as started:
                self._begin(read.seq, started)
            case MessageCompleted() as completed:
                # Some servers name the first call of every answer alike.
                self._calls = {call.id: call for call in completed.message.tool_calls}
                self._keys.clear()
                self._below.clear()
                self._shown.clear()
            case ToolIntent() as intent:
                self._keys[intent.call_id] = intent.key
            case SubagentStarted() as started:
                self._below[started.call_id] = started.session_id
            case ToolFinished() as finished:
                yield from self._finished(read, finished)
            case ApprovalRequested() as request:
                yield self._requested(read, request)
            case ApprovalDecided() as decided:
                yield self._decided(read, decided)
            case Guarded() as guarded:
                yield self._guarded(read, guarded)
            case TurnResumed() as resumed:
                detail: Meta = {"turn_id": resumed.turn_id, "agent_hash": resumed.agent_hash}
                yield self._row(read, "turn.resumed", self._agent, detail, actor=resumed.by)
            case _:  # what the others say makes no row
                return

    def _begin(self, seq: int, started: TurnStarted) -> None:
        self._agent = started.agent
        self._since = self._claimed_at or seq

    def _claimed(self, read: Read, claim: Claimed) -> Iterator[AuditLog]:
        """A session that was not let go of is taken from somebody, be it from one that is gone."""
        before, self._holder = self._holder, claim.owner
        self._claimed_at = read.seq
        if before is not None and before != claim.owner:
            detail: Meta = {"from": before, "epoch": claim.epoch}
            yield self._row(read, "session.taken_over", self._session_id, detail, actor=claim.owner)

    def _finished(self, read: Read, finished: ToolFinished) -> Iterator[AuditLog]:
        result = finished.result
        key = self._keys.get(result.call_id)
        denied = result.status == "denied"
        # Without an intent and without a moment's work nothing ran: an unknown tool, an answer of a person.
        below = self._below.get(result.call_id)
        if not denied and key is None and below is None and not finished.duration_s:
            return
        call = self._calls.get(result.call_id)
        name = result.name or (call.name if call is not None else "")
        detail: Meta = {"call_id": result.call_id, "status": result.status, "turn_id": finished.turn_id}
        if key is not None:
            detail["key"] = key
        if below is not None:
            detail["subagent"] = below
        if hashed := self._hash(result.call_id):
            detail["arguments_hash"] = hashed
        yield self._row(read, "tool.denied" if denied else "tool.ran", name, detail)

    def _hash(self, call_id: str) -> str:
        """Of the arguments as somebody was shown them, or as the model wrote them."""
        if call_id in self._shown:
            return self._shown[call_id]
        call = self._calls.get(call_id)
        return arguments_hash(call.name, call.arguments) if call is not None else ""

    def _requested(self, read: Read, request: ApprovalRequested) -> AuditLog:
        self._requests[request.approval_id] = request
        if not request.path:  # one with a path is about a call of a sub-agent
            self._shown[request.call.id] = request.arguments_hash
        return self._row(read, "approval.requested", request.call.name, _asked_for(request))

    def _decided(self, read: Read, decided: ApprovalDecided) -> AuditLog:
        request = self._requests.get(decided.approval_id)
        detail: Meta = {"approval_id": decided.approval_id}
        if request is not None:
            detail = _asked_for(request)
        if decided.rule:
            detail["always"] = True
        name = request.call.name if request is not None else ""
        return self._row(read, f"approval.{decided.decision}", name, detail, actor=decided.by)

    def _guarded(self, read: Read, guarded: Guarded) -> AuditLog:
        places = {"message_id": guarded.message_id, "call_id": guarded.call_id}
        detail: Meta = {"turn_id": guarded.turn_id, "position": guarded.position}
        detail.update({name: place for name, place in places.items() if place})
        return self._row(
            read, "text.redacted" if guarded.replaced else "text.stopped", guarded.guardrail, detail
        )

    def _row(
        self, read: Read, action: str, resource: str, detail: Mapping[str, object], *, actor: str = ""
    ) -> AuditLog:
        return AuditLog(
            id=row_id(self._session_id, read.seq),
            session_id=self._session_id,
            actor=actor or self._agent or _NOBODY,
            action=action,
            resource=resource,
            detail={**detail, "seq": read.seq, "since": self._since or self._claimed_at or read.seq},
            created_at=read.at,
        )


def _asked_for(request: ApprovalRequested) -> Meta:
    detail: Meta = {
        "approval_id": request.approval_id,
        "call_id": request.call.id,
        "arguments_hash": request.arguments_hash,
    }
    if request.path:
        detail["path"] = list(request.path)
    return detail
