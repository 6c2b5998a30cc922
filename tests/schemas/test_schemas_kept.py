"""What released versions have stored is found by this one, and none of it is lost, on every database."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import schemas
import servers
from gnomon.contracts.storage import read_events
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import SCHEMA
from gnomon.types.records import LedgerEvent
from gnomon.upkeep import Finding, verify
from schemas.contents import LARGE_BYTES, OWNER, fill
from schemas.expecting import expected, forget, forgotten, seen, seen_blobs
from schemas.keep import kept
from schemas.lines import bytes_of, told
from stored import audit, event, opened

VERSIONS = range(1, SCHEMA + 1)
LARGEST_FILE_BYTES = 1_000_000


@pytest.fixture(params=schemas.STORES)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "sqlite":
        servers.shared(request.param)
    if request.param == "dynamo":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.DynamoServer.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.DynamoServer.secret_key)
    return request.param


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def url(store: str, version: int, tmp_path: Path) -> str:
    """A store as that version has left it."""
    return schemas.restored(store, version, tmp_path)


async def whole_log(store: RecordStorage, session_id: str) -> list[LedgerEvent]:
    async with read_events(store, session_id) as events:
        return [each async for each in events]


async def flaws(store: RecordStorage) -> list[Finding]:
    """But for payloads that are no events: what they are is none of a store's business."""
    return [each for each in (await verify(store)).found if each.flaw != "unreadable"]


# --- what is in them ------------------------------------------------------------------------------


async def test_everything_in_an_old_store_is_found(store: str, version: int, url: str) -> None:
    large_bytes, records = expected(store, version)
    async with opened(url) as old:
        assert await old.schema_version() == SCHEMA
        assert await seen(old) == records
        assert await seen_blobs(old, large_bytes) == [True] * 3
        assert await flaws(old) == []


async def test_an_old_store_is_written_to_where_it_ends(url: str) -> None:
    async with opened(url) as old:
        for row in (await old.list_sessions()).items:
            log = await whole_log(old, row.id)
            added = event(row.id, log[-1].seq + 1 if log else 1, b"new")
            await old.append_event(added)
            assert await whole_log(old, row.id) == [*log, added]
            assert (await old.update_session(row)).revision == row.revision + 1
            await old.append_audit_log(audit("new", row.id))
        assert await flaws(old) == []


async def test_a_runner_that_died_with_an_old_store_holds_nothing(url: str) -> None:
    async with opened(url) as old:
        assert not await old.is_held(OWNER)
        async with old.holding(OWNER):
            assert await old.is_held(OWNER)


async def test_an_old_store_forgets_what_it_should(version: int, url: str) -> None:
    async with opened(url) as old:
        assert await forget(old) == forgotten(version)
        assert [row.id for row in (await old.list_sessions()).items] == ["asleep", "due"]


async def test_an_upgraded_store_is_built_like_a_new_one(store: str, version: int, tmp_path: Path) -> None:
    copy, places = schemas.copier(store), [schemas.fresh_place(store, tmp_path) for _ in range(2)]
    await copy.restore(schemas.file_of(store, version).read_text("utf-8"), places[0])
    for place in places:
        async with opened(copy.address(place)):
            pass
    upgraded, new = [copy.shape(await copy.kept(place)) for place in places]
    assert upgraded == new
    assert new


# --- the files ------------------------------------------------------------------------------------


def test_every_version_of_every_store_has_its_file(version: int) -> None:
    """Whoever adds a version adds these: `keep.py` makes them."""
    wanted = {schemas.file_of(store, version).name for store in schemas.STORES} | {
        f"expected-{version}.jsonl"
    }
    assert wanted <= {path.name for path in schemas.FOLDER.iterdir()}


@pytest.mark.parametrize("path", sorted(schemas.FOLDER.glob("*-*.*")), ids=lambda path: path.name)
def test_a_file_is_small_and_text(path: Path) -> None:
    text = path.read_text("utf-8")
    assert path.stat().st_size < LARGEST_FILE_BYTES
    assert not re.search(r"[^\n -\x7e\x80-\U0010ffff]", text)


async def test_what_is_restored_is_what_was_kept(store: str, version: int, tmp_path: Path) -> None:
    copy, place = schemas.copier(store), schemas.fresh_place(store, tmp_path)
    text = schemas.file_of(store, version).read_text("utf-8")
    await copy.restore(text, place)
    assert await copy.kept(place) == text


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff", b"a" * 999, b"a" * 1_000, b"x" + b"a" * 5_000 + b"b" * 3_000 + b"yz", b"\n" * 2_000],
)
def test_bytes_come_back_from_a_line(content: bytes) -> None:
    assert bytes_of(told(content)) == content
    assert len(str(told(content))) < 1_500


# --- the program ----------------------------------------------------------------------------------


async def test_the_program_keeps_a_store_whole(store: str, tmp_path: Path) -> None:
    copy, place = schemas.copier(store), schemas.fresh_place(store, tmp_path)
    text = await kept(store)
    await copy.restore(text, place)
    async with opened(copy.address(place)) as restored, opened("memory://") as filled:
        await fill(filled, LARGE_BYTES[store])
        assert await seen(restored) == await seen(filled)
    assert copy.shape(text) == copy.shape(schemas.file_of(store, SCHEMA).read_text("utf-8"))


def test_the_program_never_writes_over_a_file() -> None:
    path = schemas.file_of("sqlite", SCHEMA)
    before = path.stat().st_mtime_ns
    command = [sys.executable, str(schemas.FOLDER / "keep.py"), "sqlite"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, path.stat().st_mtime_ns) == (1, before)
    assert "is there: remove it" in done.stderr
