"""Answers that were given before, played again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection
from hashlib import sha256

import msgspec

from gnomon.contracts.hook import Step
from gnomon.errors import InvalidInput
from gnomon.hooks._flights import Flight, Flights
from gnomon.hooks._kept import Kept
from gnomon.hooks._recording import Recording, replayed
from gnomon.stream import PullStream
from gnomon.types.events import RunEvent
from gnomon.types.steps import HookEvent

__all__ = ["CacheHook"]

ENTRIES = 1_000
SIZE_BYTES = 64_000_000
TTL_S = 3_600.0
PATIENCE_S = 120.0

_BREATH = 64
"""Events between two chances for others to run: a replay waits for nothing by itself."""


class CacheHook:
    """Answers what was asked before from memory: the same events, chunk by chunk, and nothing is paid.

    What counts as the same is the whole request: provider, model, messages, system prompt, tools and
    every parameter. Of which session it is asked makes no difference. `scope` may tell more apart.

    - at most `entries`, and `size_bytes` of them, for `ttl_s` seconds; the longest unused goes first.
    - of those who ask the same at the same time, one asks and the others wait for its answer. When that
      one fails or is cancelled, or has not moved for `patience_s`, another takes over: nobody gets
      the error of somebody else.
    - not kept are errors, answers that a limit or a filter cut, refusals, empty ones, and those with tool
      calls unless `tool_calls` is set. Whoever waited for such an answer asks by itself.
    - an answer from the cache has a usage of zero, and begins with a `StreamWarning` of the code
      "cached", which is among the warnings of the response too.
    - results of the tools named in `tools` are kept by their arguments, as far as they are "ok". Name
      only those that change nothing, and that give everybody the same.

    `notes["cache"]` of the step is "hit" or "miss".
    """

    def __init__(
        self,
        *,
        entries: int = ENTRIES,
        size_bytes: int = SIZE_BYTES,
        ttl_s: float = TTL_S,
        tool_calls: bool = False,
        tools: Collection[str] = (),
        scope: Callable[[HookEvent], str] | None = None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check(
            {"entries": entries, "size_bytes": size_bytes, "ttl_s": ttl_s, "patience_s": patience_s}, tools
        )
        self._kept = Kept(entries=entries, size_bytes=size_bytes, ttl_s=ttl_s, clock=clock)
        self._flights = Flights(patience_s)
        self._size_bytes = size_bytes
        self._tool_calls = tool_calls
        self._tools = frozenset(tools)
        self._scope = scope
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        """How many answers are kept."""
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """How much they take."""
        return self._kept.size_bytes

    def clear(self) -> None:
        """Forget them all."""
        self._kept.clear()

    async def before(self, event: HookEvent) -> None:
        """Nothing: the place of this hook is around the step."""

    async def after(self, event: HookEvent) -> None:
        """Nothing: the place of this hook is around the step."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        """The events of the step, from the cache or from the step itself."""
        key = self._key(event)
        return await call(event) if key is None else PullStream(self._answered(event, call, key))

    # --- inside

    def _key(self, event: HookEvent) -> bytes | None:
        """`None` is never kept."""
        if event.kind == "model":
            asked: object = event.request
        elif event.tool_call is not None and event.tool_call.name in self._tools:
            asked = event.tool_call.arguments
        else:
            return None
        scope = self._scope(event) if self._scope is not None else ""
        try:
            return sha256(_encode((event.kind, event.name, scope, asked))).digest()
        except (TypeError, ValueError, OverflowError, RecursionError):
            return None  # it holds something of a vendor's that cannot be compared

    async def _answered(self, event: HookEvent, call: Step, key: bytes) -> AsyncGenerator[RunEvent, None]:
        flight = await self._waited(key)
        lines = self._kept.get(key)
        self._count(event, is_hit=lines is not None)
        if lines is not None:
            for number, each in enumerate(replayed(lines, event), 1):
                if not number % _BREATH:
                    await asyncio.sleep(0)
                yield each
            return
        flight = flight or self._flights.begin(key)
        recording = Recording(tool_calls=self._tool_calls, most_bytes=self._size_bytes)
        try:
            async with await call(event) as stream:
                async for each in stream:
                    recording.add(each)
                    self._keep_up(key, flight, recording)
                    yield each
        finally:
            self._flights.end(key, flight, "failed")

    async def _waited(self, key: bytes) -> Flight | None:
        """Wait for whoever asks the same. A flight is given where nobody else shall wait for it."""
        while self._kept.get(key) is None and (flight := self._flights.find(key)) is not None:
            if await self._flights.wait_for(flight) == "unkept":
                return Flight()
        return None

    def _keep_up(self, key: bytes, flight: Flight, recording: Recording) -> None:
        """As soon as it is known what becomes of the answer, nobody has to wait any more."""
        flight.go_on()
        if recording.is_whole:
            is_kept = self._kept.put(key, recording.lines)
            self._flights.end(key, flight, "kept" if is_kept else "unkept")
        elif not recording.is_kept:
            self._flights.end(key, flight, "unkept")

    def _count(self, event: HookEvent, *, is_hit: bool) -> None:
        event.notes["cache"] = "hit" if is_hit else "miss"
        self.hits += is_hit
        self.misses += not is_hit


_encode = msgspec.msgpack.Encoder().encode


def _check(numbers: dict[str, float], tools: object) -> None:
    for name, value in numbers.items():
        if not 0 < value < float("inf"):
            raise InvalidInput(f"{name} of CacheHook is a number above zero, not {value!r}")
    if isinstance(tools, str):
        raise InvalidInput("tools of CacheHook are names in a set or a list", hint=f"write {{{tools!r}}}")
