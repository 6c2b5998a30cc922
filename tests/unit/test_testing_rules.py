"""What holds for every suite: no check is overridden, gaps have reasons, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest

from gnomon.testing import Contract
from gnomon.testing._watch import Watch, settle

RULES = Contract.__gnomon_contract__


class NumberContract(Contract[int]):
    async def test_it_is_one(self) -> None:
        async with self.open() as number:
            assert number == 1


class One(NumberContract):
    __test__ = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        yield 1


# --- overriding -------------------------------------------------------------------

CHECK = "test_it_is_one"


class Direct(One):
    async def test_it_is_one(self) -> None:
        pass


class Mixin:
    async def test_it_is_one(self) -> None:
        pass


class ThroughMixin(Mixin, One):
    pass


class AssignedNone(One):
    test_it_is_one = None


class Decorated(One):
    test_it_is_one = pytest.mark.skip(lambda self: None)


@patch("asyncio.sleep")
class Patched(One):
    """The decorator wraps every check anew."""


class AssignedLater(One):
    pass


AssignedLater.test_it_is_one = Mixin.test_it_is_one


class WithoutGuard(Direct):
    async def test_no_check_is_overridden(self) -> None:
        pass


OVERRIDING = [Direct, ThroughMixin, AssignedNone, Decorated, Patched, AssignedLater, WithoutGuard]


@pytest.mark.parametrize("suite", OVERRIDING)
def test_an_overridden_check_is_named_with_its_class_and_the_way_out(suite: type[One]) -> None:
    faults = RULES.faults(suite)
    found = next(fault for fault in faults if CHECK in fault)
    assert found.startswith(f"{suite.__name__} overrides the check NumberContract.{CHECK}")
    assert f'known_gaps = {{"{CHECK}": "why"}}' in found


def test_the_class_that_overrides_is_named_too() -> None:
    assert f"NumberContract.{CHECK} through Mixin:" in RULES.faults(ThroughMixin)[0]


@pytest.mark.parametrize("suite", [s for s in OVERRIDING if s not in (WithoutGuard, Patched)])
def test_the_check_in_every_suite_finds_an_override(suite: type[One]) -> None:
    with pytest.raises(AssertionError, match=f"overrides the check NumberContract.{CHECK}"):
        RULES.run(suite().test_no_check_is_overridden, 5)


def test_a_check_taken_out_of_the_suite_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RULES.faults(One) == []
    monkeypatch.delattr(NumberContract, CHECK)
    assert len(RULES.faults(One)) == 1


def test_tests_of_ones_own_are_welcome() -> None:
    class More(One):
        async def test_something_else(self) -> None:
            pass

    assert RULES.faults(More) == []


# --- gaps -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gaps", "says"),
    [
        ({"test_nothing_of_the_kind": "why"}, "there is no such check; there are test_"),
        ({CHECK: ""}, "a reason is needed, '' was found"),
        ({CHECK: "  "}, "a reason is needed"),
        ({CHECK: None}, "a reason is needed, None was found"),
        ({"test_no_check_is_overridden": "why"}, "this check has no gaps"),
        ([CHECK], "maps the name of a check to a reason"),
    ],
)
def test_a_gap_that_is_none_is_a_fault(gaps: object, says: str) -> None:
    class Gaps(One):
        known_gaps = gaps

    [fault] = RULES.faults(Gaps)
    assert fault.startswith("Gaps.known_gaps")
    assert says in fault


def test_a_gap_with_a_reason_is_no_fault() -> None:
    class Gaps(One):
        known_gaps = {CHECK: "it is two"}

    assert RULES.faults(Gaps) == []


# --- how a check is run -------------------------------------------------------------


class Careless(Contract[None]):
    __test__ = False
    kept: list[object] = []

    async def test_leaves_a_task(self) -> None:
        self.kept.append(asyncio.create_task(asyncio.sleep(60), name="forgotten"))

    async def test_leaves_a_socket(self) -> None:
        self.kept.append(socket.socket())

    async def test_never_ends(self) -> None:
        await self._wait()

    async def _wait(self) -> None:
        await asyncio.Event().wait()

    async def test_opens(self) -> None:
        async with self.open():
            pass


@pytest.fixture
def careless() -> Iterator[Careless]:
    yield Careless()
    for kept in Careless.kept:
        if isinstance(kept, socket.socket):
            kept.close()
    Careless.kept.clear()


def test_a_task_left_behind_fails_the_check(careless: Careless) -> None:
    with pytest.raises(
        AssertionError, match=r"left behind by the check: .* found \['task forgotten at sleep"
    ):
        RULES.run(careless.test_leaves_a_task, 5)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="the system does not list open files")
def test_a_socket_left_behind_fails_the_check(careless: Careless) -> None:
    with pytest.raises(AssertionError, match=r"left behind by the check: .* found \['socket"):
        RULES.run(careless.test_leaves_a_socket, 5)


def test_a_check_that_never_ends_is_stopped_and_says_where_it_was(careless: Careless) -> None:
    with pytest.raises(
        TimeoutError, match=r"limit_s = 0.05: .*Careless.test_never_ends .* > Careless._wait "
    ):
        RULES.run(careless.test_never_ends, 0.05)


def test_a_suite_without_open_says_so(careless: Careless) -> None:
    with pytest.raises(NotImplementedError, match=r"Careless does not fill in open\(\)"):
        RULES.run(careless.test_opens, 5)


def test_the_event_loop_that_somebody_else_has_set_stays() -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        RULES.run(One().test_it_is_one, 5)
        assert asyncio.get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def test_a_server_on_the_same_loop_is_not_blamed_on_the_watched_block() -> None:
    answered = asyncio.Event()
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered.set()
        await release.wait()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    with Watch() as watch:
        _, writer = await asyncio.open_connection(host, port)
        await answered.wait()
        writer.close()
        await writer.wait_closed()
    left = await watch.left()
    release.set()
    server.close()
    await server.wait_closed()
    await settle()
    assert left == []
