"""Calls that had begun when their runner was lost: what became of them, or who is to say.

Nothing here runs a tool. A call that may run again is cleared, and its start is
recorded anew before it does.
"""

from __future__ import annotations

import asyncio
import logging

from gnomon.contracts.tool import SupportsLookup
from gnomon.engine.tools import Job, Outcome, ToolRunner, checked_result
from gnomon.errors import ToolFailed, ToolTimeout
from gnomon.types.events import QuestionAsked, ToolFinished
from gnomon.types.messages import ToolResult

__all__ = ["recovered"]

log = logging.getLogger("gnomon.recovery")

_LET_GO_S = 1.0
"""How long a lookup that is given up may take to let go of what it holds."""


async def recovered(job: Job, runner: ToolRunner, turn_id: str) -> Outcome | None:
    """The outcome of a call that had begun; `None` when it is safe to run it again."""
    if job.refusal is not None or job.tool is None or job.traits is None:
        return _left_open(job, turn_id)
    if job.tool.read_only or job.traits.idempotent:
        return None
    if job.traits.lookup is not None:
        try:
            found = await _looked_up(job.traits.lookup, runner.key(job.call), job)
            return None if found is None else runner.finished(job, checked_result(job.call, found))
        except Exception:
            log.exception("the lookup of tool %r failed", job.call.name, extra={"call_id": job.call.id})
    return _left_open(job, turn_id)


async def _looked_up(tool: SupportsLookup, key: str, job: Job) -> ToolResult | None:
    """What the tool finds within its time. In a task of its own: what it cancels or ends is itself."""
    assert job.traits is not None
    asking = asyncio.ensure_future(_asked(tool, key, job.call.arguments))
    try:
        done, _ = await asyncio.wait({asking}, timeout=job.traits.timeout_s)
    finally:
        asking.cancel()
    if not done:
        await asyncio.wait({asking}, timeout=_LET_GO_S)
        raise ToolTimeout(f"the lookup did not answer within {job.traits.timeout_s:g} seconds")
    if asking.cancelled():
        raise ToolFailed("the lookup was cancelled")
    return asking.result()


async def _asked(tool: SupportsLookup, key: str, arguments: str) -> ToolResult | None:
    try:
        return await tool.lookup(key, arguments)
    except SystemExit as error:  # let out of a task, it would end the loop
        raise ToolFailed(f"the lookup ended with {error!r}") from error


def _left_open(job: Job, turn_id: str) -> Outcome:
    """Nobody can tell: the model is told so, or a person is asked, as the tool declares."""
    name = job.call.name
    if job.traits is not None and job.traits.tell_unknown:
        text = f"{name} was interrupted: it is not known whether it had its effect; do not simply repeat it"
        return ToolFinished(turn_id, ToolResult.of(job.call, text, status="unknown"))
    question = f"{name} was interrupted, and it is not known whether it had its effect. What became of it?"
    return QuestionAsked(turn_id, job.call.id, question, unknown=True)
