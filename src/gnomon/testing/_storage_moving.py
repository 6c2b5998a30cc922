"""What whoever looks after a whole store needs: its tenants, its state, logs that begin in the midst."""

from __future__ import annotations

from functools import partial

from gnomon.contracts.storage import (
    AUDIT_ANCHOR,
    Storage,
    SupportsAuditCheck,
    SupportsImport,
    SupportsStatus,
    SupportsTenants,
)
from gnomon.errors import Conflict, InvalidInput
from gnomon.testing._storage_asking import expect_same, ledger, outcome, refused, walk
from gnomon.testing._storage_records import audit, event, events, memory, session
from gnomon.testing._storage_suite import StorageSuite, opened
from gnomon.testing._suite import expect, skip
from gnomon.types.records import AuditLog, Page

__all__ = ["StorageMoving"]

_TENANTS = ("acme", "acme/2", "zebra", "ünï")
_HASH = "ab" * 32


class StorageMoving(StorageSuite):
    """The part of the suite that is about moving and looking after."""

    async def test_every_tenant_that_has_stored_something_is_listed_by_name(self) -> None:
        """D3: in pages of any length; whoever has only looked is not among them."""
        async with self.open() as storage:
            if not isinstance(storage, SupportsTenants):
                skip(self, "SupportsTenants")
            listing = storage
            for name in reversed(_TENANTS):
                await _store_something(storage.scoped(name), name)
            await storage.scoped("looks").get_session("s")
            for limit in (1, 2, 100):
                found = await walk(partial(_tenants, listing, limit), limit)
                expect(f"the tenants in pages of {limit}", list(_TENANTS), found)
            await refused("limit 0", listing.list_tenants(0), InvalidInput)

    async def test_a_log_may_begin_in_the_midst_and_goes_on_from_there(self) -> None:
        async with self.open() as storage:
            store = _importing(self, storage)
            await store.begin_log(events(range(11, 14)))
            expect_same("the log", events(range(11, 14)), await ledger(storage))
            await refused("an event that leaves a gap", storage.append_event(event(15)), Conflict)
            await refused("an event before the first", storage.append_event(event(1)), Conflict)
            await storage.append_events(events(range(14, 16)))
            expect_same("the log, gone on", events(range(11, 16)), await ledger(storage))
            expect_same("its end", events([15]), await ledger(storage, after_seq=14))
            page = await storage.list_events("s", limit=1)
            expect_same("a page of one", events([11]), list(page.items))

    async def test_a_log_that_begins_with_1_may_be_begun_too(self) -> None:
        async with self.open() as storage:
            await _importing(self, storage).begin_log(events(range(1, 4)))
            await storage.append_event(event(4))
            expect_same("the log", events(range(1, 5)), await ledger(storage))

    async def test_a_log_that_is_there_is_not_begun_again(self) -> None:
        async with self.open() as storage:
            store = _importing(self, storage)
            await storage.append_events(events(range(1, 4)))
            for first in (1, 3, 4, 9):
                await refused(f"begin_log from {first}", store.begin_log(events([first])), Conflict)
            await store.begin_log(events([5], "other"))
            expect_same("the log", events(range(1, 4)), await ledger(storage))
            expect_same("the other log", events([5], "other"), await ledger(storage, "other"))

    async def test_the_anchor_of_a_pruned_chain_is_taken_as_it_is(self) -> None:
        """D10: and only as the first row; the next one hangs on it."""
        async with self.open() as storage:
            _importing(self, storage)
            anchor = audit("pruned-7", action=AUDIT_ANCHOR, seq=7, hash=_HASH)
            expect_same("the anchor", anchor, await storage.append_audit_log(anchor))
            following = await storage.append_audit_log(audit("l8"))
            expect("what follows", (8, _HASH), (following.seq, following.prev_hash))
            second = audit("again", action=AUDIT_ANCHOR, seq=99, hash=_HASH)
            found = await outcome(storage.append_audit_log(second))
            if not isinstance(found, InvalidInput | AuditLog) or found == second:
                raise AssertionError(f"a second anchor: expected a refusal or a link, found {found!r}")
            if isinstance(storage, SupportsAuditCheck):
                other = audit("pruned-3", "other", action=AUDIT_ANCHOR, seq=3, hash=_HASH)
                await storage.append_audit_log(other)
                await storage.append_audit_log(audit("l4", "other"))
                expect("verify_audit", (), await storage.verify_audit("other"))

    async def test_a_store_says_how_it_is_and_changes_nothing(self) -> None:
        async with self.open() as storage:
            if not isinstance(storage, SupportsStatus):
                skip(self, "SupportsStatus")
            status = await storage.status()
            expect("the schema that was found", status.schema_known, status.schema_found)
            if not status.where:
                raise AssertionError("status must say where the store is")
            url = self.url(storage)
            if url is not None and "@" in url and (secret := _password(url)):
                expect("the password in it", False, secret in f"{status}")

    async def test_a_store_without_tables_says_so_when_it_is_asked(self) -> None:
        url = self.fresh_url() or skip(self, "the URL of a store that nobody has migrated")
        async with opened(self.opener, url) as storage:
            if not isinstance(storage, SupportsStatus):
                skip(self, "SupportsStatus")
            for _ in range(2):  # asking does not make them
                expect("the schema that was found", 0, (await storage.status()).schema_found)


async def _tenants(listing: SupportsTenants, limit: int, cursor: str | None) -> Page[str]:
    return await listing.list_tenants(limit, cursor=cursor)


def _importing(suite: StorageMoving, storage: Storage) -> SupportsImport:
    return storage if isinstance(storage, SupportsImport) else skip(suite, "SupportsImport")


def _password(url: str) -> str:
    return url.rpartition("@")[0].rpartition(":")[2]


async def _store_something(view: Storage, name: str) -> None:
    """Each in another way: whatever comes first makes a tenant known."""
    match name:
        case "acme":
            await view.create_session(session())
        case "acme/2":
            await view.append_event(event(1))
        case "ünï":
            await view.put_memory(memory())
        case _:
            await view.append_audit_log(audit())
