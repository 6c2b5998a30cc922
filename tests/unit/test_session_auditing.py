"""The audit chain of a session: each row once, in the ledger's order, whatever comes in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from session_stage import answered

from gnomon._payload import packed
from gnomon.contracts.storage import AUDIT_ANCHOR
from gnomon.engine.ledger import Read
from gnomon.engine.permissions import arguments_hash
from gnomon.errors import Unavailable
from gnomon.session._audit_rows import Deriving
from gnomon.session._auditing import audited, forked_from, refused
from gnomon.storage.memory import MemoryStorage
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    Claimed,
    Guarded,
    LedgerEntry,
    MessageReceived,
    Released,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.records import AuditLog, LedgerEvent, SessionRecord

SECRET = "sk-live-0123456789abcdef"
START = datetime(2026, 1, 2, tzinfo=UTC)

SEND = ToolCall("c1", "send", '{"to": "ann", "text": "hush"}')
READ = ToolCall("c2", "read", "{}")
DROP = ToolCall("c3", "drop", '{"table": "users"}')
SHOWN = arguments_hash("send", SEND.arguments)


def request(id: str = "a1", call: ToolCall = SEND, **more: Any) -> ApprovalRequested:
    return ApprovalRequested("t1", id, call, arguments_hash(call.name, call.arguments), reason="ask", **more)


def result(call: ToolCall, status: str = "ok", duration_s: float = 0.5) -> ToolFinished:
    return ToolFinished("t1", ToolResult.of(call, "hush, " + SECRET, status=status), duration_s)


STORY: tuple[LedgerEntry, ...] = (
    MessageReceived("u1", Message.user("go")),
    Claimed("runner-1", 1),
    TurnStarted("t1", "clerk", "m"),
    Guarded(turn_id="t1", guardrail="pii", position="input", reason="hush", message_id="u1", replaced=True),
    answered("hush", SEND, READ, DROP),
    request(expires_at=START),
    ApprovalDecided("a1", "approved", "ann", reason="hush", rule="allow send"),
    ToolIntent("t1", "c1", "send", "key-1"),
    result(SEND),
    result(READ),
    result(DROP, "denied", 0.0),
    Claimed("runner-2", 2),
    answered(ToolCall("c1", "send", '{"to": "bob"}'), message_id="m2"),
    request("a2", ToolCall("c1", "send", '{"to": "bob"}'), path=("child",)),
    ApprovalDecided("a2", "denied", "bob"),
    request("a3"),
    ApprovalDecided("a3", "expired", ""),
    ApprovalDecided("lost", "approved", "eve"),
    ToolFinished("t1", ToolResult(call_id="c1", status="truncated")),
    ToolFinished("t1", ToolResult(call_id="c9", name="gone", status="timeout"), 1.0),
    TurnResumed("t1", "hash", by="ann"),
    Guarded(turn_id="t1", guardrail="words", position="tool_results", reason="hush", call_id="c9"),
    TurnFinished("t1", "end_turn", 2),
    Released("runner-2", 2),
)

TOLD = [
    (4, "clerk", "text.redacted", "pii"),
    (6, "clerk", "approval.requested", "send"),
    (7, "ann", "approval.approved", "send"),
    (9, "clerk", "tool.ran", "send"),
    (10, "clerk", "tool.ran", "read"),
    (11, "clerk", "tool.denied", "drop"),
    (12, "runner-2", "session.taken_over", "s"),
    (14, "clerk", "approval.requested", "send"),
    (15, "bob", "approval.denied", "send"),
    (16, "clerk", "approval.requested", "send"),
    (17, "clerk", "approval.expired", "send"),
    (18, "eve", "approval.approved", ""),
    (20, "clerk", "tool.ran", "gone"),
    (21, "ann", "turn.resumed", "clerk"),
    (22, "clerk", "text.stopped", "words"),
]

Open = Callable[[], Any]


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Open]:
    storage = MemoryStorage()
    yield lambda: storage


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Open]:
    opened: list[SQLiteStorage] = []

    def another() -> SQLiteStorage:
        opened.append(SQLiteStorage(f"sqlite:///{folder}/store.db"))
        return opened[-1]

    await another().migrate()
    yield another
    for storage in opened:
        await storage.close()


stores = pytest.mark.parametrize("store", [memory, sqlite], ids=["memory", "sqlite"])


async def write(storage: Any, *entries: LedgerEntry, after: int = 0, session_id: str = "s") -> None:
    events = []
    for seq, entry in enumerate(entries, after + 1):
        stored = packed(entry)
        for blob in stored.blobs:
            await storage.put_blob(blob)
        events.append(
            LedgerEvent(
                session_id=session_id,
                seq=seq,
                id=f"{session_id}-{seq}",
                type=str(entry.__struct_config__.tag),
                payload=stored.payload,
                created_at=START + timedelta(seconds=seq),
                version=stored.version,
            )
        )
    await storage.append_events(events)


async def chain(storage: Any, session_id: str = "s") -> list[AuditLog]:
    assert await storage.verify_audit(session_id) == ()
    rows: list[AuditLog] = []
    cursor = None
    while True:
        page = await storage.list_audit_logs(session_id, cursor=cursor)
        rows.extend(page.items)
        cursor = page.next
        if cursor is None:
            return rows[::-1]


def told(rows: list[AuditLog]) -> list[tuple[object, str, str, str]]:
    return [(row.detail.get("seq"), row.actor, row.action, row.resource) for row in rows]


# --- what is told


@stores
async def test_each_fact_has_a_row_in_the_order_of_the_ledger(store: Any, tmp_path: Path) -> None:
    async with store(tmp_path) as another:
        storage = another()
        await write(storage, *STORY)
        assert await audited(storage, "s")
        rows = await chain(storage)
        assert told(rows) == TOLD
        assert [row.created_at for row in rows] == [START + timedelta(seconds=seq) for seq, *_ in TOLD]


async def test_a_row_names_the_call_and_what_it_was_bound_to() -> None:
    storage = MemoryStorage()
    await write(storage, *STORY)
    await audited(storage, "s")
    details = {row.detail.pop("seq"): row.detail for row in await chain(storage)}
    for detail in details.values():
        assert detail.pop("since") == 2
    assert details[4] == {"turn_id": "t1", "position": "input", "message_id": "u1"}
    asked = {"approval_id": "a1", "call_id": "c1", "arguments_hash": SHOWN}
    assert details[6] == asked
    assert details[7] == {**asked, "always": True}
    ran = {"turn_id": "t1", "call_id": "c1", "status": "ok", "key": "key-1", "arguments_hash": SHOWN}
    assert details[9] == ran
    read = {"turn_id": "t1", "call_id": "c2", "status": "ok", "arguments_hash": arguments_hash("read", "{}")}
    assert details[10] == read
    dropped = arguments_hash("drop", DROP.arguments)
    assert details[11] == {"turn_id": "t1", "call_id": "c3", "status": "denied", "arguments_hash": dropped}
    assert details[12] == {"from": "runner-1", "epoch": 2}
    assert details[15] == {
        "approval_id": "a2",
        "call_id": "c1",
        "arguments_hash": arguments_hash("send", '{"to": "bob"}'),
        "path": ["child"],
    }
    assert details[18] == {"approval_id": "lost"}
    assert details[20] == {"turn_id": "t1", "call_id": "c9", "status": "timeout"}
    assert details[21] == {"turn_id": "t1", "agent_hash": "hash"}
    assert details[22] == {"turn_id": "t1", "position": "tool_results", "call_id": "c9"}


async def test_nothing_of_what_was_said_is_in_a_row() -> None:
    storage = MemoryStorage()
    await write(storage, *STORY)
    await audited(storage, "s")
    for row in await chain(storage):
        assert "hush" not in repr(row)
        assert SECRET not in repr(row)


async def test_a_call_that_was_rewritten_before_it_was_shown_is_told_as_it_was_shown() -> None:
    storage = MemoryStorage()
    shown = ToolCall("c1", "send", '{"to": "nobody"}')
    await write(storage, TurnStarted("t1", "clerk", "m"), answered(SEND), request(call=shown), result(SEND))
    await audited(storage, "s")
    rows = await chain(storage)
    hashes = {row.action: row.detail["arguments_hash"] for row in rows}
    assert hashes["tool.ran"] == hashes["approval.requested"] == arguments_hash("send", shown.arguments)


async def test_a_call_of_the_same_id_in_the_next_message_is_another_one() -> None:
    storage = MemoryStorage()
    again = ToolCall("c1", "send", '{"to": "bob"}')
    await write(
        storage,
        TurnStarted("t1", "clerk", "m"),
        answered(SEND),
        request(),
        ToolIntent("t1", "c1", "send", "key-1"),
        result(SEND),
        answered(again, message_id="m2"),
        result(again),
    )
    await audited(storage, "s")
    last = (await chain(storage))[-1].detail
    assert last["arguments_hash"] == arguments_hash("send", again.arguments)
    assert "key" not in last


async def test_what_a_sub_agent_was_shown_says_nothing_of_a_call_here() -> None:
    storage = MemoryStorage()
    childs = request(call=ToolCall("c1", "other", '{"x": 1}'), path=("child",))
    await write(storage, TurnStarted("t1", "clerk", "m"), answered(SEND), childs, result(SEND))
    await audited(storage, "s")
    assert (await chain(storage))[-1].detail["arguments_hash"] == SHOWN


async def test_what_did_not_run_is_not_told_as_if_it_had() -> None:
    storage = MemoryStorage()
    await write(storage, TurnStarted("t1", "clerk", "m"), answered(SEND), result(SEND, "error", 0.0))
    assert await audited(storage, "s")
    assert await chain(storage) == []


async def test_a_call_that_was_begun_and_then_lost_is_told() -> None:
    storage = MemoryStorage()
    begun = ToolIntent("t1", "c1", "send", "key-1")
    await write(storage, TurnStarted("t1", "clerk", "m"), answered(SEND), begun, result(SEND, "unknown", 0.0))
    await audited(storage, "s")
    (row,) = await chain(storage)
    assert (row.action, row.detail["status"], row.detail["key"]) == ("tool.ran", "unknown", "key-1")


async def test_a_session_that_was_let_go_of_is_not_taken_over() -> None:
    storage = MemoryStorage()
    await write(storage, Claimed("a", 1), Released("a", 1), Claimed("b", 2), Claimed("b", 3), Claimed("c", 4))
    await audited(storage, "s")
    assert told(await chain(storage)) == [(5, "c", "session.taken_over", "s")]


async def test_a_result_whose_turn_is_not_known_is_told_by_nobody_in_particular() -> None:
    storage = MemoryStorage()
    await write(storage, result(READ))
    await audited(storage, "s")
    assert told(await chain(storage)) == [(1, "gnomon", "tool.ran", "read")]


async def test_what_was_set_aside_is_read() -> None:
    storage = MemoryStorage()
    large = ToolCall("c1", "send", '{"text": "' + "x" * 50_000 + '"}')
    await write(storage, TurnStarted("t1", "clerk", "m"), answered(large), result(large))
    await audited(storage, "s")
    (row,) = await chain(storage)
    assert row.detail["arguments_hash"] == arguments_hash("send", large.arguments)


# --- again and again


@stores
async def test_what_was_told_is_not_told_again(store: Any, tmp_path: Path) -> None:
    async with store(tmp_path) as another:
        storage = another()
        await write(storage, *STORY)
        for _ in range(3):
            assert await audited(another(), "s")
        assert told(await chain(storage)) == TOLD


@pytest.mark.parametrize("cut", range(1, len(STORY)))
async def test_what_comes_later_is_told_with_what_it_belongs_to(cut: int) -> None:
    """A call's arguments, its approval and its agent may have been read long before its result is there."""
    whole, storage = MemoryStorage(), MemoryStorage()
    await write(whole, *STORY)
    await audited(whole, "s")
    await write(storage, *STORY[:cut])
    await audited(storage, "s")
    await write(storage, *STORY[cut:], after=cut)
    await audited(storage, "s")
    assert await chain(storage) == await chain(whole)


