"""Live deltas across processes: real sockets, real second processes, readers of every kind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from gnomon.engine.live import Bus, Channel
from gnomon.errors import InvalidInput
from gnomon.session import _live_lines, _sockets
from gnomon.session._live_lines import Cursor, Lines
from gnomon.session._sockets import LiveServer, follow, run_folder, socket_path
from gnomon.types.events import Done, PartEnd, TextDelta, ToolProgress, Unknown, UsageUpdate
from gnomon.types.messages import Message, Text
from gnomon.types.requests import Response, Usage
from storing import child


@pytest.fixture(autouse=True)
def place(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="g") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield Path(made)


@asynccontextmanager
async def serving(bus: Bus, owner: str = "owner"):
    server = LiveServer(bus, owner)
    await server.open()
    try:
        assert server.path is not None
        yield server
    finally:
        await server.close()
        assert left_behind() == []


@asynccontextmanager
async def following(channel: Channel, owner: str = "owner"):
    task = asyncio.ensure_future(follow(owner, channel))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert channel.current is None


@asynccontextmanager
async def client(line: bytes | None = b'{"session":"s"}\n', owner: str = "owner"):
    """A bare connection, and what it is sent."""
    reader, writer = await asyncio.open_unix_connection(socket_path(owner))
    try:
        if line is not None:
            writer.write(line)
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def left_behind() -> list[str]:
    folder = run_folder()
    return sorted(path.name for path in folder.iterdir()) if folder else []


async def until(true, limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.002)


def begun(channel: Channel, n: int = 1):
    return channel.begin("turn_1", f"msg_{n}", (1, n), n)


def said(channel: Channel, *texts: str) -> None:
    for text in texts:
        channel.put(TextDelta(0, text))


def text_of(attempt) -> str:
    return "".join(event.text for event in attempt.events) if attempt is not None else ""


async def attempt_in(channel: Channel, message_id: str = "msg_1"):
    await until(lambda: channel.current is not None and channel.current.message_id == message_id)
    return channel.current


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server hangs up."""
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""


# --- what a reader gets ---------------------------------------------------------


async def test_a_reader_sees_what_is_said_elsewhere_as_it_is_said() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus), following(seen) as task:
        channel.begin("turn_9", "msg_9", (4, 2), 17)
        attempt = await attempt_in(seen, "msg_9")
        assert (attempt.turn_id, attempt.number, attempt.after_seq) == ("turn_9", (4, 2), 17)
        for expected in ("a", "ab", "abc"):
            said(channel, expected[-1])
            await until(lambda expected=expected: text_of(attempt) == expected)
        assert not attempt.is_over
        channel.end()
        await until(lambda: attempt.is_over)
        begun(channel, 2)
        await attempt_in(seen, "msg_2")
        assert not task.done()


async def test_every_kind_of_event_arrives_as_it_was() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    response = Response(
        id="r", provider="p", model="m", message=Message.assistant("é\n\u2028"), stop_reason="end_turn"
    )
    events = [
        TextDelta(0, 'line\nend "quoted" \x00 ✓'),
        ToolProgress("turn_1", "call_1", (Text("half"),)),
        PartEnd(0, Text("whole")),
        UsageUpdate(Usage(input_tokens=3)),
        Unknown("from_the_future", {"begin": 1, "end": True}),
        Done(response),
    ]
    async with serving(bus), following(seen):
        begun(channel)
        for event in events:
            channel.put(event)
        attempt = await attempt_in(seen)
        await until(lambda: len(attempt.events) == len(events))
        assert attempt.events == events


async def test_a_reader_that_joins_in_the_middle_gets_the_attempt_from_its_first_event() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    begun(channel)
    said(channel, *"abc")
    async with serving(bus), following(seen):
        attempt = await attempt_in(seen)
        await until(lambda: text_of(attempt) == "abc")
        said(channel, "d")
        await until(lambda: text_of(attempt) == "abcd")


