"""A store as a file of lines, and back; a file that is not whole is noticed before anything is written."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import stored
from gnomon.contracts.storage import AUDIT_ANCHOR
from gnomon.errors import Conflict, InvalidInput
from gnomon.storage._records import RecordStorage
from gnomon.upkeep import Tally, _lines, check_archive, export, import_, verify
from stored import audit, event, events, in_file, memory, opened, session


async def archive_of(store: RecordStorage, **options: Any) -> bytes:
    file = io.BytesIO()
    await export(store, file, **options)
    return file.getvalue()


async def small_archive() -> bytes:
    async with opened("memory://") as store:
        await store.create_session(session("s", last_seq=3))
        await store.append_events(events("s", 1, 2))
        await store.append_event(await stored.large_event(store, "s", 3, "x" * 50_000))
        await store.append_audit_log(audit("row", "s"))
        await store.put_memory(memory("m", "key"))
        return await archive_of(store)


@asynccontextmanager
async def empty() -> AsyncGenerator[RecordStorage, None]:
    async with opened("memory://") as store:
        yield store


async def is_empty(store: RecordStorage) -> bool:
    return (await store.list_tenants()).items == ()


# --- there and back ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_what_is_exported_comes_back_the_same(kind: str, tmp_path: Path) -> None:
    urls = ["memory://"] * 2 if kind == "memory" else [in_file(tmp_path / name) for name in ("a.db", "b.db")]
    async with opened(urls[0]) as source, opened(urls[1]) as target:
        await stored.fill(source)
        with (tmp_path / "archive").open("wb") as out:
            told = await export(source, out)
        with (tmp_path / "archive").open("rb") as lines:
            done = await import_(target, lines)
        assert await stored.hashes(target) == await stored.hashes(source)
        assert (await verify(target)).is_sound
        assert (done.tenants, done.sessions, done.events, done.memory) == (
            told.tenants,
            told.sessions,
            told.events,
            told.memory,
        )
        assert told.bytes == (tmp_path / "archive").stat().st_size


async def test_it_is_json_a_line_with_a_header_and_an_end() -> None:
    lines = [json.loads(line) for line in (await small_archive()).splitlines()]
    assert lines[0] == {"format": "gnomon-archive", "version": 1}
    kinds = [line["kind"] for line in lines[1:]]
    assert kinds == [
        *("tenant", "begin", "session", "event", "event", "blob", "event", "audit", "seal"),
        *("begin", "seal", "begin", "memory", "seal", "end"),
    ]
    blob = next(line["record"] for line in lines[1:] if line["kind"] == "blob")
    assert sha256(base64.b64decode(blob["content"])).hexdigest() == blob["digest"]
    assert lines[-1]["record"]["lines"] == len(lines) - 1


async def test_an_empty_store_has_an_archive_too() -> None:
    async with empty() as source, empty() as target:
        done = await import_(target, io.BytesIO(await archive_of(source)))
        assert (done.tenants, done.sessions) == (0, 0)


async def test_imported_twice_nothing_is_written_twice() -> None:
    whole = await small_archive()
    async with empty() as target:
        first = await import_(target, io.BytesIO(whole))
        before = await stored.hashes(target, ["default"])
        again = await import_(target, io.BytesIO(whole))
        assert await stored.hashes(target, ["default"]) == before
    assert (first.events, first.memory) == (3, 1)
    assert (again.events, again.memory, again.sessions) == (0, 0, 1)


async def test_only_the_tenants_that_are_named_are_exported() -> None:
    async with empty() as source, empty() as target:
        await stored.fill(source)
        await import_(target, io.BytesIO(await archive_of(source, tenants=[stored.TENANTS[1]])))
        assert (await target.list_tenants()).items == (stored.TENANTS[1],)


async def test_a_blob_stands_once_in_an_archive_of_one_tenant() -> None:
    async with empty() as source:
        for name in ("a", "b"):
            await source.create_session(session(name))
            await source.append_event(await stored.large_event(source, name, 1, "x" * 50_000))
        assert (await archive_of(source)).count(b'"kind":"blob"') == 1


async def test_what_was_done_is_told_on_the_way() -> None:
    told: list[tuple[int, int, int]] = []

    def note(tally: Tally) -> None:
        told.append((tally.sessions, tally.events, tally.bytes))

    async with empty() as source, empty() as target:
        await stored.fill(source)
        whole = await archive_of(source, progress=note)
        assert told[-1][1] > 900
        assert told[-1][2] > 500_000
        told.clear()
        await import_(target, io.BytesIO(whole), progress=note)
        assert told[-1][0] > 10


# --- a pipe -----------------------------------------------------------------------


class Pipe(io.BytesIO):
    """What cannot be read twice."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise OSError("a pipe does not go back")


