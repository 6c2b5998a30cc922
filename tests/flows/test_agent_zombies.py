"""A runner is stopped in the middle of a turn, another takes over, and the first wakes up.

It asks no model, and starts no tool with side effects. What it did is read from the file of effects, by its
process.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from effects import Noted
from recorded_effects import entries_of, of_kind
from terminals import STORES, Failed, Terminal, Work, terminal, until, work_on

from gnomon.types.events import Claimed, MessageCompleted, Released, ToolFinished, TurnFinished
from storing import opened

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
WRITES = 26
POINTS = [(point, when) for point in range(3, WRITES + 1) for when in ("before", "after")][1:]
"""From when the claim stands: before that there is no owner who could be taken over."""
CHOSEN = POINTS if SOAK else sorted(random.Random(SEED).sample(POINTS, 6))
LONGER_THAN_A_PROOF_S = 1.1
"""An owner that has just written needs no second look before it asks the model; this one has slept."""


@pytest.fixture(params=STORES)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return work_on(request.param, tmp_path)


def done_by(work: Work, pid: int) -> list[Noted]:
    return [line for line in work.effects.all() if line.pid == pid]


async def takes_over(two: Terminal) -> None:
    """By hand, and to the end of the turn, whatever has to be answered."""
    await two.do("resume", session="s", take_over=True)
    while await two.do("state", session="s") == "waiting":
        await two.do("answer", session="s")
        for _ in range(2_000):
            if await two.do("state", session="s") != "running":
                break
            await asyncio.sleep(0.02)


async def expect_no_more_of(zombie: Terminal, work: Work, before: int) -> None:
    """Not even that whose start it had recorded: whoever took over has seen to it."""
    more = done_by(work, zombie.pid)[before:]
    assert [line for line in more if line.what == "asked"] == []
    async with opened(work.url) as storage:
        entries = await entries_of(storage, "s")
    claims = [at for at, entry in enumerate(entries) if isinstance(entry, Claimed)]
    assert len(claims) >= 2, "nobody took over"
    assert [line for line in more if line.what == "ran" and line.name != "look"] == []
    owner = entries[claims[0]]
    assert isinstance(owner, Claimed)
    assert [entry for entry in of_kind(entries, Released) if entry.owner == owner.owner] == []
    calls = [call.id for entry in of_kind(entries, MessageCompleted) for call in entry.message.tool_calls]
    assert [entry.result.call_id for entry in of_kind(entries, ToolFinished)] == calls


async def expect_usable(zombie: Terminal) -> None:
    """It goes on with whatever else there is."""
    told = await zombie.do("log")
    assert [line for line in told if not line.endswith("this runner has stopped")] == []
    assert await zombie.do("run", session="s", text="again") == ["end_turn", "re: again"]
    assert await zombie.do("run", session="other", text="hello") == ["end_turn", "re: hello"]
    await zombie.quit()


@pytest.mark.parametrize(("point", "when"), CHOSEN)
async def test_a_runner_that_slept_at_any_write_makes_no_call_that_is_not_its_own(
    work: Work, point: int, when: str
) -> None:
    async with terminal(work) as one, terminal(work) as two:
        await one.do("stop_at", write=point, when=when)
        sent = one.begin("send", session="s", text="Go.")
        await one.stopped()
        before = len(done_by(work, one.pid))
        await takes_over(two)
        await asyncio.sleep(LONGER_THAN_A_PROOF_S)
        one.go_on()
        await one.end(sent)
        assert await one.do("result", session="s") == ["end_turn", "Done."]
        if point < WRITES - 1:  # else the turn was over when it fell asleep
            await until_over(one)
            await expect_no_more_of(one, work, before)
            await expect_usable(one)
    async with opened(work.url) as storage:
        (finished, *_) = of_kind(await entries_of(storage, "s"), TurnFinished)
    assert finished.rounds == 11
    assert max(work.effects.by_key("effect").values()) == 1


async def until_over(zombie: Terminal) -> None:
    """It has seen that the session is another's, and runs nothing any more."""
    for _ in range(2_000):
        if not await zombie.do("running"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it runs on: {await zombie.do('log')}")


@pytest.mark.parametrize("held", ["hold model", "hold tool", "block tool"])
async def test_a_runner_that_slept_in_a_call_starts_nothing_after_it(work: Work, held: str) -> None:
    """In the call of the model, in a tool on the event loop, in a tool in a thread."""
    async with terminal(work) as one, terminal(work) as two:
        sent = one.begin("send", session="s", text=held)
        name, what = held.split()
        await until("the call", lambda: _has_begun(work, name, what))
        await one.stop()
        before = len(done_by(work, one.pid))
        if what == "model":
            work.effects.open()
        await takes_over(two)
        work.effects.open()
        await asyncio.sleep(LONGER_THAN_A_PROOF_S)
        one.go_on()
        await one.end(sent)
        assert await one.do("result", session="s") == ["end_turn", "Held."]
        await until_over(one)
        await expect_no_more_of(one, work, before)
        await expect_usable(one)
    assert max([1, *work.effects.by_key("effect").values()]) == 1


def _has_begun(work: Work, name: str, what: str) -> bool:
    if what == "model":
        return bool(work.effects.all("asked"))
    return any(line.name == name for line in work.effects.all("effect"))


async def test_whoever_waits_for_a_turn_that_another_brings_to_its_end_gets_it(work: Work) -> None:
    """A question that was asked and answered while it slept is none any more."""
    async with terminal(work) as one, terminal(work) as two:
        result = one.begin("run", session="s", text="hold tool")
        await until("the call", lambda: _has_begun(work, "hold", "tool"))
        await one.stop()
        await takes_over(two)
        work.effects.open()
        one.go_on()
        assert await one.end(result) == ["end_turn", "Held."]


async def test_whoever_reads_a_run_that_was_taken_over_gets_the_error(work: Work) -> None:
    """`agent.stream`: the reader itself is the runner."""
    async with terminal(work) as one, terminal(work) as two:
        result = one.begin("stream", text="hold tool")
        await until("the call", lambda: _has_begun(work, "hold", "tool"))
        await one.stop()
        session = one.latest[0].event
        await two.do("resume", session=session, take_over=True)
        await two.do("answer", session=session)
        assert await two.do("result", session=session) == ["end_turn", "Held."]
        work.effects.open()
        await asyncio.sleep(LONGER_THAN_A_PROOF_S)
        before = len(done_by(work, one.pid))
        one.go_on()
        with pytest.raises(Failed) as caught:
            await one.end(result)
        assert caught.value.kind == "Superseded"
        assert done_by(work, one.pid)[before:] == []
        assert await one.do("run", session="other", text="hello") == ["end_turn", "re: hello"]
        await one.quit()