async def test_a_reader_gets_its_own_session_alone() -> None:
    bus, seen, other = Bus(), Channel("s"), Channel("t")
    mine, theirs = bus.channel("s"), bus.channel("t")
    async with serving(bus), following(seen), following(other):
        begun(mine)
        begun(theirs)
        said(theirs, "theirs")
        said(mine, "mine")
        await until(lambda: text_of(seen.current) == "mine" and text_of(other.current) == "theirs")


async def test_many_readers_get_the_same() -> None:
    bus, channels = Bus(), [Channel("s") for _ in range(_sockets.CLIENTS)]
    channel = bus.channel("s")
    async with serving(bus):
        tasks = [asyncio.ensure_future(follow("owner", one)) for one in channels]
        begun(channel)
        for number in range(500):
            said(channel, f"{number} ")
            if number % 50 == 0:
                await asyncio.sleep(0)
        whole = text_of(channel.current)
        await until(lambda: all(text_of(one.current) == whole for one in channels))
    await asyncio.wait_for(asyncio.gather(*tasks), 20)
    assert [one.current for one in channels] == [None] * len(channels)


async def test_an_event_that_cannot_be_sent_keeps_its_place() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus), following(seen):
        begun(channel)
        said(channel, "a", "\ud800", "c")
        attempt = await attempt_in(seen)
        await until(lambda: len(attempt.events) == 3)
        assert attempt.events == [TextDelta(0, "a"), Unknown("unsendable"), TextDelta(0, "c")]


async def test_what_ends_at_once_is_still_seen_whole() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus), following(seen):
        begun(channel)
        first = await attempt_in(seen)
        said(channel, *"abc")
        channel.end()
        begun(channel, 2)
        await attempt_in(seen, "msg_2")
        assert (text_of(first), first.is_over) == ("abc", True)


# --- slow readers -----------------------------------------------------------------


async def test_a_reader_that_does_not_read_holds_nobody_up_and_goes_on_with_the_newest() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus), client() as (reader, _), following(seen):
        reader._transport.pause_reading()
        begun(channel)
        said(channel, *["x" * 1000] * 20_000)  # far more than the system keeps for a reader
        await until(lambda: len(seen.current.events if seen.current else ()) == 20_000)
        for n in range(2, 50):
            begun(channel, n)
            said(channel, f"attempt {n}")
        await until(lambda: text_of(seen.current) == "attempt 49")
        reader._transport.resume_reading()
        lines = [await asyncio.wait_for(reader.readline(), 20)]
        while b"attempt 49" not in lines[-1]:
            lines.append(await asyncio.wait_for(reader.readline(), 20))
        begins = [json.loads(line)["begin"]["message_id"] for line in lines if line.startswith(b'{"begin')]
        assert begins == ["msg_1", "msg_49"]
        assert lines[-3] == b'{"end":true}\n'
        assert len(lines) < 5_000


async def test_a_reader_that_stalls_for_too_long_is_dropped(monkeypatch) -> None:
    monkeypatch.setattr(_sockets, "STALLED_S", 0.05)
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus) as server, client() as (reader, _):
        reader._transport.pause_reading()
        begun(channel)
        said(channel, *["x" * 1000] * 5_000)
        await until(lambda: len(server._clients) == 1)
        await until(lambda: not server._clients)
        assert channel._ears == []


