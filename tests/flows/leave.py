"""An agent that needs leave for what it does, and so does its sub-agent: what `killed_agent.py` plays, by one
process that runs it and another that decides, and what must hold of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from effects import Effects, tools_of
from family import helper_script
from killed_agent import Job, answer, say
from recorded_effects import entries_of, of_kind

from gnomon import Agent
from gnomon.contracts.storage import Storage
from gnomon.drivers.embedded import EmbeddedDriver
from gnomon.errors import ApprovalRefused, NotFound, TurnUnfinished
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.session import _sending
from gnomon.session.local import LocalSession
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    MessageCompleted,
    QuestionAnswered,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnFinished,
)
from gnomon.types.requests import Request

__all__ = ["check_leave", "leave_agent", "play"]

_ROUNDS = 3


def _script(effects: Effects) -> Callable[[Request], Line]:
    """Two calls that need leave, then a sub-agent whose call does."""

    def answer(request: Request) -> Line:
        effects.note("asked", "root")
        match sum(message.role == "assistant" for message in request.messages):
            case 0:
                return calls("pay", step=0).calling("book", step=1)
            case 1:
                return calls("spawn", task="pay")
            case _:
                return says("Done.")

    return answer


def leave_agent(effects: Effects, storage: Storage, *, adopt: bool = True) -> Agent[str]:
    helper = Agent(
        ScriptedProvider(helper_script(effects)), name="helper", tools=tools_of(effects), permissions="ask"
    )
    return Agent(
        ScriptedProvider(_script(effects)),
        name="root",
        tools=tools_of(effects),
        subagents=[helper],  # type: ignore[list-item]
        storage=storage,
        permissions="ask",
        rules=["allow spawn"],
        adopt=adopt,
    )


async def play(job: Job, storage: Storage, effects: Effects) -> None:
    """To "run" it until leave is needed, to "decide" what is asked and run nothing, or all of it.

    With "serve" it is done by whoever looks for work, and a person decides what nobody has decided.
    """
    agent = leave_agent(effects, storage, adopt=job.act != "decide")
    _sending.LOST_WAKE = timedelta(seconds=0.3)
    session = agent.session(job.session)
    if job.act == "decide":
        await _decide(session)
    elif job.act == "serve":
        _look_often()
        serving = asyncio.ensure_future(agent.serve())
        while not of_kind(await entries_of(storage, job.session), TurnFinished):
            await _decide(session)
            await answer(session, storage, effects)
            await asyncio.sleep(0.05)
        serving.cancel()
    else:
        await session.send("Go.", message_id="go")
        while not await _ended(session):
            if job.act == "run" and await session.approvals():
                break
            await answer(session, storage, effects)
            await _decide(session)
    say(job, "done")
    await agent.close()


def _look_often() -> None:
    """What was lost is found after seconds, and not after the half minute that a store can bear."""
    assert EmbeddedDriver.__init__.__kwdefaults__ is not None
    EmbeddedDriver.__init__.__kwdefaults__["look_s"] = 0.1


async def _ended(session: LocalSession[str]) -> bool:
    try:
        await session.turn_result()
    except TurnUnfinished:
        return False
    return True


async def _decide(session: LocalSession[str]) -> None:
    """A person says yes to whatever is asked; somebody else may have been quicker."""
    for asked in await session.approvals():
        try:
            await session.approve(asked.approval_id, by="ann", arguments_hash=asked.arguments_hash)
        except (ApprovalRefused, NotFound):
            continue


# --- what must hold


async def check_leave(storage: Storage, session_id: str, effects: Effects) -> Counter[str]:
    """Each call was asked about once, decided once, and run once, in that order."""
    entries = await entries_of(storage, session_id)
    (finished,) = of_kind(entries, TurnFinished)
    assert (finished.stop, finished.rounds) == ("end_turn", _ROUNDS)
    (started,) = of_kind(entries, SubagentStarted)
    counts = _check_calls(entries, effects)
    counts += _check_calls(await entries_of(storage, started.session_id), effects)
    assert counts["leaves"] == 3
    told = [each for each in of_kind(entries, ApprovalRequested) if each.path]
    assert len(told) == len({each.approval_id for each in told}), "the root was told twice"
    for each in (session_id, started.session_id):
        assert await storage.verify_audit(each) == ()  # type: ignore[attr-defined]
    return counts


def _check_calls(entries: list[Event], effects: Effects) -> Counter[str]:
    counts: Counter[str] = Counter(sessions=1)
    said = [call for entry in of_kind(entries, MessageCompleted) for call in entry.message.tool_calls]
    asked = {each.call.id: each for each in of_kind(entries, ApprovalRequested) if not each.path}
    assert len(asked) == len([each for each in of_kind(entries, ApprovalRequested) if not each.path])
    assert set(asked) == {call.id for call in said if call.name != "spawn"}
    results = {entry.result.call_id: entry.result for entry in of_kind(entries, ToolFinished)}
    again = Counter(entry.call_id for entry in of_kind(entries, QuestionAnswered) if entry.run_again)
    for call_id, request in asked.items():
        decided = [at for at, entry in enumerate(entries) if _decides(entry, request)]
        intents = [at for at, entry in enumerate(entries) if _begins(entry, call_id)]
        assert len(decided) == 1, f"{request.call.name} was decided {len(decided)} times"
        assert intents, "leave was given, and nothing came of it"
        assert decided[0] < intents[0], "it ran before there was leave"
        key = next(entry.key for entry in of_kind(entries, ToolIntent) if entry.call_id == call_id)
        had, ran = effects.by_key("effect")[key], effects.by_key("ran")[key]
        unknown = results[call_id].status == "unknown"
        assert had == 1 or (unknown and had == 0), f"{request.call.name} had {had} effects"
        assert ran <= 1 + again[call_id] or request.call.name == "book"
        counts.update(leaves=1, effects=had, unknowns=unknown)
    return counts


def _decides(entry: Event, request: ApprovalRequested) -> bool:
    return isinstance(entry, ApprovalDecided) and entry.approval_id == request.approval_id


def _begins(entry: Event, call_id: str) -> bool:
    return isinstance(entry, ToolIntent) and entry.call_id == call_id
