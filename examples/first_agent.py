"""Ten lines that work: an agent with one tool, offline."""

import asyncio

from gnomon import Agent, tool


@tool(read_only=True)
async def weather(city: str) -> str:
    """The forecast for a city."""
    return f"{city}: 21 degrees and clear"


async def main() -> None:
    turn = await Agent("demo", tools=[weather]).run("What is the weather in Rome?")
    print(turn.text)


asyncio.run(main())
