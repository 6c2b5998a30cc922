"""Another process: it replays a session of a store with an agent of its own, and says what it found.

`python replayed_child.py URL SESSION INSTRUCTIONS` prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from gnomon import Agent, registry, tool
from gnomon.replay import read_store, replay


@tool(read_only=True)
def weather(city: str) -> str:
    """The weather of a city."""
    os._exit(3)  # it is not to be run


@tool
def book(room: int) -> str:
    """Book a room."""
    os._exit(3)


async def main(url: str, session_id: str, instructions: str) -> None:
    store = registry.storage(url)
    try:
        recording = await read_store(store, session_id)
    finally:
        await store.close()
    agent = Agent("openai:gpt-5", name="travel", instructions=instructions, tools=[weather, book])
    found = await replay(recording, agent=agent)
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
