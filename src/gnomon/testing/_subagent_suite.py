"""What the parts of the suite of `Subagent` share: a session with an agent below it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

from gnomon.contracts.provider import Provider
from gnomon.contracts.session import Session
from gnomon.contracts.subagent import Subagent, SupportsSubagents
from gnomon.contracts.tool import Tool
from gnomon.providers.scripted import Script, ScriptedProvider, calls, says
from gnomon.testing._session_patience import within
from gnomon.testing._session_suite import SessionSuite, Stage
from gnomon.testing._suite import expect, skip

__all__ = ["HANDS_ON", "Family", "SubagentSuite", "subagents_of"]

HANDS_ON = calls("helper", task="find it")
"""How the one above has work done."""


class Family(NamedTuple):
    """A session with an agent below it, whose tool is called `helper`."""

    stage: Stage
    session: Session
    below: ScriptedProvider


class SubagentSuite(SessionSuite):
    """What a back end tells of itself: `open`, as for a session, and `as_tool`."""

    def as_tool(
        self, provider: Provider, *, name: str = "helper", tools: Sequence[Tool] = (), **agent_options: object
    ) -> Tool:
        """An agent of that provider and those tools, as a tool of another; it takes a `task`."""
        raise NotImplementedError(f"{type(self).__name__} does not fill in as_tool(provider, …)")

    @asynccontextmanager
    async def family(
        self,
        script: Script,
        *,
        above: Script | None = None,
        tools: Sequence[Tool] = (),
        below: Mapping[str, object] | None = None,
    ) -> AsyncGenerator[Family, None]:
        """One that hands a task to another, which follows the script."""
        provider = ScriptedProvider(script)
        helper = self.as_tool(provider, name="helper", tools=tools, **(below or {}))
        async with self.staged(above or [HANDS_ON, says("Thanks.")], tools=[helper]) as stage:
            yield Family(stage, stage.session(), provider)
        provider.assert_finished()


async def subagents_of(stage: Stage, session: Session, count: int = 1) -> Sequence[Subagent]:
    """The handles that a session gives: so many of them."""
    if not isinstance(session, SupportsSubagents):
        skip(stage, "sub-agents")
    found = await within("the sub-agents", session.subagents())
    expect("the number of sub-agents", count, len(found))
    strangers = [each for each in cast("Sequence[object]", found) if not isinstance(each, Subagent)]
    expect("those that are no Subagent", [], strangers)
    return found
