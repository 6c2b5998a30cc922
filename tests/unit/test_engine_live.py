"""Channels: what is being said right now, in one process."""

from __future__ import annotations

import asyncio
import gc

import pytest

from gnomon.engine.live import Bus, Channel
from gnomon.types.events import Live, TextDelta, ToolProgress
from gnomon.types.messages import Text


def begun(channel: Channel, number: tuple[int, int] = (1, 1)):
    return channel.begin("turn_1", f"msg_{number[1]}", number, 7)


def test_an_event_is_shown_with_its_place() -> None:
    channel = Channel("s")
    attempt = begun(channel, (2, 3))
    for text in ("a", "b"):
        channel.put(TextDelta(0, text))
    assert attempt.after_seq == 7
    assert attempt.shown(1) == Live("s", "turn_1", "msg_3", (2, 3), 1, TextDelta(0, "b"))


def test_progress_of_a_tool_is_shown_as_it_is() -> None:
    channel = Channel("s")
    progress = ToolProgress("turn_1", "call_1", (Text("half"),))
    attempt = begun(channel)
    channel.put(progress)
    assert attempt.shown(0) is progress


def test_a_new_attempt_ends_the_one_before() -> None:
    channel = Channel("s")
    first, second = begun(channel, (1, 1)), begun(channel, (1, 2))
    assert (first.is_over, second.is_over) == (True, False)
    assert channel.current is second


def test_a_reader_in_the_midst_of_an_attempt_keeps_it_when_it_ends() -> None:
    channel = Channel("s")
    attempt = begun(channel)
    channel.put(TextDelta(0, "a"))
    channel.end()
    assert channel.current is None
    assert attempt.is_over
    assert attempt.events == [TextDelta(0, "a")]


def test_to_end_what_never_began_is_nothing() -> None:
    channel = Channel("s")
    with channel.listening() as ear:
        channel.end()
        assert not ear.is_set()


def test_an_event_outside_an_attempt_is_a_bug() -> None:
    channel = Channel("s")
    with pytest.raises(AssertionError):
        channel.put(TextDelta(0, "a"))
    begun(channel)
    channel.end()
    with pytest.raises(AssertionError):
        channel.put(TextDelta(0, "a"))


@pytest.mark.parametrize("what", ["begin", "put", "end"])
def test_every_listener_hears_of_everything_new(what) -> None:
    channel = Channel("s")
    begun(channel)
    with channel.listening() as one, channel.listening() as other:
        if what == "begin":
            begun(channel, (1, 2))
        elif what == "put":
            channel.put(TextDelta(0, "a"))
        else:
            channel.end()
        assert (one.is_set(), other.is_set()) == (True, True)


def test_a_listener_that_left_hears_nothing() -> None:
    channel = Channel("s")
    with pytest.raises(KeyError), channel.listening() as ear:
        raise KeyError
    begun(channel)
    channel.put(TextDelta(0, "a"))
    assert not ear.is_set()


async def test_whoever_waits_is_woken_by_an_event() -> None:
    channel = Channel("s")
    begun(channel)
    with channel.listening() as ear:
        asyncio.get_running_loop().call_soon(channel.put, TextDelta(0, "a"))
        await asyncio.wait_for(ear.wait(), 5)


def test_a_session_has_one_channel_for_as_long_as_somebody_holds_it() -> None:
    bus = Bus()
    held = bus.channel("s")
    assert bus.channel("s") is held
    assert bus.channel("t") is not held
    begun(held)
    del held
    gc.collect()
    assert bus.channel("s").current is None
