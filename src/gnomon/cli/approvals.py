"""`gnomon approvals`, `approve` and `deny`: what waits for leave, and an answer from outside."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import datetime

import click
import msgspec

from gnomon import config
from gnomon.agent import Agent
from gnomon.cli.ask import Question, show_turn
from gnomon.cli.conversing import decided, shown_turn
from gnomon.cli.finding import in_store, opened, root_by_id, root_id, rows, short
from gnomon.cli.keeping import Place, place
from gnomon.cli.kept import AGENT
from gnomon.cli.leave import Leave, by_whom, request_lines
from gnomon.cli.making import going_on
from gnomon.cli.problems import report
from gnomon.cli.render import Renderer
from gnomon.cli.screen import Screen
from gnomon.contracts.storage import Storage
from gnomon.errors import ConfigError, Conflict, InvalidInput, NotFound
from gnomon.session.local import LocalSession
from gnomon.types.events import ApprovalRequested
from gnomon.types.records import SessionRecord
from gnomon.types.steps import Turn

__all__ = ["Deciding", "decided_on", "listed"]


class _Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A request for leave as it is listed."""

    session_id: str
    agent: str
    approval_id: str
    tool: str
    arguments: str
    arguments_hash: str
    reason: str
    rule: str
    of_subagent: bool
    expires_at: datetime | None


# --- what waits -------------------------------------------------------------------------


def listed(where: Place, typed: str | None, *, as_json: bool, quiet: bool) -> int:
    """Show the requests of a session, or of all; the exit code."""

    async def work(store: Storage) -> list[tuple[SessionRecord, ApprovalRequested]]:
        return [found async for found in _waiting(store, typed)]

    found = in_store(where, work) if where.is_there else []
    if as_json:
        shown = [_as_listed(row, asked) for row, asked in found]
        click.echo(msgspec.json.encode({"approvals": shown}).decode())
        return 0
    for row, asked in found:
        click.echo(f"{short(row.id)}  {asked.approval_id}")
        click.echo("".join(f"  {line}\n" for line in request_lines(asked)), nl=False)
    if not found:
        Screen(quiet=quiet).note("gnomon: nothing waits for leave")
    return 0


async def _waiting(
    store: Storage, typed: str | None
) -> AsyncGenerator[tuple[SessionRecord, ApprovalRequested], None]:
    """What a sub-agent asks for is told by the session that a person began."""
    async with _onlooker(store) as agent:
        if typed is not None:
            row = await root_by_id(store, typed)
            for asked in await agent.session(row.id).approvals():
                yield row, asked
            return
        async for row in rows(store, ""):
            if row.status == "waiting" and root_id(row) == row.id:
                for asked in await agent.session(row.id).approvals():
                    yield row, asked


def _onlooker(store: Storage) -> Agent:
    """What reads sessions of whatever agent, and answers for them. It runs none: it has no session itself."""
    return Agent("demo", name="gnomon approvals", storage=store, adopt=False)


def _as_listed(row: SessionRecord, asked: ApprovalRequested) -> _Waiting:
    return _Waiting(
        session_id=row.id,
        agent=row.agent_id,
        approval_id=asked.approval_id,
        tool=asked.call.name,
        arguments=asked.call.arguments,
        arguments_hash=asked.arguments_hash,
        reason=asked.reason,
        rule=asked.rule,
        of_subagent=bool(asked.path),
        expires_at=asked.expires_at,
    )


# --- an answer --------------------------------------------------------------------------


class Deciding(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered, and to which request; none named is the only one."""

    leave: Leave
    approval_id: str | None = None
    by: str | None = None
    store: str | None = None


def decided_on(question: Question, act: Deciding) -> int:
    """Write the answer down, and go on where this command has the agent; the exit code."""

    def work(question: Question, loaded: config.Config, show: Renderer, screen: Screen) -> Turn | None:
        return _decided(question, act, loaded, show)

    return show_turn(question, work)


def _decided(question: Question, act: Deciding, loaded: config.Config, show: Renderer) -> Turn | None:
    where = Place(url=act.store) if act.store is not None else place(loaded, os.environ)
    typed = question.session
    if where is None:
        raise ConfigError("there is no home folder to keep sessions in", hint="set HOME or GNOMON_STORE")
    if not where.is_there:
        what = f"there is no session {typed!r}" if typed else "nothing waits for leave"
        raise NotFound(what, hint="gnomon sessions lists what there is")
    row = in_store(where, lambda store: _session(store, typed))
    if row.agent_id != AGENT:
        asked = asyncio.run(_written(where, row, act))
        _say_written(row, asked, act, as_json=loaded.output in ("json", "stream-json"))
        return None
    agent = going_on(question, loaded, row, where)
    turn = asyncio.run(_went_on(agent, row.id, act, show))
    show.finish(turn, agent.provider)
    return turn


async def _session(store: Storage, typed: str | None) -> SessionRecord:
    """The session that was named, or the only one that waits."""
    if typed is not None:
        return await root_by_id(store, typed)
    found = {row.id: row async for row, _ in _waiting(store, None)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise InvalidInput(
            f"{len(found)} sessions wait for leave: say which", hint=", ".join(map(short, found))
        )
    raise NotFound("nothing waits for leave", hint="gnomon sessions lists what there is")


async def _went_on(agent: Agent, session_id: str, act: Deciding, show: Renderer) -> Turn:
    async with agent:
        session = agent.session(session_id)
        asked = await _meant(session, act)
        run = await session.follow(on_leave="cancel")
        assert run is not None
        await decided(session, asked, act.leave, by=_by(act))
        async with run:
            with suppress(Conflict):  # another process is at it
                await session.resume()
            return await shown_turn(agent, run, show)


async def _written(where: Place, row: SessionRecord, act: Deciding) -> ApprovalRequested:
    async with opened(where) as store, _onlooker(store) as agent:
        session = agent.session(row.id)
        asked = await _meant(session, act)
        await decided(session, asked, act.leave, by=_by(act))
        return asked


async def _meant(session: LocalSession[str], act: Deciding) -> ApprovalRequested:
    """The request that the answer is for; the beginning of its id is enough."""
    pending, wanted = await session.approvals(), act.approval_id
    found = [each for each in pending if wanted is None or each.approval_id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    named = ", ".join(f"{each.approval_id} ({each.call.name})" for each in pending)
    if pending and wanted is None:
        raise InvalidInput(
            f"session {session.id!r} waits for leave for {len(pending)} calls: say which", hint=named
        )
    if wanted is not None:
        await session.deny(wanted, by=_by(act))  # which says what became of it, and changes nothing
    raise NotFound(f"session {session.id!r} waits for no leave", hint="gnomon approvals lists what does")


def _by(act: Deciding) -> str:
    return act.by if act.by is not None else by_whom()


def _say_written(row: SessionRecord, asked: ApprovalRequested, act: Deciding, *, as_json: bool) -> None:
    decision = "denied" if act.leave.decision == "deny" else "approved"
    if as_json:
        told = {"session_id": row.id, "approval_id": asked.approval_id, "decision": decision}
        click.echo(msgspec.json.encode(told).decode())
    else:
        goes_on = f"the program that has the agent {row.agent_id!r} goes on with it"
        report(f"session {short(row.id)}: {asked.call.name} is {decision}; {goes_on}", kind="")
