"""What the parts of the suite of `Tool` share: what the owner of a tool fills in, and how one is called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import ClassVar

from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import GnomonError
from gnomon.testing._suite import Contract, expect, skip
from gnomon.types.messages import ToolResult

__all__ = [
    "ROUNDS",
    "Asked",
    "ToolSuite",
    "call",
    "cut_off",
    "ended_after",
    "error_of",
    "expect_answer",
    "refusal_of",
]

ROUNDS = (0, 1, 2, 3, 5, 8, 13, 21)
"""After how many turns of the loop a call is cancelled."""


_THREAD_ENDS_S = 0.05
"""By when a thread that nobody waits for has done what it was about to do."""


class ToolSuite(Contract[Tool]):
    """What a tool's owner tells of it. `open` and `arguments` must be filled in; more is seen with more."""

    arguments: ClassVar[str] = "{}"
    """The JSON text of a call that comes to a result."""

    answer: ClassVar[str | None] = None
    """The text of that result; `None` when nobody can say."""

    repeatable: ClassVar[bool] = True
    """Whether the same call has the same result each time. Say `False` for a clock."""

    invalid: ClassVar[Mapping[str, str]] = {}
    """Argument texts that do not fit, each with a word that the refusal must say: the field, as a rule."""

    failing: ClassVar[str | None] = None
    """The JSON text of a call that the tool cannot serve."""

    slow: ClassVar[str | None] = None
    """The JSON text of a call that takes from one to ten seconds, unless it is ended before."""

    deps: ClassVar[object] = None
    """What the owner of an agent gives its tools."""

    def effects(self) -> int | None:
        """How many effects the tool that was opened last has had; `None` when nobody counts them."""
        return None

    def steps(self) -> int | None:
        """How far the tool that was opened last has come with its work; `None` when nobody counts."""
        return None

    def blind(self) -> bool:
        """Make the tool that was opened last unable to tell what became of a call; whether it could."""
        return False

    def counted(self) -> int:
        """The effects so far; the check is skipped when nobody counts them."""
        found = self.effects()
        return skip(self, "effects that can be counted") if found is None else found

    def effects_so_far(self) -> int:
        """The effects so far, none when nobody counts them."""
        return self.effects() or 0


class Asked(ToolContext):
    """The context of a call, which remembers what the tool did with it."""

    __slots__ = ("is_over", "timers")

    def __init__(self, suite: ToolSuite, call_id: str = "call_1", *, key: str = "", attempt: int = 1) -> None:
        self.is_over = False
        self.timers: list[tuple[bool, int]] = []
        super().__init__(
            call_id=call_id,
            session_id="session_1",
            turn_id="turn_1",
            idempotency_key=key or f"key of {call_id}",
            attempt=attempt,
            deps=suite.deps,
            is_cancelled=lambda: self.is_over,
            run_timer=lambda running: self.timers.append((running, threading.get_ident())),
        )


async def call(
    suite: ToolSuite, tool: Tool, call_id: str = "call_1", *, key: str = "", attempt: int = 1
) -> ToolResult:
    """What the call that works comes to."""
    return await tool.execute(suite.arguments, Asked(suite, call_id, key=key, attempt=attempt))


async def error_of(suite: ToolSuite, tool: Tool, arguments: str) -> Exception | None:
    """What the call raises; `None` when it comes to a result."""
    try:
        await tool.execute(arguments, Asked(suite))
    except Exception as error:  # noqa: BLE001 - which one it is, is what the check asks
        return error
    return None


def refusal_of(what: str, error: Exception | None, kind: type[GnomonError]) -> str:
    """What the model is told; a failure of the check when it is another error, or none."""
    if not isinstance(error, kind):
        found = "a result" if error is None else repr(error)
        raise AssertionError(f"{what}: expected {kind.__name__}, found {_short(found)}") from error
    return str(error)


def expect_answer(suite: ToolSuite, what: str, result: ToolResult) -> None:
    """The result of the call that works, and not one that says what went wrong."""
    expect(f"{what}, its status", "ok", result.status)
    if suite.answer is not None:
        expect(f"{what}, its text", suite.answer, result.text)


async def ended_after(running: asyncio.Task[object], rounds: int) -> str:
    """How a call ended that was cancelled after so many turns; one that was faster is as good as that."""
    for _ in range(rounds):
        await asyncio.sleep(0)
    was_over = running.done()
    running.cancel()
    await asyncio.wait({running})
    if running.cancelled():
        return "CancelledError"
    error = running.exception()
    if error is not None:
        return repr(error)
    return "CancelledError" if was_over else "a result, as if it had not been cancelled"


async def cut_off(suite: ToolSuite, tool: Tool, rounds: int) -> None:
    """A call under the key "one" that ends in the middle, as in a crash: no thread of it works on."""
    await ended_after(asyncio.ensure_future(call(suite, tool, key="one")), rounds)
    await asyncio.sleep(_THREAD_ENDS_S)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
