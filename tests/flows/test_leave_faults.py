"""Leave for calls when things go wrong: who answers wrongly, too late, twice, or beside a cancel."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gnomon import Agent, tool
from gnomon.errors import ApprovalRefused, InvalidInput, NotFound, TurnUnfinished
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.replay import read_store
from gnomon.session.local import LocalSession
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import FakeClock
from gnomon.types.events import ApprovalDecided, Event, SubagentStarted, ToolFinished
from gnomon.types.records import AuditLog
from gnomon.types.requests import Request


class Work:
    """A tool that writes, and what it wrote."""

    def __init__(self) -> None:
        self.written: list[str] = []

        @tool
        def write(what: str) -> str:
            """Write it down."""
            self.written.append(what)
            return f"wrote {what}"

        self.tool = write


def script(request: Request) -> Line:
    last = request.messages[-1]
    if last.role == "user" and last.text == "hello":
        return says("hello")
    return calls("write", what=last.text) if last.role == "user" else says(last.tool_results[0].text)


def asking(work: Work, **given: object) -> Agent[str]:
    given = {"storage": "memory://", "permissions": "ask", **given}
    return Agent(ScriptedProvider(script, verbatim=False), tools=[work.tool], **given)  # type: ignore[arg-type]


def handing_on(below: Agent[str], **given: object) -> Agent[str]:
    def hand(request: Request) -> Line:
        last = request.messages[-1]
        return calls("spawn", task="t") if last.role == "user" else says(last.tool_results[0].text)

    provider = ScriptedProvider(hand, verbatim=False)
    given = {"storage": "memory://", **given}
    return Agent(provider, name="boss", subagents=[below], **given)  # type: ignore[arg-type]


async def waiting(session: LocalSession[str]) -> str:
    with pytest.raises(TurnUnfinished, match="waits for leave to call write"):
        await session.run("x")
    (asked,) = await session.approvals()
    return asked.approval_id


async def ledger_of(agent: Agent[str], session_id: str) -> list[Event]:
    recording = await read_store(await agent._live().storage(), session_id)
    return [read.entry for read in recording.events]


# --- answers that are wrong


@pytest.mark.parametrize("given", [{"by": None}, {"by": 7}, {"reason": 3}, {"approval_id": 5}])
async def test_an_answer_of_the_wrong_kind_is_refused_and_changes_nothing(given: dict[str, object]) -> None:
    async with asking(Work()) as one, asyncio.timeout(20):
        session = one.session("s")
        await waiting(session)
        with pytest.raises(InvalidInput, match="is a text, not"):
            await session.approve(**given)  # type: ignore[arg-type]
        assert len(await session.approvals()) == 1


async def test_of_many_who_answer_at_once_one_counts() -> None:
    work = Work()
    async with asking(work) as one, asyncio.timeout(20):
        session = one.session("s")
        asked = await waiting(session)
        answers = [one.session("s").approve(asked, by=f"yes {n}") for n in range(3)]
        answers += [one.session("s").deny(asked, by=f"no {n}") for n in range(3)]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(each) for each in found].count(ApprovalRefused) == 5
        await session.turn_result()
        entries = await ledger_of(one, "s")
        decided = [entry for entry in entries if isinstance(entry, ApprovalDecided)]
        assert len(decided) == 1
        assert work.written == (["x"] if decided[0].decision == "approved" else [])


@pytest.mark.parametrize("patience", range(8))
async def test_an_answer_beside_a_cancel_leaves_one_result(patience: int) -> None:
    work = Work()
    async with asking(work) as one, asyncio.timeout(20):
        session = one.session("s")
        asked = await waiting(session)

        async def later() -> None:
            for _ in range(patience):
                await asyncio.sleep(0)
            await session.approve(asked)

        _, told = await asyncio.gather(session.cancel(), later(), return_exceptions=True)
        assert told is None or isinstance(told, ApprovalRefused | NotFound)
        await session.turn_result()
        results = [each for each in await ledger_of(one, "s") if isinstance(each, ToolFinished)]
        assert len(results) == 1
        assert (results[0].result.status == "ok") == (work.written == ["x"])


# --- answers that come too late


async def test_a_turn_whose_time_for_leave_is_up_is_waited_for_and_not_said_to_wait() -> None:
    work, clock = Work(), FakeClock()
    async with asking(work, approval_timeout_s=60, clock=clock) as one, asyncio.timeout(20):
        session = one.session("s")
        await waiting(session)
        clock.advance(61)
        assert (await session.turn_result()).text == "not run: nobody gave leave in time"
        assert work.written == []


async def test_a_message_behind_leave_that_is_out_of_time_is_answered_after_a_restart(tmp_path: Path) -> None:
    store, clock = f"sqlite:///{tmp_path}/s.db", FakeClock()
    async with asking(Work(), approval_timeout_s=60, clock=clock, storage=store) as one:
        await waiting(one.session("s"))
    clock.advance(61)
    async with asking(Work(), clock=clock, storage=store) as two, asyncio.timeout(20):
        assert (await two.session("s").run("hello")).text == "hello"


async def test_leave_that_a_sub_agent_did_not_get_in_time_is_not_waited_for_at_the_root() -> None:
    work, clock = Work(), FakeClock()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def below(request: Request) -> Line:
        if request.messages[-1].role == "tool":
            begun.set()
            await go_on.wait()
        return script(request)

    low = Agent(
        ScriptedProvider(below, verbatim=False),
        name="low",
        tools=[work.tool],
        permissions="ask",
        approval_timeout_s=60,
    )
    async with handing_on(low, clock=clock) as one, asyncio.timeout(20):
        session = one.session("s")
        await waiting(session)
        clock.advance(61)
        ended = asyncio.ensure_future(session.turn_result())
        await begun.wait()  # it goes on, and its model is asked
        assert await session.approvals() == ()
        assert (await session.refresh()).state == "running"
        go_on.set()
        assert (await ended).text == "not run: nobody gave leave in time"
        assert work.written == []


# --- what is kept of it


async def test_the_audit_chain_tells_of_calls_that_sub_agents_saw_to() -> None:
    store = MemoryStorage()
    low = asking(Work(), name="low", storage=None)
    async with handing_on(low, permissions="ask", storage=store) as one, asyncio.timeout(20):
        session = one.session("s")
        with pytest.raises(TurnUnfinished, match="leave to call spawn"):
            await session.run("go")
        await session.approve(by="ada")
        while not (await session.approvals()):  # noqa: ASYNC110 - it is in a store
            await asyncio.sleep(0.01)
        await session.approve(by="bob")
        await session.turn_result()
        below = next(e.session_id for e in await ledger_of(one, "s") if isinstance(e, SubagentStarted))
    rows = [(row.action, row.resource, row.actor) for row in await chain(store, "s")]
    assert rows == [
        ("approval.requested", "spawn", "boss"),
        ("approval.approved", "spawn", "ada"),
        ("approval.requested", "write", "boss"),
        ("approval.approved", "write", "bob"),
        ("tool.ran", "spawn", "boss"),
    ]
    ran = (await chain(store, "s"))[-1]
    assert ran.detail["subagent"] == below
    rows = [(row.action, row.resource) for row in await chain(store, below)]
    assert rows == [("approval.requested", "write"), ("approval.approved", "write"), ("tool.ran", "write")]


async def chain(store: MemoryStorage, session_id: str) -> list[AuditLog]:
    assert await store.verify_audit(session_id) == ()
    return [*reversed((await store.list_audit_logs(session_id)).items)]