async def test_an_archive_may_come_through_a_pipe() -> None:
    async with empty() as target:
        done = await import_(target, Pipe(await small_archive()))
        assert done.events == 3


async def test_a_pipe_that_ends_early_is_noticed_and_can_be_sent_again() -> None:
    whole = await small_archive()
    lines = whole.splitlines(keepends=True)
    for count in range(1, len(lines)):
        async with empty() as target:
            with pytest.raises(InvalidInput, match="without its last line"):
                await import_(target, Pipe(b"".join(lines[:count])))
            for row in (await target.list_sessions()).items:
                assert len((await target.list_events(row.id)).items) == 3, "half a session is listed"
            await import_(target, Pipe(whole))
            async with empty() as other:
                await import_(other, Pipe(whole))
                assert await stored.hashes(target, ["default"]) == await stored.hashes(other, ["default"])


async def test_a_pipe_takes_what_it_can_of_what_is_written() -> None:
    class Slow(io.BytesIO):
        def write(self, piece: Any) -> int:
            return super().write(bytes(piece[:70_000]))

    async with empty() as source:
        await stored.fill(source)
        slow = Slow()
        await export(source, slow)
        slow.seek(0)
        assert await check_archive(slow) == slow.getvalue().count(b"\n")


# --- not whole --------------------------------------------------------------------


async def refused(archive: bytes, match: str) -> None:
    async with empty() as target:
        with pytest.raises(InvalidInput, match=match):
            await import_(target, io.BytesIO(archive))
        assert await is_empty(target), "something of a damaged file was written"


async def test_a_file_that_was_cut_off_anywhere_is_refused_before_anything_is_written() -> None:
    whole = await small_archive()
    for at in [*range(1, len(whole), 1_777), len(whole) - 1]:
        await refused(whole[:at], r"cut off|without its last line|no archive")


async def test_a_flipped_byte_is_noticed_wherever_it_is() -> None:
    whole = await small_archive()
    for at in range(60, len(whole) - 100, 1_777):
        flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        await refused(flipped, r"line \d+|damaged")


async def test_a_change_that_only_the_hash_shows_is_noticed_before_anything_is_written() -> None:
    whole = await small_archive()
    at = whole.index(b'"payload":"') + 20
    await refused(whole[:at] + b"A" + whole[at + 1 :], "damaged somewhere in its 16 lines")
    lines = whole.splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b'"lines":15', b'"lines":14')
    await refused(b"".join(lines), "line 16: 14 lines should be before it")


async def test_a_damaged_line_is_named_by_its_number() -> None:
    lines = (await small_archive()).splitlines(keepends=True)
    lines[4] = b'{"kind":"event","record":{"session_id":"s","se\n'
    await refused(b"".join(lines), r"^line 5 is damaged")
    lines[4] = b"\xff\xfe\n"
    await refused(b"".join(lines), r"^line 5 is damaged")
    lines[4] = b"\n"
    await refused(b"".join(lines), r"^line 5 is damaged")
    lines[4] = b'{"kind":"spell","record":{}}\n'
    await refused(b"".join(lines), r"^line 5: 'spell' is no kind")
    lines[4] = b'{"kind":"event","record":' + b"[" * 100_000 + b"\n"
    await refused(b"".join(lines), r"^line 5 is damaged")


async def test_something_after_the_end_is_refused() -> None:
    whole = await small_archive()
    await refused(whole + b"\n", "after the last line")
    await refused(whole + whole, "after the last line")


async def test_what_is_no_archive_or_a_newer_one_is_refused() -> None:
    for other in (b"", b"\n", b"PK\x03\x04", b'{"format":"other","version":1}\n', b"{}\n", b"x" * 10_000):
        await refused(other, "no archive of gnomon|without its last line")
    newer = (await small_archive()).replace(b'"version":1', b'"version":2', 1)
    await refused(newer, "version 2, newer than the 1")


async def test_a_line_that_is_too_long_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await small_archive()
    monkeypatch.setattr(_lines, "LONGEST_LINE_BYTES", 10_000)
    await refused(whole, r"^line 7 is longer than 10,000 bytes")


# --- not to be trusted ------------------------------------------------------------


