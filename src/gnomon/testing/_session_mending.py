"""Y1: whatever happened to a turn, the session is idle again and takes the next message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from gnomon.contracts.provider import Provider
from gnomon.contracts.session import SessionReader
from gnomon.contracts.tool import ToolContext
from gnomon.errors import BadRequest, ToolFailed
from gnomon.providers.scripted import Line, ScriptedProvider, calls, fails, says
from gnomon.testing._session_audit import ends, is_end, only, story
from gnomon.testing._session_patience import Gate, Pace, beside, until, within
from gnomon.testing._session_suite import SessionSuite, Stage, next_event
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.testing._suite import expect, expect_some
from gnomon.types.events import CancelRequested, MessageCompleted, ProviderEvent, TurnCancelled
from gnomon.types.messages import ToolStatus
from gnomon.types.requests import Request

__all__ = ["SessionMending"]

_NEXT = says("Here again.").expecting(text="next")


class SessionMending(SessionSuite):
    """The part of the suite that is about errors and cancels."""

    # --- the model fails

    async def test_after_an_error_of_the_model_the_next_message_is_answered(self) -> None:
        """Y1: the turn is given with its error, and the session is idle."""
        for failing in (
            fails(BadRequest("no such thing", vendor="suite")),
            says("One two three").failing(BadRequest("in the middle", vendor="suite"), after=2),
            calls("save").failing(BadRequest("at the end of a call", vendor="suite")),
        ):
            tool = StageTool("save")
            async with self.staged([failing, _NEXT], tools=[tool]) as stage:
                session = stage.session()
                turn = await stage.turn(session, "one")
                expect("how the turn ended", ("failed", "bad_request"), _failure(turn.stop, turn.error))
                expect("the end in the ledger", "TurnFailed", type(await stage.last_end()).__name__)
                expect("runs of a tool whose call was never whole", 0, tool.runs)
                await _expect_mended(stage, session.id)

    async def test_after_an_error_between_two_rounds_the_next_request_is_whole(self) -> None:
        """Y1, L3: the calls of the round before have their results, and the model sees them."""
        script = [calls("look"), fails(BadRequest("no", vendor="suite")), _NEXT]
        async with self.staged(script, tools=[StageTool("look", read_only=True)]) as stage:
            turn = await stage.turn(stage.session(), "one")
            expect("how the turn ended", "failed", turn.stop)
            await _expect_mended(stage)
            shown = [message.role for message in stage.provider.requests[-1].messages]
            expect("what the next turn shows", ["user", "assistant", "tool", "user"], shown)

    async def test_a_bug_in_a_provider_fails_the_turn_and_not_the_session(self) -> None:
        """Y1: any exception is an end of the turn."""
        provider = _Stumbling(ScriptedProvider([_NEXT]))
        async with self.open(provider) as bench:
            stage = Stage(self, bench, provider.inner)
            session = stage.session()
            turn = await stage.turn(session, "one")
            expect("how the turn ended", "failed", turn.stop)
            expect_some("its error", turn.error)
            await _expect_mended(stage)
            await stage.close()

    async def test_a_queued_message_is_answered_when_the_turn_before_it_fails(self) -> None:
        """Y1, Y2: what waits is not lost with the turn it waits for."""
        gate = Gate()

        async def failing(request: Request) -> Line:
            await gate.wait()
            return fails(BadRequest("no", vendor="suite"))

        async with self.staged([failing, _NEXT]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached("the model")
            await session.send("next")
            gate.open()
            ledger = await stage.over(2)
            expect("how they ended", ["TurnFailed", "TurnFinished"], [type(e).__name__ for e in ends(ledger)])

    # --- a tool fails

    async def test_a_tool_that_raises_is_a_result_and_the_turn_goes_on(self) -> None:
        """L3: the model is told; of a bug it is told only that there was one."""

        async def bug(context: ToolContext) -> str:
            raise RuntimeError("the inner workings of the tool")

        async def refusal(context: ToolContext) -> str:
            raise ToolFailed("there is no such city")

        for work, shown in ((bug, "error"), (refusal, "there is no such city")):
            script = [calls("do"), says("I see.").expecting(result=shown), _NEXT]
            async with self.staged(script, tools=[StageTool("do", work)]) as stage:
                await self._expect_status(stage, "error")
                request = stage.provider.requests[1]
                told = request.messages[-1].tool_results[0].text
                expect("the model is told of the inner workings", False, "inner workings" in told)

    async def test_a_tool_that_hangs_is_ended_by_its_limit(self) -> None:
        """T3, L3: the status of its result says so, and the turn goes on."""
        never = Gate()

        async def hang(context: ToolContext) -> str:
            await never.wait()
            return "never"

        script = [calls("do"), says("I see."), _NEXT]
        async with self.staged(script, tools=[StageTool("do", hang, timeout_s=0.05)]) as stage:
            await self._expect_status(stage, "timeout")

    async def test_a_tool_that_returns_nonsense_is_a_result_and_the_turn_goes_on(self) -> None:
        """L3: what is no `ToolResult` does not reach the model or the ledger."""
        for nonsense in (None, 17, b"bytes", object()):

            async def work(context: ToolContext, found: object = nonsense) -> object:
                return found

            async with self.staged(
                [calls("do"), says("I see."), _NEXT], tools=[StageTool("do", work)]
            ) as stage:
                await self._expect_status(stage, "error")

    async def _expect_status(self, stage: Stage, status: ToolStatus) -> None:
        """A call of `do` comes to that, the turn finishes, and the next message is answered."""
        turn = await stage.turn(stage.session(), "one")
        expect("the answer", "I see.", turn.text)
        expect("the status of the call", status, (await stage.results())["do"].status)
        await _expect_mended(stage)

    # --- somebody cancels

    async def test_a_cancel_during_a_call_ends_the_turn_with_a_result_for_it(self) -> None:
        """Y1, L3: the tool is stopped; its result, and that of the call that never began, say why."""
        gate, stopped = Gate(), list[bool]()

        async def hold(context: ToolContext) -> str:
            try:
                await gate.wait()
            finally:
                stopped.append(True)
            return "never"

        tools = [StageTool("hold", hold), StageTool("after")]
        async with self.staged([calls("hold").calling("after"), _NEXT], tools=tools) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached("the tool")
            await within("the end of cancel", session.cancel())
            turn = await stage.result(session)
            expect("how the turn ended", "cancelled", turn.stop)
            expect("the end in the ledger", "TurnCancelled", type(await stage.last_end()).__name__)
            expect(
                "the tool was stopped, and can know it",
                [True, True],
                [*stopped, tools[0].contexts[0].cancelled],
            )
            expect("runs of the call after it", 0, tools[1].runs)
            results = await stage.results()
            expect("the statuses", ["cancelled"] * 2, [results[name].status for name in ("hold", "after")])
            await _expect_mended(stage)

    async def test_a_cancel_while_the_model_speaks_ends_the_turn(self) -> None:
        """Y1: what it had said so far need not be kept; the next request is whole."""
        pace = Pace()
        provider = ScriptedProvider([says("One two three four."), _NEXT], delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            await session.send("one")
            await until("the model in the middle of its answer", lambda: pace.held)
            await within("the end of cancel", session.cancel("now"))
            expect("how the turn ended", "cancelled", (await stage.result(session)).stop)
            pace.free()
            await _expect_mended(stage)

    async def test_a_cancel_after_the_step_lets_a_call_end(self) -> None:
        """Y1: its result is the tool's own, and the model is not asked again."""
        gate = Gate()
        async with self.staged([calls("hold"), _NEXT], tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached("the tool")
            async with beside(session.cancel("after_step")) as cancelling:
                await stage.until_ledger("a request to cancel", lambda all: only(all, CancelRequested))
                gate.open()
                await within("the end of cancel", cancelling)
            expect("how the turn ended", "cancelled", (await stage.result(session)).stop)
            result = (await stage.results())["hold"]
            expect("the result of the call", ("ok", "held and let go"), (result.status, result.text))
            await _expect_mended(stage)

    async def test_a_cancel_after_the_step_lets_the_model_end(self) -> None:
        """Y1: its message is stored whole; no more questions, and a result for every call in it."""
        pace = Pace()
        script = [says("One two three.").calling("look"), _NEXT]
        provider = ScriptedProvider(script, delay_s=1, sleep=pace)
        async with self.staged(provider, tools=[StageTool("look", read_only=True)]) as stage:
            session = stage.session()
            await session.send("one")
            await until("the model in the middle of its answer", lambda: pace.held)
            async with beside(session.cancel("after_step")) as cancelling:
                await stage.until_ledger("a request to cancel", lambda all: only(all, CancelRequested))
                pace.free()
                await within("the end of cancel", cancelling)
            expect("how the turn ended", "cancelled", (await stage.result(session)).stop)
            said = [e.message.text for e in await stage.ledger() if isinstance(e, MessageCompleted)]
            expect("the message that is stored", ["One two three."], said)
            await _expect_mended(stage)

    async def test_a_cancel_without_a_turn_does_nothing(self) -> None:
        """It is not kept for the turn that comes, neither before the first nor after one."""
        async with self.staged([says("One."), _NEXT]) as stage:
            session = stage.session()
            for mode in ("now", "after_step"):
                await within("the end of cancel", session.cancel(mode))
            expect("the ledger of a session that has none", [], await stage.ledger())
            expect("how the first turn ended", "end_turn", (await stage.turn(session, "one")).stop)
            before = story(await stage.over(1))
            await within("the end of cancel", session.cancel())
            expect("the ledger after a cancel of nothing", before, story(await stage.ledger()))
            await _expect_mended(stage)

    async def test_two_cancels_at_once_are_one(self) -> None:
        """Both return, and the turn ends once."""
        gate = Gate()
        async with self.staged([calls("hold"), _NEXT], tools=[held_tool("hold", gate)]) as stage:
            session, other = stage.session(), stage.session()
            await session.send("one")
            await gate.reached("the tool")
            cancels = asyncio.gather(session.cancel(), other.cancel("after_step"), session.cancel())
            await within("the end of three cancels", cancels)
            expect("how the turn ended", "cancelled", (await stage.result(session)).stop)
            expect("ends", 1, len(only(await stage.ledger(), TurnCancelled)))
            await _expect_mended(stage)

    async def test_a_cancel_at_every_event_leaves_a_session_that_takes_the_next_message(self) -> None:
        """Y1: wherever in the turn it comes."""
        pace = Pace()
        pace.free()
        provider = ScriptedProvider(_answer_by_history, delay_s=1, sleep=pace)
        tools = [StageTool("save", _step_by_step), StageTool("look", _step_by_step, read_only=True)]
        async with self.staged(provider, tools=tools) as stage:
            for at in range(1, 100):
                session = stage.session(f"s{at}")
                await session.send(f"conversation {at}")  # a model remembers what it said in which
                async with session.events() as reader:
                    is_over = await _read_on(reader, at)
                await within("the end of cancel", session.cancel())
                await _expect_mended(stage, session.id)
                if is_over:
                    return
        raise AssertionError("expected the turn to have fewer than 100 events")


class _Stumbling(Provider):
    """A provider with a bug, which it shows once."""

    def __init__(self, inner: ScriptedProvider) -> None:
        self.inner = inner
        self.name, self.model = inner.name, inner.model
        self._stumbled = False

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if not self._stumbled:
            self._stumbled = True
            raise ZeroDivisionError("a bug of the provider")
        async for event in self.inner.events(request):
            yield event


def _failure(stop: str, error: object) -> tuple[str, str]:
    return stop, getattr(error, "code", "")


def _answer_by_history(request: Request) -> Line:
    """Two calls and an answer; the next message is answered at once."""
    last = request.messages[-1]
    if last.role == "tool":
        return says("Done.")
    return _NEXT if last.text == "next" else says("One two.").calling("save").calling("look")


async def _read_on(reader: SessionReader, count: int) -> bool:
    """Read so many events, or fewer if the turn ends; whether it did. Of deltas one may see fewer or more."""
    for _ in range(count):
        if is_end(await next_event(reader)):
            return True
    return False


async def _step_by_step(context: ToolContext) -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return "done"


async def _expect_mended(stage: Stage, id: str = "s") -> None:
    """Idle, and the next message is answered: the script insists on one result for every call."""
    session = stage.session(id)
    turn = await stage.turn(session, "next")
    expect("the answer to the next message", "Here again.", turn.text)
    await stage.state(session, "idle")
