"""A root with three sub-agents that have effects: what `killed_agent.py` plays, and what must hold of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec
from effects import Effects, tools_of
from killed_agent import Job, played, say
from recorded_effects import entries_of, of_kind

from gnomon import Agent
from gnomon.contracts.storage import Storage
from gnomon.drivers.embedded import EmbeddedDriver
from gnomon.engine.ledger import Ledger
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.types.events import (
    Event,
    MessageCompleted,
    MessageReceived,
    Released,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import ToolResult
from gnomon.types.requests import Request, Usage, add_usage

__all__ = ["TASKS", "check_family", "family_agent", "helper_agent", "play"]

TASKS = ("pay store", "mail look", "book store")
"""What each of the three is to do, tool by tool."""

_ROUNDS = 3
USED = Usage(input_tokens=10, output_tokens=1)
_PRICES = {"scripted:*": {"input_price": 1.0, "output_price": 10.0}}


def helper_script(effects: Effects) -> Callable[[Request], Line]:
    """Its steps are the words of its task; where it stands it sees from what it is shown."""

    def answer(request: Request) -> Line:
        effects.note("asked", "helper")
        steps = request.messages[0].text.split()
        done = sum(message.role == "assistant" for message in request.messages)
        if done == len(steps):
            return says(f"did {' '.join(steps)}", usage=USED)
        return _using(calls(steps[done], step=done))

    return answer


def root_script(effects: Effects) -> Callable[[Request], Line]:
    def answer(request: Request) -> Line:
        effects.note("asked", "root")
        match sum(message.role == "assistant" for message in request.messages):
            case 0:
                first, *others = TASKS
                line = calls("spawn", task=first)
                for task in others:
                    line = line.calling("spawn", task=task)
                return _using(line)
            case 1:
                told = [result.text for result in request.messages[-1].tool_results]
                assert told == [f"did {task}" for task in TASKS], told
                return _using(calls("store", step=9))
            case _:
                return says("Done.", usage=USED)

    return answer


def _using(line: Line) -> Line:
    return msgspec.structs.replace(line, usage=USED)


def helper_agent(effects: Effects, **options: object) -> Agent[str]:
    provider = ScriptedProvider(helper_script(effects))
    return Agent(provider, name="helper", tools=tools_of(effects), models=_PRICES, **options)  # type: ignore[call-overload,no-any-return]


def family_agent(effects: Effects, storage: Storage) -> Agent[str]:
    return Agent(
        ScriptedProvider(root_script(effects)),
        name="root",
        tools=tools_of(effects),
        subagents=[helper_agent(effects)],  # type: ignore[list-item]
        storage=storage,
        models=_PRICES,
    )


async def play(job: Job, storage: Storage, effects: Effects) -> None:
    """The message is sent again; or, with the act "wait", waited for; or, with "serve", not even that.

    With "help" there is the sub-agent alone, which knows nothing of the root, and takes up what is its own.
    """
    if job.act == "help":
        await _helped(job, storage, effects)
        return
    agent = family_agent(effects, storage)
    session = agent.session(job.session)
    if job.act == "serve":
        await _served(agent, storage, job.session)
        say(job, "done", "served")
    else:
        if job.act != "wait":
            await session.send("Go.", message_id="go")
        say(job, "done", await played(session, storage, effects))
    await agent.close()


async def _helped(job: Job, storage: Storage, effects: Effects) -> None:
    """Until all that was begun below the root has ended, and the root's ledger tells so."""
    _look_often()
    agent = helper_agent(effects, storage=storage)
    serving = asyncio.ensure_future(agent.serve())
    while await _untold(storage, job.session):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    serving.cancel()
    say(job, "done", "helped")
    await agent.close()


async def _untold(storage: Storage, root: str) -> set[str]:
    """The sessions below the root that have something to do, or whose end is not known there."""
    rows = (await storage.list_sessions(limit=1_000)).items
    begun = [row.id for row in rows if _root_of(row.metadata) == root]
    told = {each.subagent_id for each in of_kind(await entries_of(storage, root), SubagentFinished)}
    return {each for each in begun if await entries_of(storage, each)} - told


def _look_often() -> None:
    assert EmbeddedDriver.__init__.__kwdefaults__ is not None
    EmbeddedDriver.__init__.__kwdefaults__["look_s"] = 0.1


