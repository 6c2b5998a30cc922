"""A kept session as a test: it is run again with a changed agent, without a model, a key or a tool."""

import asyncio

from gnomon import Agent, tool
from gnomon.testing import ScriptedProvider, calls, replay, says


@tool
def book(room: int) -> str:
    """Book a room."""
    print(f"booking room {room}")  # this happens once
    return "booked"


@tool(name="book")
def book_nights(room: int, nights: int) -> str:
    """Book a room for some nights."""
    return "booked"


async def main() -> None:
    model = ScriptedProvider([calls("book", room=12), says("Booked.")])
    async with Agent(model, instructions="Be brief.", tools=[book]) as agent:
        session = agent.session("trip-to-oslo")
        await session.run("Book room 12.")

        found = await replay(session)
        found.check()
        print(f"{found.turns} turn, {found.rounds} rounds: as before")

        changed = Agent("openai:gpt-5", instructions="Be brief.", tools=[book_nights])
        found = await replay(session, agent=changed)
        for difference in found.differences:
            print(difference)


asyncio.run(main())
