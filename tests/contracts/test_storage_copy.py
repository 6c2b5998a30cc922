"""From SQLite to each database and back: the same hashes, and nothing else but the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import servers
import stored
from gnomon.contracts.storage import read_events
from gnomon.errors import Conflict
from gnomon.storage._events import _VACANT
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import Group
from gnomon.upkeep import copy, sweep, verify
from stored import event, events, in_file, opened, session

SERVERS = ["postgres", "redis", "mongo", "dynamo"]


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of its own on each of the servers."""
    server, own = servers.shared(request.param), f"t{uuid.uuid4().hex}"
    if request.param == "dynamo":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    return {
        "postgres": f"{server.url}?schema={own}",
        "redis": f"{server.url}?prefix={own}",
        "mongo": f"{server.url}{own}",
        "dynamo": f"dynamodb://us-east-1/{own}?endpoint={server.url}",
    }[request.param]


async def test_what_goes_there_and_back_has_the_same_hashes(url: str, tmp_path: Path) -> None:
    async with (
        opened(in_file(tmp_path / "from.db")) as source,
        opened(url) as there,
        opened(in_file(tmp_path / "back.db")) as back,
    ):
        await stored.fill(source, sessions=3, size_bytes=1_100_000)
        wanted = await stored.hashes(source)
        done = await copy(source, there)
        assert done.bytes > 2_200_000
        assert await stored.hashes(there) == wanted
        assert (await verify(there)).is_sound
        assert (await sweep(there)).removed == 0
        await copy(there, back)
        assert await stored.hashes(back) == wanted
        again = await copy(source, there)
        assert (again.skipped, again.bytes) == (again.sessions, 0)


async def test_the_command_copies_there_and_back(url: str, tmp_path: Path) -> None:
    async with opened(in_file(tmp_path / "from.db")) as source:
        await stored.fill(source, sessions=2)
        wanted = await stored.hashes(source)
    back = in_file(tmp_path / "back.db")
    for ends in ((in_file(tmp_path / "from.db"), url), (url, back)):
        done = await asyncio.to_thread(_gnomon, "db", "copy", *ends)
        assert done.returncode == 0, done.stderr
        assert b"the same hash in both" in done.stdout
    status = await asyncio.to_thread(_gnomon, "db", "status", url)
    assert b"tenant default       4 sessions, 5 memory records" in status.stdout, status
    async with opened(back) as store:
        assert await stored.hashes(store) == wanted


def _gnomon(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "gnomon", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)


async def test_what_differs_there_is_not_written_over(url: str) -> None:
    async with opened("memory://") as source, opened(url) as there:
        await stored.fill(source, sessions=1)
        await there.append_event(event("blobs", 1, b"mine"))
        with pytest.raises(Conflict, match="session 'blobs'"):
            await copy(source, there)
        assert [one.payload for one in (await there.list_events("blobs")).items] == [b"mine"]
        assert await there.get_session("blobs") is None


@pytest.mark.parametrize("page_size", [1, 500])
async def test_a_log_that_began_in_the_midst_shows_nothing_of_how(url: str, page_size: int) -> None:
    async with opened(url) as store:
        # As a process leaves it that was killed before it had put the first event.
        await store.create_session(session("s"))
        assert await store._rows.append("default", "s", Group(1, 10, _VACANT))
        assert await seqs(store, page_size) == []
        await store.begin_log(events("s", 11, 13))
        await store.append_event(event("s", 14))
        assert await seqs(store, page_size) == [11, 12, 13, 14]
        with pytest.raises(Conflict):
            await store.append_event(event("s", 16))
        with pytest.raises(Conflict):
            await store.begin_log(events("s", 11, 13))
        # Or before more was pruned where it comes from.
        assert await store._rows.append("default", "y", Group(1, 10, _VACANT))
        await store.begin_log(events("y", 21, 22))
        assert await seqs(store, page_size, "y") == [21, 22]
        # And as one leaves it that was killed right after.
        assert await store._rows.append("default", "z", Group(1, 10, _VACANT))
        await store.append_events(events("z", 11, 13))
        assert await seqs(store, page_size, "z") == [11, 12, 13]


async def seqs(store: RecordStorage, page_size: int, session_id: str = "s") -> list[int]:
    async with read_events(store, session_id, page_size=page_size) as found:
        return [one.seq async for one in found]