def test_a_batch_is_bounded_whatever_has_piled_up() -> None:
    channel = Channel("s")
    begun(channel)
    said(channel, *["x" * 100] * 10_000)
    cursor, sizes = Cursor(channel), []
    while batch := cursor.next_batch():
        sizes.append(len(batch))
        assert cursor.is_behind == (len(sizes) < 1 + sum(sizes) // _live_lines.BATCH_BYTES)
    assert max(sizes) < _live_lines.BATCH_BYTES + 500
    assert sum(sizes) > 1_000_000


async def test_a_long_backlog_leaves_the_run_its_turn(monkeypatch) -> None:
    """Even with a reader so eager that sending to it never waits."""
    bus, turns, sent_in = Bus(), 0, []
    channel = bus.channel("s")
    begun(channel)
    said(channel, *["x" * 100] * 50_000)

    async def sent_at_once(connection: object, batch: bytes) -> None:
        sent_in.append(turns)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_sendall", sent_at_once)
    async with serving(bus), client():
        while len(sent_in) < 50:
            turns += 1
            await asyncio.sleep(0)
    assert len(set(sent_in[:50])) == 50


# --- who is let in, and who is dropped ----------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b'{"session":5}\n',
        b'{"session":null}\n',
        b'{"session":"\xff"}\n',
        b'{"session":"\\ud800"}\n',
        b'{"session":"s"}\n{"session":"t"}\n',
        b'{"session":"s"}\nmore',
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"a":' + b"[" * 4000 + b"\n",
        b"[" * 4090 + b"\n",
        b'{"session":"' + b"x" * 4096 + b'"}\n',
        b"\x00" * 100_000,
    ],
)
async def test_a_line_that_cannot_be_read_drops_the_client(line) -> None:
    bus = Bus()
    channel = bus.channel("s")
    begun(channel)
    async with serving(bus) as server, client(line) as (reader, _):
        assert await ended(reader) == b""
        await until(lambda: not server._clients)


async def test_a_line_as_long_as_is_allowed_is_read() -> None:
    name = "x" * (4096 - len('{"session":""}'))
    bus = Bus()
    begun(bus_channel := bus.channel(name))
    async with serving(bus), client(_live_lines.ask_line(name)) as (reader, _):
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b'{"begin"')
    assert bus_channel.current is not None


async def test_a_client_that_says_more_after_its_line_is_dropped() -> None:
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus) as server, client() as (reader, writer):
        await until(lambda: channel._ears)
        writer.write(b"x" * 1_000_000)
        assert await ended(reader) == b""
        await until(lambda: not server._clients)
        assert channel._ears == []


async def test_a_client_that_talks_and_does_not_read_does_not_make_the_loop_spin() -> None:
    bus, heard = Bus(), []
    channel = bus.channel("s")
    async with serving(bus), client() as (reader, writer):
        reader._transport.pause_reading()
        await until(lambda: channel._ears)
        begun(channel)
        said(channel, *["x" * 1000] * 5_000)
        await asyncio.sleep(0.05)
        channel._ears[0].set = lambda: heard.append(1)
        writer.write(b"x")
        await asyncio.sleep(0.05)
        assert heard == [1]


@pytest.mark.parametrize("drips", [False, True])
async def test_a_client_that_never_asks_is_dropped(monkeypatch, drips) -> None:
    monkeypatch.setattr(_sockets, "ASK_S", 0.2)
    async with serving(Bus()) as server, client(None) as (reader, writer):
        await until(lambda: server._clients)
        while server._clients:
            if drips:
                with suppress(OSError):
                    writer.write(b" ")
            await asyncio.sleep(0.01)
        assert await ended(reader) == b""


async def test_a_client_that_leaves_is_forgotten_though_nothing_is_said() -> None:
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus) as server:
        async with client():
            await until(lambda: channel._ears)
        await until(lambda: not server._clients)
        assert channel._ears == []


async def test_a_client_too_many_is_turned_away_and_let_in_when_there_is_room(monkeypatch) -> None:
    monkeypatch.setattr(_sockets, "CLIENTS", 2)
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus) as server, client():
        async with client():
            await until(lambda: len(channel._ears) == 2)
            await asyncio.wait_for(follow("owner", Channel("s")), 20)
            assert len(server._clients) == 2
        await until(lambda: len(server._clients) == 1)
        seen = Channel("s")
        async with following(seen):
            begun(channel)
            await attempt_in(seen)


