"""The calls of one message: which go together, what is written before they start, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from gnomon.contracts.tool import Tool
from gnomon.engine.budget import Budget
from gnomon.engine.capping import READ_OUTPUT, READ_OUTPUT_DEF, ReadOutput
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.interrupt import Interrupt
from gnomon.engine.journal import Journal
from gnomon.engine.live import Channel
from gnomon.engine.recovery import recovered
from gnomon.engine.subagents import (
    MAX_DEPTH,
    MAX_RUNNING,
    TOO_DEEP,
    Family,
    Subagents,
    child_id,
    outcome,
    share_of,
)
from gnomon.engine.tools import Job, Outcome, ToolRunner, grouped, job_of
from gnomon.engine.turn import TurnState
from gnomon.errors import ToolError, ToolFailed
from gnomon.types.events import Guarded, LedgerEntry, SubagentStarted, ToolProgress
from gnomon.types.messages import ToolDef, ToolResult

__all__ = ["PARALLEL", "Batch", "Calls", "is_suspended"]

PARALLEL = 8
"""How many read-only calls of one message run at a time."""


class Batch(NamedTuple):
    """What to write, and which calls to see to once it stands."""

    entries: Sequence[LedgerEntry]
    jobs: Sequence[Job]
    kind: Literal["settle", "answer", "run", "spawn", "collect"]

    @property
    def acts(self) -> bool:
        """Whether it has an effect that nobody may walk away from."""
        return self.kind == "run" and any(job.runs_alone and job.refusal is None for job in self.jobs)


class Calls:
    """Sees to the open calls of a turn, one batch after another."""

    def __init__(
        self,
        agent: Definition,
        journal: Journal,
        interrupt: Interrupt,
        channel: Channel,
        clock: Clock,
        *,
        family: Family | None = None,
        budget: Budget | None = None,
        seconds_left: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._agent = agent
        self._seconds_left = seconds_left
        self._clock = clock
        self._family = family
        self._budget = budget or agent.budget
        self._ensured: set[str] = set()
        """The sub-agents that are known to be at work."""
        self._guarded: list[Guarded] = []
        """What guardrails had against results."""
        self._journal = journal
        self._interrupt = interrupt
        self._channel = channel
        self._places = asyncio.Semaphore(PARALLEL)
        self._reader = ReadOutput(journal.full_output)
        self._begun: frozenset[str] = frozenset()
        self._begun_in = ""
        self._cleared: set[str] = set()
        self._running: dict[str, asyncio.Task[Outcome]] = {}
        self._progress: list[ToolProgress] = []
        self._news = asyncio.Event()
        self._facts: list[LedgerEntry] = []

    @property
    def is_under_way(self) -> bool:
        """Whether calls run beside one another, of which some may have ended."""
        return bool(self._running)

    @property
    def ended(self) -> frozenset[str]:
        """Those that have ended, and were not collected yet."""
        return frozenset(call_id for call_id, task in self._running.items() if task.done())

    @property
    def extra_tools(self) -> tuple[ToolDef, ...]:
        """What the engine itself offers now: once a result was cut, a tool to read it."""
        wanted = self._journal.fold.cut and self._agent.tools.get(READ_OUTPUT) is None
        return (READ_OUTPUT_DEF,) if wanted else ()

    def begin(self, begun: frozenset[str], message_id: str) -> None:
        """Those calls of that message began under another runner, which was lost before they ended.

        The message is told too: some servers name the first call of every answer alike.
        """
        self._begun, self._begun_in = begun, message_id
        self._cleared.clear()

    def next(self, turn: TurnState) -> Batch:
        """The calls that come first among those that are open. Nothing changes by asking."""
        runner, jobs = self._runner(turn), self._jobs(turn)
        unsettled = [job for job in jobs if self._is_unsettled(job, turn)]
        if unsettled:
            return Batch((), unsettled, "settle")
        answered = [job for job in jobs if self._is_answered(job, turn)]
        if answered and self._agent.guards is not None and self._agent.guards.answers:
            return Batch((), answered, "collect")
        if answered:
            return Batch([self._answer(runner, job, turn) for job in answered], answered, "answer")
        if jobs[0].asks is not None and jobs[0].call.id not in turn.requests:
            asking = [(job, job.asks) for job in jobs if job.asks and job.call.id not in turn.requests]
            return Batch([runner.request(job, why) for job, why in asking], (), "answer")
        ended = [job for job in jobs if turn.finished_of(job.call.id) is not None]
        if ended:
            return Batch((), ended, "collect")
        if isinstance(jobs[0].tool, Subagents) and jobs[0].refusal is None:
            return self._spawning(turn, runner, jobs)
        group = [
            job for job in grouped(jobs) if job.call.id not in turn.questions or self._runs_again(job, turn)
        ]
        intents = [runner.intent(job) for job in group if job.call.id not in self._running]
        return Batch([intent for intent in intents if intent is not None], group, "run")

    def _jobs(self, turn: TurnState) -> list[Job]:
        extra = self._reader if self._journal.fold.cut else None
        learned = self._journal.fold.rules
        depth = self._family.depth if self._family is not None else MAX_DEPTH
        return _jobs(turn, self._agent, learned, extra, depth)

    def _spawning(self, turn: TurnState, runner: ToolRunner, jobs: Sequence[Job]) -> Batch:
        """The sub-agents to be started now: calls that stand together, and no more than there is room for."""
        lead = _spawnable(jobs)
        room = MAX_RUNNING - len(turn.running_subagents)
        new = [job for job in lead if job.call.id not in turn.subagents][: max(room, 0)]
        known = [job for job in lead if self._is_unensured(job, turn)]
        return Batch([self._started(turn, runner, job) for job in new], [*known, *new], "spawn")

    def _is_unensured(self, job: Job, turn: TurnState) -> bool:
        started = turn.subagents.get(job.call.id)
        return started is not None and started.session_id not in self._ensured

    def _started(self, turn: TurnState, runner: ToolRunner, job: Job) -> SubagentStarted:
        assert isinstance(job.tool, Subagents)
        session_id = child_id(runner.key(job.call))
        name = job.tool.task(job.call.arguments).agent.name
        return SubagentStarted(turn.id, session_id, session_id, name, job.call.id)

    async def _spawn(self, turn: TurnState, jobs: Sequence[Job]) -> None:
        assert self._family is not None
        for job in jobs:
            assert isinstance(job.tool, Subagents)
            started, task = turn.subagents[job.call.id], job.tool.task(job.call.arguments)
            count, seconds = len(turn.running_subagents), self._seconds_left()
            share = share_of(self._budget, task.agent.budget, turn, count, seconds)
            await self._family.start(started, task, share)
            self._ensured.add(started.session_id)

    async def _collect_ended(self, turn: TurnState, runner: ToolRunner, jobs: Sequence[Job]) -> None:
        for job in jobs:
            finished = turn.finished_of(job.call.id)
            result = _answered(job, turn) if finished is None else outcome(job.call, finished)
            self._facts.append(await runner.told(job, result, by_person=finished is None))

    def _runner(self, turn: TurnState) -> ToolRunner:
        journal = self._journal
        # A run that nobody else can see cannot wait for anybody either.
        return ToolRunner(
            self._agent,
            journal.session_id,
            turn.id,
            _message_of(turn),
            self._places,
            can_ask=journal.is_shared,
            leaves_open=journal.is_shared and (self._family is None or self._family.depth == 0),
            clock=self._clock,
            note=self._guarded.append,
            learned=journal.fold.rules,
            user_id=journal.user_id,
        )

    def _is_unsettled(self, job: Job, turn: TurnState) -> bool:
        call_id = job.call.id
        return self._has_begun(job, turn) and call_id not in self._cleared and call_id not in turn.questions

    def _has_begun(self, job: Job, turn: TurnState) -> bool:
        return job.call.id in self._begun and _message_of(turn) == self._begun_in

    def _is_answered(self, job: Job, turn: TurnState) -> bool:
        answer = turn.answers.get(job.call.id)
        return answer is not None and not answer.run_again

    def _runs_again(self, job: Job, turn: TurnState) -> bool:
        answer = turn.answers.get(job.call.id)
        return answer is not None and answer.run_again

    def _answer(self, runner: ToolRunner, job: Job, turn: TurnState) -> LedgerEntry:
        return runner.finished(job, _answered(job, turn))

    # --- doing it

    async def run(self, turn: TurnState, batch: Batch) -> AsyncGenerator[ToolProgress, None]:
        """See to the batch; `taken` gives afterwards what it came to."""
        runner = self._runner(turn)
        if batch.kind == "settle":
            await self._settle(turn, runner, batch.jobs)
        elif batch.kind == "spawn":
            await self._interrupt.wait(self._spawn(turn, batch.jobs))
        elif batch.kind == "collect":
            await self._interrupt.wait(self._collect_ended(turn, runner, batch.jobs))
        elif len(batch.jobs) == 1 and not self._streams(batch.jobs[0]) and not self._running:
            job = batch.jobs[0]
            self._facts = [await self._interrupt.wait(runner.finish(job, self._attempt(job, turn)))]
        else:
            self._start(turn, runner, batch.jobs)
            while not self._running[batch.jobs[0].call.id].done():
                await self._interrupt.wait(self._news.wait())
                self._news.clear()
                for progress in self._reported():
                    yield progress
            for progress in self._reported():
                yield progress
            self._collect(batch.jobs)

    async def _settle(self, turn: TurnState, runner: ToolRunner, jobs: Sequence[Job]) -> None:
        for job in jobs:
            outcome = await self._interrupt.wait(recovered(job, runner, turn.id))
            if outcome is None:
                self._cleared.add(job.call.id)
            else:
                self._facts.append(outcome)

    def _start(self, turn: TurnState, runner: ToolRunner, jobs: Sequence[Job]) -> None:
        if self._channel.current is None and any(self._streams(job) for job in jobs):
            self._channel.begin(turn.id, _message_of(turn), (0, 0), self._journal.fold.seq)
        for job in jobs:
            if job.call.id not in self._running:
                work = runner.finish(job, self._attempt(job, turn), self._report)
                task = self._running[job.call.id] = asyncio.create_task(work)
                task.add_done_callback(lambda _: self._news.set())

    def _collect(self, jobs: Sequence[Job]) -> None:
        """What has ended, in the order of the calls, as far as there is no gap."""
        for job in jobs:
            task = self._running[job.call.id]
            if not task.done():
                return
            del self._running[job.call.id]
            self._facts.append(task.result())
        self._channel.end()

    def _attempt(self, job: Job, turn: TurnState) -> int:
        again = self._has_begun(job, turn) or job.call.id in turn.questions
        return 2 if again else 1

    def _streams(self, job: Job) -> bool:
        return job.refusal is None and job.traits is not None and job.traits.progress is not None

    def _report(self, progress: ToolProgress) -> None:
        self._progress.append(progress)
        if self._channel.current is not None:
            self._channel.put(progress)
        self._news.set()

    def _reported(self) -> list[ToolProgress]:
        reported, self._progress = self._progress, []
        return reported

    def taken(self) -> list[LedgerEntry]:
        """What the last batch came to; once."""
        facts, self._facts = [*self._guarded, *self._facts], []
        self._guarded.clear()
        return facts

    async def stop(self) -> None:
        """The turn is being ended: what has ended by now counts, the rest is cancelled."""
        done = [task for task in self._running.values() if task.done() and not task.cancelled()]
        self._facts += [task.result() for task in done if task.exception() is None]
        await self.end()

    async def end(self) -> None:
        """Nothing outlives the runner, also when the end itself is hurried."""
        hurried: asyncio.CancelledError | None = None
        tasks, self._running = tuple(self._running.values()), {}
        while running := [task for task in tasks if not task.done()]:
            for task in running:
                task.cancel()
            try:
                await asyncio.wait(running)
            except asyncio.CancelledError as error:
                hurried = error
        if hurried is not None:
            raise hurried


def _answered(job: Job, turn: TurnState) -> ToolResult:
    """What a person answered for the call; or that nobody did."""
    answer = turn.answers[job.call.id]
    if answer.expired:
        return ToolResult.of(job.call, "nobody answered in time", status="timeout")
    return ToolResult.of(job.call, *answer.content)


def _jobs(
    turn: TurnState, agent: Definition, learned: Sequence[str], extra: Tool | None = None, depth: int = 0
) -> list[Job]:
    """What there is to do for each open call."""
    jobs = [job_of(call, agent, extra, turn=turn, learned=learned) for call in turn.open_calls]
    return [_checked_task(job, depth) if isinstance(job.tool, Subagents) else job for job in jobs]


def _checked_task(job: Job, depth: int) -> Job:
    """A call that a sub-agent sees to, unless there can be none."""
    assert isinstance(job.tool, Subagents)
    if job.refusal is not None:
        return job
    try:
        if depth >= MAX_DEPTH:
            raise ToolFailed(f"{TOO_DEEP}: do it yourself")
        job.tool.task(job.call.arguments)
    except ToolError as error:
        return job._replace(refusal=ToolResult.of(job.call, str(error), status="error"))
    return job


def _spawnable(jobs: Sequence[Job]) -> list[Job]:
    """The calls at the front that sub-agents see to, as far as they may."""
    return list(
        takewhile(
            lambda job: isinstance(job.tool, Subagents) and job.refusal is None and job.asks is None, jobs
        )
    )


def is_suspended(turn: TurnState, agent: Definition, learned: Sequence[str] = ()) -> bool:
    """Whether nothing can be done before a sub-agent has ended."""
    calls, running = turn.open_calls, turn.running_subagents
    if not running or not calls or calls[0].id not in turn.subagents:
        return False
    if any(turn.finished_of(call.id) is not None for call in calls):
        return False
    lead = _spawnable(_jobs(turn, agent, learned))
    return len(running) >= MAX_RUNNING or all(job.call.id in turn.subagents for job in lead)


def _message_of(turn: TurnState) -> str:
    """The message that makes the open calls."""
    return turn.completed.message_id if turn.completed is not None else ""
