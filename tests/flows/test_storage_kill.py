"""`kill -9` at random points: of who writes, of who opens after that, and of the server.

Whatever was acknowledged is there afterwards, nothing is half there, and the store can go on. With
`GNOMON_SOAK=1` there are 200 points on SQLite; a run that failed is repeated by its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from killed_check import check
from killed_writer import Said

import servers
from storing import Child, child, opened, sqlite_url

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
WRITER = Path(__file__).parent / "killed_writer.py"

STORES, POINTS = (10, 20) if SOAK else (2, 6)
LONGEST = 150 if SOAK else 60
SERVERS = ("postgres", "redis", "mongo", "dynamo")
POINTS_OF_CLIENTS = 25 if SOAK else 4
CRASHES_OF_SERVERS = 10 if SOAK else 2

_said = msgspec.json.Decoder(Said).decode


class Killing:
    """One store, and the processes that are killed on it."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.said: list[Said] = []
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)

    def kill_a_writer(self) -> None:
        """After so many acknowledgements and a moment more; now and then as it opens or closes the store."""
        with child(sys.executable, str(WRITER), self.url) as writer:
            when = self._chance.random()
            if when < 0.15:
                time.sleep(self._chance.uniform(0, 0.8))
            else:
                self._listen(writer, self._chance.randrange(1, LONGEST))
                if when < 0.3:
                    writer.tell()
                time.sleep(self._chance.uniform(0, 0.01))
            writer.process.kill()
            self._hear(writer.rest())
        self.counts["points"] += 1

    def kill_who_opens(self) -> None:
        """In the midst of what a store does when it finds that another was killed."""
        with child(sys.executable, str(WRITER), self.url, "open") as reader:
            reader.line()
            reader.tell()
            time.sleep(self._chance.uniform(0, 0.03))
            reader.process.kill()
        self.counts["openings"] += 1

    def kill_the_server(self, server: servers.Server, times: int) -> None:
        """While a client appends; it goes on by itself when the server is back."""
        with child(sys.executable, str(WRITER), self.url) as writer:
            for _ in range(times):
                self._listen(writer, self._chance.randrange(20, 60))
                server.kill()
                time.sleep(self._chance.uniform(0, 0.2))
                server.start()
                self.counts["crashes"] += 1
            self._listen(writer, 20)
            writer.tell()
            self._hear(writer.rest())
            assert writer.process.returncode == 0, writer.complaints()

    def check(self) -> None:
        async def checked() -> Counter[str]:
            async with opened(self.url) as storage:
                return await check(storage, self.said)

        counts = asyncio.run(checked())
        self.counts["acknowledged"] = sum(counts.values()) - counts["open"] - counts["away"]
        self.counts["appends"] = counts["message"] + counts["group"]

    def _listen(self, writer: Child, lines: int) -> None:
        for _ in range(lines):
            line = writer.line()
            assert line, f"the writer ended by itself: {writer.complaints()}"
            self._hear([line])

    def _hear(self, lines: Sequence[str]) -> None:
        self.said += map(_said, lines)


@pytest.fixture(autouse=True)
def totals() -> Iterator[None]:
    """What was counted, for whoever runs this with -s."""
    _totals.clear()
    yield
    print("\n" + ", ".join(f"{count} {what}" for what, count in sorted(_totals.items())))


_totals: Counter[str] = Counter()


@pytest.mark.parametrize("store", range(STORES))
def test_a_writer_that_is_killed_at_any_point_leaves_all_that_it_acknowledged(
    tmp_path: Path, store: int
) -> None:
    killing = Killing(sqlite_url(tmp_path / "store.db"), SEED * 1_000 + store)
    for point in range(POINTS):
        killing.kill_a_writer()
        for _ in range(point % 3):
            killing.kill_who_opens()
        killing.check()
    assert killing.counts["appends"] > 10
    _totals.update(killing.counts)


# --- on servers -----------------------------------------------------------------


@pytest.fixture
def fresh_url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of its own on the server of that name."""
    name, server = request.param, servers.shared(request.param)
    mark = f"t{uuid.uuid4().hex}"
    if name == "dynamo":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)  # type: ignore[attr-defined]
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)  # type: ignore[attr-defined]
        return f"dynamodb://us-east-1/{mark}?endpoint={server.url}"
    return {
        "postgres": f"{server.url}?schema={mark}",
        "redis": f"{server.url}?prefix={mark}",
        "mongo": f"{server.url}{mark}",
    }[name]


@pytest.mark.parametrize("fresh_url", SERVERS, indirect=True)
def test_a_client_of_a_server_that_is_killed_leaves_all_that_it_acknowledged(fresh_url: str) -> None:
    killing = Killing(fresh_url, SEED)
    for _ in range(POINTS_OF_CLIENTS):
        killing.kill_a_writer()
        killing.check()
    assert killing.counts["appends"] > 10
    _totals.update(killing.counts)


@pytest.mark.parametrize(("fresh_url", "name"), [(name, name) for name in SERVERS], indirect=["fresh_url"])
def test_a_server_that_is_killed_under_its_client_has_all_that_it_acknowledged(
    fresh_url: str, name: str
) -> None:
    killing = Killing(fresh_url, SEED)
    killing.kill_the_server(servers.shared(name), CRASHES_OF_SERVERS)
    killing.check()
    assert killing.counts["appends"] > 10
    _totals.update(killing.counts)
