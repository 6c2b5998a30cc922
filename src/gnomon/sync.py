"""The same `Agent`, and its sessions, for code without an event loop.

One event loop runs in one thread of its own; a call here is handed to it and
waited for. There is no logic in this file beyond the waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast, overload

from gnomon import agent as _async
from gnomon.agent import OutputMode, Prompt, ToolLike
from gnomon.contracts.compactor import Compactor
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.guardrail import Guardrail
from gnomon.contracts.hook import Hook
from gnomon.contracts.provider import Provider
from gnomon.contracts.sandbox import Sandbox
from gnomon.contracts.session import Input, OnLeave, WhenBusy
from gnomon.contracts.storage import Storage
from gnomon.contracts.tool import Tool
from gnomon.engine.budget import Budget
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition, OnChange, Permissions
from gnomon.engine.instructions import Instructions, Source
from gnomon.engine.permissions import Rule
from gnomon.engine.run import Run as _AsyncRun
from gnomon.session._reader import Reader as _AsyncReader
from gnomon.session.local import LocalSession
from gnomon.session.subagent import LocalSubagent
from gnomon.stream import PullStream
from gnomon.stream import Stream as _AsyncStream
from gnomon.types.events import ApprovalRequested, Compacted, RunEvent, SessionEvent, StreamEvent
from gnomon.types.forks import ForkPlan
from gnomon.types.messages import Content, Message
from gnomon.types.requests import Reasoning, Response
from gnomon.types.steps import CancelMode, Out, SessionStatus, SubagentResult, Turn

if TYPE_CHECKING:
    from gnomon.memory import Memory
    from gnomon.tools.workspace import Workspace
    from gnomon.tracing.exporter import Tracing

__all__ = ["Agent", "Reader", "Run", "Session", "Stream", "Subagent"]

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


class _Pulled(Generic[_E]):
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


class Stream(_Pulled[StreamEvent]):
    """The events of one response: `Stream(provider.stream(request))`."""

    def __init__(self, stream: _AsyncStream) -> None:
        super().__init__(stream)
        self._stream = stream

    @property
    def response(self) -> Response:
        return self._stream.response


class Run(_Pulled[RunEvent], Generic[Out]):
    """A running turn. Read its events in order; `turn` is there when they have ended."""

    def __init__(self, run: _AsyncRun[Out]) -> None:
        super().__init__(run)
        self._run = run

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def session_id(self) -> str:
        return self._run.session_id

    @property
    def turn(self) -> Turn[Out]:
        return self._run.turn

    def text(self) -> Iterator[str]:
        """Only the text, as it comes."""
        return _each(self._run.text())

    def partials(self) -> Iterator[object]:
        """The output so far, as plain data, each time there is more of it."""
        return _each(self._run.partials())


class Reader(_Pulled[SessionEvent]):
    """A stream of a session's events that knows its place."""

    def __init__(self, reader: _AsyncReader) -> None:
        super().__init__(reader)
        self._reader = reader

    @property
    def position(self) -> int:
        """The seq up to which everything was read."""
        return self._reader.position

    @property
    def at(self) -> datetime | None:
        """When the last event of the ledger was written."""
        return self._reader.at


def _each(values: AsyncGenerator[_T, None]) -> Iterator[_T]:
    while True:
        try:
            value = _background.wait(values.__anext__)
        except StopAsyncIteration:
            return
        yield value


class Subagent:
    """A sub-agent of `Session.subagents`, waited for."""

    def __init__(self, subagent: LocalSubagent) -> None:
        self._subagent = subagent

    @property
    def id(self) -> str:
        """That of its session."""
        return self._subagent.id

    @property
    def name(self) -> str:
        """That of the agent who works there."""
        return self._subagent.name

    @property
    def call_id(self) -> str:
        """The call that it sees to."""
        return self._subagent.call_id

    @property
    def status(self) -> SessionStatus:
        """How it stands, as far as it was read here; `refresh` reads on."""
        return self._subagent.status

    def refresh(self) -> SessionStatus:
        """How it stands now."""
        return _background.wait(self._subagent.refresh)

    def events(self, after: int = 0) -> Reader:
        """What happened after that place, and then what happens."""
        return Reader(self._subagent.events(after))

    def send(self, input: Input) -> str:
        """Tell it more while it works: its turn takes it in. `Conflict` when it has ended."""
        return _background.wait(lambda: self._subagent.send(input))

    def wait(self) -> SubagentResult:
        """What it came to, when it has ended. One whose runner died is gone on with."""
        return _background.wait(self._subagent.wait)

    def cancel(self) -> None:
        """End what it does: whoever asked for it is told so, and goes on. Nothing when it has ended."""
        _background.wait(self._subagent.cancel)