@pytest.mark.parametrize(("uid", "is_let_in"), [(0, True), (None, True), (os.geteuid() + 1, False)])
async def test_only_this_user_and_root_are_let_in(monkeypatch, uid, is_let_in) -> None:
    bus = Bus()
    begun(channel := bus.channel("s"))
    monkeypatch.setattr(_sockets, "peer_uid", lambda connection: uid)
    async with serving(bus), client() as (reader, _):
        first = await ended(reader) if not is_let_in else await asyncio.wait_for(reader.readline(), 20)
        assert first.startswith(b'{"begin"') == is_let_in
    assert channel.current is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_process_of_another_user_is_turned_away(place) -> None:
    """Though it got through to the socket: folder and file stand open here."""
    bus = Bus()
    begun(channel := bus.channel("s"))
    async with serving(bus) as server:
        for path, mode in ((place, 0o777), (server.path.parent, 0o777), (server.path, 0o666)):
            path.chmod(mode)
        code = (
            "import os, socket, sys; os.setuid(12345); s = socket.socket(socket.AF_UNIX);"
            "s.connect(sys.argv[1]); print('in'); print(s.recv(10))"
        )
        with child(sys.executable, "-c", code, str(server.path)) as stranger:
            said_lines = await asyncio.to_thread(stranger.rest)
        assert said_lines[0] == "in"
        assert said_lines[1:] in (["b''"], [])  # an end, or a reset
        assert channel._ears == []


async def test_credentials_that_cannot_be_read_are_no_leave(monkeypatch) -> None:
    def unreadable(connection: object) -> int:
        raise OSError

    monkeypatch.setattr(_sockets, "peer_uid", unreadable)
    async with serving(Bus()), client() as (reader, _):
        assert await ended(reader) == b""


async def test_no_descriptors_left_is_no_reason_to_spin_or_to_fail(monkeypatch) -> None:
    monkeypatch.setattr(_sockets, "_NO_DESCRIPTORS_S", 0.05)
    tries = []
    real = socket.socket.accept

    def accept(self):
        tries.append(time.monotonic())
        if len(tries) <= 3:
            raise OSError(24, "too many open files")
        return real(self)

    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    monkeypatch.setattr(socket.socket, "accept", accept)
    async with serving(bus), following(seen):
        begun(channel)
        await attempt_in(seen)
        assert len(tries) == 4
        assert tries[3] - tries[0] > 0.1


async def test_a_server_is_closed_while_it_waits_for_descriptors(monkeypatch) -> None:
    def accept(self):
        raise OSError(24, "too many open files")

    monkeypatch.setattr(socket.socket, "accept", accept)
    async with serving(Bus()) as server, client():
        await until(lambda: server._pause is not None)


async def test_a_client_that_is_gone_before_it_is_let_in_is_nothing(monkeypatch) -> None:
    real, tries = socket.socket.accept, []

    def accept(self):
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionAbortedError
        return real(self)

    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    monkeypatch.setattr(socket.socket, "accept", accept)
    async with serving(bus), following(seen):
        begun(channel)
        await attempt_in(seen)


async def test_nothing_that_clients_do_disturbs_another_reader() -> None:
    """Rubbish, halves of lines, early leaves and resets, while the run goes on."""
    chance = random.Random(os.environ.get("GNOMON_TEST_SEED", "1"))
    bus, seen, unhandled = Bus(), Channel("s"), []
    channel = bus.channel("s")
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with serving(bus) as server, following(seen):
        begun(channel)
        attempt = await attempt_in(seen)
        for number in range(400):
            said(channel, f"{number} ")
            await _one_hostile_visit(chance)
        await until(lambda: text_of(attempt) == text_of(channel.current))
        await until(lambda: len(server._clients) == 1)
        assert len(channel._ears) == 1
    assert unhandled == []


async def _one_hostile_visit(chance: random.Random) -> None:
    rubbish = bytes(chance.randbytes(chance.choice([0, 1, 10, 5000])))
    whole = b'{"session":"s"}\n'
    line = chance.choice([rubbish, rubbish + b"\n", whole, whole[: chance.randrange(16)], whole + rubbish])
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.setblocking(False)
        with suppress(OSError):
            visitor.connect(str(socket_path("owner")))
            visitor.send(line)
            if chance.random() < 0.3:
                visitor.shutdown(chance.choice([socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR]))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                visitor.recv(chance.choice([1, 100_000]))
    await asyncio.sleep(0)


