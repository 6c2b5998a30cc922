"""Sub-agents whose root is run by another than began it, or by nobody who was told of their end."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from recorded_effects import entries_of, of_kind

from gnomon import Agent
from gnomon.session._members import Members
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.types.events import SubagentFinished, TurnFinished
from gnomon.types.requests import Request


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


async def test_a_root_whose_waker_was_lost_is_woken_by_whoever_finds_the_sub_agents_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end stands in the root's ledger; the process died before it woke the root."""
    storage, gate = MemoryStorage(), asyncio.Event()
    one = family(storage, gate)
    await one.session("s").send("Go.")
    await rests(storage)
    with monkeypatch.context() as lost:
        lost.setattr(Members, "wake", nobody_wakes)
        gate.set()
        await told(storage)
        await one.close()
    child = next(row for row in (await storage.list_sessions()).items if row.id != "s")
    await storage.update_session(msgspec.structs.replace(child, runnable=True))
    async with family(storage, gate) as two:
        serving = asyncio.ensure_future(two.serve())
        async with asyncio.timeout(20):
            while not of_kind(await entries_of(storage, "s"), TurnFinished):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        serving.cancel()


def family(storage: MemoryStorage, gate: asyncio.Event) -> Agent:
    async def help(_: Request) -> Line:
        await gate.wait()
        return says("Helped.")

    def root(request: Request) -> Line:
        return says("Done.") if request.messages[-1].role == "tool" else calls("spawn", task="help")

    helper = Agent(ScriptedProvider(help), name="helper")
    return Agent(ScriptedProvider(root), name="root", storage=storage, subagents=[helper])


async def nobody_wakes(*_: object) -> None:
    """The process is gone before it comes to this."""


async def rests(storage: MemoryStorage) -> None:
    """Until the row of the root says that there is nothing to do about it."""
    async with asyncio.timeout(20):
        while (row := await storage.get_session("s")) is None or row.status != "waiting":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not row.runnable


async def told(storage: MemoryStorage) -> None:
    async with asyncio.timeout(20):
        while not of_kind(await entries_of(storage, "s"), SubagentFinished):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
