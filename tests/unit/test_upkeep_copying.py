"""Everything of one store comes into another; interrupted anywhere, it ends the same."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import stored
from gnomon.contracts.storage import SupportsTenants
from gnomon.errors import Conflict, Damaged, StorageError
from gnomon.storage._audit import audit_row
from gnomon.storage._records import RecordStorage
from gnomon.types.records import Checkpoint, Page, SessionRecord
from gnomon.upkeep import Tally, copy, session_hash, verify
from gnomon.upkeep._walk import sessions
from stored import audit, checkpoint, event, events, in_file, memory, opened, session, trace

SOAK = os.environ.get("GNOMON_SOAK") == "1"


@asynccontextmanager
async def two_stores() -> AsyncGenerator[tuple[RecordStorage, RecordStorage], None]:
    async with opened("memory://") as source, opened("memory://") as target:
        yield source, target


# --- all of it --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["memory to file", "file to memory", "file to file"])
async def test_what_is_copied_has_the_same_hashes(way: str, tmp_path: Path) -> None:
    kinds = way.split(" to ")
    urls = [
        in_file(tmp_path / f"{number}.db") if kind == "file" else "memory://"
        for number, kind in enumerate(kinds)
    ]
    async with opened(urls[0]) as source, opened(urls[1]) as target:
        await stored.fill(source)
        done = await copy(source, target)
        wanted = await stored.hashes(source)
        assert await stored.hashes(target) == wanted
        assert (await verify(target)).is_sound
    sessions = len([key for key in wanted if key[1] not in ("", "memory")])
    assert (done.tenants, done.sessions, done.skipped, done.memory) == (2, sessions, 0, 10)
    assert done.blobs == 4
    assert done.missing_blobs == 0
    assert done.bytes > 300_000


async def test_blobs_come_along_and_the_log_can_be_read(tmp_path: Path) -> None:
    async with two_stores() as (source, target):
        large = await stored.large_event(source, "s", 1, "x" * 50_000, b"y" * 50_000)
        await source.create_session(session("s"))
        await source.append_event(large)
        assert (await copy(source, target)).blobs == 2
        assert (await verify(target)).is_sound


async def test_a_second_copy_finds_everything_there_and_writes_nothing() -> None:
    async with two_stores() as (source, target):
        await stored.fill(source)
        first = await copy(source, target)
        again = await copy(source, target)
    assert again.skipped == again.sessions == first.sessions
    assert (again.events, again.blobs, again.memory, again.bytes) == (0, 0, 0, 0)


async def test_the_latest_checkpoint_stays_the_latest_among_equals() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        await source.append_events(events("s", 1, 4))
        for name in ("b", "c", "a"):
            await source.save_checkpoint(checkpoint(name, "s", 3))
        await copy(source, target)
        latest = await target.get_latest_checkpoint("s")
        assert latest is not None
        assert latest.id == "a"


async def test_a_target_that_has_them_in_another_order_gets_the_latest_last() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        for store, names in ((source, "ab"), (target, "ba")):
            for name in names:
                await store.save_checkpoint(checkpoint(name, "s", 3))
        await copy(source, target)
        latest = await target.get_latest_checkpoint("s")
        assert latest is not None
        assert latest.id == "b"


async def test_a_list_that_does_not_tell_the_latest_among_equals_is_no_trouble() -> None:
    class ById(Plain):
        def scoped(self, tenant: str) -> ById:
            return ById(self._store.scoped(tenant))

        async def list_checkpoints(self, session_id: str, *_: object, **__: object) -> Page[Checkpoint]:
            page = await self._store.list_checkpoints(session_id)
            return Page(tuple(sorted(page.items, key=lambda row: (row.seq, row.id))))

    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        for name in "bca":
            await source.save_checkpoint(checkpoint(name, "s", 3))
        await copy(ById(source), target)  # type: ignore[arg-type]
        assert [row.id for row in (await target.list_checkpoints("s")).items] == ["b", "c", "a"]


async def test_a_chain_whose_pruning_was_interrupted_is_copied_from_its_anchor_on() -> None:
    async with two_stores() as (source, target), opened("memory://") as pruned:
        for store in (source, pruned):
            for number in range(5):
                await store.append_audit_log(audit(f"row {number}", "", number))
        rows = (await source.list_audit_logs("")).items
        await pruned.prune("audit", stored.at(2.5))
        anchor = (await pruned.list_audit_logs("")).items[-1]
        await source._set_anchor(rows[-anchor.seq])
        await source._rows.write("default", audit_row(anchor), None)  # and then it was killed
        assert len((await source.list_audit_logs("")).items) == len(rows)
        await copy(source, target)
        assert (await target.list_audit_logs("")).items == (await pruned.list_audit_logs("")).items
        assert await session_hash(source, "") == await session_hash(pruned, "")
        assert await target.verify_audit("") == ()


async def test_only_the_tenants_that_are_named_are_copied() -> None:
    async with two_stores() as (source, target):
        await stored.fill(source)
        assert (await copy(source, target, tenants=["default"])).tenants == 1
        assert (await target.list_tenants()).items == ("default",)


async def test_what_else_the_target_holds_stays() -> None:
    async with two_stores() as (source, target):
        await stored.fill(source)
        await target.create_session(session("own"))
        await target.append_event(event("own", 1))
        await target.put_memory(memory("own", "a key of its own"))
        before = await session_hash(target, "own")
        await copy(source, target)
        assert await session_hash(target, "own") == before
        assert (await target.get_memory("", "a key of its own")) == memory("own", "a key of its own")


async def test_what_was_done_is_told_on_the_way() -> None:
    told: list[tuple[str, int, int]] = []

    def note(tally: Tally) -> None:
        told.append((tally.tenant, tally.sessions, tally.events))

    async with two_stores() as (source, target):
        await stored.fill(source)
        done = await copy(source, target, progress=note)
    assert told[-1][1:] == (done.sessions, done.events)
    assert [sessions for _, sessions, _ in told] == sorted(sessions for _, sessions, _ in told)
    assert {tenant for tenant, _, _ in told} == set(stored.TENANTS)


# --- a store of somebody else -----------------------------------------------------


class Plain:
    """A store that offers the contract and nothing else."""

    _HIDDEN = frozenset({"list_tenants", "put_blob", "begin_log", "status", "verify_audit", "prune"})

    def __init__(self, store: RecordStorage) -> None:
        self._store = store

    def scoped(self, tenant: str) -> Plain:
        return Plain(self._store.scoped(tenant))

    def __getattr__(self, name: str) -> object:
        if name in self._HIDDEN:
            raise AttributeError(name)
        return getattr(self._store, name)


async def test_a_store_without_further_powers_is_copied_as_it_shows_itself() -> None:
    async with two_stores() as (source, target):
        for store in (source, source.scoped("other")):
            await store.create_session(session("s"))
            await store.append_events(events("s", 1, 3))
        assert not isinstance(Plain(source), SupportsTenants)
        done = await copy(Plain(source), Plain(target))  # type: ignore[arg-type]
        assert (done.tenants, done.sessions, done.events) == (1, 1, 3)
        assert await session_hash(target, "s") == await session_hash(source, "s")


async def test_a_store_that_cannot_take_blobs_or_a_pruned_log_says_so() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        await source.append_event(await stored.large_event(source, "s", 1, "x" * 50_000))
        with pytest.raises(StorageError, match="keeps no blobs"):
            await copy(source, Plain(target))  # type: ignore[arg-type]
    async with two_stores() as (source, target):
        await stored.fill_pruned(source, "u")
        with pytest.raises(StorageError, match="begins with event 21"):
            await copy(source, Plain(target))  # type: ignore[arg-type]


# --- going on ---------------------------------------------------------------------


async def test_a_source_that_went_on_is_copied_forward() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        await source.append_events(events("s", 1, 3))
        await source.save_checkpoint(checkpoint("c", "s", 2))
        await source.insert_trace(trace("span", "s", is_open=True))
        await source.append_audit_log(audit("one", "s"))
        await source.put_memory(memory("m", "key"))
        await copy(source, target)

        await source.append_events(events("s", 4, 6))
        row = session("s", last_seq=6, status="closed")
        for _ in range(3):
            row = await source.update_session(row)
        await source.save_checkpoint(checkpoint("c", "s", 5))
        await source.insert_trace(trace("span", "s"))
        await source.append_audit_log(audit("two", "s"))
        await source.put_memory(memory("m", "key", 9, value="another"))
        done = await copy(source, target)
        assert (done.events, done.memory, done.skipped) == (3, 1, 0)
        assert await stored.hashes(target, ["default"]) == await stored.hashes(source, ["default"])


class Crashed(Exception):
    pass


WRITES = {
    "create_session",
    "update_session",
    "append_events",
    "begin_log",
    "save_checkpoint",
    "insert_trace",
    "append_audit_log",
    "put_memory",
    "put_blob",
}


class Crashing:
    """A store that dies after so many writes: the last of them may have been done, or not."""

    def __init__(self, store: RecordStorage, left: list[int], *, done: bool) -> None:
        self._store, self._left, self._done = store, left, done

    def scoped(self, tenant: str) -> Crashing:
        return Crashing(self._store.scoped(tenant), self._left, done=self._done)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)
        return self._counted(found) if name in WRITES else found

    def _counted(self, write: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def counted(*arguments: object) -> object:
            self._left[0] -= 1
            if self._left[0] < 0:
                raise Crashed
            result = await write(*arguments)
            if self._left[0] == 0 and self._done:
                raise Crashed
            return result

        return counted


async def test_interrupted_after_any_write_it_ends_complete_when_run_again() -> None:
    async with opened("memory://") as source:
        await stored.fill(source, sessions=2)
        wanted = await stored.hashes(source)
        left = [1_000_000]
        async with opened("memory://") as target:
            await copy(source, Crashing(target, left, done=False))  # type: ignore[arg-type]
        writes = 1_000_000 - left[0]
        assert writes > 60
        for number in range(0, writes, 1 if SOAK else 3):
            async with opened("memory://") as target:
                with pytest.raises(Crashed):
                    await copy(source, Crashing(target, [number], done=number % 2 == 0))  # type: ignore[arg-type]
                await copy(source, target)
                assert await stored.hashes(target) == wanted, f"interrupted at write {number}"


async def test_a_session_that_was_not_copied_to_its_end_is_not_listed() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        await source.append_events(events("s", 1, 700))
        with pytest.raises(Crashed):
            await copy(source, Crashing(target, [2], done=True))  # type: ignore[arg-type]
        assert len((await target.list_events("s", limit=1_000)).items) == 400
        assert (await target.list_sessions()).items == ()


_COPY = """
import asyncio, sys
import stored
from gnomon.upkeep import copy