async def _served(agent: Agent[str], storage: Storage, session_id: str) -> None:
    """Until what is found in the store has been brought to its end, with nobody to name it."""
    _look_often()
    serving = asyncio.ensure_future(agent.serve())
    while not of_kind(await entries_of(storage, session_id), TurnFinished):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    serving.cancel()


# --- what must hold


async def check_family(storage: Storage, session_id: str, effects: Effects) -> Counter[str]:
    """All four have ended, once; each call has one result, and what was spent adds up at the root."""
    entries = await entries_of(storage, session_id)
    (finished,) = of_kind(entries, TurnFinished)
    assert (finished.stop, finished.rounds) == ("end_turn", _ROUNDS)
    started, ended = of_kind(entries, SubagentStarted), of_kind(entries, SubagentFinished)
    calls = [call.id for entry in of_kind(entries, MessageCompleted) for call in entry.message.tool_calls]
    assert sorted(each.call_id for each in started) == sorted(calls[: len(TASKS)])
    assert sorted(each.subagent_id for each in ended) == sorted(each.subagent_id for each in started)
    counts = _check_calls(entries, effects)
    for each in ended:
        counts += await _check_child(storage, each, effects)
    assert finished.usage == add_usage((*_spoken(entries), *(each.usage for each in ended)))
    total = (await Ledger.open(storage, session_id)).fold
    assert (total.usage, total.cost) == (finished.usage, finished.cost)
    assert finished.cost is not None
    assert abs(finished.cost - (finished.usage.total_tokens or 0) / 11 * 20e-6) < 1e-9
    await _check_rest(storage, session_id, {each.session_id for each in started})
    keys = {entry.key for entry in of_kind(entries, ToolIntent)}
    for each in started:
        keys |= {entry.key for entry in of_kind(await entries_of(storage, each.session_id), ToolIntent)}
    assert set(effects.by_key("effect")) <= keys, "an effect of which no ledger knows"
    return counts


async def _check_child(storage: Storage, told: SubagentFinished, effects: Effects) -> Counter[str]:
    entries = await entries_of(storage, told.subagent_id)
    assert len(of_kind(entries, MessageReceived)) == len(of_kind(entries, TurnStarted)) == 1
    (finished,) = of_kind(entries, TurnFinished)
    assert told.status == "finished"
    assert finished.usage == told.usage == add_usage(_spoken(entries))
    return _check_calls(entries, effects)


def _spoken(entries: list[Event]) -> list[Usage]:
    return [entry.response.usage for entry in of_kind(entries, MessageCompleted)]


async def _check_rest(storage: Storage, session_id: str, children: set[str]) -> None:
    """Nobody runs any of them, and there is nobody else who works for the root."""
    for each in (session_id, *children):
        ledger = await Ledger.open(storage, each)
        assert (ledger.fold.owner, ledger.fold.open_turn, ledger.fold.waiting) == (None, None, {})
        assert isinstance((await entries_of(storage, each))[-1], Released)
    rows = (await storage.list_sessions(limit=1_000)).items
    mine = [row for row in rows if _root_of(row.metadata) == session_id]
    assert {row.id for row in mine} == children


def _root_of(metadata: dict[str, object]) -> object:
    kin = metadata.get("subagent")
    return kin.get("root") if isinstance(kin, dict) else None


def _check_calls(entries: list[Event], effects: Effects) -> Counter[str]:
    counts: Counter[str] = Counter(sessions=1)
    calls = [call for entry in of_kind(entries, MessageCompleted) for call in entry.message.tool_calls]
    results = [entry.result for entry in of_kind(entries, ToolFinished)]
    assert sorted(result.call_id for result in results) == sorted(call.id for call in calls)
    keys: dict[str, set[str]] = {}
    for intent in of_kind(entries, ToolIntent):
        keys.setdefault(intent.call_id, set()).add(intent.key)
    for result in results:
        if result.name not in ("look", "spawn"):
            (key,) = keys[result.call_id]
            counts += _check_effect(result, key, effects)
    return counts


def _check_effect(result: ToolResult, key: str, effects: Effects) -> Counter[str]:
    had, ran = effects.by_key("effect")[key], effects.by_key("ran")[key]
    if result.status == "unknown":
        assert result.name in ("mail", "pay")
        assert had <= 1
    else:
        assert result.status == "ok"
        assert had == 1, f"{result.name} had {had} effects"
    if result.name in ("mail", "pay"):
        assert ran <= 1, f"{result.name} was repeated in silence"
    return Counter(effects=had, unknowns=result.status == "unknown")
