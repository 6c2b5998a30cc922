"""A question to the agent's model beside the conversation: hooks see it, and what it used is counted."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import msgspec

from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.hooks import ModelStep
from gnomon.engine.interrupt import Interrupt
from gnomon.engine.journal import Journal
from gnomon.errors import GnomonError
from gnomon.types.events import Compacted, Done
from gnomon.types.requests import Request, Response, Spent, Usage, add_usage

__all__ = ["Aside"]


class Aside:
    """Asks, and keeps what all of it used."""

    def __init__(self, agent: Definition, clock: Clock, journal: Journal, turn_id: str = "") -> None:
        self._agent = agent
        self._clock = clock
        self._journal = journal
        self._turn_id = turn_id
        self._books = agent.accounts.open(agent.model)
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0)

    @property
    def is_free(self) -> bool:
        """Whether nothing was spent as far as is known."""
        return self.usage == Usage() and self.cost == 0

    async def __call__(self, request: Request) -> Response:
        agent = self._agent
        if not request.model:
            request = msgspec.structs.replace(request, model=agent.provider.model)
        try:
            response = self._books.settled(request, await self._answer(request), self._clock.monotonic())
        except GnomonError as error:
            spent = cast("tuple[Spent, ...]", getattr(error, "spent", ()))
            self._count(spent, self._books.cost_of(spent, self._clock.now()))
            raise
        self._count((*response.discarded, response.usage), self._books.cost(response, self._clock.now()))
        return response

    async def _answer(self, request: Request) -> Response:
        agent = self._agent
        if agent.hooks is None:
            return await agent.provider.complete(request)
        step = ModelStep(
            agent,
            request,
            self._clock,
            Interrupt(),
            session_id=self._journal.session_id,
            turn_id=self._turn_id,
            user_id=self._journal.user_id,
        )
        async with step as answer:
            async for each in answer:
                if isinstance(each, Done):
                    step.response = each.response
        assert step.response is not None
        return step.response

    def _count(self, usages: tuple[Usage, ...], cost: Decimal | None) -> None:
        self.usage = add_usage((self.usage, *usages))
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def paid(self, compacted: Compacted) -> Compacted:
        """With what it was paid for with."""
        cost = None if self.cost is None else float(self.cost)
        return msgspec.structs.replace(compacted, usage=self.usage, cost=cost)
