"""Run one call: check it, run its tool within its limits, and give it exactly one result.

Whatever happens to a call, it comes to one entry of the ledger: its result, or a
question to a person.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from gnomon._begun import is_meant_for_us
from gnomon.contracts.tool import SupportsProgress, Tool, ToolContext
from gnomon.engine.answer import OUTPUT_TOOL, Answer
from gnomon.engine.capping import capped
from gnomon.engine.clock import Clock, SystemClock
from gnomon.engine.definition import Definition, Traits
from gnomon.engine.hooks import tool_step
from gnomon.engine.ids import idempotency_key, new_id
from gnomon.engine.patience import Late, Patience
from gnomon.engine.permissions import Verdict, always_rule, arguments_hash
from gnomon.engine.reports import Reports
from gnomon.engine.turn import TurnState
from gnomon.errors import AskUser, GnomonError, ToolDenied, ToolError, ToolTimeout
from gnomon.types.codec import encodable
from gnomon.types.events import (
    ApprovalRequested,
    Guarded,
    QuestionAsked,
    ToolFinished,
    ToolIntent,
    ToolProgress,
)
from gnomon.types.messages import Part, Text, ToolCall, ToolResult, ToolStatus, UnknownPart
from gnomon.types.steps import HookEvent

__all__ = ["Job", "Outcome", "ToolRunner", "grouped", "job_of"]

log = logging.getLogger("gnomon.tools")

Outcome = ToolFinished | QuestionAsked


class Job(NamedTuple):
    """A call with the tool it asks for, or with the result it has without being run."""

    call: ToolCall
    tool: Tool | None
    traits: Traits | None
    refusal: ToolResult | None
    asks: Verdict | None = None
    """Why leave is needed that nobody has given or refused."""

    @property
    def runs_alone(self) -> bool:
        return self.tool is not None and not self.tool.read_only


def job_of(
    call: ToolCall,
    agent: Definition,
    extra: Tool | None = None,
    *,
    turn: TurnState | None = None,
    learned: Sequence[str] = (),
) -> Job:
    """What there is to do for a call. `extra` is a tool that the engine itself offers now.

    `turn` knows what leave was given for, `learned` are rules that were saved in the session.
    """
    if call.truncated:
        text = "not run: the arguments were cut off by the output limit; call again with shorter ones"
        return Job(call, None, None, ToolResult.of(call, text, status="truncated"))
    tool = agent.tools.get(call.name)
    if tool is None and extra is not None and extra.name == call.name:
        tool = extra
    if tool is None:
        return Job(call, None, None, _answered(call, agent.answer) or _unknown_tool(call, agent))
    job = Job(call, tool, agent.tools.traits(tool), None)
    verdict = agent.verdict(call, tool, learned) if tool is not extra else None
    asked = turn.requests.get(call.id) if turn is not None else None
    if verdict is not None and verdict.decision == "deny":
        return job._replace(refusal=_refusal(call, verdict))
    if turn is not None and asked is not None:  # whatever the mode is by now
        return _with_leave(job, turn, asked)
    return job if verdict is None or verdict.decision == "run" else job._replace(asks=verdict)


def _with_leave(job: Job, turn: TurnState, asked: ApprovalRequested) -> Job:
    """A call that leave was asked for: given for just these arguments, refused, or not decided yet."""
    call, decided = job.call, turn.decisions.get(asked.approval_id)
    if decided is None:
        return job._replace(asks=Verdict("ask", asked.reason))
    if decided.decision == "expired":
        return job._replace(refusal=_denied(call, "nobody gave leave in time"))
    if decided.decision == "denied":
        why = f": {decided.reason}" if decided.reason else ""
        return job._replace(refusal=_denied(call, f"leave was refused{why}"))
    if asked.arguments_hash != arguments_hash(call.name, call.arguments):
        return job._replace(refusal=_denied(call, "leave was given for other arguments"))
    return job


def _refusal(call: ToolCall, verdict: Verdict) -> ToolResult:
    if verdict.is_by_tool:
        return ToolResult.of(call, encodable(verdict.reason), status="error")
    return _denied(call, verdict.reason)


def _denied(call: ToolCall, why: str) -> ToolResult:
    return ToolResult.of(call, f"not run: {why}", status="denied")


def _answered(call: ToolCall, answer: Answer | None) -> ToolResult | None:
    wanted = answer is not None and answer.mode == "tool" and call.name == OUTPUT_TOOL
    return answer.result(call) if answer is not None and wanted else None


def _unknown_tool(call: ToolCall, agent: Definition) -> ToolResult:
    known = ", ".join(agent.tools.names) or "none"
    text = f"there is no tool called {call.name!r}; the tools are: {known}"
    return ToolResult.of(call, text, status="error")


def grouped(jobs: Sequence[Job]) -> list[Job]:
    """The first that go together: calls without side effects up to the first with one, or that one alone.

    What waits for leave is not passed by.
    """
    if jobs[0].runs_alone and jobs[0].refusal is None:
        return [jobs[0]]
    group: list[Job] = []
    for job in jobs:
        if job.asks is not None or (job.runs_alone and job.refusal is None):
            break
        group.append(job)
    return group


class ToolRunner:
    """Runs the calls of one message."""

    def __init__(
        self,
        agent: Definition,
        session_id: str,
        turn_id: str,
        message_id: str,
        parallel: asyncio.Semaphore,
        *,
        can_ask: bool = True,
        leaves_open: bool = True,
        clock: Clock | None = None,
        note: Callable[[Guarded], None] | None = None,
        learned: Sequence[str] = (),
        user_id: str = "",
    ) -> None:
        self._agent = agent
        self._session_id = session_id
        self._user_id = user_id
        self._turn_id = turn_id
        self._message_id = message_id
        self._places = parallel
        self.can_ask = can_ask
        self.leaves_open = leaves_open
        """Whether a person is asked what became of a call, where nobody else can tell."""
        self._clock = clock or SystemClock()
        self._learned = learned
        self._note = note
        """Where it is told what a guardrail had against a result."""

    def key(self, call: ToolCall) -> str:
        return idempotency_key(self._session_id, self._turn_id, self._message_id, call.id)

    def request(self, job: Job, verdict: Verdict) -> ApprovalRequested:
        """What a person is asked before the call runs."""
        rule = always_rule(job.call)
        return ApprovalRequested(
            self._turn_id,
            new_id("apr"),
            job.call,
            arguments_hash(job.call.name, job.call.arguments),
            self._deadline(),
            reason=verdict.reason,
            rule="" if rule is None else str(rule),
        )

    def _deadline(self) -> datetime | None:
        """Until when a person is waited for."""
        limit_s = self._agent.approval_timeout_s
        return None if limit_s is None else self._clock.now() + timedelta(seconds=limit_s)

    def _question(self, call: ToolCall, asked: AskUser) -> QuestionAsked:
        return QuestionAsked(
            self._turn_id,
            call.id,
            encodable(asked.message),
            tuple(map(encodable, asked.options)),
            multiple=asked.multiple,
            question_id=new_id("qst"),
            expires_at=self._deadline(),
        )

    def intent(self, job: Job) -> ToolIntent | None:
        """What is recorded before a tool with side effects starts."""
        if job.refusal is not None or not job.runs_alone:
            return None
        return ToolIntent(self._turn_id, job.call.id, job.call.name, self.key(job.call))

    async def finish(
        self, job: Job, attempt: int = 1, report: Callable[[ToolProgress], None] | None = None
    ) -> Outcome:
        """What the call comes to."""
        if job.refusal is not None:
            return ToolFinished(self._turn_id, job.refusal)
        async with self._places:
            started = time.monotonic()
            outcome = await self._stepped(job, attempt, report)
            if isinstance(outcome, QuestionAsked):
                return outcome
            return self.finished(job, await self._guarded(outcome), time.monotonic() - started)

    async def told(self, job: Job, result: ToolResult, *, by_person: bool = False) -> ToolFinished:
        """A result that came about elsewhere, as far as it may be known here."""
        result = checked_result(job.call, result)
        return self.finished(job, await self._guarded(result, by_person=by_person))

    async def _guarded(self, result: ToolResult, *, by_person: bool = False) -> ToolResult:
        """What guardrails let pass of a result; of what a person says, those of the input as well."""
        guards = self._agent.guards
        if guards is None or not (guards.answers if by_person else guards.results):
            return result
        passed, against = await guards.result(self._turn_id, result, by_person=by_person)
        if self._note is not None:
            for each in against:
                self._note(each)
        return passed

    async def _stepped(
        self, job: Job, attempt: int, report: Callable[[ToolProgress], None] | None
    ) -> ToolResult | QuestionAsked:
        """What the call comes to, with the agent's hooks around it."""
        hooks = self._agent.hooks
        if hooks is None:
            return await self._outcome(job, attempt, report)

        async def run(call: ToolCall) -> ToolResult | QuestionAsked:
            return await self._outcome(self._rewritten(job, call), attempt, report)

        event = HookEvent(
            kind="tool",
            name=job.call.name,
            session_id=self._session_id,
            user_id=self._user_id,
            turn_id=self._turn_id,
            attempt=attempt,
            tool_call=job.call,
            started_at=self._clock.now(),
        )
        try:
            outcome = await tool_step(hooks, self._agent.around, event, run, self._clock)
        except GnomonError as error:
            log.warning("a hook broke the call %s of %r: %s", job.call.id, job.call.name, error)
            return ToolResult.of(job.call, f"not done: {encodable(error.summary)}", status="error")
        except Exception:
            log.exception("a hook broke the call %s of %r", job.call.id, job.call.name)
            return ToolResult.of(job.call, "not done: internal error in a hook", status="error")
        return outcome if isinstance(outcome, QuestionAsked) else checked_result(job.call, outcome)

    def _rewritten(self, job: Job, call: ToolCall) -> Job:
        """The job with the arguments that a hook left, which are asked about anew."""
        if call.arguments == job.call.arguments:
            return job
        same = msgspec.structs.replace(job.call, arguments=call.arguments)
        changed = job_of(same, self._agent, learned=self._learned)
        if changed.asks is not None:
            changed = changed._replace(
                refusal=_denied(same, "a hook changed the arguments, and nobody gave leave for these")
            )
        return changed

    def finished(self, job: Job, result: ToolResult, duration_s: float = 0.0) -> ToolFinished:
        """The result, as long as a model may be shown it."""
        limit = job.traits.output_chars if job.traits is not None else len(result.text)
        shown, full = capped(result, limit)
        return ToolFinished(self._turn_id, shown, duration_s, full)

    async def _outcome(
        self, job: Job, attempt: int, report: Callable[[ToolProgress], None] | None
    ) -> ToolResult | QuestionAsked:
        """The result of the tool, or one that says what went wrong with it."""
        call = job.call
        if job.refusal is not None:  # of arguments that a hook has put in
            return job.refusal
        try:
            return checked_result(call, await self._execute(job, attempt, report))
        except AskUser as asked:
            question = self._question(call, asked)
            if self.can_ask:
                return question
            text = f"nobody can be asked here, and this would have been the question: {question.question}"
            return ToolResult.of(call, text, status="error")
        except ToolError as error:
            return ToolResult.of(call, encodable(str(error)), status=_status(error))
        except BaseException as error:  # also `sys.exit`: whatever it was, it is logged
            if is_meant_for_us(error):
                raise
            return _failed(call)

    async def _execute(
        self, job: Job, attempt: int, report: Callable[[ToolProgress], None] | None
    ) -> ToolResult:
        call, tool, traits = job.call, job.tool, job.traits
        assert tool is not None
        assert traits is not None
        patience = Patience(traits.timeout_s)
        context: ToolContext = ToolContext(
            call_id=call.id,
            session_id=self._session_id,
            turn_id=self._turn_id,
            user_id=self._user_id,
            idempotency_key=self.key(call),
            attempt=attempt,
            deps=self._agent.deps,
            is_cancelled=lambda: patience.is_over,
            run_timer=patience.run_timer,
        )
        if traits.progress is not None and report is not None:
            work = self._streamed(traits.progress, call, context, report, patience)
        else:
            work = tool.execute(call.arguments, context)
        try:
            return await patience.wait_for(work, call.name)
        except Late:
            limit = f"{traits.timeout_s:g} seconds"
            raise ToolTimeout(f"{call.name} did not finish within {limit}") from None

    async def _streamed(
        self,
        tool: SupportsProgress,
        call: ToolCall,
        context: ToolContext,
        report: Callable[[ToolProgress], None],
        patience: Patience,
    ) -> ToolResult:
        reports = self._reports(call)
        async with aclosing(tool.execute_stream(call.arguments, context)) as events:
            async for event in events:
                if isinstance(event, ToolResult):
                    return event
                shown = event.content
                if reports is not None and not context.cancelled:
                    with patience.held():
                        shown = await reports.passed(shown)
                if shown is not None and not context.cancelled:
                    report(ToolProgress(self._turn_id, call.id, shown))
        raise TypeError(f"tool {call.name!r} ended without a result")

    def _reports(self, call: ToolCall) -> Reports | None:
        """Who looks at what the call reports. What is stopped stops the turn once the call has ended."""
        guards = self._agent.guards
        if guards is None or not guards.results:
            return None
        return Reports(guards.results, self._turn_id, call.id, self._note)


