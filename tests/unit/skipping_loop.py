"""An event loop whose clock skips the time in which everybody sleeps: hours pass at once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class SkippingLoop(asyncio.SelectorEventLoop):
    """Time stands still while something runs, and jumps to the next timer when nothing does."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1_000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready:
            due = min((timer._when for timer in self._scheduled if not timer._cancelled), default=self._now)
            self._now = max(self._now, due)
        super()._run_once()


def run(test: Coroutine[Any, Any, _T]) -> _T:
    """Run a test on such a loop; it fails when it leaves a task behind."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(_checked(test))


async def _checked(test: Coroutine[Any, Any, _T]) -> _T:
    result = await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"the test left {len(left)} task(s) pending: {left}"
    return result


def now() -> float:
    """The time on the loop that runs."""
    return asyncio.get_running_loop().time()
