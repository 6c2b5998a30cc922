"""Ledgers as runners write them, at random: turns with calls that need leave, sub-agents and guardrails, and
views that are made shorter in between."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence

from gnomon.engine.context import _compaction
from gnomon.engine.ledger import Ledger
from gnomon.engine.turn import REPAIR
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Claimed,
    Compacted,
    Error,
    Guarded,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    Released,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, Text, ToolCall, ToolResult
from gnomon.types.requests import Response, Usage

__all__ = ["RandomSession"]

_KINDS = ("plain", "leave", "sub-agent", "question", "guarded", "cut")


class RandomSession:
    """Writes one thing after another; whoever listens may look at the ledger in between."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self._ledger = ledger
        self._chance = random.Random(seed)
        self._number = 0

    def _new(self, what: str) -> str:
        self._number += 1
        return f"{what}{self._number}"

    def _maybe(self, share: float) -> bool:
        return self._chance.random() < share

    def _used(self) -> Usage:
        return Usage(input_tokens=self._chance.randint(1, 9), output_tokens=self._chance.randint(1, 9))

    async def _write(self, *entries: LedgerEntry) -> None:
        assert await self._ledger.try_receive(entries, self._ledger.fold.seq)

    async def turns(self, count: int) -> AsyncIterator[None]:
        """So many; a place to look at the ledger after each write."""
        for _ in range(count):
            if self._maybe(0.2) and self._ledger.fold.messages:
                await self._write(self._shorter(""))
                yield
            await self._write(self._message())
            yield
            async for _ in self._turn():
                yield

    def _message(self, *, steer: bool = False) -> MessageReceived:
        name = self._new("m")
        return MessageReceived(name, Message.user(name), steer=steer)

    def _claim(self) -> Claimed:
        return Claimed("runner", self._ledger.fold.epoch + 1)

    def _release(self) -> Released:
        return Released("runner", self._ledger.fold.epoch)

    # --- one turn

    async def _turn(self) -> AsyncIterator[None]:
        turn_id = self._new("t")
        (first, *_) = self._ledger.fold.waiting
        entries: list[LedgerEntry] = [self._claim(), TurnStarted(turn_id, "a", "m", "h", inputs=(first,))]
        if self._maybe(0.15):
            stopped = Guarded(turn_id=turn_id, guardrail="g", position="input", reason="no", message_id=first)
            failed = TurnFailed(turn_id, Error("guardrail_tripped", "no"), cost=0.0)
            await self._write(*entries, stopped, failed, self._release())
            yield
            return
        if self._maybe(0.2):
            entries.append(self._replaced(turn_id, first))
        await self._write(*entries, ModelStarted(turn_id, self._new("a"), (1, 1)))
        yield
        for _ in range(self._chance.randint(0, 3)):
            async for _ in self._round(turn_id):
                yield
            if self._ledger.fold.open_turn is None:
                return
        await self._write(self._said(turn_id), *self._ended(turn_id), self._release())
        yield

    def _replaced(self, turn_id: str, message_id: str) -> Guarded:
        return Guarded(
            turn_id=turn_id,
            guardrail="g",
            position="input",
            reason="masked",
            message_id=message_id,
            replaced=True,
            message=Message.user(f"[{message_id}]"),
        )

    def _said(self, turn_id: str, calls: Sequence[ToolCall] = ()) -> MessageCompleted:
        turn = self._ledger.fold.turn
        assert turn is not None
        assert turn.asking is not None
        message = Message.assistant(Text(self._new("said ")), *calls)
        response = Response(
            id="r",
            provider="p",
            model="m",
            message=message,
            stop_reason="tool_use" if calls else "end_turn",
            usage=self._used(),
        )
        return MessageCompleted(
            turn_id, turn.asking.message_id, response, cost=self._chance.choice([0.5, 0.25])
        )

    def _ended(self, turn_id: str) -> tuple[LedgerEntry, ...]:
        if self._maybe(0.2):
            return (TurnFailed(turn_id, Error("x", "y"), self._used(), 0.5),)
        return (TurnFinished(turn_id, "end_turn", 1, self._used(), 0.5),)

    async def _round(self, turn_id: str) -> AsyncIterator[None]:
        """A message with calls, what becomes of them, and the next question."""
        calls = [ToolCall(self._new("c"), "tool", "{}") for _ in range(self._chance.randint(1, 3))]
        await self._write(self._said(turn_id, calls))
        yield
        if self._maybe(0.3):
            await self._write(self._message())  # it waits for the next turn
            yield
        for call in calls:
            async for _ in self._call(turn_id, call):
                yield
            if self._maybe(0.05):
                await self._cancel(turn_id, calls)
                yield
                return
        async for _ in self._ask(turn_id):
            yield

    async def _cancel(self, turn_id: str, calls: Sequence[ToolCall]) -> None:
        await self._write(CancelRequested("now", "enough"))
        results = [
            ToolFinished(turn_id, ToolResult.of(call, "cancelled", status="cancelled"))
            for call in calls
            if not self._ledger.fold.has_result(call.id)
        ]
        await self._write(*results, TurnCancelled(turn_id, "enough", self._used(), 0.5), self._release())

    async def _ask(self, turn_id: str) -> AsyncIterator[None]:
        """The next question, for which the view may be made shorter, with what was said meanwhile."""
        entries: list[LedgerEntry] = []
        if self._maybe(0.35):
            entries.append(self._shorter(turn_id))
        inputs: tuple[str, ...] = ()
        if self._maybe(0.25):
            steer = self._message(steer=True)
            await self._write(steer)
            yield
            inputs = (steer.message_id,)
            if self._maybe(0.5):
                entries.append(self._replaced(turn_id, steer.message_id))
        elif self._maybe(0.2):
            name = self._new(REPAIR)
            entries.append(MessageReceived(name, Message.user(name)))
            inputs = (name,)
        await self._write(*entries, ModelStarted(turn_id, self._new("a"), (1, 1), inputs))
        yield

    def _shorter(self, turn_id: str) -> Compacted:
        """As the engine does it: a head, and a tail that is kept as it stands."""
        fold = self._ledger.fold
        starts = [at for at, message in enumerate(fold.messages) if message.role != "tool"]
        start = self._chance.choice([*starts, len(fold.messages)])
        made = _compaction(fold, (Message.user(self._new("summary ")), *fold.messages[start:]))
        return Compacted(turn_id, made.view_start, 90, 9, head=made.head, usage=self._used(), cost=0.25)

    # --- one call

    async def _call(self, turn_id: str, call: ToolCall) -> AsyncIterator[None]:
        result = ToolFinished(turn_id, ToolResult.of(call, f"did {call.id}"))
        match self._chance.choice(_KINDS):
            case "leave":
                for group in self._leave(turn_id, call):
                    await self._write(*group)
                    yield
            case "sub-agent":
                for group in self._below(turn_id, call):
                    await self._write(*group)
                    yield
            case "question":
                await self._write(QuestionAsked(turn_id, call.id, "which?"), self._release())
                yield
                await self._write(QuestionAnswered(call.id, (Text("this"),)))
                yield
                await self._write(self._claim(), result)
                yield
                return
            case "guarded":
                against = Guarded(
                    turn_id=turn_id,
                    guardrail="g",
                    position="tool_results",
                    reason="x",
                    call_id=call.id,
                    replaced=True,
                )
                await self._write(against)
                yield
            case "cut":
                result = ToolFinished(turn_id, ToolResult.of(call, "cut"), full="the whole of it")
            case _:
                await self._write(ToolIntent(turn_id, call.id, "tool", f"key {call.id}"))
                yield
        await self._write(result)
        yield

    def _leave(self, turn_id: str, call: ToolCall) -> list[tuple[LedgerEntry, ...]]:
        name, fold = self._new("apr"), self._ledger.fold
        rule = f"allow tool{self._number}" if self._maybe(0.3) else ""
        asked = ApprovalRequested(turn_id, name, call, "hash", rule=rule)
        decided = ApprovalDecided(name, "approved", "ann", rule=rule)
        return [
            (asked, Released("runner", fold.epoch)),
            (decided,),
            (Claimed("runner", fold.epoch + 1), ToolIntent(turn_id, call.id, "tool", f"key {call.id}")),
        ]

    def _below(self, turn_id: str, call: ToolCall) -> list[tuple[LedgerEntry, ...]]:
        name, epoch = self._new("sub_"), self._ledger.fold.epoch
        told = ApprovalRequested(turn_id, self._new("apr"), call, "hash", path=(name,))
        groups: list[tuple[LedgerEntry, ...]] = [
            (SubagentStarted(turn_id, name, name, "helper", call.id),),
            (Released("runner", epoch),),
        ]
        if self._maybe(0.5):
            groups += [(told,), (ApprovalDecided(told.approval_id, "denied", "bob"),)]
        finished = SubagentFinished(turn_id, name, "finished", self._used(), 0.5, "did it")
        return [*groups, (finished,), (Claimed("runner", epoch + 1),)]
