"""The runtimes of a family of agents: one for each that works for another, on the store of the root."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gnomon.engine.definition import Definition
from gnomon.engine.ledger import Ledger
from gnomon.engine.subagents import CHILD, family
from gnomon.errors import NotFound

if TYPE_CHECKING:
    from gnomon.session.runtime import Runtime

__all__ = ["Members"]


class Members:
    """Who runs whose sessions here. Those below a sub-agent are kept by the root, too."""

    def __init__(self, runtime: Runtime, above: Runtime | None) -> None:
        self._runtime = runtime
        self._above = above
        """Whose sub-agents are run here."""
        self._made: dict[str, Runtime] = {}

    def _top(self) -> Runtime:
        return self._runtime if self._above is None else self._above

    async def member(self, agent: Definition) -> Runtime:
        """What runs the sessions of a sub-agent, on the same store: one for all that it works for."""
        return await self._top().family.made(agent)

    async def made(self, agent: Definition) -> Runtime:
        """The same, by the root of the family."""
        found = self._made.get(agent.name)
        if found is None:
            storage, top = await self._runtime.storage(), self._runtime
            found = self._made.setdefault(agent.name, top.below(agent, storage))
        return found

    async def runner_of(self, ledger: Ledger) -> Runtime | None:
        """What runs a session here, which may be a sub-agent's; `None` where its agent is not known."""
        if not ledger.session_id.startswith(CHILD):
            return self._top()
        row = ledger.known_row or await ledger.row()
        return await self.runner_named(row.agent_id) if row is not None else None

    async def runner_named(self, name: str) -> Runtime | None:
        """What runs the sessions of the agent of that name here, if it is of this family."""
        top = self._top()
        if name == top.agent.name:
            return top
        agent = next((each for each in family(top.agent) if each.name == name), None)
        return await self.member(agent) if agent is not None else None

    async def wake(self, ledger: Ledger) -> None:
        """Have a session run that may be another agent's: here, or by whoever looks for work."""
        turn, row = ledger.fold.open_turn, ledger.known_row or await ledger.row()
        name = turn.started.agent if turn is not None else row.agent_id if row is not None else ""
        runner = await self.runner_named(name)  # the root may be of an agent that is not known here
        with suppress(NotFound):
            await ledger.announce(self._runtime.clock.now())
        if runner is not None:
            running = runner.loops.get(ledger.session_id)
            if running is not None:
                await running[1].refresh()
                running[0].look()
            else:
                runner.look_at(ledger.session_id)

    async def close(self) -> None:
        for each in self._made.values():
            await each.close()
