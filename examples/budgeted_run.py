"""Three ways to keep to a limit: of a turn, of a session in dollars, and of how long a conversation grows."""

import asyncio

from gnomon import Agent, Budget, BudgetExceeded, Compacted
from gnomon.hooks.cost import CostTracker

PRICES = {"demo:*": {"input_price": 500, "output_price": 500}}  # US dollars for a million tokens


async def main() -> None:
    # A limit of the turn is looked at before each call of the model. It ends with what there is.
    agent = Agent("demo", tools=["calculate"], budget=Budget(rounds=1))
    turn = await agent.run("What is 12*(3+4)?")
    print(f"stopped by {turn.stop} after {turn.rounds} round")

    # A hook counts over turns and agents, and refuses the next call.
    tracker = CostTracker(session=0.10, models=PRICES)
    async with Agent("demo", hooks=[tracker], models=PRICES) as agent:
        session = agent.session("chat")
        try:
            for number in range(20):
                await session.run(f"Hello, for the {number + 1}. time")
        except BudgetExceeded as error:
            print(error)
    print(f"spent ${tracker.report().total.cost:.2f}")

    # A conversation that grows too long for its model is shown in part; the session keeps all of it.
    async with Agent("demo", compactor="truncate", context_tokens=600) as agent:
        session = agent.session("long")
        for number in range(8):
            async with session.stream(f"Tell me about day {number} " + "and night " * 20) as run:
                async for event in run:
                    if isinstance(event, Compacted):
                        before, after = event.messages_before, event.messages_after
                        print(f"day {number}: the model is shown {after} messages, not {before}")


asyncio.run(main())
