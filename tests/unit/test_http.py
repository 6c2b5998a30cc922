"""HTTP to a service: connections, certificates, proxies, limits, and what is never shown."""

from __future__ import annotations

import asyncio
import gc
import ssl
import traceback
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from gnomon._http import HTTP, Limits
from gnomon._transport import Incoming, Outgoing
from gnomon.errors import (
    BadReply,
    ConfigError,
    ContextTooLong,
    ProviderError,
    RateLimited,
    StreamCut,
    Unreachable,
)

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER = EVENTS + b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"

Write = Callable[[bytes], Awaitable[None]]
Answer = Callable[[Write], Awaitable[None]]


class Server:
    """Answers every request of a connection in the same way, and remembers what it was asked."""

    def __init__(self, answer: Answer | bytes = ANSWER) -> None:
        self._answer = answer
        self.heads: list[bytes] = []
        self.connections = 0
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await _settled()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
            if isinstance(self._answer, bytes):
                await write(self._answer)
            else:
                await self._answer(write)


async def _settled() -> None:
    """Until a handshake that failed has ended at the server's end, too."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=2)


async def ask(http: HTTP) -> list[bytes]:
    found: list[bytes] = []
    async with http.post("/chat", b"{}") as reply:
        while (batch := await reply.batch()) is not None:
            found += batch
    return found


@asynccontextmanager
async def to(server: Server, **limits: float) -> AsyncIterator[HTTP]:
    http = HTTP(server.url, vendor="acme", limits=Limits(**limits))
    try:
        yield http
    finally:
        await http.close()


# --- connections ------------------------------------------------------------


async def test_requests_that_follow_one_another_use_one_connection() -> None:
    async with Server().running() as server, to(server) as http:
        for _ in range(5):
            assert await ask(http) == [b"1", b"2"]
        assert (server.connections, len(server.heads)) == (1, 5)


async def test_two_who_ask_the_same_host_share_its_connections_and_closing_one_leaves_the_other() -> None:
    async with Server().running() as server, to(server) as one, to(server) as other:
        await ask(one)
        await ask(other)
        await one.close()
        await one.close()
        assert await ask(other) == [b"1", b"2"]
        assert server.connections == 1
        assert await ask(one) == [b"1", b"2"]  # after it was closed, too


def test_one_client_serves_one_event_loop_after_another_without_a_word_of_complaint() -> None:
    http = HTTP("http://127.0.0.1:1", vendor="acme")

    async def once() -> None:
        async with Server().running() as server:
            http.base_url = server.url
            assert await ask(http) == [b"1", b"2"]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(once())
        asyncio.run(once())  # never closed: the pool ends with its loop
        gc.collect()


async def test_an_answer_that_is_left_in_the_middle_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def endless(write: Write) -> None:
        await write(EVENTS + b"9\r\ndata: 1\n\n\r\n")
        try:
            while True:
                await asyncio.sleep(0.005)
                await write(b"9\r\ndata: 2\n\n\r\n")
        finally:
            gone.set()

    async def left_in_the_middle(http: HTTP) -> None:
        async with http.post("/chat", b"{}") as reply:
            assert await reply.batch()
            raise KeyError

    async with Server(endless).running() as server, to(server) as http:
        with pytest.raises(KeyError):
            await left_in_the_middle(http)
        await asyncio.wait_for(gone.wait(), 2)


# --- limits -------------------------------------------------------------------


async def test_silence_is_counted_while_somebody_waits_and_not_while_the_reader_rests() -> None:
    async def in_two(write: Write) -> None:
        await write(EVENTS + b"9\r\ndata: 1\n\n\r\n")
        await asyncio.sleep(0.05)
        await write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async with (
        Server(in_two).running() as server,
        to(server, idle_s=0.2) as http,
        http.post("/", b"") as reply,
    ):
        assert await reply.batch() == [b"1"]
        await asyncio.sleep(0.5)
        assert await reply.batch() == [b"2"]


async def test_comments_count_as_a_sign_of_life() -> None:
    async def chatty(write: Write) -> None:
        await write(EVENTS)
        for _ in range(10):
            await asyncio.sleep(0.05)
            await write(b"8\r\n: wait\n\n\r\n")
        await write(b"9\r\ndata: 1\n\n\r\n0\r\n\r\n")

    async with Server(chatty).running() as server, to(server, idle_s=0.25) as http:
        assert await ask(http) == [b"1"]


@pytest.mark.parametrize("limits", [{"idle_s": 0.2}, {"total_s": 1.0}])
async def test_a_failed_reply_whose_body_never_ends_still_says_its_status(limits: dict[str, float]) -> None:
    async def stuck(write: Write) -> None:
        await write(b"HTTP/1.1 429 Slow\r\ncontent-length: 100\r\nretry-after: 3\r\n\r\nslow down")
        await asyncio.sleep(10)

    async with Server(stuck).running() as server, to(server, **limits) as http:
        with pytest.raises(ProviderError) as caught:
            await ask(http)
        assert (caught.value.status, caught.value.retry_after) == (429, 3.0)


# --- certificates -----------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def _secure(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_a_certificate_that_nobody_vouches_for_is_refused_and_not_tried_again(
    authority: trustme.CA,
) -> None:
    async with Server().running(_secure(authority)) as server:
        http = HTTP(f"https://127.0.0.1:{server.port}", vendor="acme")
        with pytest.raises(Unreachable, match=r"(?s)not secure: .*certificate.*ca=") as caught:
            await ask(http)
        assert not caught.value.retryable
        assert server.heads == []
        await http.close()


async def test_an_authority_of_ones_own_is_trusted_when_it_is_named(
    authority: trustme.CA, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    async with Server().running(_secure(authority)) as server:
        http = HTTP(f"https://127.0.0.1:{server.port}", vendor="acme", ca=str(ca))
        assert await ask(http) == [b"1", b"2"]
        await http.close()


async def test_a_certificate_file_that_is_none_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pem", tmp_path / "empty.pem"):
        http = HTTP("https://127.0.0.1:1", vendor="acme", ca=str(path))
        with pytest.raises(ConfigError, match=path.name):
            await ask(http)
        path.with_name("empty.pem").touch()


async def test_plain_http_where_tls_is_spoken_is_one_clear_error(authority: trustme.CA) -> None:
    async with Server().running(_secure(authority)) as server, to(server) as http:
        with pytest.raises(ProviderError, match=r"127\.0\.0\.1"):
            await ask(http)


# --- proxies ----------------------------------------------------------------


async def test_a_proxy_that_is_set_is_asked_for_the_whole_address() -> None:
    async with Server().running() as proxy:
        http = HTTP("http://model.invalid/v1", vendor="acme", proxy=f"http://127.0.0.1:{proxy.port}")
        assert await ask(http) == [b"1", b"2"]
        assert proxy.heads[0].startswith(b"POST http://model.invalid/v1/chat HTTP/1.1")
        await http.close()


async def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Server().running() as proxy, Server().running() as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        outside = HTTP("http://elsewhere.invalid", vendor="acme")
        async with to(server) as here:
            await ask(outside)
            await ask(here)
        assert (len(proxy.heads), len(server.heads)) == (1, 1)
        await outside.close()


async def test_a_proxy_that_is_not_there_is_called_the_proxy() -> None:
    http = HTTP("http://model.invalid", vendor="acme", proxy="http://127.0.0.1:1")
    with pytest.raises(Unreachable, match="proxy") as caught:
        await ask(http)
    assert caught.value.retryable
    await http.close()


# --- bad input ----------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("", "api.acme.example", "ftp://acme.example", "http://", "http://a:99999", "http://[::"),
        *("http://a:0", "http://a\nb", "http://a b", "http://a/v1?sig=s3cret", "http://a/v1#b"),
        *("u:s3cret@a", "http://s3cret@a"),
    ],
)
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match=r"base_url .* of provider 'acme'") as caught:
        HTTP(url, vendor="acme")
    assert "s3cret" not in str(caught.value)


async def test_a_service_that_is_not_there_is_named_with_what_to_do() -> None:
    http = HTTP("http://127.0.0.1:1/v1", vendor="acme")
    with pytest.raises(Unreachable) as caught:
        await ask(http)
    assert str(caught.value) == (
        "acme: cannot reach 127.0.0.1:1: connection refused (is it running, and is the address right?)"
    )
    await http.close()


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 two hundred\r\n\r\n", b"\x00\x01\x02\r\n\r\n"]
)
async def test_something_that_does_not_speak_http_is_a_bad_reply(answer: bytes) -> None:
    async with Server(answer).running() as server, to(server) as http:
        with pytest.raises(BadReply, match=r"did not answer in HTTP"):
            await ask(http)


async def test_a_connection_that_ends_before_the_answer_is_a_cut() -> None:
    async def slam(write: Write) -> None:
        raise ConnectionError

    async with Server(slam).running() as server, to(server) as http:
        with pytest.raises(StreamCut, match="before an answer began") as caught:
            await ask(http)
        assert caught.value.vendor == "acme"


async def test_no_error_repeats_a_secret_of_the_request() -> None:
    key = "an-odd-secret-of-no-known-make"

    async def parrot(write: Write) -> None:
        body = b'{"error":{"message":"no such key: %s","code":"%s"}}' % (key.encode(), key.encode())
        await write(b"HTTP/1.1 401 No\r\nx-request-id: r\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async with Server(parrot).running() as server:
        http = HTTP(server.url, vendor="acme", headers={"authorization": f"Bearer {key}"}, secrets=(key,))
        with pytest.raises(ProviderError) as caught:
            await ask(http)
        await http.close()
    assert key not in repr(caught.value.__dict__) + str(caught.value)
    assert "[redacted]" in str(caught.value)


async def test_a_whole_reply_can_be_fetched() -> None:
    async with (
        Server(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").running() as server,
        to(server) as http,
    ):
        assert await http.get_as("/models", dict) == {}
        assert server.heads[0].startswith(b"GET /v1/models ")


async def test_a_long_body_goes_out_whole_and_the_connection_is_used_again() -> None:
    """With warnings as errors: the client has one for bodies that are sent in one piece."""
    sizes: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert b"transfer-encoding" not in head
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                sizes.append(len(await reader.readexactly(length)))
                writer.write(ANSWER)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    http = HTTP(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", vendor="acme")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (5_000_000, 10, 1024 * 1024 + 1):
            async with http.post("/x", b"x" * size) as reply:
                while await reply.batch() is not None:
                    pass
    await http.close()
    server.close()
    await _settled()
    assert sizes == [5_000_000, 10, 1024 * 1024 + 1]


async def test_another_client_can_be_put_in_its_place() -> None:
    class Canned:
        status = 200
        headers = {"content-type": "text/event-stream"}

        def __init__(self) -> None:
            self.pieces = [b"data: 1\n", b"\n"]
            self.closed = False

        async def read(self) -> bytes:
            return self.pieces.pop(0) if self.pieces else b""

        def is_at_end(self) -> bool:
            return not self.pieces

        def abort(self, error: Exception | None = None) -> None:
            self.closed = True

    class Client:
        async def open(self, call: Outgoing) -> Incoming:
            assert (call.method, call.url, call.body) == ("POST", "http://acme.invalid/chat", b"{}")
            return Canned()

        async def close(self) -> None:
            pass

    assert await ask(HTTP("http://acme.invalid", vendor="acme", transport=Client())) == [b"1"]


async def test_a_connection_that_was_to_be_kept_and_was_not_is_no_failure() -> None:
    """Some servers say keep-alive and close after every answer; the next request goes out anew."""

    async def one_answer(write: Write) -> None:
        await write(ANSWER)
        await asyncio.sleep(0.005)
        raise ConnectionError

    async with Server(one_answer).running() as server, to(server) as http:
        for _ in range(20):
            assert await ask(http) == [b"1", b"2"]
            await asyncio.sleep(0.004)  # about when it closes
        assert len(server.heads) >= 20


async def test_a_new_connection_that_closes_is_not_tried_again() -> None:
    async def slam(write: Write) -> None:
        raise ConnectionError

    async with Server(slam).running() as server, to(server) as http:
        with pytest.raises(StreamCut):
            await ask(http)
        assert len(server.heads) == 1


async def test_a_request_that_a_kept_connection_took_and_lost_is_sent_once_more_at_most() -> None:
    """A server that dies of a request gets it on one new connection, not on every one that was kept."""
    asked = 0

    async def answers_then_dies(write: Write) -> None:
        nonlocal asked
        asked += 1
        if asked > 5:
            raise ConnectionError
        await asyncio.sleep(0.05)  # so that each of the five has a connection of its own
        await write(ANSWER)

    async with Server(answers_then_dies).running() as server, to(server) as http:
        await asyncio.gather(*(ask(http) for _ in range(5)))
        assert server.connections == 5
        with pytest.raises(StreamCut):
            await ask(http)
        assert asked == 5 + 2


async def test_a_request_that_was_worked_on_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was worked on is paid for; whether to ask again is for the caller to say."""
    monkeypatch.setattr("gnomon._aiohttp.STALE_S", 0.1)
    asked = 0

    async def works_and_dies(write: Write) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await write(ANSWER)
            return
        await asyncio.sleep(0.2)
        raise ConnectionError

    async with Server(works_and_dies).running() as server, to(server) as http:
        await ask(http)
        with pytest.raises(StreamCut, match="before an answer began"):
            await ask(http)
        assert asked == 2


