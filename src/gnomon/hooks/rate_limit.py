"""Requests and tokens a minute, kept to before the service has to say so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias, cast

from gnomon import registry
from gnomon.contracts.counter import SupportsLearning, TokenCounter
from gnomon.contracts.hook import Step
from gnomon.errors import InvalidInput, ProviderError, RateLimited
from gnomon.hooks._lanes import Lanes
from gnomon.hooks._limits import OURS, Lane, Limits
from gnomon.hooks._shared import OnLost, store_at
from gnomon.stream import PullStream
from gnomon.types.events import AttemptDiscarded, Done, RunEvent, ToolFinished, UsageUpdate
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response, Usage
from gnomon.types.steps import HookEvent

__all__ = ["Key", "RateLimitHook"]

Key: TypeAlias = Callable[[HookEvent], str | None]
"""What a step is counted under; `None` is not limited."""

OUTPUT_TOKENS = 1_000


class RateLimitHook:
    """Lets steps wait until there is room for them, first come, first served.

    Before a call it reserves one request and the tokens that it may come to: those of the prompt by
    `counter`, and `max_tokens` of the request, or `output_tokens` where it has none. After the call it
    settles with what was really used. What is taken comes back steadily, at the limit's pace.
    `burst_s` is how many seconds' worth may go at once. A request that is larger than that goes
    alone, when nothing is taken, and the next ones wait until it is made up for.

    - a step that waits and is cancelled has taken nothing; one that waits longer than `max_wait_s`
      raises `RateLimited`, and the model is not asked.
    - a call that fails counts as a request, with the tokens that its error says were spent; one that
      is left in the middle counts with what was reported until then, or else with its prompt.
    - when the service says `RateLimited` and how long to wait, nobody goes before that.
    - `key` says what a step is counted under: `provider:model` by default, and model calls alone.

    With `shared`, the URL of a Redis or a PostgreSQL, all processes that name the same server, key and
    limits keep them together, by the server's clock. While the server is away, `on_lost="local"` lets each
    process keep the limits by itself and logs a warning; `"raise"` raises `Unavailable`.
    `close` lets go of its connections.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        concurrent: int | None = None,
        burst_s: float = 60.0,
        max_wait_s: float | None = None,
        key: Key | None = None,
        counter: TokenCounter | str = "estimating",
        output_tokens: int = OUTPUT_TOKENS,
        shared: str | None = None,
        on_lost: OnLost = "local",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = Limits(
            requests=requests_per_minute, tokens=tokens_per_minute, concurrent=concurrent, burst_s=burst_s
        )
        _check(limits, max_wait_s, output_tokens, on_lost)
        if shared is not None:
            store_at(shared)  # so that a URL that cannot be used is told here
        self._limits = limits
        self._lanes = Lanes(limits, shared=shared, on_lost=on_lost, clock=clock)
        self._max_wait_s = max_wait_s
        self._key: Key = key or _model_asked
        self._counts = counter
        self._output_tokens = output_tokens

    async def before(self, event: HookEvent) -> None:
        """Nothing: the place of this hook is around the step."""

    async def after(self, event: HookEvent) -> None:
        """Nothing: the place of this hook is around the step."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        """The events of the step. Its turn is waited for when the first of them is asked for."""
        key = self._key(event)
        if key is None:
            return await call(event)
        return PullStream(self._limited(event, call, key))

    async def close(self) -> None:
        """Let go of the connections to the server of a shared limit. May be called twice."""
        await self._lanes.close()

    # --- inside

    async def _limited(self, event: HookEvent, call: Step, key: str) -> AsyncGenerator[RunEvent, None]:
        stay = await self._admitted(event, key)
        try:
            async with await call(event) as stream:
                async for each in stream:
                    if each.__class__ in _LAST:
                        # Before it is told: who has the last event may never come back for more.
                        await stay.end(self._used(each, stay))
                    else:
                        stay.note(each)
                    yield each
        except ProviderError as error:
            await stay.fail(error)
            raise
        finally:
            await stay.end(stay.so_far)

    async def _admitted(self, event: HookEvent, key: str) -> _Stay:
        clock = asyncio.get_running_loop().time
        prompt, tokens = self._estimate(event.request)
        lane = self._lanes.lane(key)
        began = clock()
        taken = "" if lane.enter_at_once(tokens) else await lane.enter(tokens, self._max_wait_s)
        event.notes["rate_limit.waited_s"] = clock() - began
        return _Stay(lane, taken, prompt=prompt, tokens=tokens)

    def _estimate(self, request: Request | None) -> tuple[int, int]:
        """Tokens of the prompt, and with the answer that may come."""
        if request is None or self._limits.tokens is None:
            return 0, 0
        prompt = self._prompt_tokens(request)
        return prompt, prompt + (request.max_tokens or self._output_tokens)

    def _prompt_tokens(self, request: Request) -> int:
        counter = self._counter()
        if isinstance(counter, SupportsLearning):
            return counter.count_request(request)
        system = (Message.system(request.system),) if request.system else ()
        return counter.count_messages((*system, *request.messages), request.tools)

    def _used(self, last: RunEvent, stay: _Stay) -> int:
        if not isinstance(last, Done) or self._limits.tokens is None:
            return 0
        return self._used_by(last.response, stay)

    def _used_by(self, response: Response, stay: _Stay) -> int:
        total = response.usage.total_tokens
        if total is None:  # nobody counted
            total = stay.prompt + self._counter().count_messages((response.message,))
        return total + sum(spent.total_tokens or 0 for spent in response.discarded)

    def _counter(self) -> TokenCounter:
        if isinstance(self._counts, str):
            made = cast("Callable[[], TokenCounter]", registry.load("counters", self._counts))
            self._counts = made()
        return self._counts


class _Stay:
    """One step from its turn to its end."""

    def __init__(self, lane: Lane, taken: str, *, prompt: int, tokens: int) -> None:
        self.prompt = prompt
        self._lane = lane
        self._taken = taken
        self._tokens = tokens
        self._is_over = False
        self._usage: Usage | None = None
        self._discarded = 0

    @property
    def so_far(self) -> int:
        """What was used by now: as it was reported, or else the prompt, which the service has read."""
        if not self._tokens:
            return 0
        reported = self._usage.total_tokens if self._usage is not None else None
        return self._discarded + (self.prompt if reported is None else reported)

    def note(self, event: RunEvent) -> None:
        if isinstance(event, UsageUpdate):
            self._usage = event.usage
        elif isinstance(event, AttemptDiscarded):
            usage = event.usage or self._usage
            self._discarded += (usage.total_tokens or 0) if usage is not None else 0
            self._usage = None

    async def fail(self, error: ProviderError) -> None:
        is_told = isinstance(error, RateLimited) and error.retryable and error.vendor_code != OURS
        if is_told and error.retry_after:
            await self._lane.shut_for(error.retry_after)
        await self.end(sum(spent.total_tokens or 0 for spent in error.spent) if self._tokens else 0)

    async def end(self, used: int) -> None:
        """Settle, once."""
        if not self._is_over:
            self._is_over = True
            leaving = self._lane.leave(self._taken, self._tokens, used)
            if leaving is not None:
                await leaving


_LAST = frozenset({Done, ToolFinished})


def _model_asked(event: HookEvent) -> str | None:
    return event.name if event.kind == "model" else None


def _check(limits: Limits, max_wait_s: float | None, output_tokens: int, on_lost: str) -> None:
    wanted = {
        "requests_per_minute": limits.requests,
        "tokens_per_minute": limits.tokens,
        "concurrent": limits.concurrent,
    }
    if all(limit is None for limit in wanted.values()):
        hint = "give requests_per_minute, tokens_per_minute or concurrent"
        raise InvalidInput("RateLimitHook limits nothing", hint=hint)
    for name, value in {**wanted, "burst_s": limits.burst_s, "output_tokens": output_tokens}.items():
        if value is not None and not 0 < value < float("inf"):
            raise InvalidInput(f"{name} of RateLimitHook is a number above zero, not {value!r}")
    if max_wait_s is not None and not max_wait_s >= 0:
        raise InvalidInput(f"max_wait_s of RateLimitHook is a number of seconds, not {max_wait_s!r}")
    if on_lost not in ("local", "raise"):
        raise InvalidInput(f"on_lost of RateLimitHook is 'local' or 'raise', not {on_lost!r}")