async def main():
    async with stored.opened(sys.argv[1]) as source, stored.opened(sys.argv[2]) as target:
        print("begun", flush=True)
        await copy(source, target)

asyncio.run(main())
"""


def started(source: str, target: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(Path(stored.__file__).parent)}
    command = [sys.executable, "-c", _COPY, source, target]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


async def test_a_copy_that_is_killed_again_and_again_ends_complete(tmp_path: Path) -> None:
    source, target = in_file(tmp_path / "from.db"), in_file(tmp_path / "to.db")
    async with opened(source) as store:
        await stored.fill(store, sessions=60 if SOAK else 25)
        wanted = await stored.hashes(store)
    whole_s = await asyncio.to_thread(_time_of, source, in_file(tmp_path / "measured.db"))
    chance = random.Random(os.environ.get("GNOMON_TEST_SEED", "1"))
    killed = 0
    for _ in range(40 if SOAK else 6):
        killed += await asyncio.to_thread(_killed, source, target, chance.uniform(0, whole_s / 2))
    assert killed
    async with opened(source) as store, opened(target) as other:
        await copy(store, other)
        assert await stored.hashes(other) == wanted
        assert (await verify(other)).is_sound


def _time_of(source: str, target: str) -> float:
    """How long the whole of it takes here, once Python is up."""
    process = started(source, target)
    assert process.stdout is not None
    process.stdout.readline()
    begun = time.monotonic()
    process.communicate(timeout=100)
    assert process.returncode == 0
    return time.monotonic() - begun


def _killed(source: str, target: str, after_s: float) -> bool:
    process = started(source, target)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after_s)
    process.kill()
    process.communicate(timeout=100)
    return process.returncode == -signal.SIGKILL


# --- what differs -----------------------------------------------------------------


async def a_session(store: RecordStorage) -> None:
    await store.create_session(session("s", last_seq=3))
    await store.update_session(session("s", last_seq=3))
    await store.append_events(events("s", 1, 3))
    await store.save_checkpoint(checkpoint("c", "s", 2, a=1))
    await store.insert_trace(trace("span", "s"))
    await store.append_audit_log(audit("one", "s"))
    await store.put_memory(memory("m", "key", 5))


async def _other_row(store: RecordStorage) -> None:
    await store.create_session(session("s", last_seq=3))
    await store.update_session(session("s", last_seq=3, title="another"))


async def _later_row(store: RecordStorage) -> None:
    await a_session(store)
    await store.update_session(session("s", last_seq=3, revision=1))


async def _more_audit_rows(store: RecordStorage) -> None:
    await store.append_audit_log(audit("one", "s"))
    await store.append_audit_log(audit("two", "s"))


async def _ahead(store: RecordStorage) -> None:
    await store.append_events(events("s", 1, 4))


async def _earlier_start(store: RecordStorage) -> None:
    await store.begin_log(events("s", 2, 3))


DIFFERENT: dict[str, Callable[[RecordStorage], Awaitable[object]]] = {
    "another row": _other_row,
    "a later row": _later_row,
    "the row of an older one": lambda store: store.create_session(session("s", minutes=-1)),
    "the row of a later one": lambda store: store.create_session(session("s", minutes=1)),
    "the row of another agent's": lambda store: store.create_session(session("s", agent_id="a")),
    "a row that is ahead": lambda store: store.create_session(session("s", last_seq=4)),
    "another event": lambda store: store.append_event(event("s", 1, b"other")),
    "more events": _ahead,
    "another start": _earlier_start,
    "another audit row": lambda store: store.append_audit_log(audit("other", "s")),
    "more audit rows": _more_audit_rows,
    "another checkpoint": lambda store: store.save_checkpoint(checkpoint("c", "s", 9)),
    "the checkpoint of another": lambda store: store.save_checkpoint(checkpoint("c", "z", 2)),
    "one checkpoint more": lambda store: store.save_checkpoint(checkpoint("d", "s", 2)),
    "another trace": lambda store: store.insert_trace(trace("span", "z")),
    "one trace more": lambda store: store.insert_trace(trace("more", "s")),
}


@pytest.mark.parametrize("what", DIFFERENT)
async def test_what_differs_in_the_target_is_named_and_not_written_over(what: str) -> None:
    async with two_stores() as (source, target):
        await a_session(source)
        await DIFFERENT[what](target)
        before = await everything(target)
        with pytest.raises(Conflict, match="session 's'"):
            await copy(source, target)
        after = await everything(target)
        assert {key: after.get(key) for key in before} == before
        if ("session", "s") in before:
            assert after == before, "a session was begun that cannot be"
        assert ("session", "s") in before or ("session", "s") not in after, "half a session is listed"


async def everything(store: RecordStorage) -> dict[tuple[str, str], object]:
    """What there is of the sessions `s` and `z`, by kind and id."""
    found: dict[tuple[str, str], object] = {("memory", ""): (await store.list_memory()).items}
    for name in ("s", "z"):
        found |= {("session", row.id): row for row in (await store.list_sessions()).items}
        found |= {("event", f"{name} {one.seq}"): one for one in (await store.list_events(name)).items}
        found |= {("audit", f"{name} {one.seq}"): one for one in (await store.list_audit_logs(name)).items}
        found |= {("trace", one.id): one for one in (await store.list_traces(name)).items}
        found |= {("checkpoint", one.id): one for one in (await store.list_checkpoints(name)).items}
    return found


@pytest.mark.parametrize("what", ["another event", "more events", "another audit row", "more audit rows"])
async def test_where_a_log_differs_the_rest_of_the_session_is_not_touched(what: str) -> None:
    """Two stores that went on apart from one copy: neither's checkpoints are any use to the other."""
    async with two_stores() as (source, target):
        await a_session(source)
        await source.delete_memory("m")
        await source.save_checkpoint(checkpoint("c", "s", 3))
        await DIFFERENT[what](target)
        await target.save_checkpoint(checkpoint("c", "s", 1))
        await target.insert_trace(trace("span", "s", is_open=True))
        chain = (await target.list_audit_logs("s")).items
        with pytest.raises(Conflict, match="session 's'"):
            await copy(source, target)
        assert (await target.list_audit_logs("s")).items == chain
        assert (await target.list_checkpoints("s")).items == (checkpoint("c", "s", 1),)
        assert (await target.list_traces("s")).items == (trace("span", "s", is_open=True),)


