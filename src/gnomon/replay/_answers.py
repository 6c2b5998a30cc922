"""The model of an agent, whose answers are those of the recording. Nothing is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import zip_longest

from gnomon.contracts.provider import Provider
from gnomon.replay._matching import Mismatch, shown
from gnomon.replay._tape import Tape
from gnomon.replay.provider import spoken
from gnomon.types.codec import exception_of
from gnomon.types.events import (
    Done,
    Event,
    MessageCompleted,
    ModelStarted,
    ProviderEvent,
    QuestionAsked,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnStarted,
)
from gnomon.types.requests import Request

__all__ = ["TapeProvider"]


class TapeProvider(Provider):
    """Answers as the recording does at its place: also half, not at all, or with an error."""

    def __init__(self, tape: Tape, *, name: str, model: str) -> None:
        self.name = name
        self.model = model
        self._tape = tape

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        tape = self._tape
        place, entry = _answer(tape) if _is_as_recorded(tape, request) else (len(tape.events), None)
        match entry:
            case MessageCompleted():
                for event in spoken(entry.response):
                    yield event
                ended = _cut_short_by(tape, place)
                if ended is None:
                    tape.let_time_pass()
                    yield Done(entry.response)
                    return
                tape.cancel(ended.reason)
            case TurnCancelled():
                tape.cancel(entry.reason)
            case TurnFailed():
                raise exception_of(entry.error)
            case ModelStarted() | TurnPaused() | None:  # the attempt was lost, or is still under way
                tape.leave()
            case _:
                tape.stop(
                    Mismatch("answer", "the model has no answer in the recording"), tape.events[place].seq
                )
                tape.leave()
        await asyncio.Event().wait()  # until whoever reads is told to end


def _answer(tape: Tape) -> tuple[int, Event | None]:
    """What came of the question to the model."""
    for at, entry in tape.ahead():
        match entry:
            case QuestionAsked(path=(_, *_)):  # of a sub-agent
                continue
            case MessageCompleted() | ModelStarted() | TurnPaused() | TurnStarted() | ToolIntent():
                return at, entry
            case ToolFinished() | QuestionAsked() | TurnFinished() | TurnCancelled() | TurnFailed():
                return at, entry
            case _:
                continue
    return len(tape.events), None


def _cut_short_by(tape: Tape, place: int) -> TurnCancelled | None:
    """What ended the turn, where the answer is what was said until then."""
    completed = tape.events[place].entry
    if not isinstance(completed, MessageCompleted) or completed.response.raw_stop_reason != "cancelled":
        return None
    return tape.cancelled_at(place + 1)


def _is_as_recorded(tape: Tape, request: Request) -> bool:
    """Whether what is sent is the view of the recording; a difference is told."""
    for at, (was, now) in enumerate(zip_longest(tape.fold.messages, request.messages)):
        if was is not now and was != now:
            what = f"the message sent differs at index {at}"
            both = (shown(message) if message is not None else "" for message in (was, now))
            tape.stop(Mismatch("messages", what, *both), tape.fold.seq)
            return False
    return True
