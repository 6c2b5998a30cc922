"""Functions that are not async, run beside the event loop: tools, and what fetches a token.

Each call gets a thread of its own, at most `LIMIT` at a time. A thread cannot be
killed, so one that outlives its caller is abandoned: its place is given back at
once, and because it is a daemon it never keeps the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["LIMIT", "abandoned", "run_in_thread"]

LIMIT = 32

_T = TypeVar("_T")
_places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
_abandoned: set[threading.Thread] = set()


def abandoned() -> int:
    """How many threads still run for callers who no longer wait."""
    _abandoned.difference_update([thread for thread in tuple(_abandoned) if not thread.is_alive()])
    return len(_abandoned)


async def run_in_thread(
    function: Callable[[], _T], *, name: str = "tool", on_start: Callable[[], None] = lambda: None
) -> _T:
    """What the function returns or raises, without holding up the loop; `on_start` when it has a place."""
    loop = asyncio.get_running_loop()
    async with _places_of(loop):
        on_start()
        outcome: asyncio.Future[_T] = loop.create_future()
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=_work, args=(context, function, loop, outcome), name=f"gnomon-{name}", daemon=True
        )
        thread.start()
        try:
            return await outcome
        finally:
            if not outcome.done() or outcome.cancelled():
                abandoned()  # forget those that have ended since
                _abandoned.add(thread)


def _places_of(loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    if loop not in _places:
        for over in [known for known in tuple(_places) if known.is_closed()]:
            _places.pop(over, None)
        _places[loop] = asyncio.Semaphore(LIMIT)
    return _places[loop]


def _work(
    context: contextvars.Context,
    function: Callable[[], _T],
    loop: asyncio.AbstractEventLoop,
    outcome: asyncio.Future[_T],
) -> None:
    try:
        result = context.run(function)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller gets it
        _tell(loop, outcome, None, error)
    else:
        _tell(loop, outcome, result, None)


def _tell(
    loop: asyncio.AbstractEventLoop,
    outcome: asyncio.Future[_T],
    result: _T | None,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)  # pyright: ignore[reportArgumentType] - None only if _T is None
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            outcome.set_exception(error)
        else:
            # A future does not take StopIteration, and SystemExit in a thread must not end the loop.
            outcome.set_exception(RuntimeError(f"{type(error).__name__} was raised: {error}"))

    with suppress(RuntimeError):  # the loop may be gone by the time an abandoned thread ends
        loop.call_soon_threadsafe(settle)
