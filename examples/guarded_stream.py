"""What a guardrail does not let pass is held back before anybody sees it, word by word or not."""

import asyncio

from gnomon import Agent, Guarded, GuardrailTripped, TextDelta
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.guardrails.pii import PIIGuardrail
from gnomon.testing import ScriptedProvider, says

ANSWER = "Ask Ada for the key: write to ada@example.com, or come by on Monday."


async def main() -> None:
    # Personal data in an answer is replaced. The model says it in pieces, and no piece gets through.
    agent = Agent(ScriptedProvider([says(ANSWER)]), guardrails=[PIIGuardrail()])
    async with agent.stream("Who has the key?") as run:
        async for event in run:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                    assert "ada@" not in text
                case Guarded(guardrail=name, position=position, reason=reason):
                    print(f"\n[{name}, {position}: {reason}]")
    print()

    # A question that may not be asked stops the turn before the model hears of it, and stays out of sight.
    model = ScriptedProvider([says("Hello!")])
    async with Agent(model, guardrails=[BlocklistGuardrail(["project x"])]) as agent:
        session = agent.session("chat")
        try:
            await session.run("Tell me about Project X.")
        except GuardrailTripped as error:
            print(error)
        print((await session.run("Hi.")).text)
        assert len(model.requests) == 1
        assert "Project" not in str(model.requests[0].messages)


asyncio.run(main())