async def test_the_next_turn_does_not_read_the_one_before_again() -> None:
    class Noting(MemoryStorage):
        async def list_events(self, session_id: str, after_seq: int = 0, *args: Any, **more: Any) -> Any:
            read_from.append(after_seq + 1)
            return await super().list_events(session_id, after_seq, *args, **more)

    storage, read_from = Noting(), list[int]()
    await write(storage, *STORY)
    await audited(storage, "s")
    end = len(STORY)
    await write(storage, Claimed("r", 3), TurnStarted("t2", "other", "m"), result(READ), after=end)
    await audited(storage, "s")
    last = (await chain(storage))[-1]
    assert (last.actor, last.detail["seq"], last.detail["since"]) == ("other", end + 3, end + 1)
    await audited(storage, "s")
    assert read_from == [1, 2, end + 1]


async def test_nothing_is_looked_up_when_nothing_is_to_be_told() -> None:
    class Untouched:
        pass

    quiet = [
        Read(1, STORY[0], START),
        Read(2, STORY[1], START),
        Read(3, TurnFinished("t", "end_turn", 1), START),
    ]
    assert await audited(Untouched(), "s", quiet)  # pyright: ignore[reportArgumentType]
    assert await audited(Untouched(), "s", [])  # pyright: ignore[reportArgumentType]


