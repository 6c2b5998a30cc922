"""One of the processes of pain 27: an agent whose model calls are under a limit that others share.

`limited_agent.py SETTINGS`, those of a `RateLimitHook` as JSON. Each line on stdin is how many turns to run
at once, with `limited` behind it where the service is to refuse the first of them for 2 seconds. It says
`[when the model was asked, ...]` when they are over, by a clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from gnomon import Agent
from gnomon.errors import RateLimited
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.providers.scripted import Line, ScriptedProvider, says
from gnomon.types.requests import Request, Usage


async def main() -> None:
    asked: list[float] = []
    refusals: list[RateLimited] = []

    def answer(request: Request) -> Line:
        asked.append(time.monotonic())
        if refusals:
            raise refusals.pop()
        return says("Noon.", usage=Usage(input_tokens=10, output_tokens=1))

    hook = RateLimitHook(**json.loads(sys.argv[1]))
    async with Agent(ScriptedProvider(answer), hooks=[hook]) as agent:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            count, _, limited = line.partition(" ")
            if limited:
                refusals.append(RateLimited("slow down", retry_after=2.0))
            turns = (agent.session(f"s{at}").run("When?") for at in range(int(count)))
            await asyncio.gather(*turns, return_exceptions=bool(limited))
            print(json.dumps(asked), flush=True)
            asked.clear()


asyncio.run(main())
