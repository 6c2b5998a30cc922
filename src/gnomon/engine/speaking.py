"""What is kept of a call of the model: the answer, or half of one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from gnomon.engine.accounts import Books
from gnomon.engine.clock import Clock
from gnomon.engine.live import LiveEvent
from gnomon.errors import GnomonError
from gnomon.stream import StreamFold
from gnomon.types.events import MessageCompleted, ModelStarted
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response, Spent, Usage

__all__ = ["completed", "partial", "stopped"]


def completed(
    started: ModelStarted, request: Request, response: Response, books: Books, clock: Clock
) -> MessageCompleted:
    """The answer, with what it used and what that costs."""
    response = books.settled(request, response, clock.monotonic())
    cost = books.cost(response, clock.now())
    return MessageCompleted(
        started.turn_id, started.message_id, response, None if cost is None else float(cost)
    )


def partial(
    events: Sequence[LiveEvent], request: Request, books: Books, said: StreamFold | None = None
) -> Response | None:
    """What was said before it was cut short: its text, since half a thought or a call is no use.

    Where some of it was held back, `said` is all of it: that is what was paid for.
    """
    shown = _folded(events)
    if not (said or shown).message.text and not (said or shown).spent():
        return None
    text = shown.message.text
    return Response(
        message=Message.assistant(text) if text else Message("assistant"),
        stop_reason="other",
        raw_stop_reason="cancelled",
        provider=books.provider,
        model=request.model,
        usage=_so_far(shown.usage, text) if said is None else _paid(said, books),
        discarded=_discarded(said or shown),
    )


def stopped(shown: Sequence[LiveEvent], said: StreamFold, request: Request, books: Books) -> Response:
    """An answer that a guardrail stopped: what was shown of it, and what all of it was paid for with."""
    text = _folded(shown).message.text
    return Response(
        message=Message.assistant(text) if text else Message("assistant"),
        stop_reason="content_filter",
        raw_stop_reason="guardrail",
        provider=books.provider,
        model=request.model,
        usage=_paid(said, books),
        discarded=_discarded(said),
    )


def _folded(events: Sequence[LiveEvent]) -> StreamFold:
    fold = StreamFold()
    with suppress(GnomonError):
        for event in events:
            fold.add(event)
    return fold


def _paid(said: StreamFold, books: Books) -> Usage:
    """What all of it was paid for with: as the vendor says it at the end, or else an estimate."""
    if said.response is not None:
        return said.response.usage
    used = said.usage or Usage()
    return msgspec.structs.replace(used, output_tokens=books.tokens_of(said.message), estimated=True)


def _discarded(said: StreamFold) -> tuple[Spent, ...]:
    return said.response.discarded if said.response is not None else tuple(said.discarded)


def _so_far(usage: Usage | None, text: str) -> Usage:
    """What a vendor says of the tokens of an answer in the middle of it is not the last word."""
    if usage is None:
        return Usage()
    return msgspec.structs.replace(usage, output_tokens=None) if text else usage
