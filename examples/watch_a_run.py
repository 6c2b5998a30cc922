"""Everything that happens in a turn, as it happens."""

import asyncio

from gnomon import Agent, TextDelta, ThinkingDelta, ToolFinished, TurnFinished


async def main() -> None:
    agent = Agent("demo", tools=["calculate", "now"])
    async with agent.stream("What is 12*(3+4)?") as run:
        async for event in run:
            match event:
                case ThinkingDelta(text=text) | TextDelta(text=text):
                    print(text, end="", flush=True)
                case ToolFinished(result=result):
                    print(f"\n[{result.name} -> {result.text}]")
                case TurnFinished(rounds=rounds, usage=usage):
                    print(f"\n[{rounds} rounds, {usage.total_tokens} tokens]")


asyncio.run(main())
