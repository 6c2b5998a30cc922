"""A shared limit as one process sees it, on a server that the test plays: cancelled, lost, found again."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from limit_stage import Model, answer, asked, model_step, read, spin
from skipping_loop import now, run

from gnomon.errors import MissingExtra, RateLimited, StorageError, Unavailable
from gnomon.hooks import _lanes, _shared
from gnomon.hooks._lanes import FEWEST_KEPT
from gnomon.hooks._shared import AWAY_S, LEASE_S, Need
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.types.events import ProviderEvent
from gnomon.types.requests import Usage

URL = "redis://localhost/0"


class Server:
    """Gives what it is told to; keeps what it was asked."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.error: Exception | None = None
        self.delay_s = 0.0
        self.taken: list[Need] = []
        self.left: list[tuple[float, float]] = []
        self.tickets: list[str] = []
        self.renewed: list[tuple[str, ...]] = []
        self.shut_s: list[float] = []
        self.closed = 0

    async def take(self, key: str, ticket: str, need: Need) -> float:
        assert key == "acme:tide"
        await self._answer()
        self.tickets.append(ticket)
        wait_s = self.waits.pop(0) if self.waits else 0.0
        if not wait_s:
            self.taken.append(need)
        return wait_s

    async def leave(self, key: str, ticket: str, request_s: float, token_s: float) -> None:
        await self._answer()
        assert ticket in self.tickets
        self.left.append((round(request_s, 6), round(token_s, 6)))

    async def shut(self, key: str, seconds: float) -> None:
        await self._answer()
        self.shut_s.append(seconds)

    async def renew(self, key: str, tickets: tuple[str, ...]) -> None:
        await self._answer()
        self.renewed.append(tickets)

    async def close(self) -> None:
        self.closed += 1

    async def _answer(self) -> None:
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(_lanes, "store_at", lambda url: made)
    return made


def shared(**settings: Any) -> RateLimitHook:
    return RateLimitHook(shared=URL, clock=now, **({"requests_per_minute": 60} | settings))


class Tens:
    def count_messages(self, messages, tools=()) -> int:
        return 10

    def count_text(self, text: str) -> int:
        return 10


def test_the_server_is_told_what_a_step_takes_and_then_what_it_used(server: Server) -> None:
    async def test() -> None:
        hook = shared(tokens_per_minute=600, counter=Tens(), concurrent=3)
        model = Model(answer("a", used=Usage(input_tokens=10, output_tokens=40)))
        await read(hook, model_step(asked(max_tokens=90)), model)
        expected = Need(request_s=1.0, request_room_s=59.0, token_s=10.0, token_room_s=50.0, concurrent=3)
        assert server.taken == [expected]
        assert server.left == [(0.0, -5.0)]  # 50 of 100 tokens come back, ten a second

    run(test())


def test_who_is_told_to_wait_asks_again_in_time_under_the_same_name(server: Server) -> None:
    async def test() -> None:
        server.waits = [-1.0, 0.25, 50.0, 0.0]
        began = now()
        await read(shared(), model_step(), Model())
        assert now() - began == pytest.approx(0.1 + 0.25 + 1.0)
        assert len(server.tickets) == 4
        assert len(set(server.tickets)) == 1

    run(test())


def test_of_one_process_only_the_first_asks_the_server(server: Server) -> None:
    async def test() -> None:
        server.waits = [-1.0] * 5
        hook = shared()
        await asyncio.gather(*(read(hook, model_step(), Model()) for _ in range(3)))
        assert len(server.tickets) == 8
        assert len(dict.fromkeys(server.tickets[:6])) == 1

    run(test())


@pytest.mark.parametrize("behind", [False, True])
def test_who_waits_too_long_steps_back_and_gets_an_error(server: Server, behind: bool) -> None:
    async def test() -> None:
        server.waits = [-1.0] * 1_000
        hook, model = shared(max_wait_s=3), Model()
        steps = [read(hook, model_step(), model) for _ in range(1 + behind)]
        began = now()
        ended = await asyncio.gather(*steps, return_exceptions=True)
        assert {type(each) for each in ended} == {RateLimited}
        assert now() - began == pytest.approx(3)
        assert server.left == [(0.0, 0.0)]  # out of the line, and nothing was taken
        assert model.calls == []

    run(test())


def test_with_no_patience_at_all_the_server_is_still_asked_once(server: Server) -> None:
    async def test() -> None:
        server.delay_s = 0.1
        hook = shared(max_wait_s=0)
        await read(hook, model_step(), Model())
        server.waits = [-1.0]
        with pytest.raises(RateLimited):
            await read(hook, model_step(), Model())

    run(test())


