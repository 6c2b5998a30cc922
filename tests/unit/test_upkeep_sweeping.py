"""Blobs that no event names go, after a while; pruning by age reaches every tenant."""

from __future__ import annotations

from datetime import timedelta

import pytest

import stored
from gnomon._payload import blobs_named
from gnomon.errors import Damaged, InvalidInput, StorageError
from gnomon.storage._keys import joined, time_key
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import Place, Row
from gnomon.types.records import LedgerEvent, Page, utc_now
from gnomon.upkeep import age, prune, sweep, verify
from gnomon.upkeep.pruning import KINDS, parse_kinds
from stored import at, event, opened, session, trace


async def put_long_ago(store: RecordStorage, content: bytes, hours: float) -> str:
    """A blob that was last put so many hours before now."""
    digest = await store.put_blob(content)
    touched = joined(time_key(utc_now() - timedelta(hours=hours)), digest)
    places = {"touched": Place("", touched)}
    row = Row(kind="blobs", id=digest, body=content, revision=1, places=places)
    await store._rows.write(store.tenant, row, None)
    return digest


async def with_a_session(store: RecordStorage) -> LedgerEvent:
    """A session whose only event names a blob that was put two days ago."""
    await store.create_session(session("s"))
    named = await stored.large_event(store, "s", 1, "x" * 50_000)
    await store.append_event(named)
    content = await store.get_blob(blobs_named(named)[0])
    await put_long_ago(store, content or b"", 48)
    return named


async def test_what_is_named_or_young_stays_and_the_rest_goes() -> None:
    async with opened("memory://") as store:
        await with_a_session(store)
        old = await put_long_ago(store, b"old", 25)
        young = await put_long_ago(store, b"young", 23)
        done = await sweep(store)
        assert (done.named, done.removed) == (1, 1)
        assert await store.get_blob(old) is None
        assert await store.get_blob(young) == b"young"
        assert (await verify(store)).is_sound


async def test_a_blob_of_another_tenant_is_no_reason_to_keep_one() -> None:
    async with opened("memory://") as store:
        named = await with_a_session(store)
        digest = blobs_named(named)[0]
        content = await store.get_blob(digest)
        other = store.scoped("acme")
        await put_long_ago(other, content or b"", 48)
        assert (await sweep(store)).removed == 1
        assert await other.get_blob(digest) is None
        assert await store.get_blob(digest) is not None


async def test_a_short_grace_is_refused_unless_nobody_writes() -> None:
    async with opened("memory://") as store:
        await put_long_ago(store, b"x", 0.5)
        with pytest.raises(InvalidInput, match="less than an hour"):
            await sweep(store, grace=timedelta(minutes=59))
        assert (await sweep(store, grace=timedelta(hours=1))).removed == 0
        assert (await sweep(store, grace=timedelta(0), nobody_writes=True)).removed == 1


async def test_an_event_that_cannot_be_read_ends_the_sweep_before_anything_goes() -> None:
    async with opened("memory://") as store:
        old = await put_long_ago(store, b"old", 48)
        await store.create_session(session("s"))
        await store.append_event(event("s", 1, b"no envelope", version=2))
        with pytest.raises(Damaged, match="event 1"):
            await sweep(store)
        assert await store.get_blob(old) == b"old"


async def test_what_is_put_while_the_marking_goes_on_is_younger_than_the_cutoff() -> None:
    async with opened("memory://") as store:
        await with_a_session(store)
        put: list[str] = []

        class Busy:
            """Somebody who puts a blob after its session was marked, and will name it in a moment."""

            def __getattr__(self, name: str) -> object:
                return getattr(store, name)

            def scoped(self, _: str) -> Busy:
                return self

            async def list_events(self, *arguments: object, **options: object) -> Page[LedgerEvent]:
                page = await store.list_events(*arguments, **options)  # type: ignore[arg-type]
                put.append(await store.put_blob(b"just now"))
                return page

        await sweep(Busy(), grace=timedelta(0), nobody_writes=True, tenants=["default"])  # type: ignore[arg-type]
        assert await store.get_blob(put[0]) == b"just now"


async def test_a_store_without_blobs_says_so() -> None:
    class NoBlobs:
        def scoped(self, _: str) -> NoBlobs:
            return self

    with pytest.raises(StorageError, match="keeps no blobs"):
        await sweep(NoBlobs(), tenants=["default"])  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="cannot forget"):
        await prune(NoBlobs(), ["traces"], utc_now(), tenants=["default"])  # type: ignore[arg-type]


# --- ages and kinds ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), (" 2 w ", 1_209_600), ("0d", 0)],
)
def test_an_age_is_read(text: str, seconds: int) -> None:
    assert age(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "1y", "-3d", "1.5d", "3d2h", "٣d", "9999999d", "3 months"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no age"):
        age(text)


def test_kinds_are_read_and_a_slip_is_named() -> None:
    assert parse_kinds("traces, events,traces") == ("traces", "events")
    assert parse_kinds("") == ()
    assert set(parse_kinds(",".join(KINDS))) == set(KINDS)
    with pytest.raises(InvalidInput, match="no kind 'trace'"):
        parse_kinds("audit,trace")


async def test_pruning_reaches_every_tenant_and_counts_by_kind() -> None:
    async with opened("memory://") as store:
        for view in (store, store.scoped("acme")):
            await view.insert_trace(trace("old", "", 0))
            await view.insert_trace(trace("young", "", 100))
        assert await prune(store, ["traces", "memory"], at(50)) == {"traces": 2, "memory": 0}
        assert [span.id for span in (await store.scoped("acme").list_traces("")).items] == ["young"]
        assert await prune(store, ["traces"], at(500), tenants=["acme"]) == {"traces": 1}
        assert [span.id for span in (await store.list_traces("")).items] == ["young"]
