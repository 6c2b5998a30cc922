"""The runner that the tests of kills kill. It stays in one process that has everything imported, and forks
for each job, since a thousand runners are started. `killed_agent.py SCENE…` plays other things than ten,
each a module with a `play`.

A job is a line on stdin. The runner sends the message, under the id that it had before, waits for the turn,
and answers what is asked as a person would who looks what really happened. It says so at the write at which
it is to be killed, and stands still there, or goes on. What is said on stdout begins with the job's number.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import msgspec
from effects import Effects, effects_agent

from gnomon import registry
from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.errors import TurnUnfinished
from gnomon.session.local import LocalSession
from gnomon.types.events import ToolIntent

PATIENCE_S = 90
WRITES = ("append_events", "create_session", "update_session", "save_checkpoint", "put_blob")


class Job(msgspec.Struct):
    number: int
    url: str
    effects: str
    session: str
    point: int = 0
    """At which write to say so; 0 is never."""
    when: str = "before"
    """"before" and "after" it stands still; "during" it goes on."""
    scene: str = "killed_agent"
    """The module that knows what to play."""
    act: str = ""
    """What this runner is there for, where a scene has several."""


def say(job: Job, *words: object) -> None:
    os.write(1, f"{job.number} {' '.join(map(str, words))}\n".encode())


def announce(job: Job, storage: Storage) -> list[str]:
    """Have every write of the store counted, and the one that was named said."""
    written: list[str] = []

    def counted(name: str, write: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def writing(*args: object, **more: object) -> object:
            written.append(name)
            is_it = len(written) == job.point
            if is_it and job.when != "after":
                here(job, name)
            result = await write(*args, **more)
            if is_it and job.when == "after":
                here(job, name)
            return result

        return writing

    for name in WRITES:
        if hasattr(storage, name):
            setattr(storage, name, counted(name, getattr(storage, name)))
    return written


def here(job: Job, name: str) -> None:
    say(job, "at", name)
    if job.when != "during":
        time.sleep(2 * PATIENCE_S)  # until it is killed


async def answer(session: LocalSession[str], storage: Storage, effects: Effects) -> None:
    """A person looks whether the money was paid, and says so, or has it paid."""
    for asked in (await session.refresh()).questions:
        assert asked.unknown, asked
        reads = await Ledger(storage, session.id).refresh()
        keys = [read.entry.key for read in reads if _is_of(read.entry, asked.call_id)]
        if effects.has(keys[-1]):
            await session.answer("it was paid", call_id=asked.call_id)
        else:
            await session.answer(call_id=asked.call_id, run_again=True)


def _is_of(entry: object, call_id: str) -> bool:
    return isinstance(entry, ToolIntent) and entry.call_id == call_id


async def run(job: Job) -> None:
    storage = registry.storage(job.url)
    await storage.migrate()
    written = announce(job, storage)
    await import_module(job.scene).play(job, storage, Effects(Path(job.effects)))
    await storage.close()
    say(job, "closed", len(written))


async def play(job: Job, storage: Storage, effects: Effects) -> None:
    """Ten calls, and a person who answers what is asked."""
    agent = effects_agent(effects, storage)
    session = agent.session(job.session)
    await session.send("Go.", message_id="go")
    say(job, "done", await played(session, storage, effects))
    await agent.close()


async def played(session: LocalSession[str], storage: Storage, effects: Effects) -> str:
    """How the turn ended, with a person at hand."""
    while True:
        try:
            return (await session.turn_result()).stop
        except TurnUnfinished:
            await answer(session, storage, effects)


def do(job: Job) -> None:
    status = 1
    try:
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)  # a run that hangs fails, and says where
        asyncio.run(run(job))
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    for scene in (*sys.argv[1:], "killed_agent"):
        import_module(scene)
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        pid = os.fork()
        if pid == 0:
            do(job)
        say(job, "pid", pid)
        _, status = os.waitpid(pid, 0)
        say(job, "ended", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
