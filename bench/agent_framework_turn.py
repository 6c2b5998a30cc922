"""CPU seconds a turn of agent-framework with a model in the same process; run by a Python that has it.

python bench/agent_framework_turn.py      reads numbers of turns, answers each with seconds a turn
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import warnings
from collections.abc import Awaitable
from typing import Any

from agent_framework import (  # pyright: ignore[reportMissingImports]
    Agent,
    BaseChatClient,
    ChatResponse,
    Message,
)


class Ready(BaseChatClient):  # pyright: ignore[reportUntypedBaseClass]
    """A model whose answer is there already."""

    def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **more: Any
    ) -> Awaitable[Any]:
        async def answer() -> Any:
            return ChatResponse(messages=[Message(role="assistant", contents=["done"])], response_id="r")

        return answer()


async def turns(agent: Any, count: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(count):
        assert "done" in (await agent.run("How are you?")).text
    return (time.process_time() - start) / count


def main() -> None:
    warnings.filterwarnings("ignore")
    agent = Agent(Ready())
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            print(runner.run(turns(agent, int(line))), flush=True)


if __name__ == "__main__":
    main()