async def test_other_memory_under_the_same_id_is_not_written_over() -> None:
    for other in (memory("m", "key", 9), memory("m", "another key", 5), memory("m", "key", 5, value=1)):
        async with two_stores() as (source, target):
            await a_session(source)
            await target.put_memory(other)
            with pytest.raises(Conflict, match="memory 'm'"):
                await copy(source, target)
            assert (await target.list_memory()).items == (other,)


async def test_memory_that_does_not_arrive_is_noticed() -> None:
    class Forgetful(Plain):
        def scoped(self, tenant: str) -> Forgetful:
            return Forgetful(self._store.scoped(tenant))

        async def put_memory(self, record: object) -> None:
            pass

    async with two_stores() as (source, target):
        await source.put_memory(memory("m", "key"))
        with pytest.raises(Conflict, match="memory in the target"):
            await copy(source, Forgetful(target))  # type: ignore[arg-type]


async def test_every_session_is_met_once_though_others_are_created_meanwhile() -> None:
    async with opened("memory://") as store:
        names = [f"s{number:04}" for number in range(650)]
        for number, name in enumerate(names):
            await store.create_session(session(name, minutes=number))
        met: list[str] = []
        async for row in sessions(store):
            met.append(row.id)
            await store.create_session(session(f"new {row.id}", minutes=10_000 + len(met)))
        assert met == names


