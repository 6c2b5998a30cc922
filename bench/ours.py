"""Gnomon beside other frameworks: an adapter for a harness that is kept elsewhere (`make bench-peers`).

`GNOMON_BENCH_STORAGE` names a store for its ledger, which is off otherwise, as it is with the others.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable

from benchlib import Adapter, add, main, write  # pyright: ignore[reportMissingImports]


class Gnomon(Adapter):
    name = "ours"
    storage = os.environ.get("GNOMON_BENCH_STORAGE") or None
    IMPORT = "from gnomon import Agent; from gnomon.providers.openai import OpenAIProvider"

    def load(self) -> str:
        global gnomon, OpenAIProvider
        import gnomon
        from gnomon.providers.openai import OpenAIProvider

        return "0.1.0"

    def make_model(self, model: str) -> object:
        return OpenAIProvider(api="chat", base_url=self.base_url, key="sk", model=model)

    def make_agent(self, model: object, tools: tuple[str, ...] = ()) -> object:
        known = {"add": add, "write": write}
        budget = gnomon.Budget(rounds=1000)
        chosen = [gnomon.tool(known[name]) for name in tools]
        return gnomon.Agent(model, tools=chosen, budget=budget, storage=self.storage)

    async def turn(self, agent: object, prompt: str, history: object = None) -> str:
        return (await agent.run(prompt, messages=history or ())).text

    async def stream(self, agent: object, prompt: str, on: Callable[[str], None]) -> None:
        delta = gnomon.TextDelta
        async with agent.stream(prompt) as run:
            async for event in run:
                if type(event) is delta:
                    on(event.text)

    async def stream_args(self, agent: object, prompt: str, on: Callable[[], None]) -> None:
        delta = gnomon.ToolCallDelta
        async with agent.stream(prompt) as run:
            async for event in run:
                if type(event) is delta:
                    on()

    def history(self, count: int) -> tuple[object, ...]:
        message = gnomon.Message
        return tuple(
            message.assistant(f"answer {at // 2} " * 5)
            if at % 2
            else message.user(f"question {at // 2} " * 5)
            for at in range(count)
        )

    def make_fake(self) -> object:
        class Fake(gnomon.Provider):
            name = model = "fake"

            async def events(self, request: object) -> AsyncGenerator[object, None]:
                yield gnomon.TextDelta(0, "done")
                yield gnomon.Finish(
                    stop_reason="end_turn", usage=gnomon.Usage(input_tokens=5, output_tokens=1)
                )

        return gnomon.Agent(Fake(), storage=self.storage)


main(Gnomon)