# --- opening and closing --------------------------------------------------------------


async def test_a_server_may_be_closed_twice_or_unopened_and_opened_again() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    server = LiveServer(bus, "owner")
    await server.close()
    for _ in range(2):
        await server.open()
        await server.open()
        assert server.path == socket_path("owner")
        assert left_behind() == [server.path.name]
        async with following(seen):
            begun(channel)
            await attempt_in(seen)
        await server.close()
        await server.close()
        assert (server.path, left_behind()) == (None, [])


async def test_a_server_closes_with_clients_in_every_state() -> None:
    bus = Bus()
    channel = bus.channel("s")
    begun(channel)
    said(channel, *["x" * 1000] * 5_000)
    async with client_of_each_kind(bus) as readers:
        for reader in readers:
            await ended(reader)
    assert channel._ears == []


@asynccontextmanager
async def client_of_each_kind(bus: Bus):
    """One that has not asked, one that reads, one that does not, one that only just came."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(bus))
        readers = [(await stack.enter_async_context(client(None)))[0]]
        readers += [(await stack.enter_async_context(client()))[0] for _ in range(3)]
        readers[2]._transport.pause_reading()
        await until(lambda: len(server._clients) >= 3)
        await server.close()
        readers[2]._transport.resume_reading()
        yield readers


async def test_a_server_closed_in_the_step_it_let_a_client_in_leaves_no_socket() -> None:
    async with serving(Bus()) as server:
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(str(server.path))
            server._accept(server._listener)
            assert len(server._clients) == 1
            await server.close()
            assert visitor.recv(1) == b""
    gc.collect()  # an unclosed socket is a warning, and a warning fails


async def test_a_second_server_of_the_same_name_does_not_steal_the_file() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus) as first:
        second = LiveServer(Bus(), "owner")
        await second.open()
        assert second.path is None
        await second.close()
        assert left_behind() == [first.path.name]
        async with following(seen):
            begun(channel)
            await attempt_in(seen)


async def test_a_server_removes_no_file_of_another() -> None:
    server = LiveServer(Bus(), "owner")
    await server.open()
    path = server.path
    path.unlink()
    path.write_text("another's")
    await server.close()
    assert path.read_text() == "another's"
    path.unlink()
    await server.open()
    path.unlink()
    await server.close()


async def test_a_server_stays_closed_where_there_can_be_no_socket(place, monkeypatch) -> None:
    server = LiveServer(Bus(), "owner")
    monkeypatch.setattr(_sockets, "socket_path", lambda owner: None)
    await server.open()
    assert server.path is None
    await asyncio.wait_for(follow("owner", Channel("s")), 20)
    await server.close()


async def test_opening_that_is_cancelled_leaves_nothing() -> None:
    import fcntl

    handle = os.open(run_folder(), os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    server = LiveServer(Bus(), "owner")
    opening = asyncio.ensure_future(server.open())
    await asyncio.sleep(0.03)
    opening.cancel()
    await asyncio.wait({opening})
    os.close(handle)
    await server.close()
    assert (server.path, left_behind()) == (None, [])


# --- following ------------------------------------------------------------------------


async def test_following_nobody_comes_back_at_once() -> None:
    await asyncio.wait_for(follow("nobody", Channel("s")), 20)
    socket_path("plain").write_text("no socket")
    await asyncio.wait_for(follow("plain", Channel("s")), 20)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path("dead")))
    await asyncio.wait_for(follow("dead", Channel("s")), 20)
    socket_path("link").symlink_to(socket_path("dead"))
    await asyncio.wait_for(follow("link", Channel("s")), 20)


async def test_following_a_socket_of_another_user_comes_back_at_once(monkeypatch) -> None:
    bus = Bus()
    begun(bus_channel := bus.channel("s"))
    async with serving(bus):
        monkeypatch.setattr(_sockets, "peer_uid", lambda connection: os.geteuid() + 1)
        await asyncio.wait_for(follow("owner", Channel("s")), 20)
    assert bus_channel._ears == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_following_a_file_of_another_user_comes_back_at_once() -> None:
    bus = Bus()
    async with serving(bus) as server:
        os.chown(server.path, 12345, 12345)
        await asyncio.wait_for(follow("owner", Channel("s")), 20)
        assert server._clients == {}


async def test_a_name_no_wire_can_carry_is_followed_by_nobody() -> None:
    async with serving(Bus()):
        await asyncio.wait_for(follow("owner", Channel("\ud800")), 20)


async def test_following_that_is_cancelled_ends_the_attempt() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus) as server:
        async with following(seen):
            begun(channel)
            attempt = await attempt_in(seen)
        assert attempt.is_over
        await until(lambda: not server._clients)


async def test_a_server_that_closes_ends_the_attempt() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus) as server, following(seen) as task:
        begun(channel)
        attempt = await attempt_in(seen)
        await server.close()
        await asyncio.wait_for(task, 20)
        assert attempt.is_over
    assert channel.current is not None  # the run does not mind


async def test_an_owner_of_this_process_is_not_followed_into_its_own_channel() -> None:
    """Every event would come round again, for ever."""
    bus = Bus()
    channel = bus.channel("s")
    attempt = begun(channel)
    async with serving(bus):
        await asyncio.wait_for(follow("owner", channel), 20)
    assert channel.current is attempt


async def test_readers_that_share_a_channel_see_each_event_once_and_outlive_one_another() -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    begun(channel)
    said(channel, "a")
    async with serving(bus) as server, following(seen) as first:
        second = asyncio.ensure_future(follow("owner", seen))
        await until(lambda: text_of(seen.current) == "a")
        said(channel, "b")
        await until(lambda: text_of(seen.current) == "ab")
        assert (len(server._clients), first.done(), second.done()) == (1, False, False)
        first.cancel()
        await asyncio.wait({first})
        said(channel, "c")
        await until(lambda: text_of(seen.current) == "abc")
        second.cancel()
        await asyncio.wait({second})


@pytest.mark.parametrize("next_line", ["begin", "put", "end"])
async def test_whoever_runs_the_session_here_is_not_disturbed_by_what_is_followed(next_line) -> None:
    bus, seen = Bus(), Channel("s")
    channel = bus.channel("s")
    async with serving(bus):
        task = asyncio.ensure_future(follow("owner", seen))
        begun(channel)
        followed = await attempt_in(seen)
        here = begun(seen, 7)
        if next_line == "begin":
            begun(channel, 2)
        elif next_line == "put":
            said(channel, "a")
        else:
            channel.end()
        await asyncio.wait_for(task, 20)
        assert (followed.is_over, seen.current, here.is_over, here.events) == (True, here, False, [])


class Kept(Channel):
    """A channel that keeps its attempts, however quickly they are over."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.attempts = []

    def begin(self, *of):
        self.attempts.append(super().begin(*of))
        return self.attempts[-1]