class Session(Generic[Out]):
    """A conversation of `Agent.session`, waited for."""

    def __init__(self, session: LocalSession[Out]) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def status(self) -> SessionStatus:
        """How it stands, as far as it was read here; `refresh` reads on."""
        return self._session.status

    def refresh(self) -> SessionStatus:
        """How it stands now."""
        return _background.wait(self._session.refresh)

    def is_attended(self) -> bool:
        """Whether somebody who is alive runs it now, here or in another process."""
        return _background.wait(self._session.is_attended)

    def send(self, input: Input, *, when_busy: WhenBusy = "queue", message_id: str | None = None) -> str:
        """Give the session something to answer. It is durable, and the session woken, when this returns."""
        return _background.wait(lambda: self._session.send(input, when_busy=when_busy, message_id=message_id))

    def run(self, input: Input, *, when_busy: WhenBusy = "queue") -> Turn[Out]:
        """Send, and wait for what the turn that answers it comes to. What it fails with is raised."""
        return _background.wait(lambda: self._session.run(input, when_busy=when_busy))

    def stream(
        self, input: Input, *, when_busy: WhenBusy = "queue", on_leave: OnLeave = "cancel"
    ) -> Run[Out]:
        """Send, and read the turn that answers it as it happens. Leaving early cancels it, or not."""
        return Run(self._session.stream(input, when_busy=when_busy, on_leave=on_leave))

    def follow(self, *, on_leave: OnLeave = "detach") -> Run[Out] | None:
        """The turn that is open, from here on; `None` when nothing is open."""
        run = _background.wait(lambda: self._session.follow(on_leave=on_leave))
        return Run(run) if run is not None else None

    def events(self, after: int = 0) -> Reader:
        """What happened after that place, and then what happens."""
        return Reader(self._session.events(after))

    def turn_result(self) -> Turn[Out]:
        """What the latest turn came to, when it has ended. One whose runner died is gone on with."""
        return _background.wait(self._session.turn_result)

    def cancel(self, mode: CancelMode = "now", *, reason: str = "") -> None:
        """End the running turn: at once, or when the step under way is done. Returns when it has ended."""
        _background.wait(lambda: self._session.cancel(mode, reason=reason))

    def answer(
        self,
        content: Content | Sequence[Content] = (),
        *,
        call_id: str | None = None,
        question_id: str | None = None,
        run_again: bool = False,
        by: str = "",
    ) -> None:
        """Answer for a call that waits for a person. The answer is its result, or leave to run it again."""
        _background.wait(
            lambda: self._session.answer(
                content, call_id=call_id, question_id=question_id, run_again=run_again, by=by
            )
        )

    def approvals(self) -> tuple[ApprovalRequested, ...]:
        """What is waited for leave for, in the order of the calls."""
        return _background.wait(self._session.approvals)

    def approve(
        self,
        approval_id: str | None = None,
        *,
        by: str = "",
        reason: str | None = None,
        always: bool = False,
        arguments_hash: str | None = None,
    ) -> None:
        """Give leave for a call that waits for it, once, and for the arguments that were shown."""
        _background.wait(
            lambda: self._session.approve(
                approval_id, by=by, reason=reason, always=always, arguments_hash=arguments_hash
            )
        )

    def deny(self, approval_id: str | None = None, *, by: str = "", reason: str | None = None) -> None:
        """Refuse leave for a call: the model is told so, with the reason, and the turn goes on."""
        _background.wait(lambda: self._session.deny(approval_id, by=by, reason=reason))

    def subagents(self, after: int | None = None) -> tuple[Subagent, ...]:
        """Those that were started in the latest turn, or after that place; of agents that this one knows."""
        return tuple(map(Subagent, _background.wait(lambda: self._session.subagents(after))))

    def compact(self) -> Compacted | None:
        """Make the view of the model shorter now; `None` where it cannot be."""
        return _background.wait(self._session.compact)

    def resume(self, *, take_over: bool = False) -> None:
        """Go on with what is open: after a crash, or under the new definition of a paused turn."""
        _background.wait(lambda: self._session.resume(take_over=take_over))

    def fork(self, at: int | None = None, *, session_id: str | None = None) -> Session[Out]:
        """A new session with the same events up to that place; what is open there ends in the new one."""
        return Session(_background.wait(lambda: self._session.fork(at, session_id=session_id)))

    def fork_plan(self, at: int | None = None) -> ForkPlan:
        """What `fork` at that place would keep, end, and not know of. Nothing is written."""
        return _background.wait(lambda: self._session.fork_plan(at))

    def close(self) -> None:
        """Let go of the session here. Nothing of it ends."""
        _background.wait(self._session.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Agent(Generic[Out]):
    """`gnomon.Agent`, waited for."""

    @overload
    def __init__(
        self: Agent[str],
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[ToolLike] = (),
        workspace: Workspace | str | PathLike[str] | None = None,
        sandbox: Sandbox | str | None = None,
        output: None = None,
        output_mode: OutputMode = "auto",
        storage: str | Storage | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule | str] = (),
        approval_timeout_s: float | None = None,
        budget: Budget | None = None,
        on_change: OnChange = "continue",
        adopt: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
        subagents: Sequence[Agent[object]] = (),
        hooks: Sequence[Hook | str] = (),
        guardrails: Sequence[Guardrail | str] = (),
        compactor: Compactor | str | None = None,
        context_tokens: int | None = None,
        memory: Memory | bool | None = None,
        skills: Sequence[Source | str] = (),
        traces: Tracing | bool | None = None,
        audit: bool = True,
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[ToolLike] = (),
        workspace: Workspace | str | PathLike[str] | None = None,
        sandbox: Sandbox | str | None = None,
        output: type[Out],
        output_mode: OutputMode = "auto",
        storage: str | Storage | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule | str] = (),
        approval_timeout_s: float | None = None,
        budget: Budget | None = None,
        on_change: OnChange = "continue",
        adopt: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
        subagents: Sequence[Agent[object]] = (),
        hooks: Sequence[Hook | str] = (),
        guardrails: Sequence[Guardrail | str] = (),
        compactor: Compactor | str | None = None,
        context_tokens: int | None = None,
        memory: Memory | bool | None = None,
        skills: Sequence[Source | str] = (),
        traces: Tracing | bool | None = None,
        audit: bool = True,
    ) -> None: ...

    def __init__(
        self,
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[ToolLike] = (),
        workspace: Workspace | str | PathLike[str] | None = None,
        sandbox: Sandbox | str | None = None,
        output: type[object] | None = None,
        output_mode: OutputMode = "auto",
        storage: str | Storage | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule | str] = (),
        approval_timeout_s: float | None = None,
        budget: Budget | None = None,
        on_change: OnChange = "continue",
        adopt: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
        subagents: Sequence[Agent[object]] = (),
        hooks: Sequence[Hook | str] = (),
        guardrails: Sequence[Guardrail | str] = (),
        compactor: Compactor | str | None = None,
        context_tokens: int | None = None,
        memory: Memory | bool | None = None,
        skills: Sequence[Source | str] = (),
        traces: Tracing | bool | None = None,
        audit: bool = True,
    ) -> None:
        self._agent = cast(
            "_async.Agent[Out]",
            _async.Agent(
                model,
                name=name,
                instructions=instructions,
                tools=tools,
                workspace=workspace,
                sandbox=sandbox,
                output=output,
                output_mode=output_mode,
                storage=storage,
                permissions=permissions,
                rules=rules,
                approval_timeout_s=approval_timeout_s,
                budget=budget,
                on_change=on_change,
                adopt=adopt,
                temperature=temperature,
                max_tokens=max_tokens,
                thinking=thinking,
                settings=settings,
                models=models,
                counter=counter,
                deps=deps,
                clock=clock,
                subagents=[each._agent for each in subagents],
                hooks=hooks,
                guardrails=guardrails,
                compactor=compactor,
                context_tokens=context_tokens,
                memory=memory,
                skills=skills,
                traces=traces,
                audit=audit,
            ),
        )

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        name: str | None = None,
        *,
        tools: Sequence[ToolLike] = (),
        storage: str | Storage | None = None,
        deps: object = None,
        clock: Clock | None = None,
    ) -> Agent[str]:
        """The agent that a YAML, TOML or JSON file describes; `name` says which, where there are several."""
        made: Agent[str] = Agent.__new__(Agent)
        made._agent = _async.Agent.from_file(path, name, tools=tools, storage=storage, deps=deps, clock=clock)
        return made

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def definition(self) -> Definition:
        """What the engine knows of it."""
        return self._agent.definition

    @property
    def provider(self) -> Provider:
        return self._agent.provider

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool:
        """This agent as a tool of another: each call is a session of its own, with this agent's budget."""
        return self._agent.as_tool(name, description)

    def run(
        self,
        prompt: Prompt,
        *,
        messages: Sequence[Message] = (),
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> Turn[Out]:
        """The whole turn at once. It is a session of its own."""
        return _background.wait(
            lambda: self._agent.run(prompt, messages=messages, metadata=metadata, user_id=user_id)
        )

    def stream(
        self,
        prompt: Prompt,
        *,
        messages: Sequence[Message] = (),
        on_leave: OnLeave = "cancel",
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> Run[Out]:
        """The turn as it happens. A reader that leaves early cancels it, or lets it go on."""
        run = self._agent.stream(
            prompt, messages=messages, on_leave=on_leave, metadata=metadata, user_id=user_id
        )
        return Run(run)

    def session(
        self,
        session_id: str | None = None,
        *,
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> Session[Out]:
        """The conversation of that id; a new one without. It is made by its first message."""

        async def made() -> LocalSession[Out]:
            return self._agent.session(session_id, metadata=metadata, user_id=user_id)

        return Session(_background.wait(made))

    def serve(self) -> None:
        """Run what is left of this agent's sessions in the store, and what comes, until Ctrl-C."""
        _background.wait(self._agent.serve)

    def close(self) -> None:
        _background.wait(self._agent.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
