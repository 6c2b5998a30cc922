"""An agent hands work to two others, which work side by side, each in a session of its own."""

import asyncio

from gnomon import Agent, Budget, SubagentFinished, SubagentStarted
from gnomon.testing import ScriptedProvider, calls, says

tides = Agent(
    ScriptedProvider([says("High water is at noon.").expecting(text="Oslo")]),
    name="tides",
    instructions="You know the tides.",
)
trains = Agent(
    ScriptedProvider([says("The last train leaves at 22:10.").expecting(text="Oslo")]),
    name="trains",
    instructions="You know the timetable.",
    budget=Budget(rounds=3),  # of its own, beside its share of what is left above
)
model = ScriptedProvider(
    [
        calls("spawn", agent="tides", task="When is high water in Oslo?").calling(
            "spawn", agent="trains", task="When does the last train leave Oslo?"
        ),
        says("Sail at noon, and be back for the train at 22:10.").expecting(result="22:10"),
    ]
)


async def main() -> None:
    async with Agent(model, name="planner", subagents=[tides, trains]) as planner:
        async with planner.stream("Plan a day of sailing in Oslo.") as run:
            async for event in run:
                match event:
                    case SubagentStarted(name=name, session_id=session_id):
                        print(f"[{name} begins, in session {session_id[:12]}…]")
                    case SubagentFinished(status=status, output=output):
                        print(f"[{status}: {output}]")
        print(run.turn.text)
        print(f"{run.turn.usage.total_tokens} tokens, theirs with it")


asyncio.run(main())
