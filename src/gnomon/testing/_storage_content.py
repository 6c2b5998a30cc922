"""What is stored comes back as it was, or is refused; nothing of it is ever run (D8, D12)."""

from __future__ import annotations

from typing import cast

from gnomon.contracts.storage import SupportsBlobs
from gnomon.errors import InvalidInput
from gnomon.testing._storage_asking import expect_nothing, expect_same, ledger, outcome, refused, rows_of
from gnomon.testing._storage_places import PLACES, UPDATED, Place
from gnomon.testing._storage_records import audit, checkpoint, event, memory, session, trace
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._storage_values import EXECUTED, LIVE_PICKLES, LOOKS_ALIVE, TEXTS, UNHOLDABLE, nested
from gnomon.testing._suite import expect

__all__ = ["StorageContent"]

_MEGABYTE = 2**20


class StorageContent(StorageSuite):
    """The part of the suite that stores odd things."""

    # --- values

    async def test_payloads_come_back_byte_for_byte(self) -> None:
        """D8: every byte there is, text in every script, nothing, and things that look encoded."""
        odd = (
            b"",
            b"\x00",
            b"\x00" * 1_000,
            bytes(range(256)) * 4,
            bytes(range(255, -1, -1)),
            b"\xff\xfe\x00",
        )
        payloads = [*odd, *(text.encode() for text in TEXTS), b'{"a": 1}', b"\x80\x04\x95", b"\x1f\x8b\x08"]
        given = [event(seq, payload=payload) for seq, payload in enumerate(payloads, start=1)]
        async with self.open() as storage:
            for each in given[: len(odd)]:
                await storage.append_event(each)
            await storage.append_events(given[len(odd) :])
            expect_same("the log", given, await ledger(storage))

    async def test_a_payload_of_a_megabyte_comes_back(self) -> None:
        """D8: alone, and three of them in a group; what a database cannot hold is split, invisibly."""
        noise = bytes(range(251)) * (_MEGABYTE // 251 + 1)
        given = [event(seq, payload=noise[seq : seq + _MEGABYTE]) for seq in range(1, 6)]
        async with self.open() as storage:
            await storage.append_event(given[0])
            await storage.append_events(given[1:4])
            await storage.append_event(given[4])
            for seq, expected in enumerate(given):
                page = await storage.list_events("s", seq, 1)
                expect_same(f"event {seq + 1}", [expected], list(page.items))
            expect_same("the log", given, await ledger(storage))

    async def test_any_json_comes_back_as_it_was(self) -> None:
        """D8: text in every script, NUL, numbers of every size and kind, in every field that is open."""
        async with self.open() as storage:
            for number, value in enumerate([nested(), *_single_values()]):
                for place in PLACES:
                    found = await place.stored(storage, f"{number}", value)
                    expect_same(f"{place.name} with value {number}", place.kept(value), found)

    async def test_text_comes_back_in_every_field(self) -> None:
        """D8: those that are no ids too."""
        async with self.open() as storage:
            for number, text in enumerate(TEXTS):
                name = f"{number}"
                rows = (
                    session(name, title=text),
                    trace(name, name=text, kind=text, error=text, parent_id=text or None),
                    checkpoint(name, run_id=text, node_id=text),
                )
                await storage.create_session(rows[0])
                await storage.insert_trace(rows[1])
                await storage.save_checkpoint(rows[2])
                logged = await storage.append_audit_log(audit(name, actor=text, action=text, resource=text))
                expect("the audit row", (text, text, text), (logged.actor, logged.action, logged.resource))
                found = (await storage.get_session(name), await storage.get_trace(name))
                expect_same(f"text {text!r}", (*rows,), (*found, await storage.get_checkpoint(name)))

    async def test_a_megabyte_of_json_comes_back(self) -> None:
        """D8: of text that takes more bytes than characters, in every field that is open."""
        value = ["ж" * (_MEGABYTE // 4), "x" * (_MEGABYTE // 2), list(range(1_000))]
        async with self.open() as storage:
            for place in PLACES:
                expect_same(place.name, place.kept(value), await place.stored(storage, "large", value))

    async def test_a_large_value_that_is_replaced_leaves_nothing_of_itself(self) -> None:
        """D8: large by small and small by large, as often as one likes."""
        async with self.open() as storage:
            for size in (600_000, 1, 1_000_000, 400_001, 0):
                given = memory("m", value="v" * size)
                await storage.put_memory(given)
                expect_same(f"a value of {size}", given, await storage.get_memory("", "key"))
                expect_same(f"the list with {size}", [given], await rows_of(storage.list_memory))
            expect("delete_memory", True, await storage.delete_memory("m"))
            expect_same("the list", [], await rows_of(storage.list_memory))

    async def test_what_json_cannot_hold_is_refused(self) -> None:
        """D8: with `InvalidInput`, at any depth, and nothing is stored."""
        async with self.open() as storage:
            for what, value in UNHOLDABLE.items():
                for place in PLACES:
                    for given in (value, [{"deep": [value]}]):
                        call = place.stored(storage, "odd", given)
                        await refused(f"{place.name} with {what}", call, InvalidInput)
            await expect_nothing(storage, but=UPDATED + "odd")

    async def test_a_number_that_is_too_large_is_refused_or_comes_back(self) -> None:
        """D8: it never comes back as another."""
        async with self.open() as storage:
            for number, value in enumerate((2**63, 2**64, -(2**63) - 1, 10**30)):
                found = await outcome(PLACES[0].stored(storage, f"{number}", [value]))
                if isinstance(found, InvalidInput):
                    continue
                expect_same(f"{value}", PLACES[0].kept([value]), found)

    # --- nothing is run

    async def test_what_looks_like_code_is_kept_as_it_is(self) -> None:
        """D12: a pickle, a tagged object, a database's own notation: data like any other."""
        EXECUTED.clear()
        async with self.open() as storage:
            pickles = [event(seq, payload=payload) for seq, payload in enumerate(LIVE_PICKLES, start=1)]
            await storage.append_events(pickles)
            expect_same("the log of pickles", pickles, await ledger(storage))
            for number, value in enumerate(LOOKS_ALIVE):
                for place in PLACES:
                    found = await place.stored(storage, f"{number}", value)
                    expect_same(f"{place.name} with {value}", place.kept(value), found)
            if isinstance(storage, SupportsBlobs):
                digest = await storage.put_blob(LIVE_PICKLES[-1])
                expect_same("a blob of a pickle", LIVE_PICKLES[-1], await storage.get_blob(digest))
        expect("what was run", [], EXECUTED)

    async def test_a_record_that_is_changed_after_it_was_stored_changes_nothing(self) -> None:
        """What is stored is a copy: the caller's dict and the store's are two, on the way in and out."""
        async with self.open() as storage:
            for place in PLACES:
                value: dict[str, object] = {"list": [1]}
                found = await place.stored(storage, "copy", value)
                _inner_list(place, place.kept(value)).append(2)
                _inner_list(place, found).append(3)
                expect_same(place.name, place.kept({"list": [1]}), await place.read(storage, "copy"))


def _single_values() -> tuple[object, ...]:
    nothing: list[object] = []
    return ("", nothing, {"": nothing}, [nothing], [None], "text", 0, False, True, 1.0)


def _inner_list(place: Place, value: object) -> list[int]:
    inner = value if place.is_bare else cast("dict[str, object]", value)["v"]
    return cast("dict[str, list[int]]", inner)["list"]