async def test_what_an_earlier_time_has_left_out_is_told_with_the_next() -> None:
    storage = MemoryStorage()
    await write(storage, *STORY)
    end = len(STORY)
    assert await audited(storage, "s", [Read(end, STORY[-4], START)])  # of the last segment alone
    assert told(await chain(storage)) == TOLD


async def test_rows_of_others_are_left_alone_and_looked_past() -> None:
    storage = MemoryStorage()
    await write(storage, *STORY[:10])
    await audited(storage, "s")
    for number in range(120):  # more than a page
        detail: dict[str, object] = {"seq": 10**6, "since": 1} if number % 2 else {}
        await storage.append_audit_log(
            AuditLog(id=f"x{number}", session_id="s", actor="x", action="x", detail=detail, created_at=START)
        )
    await write(storage, *STORY[10:], after=10)
    assert await audited(storage, "s")
    assert told([row for row in await chain(storage) if row.action != "x"]) == TOLD


async def test_what_was_pruned_is_not_told_again() -> None:
    storage = MemoryStorage()
    await storage.create_session(SessionRecord(id="s", created_at=START, updated_at=START))
    await write(storage, *STORY[:10])
    await audited(storage, "s")
    assert await storage.prune("audit", START + timedelta(days=1)) == 5
    await write(storage, *STORY[10:], after=10)
    assert await audited(storage, "s")
    rows = await chain(storage)
    assert rows[0].action == AUDIT_ANCHOR
    assert told(rows[1:]) == TOLD[5:]


