"""How traces and the audit chain are wired to an agent: kept by every door, of all that it has run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from wired import DOORS, Word, asked_of

from gnomon import Agent, tool
from gnomon.contracts.storage import Storage, SupportsAuditCheck
from gnomon.errors import ApprovalRefused, GuardrailTripped
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.tracing.exporter import Parent, Tracing
from gnomon.types.records import AuditLog, Trace
from storing import opened


@tool
def book(port: str) -> str:
    """Book a berth.

    port: where
    """
    return f"booked at {port}"


def booking(**given: object) -> Agent:
    script = ScriptedProvider(
        [calls("book", port="Dover"), says("Done.").expecting(result="booked at Dover")]
    )
    return Agent(script, **({"tools": [book]} | given))


async def only_session(storage: Storage) -> str:
    """The id of the session of a run: nobody was told of it."""
    (row,) = (await storage.list_sessions()).items
    return row.id


async def rows_of(storage: Storage, session_id: str) -> list[AuditLog]:
    return list(reversed((await storage.list_audit_logs(session_id, 100)).items))


async def spans_of(storage: Storage, session_id: str) -> list[Trace]:
    return list((await storage.list_traces(session_id, 100)).items)


class Collects:
    """An exporter that keeps what it is given, and stands at a place of its own."""

    def __init__(self) -> None:
        self.given: list[tuple[list[tuple[str, str]], Parent | None]] = []
        self.place = "00-1"

    def here(self) -> Parent:
        return {"traceparent": self.place}

    def export(self, spans: Sequence[Trace], parent: Parent | None = None) -> None:
        self.given.append(([(span.kind, span.name) for span in spans], parent))


# --- traces


@DOORS
async def test_a_turn_leaves_its_spans_in_the_store(ask: Callable) -> None:
    storage = MemoryStorage()
    async with booking(storage=storage, traces=True) as agent:
        turn = (await ask(agent, "Book.")).turn
    spans = await spans_of(storage, await only_session(storage))
    assert sorted(span.kind for span in spans) == ["model", "model", "tool", "turn"]
    (whole,) = [span for span in spans if span.kind == "turn"]
    assert {span.parent_id for span in spans} == {None, whole.id}
    assert all(span.ended_at is not None for span in spans)
    assert turn.id in repr(whole)


@DOORS
async def test_no_spans_are_kept_unless_they_are_asked_for(ask: Callable) -> None:
    storage = MemoryStorage()
    async with booking(storage=storage) as agent:
        await ask(agent, "Book.")
    assert await spans_of(storage, await only_session(storage)) == []


@DOORS
async def test_spans_go_to_the_exporter_below_the_place_of_who_asked(ask: Callable) -> None:
    exporter = Collects()
    async with booking(storage=MemoryStorage(), traces=Tracing(exporter=exporter)) as agent:
        asking = asyncio.ensure_future(ask(agent, "Book."))
        await asyncio.sleep(0)
        await asking
        exporter.place = "00-2"
    ((spans, parent),) = exporter.given
    assert parent == {"traceparent": "00-1"}
    assert sorted(kind for kind, _ in spans) == ["model", "model", "tool", "turn"]


@pytest.mark.parametrize("content", [False, True])
async def test_what_was_said_is_part_of_the_spans_only_when_that_is_wanted(content: bool) -> None:
    storage = MemoryStorage()
    async with booking(storage=storage, traces=Tracing(content=content)) as agent:
        await agent.run("Book.")
    spans = await spans_of(storage, await only_session(storage))
    assert ("booked at Dover" in repr(spans)) is content


async def test_the_spans_of_a_sub_agent_are_kept_and_exported_once_with_the_turn_above() -> None:
    storage, exporter = MemoryStorage(), Collects()
    worker = Agent(ScriptedProvider(["High at noon."]), name="pilot")
    script = ScriptedProvider([calls("spawn", task="Look."), says("At noon.")])
    agent = Agent(script, subagents=[worker], storage=storage, traces=Tracing(exporter=exporter))
    async with agent, agent.session("s") as session:
        await session.run("When?")
    rows = (await storage.list_sessions()).items
    (below,) = [row.id for row in rows if row.id.startswith("sub_")]
    assert [span.kind for span in await spans_of(storage, below) if span.kind == "turn"] == ["turn"]
    ((spans, _),) = exporter.given
    assert sum(kind == "turn" for kind, _ in spans) == 2


async def test_spans_of_a_turn_that_waited_for_leave_are_kept_once_it_has_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    agent = booking(storage=url, traces=True, permissions="ask")
    async with agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.approve()
        await session.turn_result()
    async with opened(url) as storage:
        spans = await spans_of(storage, "s")
    assert [span.kind for span in spans if span.kind == "turn"] == ["turn"]
    assert sum(span.kind == "tool" for span in spans) == 1


# --- the audit chain


@DOORS
async def test_what_ran_has_its_row_in_a_chain_that_holds(ask: Callable) -> None:
    storage = MemoryStorage()
    async with booking(storage=storage) as agent:
        await ask(agent, "Book.")
    session_id = await only_session(storage)
    (row,) = await rows_of(storage, session_id)
    assert (row.action, row.resource, row.actor) == ("tool.ran", "book", "agent")
    assert isinstance(storage, SupportsAuditCheck)
    assert await storage.verify_audit(session_id) == ()


async def test_an_agent_that_is_closed_has_told_all_that_ran() -> None:
    class Slow(MemoryStorage):
        async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog:
            await asyncio.sleep(0.05)
            return await super().append_audit_log_after(log, seq)

    storage = Slow()
    async with booking(storage=storage) as agent:
        await agent.run("Book.")
    assert len(await rows_of(storage, await only_session(storage))) == 1


@DOORS
async def test_no_row_is_kept_where_none_is_wanted(ask: Callable) -> None:
    storage = MemoryStorage()
    async with booking(storage=storage, audit=False) as agent:
        await ask(agent, "Book.")
    assert await rows_of(storage, await only_session(storage)) == []


async def test_who_asked_for_leave_who_gave_it_and_who_could_not_are_in_the_chain() -> None:
    storage = MemoryStorage()
    agent = booking(storage=storage, permissions="ask")
    async with agent, agent.session("s") as session:
        asked = await asked_of(session, "Book.")
        with pytest.raises(ApprovalRefused):
            await session.approve(asked.approval_id, by="eve", arguments_hash="0" * 32)
        await session.approve(by="ann")
        await session.turn_result()
    rows = await rows_of(storage, "s")
    told = [(row.action, row.actor) for row in rows]
    assert sorted(told) == [
        ("approval.approved", "ann"),
        ("approval.refused", "eve"),
        ("approval.requested", "agent"),
        ("tool.ran", "agent"),
    ]


async def test_no_answer_that_did_not_count_is_told_where_nothing_is_wanted() -> None:
    storage = MemoryStorage()
    agent = booking(storage=storage, permissions="ask", audit=False)
    async with agent, agent.session("s") as session:
        asked = await asked_of(session, "Book.")
        with pytest.raises(ApprovalRefused):
            await session.approve(asked.approval_id, by="eve", arguments_hash="0" * 32)
    assert await rows_of(storage, "s") == []


async def test_what_a_guardrail_stopped_is_in_the_chain() -> None:
    storage = MemoryStorage()
    async with booking(storage=storage, guardrails=[Word("Dover", "tool_results")]) as agent:
        with pytest.raises(GuardrailTripped):
            await agent.run("Book.")
    rows = await rows_of(storage, await only_session(storage))
    assert ("text.stopped", "no Dover") in [(row.action, row.resource) for row in rows]


async def test_what_a_sub_agent_ran_is_in_the_chain_of_its_session() -> None:
    storage = MemoryStorage()
    worker = Agent(
        ScriptedProvider([calls("book", port="Dover"), says("Booked.")]), name="pilot", tools=[book]
    )
    script = ScriptedProvider([calls("spawn", task="Book."), says("Done.")])
    async with Agent(script, subagents=[worker], storage=storage) as agent:
        await agent.run("Book.")
    rows = (await storage.list_sessions()).items
    (below,) = [row.id for row in rows if row.id.startswith("sub_")]
    assert [(row.action, row.resource, row.actor) for row in await rows_of(storage, below)] == [
        ("tool.ran", "book", "pilot")
    ]
