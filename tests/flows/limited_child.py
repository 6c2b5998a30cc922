"""One of the processes of `test_limits_processes.py`: it makes steps under a shared limit.

`limited_child.py TASK`, with a `Task` as JSON, says "ready", waits for a line, then makes steps until its
stdin ends, and says `[entered, left]` of each on stdout, by a clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator

import msgspec

from gnomon.hooks import _postgres_limits, _redis_limits, _shared
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.stream import PullStream, Stream
from gnomon.types.events import Finish, ProviderEvent, RunEvent, TextDelta
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Usage
from gnomon.types.steps import HookEvent


class Task(msgspec.Struct):
    url: str
    settings: dict[str, float]
    lease_s: float = 30.0
    patience_s: float = 5.0
    hold_s: float = 0.0
    workers: int = 4
    tokens: int = 10


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    for module in (_redis_limits, _postgres_limits, _shared):
        module.LEASE_S, module.PATIENCE_S = task.lease_s, task.patience_s
    say("ready")
    sys.stdin.readline()
    asyncio.run(work(task))


async def work(task: Task) -> None:
    hook = RateLimitHook(shared=task.url, on_lost="raise", **task.settings)
    workers = [asyncio.ensure_future(steps(hook, task)) for _ in range(task.workers)]
    await asyncio.to_thread(sys.stdin.read)
    for worker in workers:
        worker.cancel()
    ended = await asyncio.gather(*workers, return_exceptions=True)
    await hook.close()
    failed = [each for each in ended if not isinstance(each, asyncio.CancelledError)]
    assert not failed, failed


async def steps(hook: RateLimitHook, task: Task) -> None:
    async def call(event: HookEvent) -> PullStream[RunEvent]:
        return Stream(answer(task))

    request = Request(messages=(Message.user("When is high tide?"),), max_tokens=task.tokens)
    while True:
        async with await hook.around(
            HookEvent(kind="model", name="acme:tide", request=request), call
        ) as stream:
            async for _ in stream:
                pass


async def answer(task: Task) -> AsyncGenerator[ProviderEvent, None]:
    entered = time.monotonic()
    await asyncio.sleep(task.hold_s)
    yield TextDelta(0, "Noon.")
    say(f"[{entered}, {time.monotonic()}]")
    yield Finish(stop_reason="end_turn", usage=Usage(input_tokens=task.tokens, output_tokens=0))


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    main()