def rewritten(archive: bytes, change: Callable[[list[dict[str, Any]]], None]) -> bytes:
    """The archive with other lines, and an end that fits them."""
    lines = [json.loads(line) for line in archive.splitlines()[:-1]]
    change(lines)
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    end = {"lines": len(lines), "sha256": sha256(body).hexdigest()}
    return body + json.dumps({"kind": "end", "record": end}).encode() + b"\n"


async def forged(change: Callable[[list[dict[str, Any]]], None], match: str) -> None:
    archive = rewritten(await small_archive(), change)
    async with empty() as target:
        with pytest.raises(Exception, match=match) as raised:
            await import_(target, io.BytesIO(archive))
        assert (await target.list_sessions()).items == (), raised
        assert (await target.scoped("x").list_sessions()).items == ()


def record(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(line["record"] for line in lines if line.get("kind") == kind)


async def test_an_archive_that_was_forged_lists_no_session() -> None:
    await forged(lambda lines: record(lines, "event").update(payload="AAAA"), r"line 10: .*hash is another")
    await forged(lambda lines: record(lines, "event").update(session_id="z"), r"line 5: .*session 'z'")
    await forged(lambda lines: record(lines, "event").update(seq=2), "line 6|line 8|line 9|line 10")
    await forged(lambda lines: record(lines, "audit").update(actor="eve"), "audit row 1 .* not what was once")
    await forged(lambda lines: record(lines, "blob").update(content="AAAA"), r"line 7: blob .* bytes")
    await forged(lambda lines: record(lines, "session").update(id="z"), r"line 4: .*session 'z'")
    await forged(lambda lines: record(lines, "tenant").update(name=""), r"line 2: the tenant")
    await forged(lambda lines: record(lines, "tenant").update(name="~"), r"line 2: no tenant")
    await forged(lambda lines: record(lines, "seal").update(hash=""), r"line 10: .*hash is another")
    await forged(lambda lines: lines.pop(2), r"line 3: a SessionRecord stands outside a session")
    await forged(lambda lines: lines.pop(1), r"line 2: a session stands outside a tenant")
    await forged(lambda lines: lines.pop(9), r"line 10: what was begun before was not closed")
    await forged(lambda lines: lines.__delitem__(slice(9, None)), "not closed")
    await forged(lambda lines: lines.insert(2, lines[9]), r"line 3: something is closed")


async def test_a_session_begins_with_its_only_row_and_memory_comes_once() -> None:
    await forged(lambda lines: lines.pop(3), r"line 4: session 's' does not begin with its row")
    await forged(lambda lines: lines.insert(4, lines[3]), r"line 5: session 's' has two rows")
    archive = rewritten(await small_archive(), lambda lines: lines.insert(14, lines[13]))
    async with empty() as target:
        with pytest.raises(Conflict, match="memory 'm' came twice"):
            await import_(target, io.BytesIO(archive))


async def test_a_number_in_an_archive_cannot_keep_a_store_busy_for_ever() -> None:
    far = rewritten(await small_archive(), lambda lines: record(lines, "session").update(revision=2**52))
    async with empty() as target:
        await import_(target, io.BytesIO(await small_archive()))
        with pytest.raises(Conflict, match="100,000 revisions behind"):
            await import_(target, io.BytesIO(far))


async def test_an_anchor_beyond_all_numbers_is_refused() -> None:
    changes = {"action": AUDIT_ANCHOR, "seq": 2**63 - 1, "hash": "0" * 64}
    await forged(lambda lines: record(lines, "audit").update(changes), r"line 9: the seq of an audit row")


async def test_ids_and_values_are_checked_by_the_store() -> None:
    def odd_id(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            for key in ("session_id", "id"):
                if line.get("record", {}).get(key) == "s":
                    line["record"][key] = "s\x00"

    await forged(odd_id, r"line 4: .*NUL")
    await forged(lambda lines: record(lines, "session").update(created_at="2026-01-01T00:00:00"), "line 4")


async def test_a_number_in_an_archive_cannot_leave_a_gap() -> None:
    def gap(lines: list[dict[str, Any]]) -> None:
        lines[5]["record"]["seq"] = 3

    await forged(gap, "follow one another|line")


async def test_what_differs_in_the_store_is_not_written_over() -> None:
    whole = await small_archive()
    async with empty() as target:
        await target.append_event(event("s", 1, b"other"))
        with pytest.raises(Conflict, match="session 's'"):
            await import_(target, io.BytesIO(whole))
        assert [one.payload for one in (await target.list_events("s")).items] == [b"other"]
    async with empty() as target:
        await target.put_memory(memory("m", "key", 1, value="mine"))
        with pytest.raises(Conflict, match="memory 'm'"):
            await import_(target, io.BytesIO(whole))
