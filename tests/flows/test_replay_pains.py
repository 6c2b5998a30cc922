"""Pain 40: upgrades break, and tests need the network. A kept session is a cassette for both.

They go through the front door: sessions in a SQLite file, replayed with another definition of the agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gnomon import Agent, Budget, tool
from gnomon.errors import Damaged
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.replay import Difference, Recording, read_store
from gnomon.testing import replay
from gnomon.types.codec import decode_event, encode_event
from gnomon.types.events import ToolFinished, TurnFinished
from gnomon.types.messages import ToolResult
from gnomon.types.records import LedgerEvent
from storing import opened, sqlite_url

CHILD = Path(__file__).with_name("replayed_child.py")
RAN: list[str] = []


@tool(read_only=True)
def weather(city: str) -> str:
    """The weather of a city."""
    RAN.append(city)
    return f"rain in {city}"


@tool
def book(room: int) -> str:
    """Book a room."""
    RAN.append(str(room))
    return "booked"


TOOLS = [weather, book]
TOLD = "Be brief."


def as_openai() -> ScriptedProvider:
    """A model that answers as the real one did, under its name."""
    script = [
        calls("weather", city="Rome").calling("weather", city="Oslo"),
        says("Rain in both.").expecting(result="rain in Oslo"),
        calls("book", room=12),
        says("Booked."),
    ]
    provider = ScriptedProvider(script)
    provider.name, provider.model = "openai", "gpt-5"
    return provider


def now(**options: object) -> Agent:
    """The agent of today, on the real provider, which has no key here."""
    return Agent("openai:gpt-5", **{"name": "travel", "instructions": TOLD, "tools": TOOLS, **options})


async def record(path: Path) -> None:
    async with Agent(
        as_openai(), name="travel", instructions=TOLD, tools=TOOLS, storage=sqlite_url(path)
    ) as agent:
        session = agent.session("trip")
        await session.run("Will it rain?")
        await session.run("Then book room 12.")


async def recording(path: Path) -> Recording:
    async with opened(path, migrate=False) as store:
        return await read_store(store, "trip")


async def first_of(path: Path, agent: Agent, before: Agent | None = None) -> Difference | None:
    """What differs first. Nothing was run, and nothing asked, for that."""
    was = await recording(path)
    ran = list(RAN)
    found = await replay(was, agent=agent, before=before)
    assert ran == RAN
    assert was == await recording(path)
    return found.first


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_pain_40_a_kept_session_is_a_test_without_network_and_without_key(path: Path) -> None:
    await record(path)
    assert await first_of(path, now()) is None
    found = await replay(await recording(path), agent=now())
    found.check(whole=True)
    assert (found.turns, found.rounds) == (2, 4)


def test_pain_40_another_process_replays_it_and_runs_nothing(path: Path) -> None:
    asyncio.run(record(path))
    for told, kind in ((TOLD, None), ("Be long.", "definition")):
        command = [sys.executable, str(CHILD), sqlite_url(path), "trip", told]
        env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["turns"], found["rounds"]) == (2, 4)
        assert [each["kind"] for each in found["differences"]] == ([kind] if kind else [])


async def test_pain_40_changed_instructions_are_named_with_what_changed(path: Path) -> None:
    await record(path)
    first = await first_of(path, now(instructions="Be long."), before=now())
    assert first is not None
    assert (first.kind, first.what) == ("instructions", "instructions changed: -Be brief. +Be long.")
    assert (first.turn, first.round) == (1, 1)


async def test_pain_40_a_changed_model_is_named(path: Path) -> None:
    await record(path)
    other = Agent("anthropic:claude-opus-5-5", name="travel", instructions=TOLD, tools=TOOLS)
    first = await first_of(path, other)
    assert first is not None
    assert (first.kind, first.expected, first.found) == (
        "model",
        "openai:gpt-5",
        "anthropic:claude-opus-5-5",
    )


async def test_pain_40_a_changed_tool_is_named_where_its_calls_do_not_fit_any_more(path: Path) -> None:
    @tool(name="book")
    def book_nights(room: int, nights: int) -> str:
        """Book a room."""
        raise AssertionError("it is not to be run")

    await record(path)
    found = await replay(await recording(path), agent=now(tools=[weather, book_nights]), before=now())
    assert found.first is not None
    assert found.first.what == "tool 'book' is described otherwise"
    call = found.differences[-1]
    assert call.what == "the call does not fit the tool 'book' any more: 'nights' is missing"
    assert (call.turn, call.round) == (2, 1)


async def test_pain_40_a_missing_tool_is_named(path: Path) -> None:
    await record(path)
    first = await first_of(path, now(tools=[weather]), before=now())
    assert first is not None
    assert first.what == "tool 'book' is not offered any more"


async def test_pain_40_a_loop_that_goes_another_way_is_named_at_its_round(path: Path) -> None:
    await record(path)
    first = await first_of(path, now(budget=Budget(rounds=1)))
    assert first is not None
    assert (first.turn, first.round, first.kind) == (1, 1, "end")
    assert first.expected == "the model is asked"


# --- a ledger that somebody has changed ---------------------------------------------


Change = Callable[[LedgerEvent], LedgerEvent | None]


async def rewritten(path: Path, change: Change) -> Path:
    """Another file with the same ledger, in which events are changed or left out."""
    async with opened(path) as store:
        page = await store.list_events("trip", 0, 1_000)
    kept = [changed for event in page.items if (changed := change(event)) is not None]
    other = path.with_name("tampered.db")
    async with opened(other) as store:
        await store.append_events([replace(event, seq=seq) for seq, event in enumerate(kept, 1)])
    return other


async def test_pain_40_a_tampered_end_is_named(path: Path) -> None:
    await record(path)

    def later(event: LedgerEvent) -> LedgerEvent:
        entry = decode_event(event.payload)
        if not isinstance(entry, TurnFinished):
            return event
        return replace(event, payload=encode_event(replace(entry, rounds=9)))

    first = await first_of(await rewritten(path, later), now())
    assert first is not None
    assert (first.what, first.expected) == (
        "the turn ends otherwise",
        "the turn ends with 'end_turn' after 9 rounds",
    )


async def test_pain_40_a_result_that_was_taken_out_is_missed(path: Path) -> None:
    await record(path)
    first = await first_of(
        await rewritten(path, lambda event: None if b"booked" in event.payload else event), now()
    )
    assert first is not None
    assert first.what == "the call of 'book' has no result in the recording"
    assert first.turn == 2


async def test_pain_40_a_result_under_another_call_is_missed(path: Path) -> None:
    await record(path)

    def moved(event: LedgerEvent) -> LedgerEvent:
        entry = decode_event(event.payload)
        if not isinstance(entry, ToolFinished) or entry.result.name != "book":
            return event
        other = ToolFinished(entry.turn_id, ToolResult("call_0", "book", entry.result.content))
        return replace(event, payload=encode_event(other))

    first = await first_of(await rewritten(path, moved), now())
    assert first is not None
    assert first.what == "the call of 'book' has no result in the recording"


async def test_pain_40_an_event_that_cannot_be_read_is_said_to_be_damaged(path: Path) -> None:
    await record(path)

    def broken(event: LedgerEvent) -> LedgerEvent:
        damaged = event.type == "tool_finished"
        return replace(event, payload=b'{"type": "tool_fin') if damaged else event

    tampered = await rewritten(path, broken)
    with pytest.raises(Damaged, match="session 'trip' cannot be read"):
        await recording(tampered)
