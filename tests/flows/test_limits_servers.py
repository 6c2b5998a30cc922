"""What a server keeps of a limit, on a real Redis and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import redis.asyncio
import redis.exceptions

import servers
from gnomon.errors import AccessDenied, RateLimited, StorageError, Unavailable
from gnomon.hooks import _postgres_limits, _redis_limits
from gnomon.hooks._shared import AWAY_S, Need, Store, store_at
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.stream import PullStream, Stream
from gnomon.types.events import Done, Finish, ProviderEvent, RunEvent, TextDelta
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Usage
from gnomon.types.steps import HookEvent

KINDS = ("redis", "postgres")
FREE = Need(request_s=0.0, request_room_s=60.0, token_s=0.0, token_room_s=60.0, concurrent=None)
HALF_MINUTE = Need(request_s=0.0, request_room_s=60.0, token_s=30.0, token_room_s=30.0, concurrent=None)
A_MINUTE = Need(request_s=0.0, request_room_s=60.0, token_s=60.0, token_room_s=0.0, concurrent=None)
ONE_REQUEST = Need(request_s=60.0, request_room_s=0.0, token_s=0.0, token_room_s=60.0, concurrent=None)
ALONE = Need(request_s=0.0, request_room_s=60.0, token_s=0.0, token_room_s=60.0, concurrent=1)


def fresh_url(kind: str, server: servers.Server | None = None) -> str:
    setting = {"redis": "prefix", "postgres": "schema"}[kind]
    return f"{(server or servers.shared(kind)).url}?{setting}=t{uuid.uuid4().hex}"


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    return fresh_url(request.param)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Store, None]:
    store = store_at(url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def hooked(url: str, **settings: Any) -> AsyncGenerator[RateLimitHook, None]:
    hook = RateLimitHook(shared=url, **settings)
    try:
        yield hook
    finally:
        await hook.close()


async def step(hook: RateLimitHook, *, tokens: int = 10, error: Exception | None = None) -> list[RunEvent]:
    async def events() -> AsyncGenerator[ProviderEvent, None]:
        if error is not None:
            raise error
        yield TextDelta(0, "Noon.")
        yield Finish(stop_reason="end_turn", usage=Usage(input_tokens=5, output_tokens=5))

    async def call(event: HookEvent) -> PullStream[RunEvent]:
        return Stream(events())

    request = Request(messages=(Message.user("Hi"),), max_tokens=tokens)
    async with await hook.around(HookEvent(kind="model", name="acme:tide", request=request), call) as stream:
        return [each async for each in stream]


# --- what the server keeps


async def test_what_was_taken_comes_back_at_the_pace_of_the_limit(url: str) -> None:
    async with opened(url) as store:
        assert await store.take("k", "a", HALF_MINUTE) == 0
        assert await store.take("k", "b", HALF_MINUTE) == 0
        assert 20 < await store.take("k", "c", HALF_MINUTE) <= 30


async def test_requests_and_tokens_are_counted_each_by_itself(url: str) -> None:
    async with opened(url) as store:
        assert await store.take("k", "a", ONE_REQUEST) == 0
        assert await store.take("k", "b", A_MINUTE) == 0
        assert 50 < await store.take("k", "c", ONE_REQUEST) <= 60


async def test_more_than_the_limit_holds_is_taken_only_when_it_is_whole(url: str) -> None:
    two_minutes = Need(request_s=0.0, request_room_s=60.0, token_s=120.0, token_room_s=0.0, concurrent=None)
    async with opened(url) as store:
        assert await store.take("k", "a", two_minutes) == 0
        assert 80 < await store.take("k", "b", HALF_MINUTE) <= 90  # 120, less the half that may be missing
        await store.leave("k", "b", 0, 0)
        assert 110 < await store.take("k", "c", two_minutes) <= 120


async def test_what_is_given_back_can_be_taken_again_and_what_was_used_on_top_cannot(url: str) -> None:
    async with opened(url) as store:
        await store.take("k", "a", A_MINUTE)
        await store.leave("k", "a", 0, -60.0)
        assert await store.take("k", "b", A_MINUTE) == 0
        await store.leave("k", "b", 0, 40.0)
        assert 60 < await store.take("k", "c", HALF_MINUTE) <= 70
        await store.leave("k", "c", 0, -1000.0)
        assert await store.take("k", "d", A_MINUTE) == 0  # no more than whole


async def test_used_on_top_counts_from_now_when_the_limit_was_whole_again(url: str) -> None:
    async with opened(url) as store:
        await store.leave("k", "a", 50.0, 50.0)
        assert 45 < await store.take("k", "b", A_MINUTE) <= 50


async def test_who_came_first_goes_first_also_when_a_later_one_would_fit(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        await store.take("k", "a", HALF_MINUTE)
        assert await store.take("k", "large", A_MINUTE) > 0
        assert await other.take("k", "small", FREE) < 0
        await store.leave("k", "large", 0, 0)
        assert await other.take("k", "small", FREE) == 0


async def test_no_more_are_inside_than_allowed(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        assert await store.take("k", "a", ALONE) == 0
        assert await other.take("k", "b", ALONE) < 0
        await store.leave("k", "a", 0, 0)
        assert await other.take("k", "b", ALONE) == 0


async def test_what_is_shut_is_shut_for_all_and_not_for_less_than_before(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        await store.shut("k", 100)
        await store.shut("k", 10)
        assert 90 < await other.take("k", "a", FREE) <= 100


async def test_keys_have_nothing_to_do_with_one_another(url: str) -> None:
    async with opened(url) as store:
        await store.shut("one", 100)
        assert await store.take("two", "a", FREE) == 0
        assert await store.take("{odd} key's\n", "a", FREE) == 0


async def test_a_place_that_is_renewed_is_kept_and_one_that_is_not_is_free(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (_redis_limits, _postgres_limits):
        monkeypatch.setattr(module, "LEASE_S", 0.3)
    async with opened(url) as store, opened(url) as other:
        await store.take("k", "kept", ALONE)
        await store.take("j", "lost", ALONE)
        monkeypatch.setattr(_redis_limits, "LEASE_S", 100)
        monkeypatch.setattr(_postgres_limits, "LEASE_S", 100)
        await store.renew("k", ("kept", "never there"))
        await asyncio.sleep(0.4)
        assert await other.take("k", "a", ALONE) < 0
        assert await other.take("j", "b", ALONE) == 0
        await store.leave("k", "kept", 0, 0)
        assert await other.take("k", "a", ALONE) == 0  # nobody came in by being renewed


async def test_who_waits_and_does_not_ask_again_is_passed_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (_redis_limits, _postgres_limits):
        monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    async with opened(url) as store:
        await store.take("k", "a", HALF_MINUTE)
        assert await store.take("k", "gone", A_MINUTE) > 0
        await asyncio.sleep(0.4)
        assert await store.take("k", "b", HALF_MINUTE) == 0


async def test_ten_who_open_it_at_once_find_one_limit(url: str) -> None:
    stores = [store_at(url) for _ in range(10)]
    try:
        waits = await asyncio.gather(
            *(store.take("k", f"t{at}", A_MINUTE) for at, store in enumerate(stores))
        )
        assert waits.count(0) == 1
    finally:
        for store in stores:
            await store.close()


async def test_of_ten_who_want_the_last_one_at_once_one_gets_it(url: str) -> None:
    stores = [store_at(url) for _ in range(10)]
    try:
        for round in range(20):
            await asyncio.gather(*(store.leave(f"k{round}", "nobody", 0, 0) for store in stores))
            waits = await asyncio.gather(
                *(store.take(f"k{round}", uuid.uuid4().hex, A_MINUTE) for store in stores)
            )
            assert waits.count(0) == 1
    finally:
        for store in stores:
            await store.close()


async def test_a_hundred_at_once_take_no_more_than_there_is(url: str) -> None:
    tenth = Need(request_s=6.0, request_room_s=54.0, token_s=0.0, token_room_s=60.0, concurrent=None)
    async with opened(url) as store:
        waits = await asyncio.gather(*(store.take("k", f"t{at}", tenth) for at in range(100)))
        assert 10 <= waits.count(0) <= 11  # one more, where it takes six seconds


# --- what is left on the server


async def test_redis_forgets_a_limit_that_is_whole() -> None:
    url = fresh_url("redis")
    async with opened(url) as store:
        await store.take("k", "a", A_MINUTE)
        await store.shut("k", 1_000)
    client = redis.asyncio.Redis.from_url(servers.shared("redis").url)
    async with client:
        keys = [key async for key in client.scan_iter(f"{url.rpartition('=')[2]}:*")]
        assert keys
        assert all([1_000 < await client.ttl(key) <= 1_200 for key in keys])


async def test_postgres_forgets_what_was_not_used_for_a_day() -> None:
    url = fresh_url("postgres")
    schema = url.rpartition("=")[2]
    async with opened(url) as store:
        await store.take("k", "a", A_MINUTE)
        await store.take("old", "a", ALONE)
    connection = await asyncpg.connect(servers.shared("postgres").url)
    try:
        for table, columns in (
            ("rate_limits", "requests_whole, tokens_whole"),
            ("rate_tickets", "until, place"),
        ):
            first = columns.partition(",")[0]
            assert await connection.fetchval(f"SELECT count(*) FROM {schema}.{table} WHERE key = 'old'") == 1
            await connection.execute(f"UPDATE {schema}.{table} SET {first} = 5 WHERE key = 'old'")
        await connection.execute(f"UPDATE {schema}.rate_limits SET tokens_whole = 5 WHERE key = 'old'")
        async with opened(url) as store:
            await store.take("k", "b", FREE)
        assert await connection.fetchval(f"SELECT array_agg(key) FROM {schema}.rate_limits") == ["k"]
        assert await connection.fetchval(f"SELECT count(*) FROM {schema}.rate_tickets WHERE key = 'old'") == 0
    finally:
        await connection.close()


async def test_a_cancelled_step_leaves_nothing_on_the_server(url: str) -> None:
    async with hooked(url, concurrent=1) as hook, opened(url) as store:
        assert await store.take("acme:tide", "holder", ALONE) == 0
        waiting = asyncio.ensure_future(step(hook))
        await asyncio.sleep(0.3)
        waiting.cancel()
        await asyncio.wait([waiting])
        await store.leave("acme:tide", "holder", 0, 0)
        # A ticket that was left behind would be first for five seconds.
        assert await store.take("acme:tide", "next", ALONE) == 0


# --- hooks on it


async def test_two_hooks_on_one_server_keep_one_limit_and_give_back_what_they_did_not_use(url: str) -> None:
    """Each reserves all of a minute and uses ten: without the refund, the second would wait for a minute."""
    settings = {"tokens_per_minute": 10_000, "max_wait_s": 30}
    async with hooked(url, **settings) as one, hooked(url, **settings) as two:
        for hook in (one, two, one, two):
            assert isinstance((await step(hook, tokens=9_000))[-1], Done)
        assert two._lanes._of_loop  # and it was the server that was asked


async def test_the_wait_that_the_service_asks_for_holds_other_processes_too(url: str) -> None:
    settings = {"requests_per_minute": 6_000}
    async with hooked(url, **settings) as one, hooked(url, **settings) as two:
        await step(two)
        began = time.monotonic()
        with pytest.raises(RateLimited):
            await step(one, error=RateLimited("slow down", vendor="acme", retry_after=1.5))
        await step(two)
        assert time.monotonic() - began > 1.4


async def test_a_limit_that_is_reached_is_an_error_after_the_wait(url: str) -> None:
    settings = {"requests_per_minute": 1, "max_wait_s": 0.2}
    async with hooked(url, **settings) as one, hooked(url, **settings) as two:
        await step(one)
        with pytest.raises(RateLimited) as raised:
            await step(two)
        assert raised.value.retry_after > 10


# --- a server that is away, or does not want us


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_dies_and_comes_back(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    make: Callable[[], servers.Server] = getattr(servers, kind)
    server = await asyncio.to_thread(make)
    url = fresh_url(kind, server)
    try:
        async with (
            hooked(url, requests_per_minute=600) as hook,
            hooked(url, concurrent=5, on_lost="raise") as strict,
        ):
            await step(hook)
            await step(strict)
            await asyncio.to_thread(server.kill)
            with caplog.at_level(logging.WARNING, "gnomon"):
                for _ in range(3):
                    await step(hook)
            assert len(caplog.records) == 1
            with pytest.raises(Unavailable) as raised:
                await step(strict)
            _expect_no_secret(url, str(raised.value), caplog.text)
            await asyncio.to_thread(server.start)
            await step(strict)
            await asyncio.sleep(AWAY_S)
            await step(hook)
            (of_loop,) = hook._lanes._of_loop.values()
            assert not of_loop.limits.is_away
            assert not of_loop.limits._is_lost
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_password_that_is_wrong_is_an_error_of_its_own_and_not_shown(kind: str) -> None:
    if kind == "redis":
        server = await asyncio.to_thread(servers.redis, requirepass="hunter22")
    else:
        server = servers.shared("postgres")
    password = server.url.partition("@")[0].rpartition(":")[2]
    url = server.url.replace(password, "wrong-secret")
    try:
        async with hooked(url, concurrent=1) as hook:
            with pytest.raises(AccessDenied) as raised:
                await step(hook)
        assert "wrong-secret" not in str(raised.value)
        if kind == "redis":
            async with hooked(server.url, concurrent=1) as hook:
                await step(hook)
    finally:
        if kind == "redis":
            await asyncio.to_thread(server.stop)


async def test_a_redis_that_says_what_it_was_given_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without AUTH names the command that it does not know, and its arguments."""
    said = "unknown command 'AUTH', with args beginning with: 'hunter22'"

    async def refused(*words: object) -> object:
        raise redis.exceptions.ResponseError(said)

    async with opened("redis://:hunter22@localhost/0") as store:
        monkeypatch.setattr(store._client, "execute_command", refused)
        with pytest.raises(StorageError, match="unknown command 'AUTH'") as raised:
            await store.take("k", "a", FREE)
    assert "hunter22" not in str(raised.value)
    assert raised.value.__cause__ is None


