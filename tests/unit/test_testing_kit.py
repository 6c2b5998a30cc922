"""Streams and bytes made by hand, the clock, and how the kit is loaded."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon.testing
from gnomon.errors import ContractError, StreamCut
from gnomon.testing import FakeClock, chop, stream_of
from gnomon.types.events import Done, Finish, TextDelta

# --- stream_of ------------------------------------------------------------------


async def test_stream_of_gives_the_events_and_the_folded_response() -> None:
    events = [TextDelta(0, "Hel"), TextDelta(0, "lo"), Finish(stop_reason="end_turn")]
    async with stream_of(events, provider="acme", model="acme-1") as stream:
        read = [event async for event in stream]
    assert read == [*events[:2], Done(stream.response)]
    assert (stream.response.text, stream.response.provider, stream.response.model) == (
        "Hello",
        "acme",
        "acme-1",
    )


async def test_stream_of_adds_no_end() -> None:
    with pytest.raises(StreamCut):
        _ = [event async for event in stream_of([TextDelta(0, "Hel")])]


async def test_stream_of_checks() -> None:
    with pytest.raises(ContractError, match="rule S6"):
        _ = [event async for event in stream_of([Finish(stop_reason="end_turn"), TextDelta(0, "more")])]


# --- chop -----------------------------------------------------------------------


def test_chop_cuts_at_the_offsets() -> None:
    assert chop(b"abcdef", [4, 1]) == [b"a", b"bcd", b"ef"]


def test_chop_makes_empty_pieces_where_offsets_say_so() -> None:
    assert chop(b"ab", [0, 1, 1, 2]) == [b"", b"a", b"", b"b", b""]


def test_chop_cuts_every_so_many_bytes() -> None:
    assert chop(b"abcde", 2) == [b"ab", b"cd", b"e"]
    assert chop(b"abcd", 2) == [b"ab", b"cd"]


@given(st.binary(max_size=200), st.integers())
def test_chopped_bytes_joined_are_the_same_bytes(data: bytes, seed: int) -> None:
    pieces = chop(data, Random(seed))
    assert b"".join(pieces) == data
    assert pieces == chop(data, Random(seed))
    assert all(pieces) or not data


def test_random_pieces_differ_from_seed_to_seed() -> None:
    data = bytes(range(200))
    assert len({tuple(chop(data, Random(seed))) for seed in range(10)}) > 1


def test_chop_tears_a_large_input_apart_and_still_leaves_large_pieces() -> None:
    sizes = [len(piece) for seed in range(20) for piece in chop(bytes(10_000), Random(seed))]
    assert min(sizes) == 1
    assert max(sizes) > 500


@pytest.mark.parametrize("at", [0, -1])
def test_chop_refuses_pieces_of_no_length(at: int) -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        chop(b"ab", at)


@pytest.mark.parametrize("offset", [-1, 3])
def test_chop_names_an_offset_that_is_not_there(offset: int) -> None:
    with pytest.raises(ValueError, match=f"no offset {offset} in 2 bytes"):
        chop(b"ab", [offset])


# --- the clock --------------------------------------------------------------------


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(datetime(2030, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    assert (clock.monotonic(), clock.now()) == (0.0, datetime(2030, 5, 1, 10, tzinfo=UTC))
    clock.advance(90.5)
    assert (clock.monotonic(), clock.now()) == (90.5, datetime(2030, 5, 1, 10, 1, 30, 500_000, tzinfo=UTC))
    assert clock.now().tzinfo is UTC


def test_the_clock_needs_a_time_zone_and_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(datetime(2030, 5, 1))
    with pytest.raises(ValueError, match="backwards"):
        FakeClock().advance(-1)


async def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    clock, woken = FakeClock(), list[float]()

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2, 9):
            group.create_task(sleeper(seconds))
        await clock.until_sleeping(4)
        clock.advance(0.5)
        await asyncio.sleep(0)
        assert woken == []
        clock.advance(2.5)
        assert clock.sleeping == 1
        await asyncio.sleep(0)
        assert woken == [1, 2, 3]
        clock.advance(6)
    assert woken == [1, 2, 3, 9]


async def test_those_with_the_same_deadline_wake_in_the_order_they_fell_asleep() -> None:
    clock, woken = FakeClock(), list[str]()

    async def sleeper(name: str) -> None:
        await clock.sleep(1)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name in "bca":
            group.create_task(sleeper(name))
        await clock.until_sleeping(3)
        clock.advance(1)
    assert woken == ["b", "c", "a"]


async def test_small_steps_add_up() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(0.3))
    await clock.until_sleeping()
    for _ in range(3):
        clock.advance(0.1)
    await asyncio.wait_for(sleeper, 1)
    assert clock.monotonic() == 0.3


async def test_a_cancelled_sleeper_is_gone_and_the_others_sleep_on() -> None:
    clock = FakeClock()
    one, other = asyncio.create_task(clock.sleep(1)), asyncio.create_task(clock.sleep(1))
    await clock.until_sleeping(2)
    one.cancel()
    clock.advance(0)
    with pytest.raises(asyncio.CancelledError):
        await one
    assert clock.sleeping == 1
    clock.advance(1)
    await other


async def test_a_sleeper_cancelled_in_the_moment_it_is_due_stays_cancelled() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(1))
    await clock.until_sleeping()
    sleeper.cancel()
    clock.advance(1)
    with pytest.raises(asyncio.CancelledError):
        await sleeper


async def test_waiting_for_sleepers_waits_for_all_of_them() -> None:
    clock = FakeClock()
    waiting = asyncio.create_task(clock.until_sleeping(2))
    one = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    other = asyncio.create_task(clock.sleep(1))
    await asyncio.wait_for(waiting, 1)
    clock.advance(1)
    await asyncio.gather(one, other)


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_at_all_passes_at_once_but_lets_others_run(seconds: float) -> None:
    ran = list[str]()
    asyncio.get_running_loop().call_soon(ran.append, "other")
    await FakeClock().sleep(seconds)
    assert ran == ["other"]


# --- how it is loaded ---------------------------------------------------------------


@pytest.mark.parametrize("name", gnomon.testing.__all__)
def test_every_name_of_the_kit_is_there(name: str) -> None:
    assert getattr(gnomon.testing, name).__name__ == name
    assert name in dir(gnomon.testing)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Widget'"):
        gnomon.testing.Widget


def test_the_kit_loads_what_is_touched_and_never_pytest() -> None:
    program = """
import sys
import gnomon.testing
assert not [name for name in sys.modules if name.startswith("gnomon.testing.")], sys.modules
for name in gnomon.testing.__all__:
    getattr(gnomon.testing, name)
print("pytest" in sys.modules, "unittest" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
