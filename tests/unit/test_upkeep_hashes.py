"""A hash says what a store holds, and nothing of how it came there."""

from __future__ import annotations

import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

import stored
from gnomon.storage._records import RecordStorage
from gnomon.types.records import LedgerEvent, Page
from gnomon.upkeep import memory_hash, session_hash
from stored import audit, checkpoint, event, events, in_file, memory, opened, session, trace


async def a_session(store: RecordStorage) -> None:
    await store.create_session(session("s", metadata={"a": 1, "b": [{}]}, last_seq=9))
    await store.append_events(events("s", 1, 9))
    await store.save_checkpoint(checkpoint("one", "s", 4, a=1))
    await store.save_checkpoint(checkpoint("two", "s", 4, a=2))
    await store.append_audit_log(audit("row", "s"))
    await store.insert_trace(trace("span", "s"))
    await store.put_memory(memory("m", "key"))


async def hash_after(change: Callable[[RecordStorage], Awaitable[object]]) -> str:
    async with opened("memory://") as store:
        await a_session(store)
        await change(store)
        return await session_hash(store, "s")


async def nothing(_: RecordStorage) -> None:
    pass


CHANGES: dict[str, Callable[[RecordStorage], Awaitable[object]]] = {
    "an event": lambda store: store.append_event(event("s", 10)),
    "a checkpoint": lambda store: store.save_checkpoint(checkpoint("three", "s", 4)),
    "another state": lambda store: store.save_checkpoint(checkpoint("one", "s", 4, a=2)),
    "an audit row": lambda store: store.append_audit_log(audit("row", "s")),
    "a trace": lambda store: store.insert_trace(trace("other", "s")),
    "the row": lambda store: store.update_session(session("s", last_seq=9)),
    "no row": lambda store: store.delete_session("s"),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_whatever_is_added_or_changed_changes_the_hash(what: str) -> None:
    assert await hash_after(CHANGES[what]) != await hash_after(nothing)


@pytest.mark.parametrize("field", ["id", "type", "payload", "created_at", "version"])
async def test_each_field_of_an_event_counts(field: str) -> None:
    other = {"id": "x", "type": "x", "payload": b"\x00", "created_at": stored.at(99), "version": 7}[field]

    async def hash_with(last: LedgerEvent) -> str:
        async with opened("memory://") as store:
            await store.append_event(last)
            return await session_hash(store, "s")

    plain = event("s", 1)
    assert await hash_with(plain) != await hash_with(msgspec.structs.replace(plain, **{field: other}))


async def test_rows_of_another_session_or_tenant_do_not_count() -> None:
    async def others(store: RecordStorage) -> None:
        await store.append_event(event("other", 1))
        await store.insert_trace(trace("loose", ""))
        await store.scoped("acme").append_audit_log(audit("row", "s"))

    assert await hash_after(others) == await hash_after(nothing)


async def test_two_databases_that_hold_the_same_give_the_same(tmp_path: Path) -> None:
    async with opened("memory://") as one, opened(in_file(tmp_path / "a.db")) as other:
        for store in (one, other):
            await stored.fill(store)
        found = await stored.hashes(one)
        assert found == await stored.hashes(other)
        assert len(set(found.values())) > 15


async def test_how_events_were_grouped_makes_no_difference() -> None:
    hashes = set[str]()
    for size in (1, 2, 7, 30):
        async with opened("memory://") as store:
            for first in range(1, 31, size):
                await store.append_events(events("s", first, min(first + size - 1, 30)))
            hashes.add(await session_hash(store, "s"))
    assert len(hashes) == 1


async def test_the_order_of_checkpoints_of_one_number_makes_no_difference() -> None:
    hashes = set[str]()
    for names in (("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")):
        async with opened("memory://") as store:
            for name in names:
                await store.save_checkpoint(checkpoint(name, "s", 4))
            await store.save_checkpoint(checkpoint("later", "s", 5))
            hashes.add(await session_hash(store, "s"))
    assert len(hashes) == 1


async def test_the_number_of_a_checkpoint_does_make_one() -> None:
    hashes = set[str]()
    for seqs in ((4, 4), (4, 5)):
        async with opened("memory://") as store:
            for name, seq in zip("ab", seqs, strict=True):
                await store.save_checkpoint(checkpoint(name, "s", seq))
            hashes.add(await session_hash(store, "s"))
    assert len(hashes) == 2


async def test_the_order_of_keys_in_a_bag_makes_no_difference() -> None:
    hashes = set[str]()
    for bag in ({"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}):
        async with opened("memory://") as store:
            await store.create_session(session("s", metadata=bag))
            hashes.add(await session_hash(store, "s"))
    assert len(hashes) == 1


async def test_what_belongs_to_no_session_has_a_hash_too() -> None:
    async with opened("memory://") as store:
        empty = await session_hash(store, "")
        await store.insert_trace(trace("loose", ""))
        with_trace = await session_hash(store, "")
        await store.append_audit_log(audit("loose", ""))
        assert len({empty, with_trace, await session_hash(store, "")}) == 3


async def test_the_hash_of_memory_follows_every_record() -> None:
    async with opened("memory://") as store:
        found = [await memory_hash(store)]
        for record in (memory("a", "k"), memory("b", "k"), memory("a", "k", 5)):
            await store.put_memory(record)
            found.append(await memory_hash(store))
        assert len(set(found)) == 4
        await store.delete_memory("b")
        assert await memory_hash(store) == await memory_hash(store, without={"b"})
        await store.put_memory(memory("b", "k"))
        assert await memory_hash(store) == found[-1]
        assert await memory_hash(store, without={"b"}) != found[-1]


class ShortPages:
    """A store whose pages are short, whatever is asked for."""

    def __init__(self, store: RecordStorage, size: int) -> None:
        self._store, self._size = store, size

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = 50, *, cursor: str | None = None
    ) -> Page[LedgerEvent]:
        return await self._store.list_events(session_id, after_seq, min(limit, self._size), cursor=cursor)


async def test_how_long_pages_are_makes_no_difference() -> None:
    async with opened("memory://") as store:
        await a_session(store)
        whole = await session_hash(store, "s")
        for size in (1, 2, 5):
            assert await session_hash(ShortPages(store, size), "s") == whole  # type: ignore[arg-type]


async def test_a_long_log_is_hashed_in_little_memory(tmp_path: Path) -> None:
    async with opened(in_file(tmp_path / "long.db")) as store:
        payload = b"x" * 10_000
        for first in range(1, 3_001, 20):
            await store.append_events([event("s", seq, payload) for seq in range(first, first + 20)])
        await session_hash(store, "")  # what is loaded once does not count
        tracemalloc.start()
        try:
            await session_hash(store, "s")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 12_000_000, f"{peak:,} bytes were held of a log of 30,000,000"
