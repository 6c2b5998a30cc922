"""A process that writes to a store beside others: `python -m gnomon.testing._storage_writer`.

It reads its job from a line of standard input, opens the store, says that it is
ready, and begins with the next line. Each write that the store has acknowledged
it tells at once, so that whoever kills it knows what must be there. The URL does
not stand on the command line, where everybody could read it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from time import monotonic
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from gnomon.contracts.storage import Storage
from gnomon.errors import Conflict
from gnomon.testing._storage_asking import together
from gnomon.testing._storage_records import audit, event, session
from gnomon.testing._storage_suite import opened
from gnomon.types.records import LedgerEvent

__all__ = ["Ended", "Job", "Message", "Ready", "Told", "tail_of", "work"]

Task: TypeAlias = Literal["append", "audit", "create", "count", "migrate"]


class Job(msgspec.Struct, frozen=True):
    """What to do; several writers do it at the same time, each `appends` times."""

    url: str
    opener: str
    task: Task
    name: str = "w"
    sessions: tuple[str, ...] = ("s",)
    writers: int = 4
    appends: int = 25
    group: int = 1
    """How many events go into one append."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The store is open, and nothing is done yet."""


class Told(msgspec.Struct, frozen=True, tag="told"):
    """What the store has acknowledged: a row of this name, at this place."""

    session_id: str
    id: str
    seq: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The job is done, or has failed."""

    problem: str = ""


Message: TypeAlias = Ready | Told | Ended
_Tell: TypeAlias = Callable[[Told], object]


async def work(storage: Storage, job: Job, tell: _Tell) -> None:
    """The whole job, on a store that is open."""
    if job.task == "migrate":
        await storage.migrate()
        return
    writer = {"append": _append, "audit": _audit, "create": _create, "count": _count}[job.task]
    await together(*(writer(storage, job, number, tell) for number in range(job.writers)))


async def tail_of(storage: Storage, session_id: str, known: int = 0) -> int:
    """The last seq of a log of which so many are known."""
    tail, cursor = known, None
    while True:
        page = await storage.list_events(session_id, known, 200, cursor=cursor)
        tail = page.items[-1].seq if page.items else tail
        if page.next is None:
            return tail
        cursor = page.next


# --- what a writer does -----------------------------------------------------------------


async def _append(storage: Storage, job: Job, writer: int, tell: _Tell) -> None:
    """At the tail, wherever it is by then; from one session to the next."""
    tails = dict.fromkeys(job.sessions, 0)
    for number in range(job.appends):
        session_id = job.sessions[(writer + number) % len(job.sessions)]
        group = [event(0, session_id, id=f"{job.name}.{writer}.{number}.{at}") for at in range(job.group)]
        tails[session_id] = await _append_at_tail(storage, group, tails[session_id])
        for at, each in enumerate(group, start=tails[session_id] - job.group + 1):
            tell(Told(session_id, each.id, at))


async def _append_at_tail(storage: Storage, group: list[LedgerEvent], known: int) -> int:
    """The tail after the append."""
    pause = _Pause()
    while True:
        known = await tail_of(storage, group[0].session_id, known)
        numbered = [replace(each, seq=known + at) for at, each in enumerate(group, start=1)]
        try:
            if len(group) == 1:
                await storage.append_event(numbered[0])
            else:
                await storage.append_events(numbered)
        except Conflict:
            await pause.rest()
        else:
            return known + len(group)


async def _audit(storage: Storage, job: Job, writer: int, tell: _Tell) -> None:
    for number in range(job.appends):
        session_id = job.sessions[(writer + number) % len(job.sessions)]
        pause = _Pause()
        while True:
            try:
                row = await storage.append_audit_log(audit(f"{job.name}.{writer}.{number}", session_id))
            except Conflict:
                await pause.rest()
            else:
                break
        tell(Told(session_id, row.id, row.seq))


async def _create(storage: Storage, job: Job, writer: int, tell: _Tell) -> None:
    """Each session is created by one, and tells who that was."""
    for number in range(job.appends):
        mine = session(f"{job.sessions[0]}.{number}", title=f"{job.name}.{writer}")
        try:
            await storage.create_session(mine)
        except Conflict:
            continue
        tell(Told(mine.id, mine.title, 0))


async def _count(storage: Storage, job: Job, writer: int, tell: _Tell) -> None:
    """One more, on top of what is stored."""
    for number in range(job.appends):
        pause = _Pause()
        while True:
            found = await storage.get_session(job.sessions[0])
            if found is None:
                raise AssertionError(f"session {job.sessions[0]!r} is not there")
            try:
                stored = await storage.update_session(replace(found, last_seq=found.last_seq + 1))
            except Conflict:
                await pause.rest()
            else:
                break
        tell(Told(stored.id, f"{job.name}.{writer}.{number}", stored.last_seq))


class _Pause:
    """Between two tries of one write: longer where the store is slow, and after each Conflict."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._tries = 0

    async def rest(self) -> None:
        took_s = monotonic() - self._began
        self._tries += 1
        # So that the same few do not meet again and again.
        await asyncio.sleep(random.uniform(0, took_s * 2 ** min(self._tries, 3)))  # noqa: S311
        self._began = monotonic()


# --- the process ------------------------------------------------------------------------


def main() -> None:
    job = msgspec.json.decode(sys.stdin.readline(), type=Job)
    try:
        asyncio.run(_run(job))
    except Exception as error:
        _say(Ended(f"{type(error).__name__}: {error}"))
        raise
    _say(Ended())


async def _run(job: Job) -> None:
    async with opened(job.opener, job.url) as storage:
        _say(Ready())
        if await asyncio.to_thread(sys.stdin.readline):  # nothing: whoever started this is gone
            await work(storage, job, _say)


def _say(message: Message) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
