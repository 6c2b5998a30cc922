"""Large bytes, kept once under their hash, per tenant, and swept when nobody needs them (D5, D11)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from hashlib import sha256

from gnomon.contracts.storage import Storage, SupportsBlobs
from gnomon.errors import InvalidInput
from gnomon.testing._storage_asking import expect_same, outcome, together
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._suite import expect, skip
from gnomon.types.records import utc_now

__all__ = ["StorageBlobs"]

_MOMENT_S = 0.03
"""Longer than two clocks of one machine differ by."""


class StorageBlobs(StorageSuite):
    """The part of the suite that is about blobs."""

    async def test_a_blob_is_found_under_its_hash(self) -> None:
        """Any bytes: none, one, every value, five megabytes."""
        large = bytes(range(251)) * (5 * 2**20 // 251)
        contents = (b"", b"\x00", bytes(range(256)), "text ж".encode(), b"x" * 400_000, large)
        async with self.open() as storage:
            store = _keeper(self, storage)
            for content in contents:
                digest = await store.put_blob(content)
                expect(f"the hash of {len(content)} bytes", sha256(content).hexdigest(), digest)
                expect_same(f"{len(content)} bytes", content, await store.get_blob(digest))
            for content in contents:
                found = await store.get_blob(sha256(content).hexdigest())
                expect_same(f"{len(content)} bytes, later", content, found)

    async def test_a_blob_that_is_not_there_is_none(self) -> None:
        """D4: and what is no hash at all is none, or is refused."""
        async with self.open() as storage:
            store = _keeper(self, storage)
            await store.put_blob(b"there")
            absent = sha256(b"not there").hexdigest()
            expect("get_blob of an absent one", None, await store.get_blob(absent))
            for odd in ("nothing", "../../etc/passwd", "*", "%", sha256(b"there").hexdigest()[:-1]):
                found = await outcome(store.get_blob(odd))
                if found is not None and not isinstance(found, InvalidInput):
                    raise AssertionError(f"get_blob of {odd!r}: expected None, found {found!r}")

    async def test_the_same_bytes_are_kept_once(self) -> None:
        """Put ten times, also at the same time, they are one blob to sweep."""
        async with self.open() as storage:
            store = _keeper(self, storage)
            digests = [await store.put_blob(b"same" * 30_000) for _ in range(5)]
            digests += await together(*(store.put_blob(b"same" * 30_000) for _ in range(5)))
            expect("the hashes", 1, len(set(digests)))
            expect_same("the bytes", b"same" * 30_000, await store.get_blob(digests[0]))
            expect("how many were swept", 1, await store.sweep_blobs(set(), utc_now() + timedelta(hours=1)))

    async def test_each_tenant_has_its_own_blobs(self) -> None:
        """D5: the same bytes in two are two blobs, and sweeping one leaves the other."""
        async with self.open() as storage:
            mine, others = _keeper(self, storage.scoped("mine")), _keeper(self, storage.scoped("others"))
            digest = await others.put_blob(b"content")
            expect("another's blob", None, await mine.get_blob(digest))
            later = utc_now() + timedelta(hours=1)
            expect("swept by one who has none", 0, await mine.sweep_blobs(set(), later))
            await mine.put_blob(b"content")
            expect("swept", 1, await mine.sweep_blobs(set(), later))
            expect("mine", None, await mine.get_blob(digest))
            expect("the other's", b"content", await others.get_blob(digest))

    async def test_a_sweep_takes_what_is_old_and_not_kept(self) -> None:
        """D11: and says how many; what is named in `keep` stays, and what is new."""
        async with self.open() as storage:
            store = _keeper(self, storage)
            old = [await store.put_blob(b"old %d" % number * 9_000) for number in range(4)]
            await asyncio.sleep(_MOMENT_S)
            moment = utc_now()
            await asyncio.sleep(_MOMENT_S)
            new = await store.put_blob(b"new")
            unknown = sha256(b"never put").hexdigest()
            before = moment - timedelta(hours=1)
            expect("swept before anything was put", 0, await store.sweep_blobs(set(), before))
            expect("swept", 2, await store.sweep_blobs({old[0], old[2], unknown}, moment))
            expect("swept again", 0, await store.sweep_blobs({old[0], old[2]}, moment))
            left = [digest for digest in (*old, new) if await store.get_blob(digest) is not None]
            expect("the blobs that stay", [old[0], old[2], new], left)
            again = await store.put_blob(b"old %d" % 1 * 9_000)
            expect_same("a swept one, put again", b"old %d" % 1 * 9_000, await store.get_blob(again))

    async def test_a_blob_that_was_put_again_is_as_good_as_new(self) -> None:
        """D11: whoever put it first, a sweep must not take it from whoever puts it now."""
        async with self.open() as storage:
            store = _keeper(self, storage)
            digest = await store.put_blob(b"twice")
            other = await store.put_blob(b"once")
            await asyncio.sleep(_MOMENT_S)
            moment = utc_now()
            await asyncio.sleep(_MOMENT_S)
            await store.put_blob(b"twice")
            expect("swept", 1, await store.sweep_blobs(set(), moment))
            expect_same("the blob that was put again", b"twice", await store.get_blob(digest))
            expect("the other", None, await store.get_blob(other))

    async def test_a_sweep_beside_writers_takes_nothing_that_is_put_meanwhile(self) -> None:
        """D11: a blob that was put again while the sweep runs is there when both are done."""
        async with self.open() as storage:
            store = _keeper(self, storage)
            contents = [b"blob %d" % number for number in range(30)]
            for content in contents:
                await store.put_blob(content)
            await asyncio.sleep(_MOMENT_S)
            moment = utc_now()
            await asyncio.sleep(_MOMENT_S)

            async def put_again() -> list[str]:
                return [await store.put_blob(content) for content in contents]

            sweeping = asyncio.ensure_future(store.sweep_blobs(set(), moment))
            try:
                digests = await put_again()
            finally:
                await sweeping
            gone = [digest for digest in digests if await store.get_blob(digest) is None]
            expect("blobs that were put and are gone", [], gone)


def _keeper(suite: StorageBlobs, storage: Storage) -> SupportsBlobs:
    return storage if isinstance(storage, SupportsBlobs) else skip(suite, "SupportsBlobs")
