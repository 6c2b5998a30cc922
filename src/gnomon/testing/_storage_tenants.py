"""Tenants: no view sees or changes another's rows, whatever the two are called (D5)."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import get_args

from gnomon.contracts.storage import (
    RecordKind,
    Storage,
    SupportsAuditCheck,
    SupportsBlobs,
    SupportsRetention,
    SupportsWatch,
)
from gnomon.errors import Conflict, InvalidInput, NotFound
from gnomon.testing._storage_asking import expect_same, ledger, outcome, refused, rows_of, together
from gnomon.testing._storage_lists import LISTS, filled, ids
from gnomon.testing._storage_reader import Reader
from gnomon.testing._storage_records import at, audit, checkpoint, event, events, memory, session, trace
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._storage_world import NOTHING, Seen, fill, seen_by
from gnomon.testing._suite import expect, skip
from gnomon.types.records import utc_now

__all__ = ["StorageTenants"]

_TENANTS = (
    *(
        "a",
        "A",
        "a ",
        " a",
        "aa",
        "a:",
        "a:b",
        "a::b",
        "a/b",
        "a/",
        "a|b",
        "a#b",
        "a.b",
        "a%2Fb",
        "a%",
        "a_b",
    ),
    *("a\\b", "a'b", 'a"b', "*", "%", "é", "e\u0301", "東京", "👍", "0", "None", "a" * 100),
)
_SEPARATORS = (":", "/", "|", "#", "\x01", "\x1f", "::")


class StorageTenants(StorageSuite):
    """The part of the suite that looks across the fence."""

    async def test_a_view_sees_none_of_anothers_rows(self) -> None:
        """D5: every way to read, in three tenants with nothing yet, while a fourth has one of each."""
        async with self.open() as storage:
            views = [storage, *(storage.scoped(name) for name in ("a", "b", "defaul"))]
            for full in views:
                await fill(full, "s", "of the first")
                for other in views[views.index(full) + 1 :]:
                    expect_same("seen by a view that has nothing", NOTHING, await seen_by(other, "s"))

    async def test_the_same_ids_are_rows_of_their_own_in_each_tenant(self) -> None:
        """D5: writing one of each changes nothing of another's."""
        async with self.open() as storage:
            views = [storage.scoped("b"), storage, storage.scoped("a")]
            seen: list[Seen] = []
            for view in views:
                await fill(view, "s", f"mark {len(seen)}")
                seen.append(await seen_by(view, "s"))
                for view_, before in zip(views, seen, strict=False):
                    expect_same("a tenant's rows", before, await seen_by(view_, "s"))
            for one, other in pairwise(seen):
                same = [what for what in one if one[what] == other[what]]
                expect("what two tenants with different rows see alike", [], same)

    async def test_no_view_changes_anothers_rows(self) -> None:
        """D5: updating, deleting, replacing, ending and pruning what only another has."""
        async with self.open() as storage:
            mine, others = storage.scoped("mine"), storage.scoped("others")
            await fill(others, "s", "theirs")
            before = await seen_by(others, "s")
            await refused("update_session", mine.update_session(session("s")), NotFound)
            expect("delete_memory", False, await mine.delete_memory("s"))
            await refused("append_event at another's tail", mine.append_event(event(3)), Conflict)
            await refused("append_events at another's tail", mine.append_events(events((3, 4))), Conflict)
            await _forget_everything(mine)
            expect_same("the other's rows", before, await seen_by(others, "s"))
            await mine.insert_trace(trace("s", name="mine"))
            await mine.save_checkpoint(checkpoint("s", seq=9_999))
            logged = await mine.append_audit_log(audit("s"))
            expect("my first audit row", (1, ""), (logged.seq, logged.prev_hash))
            await mine.append_events(events((1, 2, 3)))
            expect_same("the other's rows", before, await seen_by(others, "s"))

    async def test_the_store_itself_is_the_tenant_default(self) -> None:
        """D5: in both directions; and a view is one, however often it is made."""
        async with self.open() as storage:
            await storage.create_session(session("one"))
            await storage.scoped("default").create_session(session("two", created_at=at(-1)))
            for view in (storage, storage.scoped("default"), storage.scoped("default")):
                expect("the sessions", ["one", "two"], ids(await rows_of(view.list_sessions)))
            await storage.scoped("x").append_event(event(1))
            expect_same("a view, made again", [event(1)], await ledger(storage.scoped("x")))

    async def test_tenants_of_any_name_are_kept_apart(self) -> None:
        """D5: names that differ in case, in a space, in how a letter is written, or begin alike."""
        async with self.open() as storage:
            views = {name: storage.scoped(name) for name in _TENANTS}
            await together(*(_mark(view, name) for name, view in views.items()))
            await together(*(_expect_marked(view, name) for name, view in views.items()))

    async def test_an_id_cannot_be_made_to_look_like_anothers(self) -> None:
        """D5: "b:c" in tenant "a" is not "c" in tenant "a:b", with whichever character between."""
        async with self.open() as storage:
            for number, sep in enumerate(_SEPARATORS):
                a = f"a{number}"
                places = ((a, f"b{sep}c"), (f"{a}{sep}b", "c"))
                seen: list[tuple[Storage, str, Seen]] = []
                for tenant, name in places:
                    with suppress(InvalidInput):  # a character that no name may have
                        view = storage.scoped(tenant)
                        await fill(view, name, f"{tenant} {name}")
                        seen.append((view, name, await seen_by(view, name)))
                for view, name, before in seen:
                    expect_same(f"separator {sep!r}: {name}", before, await seen_by(view, name))

    async def test_a_name_that_cannot_be_a_tenant_is_refused(self) -> None:
        """D5: with `InvalidInput`, by `scoped` or by the first call; never as somebody else's rows."""
        async with self.open() as storage:
            await storage.create_session(session("s"))
            for name in ("", "a\x00b", "half \ud83d"):
                found = await outcome(_first_call(storage, name))
                if not isinstance(found, InvalidInput):
                    expect(f"sessions of tenant {name!r}", [], found)

    async def test_a_cursor_of_another_tenant_shows_nothing_of_it(self) -> None:
        """D5: it is refused, or is a place among one's own rows."""
        async with self.open() as storage:
            mine, others = storage.scoped("mine"), storage.scoped("others")
            await filled(others, 4)
            for listing in LISTS:
                cursor = await listing.some_cursor(others)
                found = await outcome(listing.rows(mine, 2, cursor=cursor))
                if not isinstance(found, InvalidInput):
                    expect(f"{listing.name} with another tenant's cursor", [], found)

    async def test_writers_of_two_tenants_do_not_meet(self) -> None:
        """D5, D7: both append to a session of one name at the same time, and neither sees a Conflict."""
        async with self.open() as storage:

            async def write(view: Storage, mark: str) -> None:
                for seq in range(1, 16):
                    await view.append_event(event(seq, payload=mark.encode()))
                    await view.append_audit_log(audit(f"{seq}", actor=mark))

            marks = ("x", "y", "z")
            await together(*(write(storage.scoped(mark), mark) for mark in marks))
            for mark in marks:
                expected = events(range(1, 16), payload=mark.encode())
                expect_same(f"the log of {mark}", expected, await ledger(storage.scoped(mark)))
                rows = await rows_of(storage.scoped(mark).list_audit_logs, "s")
                expect(
                    "the audit rows", [(mark, n) for n in range(15, 0, -1)], [(r.actor, r.seq) for r in rows]
                )

    async def test_a_watcher_hears_of_its_own_tenant_only(self) -> None:
        """D5: another's events neither come nor count."""
        async with self.open() as storage:
            mine, others = storage.scoped("mine"), storage.scoped("others")
            if not isinstance(mine, SupportsWatch):
                skip(self, "SupportsWatch")
            await others.append_events(events((1, 2), payload=b"theirs"))
            async with Reader(mine.watch("s")) as reader:
                await others.append_event(event(3, payload=b"theirs"))
                await reader.expect_quiet("while only another wrote")
                await mine.append_event(event(1, payload=b"mine"))
                expect_same("what was heard", [event(1, payload=b"mine")], await reader.next(1))


