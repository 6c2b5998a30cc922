"""A key that is fetched for every request: in the loop or beside it, within a limit, and never shown."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from test_http import Server

from gnomon._connect import Account, connected
from gnomon._http import HTTP, Limits
from gnomon._token import Token, TokenSource
from gnomon.errors import ConfigError, ConnectTimeout, ProviderError, Unauthorized

SECRET = "token-4f1a9c-of-the-hour"


def to(server: Server, token: Token, **limits: float) -> HTTP:
    source = TokenSource(token, vendor="acme", header="authorization", prefix="Bearer ")
    return HTTP(f"http://127.0.0.1:{server.port}", vendor="acme", token=source, limits=Limits(**limits))


async def asked(http: HTTP, times: int = 1) -> None:
    for _ in range(times):
        async with http.post("/x", b"{}") as reply:
            while await reply.batch() is not None:
                pass


async def test_each_request_carries_the_token_that_holds_at_the_time() -> None:
    tokens = iter(["one-token", "two-token"])
    async with Server().running() as server:
        http = to(server, lambda: next(tokens))
        await asked(http, 2)
        await http.close()
    assert [b"Bearer one-token" in server.heads[0], b"Bearer two-token" in server.heads[1]] == [True, True]


async def test_a_coroutine_is_awaited_and_a_function_runs_beside_the_loop() -> None:
    where: list[bool] = []

    async def in_the_loop() -> str:
        where.append(threading.current_thread() is threading.main_thread())
        return SECRET

    def beside() -> str:
        where.append(threading.current_thread() is threading.main_thread())
        return SECRET

    async with Server().running() as server:
        for token in (in_the_loop, beside, lambda: in_the_loop()):
            http = to(server, token)
            await asked(http)
            await http.close()
    assert where == [True, False, True]


async def test_a_slow_function_holds_up_nobody_else() -> None:
    def slow() -> str:
        time.sleep(0.3)
        return SECRET

    async with Server().running() as server:
        http = to(server, slow)
        waiting = asyncio.create_task(asked(http))
        beats = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            beats += 1
        await waiting
        await http.close()
    assert beats > 10


async def test_a_token_that_does_not_come_is_a_connect_timeout() -> None:
    async def never() -> str:
        await asyncio.sleep(60)
        return SECRET

    async with Server().running() as server:
        http = to(server, never, connect_s=0.1)
        with pytest.raises(ConnectTimeout, match="no token"):
            await asked(http)
    assert not server.heads


@pytest.mark.parametrize("found", ["", "  ", None, 7, "two words", "tökén", "a\nb"])
async def test_what_is_no_token_is_said_and_nothing_is_sent(found: object) -> None:
    async with Server().running() as server:
        http = to(server, lambda: found)  # type: ignore[arg-type, return-value]
        with pytest.raises(Unauthorized, match="gave none"):
            await asked(http)
    assert not server.heads


async def test_a_failure_to_fetch_is_one_clear_error_of_the_provider() -> None:
    def fails() -> str:
        raise OSError("login.example refused client_secret=abcdef123456")

    async with Server().running() as server:
        http = to(server, fails)
        with pytest.raises(Unauthorized, match=r"OSError: login\.example refused") as caught:
            await asked(http)
    assert "abcdef123456" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_an_error_of_ours_goes_through_as_it_is() -> None:
    def fails() -> str:
        raise ConfigError("log in first")

    async with Server().running() as server:
        with pytest.raises(ConfigError, match="log in first"):
            await asked(to(server, fails))


async def test_a_time_limit_of_its_own_is_not_taken_for_ours() -> None:
    async def fails() -> str:
        raise TimeoutError("of the token service")

    async with Server().running() as server:
        with pytest.raises(Unauthorized, match="of the token service"):
            await asked(to(server, fails))


async def test_a_token_that_a_service_repeats_is_not_shown() -> None:
    said = b'{"error":{"message":"bad ' + SECRET.encode() + b'"}}'
    refusal = (
        b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        % (
            len(said),
            said,
        )
    )
    async with Server(refusal).running() as server:
        with pytest.raises(ProviderError) as caught:
            await asked(to(server, lambda: SECRET))
    assert SECRET not in str(caught.value)


async def test_functions_that_hang_are_in_nobodys_way() -> None:
    """As many as the loop has threads for: a look-up of a name, or a tool, needs one of those too."""
    go_on = threading.Event()

    def hangs() -> str:
        go_on.wait(30)
        return SECRET

    async with Server().running() as server:
        http = to(server, hangs, connect_s=0.02)
        try:
            for _ in range(40):
                with pytest.raises(ConnectTimeout):
                    await asked(http)
            assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 5) == 7
            alive = [thread for thread in threading.enumerate() if thread.name == "gnomon-token"]
            assert alive
            assert all(thread.daemon for thread in alive)
        finally:
            go_on.set()


async def test_a_token_whose_own_work_was_cancelled_is_one_that_could_not_be_had() -> None:
    async def waits() -> str:
        shared: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        shared.cancel()
        return await shared

    async with Server().running() as server:
        with pytest.raises(Unauthorized, match="no token could be had: CancelledError"):
            await asked(to(server, waits))


async def test_who_is_cancelled_while_a_token_is_fetched_is_cancelled() -> None:
    async def waits() -> str:
        await asyncio.sleep(60)
        return SECRET

    async with Server().running() as server:
        task = asyncio.create_task(asked(to(server, waits)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class _Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "error", [ValueError("x" * 5_000_000), _Speechless(), StopIteration("over"), SystemExit(3)]
)
async def test_a_failure_of_any_kind_is_told_in_short(error: BaseException) -> None:
    def fails() -> str:
        raise error

    async with Server().running() as server:
        with pytest.raises(Unauthorized, match="no token could be had") as caught:
            await asked(to(server, fails))
    assert len(str(caught.value)) < 1000


async def test_a_token_stays_a_secret_while_others_are_fetched() -> None:
    fetched = 0

    def another() -> str:
        nonlocal fetched
        fetched += 1
        return f"token-number-{fetched:04}"

    async with Server().running() as server:
        http = to(server, another)
        await asked(http, 10)
        await http.close()
    assert "token-number" not in http.without_secrets("they sent token-number-0001")


async def test_a_token_that_is_a_word_is_no_secret() -> None:
    async with Server().running() as server:
        http = to(server, lambda: "none")
        await asked(http)
        await http.close()
    assert http.without_secrets("there is none") == "there is none"


def test_a_token_is_fetched_by_a_function() -> None:
    account = Account(vendor="acme", variables=())
    with pytest.raises(ConfigError, match="a function") as caught:
        connected(account, "http://127.0.0.1", key=None, token=SECRET, limits=Limits())  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)