async def test_what_is_left_after_pruning_is_where_it_goes_on() -> None:
    storage = MemoryStorage()
    await storage.create_session(SessionRecord(id="s", created_at=START, updated_at=START))
    await write(storage, *STORY)
    await audited(storage, "s")
    await storage.prune("audit", START + timedelta(seconds=10))
    before = await chain(storage)
    assert await audited(storage, "s")
    assert await chain(storage) == before


# --- what goes wrong


class Failing:
    """A store that fails at the call of that number: before it is done, or after."""

    def __init__(self, storage: Any, at: int, *, done: bool) -> None:
        self._storage = storage
        self._left = at
        self._done = done
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)

        async def call(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.failed = True
                if self._done:
                    await found(*args, **more)
                raise Unavailable(f"no store, and password={SECRET}")
            return await found(*args, **more)

        return call


@stores
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_whatever_call_fails_the_rest_is_told_the_next_time(
    store: Any, done: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with store(tmp_path) as another:
        storage = another()
        for at in range(1, 100):
            session_id = f"s{at}"
            await write(storage, *STORY, session_id=session_id)
            failing = Failing(storage, at, done=done)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert await audited(failing, session_id) is not failing.failed  # pyright: ignore
            if not failing.failed:
                break
            assert f"the audit chain of session {session_id} could not be written: no store" in caplog.text
            assert SECRET not in caplog.text
            rows = await chain(storage, session_id)
            assert [row.detail["seq"] for row in rows] == [seq for seq, *_ in TOLD][: len(rows)]
            assert await audited(storage, session_id)
            assert [row.detail["seq"] for row in await chain(storage, session_id)] == [
                seq for seq, *_ in TOLD
            ]
        assert at == len(TOLD) + 3  # the end of the chain, the ledger, each row


async def test_an_event_that_cannot_be_read_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Emptied(MemoryStorage):
        async def get_blob(self, digest: str) -> bytes | None:
            return None

    storage = Emptied()
    large = ToolCall("c1", "send", '{"text": "' + "x" * 50_000 + '"}')
    await write(storage, TurnStarted("t1", "clerk", "m"), answered(large), result(large))
    assert not await audited(storage, "s")
    assert "event 2 of session 's' cannot be read" in caplog.text
    assert await chain(storage) == []


def test_an_event_that_says_nothing_for_a_row_has_none() -> None:
    assert list(Deriving("s").rows(Read(1, STORY[0], START))) == []


async def test_being_cancelled_is_not_swallowed() -> None:
    class Hanging(MemoryStorage):
        async def list_audit_logs(self, *args: Any, **more: Any) -> Any:
            await asyncio.Event().wait()

    task = asyncio.ensure_future(audited(Hanging(), "s"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# --- two at once


class Together:
    """A store in whose calls two writers wait for one another before each row."""

    def __init__(self, storage: Any, barrier: asyncio.Barrier) -> None:
        self._storage = storage
        self._barrier = barrier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog:
        try:
            async with asyncio.timeout(0.05):
                await self._barrier.wait()
        except (TimeoutError, asyncio.BrokenBarrierError):
            await self._barrier.reset()
        return await self._storage.append_audit_log_after(log, seq)


@stores
async def test_two_who_tell_the_same_tell_it_once(store: Any, tmp_path: Path) -> None:
    async with store(tmp_path) as another:
        storage = another()
        await write(storage, *STORY)
        barrier = asyncio.Barrier(2)
        both = [audited(Together(another(), barrier), "s") for _ in range(2)]  # pyright: ignore
        assert await asyncio.gather(*both) == [True, True]
        assert told(await chain(storage)) == TOLD


@stores
async def test_many_who_tell_the_same_tell_it_once(store: Any, tmp_path: Path) -> None:
    async with store(tmp_path) as another:
        storage = another()
        await write(storage, *STORY)
        assert all(await asyncio.gather(*(audited(another(), "s") for _ in range(6))))
        assert told(await chain(storage)) == TOLD


async def test_a_chain_that_others_write_all_the_time_is_left_for_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Crowded(MemoryStorage):
        async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog:
            await self.append_audit_log(
                AuditLog(id="x", session_id="s", actor="x", action="x", created_at=START)
            )
            return await super().append_audit_log_after(log, seq)

    storage = Crowded()
    await write(storage, *STORY)
    assert not await audited(storage, "s")
    assert "is written by too many at once" in caplog.text


async def test_a_store_that_knows_no_better_is_given_the_rows_all_the_same() -> None:
    class Plain:
        def __init__(self, storage: MemoryStorage) -> None:
            self._storage = storage

        def __getattr__(self, name: str) -> Any:
            if name in ("append_audit_log_after", "put_blob"):
                raise AttributeError(name)
            return getattr(self._storage, name)

    storage = MemoryStorage()
    await write(storage, *STORY)
    for _ in range(2):
        assert await audited(Plain(storage), "s")  # pyright: ignore[reportArgumentType]
    assert told(await chain(storage)) == TOLD


# --- what the ledger does not know


async def test_an_answer_that_did_not_count_is_told() -> None:
    storage = MemoryStorage()
    await write(storage, *STORY[:6])
    await audited(storage, "s")
    assert await refused(storage, "s", "a1", "eve", f"too late, password={SECRET}", tool="send")
    await write(storage, *STORY[6:], after=6)
    await audited(storage, "s")
    rows = await chain(storage)
    row = rows.pop(2)
    assert (row.actor, row.action, row.resource) == ("eve", "approval.refused", "send")
    assert row.detail["approval_id"] == "a1"
    assert str(row.detail["why"]).startswith("too late")
    assert SECRET not in repr(row)
    assert told(rows) == TOLD


async def test_each_answer_that_did_not_count_has_its_row() -> None:
    storage = MemoryStorage()
    for _ in range(2):
        assert await refused(storage, "s", "a1", "", "twice")
    rows = await chain(storage)
    assert [row.actor for row in rows] == ["gnomon", "gnomon"]
    assert rows[0].id != rows[1].id


async def test_an_answer_that_cannot_be_told_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(MemoryStorage(), 1, done=False)
    assert not await refused(failing, "s", "a1", "eve", "twice")  # pyright: ignore[reportArgumentType]
    assert "approval.refused of session s could not be audited: no store" in caplog.text
    assert SECRET not in caplog.text


async def test_a_copy_tells_what_happens_in_it_alone() -> None:
    storage = MemoryStorage()
    await write(storage, *STORY, session_id="copy")
    end = len(STORY)
    assert await forked_from(storage, "copy", "s", end, by="ann")
    await write(storage, TurnStarted("t2", "clerk", "m"), result(READ), after=end, session_id="copy")
    assert await audited(storage, "copy")
    assert told(await chain(storage, "copy")) == [
        (end, "ann", "session.forked", "s"),
        (end + 2, "clerk", "tool.ran", "read"),
    ]