BEGIN = b'{"begin":{"turn_id":"t","message_id":"msg_1","number":[1,2],"after_seq":3}}\n'


@asynccontextmanager
async def speaking(*pieces: bytes):
    """A server that says these pieces to each client, and then nothing more."""

    async def speak(reader, writer) -> None:
        await reader.readline()
        with suppress(OSError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(speak, socket_path("owner"))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\n",
        b"rubbish\n",
        b"\xff\xfe\n",
        b"{}\n",
        b"null\n",
        b'{"type":5}\n',
        b'{"type":"turn_finished","turn_id":"t","stop":"end_turn","rounds":1}\n',
        b'{"begin":{}}\n',
        b'{"begin":{"turn_id":"t","message_id":"m","number":[1],"after_seq":3}}\n',
        b'{"begin":' + b"[" * 100_000 + b"\n",
        b"[" * 100_000 + b"\n",
    ],
)
async def test_a_line_that_cannot_be_read_ends_the_following(rubbish) -> None:
    seen = Kept("s")
    async with speaking(BEGIN + b'{"type":"text_delta","index":0,"text":"a"}\n', rubbish):
        await asyncio.wait_for(follow("owner", seen), 20)
    [attempt] = seen.attempts
    assert (text_of(attempt), attempt.is_over, seen.current) == ("a", True, None)


