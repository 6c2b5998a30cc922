"""A process that has an agent on a store, and does what it is told: a terminal, seen from a test.

`agent_terminal.py URL FILE`: each line on stdin is a `Told`, each line on stdout a `Said`. What is told is
done at once, beside what is under way. Its model and its tools leave in FILE what they did.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from effects import Effects, held_script, held_tools
from killed_agent import WRITES, answer

from gnomon import Agent, registry
from gnomon.contracts.storage import Storage
from gnomon.errors import GnomonError
from gnomon.providers.scripted import ScriptedProvider
from gnomon.types.codec import encode_event


class Told(msgspec.Struct):
    number: int
    do: str
    given: dict[str, Any] = {}


class Said(msgspec.Struct, omit_defaults=True):
    """What came of it, or an `event` on the way there."""

    number: int
    value: Any = None
    error: str = ""
    event: str = ""
    position: int = 0


class _Kept(logging.Handler):
    """What was logged, to be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Terminal:
    def __init__(self, url: str, file: str, delay_s: float = 0.0) -> None:
        self._effects = Effects(Path(file))
        self._storage = registry.storage(url)
        provider = ScriptedProvider(held_script(self._effects), verbatim=False, delay_s=delay_s)
        self._agent = Agent(
            provider, name="effects", tools=held_tools(self._effects), storage=self._storage, budget=None
        )
        self._left = 0
        self._when = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = _Kept()
        logging.getLogger("gnomon").addHandler(self._log)
        self._watch(self._storage)

    def _watch(self, storage: Storage) -> None:
        """Have every write counted, so that the process can stop itself at one."""

        def counted(write: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
            async def writing(*args: object, **more: object) -> object:
                self._left -= 1
                is_it = self._left == 0
                if is_it and self._when == "before":
                    os.kill(os.getpid(), signal.SIGSTOP)
                result = await write(*args, **more)
                if is_it and self._when == "after":
                    os.kill(os.getpid(), signal.SIGSTOP)
                return result

            return writing

        for name in WRITES:
            if hasattr(storage, name):
                setattr(storage, name, counted(getattr(storage, name)))

    async def serve(self) -> None:
        await self._storage.migrate()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            task = asyncio.ensure_future(self._do(msgspec.json.decode(line, type=Told)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        pipe.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._agent.close()
        await self._storage.close()

    async def _do(self, told: Told) -> None:
        said = Said(told.number)
        try:
            said.value = await getattr(self, told.do)(told.number, **told.given)
        except GnomonError as error:
            said.error, said.value = type(error).__name__, str(error)
        except Exception as error:
            said.error, said.value = type(error).__name__, repr(error)
            sys.excepthook(*sys.exc_info())
        say(said)

    # --- what it can be told

    async def run(self, _: int, session: str, text: str) -> list[object]:
        turn = await self._agent.session(session).run(text)
        return [turn.stop, turn.text]

    async def stream(self, number: int, text: str) -> list[object]:
        async with self._agent.stream(text) as run:
            say(Said(number, event=run.session_id))
            async for _ in run:
                pass
            return [run.turn.stop, run.turn.text]

    async def send(self, _: int, session: str, text: str, **more: Any) -> str:
        return await self._agent.session(session).send(text, **more)

    async def sends(self, _: int, session: str, prefix: str, count: int) -> list[str]:
        """One message after another, as fast as they are taken."""
        there = self._agent.session(session)
        return [await there.send(f"{prefix}-{at}", message_id=f"{prefix}-{at}") for at in range(count)]

    async def result(self, _: int, session: str) -> list[object]:
        turn = await self._agent.session(session).turn_result()
        return [turn.stop, turn.text]

    async def resume(self, _: int, session: str, take_over: bool = False) -> None:
        await self._agent.session(session).resume(take_over=take_over)

    async def answer(self, _: int, session: str) -> None:
        await answer(self._agent.session(session), self._storage, self._effects)

    async def cancel(self, _: int, session: str, mode: str = "now") -> None:
        await self._agent.session(session).cancel(mode)  # type: ignore[arg-type]

    async def state(self, _: int, session: str) -> str:
        return (await self._agent.session(session).refresh()).state

    async def read(self, number: int, session: str, after: int = 0) -> None:
        async with self._agent.session(session).events(after) as reader:
            async for event in reader:
                say(Said(number, event=encode_event(event).decode(), position=reader.position))

    async def serve_all(self, _: int) -> None:
        """Run whatever is found in the store, until the end."""
        await self._agent.serve()

    async def stop_at(self, _: int, write: int, when: str) -> None:
        self._left, self._when = write, when

    async def log(self, _: int) -> list[str]:
        return self._log.lines

    async def running(self, _: int) -> int:
        """How many sessions are run here."""
        return len(self._agent._live().loops)

    async def tasks(self, _: int) -> int:
        return len(asyncio.all_tasks())


def say(said: Said) -> None:
    os.write(1, msgspec.json.encode(said) + b"\n")


if __name__ == "__main__":
    asyncio.run(Terminal(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])).serve())
