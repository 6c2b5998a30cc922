"""`gnomon events`: the ledger of a session, and with `-f` what is being said."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from gnomon.agent import Agent
from gnomon.cli.event_words import kind_of, words
from gnomon.cli.finding import by_id, opened
from gnomon.cli.kept import AGENT
from gnomon.cli.screen import Screen
from gnomon.errors import NotFound
from gnomon.types.codec import encode_event
from gnomon.types.events import Live, SessionEvent, TextDelta, ToolProgress

if TYPE_CHECKING:
    from datetime import datetime

    from gnomon.cli.keeping import Place

__all__ = ["shown"]


def shown(place: Place, typed: str, after: int, form: str, *, follow: bool) -> int:
    """Show them; the exit code."""
    if not place.is_there:
        raise NotFound(f"there is no session {typed!r}", hint="gnomon sessions lists them")
    log = _Lines() if form == "stream-json" else _Object() if form == "json" else _Text()
    asyncio.run(_read(place, typed, after, log, follow=follow))
    return 0


async def _read(place: Place, typed: str, after: int, log: _Text | _Lines | _Object, *, follow: bool) -> None:
    async with opened(place) as store:
        row = await by_id(store, typed)
        # Its model is never asked: an agent is what reads sessions.
        async with Agent("demo", name=AGENT, storage=store, adopt=False) as agent:
            session = agent.session(row.id)
            end = (await session.refresh()).position
            log.begin(row.id)
            # From the first event on, also where not all are shown: whoever runs it is named in the ledger.
            async with session.events(0 if follow else after) as reader:
                while follow or reader.position < end:
                    event = await reader.__anext__()
                    if isinstance(event, Live | ToolProgress):
                        log.live(event)
                    elif reader.position > after:
                        log.event(reader.position, reader.at, event)
            log.end()


class _Text:
    """For people: number, time, kind, and what it says."""

    def __init__(self) -> None:
        self._screen = Screen(quiet=True)

    def begin(self, session_id: str) -> None:
        """Who asked knows which it is."""

    def live(self, event: Live | ToolProgress) -> None:
        if isinstance(event, Live) and isinstance(event.event, TextDelta):
            self._screen.answer(event.event.text)

    def event(self, seq: int, at: datetime | None, event: SessionEvent) -> None:
        self._screen.end_answer()
        when = at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at is not None else ""
        _print(f"{seq:>4}  {when}  {kind_of(event):<18}  {words(event)}".rstrip())

    def end(self) -> None:
        self._screen.end_answer()


class _Lines:
    """For programs: an event a line, with its number and time. What is being said has none."""

    def begin(self, session_id: str) -> None:
        """Each line is whole by itself."""

    def live(self, event: Live | ToolProgress) -> None:
        _print(encode_event(event).decode())

    def event(self, seq: int, at: datetime | None, event: SessionEvent) -> None:
        _print(_numbered(seq, at, event).decode())

    def end(self) -> None:
        """There is nothing to close."""


class _Object:
    """All of them in one object."""

    def __init__(self) -> None:
        self._session_id = ""
        self._events: list[msgspec.Raw] = []

    def begin(self, session_id: str) -> None:
        self._session_id = session_id

    def live(self, event: Live | ToolProgress) -> None:
        """It is not of the ledger."""

    def event(self, seq: int, at: datetime | None, event: SessionEvent) -> None:
        self._events.append(msgspec.Raw(_numbered(seq, at, event)))

    def end(self) -> None:
        whole = {"session_id": self._session_id, "events": self._events}
        click.echo(msgspec.json.encode(whole).decode())


def _numbered(seq: int, at: datetime | None, event: SessionEvent) -> bytes:
    """The event as the wire has it, with two more fields that its readers pass over."""
    place = msgspec.json.encode({"seq": seq, "at": at})
    return place[:-1] + b"," + encode_event(event)[1:]


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