async def test_cancelling_while_the_end_is_waited_for_closes_the_connection() -> None:
    """The last event has come and the service holds the connection open: that wait can be cancelled too."""
    gone = asyncio.Event()

    async def held(write: Write) -> None:
        await write(EVENTS + b"9\r\ndata: 1\n\n\r\n")
        try:
            while True:
                await asyncio.sleep(0.005)
                await write(b"2\r\n:\n\r\n")
        finally:
            gone.set()

    async with Server(held).running() as server, to(server) as http:
        leaving = asyncio.Event()

        async def reads_one() -> None:
            async with http.post("/chat", b"{}") as reply:
                assert await reply.batch()
                leaving.set()

        reading = asyncio.create_task(reads_one())
        await leaving.wait()
        reading.cancel()
        await asyncio.wait({reading})
        assert reading.cancelled()
        await asyncio.wait_for(gone.wait(), 2)


# --- secrets, in odd places -----------------------------------------------------

KEY = "an-odd-secret-of-no-known-make"


async def _read_as_json(http: HTTP) -> None:
    async with http.post("/chat", b"{}") as reply:
        for data in await reply.batch() or ():
            raise reply.unreadable(data, ValueError("no JSON"))


def _with_key(server: Server) -> HTTP:
    return HTTP(server.url, vendor="acme", headers={"authorization": f"Bearer {KEY}"}, secrets=(KEY,))


