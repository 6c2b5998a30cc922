"""One call of the model: what is kept of the answer, also of half of one."""

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

__all__ = ["Speaking"]


class Speaking:
    """What becomes of one request."""

    def __init__(self, started: ModelStarted, request: Request, books: Books, clock: Clock) -> None:
        self._started = started
        self._request = request
        self._books = books
        self._clock = clock

    def completed(self, response: Response) -> MessageCompleted:
        """The answer, with what it used and what that costs."""
        response = self._books.settled(self._request, response)
        cost = self._books.cost(response, self._clock.now())
        started = self._started
        return MessageCompleted(
            started.turn_id, started.message_id, response, None if cost is None else float(cost)
        )

    def partial(self, events: Sequence[LiveEvent]) -> MessageCompleted | None:
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
        response = Response(
            message=Message.assistant(text) if text else Message("assistant"),
            stop_reason="other",
            raw_stop_reason="cancelled",
            provider=self._books.provider,
            model=self._request.model,
            usage=fold.usage or Usage(),
            discarded=tuple(fold.discarded),
        )
        return self.completed(_estimable(response))


def _estimable(response: Response) -> Response:
    """What a vendor says of the tokens of an answer in the middle of it is not the last word."""
    if response.usage.output_tokens is None or not response.message.content:
        return response
    return msgspec.structs.replace(
        response, usage=msgspec.structs.replace(response.usage, output_tokens=None)
    )