@pytest.mark.parametrize("line", [b'{"type":"text_delta","index":0,"text":"a"}\n', b'{"end":true}\n'])
async def test_what_belongs_to_no_attempt_ends_the_following(line) -> None:
    async with speaking(line):
        await asyncio.wait_for(follow("owner", Channel("s")), 20)


async def test_an_event_of_a_newer_owner_is_carried() -> None:
    seen = Channel("s")
    later = BEGIN.replace(b'"after_seq"', b'"mood":"new","after_seq"')
    async with speaking(later, b'{"type":"hologram","x":1}\n'), following(seen):
        attempt = await attempt_in(seen)
        await until(lambda: attempt.events)
        assert attempt.events == [Unknown("hologram", {"x": 1})]


async def test_lines_in_any_pieces_are_the_same_lines() -> None:
    text = BEGIN + b"".join(msgspec.json.encode(TextDelta(0, f"é{n}")) + b"\n" for n in range(9))
    for size in (1, 2, 7, 100, 10_000):
        lines = Lines()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert [line for piece in pieces for line in lines.feed(piece)] == text.splitlines()


def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(_live_lines, "LINE_LIMIT_BYTES", 1000)
    lines = Lines()
    for _ in range(10):
        assert list(lines.feed(b"x" * 100)) == []
    with pytest.raises(InvalidInput, match="longer than 1000"):
        list(lines.feed(b"x"))


