"""`gnomon replay`: a session run again with the agent as it is now, and what is otherwise."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import click
import msgspec

from gnomon import config
from gnomon.agent import Agent
from gnomon.cli.ask import Question, flags
from gnomon.cli.choice import DEMO, Choice
from gnomon.cli.finding import by_id, opened, short
from gnomon.cli.keeping import Place
from gnomon.cli.kept import AGENT
from gnomon.cli.making import as_it_began, command_agent, kit_as_it_began
from gnomon.cli.problems import FAILED, one_line, report
from gnomon.errors import InvalidInput, NotFound
from gnomon.replay import Replay, read_store, replay
from gnomon.replay.recording import open_archive

if TYPE_CHECKING:
    from gnomon.contracts.storage import Storage
    from gnomon.types.records import SessionRecord

__all__ = ["Asked", "shown"]

_LONGEST = 1_000


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which session to replay, and where it and its agent are."""

    question: Question
    agent_file: str | None = None
    archive: str | None = None


def shown(asked: Asked, where: Place, *, as_json: bool) -> int:
    """Replay the session, and say what is otherwise; the exit code."""
    loaded = config.load(flags=flags(asked.question), use_project=not asked.question.no_project).config
    found = asyncio.run(_replayed(asked, loaded, where))
    if as_json:
        click.echo(msgspec.json.encode({"first": found.first, **msgspec.structs.asdict(found)}).decode())
    else:
        _say(found, quiet=asked.question.quiet)
    return FAILED if found.first is not None else 0


async def _replayed(asked: Asked, loaded: config.Config, where: Place) -> Replay:
    typed = asked.question.session or ""
    async with _source(asked, where, typed) as store:
        row = await by_id(store, typed)
        agent, before = _agents(asked, loaded, row)
        return await replay(await read_store(store, row.id), agent=agent, before=before)


def _source(asked: Asked, where: Place, typed: str) -> AbstractAsyncContextManager[Storage]:
    if asked.archive is not None:
        return open_archive(asked.archive)
    if not where.is_there:
        raise NotFound(f"there is no session {typed!r}", hint="gnomon sessions lists them")
    return opened(where)


def _agents(asked: Asked, loaded: config.Config, row: SessionRecord) -> tuple[Agent, Agent | None]:
    """The agent that is to replay the session, and the one it began with, where that is known."""
    if asked.agent_file is not None:
        return _agent_of_file(asked.agent_file, row.agent_id), None
    if row.agent_id != AGENT:
        raise InvalidInput(
            f"session {row.id!r} is of the agent {row.agent_id!r}, which this command does not know",
            hint="give --agent FILE, or replay it in the program that has this agent",
        )
    typed = Question(session=asked.question.session)
    return _agent(asked.question, loaded, row), _agent(typed, loaded, row)


def _agent(question: Question, loaded: config.Config, row: SessionRecord) -> Agent:
    """Nothing is asked of it, so it needs no key, and no server has to be found for it."""
    settings = as_it_began(question, loaded, row)
    choice = Choice(settings.model or DEMO, "as before")
    return command_agent(settings, choice, kit_as_it_began(question, settings, choice, row), None)


def _agent_of_file(path: str, name: str) -> Agent:
    try:
        return Agent.from_file(path, name)
    except InvalidInput:
        return Agent.from_file(path)  # the only one in it, which may have another name now


def _say(found: Replay, *, quiet: bool) -> None:
    turns, rounds = _count(found.turns, "turn"), _count(found.rounds, "round")
    if found.first is None:
        click.echo(f"session {short(found.session_id)}: {turns}, {rounds}: no difference")
    else:
        click.echo(
            f"session {short(found.session_id)}: {turns}, {_count(len(found.differences), 'difference')}"
        )
        click.echo(one_line(found.first.place, _LONGEST))
        click.echo(f"  recorded: {one_line(found.first.expected, _LONGEST) or '(nothing)'}")
        click.echo(f"  now:      {one_line(found.first.found, _LONGEST) or '(nothing)'}")
    if not quiet:
        for skipped in found.skipped:
            report(str(skipped), kind="not replayed: ")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