def _status(error: ToolError) -> ToolStatus:
    if isinstance(error, ToolDenied):
        return "denied"
    return "timeout" if isinstance(error, ToolTimeout) else "error"


def _failed(call: ToolCall) -> ToolResult:
    """A bug in the tool: the model learns that it failed, the owner learns why."""
    log.exception("tool %r failed", call.name, extra={"call_id": call.id})
    return ToolResult.of(call, f"{call.name} failed: internal error in the tool", status="error")


def checked_result(call: ToolCall, result: object) -> ToolResult:
    """A tool's answer, under the id of the call it answers, in text that can be written down."""
    if not isinstance(result, ToolResult):
        raise TypeError(f"tool {call.name!r} returned {type(result).__name__}, not a ToolResult")
    content = tuple(_encodable_part(part) for part in result.content)
    if (result.call_id, result.name, result.content) == (call.id, call.name, content):
        return result
    return msgspec.structs.replace(result, call_id=call.id, name=call.name, content=content)


def _encodable_part(part: Part) -> Part:
    if not isinstance(part, UnknownPart) and part.meta:
        msgspec.json.encode(part.meta)  # what cannot be written down is an error of the tool's
    if isinstance(part, Text) and (text := encodable(part.text)) is not part.text:
        return Text(text, part.meta)
    return part