async def test_a_user_who_may_not_create_tables_is_told_so() -> None:
    url = fresh_url("postgres")
    admin = await asyncpg.connect(servers.shared("postgres").url)
    name = f"plain_{uuid.uuid4().hex[:8]}"
    try:
        await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hunter22'")
        plain = url.replace(url.partition("://")[2].partition("@")[0], f"{name}:hunter22")
        async with hooked(plain, concurrent=1) as hook:
            with pytest.raises(AccessDenied, match="tables may be created") as raised:
                await step(hook)
        assert "hunter22" not in str(raised.value)
    finally:
        await admin.execute(f"DROP ROLE {name}")
        await admin.close()


async def test_a_redis_that_refuses_a_script_is_no_redis_that_is_away() -> None:
    url = fresh_url("redis")
    client = redis.asyncio.Redis.from_url(servers.shared("redis").url)
    async with client, opened(url) as store:
        await client.set(f"{url.rpartition('=')[2]}:rate:{{k}}:state", "a text, and no hash")
        with pytest.raises(StorageError) as raised:
            await store.take("k", "a", FREE)
        assert type(raised.value) is StorageError


def _expect_no_secret(url: str, *texts: str) -> None:
    user = url.partition("://")[2].partition("@")[0]
    password = user.rpartition(":")[2] if "@" in url else ""
    for text in texts:
        assert "rate limit" in text
        assert not password or password not in text
