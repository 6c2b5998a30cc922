"""What a response used and what that costs: nothing is left at zero because nobody reported it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import cast

import msgspec

from gnomon.contracts.counter import SupportsLearning, TokenCounter
from gnomon.facts.catalogue import Catalogue
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response, Spent, Usage

__all__ = ["Accounts", "Books"]

_LEARN_EVERY_S = 0.1


class Accounts:
    """How one agent counts and what it pays. The counter is made when there is something to count."""

    def __init__(self, counter: Callable[[], TokenCounter], catalogue: Catalogue) -> None:
        self._make_counter = counter
        self._catalogue = catalogue
        self._learns_at = 0.0

    def open(self, model: str) -> Books:
        """The books of one turn with `provider:model`. What is remembered of messages ends with them."""
        return Books(self, model)

    @cached_property
    def counter(self) -> TokenCounter:
        return self._make_counter()

    @cached_property
    def learner(self) -> SupportsLearning | None:
        return self.counter if isinstance(self.counter, SupportsLearning) else None

    def observe(self, request: Request, response: Response, now: float) -> None:
        """Learn to count from what was reported; not from all of it, where answers come thick and fast."""
        if now >= self._learns_at and self.learner is not None:
            self._learns_at = now + _LEARN_EVERY_S
            self.learner.observe(request, response)

    def cost(self, response: Response, asked: str, when: datetime) -> Decimal | None:
        return self._catalogue.response_cost(response, asked, when)


class Books:
    """Of one turn: estimates what was not reported, and prices the whole."""

    def __init__(self, accounts: Accounts, model: str) -> None:
        self._accounts = accounts
        self._model = model

    @property
    def provider(self) -> str:
        return self._model.partition(":")[0]

    @cached_property
    def _counter(self) -> TokenCounter:
        """One for this model, which remembers what it has measured for as long as the turn lasts."""
        learner = self._accounts.learner
        if learner is None:
            return self._accounts.counter
        return cast(TokenCounter, learner.for_model(self._model.partition(":")[2]))

    def settled(self, request: Request, response: Response, now: float = 0.0) -> Response:
        """The response with its usage complete (U3): what was not reported is estimated, and says so."""
        usage = response.usage
        if usage.input_tokens is not None and usage.output_tokens is not None:
            if not usage.estimated:
                self._accounts.observe(self._asked(request, response), response, now)
            return response
        request = self._asked(request, response)
        filled = msgspec.structs.replace(
            usage,
            input_tokens=self._sent(request, usage) if usage.input_tokens is None else usage.input_tokens,
            output_tokens=self._said(response) if usage.output_tokens is None else usage.output_tokens,
            estimated=True,
        )
        return msgspec.structs.replace(response, usage=filled)

    def _asked(self, request: Request, response: Response) -> Request:
        """The request as it went to who answered: that model decides how tokens are counted."""
        if response.provider in (None, self._model.partition(":")[0]):
            return request
        return msgspec.structs.replace(request, model=response.model)

    def cost(self, response: Response, when: datetime) -> Decimal | None:
        """In US dollars, with the attempts that failed on the way; `None` where a price is not known."""
        return self._accounts.cost(response, self._model, when)

    def cost_of(self, spent: tuple[Spent, ...], when: datetime) -> Decimal | None:
        """What attempts cost that came to nothing."""
        provider, _, model = self._model.partition(":")
        nothing = Response(
            message=Message("assistant"),
            stop_reason="other",
            provider=provider,
            model=model,
            usage=Usage(input_tokens=0, output_tokens=0),
            discarded=spent,
        )
        return self._accounts.cost(nothing, self._model, when)

    def _sent(self, request: Request, usage: Usage) -> int:
        if isinstance(self._counter, SupportsLearning):
            counted = self._counter.count_request(request)
        else:
            system = (Message.system(request.system),) if request.system else ()
            counted = self._counter.count_messages((*system, *request.messages), request.tools)
        cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
        return max(counted - cached, 0)

    def _said(self, response: Response) -> int:
        """Without what a prompt has around its messages: what the message adds to an empty one."""
        return self.tokens_of(response.message)

    def tokens_of(self, message: Message) -> int:
        """An estimate of what a message of the model's adds."""
        if not message.content:
            return 0
        nothing = self._counter.count_messages((Message("assistant"),))
        return max(self._counter.count_messages((message,)) - nothing, 1)
