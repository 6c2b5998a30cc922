"""Spans in the store: written once, made anew when they are lost, and never in the way of a turn."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from session_stage import write
from traced import STARTED, answered, asked, by_kind, only

from gnomon import Agent, tool
from gnomon.errors import StorageError, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.session import _tracing
from gnomon.session._tracing import rebuild, write_traces
from gnomon.storage.memory import MemoryStorage
from gnomon.tracing import Parent, Tracing
from gnomon.types.events import (
    LedgerEntry,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.records import LedgerEvent, Trace, utc_now

PAY = ToolCall("c1", "pay")
TURN = (
    STARTED,
    asked(),
    answered("I pay.", PAY),
    ToolFinished("t1", ToolResult.of(PAY, "paid")),
    asked("m2"),
    answered("Paid.", message_id="m2"),
    TurnFinished("t1", "end_turn", 2),
)
KINDS = ["turn", "model", "tool", "model"]


class Kept:
    """An exporter that keeps what it is given."""

    def __init__(self) -> None:
        self.turns: list[list[Trace]] = []
        self.parents: list[Parent | None] = []
        self.threads: list[str] = []

    def here(self) -> Parent:
        return {}

    def export(self, spans: Sequence[Trace], parent: Parent | None = None) -> None:
        self.turns.append(list(spans))
        self.parents.append(parent)
        self.threads.append(threading.current_thread().name)


class Counted(MemoryStorage):
    """A store that tells in which order spans came, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[Trace] = []
        self.fails_after: int | None = None
        self.pages: list[int] = []
        self.tries = 0
        self.refused = ""

    async def insert_trace(self, trace: Trace) -> None:
        self.tries += 1
        if trace.kind == self.refused or (
            self.fails_after is not None and len(self.came) >= self.fails_after
        ):
            raise Unavailable("the store is away: postgres://me:hunter2@db/x")
        await super().insert_trace(trace)
        self.came.append(trace)

    async def list_events(self, session_id: str, after_seq: int = 0, *args: Any, **more: Any) -> Any:
        self.pages.append(after_seq)
        return await super().list_events(session_id, after_seq, *args, **more)


async def stored(store: MemoryStorage, session_id: str = "s") -> list[Trace]:
    return list((await store.list_traces(session_id, 1_000)).items)


async def told(*entries: LedgerEntry) -> Counted:
    store = Counted()
    await write(store, *entries)
    return store


# --- writing ---------------------------------------------------------------------


async def test_the_spans_of_a_turn_are_stored_its_own_last() -> None:
    store = await told(*TURN)
    await write_traces(store, "s", "t1", Tracing())
    assert sorted(trace.kind for trace in store.came) == sorted(KINDS)
    assert store.came[-1].kind == "turn"
    assert all(trace.ended_at for trace in await stored(store))


async def test_writing_twice_is_harmless_and_exports_once() -> None:
    store, kept = await told(*TURN), Kept()
    for _ in range(2):
        await write_traces(store, "s", "t1", Tracing(exporter=kept))
    assert len(await stored(store)) == 4
    assert [[trace.kind for trace in turn] for turn in kept.turns] == [KINDS]


async def test_two_who_write_at_the_same_time_export_once() -> None:
    store, kept = await told(*TURN), Kept()
    await asyncio.gather(*(write_traces(store, "s", "t1", Tracing(exporter=kept)) for _ in range(5)))
    assert len(kept.turns) == 1


async def test_a_turn_that_is_open_is_stored_as_far_as_it_is_known_and_ended_later() -> None:
    store, kept = await told(*TURN[:3]), Kept()
    await write_traces(store, "s", "t1", Tracing(exporter=kept))
    assert [trace.kind for trace in await stored(store) if trace.ended_at is None] == ["turn"]
    assert kept.turns == []
    await write(store, *TURN[3:], after=3)
    await write_traces(store, "s", "t1", Tracing(exporter=kept))
    assert all(trace.ended_at for trace in await stored(store))
    assert len(kept.turns) == 1


async def test_only_the_turn_that_is_meant_is_written() -> None:
    later = (TurnStarted("t2", "shop", "m"), TurnFinished("t2", "end_turn", 0))
    store = await told(*TURN, *later)
    await write_traces(store, "s", "t2", Tracing())
    assert [trace.attributes["turn_id"] for trace in await stored(store)] == ["t2"]
    await write_traces(store, "s", "t3", Tracing())
    await write_traces(store, "nobody", "t1", Tracing())
    assert len(await stored(store)) == 1


