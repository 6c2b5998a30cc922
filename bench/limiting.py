"""What it costs to be let through a rate limit when nobody waits: beside an asyncio.Lock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from measure import Row, compared, in_turns_on_this_loop, say

from gnomon.hooks._gate import Gate
from gnomon.hooks._limits import Limits

ROUNDS, QUICK_ROUNDS = 41, 15
TIMES = 20_000
LIMIT = 5.0
PLENTY = 1e12

KINDS = {
    "requests": Limits(requests=PLENTY),
    "requests and tokens": Limits(requests=PLENTY, tokens=PLENTY),
    "requests, tokens and places": Limits(requests=PLENTY, tokens=PLENTY, concurrent=1),
}


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"limiting: {rounds} rounds of {TIMES:,} steps that need not wait")
    return asyncio.run(_compared(rounds))


async def _compared(rounds: int) -> list[Row]:
    jobs: dict[str, Callable[[], Awaitable[None]]] = {"lock": _locked}
    jobs |= {what: _let_through(Gate("acme:tide", limits)) for what, limits in KINDS.items()}
    samples = await in_turns_on_this_loop(jobs, rounds)
    each = {name: [seconds / TIMES for seconds in taken] for name, taken in samples.items()}
    return [compared(f"rate limit: {what} / a lock", each[what], each["lock"], limit=LIMIT) for what in KINDS]


async def _locked() -> None:
    lock = asyncio.Lock()
    for _ in range(TIMES):
        await lock.acquire()
        lock.release()


def _let_through(gate: Gate) -> Callable[[], Awaitable[None]]:
    async def job() -> None:
        for _ in range(TIMES):
            taken = "" if gate.enter_at_once(1_500) else await gate.enter(1_500)
            gate.leave(taken, 1_500, 700)

    return job