async def test_a_crowd_at_the_door_waits_for_its_turn(monkeypatch) -> None:
    """A Unix socket with a full queue says: try again."""
    seen = Channel("s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(socket_path("owner")))
        listener.listen(0)
        first.connect(str(socket_path("owner")))
        task = asyncio.ensure_future(follow("owner", seen))
        await asyncio.sleep(0.12)
        assert not task.done()
        listener.accept()[0].close()
        listener.setblocking(False)
        connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        with connection:
            connection.send(BEGIN)
            await attempt_in(seen)
        await asyncio.wait_for(task, 20)
        second = socket.socket(socket.AF_UNIX)
        second.connect(str(socket_path("owner")))
        monkeypatch.setattr(_sockets, "_BUSY_PATIENCE_S", 0.1)
        await asyncio.wait_for(follow("owner", seen), 20)
        second.close()


# --- other processes ----------------------------------------------------------------------

# Speaks in session "s" until it is killed. With "fork", a child of it stays alive.
SPEAK = """
import asyncio, os, sys, time
from gnomon.engine.live import Bus
from gnomon.session._sockets import LiveServer
from gnomon.types.events import TextDelta

async def main(owner, how):
    bus = Bus()
    channel = bus.channel("s")
    server = LiveServer(bus, owner)
    await server.open()
    channel.begin("turn_1", "msg_1", (1, 1), 3)
    print("open", flush=True)
    number = 0
    while True:
        channel.put(TextDelta(0, f"{number} "))
        number += 1
        await asyncio.sleep(0.001)
        if how == "fork" and number == 100:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            print(child, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""

# Follows an owner, and says what it has seen.
LISTEN = """
import asyncio, sys
from gnomon.engine.live import Channel
from gnomon.session._sockets import follow

async def main(owner):
    channel = Channel("s")
    task = asyncio.ensure_future(follow(owner, channel))
    while channel.current is None or len(channel.current.events) < 50:
        await asyncio.sleep(0.001)
    print("".join(event.text for event in channel.current.events[:50]), flush=True)
    await task
    print(channel.current, flush=True)

asyncio.run(main(sys.argv[1]))
"""


async def line_of(process) -> str:
    return await asyncio.wait_for(asyncio.to_thread(process.line), 60)


async def test_a_reader_sees_the_attempt_end_when_the_owner_is_killed() -> None:
    seen = Channel("s")
    with child(sys.executable, "-W", "error", "-c", SPEAK, "owner", "") as owner:
        assert await line_of(owner) == "open", owner.complaints()
        task = asyncio.ensure_future(follow("owner", seen))
        attempt = await attempt_in(seen)
        await until(lambda: len(attempt.events) > 100)
        assert not attempt.is_over
        owner.send(signal.SIGKILL)
        await asyncio.wait_for(task, 20)
        assert (attempt.is_over, seen.current) == (True, None)
        assert text_of(attempt) == "".join(f"{n} " for n in range(len(attempt.events)))
        assert left_behind() == [socket_path("owner").name]
    async with serving(Bus()):  # in the dead one's place
        pass


async def test_a_forked_child_does_not_keep_a_dead_owner_alive() -> None:
    seen = Channel("s")
    with child(sys.executable, "-c", SPEAK, "owner", "fork") as owner:
        assert await line_of(owner) == "open", owner.complaints()
        task = asyncio.ensure_future(follow("owner", seen))
        attempt = await attempt_in(seen)
        forked = int(await line_of(owner))
        try:
            seen_then = len(attempt.events)
            await until(lambda: len(attempt.events) > seen_then + 20)
            owner.send(signal.SIGKILL)
            await asyncio.wait_for(task, 20)
            assert attempt.is_over
            async with serving(Bus()):
                pass
        finally:
            os.kill(forked, signal.SIGKILL)


async def test_a_server_that_was_forked_away_is_the_parents_alone() -> None:
    server = LiveServer(Bus(), "owner")
    await server.open()
    path, listener = server.path, server._listener
    asyncio.get_running_loop().remove_reader(listener)
    _sockets._leave_to_parent()
    await server.close()
    assert (listener.fileno(), server.path, path.exists()) == (-1, None, True)


async def test_a_reader_in_another_process_gets_the_deltas() -> None:
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus) as server:
        begun(channel)
        said(channel, *(f"{n}," for n in range(25)))
        with child(sys.executable, "-W", "error", "-c", LISTEN, "owner") as reader:
            await until(lambda: server._clients, 60)
            said(channel, *(f"{n}," for n in range(25, 50)))
            assert await line_of(reader) == "".join(f"{n}," for n in range(50)), reader.complaints()
            await server.close()
            assert await line_of(reader) == "None", reader.complaints()
            assert await asyncio.to_thread(reader.process.wait, 20) == 0, reader.complaints()


async def test_a_reader_that_is_killed_or_stopped_does_not_hold_up_the_owner() -> None:
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus) as server:
        begun(channel)
        said(channel, *(f"{n}," for n in range(50)))
        with child(sys.executable, "-c", LISTEN, "owner") as reader:
            await line_of(reader)
            reader.send(signal.SIGSTOP)
            longest_s = 0.0
            for _ in range(2000):
                before = time.perf_counter()
                said(channel, "x" * 1000)
                await asyncio.sleep(0)
                longest_s = max(longest_s, time.perf_counter() - before)
            assert longest_s < 1.0
            assert len(server._clients) == 1
            reader.send(signal.SIGKILL)
            await until(lambda: not server._clients)


# --- what it costs ------------------------------------------------------------------------


def test_nobody_connected_costs_nothing() -> None:
    bus = Bus()
    LiveServer(bus, "owner")
    assert len(bus._channels) == 0


async def test_an_open_server_without_clients_does_not_listen_to_any_channel() -> None:
    bus = Bus()
    channel = bus.channel("s")
    async with serving(bus):
        begun(channel)
        said(channel, *"abc")
        assert channel._ears == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