# --- marks, and every way to remove -----------------------------------------------


async def _mark(view: Storage, name: str) -> None:
    await view.create_session(session("s", title=name, agent_id="a"))
    await view.append_event(event(1, payload=name.encode()))
    await view.put_memory(memory("m", value=name))


async def _expect_marked(view: Storage, name: str) -> None:
    """The tenant has what was marked with its name, and nothing else."""
    found = await rows_of(view.list_sessions, "a")
    expect(f"sessions of tenant {name!r}", [name], [row.title for row in found])
    payloads = [row.payload for row in await ledger(view)]
    expect(f"the log of tenant {name!r}", [name.encode()], payloads)
    values = [row.value for row in await rows_of(view.list_memory)]
    expect(f"memory of tenant {name!r}", [name], values)


async def _forget_everything(view: Storage) -> None:
    """By every way to remove rows of which this tenant has none."""
    if isinstance(view, SupportsRetention):
        expect("delete_session", False, await view.delete_session("s"))
        expect("delete_user", 0, await view.delete_user("u"))
        for kind in get_args(RecordKind):
            expect(f"prune of {kind}", 0, await view.prune(kind, utc_now()))
    if isinstance(view, SupportsBlobs):
        expect("sweep_blobs", 0, await view.sweep_blobs(set(), at(10**9)))
    if isinstance(view, SupportsAuditCheck):
        expect("verify_audit", (), await view.verify_audit("s"))


async def _first_call(storage: Storage, tenant: str) -> list[str]:
    return ids(await rows_of(storage.scoped(tenant).list_sessions))