@pytest.mark.parametrize(
    "answer",
    [
        EVENTS.replace(b"transfer-encoding: chunked", b"x: y")
        + b"data: "
        + b"x" * 92
        + KEY.encode()
        + b"\n\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>" + b"x" * 171 + KEY.encode() + b"</p>",
        b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 571 + KEY.encode(),
        b"HTTP/1.1 500 No\r\nx-request-id: " + KEY.encode() + b"\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_a_secret_that_is_echoed_where_a_quotation_ends_is_not_shown_in_part(answer: bytes) -> None:
    async def parrot(write: Write) -> None:
        await write(answer)
        raise ConnectionError  # which ends it

    async with Server(parrot).running() as server:
        http = _with_key(server)
        with pytest.raises(ProviderError) as caught:
            await _read_as_json(http)
        await http.close()
    assert KEY[:12] not in repr(caught.value.__dict__) + str(caught.value)


async def test_no_secret_hangs_on_an_error_of_the_client_or_stands_in_its_frames() -> None:
    """An error that is logged with its causes, or with the variables of its frames, shows no key."""
    async with Server(b"SSH-2.0-OpenSSH\r\n\r\n").running() as server:
        http = _with_key(server)
        with pytest.raises(BadReply) as caught:
            await ask(http)
        await http.close()
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [line for line in told.format() if "test_http.py" not in line]
    assert KEY not in "".join(ours)
    assert KEY not in repr((caught.value.__cause__, caught.value.__context__))


async def test_a_key_that_is_no_secret_does_not_change_what_an_error_says() -> None:
    """A local server takes any key; a short one is a part of other words."""
    body = b'{"error":{"message":"too long","code":"context_length_exceeded"}}'
    refusal = b"HTTP/1.1 400 No\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with Server(refusal).running() as server:
        http = HTTP(server.url, vendor="acme", secrets=("x",))
        with pytest.raises(ContextTooLong):
            await ask(http)
        await http.close()


def test_an_event_loop_that_has_ended_is_forgotten() -> None:
    """A program that calls `asyncio.run` again and again does not grow."""
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def once() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        async with Server().running() as server:
            await ask(HTTP(server.url, vendor="acme"))

    for _ in range(3):
        asyncio.run(once())
    gc.collect()
    assert [loop() for loop in loops] == [None, None, None]


async def test_a_failed_reply_that_drips_is_told_soon_with_what_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gnomon._http._ERROR_S", 0.3)

    async def dripping(write: Write) -> None:
        await write(b"HTTP/1.1 429 Slow\r\nretry-after: 3\r\n\r\nslow down")
        while True:
            await asyncio.sleep(0.05)
            await write(b" ")

    async with Server(dripping).running() as server, to(server) as http:
        with pytest.raises(RateLimited, match="slow down") as caught:
            await asyncio.wait_for(ask(http), 3)
        assert caught.value.retry_after == 3.0
