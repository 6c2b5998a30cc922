"""The store fails in the middle of a turn: its disk is full, or its server is killed.

Nothing is half there, the turn stays open, and it is gone on with when the store is back: by the runner
itself, or by whoever comes next. No effect is repeated.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from effects import Effects, effects_agent, ten_steps
from killed_agent import answer
from recorded_effects import check_run, entries_of
from terminals import PATIENCE_S

import servers
from gnomon import Agent
from gnomon.contracts.storage import Storage
from gnomon.errors import StorageError, StorageFull, TurnUnfinished, Unavailable
from gnomon.providers.scripted import Line
from gnomon.types.requests import Request
from storing import mounted, opened

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
ROUNDS = range(1, 12)
CHOSEN = list(ROUNDS) if SOAK else sorted(random.Random(SEED).sample(list(ROUNDS), 2))

Trouble = Callable[[], Awaitable[object]]


def troubled(effects: Effects, at: int, trouble: Trouble) -> Callable[[Request], Awaitable[Line]]:
    """The ten steps; something happens to the store while the model is asked for that time."""
    steps, asked = ten_steps(effects), 0

    async def answered(request: Request) -> Line:
        nonlocal asked
        asked += 1
        if asked == at:
            await trouble()
        return steps(request)

    return answered


async def to_the_end(agent: Agent[str], storage: Storage, session_id: str, effects: Effects) -> None:
    """What the turn comes to, with a person at hand who answers what is asked."""
    session = agent.session(session_id)
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            try:
                turn = await session.turn_result()
                break
            except TurnUnfinished:
                await answer(session, storage, effects)
    assert (turn.stop, turn.text) == ("end_turn", "Done.")


# --- a full disk ----------------------------------------------------------------


def fill_up(folder: Path) -> None:
    """Use what is left of the disk, to the last byte."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4_096)
        except OSError:
            return


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    with mounted(folder / "small", "-t", "tmpfs", "-o", "size=2m", "none") as small:
        yield small


async def seen(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while words not in caplog.text:  # noqa: ASYNC110 - it is logged by another task
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("at", CHOSEN)
async def test_a_turn_whose_disk_is_full_goes_on_by_itself_when_there_is_room(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    effects = Effects(tmp_path / "effects")
    with small_disk(tmp_path) as folder:

        async def trouble() -> None:
            fill_up(folder)

        async with opened(folder / "store.db") as storage:
            script = troubled(effects, at, trouble)
            async with effects_agent(effects, storage, script=script) as agent:
                await agent.session("s").send("Go.")
                await seen(caplog, "make room")
                had = len(effects.all("effect"))
                await entries_of(storage, "s")  # without a gap, and all of it readable
                (folder / "ballast").unlink()
                await to_the_end(agent, storage, "s", effects)
                assert len(effects.all("effect")) >= had
            await check_run(storage, "s", effects)


@pytest.mark.parametrize("at", CHOSEN)
async def test_a_run_whose_disk_is_full_says_so_and_another_process_can_go_on(
    tmp_path: Path, at: int
) -> None:
    effects = Effects(tmp_path / "effects")
    with small_disk(tmp_path) as folder:

        async def trouble() -> None:
            fill_up(folder)

        async with opened(folder / "store.db") as storage:
            script = troubled(effects, at, trouble)
            async with effects_agent(effects, storage, script=script) as agent:
                async with agent.stream("Go.") as run:
                    with pytest.raises(StorageFull):
                        async for _ in run:
                            pass
                session_id = run.session_id
        (folder / "ballast").unlink()
        async with opened(folder / "store.db") as storage, effects_agent(effects, storage) as agent:
            await agent.session(session_id).resume()
            await to_the_end(agent, storage, session_id, effects)
            await agent.close()
            await check_run(storage, session_id, effects)


# --- a server that goes away ------------------------------------------------------


@pytest.fixture
def server() -> Iterator[servers.Server]:
    started = servers.postgres()
    yield started
    started.stop()


@pytest.mark.parametrize("at", CHOSEN)
async def test_a_turn_whose_server_is_killed_goes_on_when_it_is_back(
    tmp_path: Path, server: servers.Server, at: int
) -> None:
    """For a moment, which the store itself sits out; nobody has to do anything."""
    effects = Effects(tmp_path / "effects")
    back: list[asyncio.Future[None]] = []

    async def trouble() -> None:
        await asyncio.to_thread(server.kill)
        back.append(asyncio.ensure_future(asyncio.to_thread(server.start)))

    async with opened(server.url) as storage:
        async with effects_agent(effects, storage, script=troubled(effects, at, trouble)) as agent:
            await agent.session("s").send("Go.")
            await to_the_end(agent, storage, "s", effects)
            await back[0]
        await check_run(storage, "s", effects)


@pytest.mark.parametrize("at", CHOSEN)
async def test_a_run_whose_server_stays_away_says_so_and_another_can_go_on(
    tmp_path: Path, server: servers.Server, at: int
) -> None:
    effects = Effects(tmp_path / "effects")

    async def trouble() -> None:
        await asyncio.to_thread(server.kill)

    async with opened(server.url, patience_s=0.5) as storage:
        agent = effects_agent(effects, storage, script=troubled(effects, at, trouble))
        async with agent.stream("Go.") as run:
            with pytest.raises(Unavailable):
                async for _ in run:
                    pass
        session_id = run.session_id
        with suppress(StorageError):  # it cannot say good-bye to what is not there
            await agent.close()
    await asyncio.to_thread(server.start)
    async with opened(server.url) as storage, effects_agent(effects, storage) as agent:
        await agent.session(session_id).resume()
        await to_the_end(agent, storage, session_id, effects)
        await agent.close()
        await check_run(storage, session_id, effects)
