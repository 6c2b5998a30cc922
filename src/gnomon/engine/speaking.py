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
from gnomon.types.requests import Request, Response, Usage

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


def partial(events: Sequence[LiveEvent], request: Request, books: Books) -> Response | None:
    """What was said before it was cut short: its text, since half a thought or a call is no use."""
    if not events:
        return None
    fold = StreamFold()
    with suppress(GnomonError):
        for event in events:
            fold.add(event)
    text = fold.message.text
    if not text and not fold.spent():
        return None
    return Response(
        message=Message.assistant(text) if text else Message("assistant"),
        stop_reason="other",
        raw_stop_reason="cancelled",
        provider=books.provider,
        model=request.model,
        usage=_so_far(fold.usage, text),
        discarded=tuple(fold.discarded),
    )


def stopped(shown: Sequence[LiveEvent], said: StreamFold, request: Request, books: Books) -> Response:
    """An answer that a guardrail stopped: what was shown of it, and what all of it was paid for with."""
    fold = StreamFold()
    with suppress(GnomonError):
        for event in shown:
            fold.add(event)
    text, whole = fold.message.text, said.message
    used = said.usage or Usage()
    return Response(
        message=Message.assistant(text) if text else Message("assistant"),
        stop_reason="content_filter",
        raw_stop_reason="guardrail",
        provider=books.provider,
        model=request.model,
        usage=msgspec.structs.replace(used, output_tokens=books.tokens_of(whole), estimated=True),
        discarded=tuple(said.discarded),
    )


def _so_far(usage: Usage | None, text: str) -> Usage:
    """What a vendor says of the tokens of an answer in the middle of it is not the last word."""
    if usage is None:
        return Usage()
    return msgspec.structs.replace(usage, output_tokens=None) if text else usage