async def test_the_ledger_is_read_from_where_the_turn_begins() -> None:
    store = await told(*TURN, TurnStarted("t2", "shop", "m"), TurnFinished("t2", "end_turn", 0))
    await write_traces(store, "s", "t2", Tracing(), after_seq=7)
    assert store.pages == [7]
    assert len(await stored(store)) == 1


async def test_content_is_stored_when_it_is_asked_for() -> None:
    store = await told(*TURN)
    await write_traces(store, "s", "t1", Tracing())
    assert {(trace.input, trace.output) for trace in await stored(store)} == {(None, None)}
    store = await told(*TURN)
    await write_traces(store, "s", "t1", Tracing(content=True))
    assert only(await stored(store), "tool").output == "paid"


async def test_the_parent_reaches_the_exporter_which_works_in_a_thread_of_its_own() -> None:
    """One that waits for the network must not hold up the event loop."""
    store, kept = await told(*TURN), Kept()
    await write_traces(store, "s", "t1", Tracing(exporter=kept), parent={"traceparent": "x"})
    assert kept.parents == [{"traceparent": "x"}]
    assert kept.threads != [threading.current_thread().name]


# --- nothing breaks a turn ----------------------------------------------------------


@pytest.mark.parametrize("fails_after", [0, 3])
async def test_a_store_that_is_away_is_logged_and_no_more(
    fails_after: int, caplog: pytest.LogCaptureFixture
) -> None:
    store, kept = await told(*TURN), Kept()
    store.fails_after = fails_after
    with caplog.at_level(logging.WARNING):
        await write_traces(store, "s", "t1", Tracing(exporter=kept))
    (record,) = caplog.records
    assert "turn t1 were not written: Unavailable" in record.getMessage()
    assert "hunter2" not in caplog.text
    assert kept.turns == [], "what does not stand is not told"


async def test_the_turn_itself_is_not_written_before_all_below_it_stands() -> None:
    """It says that the turn is told whole: who finds it there writes nothing more."""
    store, kept = await told(*TURN), Kept()
    store.refused = "tool"
    await write_traces(store, "s", "t1", Tracing(exporter=kept))
    assert [trace.kind for trace in await stored(store)] == ["model", "model"]
    assert kept.turns == []


async def test_an_exporter_that_fails_is_logged_and_the_spans_stand(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Kept):
        def export(self, spans: Sequence[Trace], parent: Parent | None = None) -> None:
            raise RuntimeError("no collector at http://me:hunter2@collector")

    store = await told(*TURN)
    with caplog.at_level(logging.WARNING):
        await write_traces(store, "s", "t1", Tracing(exporter=Broken()))
    assert "no collector" in caplog.text
    assert "hunter2" not in caplog.text
    assert len(await stored(store)) == 4


async def test_a_store_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Hanging(Counted):
        async def insert_trace(self, trace: Trace) -> None:
            await asyncio.Event().wait()

    store = Hanging()
    await write(store, *TURN)
    monkeypatch.setattr(_tracing, "_LIMIT_S", 0.01)
    with caplog.at_level(logging.WARNING):
        await write_traces(store, "s", "t1", Tracing())
    assert "TimeoutError" in caplog.text


async def test_whoever_cancels_is_heard() -> None:
    class Hanging(Counted):
        async def insert_trace(self, trace: Trace) -> None:
            await asyncio.Event().wait()

    store = Hanging()
    await write(store, *TURN)
    writing = asyncio.ensure_future(write_traces(store, "s", "t1", Tracing()))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing


async def test_an_event_that_cannot_be_read_costs_no_other_span(caplog: pytest.LogCaptureFixture) -> None:
    store = await told(*TURN[:3])
    broken = LedgerEvent(
        session_id="s", seq=4, id="x", type="tool_finished", payload=b"{", created_at=utc_now()
    )
    await store.append_events([broken])
    await write(store, *TURN[4:], after=4)
    with caplog.at_level(logging.WARNING):
        await write_traces(store, "s", "t1", Tracing())
    found = await stored(store)
    assert sorted(trace.kind for trace in found) == sorted(KINDS)
    assert only(found, "tool").error == "interrupted"
    assert "event 4" in caplog.text


# --- making them anew -----------------------------------------------------------------


async def test_what_was_never_written_is_made_from_the_ledger() -> None:
    second = (TurnStarted("t2", "shop", "m"), TurnFinished("t2", "end_turn", 0))
    store, kept = await told(*TURN, *second, TurnStarted("t3", "shop", "m")), Kept()
    assert await rebuild(store, "s", Tracing(exporter=kept)) == 6
    assert [trace.attributes["turn_id"] for trace in by_kind(await stored(store), "turn")] == [
        "t1",
        "t2",
        "t3",
    ]
    assert [turn[0].attributes["turn_id"] for turn in kept.turns] == ["t1", "t2"], "one is open"


