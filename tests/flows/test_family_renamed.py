"""A session that an agent of another name began: its sub-agents are waited for by whoever runs it now."""

from __future__ import annotations

import asyncio

from gnomon import Agent
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, says


async def test_a_turn_of_a_session_that_another_agent_began_goes_on_after_its_sub_agent() -> None:
    storage = MemoryStorage()
    async with Agent(ScriptedProvider(["Hello."]), name="first", storage=storage) as first:
        await first.session("s").run("Hi.")
    helper = Agent(ScriptedProvider(["Helped."]), name="helper")
    script = [calls("spawn", task="help"), says("Done.").expecting(result="Helped.")]
    provider = ScriptedProvider(script, verbatim=False)
    async with Agent(provider, name="second", storage=storage, subagents=[helper]) as second:
        async with asyncio.timeout(20):
            assert (await second.session("s").run("Go.")).text == "Done."
    provider.assert_finished()
