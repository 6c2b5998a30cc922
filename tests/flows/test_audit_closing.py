"""What an agent has done is audited also when it is closed at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gnomon import Agent, tool
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, says


class SlowAudit(MemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def append_audit_log_after(self, *args: Any, **more: Any) -> Any:
        await self.gate.wait()
        return await super().append_audit_log_after(*args, **more)


@tool
def post(to: str) -> str:
    return f"posted to {to}"


async def test_rows_that_wait_for_others_are_written_before_the_store_is_let_go_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = SlowAudit()
    script = [calls("post", to="ann"), says("Done."), calls("post", to="bob"), says("Done.")]
    agent = Agent(ScriptedProvider(script), tools=[post], storage=storage)
    session = agent.session("s")
    await session.run("Go.")
    await session.run("Go on.")  # what is to be told of this turn waits for what is told of the first
    closing = asyncio.ensure_future(agent.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    storage.gate.set()
    await closing
    rows = (await storage.list_audit_logs("s")).items
    assert [(row.action, row.resource) for row in rows] == [("tool.ran", "post")] * 2
    assert caplog.messages == []