@pytest.mark.parametrize(("wait_s", "given_back"), [(0.0, (-1.0, -10.0)), (-1.0, (0.0, 0.0))])
def test_who_is_cancelled_while_the_server_answers_gives_back_what_it_took(
    server: Server, wait_s: float, given_back: tuple[float, float]
) -> None:
    async def test() -> None:
        server.delay_s, server.waits = 1.0, [wait_s]
        hook, model = shared(tokens_per_minute=600, counter=Tens()), Model()
        step = asyncio.ensure_future(read(hook, model_step(asked(max_tokens=90)), model))
        await spin()
        step.cancel()
        await asyncio.wait([step])
        assert step.cancelled()
        assert server.left == [given_back]
        assert model.calls == []
        await read(hook, model_step(), model)  # and nobody is in the way

    run(test())


def test_who_is_cancelled_between_two_questions_goes_out_of_the_line(server: Server) -> None:
    async def test() -> None:
        server.waits = [50.0] * 9
        step = asyncio.ensure_future(read(shared(), model_step(), Model()))
        await spin()
        step.cancel()
        await asyncio.wait([step])
        assert server.left == [(0.0, 0.0)]

    run(test())


def test_the_wait_that_the_service_asks_for_is_told_to_the_server_before_the_place_is_free(
    server: Server,
) -> None:
    async def limited() -> AsyncGenerator[ProviderEvent, None]:
        assert server.left == []
        raise RateLimited("slow down", vendor="acme", retry_after=7)
        yield

    async def test() -> None:
        with pytest.raises(RateLimited):
            await read(shared(), model_step(), Model(limited))
        assert server.shut_s == [7]
        assert server.left == [(0.0, 0.0)]

    run(test())


# --- places inside are kept


def test_a_place_is_renewed_for_as_long_as_it_is_taken(server: Server) -> None:
    async def test() -> None:
        hook = shared(concurrent=2)
        model = Model(answer("a", pause_s=LEASE_S), answer("b", pause_s=2 * LEASE_S))
        await asyncio.gather(*(read(hook, model_step(), model) for _ in range(2)))
        sizes = [len(tickets) for tickets in server.renewed]
        assert (sizes[:2], sizes[3:5]) == ([2, 2], [1, 1])
        count = len(server.renewed)
        await asyncio.sleep(10 * LEASE_S)
        assert len(server.renewed) == count

    run(test())


def test_a_renewal_that_fails_is_tried_again(server: Server) -> None:
    async def test() -> None:
        model = Model(answer("a", pause_s=2 * LEASE_S))
        step = asyncio.ensure_future(read(shared(concurrent=1), model_step(), model))
        await asyncio.sleep(1)
        server.error = Unavailable("away")
        await asyncio.sleep(LEASE_S)
        server.error = None
        await step
        assert server.renewed

    run(test())


def test_nothing_is_renewed_where_places_are_not_limited(server: Server) -> None:
    async def test() -> None:
        await read(shared(), model_step(), Model(answer("a", pause_s=10 * LEASE_S)))
        assert server.renewed == []

    run(test())


# --- a server that is away


def test_without_the_server_each_process_limits_by_itself_and_says_so_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        server.error = Unavailable("nobody there")
        hook = shared(requests_per_minute=6)
        began = now()
        await asyncio.gather(*(read(hook, model_step(), Model()) for _ in range(8)))
        assert now() - began == pytest.approx(20)
        await asyncio.sleep(2 * AWAY_S)
        await read(hook, model_step(), Model())

    with caplog.at_level(logging.INFO):
        run(test())
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "nobody there" in warnings[0].getMessage()


