"""The process that `test_agent_soak.py` measures: turn after turn, and what is left of them.

`soaking_agent.py URL WARM TURNS`: after the first turns, by which the store's caches are full, and at the
end it says what it holds.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path

import msgspec

from gnomon import Agent, ToolContext, tool
from gnomon._threads import IDLE_S
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.types.requests import Request

EACH = 10
"""Turns of one session."""
PASSING = 6
"""Tasks that an agent at rest may have."""


class Held(msgspec.Struct):
    """What the process has at one moment."""

    turns: int
    rss_bytes: int
    tasks: int
    threads: int
    files: int
    objects: int


@tool
async def save(ctx: ToolContext, text: str) -> str:
    return f"saved {text}"


@tool(read_only=True)
def look(text: str) -> str:
    return f"looked at {text}"


def answer(request: Request) -> Line:
    last = request.messages[-1]
    if last.role == "tool":
        return says("Done, and here is what was found: " + "word " * 20)
    return calls("save", text=last.text).calling("look", text=last.text)


class Forgetful(ScriptedProvider):
    """A script keeps what it was asked, for tests to look at; here that would be what grows."""

    async def events(self, request: Request):  # type: ignore[no-untyped-def]
        async for event in super().events(request):
            yield event
        self.requests.clear()
        self._memory = type(self._memory)()


def held(turns: int) -> Held:
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    files = len(os.listdir("/proc/self/fd"))
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    return Held(turns, resident, tasks, threads, files, len(gc.get_objects()))


def say(turns: int) -> None:
    os.write(1, msgspec.json.encode(held(turns)) + b"\n")


async def settled() -> None:
    """What is just passing, such as a look at the store, is waited for; what stays is what counts."""
    for _ in range(200):
        if len(asyncio.all_tasks()) <= PASSING:
            return
        await asyncio.sleep(0.05)


async def fill_pools(agent: Agent[str]) -> None:
    """The threads that read are a few, and made when they are needed: all of them are there from here on."""
    await asyncio.gather(*(agent.session(f"nobody {number}").refresh() for number in range(200)))


async def main(url: str, warm: int, turns: int) -> None:
    agent = Agent(Forgetful(answer, verbatim=False), name="soaking", tools=[save, look], storage=url)
    for number in range(0, turns, EACH):
        if number == warm:
            await fill_pools(agent)
            await settled()
            say(number)
        if number // EACH % 2:
            for _ in range(EACH):
                assert (await agent.run("once")).text.startswith("Done")
        else:
            session = agent.session()
            for at in range(EACH):
                assert (await session.run(f"message {at}")).text.startswith("Done")
    await settled()
    say(turns)
    await agent.close()
    await asyncio.get_running_loop().shutdown_default_executor()
    await asyncio.sleep(3 * IDLE_S)  # by then a thread that has had nothing to do is gone
    say(turns)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