async def test_a_chain_that_was_tampered_with_is_not_made_good_by_copying() -> None:
    async with two_stores() as (source, target):
        await a_session(source)
        row = (await source.list_audit_logs("s")).items[0]
        edited = msgspec.structs.replace(row, actor="eve")
        await source._rows.write("default", audit_row(edited), None)
        with pytest.raises(Damaged, match="session 's'"):
            await copy(source, target)
        assert (await target.list_audit_logs("s")).items == ()


async def test_a_blob_that_is_missing_in_the_source_is_told_and_the_rest_is_copied() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("s"))
        await source.append_event(await stored.large_event(source, "s", 1, "x" * 50_000))
        await source.sweep_blobs(set(), stored.at(10_000_000))
        done = await copy(source, target)
        assert (done.missing_blobs, done.sessions) == (1, 1)
        assert [finding.flaw for finding in (await verify(target)).found] == ["missing_blob"]


async def test_one_of_several_failures_is_raised_as_itself() -> None:
    async with two_stores() as (source, target):
        for number in range(20):
            await source.create_session(session(f"s{number}", minutes=number))
            await target.create_session(session(f"s{number}", minutes=number, title="x"))
        with pytest.raises(Conflict, match="session 's"):
            await copy(source, target)


async def test_a_session_that_goes_away_meanwhile_is_left_out() -> None:
    async with two_stores() as (source, target):
        await source.create_session(session("gone"))

        class Forgetful(Plain):
            def scoped(self, tenant: str) -> Forgetful:
                return Forgetful(self._store.scoped(tenant))

            async def get_session(self, session_id: str) -> SessionRecord | None:
                return None

        done = await copy(Forgetful(source), target)  # type: ignore[arg-type]
        assert (done.sessions, (await target.list_sessions()).items) == (0, ())
