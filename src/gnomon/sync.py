"""The same `Agent` for code without an event loop.

One event loop runs in one thread of its own; a call here is handed to it and
waited for. There is no logic in this file beyond the waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Generic, Self, TypeVar

from gnomon import agent as _async
from gnomon.agent import Prompt, ToolLike
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.provider import Provider
from gnomon.engine.budget import Budget
from gnomon.engine.clock import Clock
from gnomon.engine.run import Run as _AsyncRun
from gnomon.stream import PullStream
from gnomon.stream import Stream as _AsyncStream
from gnomon.types.events import RunEvent, StreamEvent, TextDelta
from gnomon.types.messages import Message
from gnomon.types.requests import Reasoning, Response
from gnomon.types.steps import Turn

__all__ = ["Agent", "Run", "Stream"]

GRACE_S = 5.0
"""How long cancelled work may take to let go of what it holds."""

_T = TypeVar("_T")
_E = TypeVar("_E")


class _Background:
    """An event loop in a thread, started when first needed and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Run the work on the loop; Ctrl-C in the waiting thread cancels it."""
        _refuse_inside_a_loop()
        job = _Job(work, self._running())
        try:
            job.hand_over()
            return job.outcome.result()
        except _ProgramEnded as ended:
            raise ended.cause from None
        except BaseException:
            job.call_back()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="gnomon-sync", daemon=True).start()
                self._loop = loop
            return self._loop

    def forget(self) -> None:
        """A child process has a copy of the loop, but not the thread that runs it."""
        self._lock = threading.Lock()
        self._loop = None


class _Job(Generic[_T]):
    """Work for the loop. It is whole before it is handed over, so it can be called back at any moment."""

    def __init__(self, work: Callable[[], Awaitable[_T]], loop: asyncio.AbstractEventLoop) -> None:
        self.outcome: Future[_T] = Future()
        self._work = work
        self._loop = loop
        self._over = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._unwanted = False

    def hand_over(self) -> None:
        self._loop.call_soon_threadsafe(self._start)

    def call_back(self) -> None:
        """The caller is leaving: end the work, and wait until it has let go of what it holds."""
        if not self.outcome.done():
            self._loop.call_soon_threadsafe(self._end)
            self._over.wait(GRACE_S)

    def _start(self) -> None:
        if not self._unwanted:
            self._task = self._loop.create_task(self._run())
            self._task.add_done_callback(lambda _: self._over.set())

    def _end(self) -> None:
        self._unwanted = True
        if self._task is None:
            self._over.set()
        else:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            self.outcome.set_result(await self._work())
        except (SystemExit, KeyboardInterrupt) as error:
            # Let out as it is, it would end the thread that every other caller waits for.
            self.outcome.set_exception(_ProgramEnded(error))
        except BaseException as error:  # noqa: BLE001 - whatever it was, the caller gets it
            self.outcome.set_exception(error)


class _ProgramEnded(Exception):
    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "gnomon.sync would block the event loop that is running here; "
        "use gnomon.Agent and await it, or call gnomon.sync from another thread"
    )


_background = _Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.forget)


class _Reader(Generic[_E]):
    """A stream of events, read in step with the caller."""

    def __init__(self, events: PullStream[_E]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[_E]:
        return self

    def __next__(self) -> _E:
        try:
            return _background.wait(self._events.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything behind the stream. May be called twice."""
        _background.wait(self._events.aclose)


class Stream(_Reader[StreamEvent]):
    """The events of one response: `Stream(provider.stream(request))`."""

    def __init__(self, stream: _AsyncStream) -> None:
        super().__init__(stream)
        self._stream = stream

    @property
    def response(self) -> Response:
        return self._stream.response


class Run(_Reader[RunEvent]):
    """A running turn. Read its events in order; `turn` is there when they have ended."""

    def __init__(self, run: _AsyncRun) -> None:
        super().__init__(run)
        self._run = run

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def turn(self) -> Turn:
        return self._run.turn

    def text(self) -> Iterator[str]:
        """Only the text, as it comes."""
        return (event.text for event in self if type(event) is TextDelta)


class Agent:
    """`gnomon.Agent`, waited for."""

    def __init__(
        self,
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: str | None = None,
        tools: Sequence[ToolLike] = (),
        budget: Budget | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
    ) -> None:
        self._agent = _async.Agent(
            model,
            name=name,
            instructions=instructions,
            tools=tools,
            budget=budget,
            temperature=temperature,
            max_tokens=max_tokens,
            thinking=thinking,
            settings=settings,
            models=models,
            counter=counter,
            deps=deps,
            clock=clock,
        )

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def provider(self) -> Provider:
        return self._agent.provider

    def run(self, prompt: Prompt, *, messages: Sequence[Message] = ()) -> Turn:
        """The whole turn at once."""
        return _background.wait(lambda: self._agent.run(prompt, messages=messages))

    def stream(self, prompt: Prompt, *, messages: Sequence[Message] = ()) -> Run:
        """The turn as it happens."""
        return Run(self._agent.stream(prompt, messages=messages))

    def close(self) -> None:
        _background.wait(self._agent.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
