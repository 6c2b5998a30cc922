"""What a command does to one session: go on with it, end its turn, begin another from it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
import msgspec

from gnomon import config
from gnomon.agent import Agent
from gnomon.cli.ask import Question, show_turn
from gnomon.cli.asking import went_on
from gnomon.cli.event_words import words
from gnomon.cli.finding import by_id, in_store, opened, root_by_id, short
from gnomon.cli.keeping import Place, place
from gnomon.cli.kept import AGENT
from gnomon.cli.making import going_on
from gnomon.cli.problems import report
from gnomon.cli.render import Renderer
from gnomon.cli.screen import Screen
from gnomon.errors import ConfigError, ContextTooLong, InvalidInput, NotFound
from gnomon.types.events import Compacted
from gnomon.types.records import SessionRecord
from gnomon.types.steps import CancelMode, Turn

__all__ = ["Resumption", "cancelled", "compacted", "forked", "resumed"]

_T = TypeVar("_T")


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """How to go on with what is open."""

    answer: str | None = None
    run_again: bool = False
    call_id: str | None = None
    take_over: bool = False
    store: str | None = None


# --- going on -----------------------------------------------------------------------


def resumed(question: Question, act: Resumption) -> int:
    """Show the rest of the open turn; the exit code."""

    def work(question: Question, loaded: config.Config, show: Renderer, screen: Screen) -> Turn | None:
        return _resumed(question, act, loaded, show)

    return show_turn(question, work)


def _resumed(question: Question, act: Resumption, loaded: config.Config, show: Renderer) -> Turn | None:
    if act.answer is not None and act.run_again:
        raise InvalidInput("--answer and --run-again were both given", hint="give one of them")
    if act.call_id is not None and act.answer is None and not act.run_again:
        raise InvalidInput("--call says which call is answered", hint="give --answer TEXT or --run-again too")
    where = Place(url=act.store) if act.store is not None else place(loaded, os.environ)
    row = _row(where, question.session or "")
    assert where is not None
    agent = going_on(question, loaded, row, where)
    turn = asyncio.run(
        went_on(
            agent,
            row.id,
            show,
            answer=act.answer,
            call_id=act.call_id,
            run_again=act.run_again,
            take_over=act.take_over,
        )
    )
    if turn is None:
        _say_nothing_open(row.id, as_json=loaded.output in ("json", "stream-json"))
    else:
        show.finish(turn, agent.provider)
    return turn


def _say_nothing_open(session_id: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"session_id": session_id, "state": "idle"}).decode())
    else:
        report(f"session {short(session_id)}: nothing is open in it", kind="")


def _row(where: Place | None, typed: str) -> SessionRecord:
    if where is None:
        raise ConfigError("there is no home folder to keep sessions in", hint="set HOME or GNOMON_STORE")
    _check_there(where, typed)
    return in_store(where, lambda store: root_by_id(store, typed))


def _check_there(where: Place, typed: str) -> None:
    if not where.is_there:
        raise NotFound(f"there is no session {typed!r}", hint="gnomon sessions lists them")


# --- ending, branching off ----------------------------------------------------------


def _on_session(where: Place, typed: str, work: Callable[[Agent, SessionRecord], Awaitable[_T]]) -> _T:
    """What the work gives that is done to a session of whatever agent: no model is asked for it."""
    _check_there(where, typed)

    async def run() -> _T:
        async with opened(where) as store:
            row = await by_id(store, typed)
            async with Agent("demo", name=row.agent_id or "agent", storage=store, adopt=False) as agent:
                return await work(agent, row)

    return asyncio.run(run())


def cancelled(where: Place, typed: str, mode: CancelMode, *, as_json: bool) -> int:
    """End the open turn; the exit code."""

    async def work(agent: Agent, row: SessionRecord) -> tuple[str, bool]:
        session = agent.session(row.id)
        is_open = (await session.refresh()).state != "idle"
        if is_open:
            await session.cancel(mode, reason="gnomon cancel")
        return row.id, is_open

    session_id, was_open = _on_session(where, typed, work)
    if as_json:
        click.echo(msgspec.json.encode({"session_id": session_id, "cancelled": was_open}).decode())
    else:
        what = "its turn is cancelled" if was_open else "nothing is open in it"
        report(f"session {short(session_id)}: {what}", kind="")
    return 0


def forked(where: Place, typed: str, at: int | None, *, as_json: bool) -> int:
    """Begin another session from one; the exit code."""

    async def work(agent: Agent, row: SessionRecord) -> str:
        return (await agent.session(row.id).fork(at)).id

    made = _on_session(where, typed, work)
    click.echo(msgspec.json.encode({"session_id": made}).decode() if as_json else made)
    return 0


def compacted(question: Question, where: Place, *, summarize: bool, as_json: bool) -> int:
    """Make the view of the model shorter; the exit code."""
    row = _row(where, question.session or "")
    made = asyncio.run(_compacted(question, where, row, summarize=summarize))
    if as_json:
        click.echo(msgspec.json.encode({"session_id": row.id, "compacted": made}).decode())
    else:
        what = f"compacted: {words(made)}" if made is not None else "it is as short as it can be"
        report(f"session {short(row.id)}: {what}", kind="")
    return 0


async def _compacted(
    question: Question, where: Place, row: SessionRecord, *, summarize: bool
) -> Compacted | None:
    if summarize:  # by the model that it has
        loaded = config.load(use_project=not question.no_project).config
        agent = going_on(question, loaded, row, where, compactor="summarize")
    else:
        name = row.agent_id or AGENT
        agent = Agent("demo", name=name, storage=where.url, adopt=False, compactor="truncate")
    async with agent:
        try:
            return await agent.session(row.id).compact()
        except ContextTooLong:
            return None
