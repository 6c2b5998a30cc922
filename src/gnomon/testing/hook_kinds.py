"""What hooks of a kind promise beside what all hooks do: those that retry, limit, count cost or cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from gnomon.contracts.hook import Hook
from gnomon.errors import BadRequest, BudgetExceeded, GnomonError, Overloaded
from gnomon.stream import PullStream, StreamFold
from gnomon.testing._hook_steps import Inside, around, drive, model_events, model_step
from gnomon.testing._suite import Contract, expect
from gnomon.types.events import AttemptDiscarded, Done, RunEvent, ToolCallEnd, ToolCallStart
from gnomon.types.messages import Message, ToolCall
from gnomon.types.requests import Request
from gnomon.types.steps import HookEvent

__all__ = ["CacheHookContract", "CostHookContract", "RateLimitHookContract", "RetryHookContract"]

_HELD_S = 0.1
_PATIENCE_S = 10.0


class _InTurn:
    """A step whose calls come to one thing after another; the last one stays."""

    def __init__(self, *insides: Inside) -> None:
        self._insides = list(insides)
        self.times: list[float] = []

    @property
    def calls(self) -> int:
        return len(self.times)

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)  # others that ask the same have their turn meanwhile
        inside = self._insides.pop(0) if len(self._insides) > 1 else self._insides[0]
        return await inside(event)


async def _error_of(hook: Hook, event: HookEvent, call: Inside | _InTurn) -> GnomonError | None:
    try:
        await drive(hook, event, call)
    except GnomonError as error:
        return error
    return None


class RetryHookContract(Contract[Hook]):
    """H3. `open` gives a hook that makes at least three attempts, and waits little between them."""

    async def test_what_fails_before_it_is_seen_is_tried_again_in_silence(self) -> None:
        async with self.open() as hook:
            call = _InTurn(Inside(error=Overloaded("busy")), Inside(model_events()))
            events = await drive(hook, model_step(), call)
            expect("calls", 2, call.calls)
            expect("restarts that are told", 0, _restarts(events))
            expect("what was said", _said(model_events()), _said(events))

    async def test_what_fails_after_it_was_seen_is_told_to_start_again(self) -> None:
        """Whoever folds the events comes to the answer of the last attempt alone."""
        async with self.open() as hook:
            broken = Inside(model_events(text="Half of ")[:1], error=Overloaded("busy"))
            call = _InTurn(broken, Inside(model_events()))
            events = await drive(hook, model_step(), call)
            expect("calls and restarts that are told", (2, 1), (call.calls, _restarts(events)))
            expect("what was said", _said(model_events()), _said(events))
            expect("ends", 1, sum(isinstance(event, Done) for event in events))
            expect("streams left open", 0, broken.left_open)

    async def test_only_what_may_pass_is_tried_again(self) -> None:
        async with self.open() as hook:
            call, error = _InTurn(Inside(error=BadRequest("never"))), BadRequest
            expect("the error", error, type(await _error_of(hook, model_step(), call)))
            expect("calls", 1, call.calls)

    async def test_the_wait_that_the_service_asks_for_is_kept(self) -> None:
        async with self.open() as hook:
            error = Overloaded("busy")
            error.retry_after = 0.3
            call = _InTurn(Inside(error=error), Inside(model_events()))
            await drive(hook, model_step(), call)
            expect("whether it waited", True, call.times[1] - call.times[0] >= 0.3)

    async def test_it_gives_up_with_the_error_of_the_last_attempt(self) -> None:
        async with self.open() as hook:
            call = _InTurn(Inside(error=Overloaded("first")), Inside(error=Overloaded("later")))
            error = await _error_of(hook, model_step(), call)
            expect("the error", "later", error.message if error is not None else None)
            expect("whether it ends, after some attempts", True, 3 <= call.calls < 100)


class CacheHookContract(Contract[Hook]):
    """H6. `open` gives a hook that keeps answers for a while."""

    async def test_the_same_question_is_asked_once_and_answered_alike(self) -> None:
        """As a stream, with one end."""
        async with self.open() as hook:
            call = _InTurn(Inside(model_events()))
            first, again = [await drive(hook, model_step(), call) for _ in range(2)]
            expect("calls", 1, call.calls)
            expect("what was said", _said(first), _said(again))
            expect("ends", 1, sum(isinstance(event, Done) for event in again))
            expect("whether it comes in events", True, len(again) > 1)

    async def test_what_is_asked_at_the_same_time_is_asked_once(self) -> None:
        async with self.open() as hook:
            call = _InTurn(Inside(model_events()))
            asking = [drive(hook, model_step(), call) for _ in range(10)]
            answers = await asyncio.wait_for(asyncio.gather(*asking), _PATIENCE_S)
            expect("calls", 1, call.calls)
            expect("what was said", [_said(model_events())] * 10, [_said(each) for each in answers])

    async def test_the_whole_request_is_the_key(self) -> None:
        async with self.open() as hook:
            call = _InTurn(Inside(model_events()))
            asked = model_step().request
            assert asked is not None
            others = _others(asked)
            for request in (asked, *others):
                await drive(hook, msgspec.structs.replace(model_step(), request=request), call)
            expect("calls", 1 + len(others), call.calls)

    async def test_neither_errors_nor_calls_of_tools_are_kept(self) -> None:
        async with self.open() as hook:
            failing = _InTurn(Inside(error=BadRequest("no")), Inside(model_events()))
            await _error_of(hook, model_step(1), failing)
            await drive(hook, model_step(1), failing)
            expect("calls after an error", 2, failing.calls)
            calling = _InTurn(Inside(_calling()))
            for _ in range(2):
                await drive(hook, model_step(2), calling)
            expect("calls after a call of a tool", 2, calling.calls)


class RateLimitHookContract(Contract[Hook]):
    """H4. `open` gives a hook that lets ten steps of one model go at once, and the next not for a second."""

    async def test_more_than_the_limit_has_to_wait(self) -> None:
        """And whoever is cancelled meanwhile has asked nothing."""
        async with self.open() as hook:
            call = _InTurn(Inside(model_events()))
            steps = [drive(hook, model_step(at), call) for at in range(10)]
            await asyncio.wait_for(asyncio.gather(*steps), _PATIENCE_S)
            expect("calls that went at once", 10, call.calls)
            late = asyncio.ensure_future(drive(hook, model_step(11), call))
            await asyncio.wait({late}, timeout=_HELD_S)
            expect("calls, when one more waits", 10, call.calls)
            late.cancel()
            await asyncio.wait({late}, timeout=_PATIENCE_S)
            expect("whether it was cancelled, and calls", (True, 10), (late.cancelled(), call.calls))

    async def test_steps_that_fail_or_are_left_count_too(self) -> None:
        async with self.open() as hook:
            failing = _InTurn(Inside(error=BadRequest("no")))
            for at in range(5):
                await _error_of(hook, model_step(at), failing)
            for at in range(5):
                async with await around(hook, model_step(at), Inside(model_events())) as stream:
                    await anext(aiter(stream))
            call = _InTurn(Inside(model_events()))
            late = asyncio.ensure_future(drive(hook, model_step(11), call))
            await asyncio.wait({late}, timeout=_HELD_S)
            expect("calls over the limit", 0, call.calls)
            late.cancel()
            await asyncio.wait({late}, timeout=_PATIENCE_S)


class CostHookContract(Contract[Hook]):
    """H5. `open` gives a hook with a budget that one step of the suite uses up: 7 tokens in, 5 out."""

    async def test_a_budget_is_checked_before_the_call(self) -> None:
        async with self.open() as hook:
            call = _InTurn(Inside(model_events()))
            await drive(hook, model_step(), call)
            error = await _error_of(hook, model_step(), call)
            expect("the error", BudgetExceeded, type(error))
            expect("calls", 1, call.calls)

    async def test_what_failed_attempts_used_counts(self) -> None:
        async with self.open() as hook:
            error = Overloaded("busy")
            response = model_events()[-1]
            assert isinstance(response, Done)
            error.spent = (msgspec.structs.replace(response.response.discarded[0], output_tokens=1_000),)
            call = _InTurn(Inside(error=error), Inside(model_events()))
            await _error_of(hook, model_step(), call)
            expect("the error", BudgetExceeded, type(await _error_of(hook, model_step(), call)))
            expect("calls", 1, call.calls)


def _said(events: Sequence[RunEvent]) -> str:
    """What whoever folds the events comes to."""
    fold = StreamFold()
    for event in events:
        fold.add(event)
    return fold.message.text


def _restarts(events: Sequence[RunEvent]) -> int:
    return sum(isinstance(event, AttemptDiscarded) for event in events)


def _others(request: Request) -> list[Request]:
    """The same request but for one thing each."""
    changes: list[dict[str, object]] = [
        {"model": "another"},
        {"system": "Be brief."},
        {"temperature": 0.0},
        {"max_tokens": 7},
        {"stop": ("x",)},
        {"messages": (*request.messages, Message.user("Please."))},
    ]
    return [msgspec.structs.replace(request, **change) for change in changes]


def _calling() -> tuple[RunEvent, ...]:
    """An answer that calls a tool."""
    call, done = ToolCall("c1", "tide", "{}"), model_events()[-1]
    assert isinstance(done, Done)
    response = msgspec.structs.replace(
        done.response, message=Message("assistant", (call,)), stop_reason="tool_use"
    )
    return (ToolCallStart(0, "c1", "tide"), ToolCallEnd(0, call), Done(response))
