"""The store in Redis when things go wrong: a server that dies, hangs or is full, a reply that never comes."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import trustme

import servers
from gnomon.contracts.storage import read_events
from gnomon.errors import Conflict, StorageError, StorageFull, Unavailable
from gnomon.storage._rows import Group, Place, Row, Span
from gnomon.storage.redis import RedisStorage
from gnomon.types.records import LedgerEvent, MemoryRecord, utc_now


@pytest.fixture(scope="module")
def url() -> str:
    return servers.shared("redis").url


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncGenerator[RedisStorage, None]:
    async with RedisStorage(url, prefix=f"t{uuid.uuid4().hex}", **settings) as storage:
        await storage.migrate()
        yield storage


def event(seq: int, session_id: str = "s", payload: bytes = b"{}") -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=uuid.uuid4().hex, type="t", payload=payload, created_at=utc_now()
    )


def memory(id: str, size: int = 1) -> MemoryRecord:
    value = "x" * size
    return MemoryRecord(id=id, agent_id="a", key=id, value=value, created_at=utc_now(), updated_at=utc_now())


async def ledger(storage: RedisStorage, session_id: str = "s") -> list[LedgerEvent]:
    async with read_events(storage, session_id) as events:
        return [event async for event in events]


class Writer:
    """Appends to one log until it is told to stop; knows what was acknowledged."""

    def __init__(self, storage: RedisStorage, session_id: str) -> None:
        self.session_id = session_id
        self.acknowledged: list[str] = []
        self._storage = storage

    async def write(self, until: asyncio.Event) -> None:
        while not until.is_set():
            next_event = event(len(self.acknowledged) + 1, self.session_id)
            await self._storage.append_event(next_event)
            self.acknowledged.append(next_event.id)

    async def check(self) -> None:
        stored = await ledger(self._storage, self.session_id)
        assert [event.id for event in stored] == self.acknowledged
        assert [event.seq for event in stored] == list(range(1, len(stored) + 1))


# --- a server that dies -----------------------------------------------------------


async def test_a_server_that_is_killed_again_and_again_has_all_that_was_acknowledged() -> None:
    with servers.redis() as server:
        async with RedisStorage(server.url, patience_s=30) as storage:
            await storage.migrate()
            done, writers = asyncio.Event(), [Writer(storage, f"s{n}") for n in range(10)]
            async with asyncio.TaskGroup() as tasks:
                for writer in writers:
                    tasks.create_task(writer.write(done))
                for _ in range(4):
                    await asyncio.sleep(0.3)
                    server.kill()
                    await asyncio.to_thread(server.start)
                await asyncio.sleep(0.3)
                done.set()
            assert min(len(writer.acknowledged) for writer in writers) > 20
            for writer in writers:
                await writer.check()


async def test_connections_that_are_reset_lose_and_double_nothing(url: str) -> None:
    async with opened(url) as storage, redis.asyncio.Redis.from_url(url) as client:
        done, writers = asyncio.Event(), [Writer(storage, f"s{n}") for n in range(8)]
        async with asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.write(done))
            for _ in range(20):
                await asyncio.sleep(0.03)
                await client.execute_command("CLIENT", "KILL", "TYPE", "normal")
            done.set()
        for writer in writers:
            await writer.check()


async def test_a_server_that_forgot_the_scripts_is_told_them_again(url: str) -> None:
    async with opened(url) as storage, redis.asyncio.Redis.from_url(url) as client:
        for seq in range(1, 4):
            await storage.append_event(event(seq))
            await client.script_flush()
        assert len(await ledger(storage)) == 3


# --- a reply that never comes -------------------------------------------------------


class Thief:
    """Stands before the server; when armed, lets a command through and keeps the reply."""

    def __init__(self, port: int) -> None:
        self.is_armed = False
        self.stolen = 0
        self._port = port
        self._serving: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def standing(self, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", ssl=tls)
        async with server:
            yield server.sockets[0].getsockname()[1]
            await asyncio.gather(*self._serving)  # the clients have gone

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.current_task())  # type: ignore[arg-type]
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        pumps = [asyncio.ensure_future(pump) for pump in (self._out(reader, back), self._in(there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in (writer, back):
            end.close()
            with suppress(OSError):
                await end.wait_closed()

    async def _out(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while read := await reader.read(65536):
            writer.write(read)

    async def _in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while read := await reader.read(65536):
            if self.is_armed:
                self.is_armed = False
                self.stolen += 1
                return
            writer.write(read)


@pytest.mark.parametrize("is_client_given", [False, True])
async def test_a_write_whose_reply_is_lost_is_neither_repeated_nor_denied(is_client_given: bool) -> None:
    """The driver would repeat it by itself, and be told that another was faster."""
    thief = Thief(servers.shared("redis").port)
    async with thief.standing() as port:
        client = redis.asyncio.Redis(host="127.0.0.1", port=port)
        given: dict[str, Any] = (
            {"client": client} if is_client_given else {"url": f"redis://127.0.0.1:{port}"}
        )
        async with client, RedisStorage(prefix=f"t{uuid.uuid4().hex}", **given) as storage:
            await storage.migrate()
            await storage.append_event(event(1))
            for seq in range(2, 6):
                thief.is_armed = True
                await storage.append_event(event(seq))
            thief.is_armed = True
            await storage.put_memory(memory("m"))
            assert thief.stolen == 5
            assert [event.seq for event in await ledger(storage)] == [1, 2, 3, 4, 5]
            with pytest.raises(Conflict):
                await storage.append_event(event(5))


async def test_a_certificate_that_does_not_hold_is_told_at_once(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with Thief(servers.shared("redis").port).standing(tls) as port:
        address = f"rediss://127.0.0.1:{port}/0"
        async with RedisStorage(address) as storage:
            with pytest.raises(StorageError, match="certificate") as refused:
                await storage.migrate()
            assert not isinstance(refused.value, Unavailable)
        async with opened(f"{address}?ssl_ca_certs={tmp_path / 'ca.pem'}") as storage:
            await storage.append_event(event(1))


# --- a server that hangs, or is not there ---------------------------------------------


async def test_a_server_that_hangs_is_unavailable_within_the_patience() -> None:
    with servers.redis() as server:
        async with RedisStorage(server.url, timeout_s=0.5, patience_s=1) as storage:
            await storage.migrate()
            await storage.append_event(event(1))
            server.freeze()
            began = time.monotonic()
            with pytest.raises(Unavailable, match="no answer within"):
                await storage.append_event(event(2))
            assert time.monotonic() - began < 3
            server.thaw()
            assert len(await ledger(storage)) in (1, 2)


async def test_many_calls_to_a_server_that_hangs_do_not_wait_for_one_another() -> None:
    with servers.redis() as server:
        async with RedisStorage(server.url, timeout_s=0.5, patience_s=1, connections=2) as storage:
            await storage.migrate()
            server.freeze()
            began = time.monotonic()
            calls = [storage.append_event(event(1, f"s{n}")) for n in range(50)]
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(error) for error in found} == {Unavailable}
            assert time.monotonic() - began < 4
            server.thaw()


async def test_nobody_there_is_unavailable() -> None:
    with servers.redis() as server:
        server.kill()
        async with RedisStorage(server.url, patience_s=0.3) as storage:
            with pytest.raises(Unavailable, match="cannot be reached"):
                await storage.migrate()


# --- a server that is full ---------------------------------------------------------------


async def test_a_full_server_stores_whole_or_not_at_all_and_can_be_pruned() -> None:
    with servers.redis() as server:
        async with RedisStorage(server.url) as storage, redis.asyncio.Redis.from_url(server.url) as client:
            await storage.migrate()
            for id in ("kept", "other"):
                await storage.put_memory(memory(id))
            await storage.append_event(event(1))
            await client.config_set("maxmemory", 1)
            for id in ("kept", "new"):
                with pytest.raises(StorageFull, match="maxmemory"):
                    await storage.put_memory(memory(id, 20))
            with pytest.raises(StorageFull):
                await storage.append_event(event(2))
            stored = (await storage.list_memory()).items
            assert [(row.id, row.value) for row in stored] == [("kept", "x"), ("other", "x")]
            assert [event.seq for event in await ledger(storage)] == [1]
            assert await storage.delete_memory("other")
            await client.config_set("maxmemory", 0)
            await storage.append_event(event(2))


async def test_a_row_that_is_replaced_leaves_no_place_behind(url: str) -> None:
    async with opened(url) as storage:
        rows = storage._rows.rows
        for revision, part in ((1, "a"), (2, "b"), (3, "a"), (4, "")):
            places = {"agent": Place(part, "k"), "all": Place("", f"k{revision}")}
            await rows.write(
                "t", Row(kind="memory", id="m", body=b"", revision=revision, places=places), None
            )
            for index, where in (("agent", "a"), ("agent", "b"), ("agent", ""), ("all", "")):
                found = await rows.find("t", Span(kind="memory", index=index, part=where))
                is_there = index == "all" or where == part
                assert [row.revision for row in found] == ([revision] if is_there else [])
        assert await rows.delete("t", "memory", "m", 3) is False
        assert await rows.delete("t", "memory", "m", 4)
        assert await rows.find("t", Span(kind="memory", index="all")) == []


# --- a caller that goes away ----------------------------------------------------------------


async def test_a_call_can_be_cancelled_at_any_moment(url: str) -> None:
    async with opened(url, connections=4) as storage:
        rows = storage._rows.rows
        for _ in range(60):
            seqs = await asyncio.gather(*(_tail(storage, f"s{n}") for n in range(4)))
            groups = [Group(seq + 1, seq + 1, b"x") for seq in seqs]
            calls = [asyncio.ensure_future(rows.append("t", f"s{n}", groups[n])) for n in range(4)]
            await asyncio.sleep(random.uniform(0, 0.002))
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        for n in range(4):
            stored = await rows.read("t", f"s{n}", 0, 1000)
            assert [group.last for group in stored] == list(range(1, len(stored) + 1))
            assert await rows.append("t", f"s{n}", Group(len(stored) + 1, len(stored) + 1, b"x"))
    gc.collect()  # a connection that was dropped open would warn now


async def _tail(storage: RedisStorage, session_id: str) -> int:
    groups = await storage._rows.rows.read("t", session_id, 0, 1000)
    return groups[-1].last if groups else 0


async def test_a_store_can_be_closed_while_calls_run(url: str) -> None:
    async with opened(url, connections=3) as storage:
        done, writers = asyncio.Event(), [Writer(storage, f"s{n}") for n in range(9)]
        running = [asyncio.ensure_future(writer.write(done)) for writer in writers]
        watch = storage.watch("s0")
        assert (await anext(watch)).seq == 1
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await asyncio.gather(storage.close(), storage.close())
        found = await asyncio.gather(*running, return_exceptions=True)
        assert time.monotonic() - began < 2
        assert {type(error) for error in found} == {StorageError}
        assert all("closed" in str(error) for error in found)
        with pytest.raises(StorageError, match="closed"):
            _ = [event async for event in watch]
        prefix = storage._rows.rows._prefix  # type: ignore[attr-defined]
        async with RedisStorage(url, prefix=prefix) as again:
            for writer in writers:
                stored = [event.id for event in await ledger(again, writer.session_id)]
                assert stored[: len(writer.acknowledged)] == writer.acknowledged
                assert len(stored) <= len(writer.acknowledged) + 1
    gc.collect()


async def test_a_store_that_hangs_can_be_closed_at_once() -> None:
    with servers.redis() as server:
        storage = RedisStorage(server.url)
        await storage.migrate()
        server.freeze()
        call = asyncio.ensure_future(storage.append_event(event(1)))
        new = RedisStorage(server.url.replace("//", "//:x@"))  # waits for an answer to its password
        other = asyncio.ensure_future(new.migrate())
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await asyncio.gather(storage.close(), new.close())
        assert time.monotonic() - began < 1
        for closed in (call, other):
            with pytest.raises(StorageError, match="closed"):
                await closed
        server.thaw()
    gc.collect()