def test_a_server_that_is_back_is_used_again(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        hook = shared()
        server.error = Unavailable("nobody there")
        await read(hook, model_step(), Model())
        server.error = None
        await read(hook, model_step(), Model())
        assert server.taken == []  # not asked yet: it was lost a moment ago
        await asyncio.sleep(AWAY_S)
        await read(hook, model_step(), Model())
        assert len(server.taken) == 1

    with caplog.at_level(logging.INFO):
        run(test())
    assert "the server of the shared rate limit is back" in caplog.text


def test_what_is_left_of_the_patience_holds_without_the_server(server: Server) -> None:
    async def test() -> None:
        hook, model = shared(concurrent=1, max_wait_s=5), Model()
        server.error, server.delay_s = Unavailable("nobody there"), 2.0
        holder = await hook.around(model_step(), model)
        await anext(holder)
        await asyncio.sleep(AWAY_S)
        began = now()
        with pytest.raises(RateLimited):
            await read(hook, model_step(), model)
        assert now() - began == pytest.approx(5)
        await holder.aclose()

    run(test())


def test_a_server_that_is_away_is_an_error_where_that_is_wanted(server: Server) -> None:
    async def test() -> None:
        server.error = Unavailable("nobody there")
        model = Model()
        with pytest.raises(Unavailable):
            await read(shared(on_lost="raise"), model_step(), model)
        assert model.calls == []

    run(test())


@pytest.mark.parametrize("on_lost", ["local", "raise"])
def test_an_answer_is_not_lost_with_the_server(server: Server, on_lost: Any) -> None:
    async def lost() -> AsyncGenerator[ProviderEvent, None]:
        server.error = Unavailable("nobody there")
        async for event in answer()():
            yield event

    async def limited() -> AsyncGenerator[ProviderEvent, None]:
        server.error = Unavailable("nobody there")
        raise RateLimited("slow down", vendor="acme", retry_after=7)
        yield

    async def test() -> None:
        hook = shared(on_lost=on_lost)
        assert len(await read(hook, model_step(), Model(lost))) == 4
        server.error = None
        await asyncio.sleep(AWAY_S)
        with pytest.raises(RateLimited):
            await read(hook, model_step(), Model(limited))

    run(test())


def test_what_is_wrong_with_the_server_is_not_taken_for_its_being_away(server: Server) -> None:
    async def test() -> None:
        server.error = StorageError("no such command")
        with pytest.raises(StorageError, match="no such command"):
            await read(shared(), model_step(), Model())

    run(test())


# --- opened and closed


def test_close_lets_go_of_the_server_and_may_be_called_twice(server: Server) -> None:
    async def test() -> None:
        hook = shared()
        await hook.close()
        await read(hook, model_step(), Model())
        await hook.close()
        await hook.close()
        assert server.closed == 1
        await read(hook, model_step(), Model())  # it opens another
        await hook.close()
        assert server.closed == 2

    run(test())


def test_each_loop_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Server] = []

    def store_at(url: str) -> Server:
        made.append(Server())
        return made[-1]

    monkeypatch.setattr(_lanes, "store_at", store_at)
    hook = RateLimitHook(requests_per_minute=60, shared=URL)
    for _ in range(2):
        asyncio.run(_once(hook))
    assert [len(server.taken) for server in made] == [1, 1]


async def _once(hook: RateLimitHook) -> None:
    await read(hook, model_step(), Model())


def test_keys_that_nobody_uses_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    class AnyKey(Server):
        async def take(self, key: str, ticket: str, need: Need) -> float:
            return await super().take("acme:tide", ticket, need)

    monkeypatch.setattr(_lanes, "store_at", lambda url: AnyKey())

    async def test() -> None:
        hook = shared(key=lambda event: event.session_id)
        for number in range(3 * FEWEST_KEPT):
            await read(hook, model_step(session_id=f"user {number}"), Model())
        (of_loop,) = hook._lanes._of_loop.values()
        assert len(of_loop._gates) <= FEWEST_KEPT

    run(test())


@pytest.mark.parametrize(("url", "extra"), [(URL, "redis"), ("postgresql://localhost/db", "postgres")])
def test_a_driver_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, extra: str
) -> None:
    def missing(module: str) -> object:
        raise ModuleNotFoundError("no", name=extra)

    monkeypatch.setattr(_shared, "import_module", missing)
    with pytest.raises(MissingExtra, match=rf"gnomon\[{extra}\]"):
        RateLimitHook(concurrent=1, shared=url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunt/er22@localhost/0",
        "redis://localhost/0?prefix=a%20b",
        "postgresql://localhost/db?schema=x;drop",
        "postgresql://localhost/db?schema=a.b",
        "redis://[oops/0",
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_and_no_password_shown(url: str) -> None:
    with pytest.raises(Exception, match="rate limit") as raised:
        RateLimitHook(concurrent=1, shared=url)
    assert "hunt" not in str(raised.value)


def test_the_drivers_are_loaded_only_for_a_shared_limit() -> None:
    import subprocess

    script = "import sys; from gnomon.hooks.rate_limit import RateLimitHook; RateLimitHook(concurrent=1); "
    script += "print([name for name in ('redis', 'asyncpg') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