async def test_a_rebuild_gives_what_the_writer_would_have_written() -> None:
    written, rebuilt = await told(*TURN), Counted()
    for event in (await written.list_events("s", 0, 100)).items:
        await rebuilt.append_events([event])
    await write_traces(written, "s", "t1", Tracing())
    assert await rebuild(rebuilt, "s") == 4
    assert await stored(rebuilt) == await stored(written)


async def test_a_rebuild_of_what_stands_changes_nothing() -> None:
    store, kept = await told(*TURN), Kept()
    await write_traces(store, "s", "t1", Tracing(exporter=kept))
    before = store.tries
    assert await rebuild(store, "s", Tracing(exporter=kept)) == 0
    assert store.tries == before
    assert len(kept.turns) == 1


async def test_a_writer_that_died_in_the_midst_is_made_good() -> None:
    store, kept = await told(*TURN), Kept()
    store.fails_after = 2
    await write_traces(store, "s", "t1", Tracing(exporter=kept))
    store.fails_after = None
    assert len(await stored(store)) == 2
    assert await rebuild(store, "s", Tracing(exporter=kept)) == 2
    assert len(await stored(store)) == 4
    assert len(kept.turns) == 1


async def test_whoever_asks_for_a_rebuild_hears_why_it_failed() -> None:
    store = await told(*TURN)
    store.fails_after = 0
    with pytest.raises(StorageError):
        await rebuild(store, "s")


async def test_more_spans_than_a_page_are_known_again() -> None:
    turns = [
        entry
        for at in range(250)
        for entry in (TurnStarted(f"t{at}", "shop", "m"), TurnFinished(f"t{at}", "end_turn", 0))
    ]
    store = await told(*turns)
    assert await rebuild(store, "s") == 250
    assert await rebuild(store, "s") == 0


# --- sub-agents -----------------------------------------------------------------------


async def test_what_a_sub_agent_did_is_exported_below_it() -> None:
    store, kept = Counted(), Kept()
    child = (TurnStarted("c1", "helper", "m"), asked("x"), TurnFinished("c1", "end_turn", 0))
    child = (child[0], msgspec.structs.replace(child[1], turn_id="c1"), child[2])
    started = SubagentStarted("t1", "sub", "child", "helper")
    await write(store, STARTED, started)
    await write(store, *child, session_id="child")
    await write_traces(store, "child", "c1", Tracing())
    await write(store, SubagentFinished("t1", "sub", "finished"), TURN[-1], after=2)
    # The same session is asked again, by a later turn: that is not of this one.
    later = (TurnStarted("c2", "helper", "m"), TurnFinished("c2", "end_turn", 0))
    await write(store, *later, after=3, session_id="child")
    await write_traces(store, "child", "c2", Tracing())
    await write_traces(store, "s", "t1", Tracing(exporter=kept))
    (whole,) = kept.turns
    assert sorted((trace.session_id, trace.kind) for trace in whole) == [
        ("child", "model"),
        ("child", "turn"),
        ("s", "subagent"),
        ("s", "turn"),
    ]
    inner = next(trace for trace in whole if trace.session_id == "child" and trace.kind == "turn")
    assert inner.parent_id == only(whole, "subagent").id
    model = only(whole, "model")
    assert model.parent_id == inner.id
    assert len(await stored(store)) == 2, "what is stored stays in its session"


# --- what an agent has written ----------------------------------------------------------


@tool
def read(page: int) -> str:
    """Read a long page."""
    return "x" * 50_000


@pytest.mark.parametrize("content", [False, True])
async def test_texts_that_are_kept_aside_are_read_when_they_are_wanted(content: bool) -> None:
    store = Counted()
    fetched: list[str] = []
    get_blob = store.get_blob

    async def counting(digest: str) -> bytes | None:
        fetched.append(digest)
        return await get_blob(digest)

    script = [calls("read", page=1).expecting(text="y" * 100), says("Read.")]
    async with Agent(ScriptedProvider(script), tools=[read], storage=store, audit=False) as agent:
        turn = await agent.session("s").run(Message.user("y" * 20_000))
        store.get_blob = counting  # type: ignore[method-assign]
        await write_traces(store, "s", turn.id, Tracing(content=content))
    found = await stored(store)
    assert sorted(trace.kind for trace in found) == sorted(KINDS)
    assert bool(fetched) is content
    if content:
        assert only(found, "turn").input[0]["parts"][0]["content"] == "y" * 20_000  # type: ignore[index]
