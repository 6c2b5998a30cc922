"""Calls that had begun when their runner was lost: what became of them, or who is to say.

Nothing here runs a tool. A call that may run again is cleared, and its start is
recorded anew before it does.
"""

from __future__ import annotations

import logging

from gnomon._begun import is_meant_for_us
from gnomon.engine.patience import Patience
from gnomon.engine.tools import Job, Outcome, ToolRunner
from gnomon.types.events import QuestionAsked, ToolFinished
from gnomon.types.messages import ToolResult

__all__ = ["recovered"]

log = logging.getLogger("gnomon.recovery")


async def recovered(job: Job, runner: ToolRunner, turn_id: str) -> Outcome | None:
    """The outcome of a call that had begun; `None` when it is safe to run it again."""
    if job.refusal is not None or job.tool is None or job.traits is None:
        return _left_open(job, runner, turn_id)
    if job.tool.read_only or job.traits.idempotent:
        return None
    if job.traits.lookup is not None:
        try:
            asking = job.traits.lookup.lookup(runner.key(job.call), job.call.arguments)
            found = await Patience(job.traits.timeout_s).wait_for(asking, job.call.name)
            return None if found is None else await runner.told(job, found)
        except BaseException as error:
            if is_meant_for_us(error):
                raise
            log.exception("the lookup of tool %r failed", job.call.name, extra={"call_id": job.call.id})
    return _left_open(job, runner, turn_id)


def _left_open(job: Job, runner: ToolRunner, turn_id: str) -> Outcome:
    """Nobody can tell: the model is told so, or a person is asked, as the tool declares."""
    name = job.call.name
    if not runner.leaves_open or (job.traits is not None and job.traits.tell_unknown):
        text = f"{name} was interrupted: it is not known whether it had its effect; do not simply repeat it"
        return ToolFinished(turn_id, ToolResult.of(job.call, text, status="unknown"))
    question = f"{name} was interrupted, and it is not known whether it had its effect. What became of it?"
    return QuestionAsked(turn_id, job.call.id, question, unknown=True)
