"""Two terminals on one store: neither disturbs the other, and there is one model call a round."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from recorded_effects import entries_of, of_kind
from terminals import STORES, Terminal, Work, terminal, until, work_on

from gnomon.types.events import (
    Claimed,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    Released,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from storing import opened

SOAK = os.environ.get("GNOMON_SOAK") == "1"
EACH = 100
ROUNDS = 5 if SOAK else 1


@pytest.fixture(params=STORES)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return work_on(request.param, tmp_path)


async def test_two_terminals_with_sessions_of_their_own_do_not_disturb_each_other(work: Work) -> None:
    async with terminal(work) as one, terminal(work) as two:
        runs = [
            terminal.do("run", session=f"s{at}", text="Go." if at < 2 else f"hello {at}")
            for at in range(8)
            for terminal in ((one, two)[at % 2],)
        ]
        ended = await asyncio.gather(*runs)
        assert ended[:2] == [["end_turn", "Done."]] * 2
        assert ended[2:] == [["end_turn", f"re: hello {at}"] for at in range(2, 8)]
    async with opened(work.url) as storage:
        for at in range(8):
            entries = await entries_of(storage, f"s{at}")
            assert len(of_kind(entries, TurnFinished)) == 1
            assert len({entry.owner for entry in of_kind(entries, Claimed)}) == 1
    assert len(work.effects.all("asked")) == 2 * 11 + 6
    assert set(work.effects.by_key("effect").values()) == {1}


async def test_two_terminals_on_one_session_make_one_conversation_with_one_call_a_round(work: Work) -> None:
    async with terminal(work) as one, terminal(work) as two:
        runs = [(one, two)[at % 2].do("run", session="s", text=f"hello {at}") for at in range(10)]
        runs.append(one.do("run", session="s", text="Go."))
        ended = await asyncio.gather(*runs)
        assert [text for _, text in ended[:-1]] == [f"re: hello {at}" for at in range(10)]
        assert ended[-1] == ["end_turn", "Done."]
    await _expect_one_call_a_round(work, turns=11)
    assert set(work.effects.by_key("effect").values()) == {1}


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_two_processes_that_send_to_one_session_200_times_make_one_order(
    work: Work, number: int
) -> None:
    async with terminal(work) as one, terminal(work) as two:
        sent = await asyncio.gather(
            one.do("sends", session="s", prefix="one", count=EACH),
            two.do("sends", session="s", prefix="two", count=EACH),
        )
        await _answered(one)
        await _answered(two)
    entries = await _expect_one_call_a_round(work, turns=2 * EACH)
    came = [entry.message_id for entry in of_kind(entries, MessageReceived)]
    assert sorted(came) == sorted(sent[0] + sent[1])
    for mine in sent:  # each sender's own order is kept
        assert [message_id for message_id in came if message_id in set(mine)] == mine
    assert [entry.inputs for entry in of_kind(entries, TurnStarted)] == [(each,) for each in came]
    said = [entry.message.text for entry in of_kind(entries, MessageCompleted)]
    assert said == [f"re: {message_id}" for message_id in came]


async def test_what_a_killed_process_has_left_is_found_and_ended_by_one_that_serves(work: Work) -> None:
    """Twelve sessions in the middle of a turn, three with a message that nobody has read; none is named."""
    async with terminal(work, 0.002) as first, terminal(work) as second, opened(work.url) as storage:
        for at in range(12):
            await first.do("send", session=f"s{at}", text="Go." if at % 2 else "say 300")
        for at in range(3):
            await first.do("send", session=f"s{at}", text="one more")
        await until("some work", lambda: len(work.effects.all("effect")) > 6)
        await first.kill()
        second.begin("serve_all")
        await _come_to_rest(second, {f"s{at}" for at in range(12)})
        for at in range(12):
            entries = await entries_of(storage, f"s{at}")
            assert len(of_kind(entries, TurnFinished)) == (2 if at < 3 else 1)
            spoken = of_kind(entries, MessageCompleted)
            calls = [call.id for entry in spoken for call in entry.message.tool_calls]
            assert [entry.result.call_id for entry in of_kind(entries, ToolFinished)] == calls
    assert set(work.effects.by_key("effect").values()) == {1}


async def _come_to_rest(serving: Terminal, left: set[str]) -> None:
    """All of them, with a person who answers what is asked."""
    for _ in range(2_000):
        for session in sorted(left):
            state = await serving.do("state", session=session)
            if state == "waiting":
                await serving.do("answer", session=session)
            elif state == "idle":
                left.remove(session)
        if not left:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"nobody goes on with {sorted(left)}")


async def _answered(terminal: Terminal) -> None:
    await terminal.do("result", session="s")


async def _expect_one_call_a_round(work: Work, turns: int) -> list[object]:
    async with opened(work.url) as storage:
        entries = await entries_of(storage, "s")
    assert len(of_kind(entries, TurnFinished)) == turns
    completed = of_kind(entries, MessageCompleted)
    assert len(work.effects.all("asked")) == len(of_kind(entries, ModelStarted)) == len(completed)
    owner = None
    for entry in entries:  # nobody claims what another has
        if isinstance(entry, Claimed):
            assert owner is None
            owner = entry.owner
        elif isinstance(entry, Released):
            assert owner == entry.owner
            owner = None
    assert owner is None
    return entries  # type: ignore[return-value]
