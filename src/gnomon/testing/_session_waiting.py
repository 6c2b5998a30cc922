"""Turns that wait for a person: a tool asks something, and the answer is its result."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from gnomon.contracts.session import Session
from gnomon.contracts.tool import ToolContext
from gnomon.errors import AskUser, GnomonError, TurnUnfinished
from gnomon.providers.scripted import Line, calls, says
from gnomon.testing._session_audit import ends, is_at_rest, only
from gnomon.testing._session_patience import within
from gnomon.testing._session_suite import SessionSuite, Stage
from gnomon.testing._session_tools import StageTool
from gnomon.testing._suite import expect
from gnomon.types.events import (
    LedgerEntry,
    MessageCompleted,
    QuestionAnswered,
    QuestionAsked,
    TurnCancelled,
)
from gnomon.types.requests import Request

__all__ = ["SessionWaiting"]


class SessionWaiting(SessionSuite):
    """The part of the suite that is about `AskUser`."""

    async def test_a_tool_that_asks_suspends_the_turn(self) -> None:
        """The question is stored with its options, and nobody holds the session meanwhile."""
        async with self._asking([calls("ask"), says("Red it is.").expecting(result="red")]) as stage:
            session = stage.session()
            await session.send("Paint it.")
            question = (await _asked(stage))[0]
            shown = (question.question, question.options, question.unknown)
            expect("the question", ("Which colour?", ("red", "blue"), False), shown)
            await stage.state(session, "waiting")
            expect("ends of turns", [], ends(await stage.ledger()))
            await _answer(stage, session, "red")
            await stage.over(1)

    async def test_the_answer_is_the_result_of_the_call(self) -> None:
        """The tool is not run again, and the turn goes on where it was."""
        tool = _asking_tool()
        script = [calls("ask"), says("Red it is.").expecting(result="red"), says("Next.")]
        async with self.staged(script, tools=[tool]) as stage:
            session = stage.session()
            await session.send("Paint it.")
            await _asked(stage)
            await _answer(stage, session, "red")
            ledger = await stage.over(1)
            turn = await stage.result(session)
            expect("the answer", ("Red it is.", "end_turn"), (turn.text, turn.stop))
            expect("the result", "red", (await stage.results())["ask"].text)
            expect("runs of the tool", 1, tool.runs)
            expect("answers that are stored", 1, len(only(ledger, QuestionAnswered)))
            await stage.state(session, "idle")
            await stage.turn(session, "next")

    async def test_a_question_outlives_its_runtime(self) -> None:
        """It is answered from another one, which did not hear it asked."""
        tool, other = _asking_tool(), _asking_tool()
        async with self.staged([says("Red it is.").expecting(result="red")], tools=[tool]) as stage:
            async with stage.another([calls("ask")], tools=[other]) as first:
                await first.session().send("Paint it.")
                await _asked(first)
            session = stage.session()
            await _answer(stage, session, "red")
            await stage.over(1)
            expect("the answer", "Red it is.", (await stage.result(session)).text)
            expect("runs of the tools", (0, 1), (tool.runs, other.runs))
            questions = [e for e in await stage.ledger() if isinstance(e, QuestionAsked)]
            expect(
                "questions, and those about an outcome", (1, 0), (len(questions), len(_unknown(questions)))
            )

    async def test_a_question_is_answered_from_another_runtime_while_the_first_one_lives(self) -> None:
        """Whoever answers need not be whoever goes on with the turn."""
        tools = [_asking_tool()]
        async with self.staged(_red, tools=tools) as one, one.another(_red, tools=tools) as two:
            await one.session().send("Paint it.")
            await _asked(one)
            await _answer(two, two.session(), "red")
            ledger = await one.over(1)
            expect("messages", 2, len(only(ledger, MessageCompleted)))

    async def test_two_questions_are_answered_each_for_itself(self) -> None:
        """By the id of the call, in any order; the turn goes on when both are answered."""
        script = [calls("ask").calling("ask"), says("Both.").expecting(result="red")]
        tool = _asking_tool(read_only=True)
        async with self.staged(script, tools=[tool]) as stage:
            session = stage.session()
            await session.send("Paint it.")
            questions = await _asked(stage, 2)
            ids = [question.call_id for question in questions]
            expect("the calls", 2, len(set(ids)))
            await _answer(stage, session, "blue", ids[1])
            expect("ends of turns after one answer", [], ends(await stage.ledger()))
            await _answer(stage, session, "red", ids[0])
            await stage.over(1)
            results = stage.provider.requests[1].messages[-1].tool_results
            found = {result.call_id: result.text for result in results}
            expect("the results", {ids[0]: "red", ids[1]: "blue"}, found)

    async def test_calls_beside_the_one_that_asks_keep_their_results(self) -> None:
        """Those before it have run; those after it run when it is answered, and each once."""
        ask, save = _asking_tool(), StageTool("save")
        script = [calls("save").calling("ask").calling("save"), says("Done.").expecting(result="red")]
        async with self.staged(script, tools=[ask, save]) as stage:
            session = stage.session()
            await session.send("Paint it.")
            await _asked(stage)
            await _answer(stage, session, "red")
            await stage.over(1)
            statuses = [r.status for r in stage.provider.requests[1].messages[-1].tool_results]
            expect("the results", ["ok"] * 3, statuses)
        expect("runs of the tools", (1, 2), (ask.runs, save.runs))

    async def test_an_answer_to_nothing_is_refused_and_leaves_no_trace(self) -> None:
        """Before there is a question, for another call, and when it has been answered."""
        async with self._asking([calls("ask"), says("Red it is.").expecting(result="red")]) as stage:
            session = stage.session()
            await session.send("Paint it.")
            await _asked(stage)
            before = await stage.ledger()
            await _expect_refused(stage, session, "blue", "a call that is not there")
            expect("the ledger after an answer to no question", before, await stage.ledger())
            await _answer(stage, session, "red")
            before = await stage.over(1)
            await _expect_refused(stage, session, "blue", None)
            expect("the ledger after an answer that comes too late", before, await stage.ledger())

    async def test_of_two_answers_at_once_one_is_the_result(self) -> None:
        """From two runtimes: whoever is second is told so, and leaves no trace."""
        tools = [_asking_tool()]
        async with self.staged(_any_colour, tools=tools) as one, one.another(_any_colour, tools=tools) as two:
            for id in (f"s{at}" for at in range(8)):
                await one.session(id).send(f"Paint {id}.")
                await _asked(one, id=id)
                sessions = ((one, one.session(id), "red"), (two, two.session(id), "blue"))
                answers = [_answer(stage, session, text) for stage, session, text in sessions]
                told = await within("two answers", asyncio.gather(*answers, return_exceptions=True))
                ledger = await one.over(1, id)
                expect("messages", 2, len(only(ledger, MessageCompleted)))
                refused = [each for each in told if isinstance(each, GnomonError)]
                found = (len(only(ledger, QuestionAnswered)), len(refused), told.count(None))
                expect("answers that are stored, refused, and taken", (1, 1, 1), found)
                taken = ("red", "blue")[told.index(None)]
                expect("the result", taken, (await one.results(id))["ask"].text)

    async def test_there_is_no_result_while_a_question_is_open(self) -> None:
        """Nobody is left waiting for a person without knowing it, before the question or after."""
        async with self._asking([calls("ask"), says("Red it is.").expecting(result="red")]) as stage:
            session = stage.session()
            await session.send("Paint it.")
            for _ in range(2):
                try:
                    await stage.result(session)
                except TurnUnfinished as error:
                    expect("the turn it names", (await _asked(stage))[0].turn_id, error.turn_id)
                else:
                    raise AssertionError("turn_result while a question is open: expected TurnUnfinished")
            await _answer(stage, session, "red")
            expect("the answer", "Red it is.", (await stage.result(session)).text)

    async def test_a_message_while_a_question_is_open_is_queued(self) -> None:
        """Y2: the turn that waits is answered first."""
        red = says("Red.").expecting(text="Paint", result="red")
        script = [calls("ask"), red, says("Two.").expecting(text="two")]
        async with self._asking(script) as stage:
            session = stage.session()
            await session.send("Paint it.")
            await _asked(stage)
            await within("the end of send", session.send("two"))
            await _answer(stage, session, "red")
            await stage.over(2)

    async def test_an_interrupt_while_a_question_is_open_ends_the_turn(self) -> None:
        """Y2: the call has its result all the same, and the message is answered."""
        script = [calls("ask"), says("Two.").expecting(text="two")]
        async with self._asking(script) as stage:
            session = stage.session()
            await session.send("Paint it.")
            await _asked(stage)
            await within("the end of send", session.send("two", when_busy="interrupt"))
            ledger = await stage.over(2)
            found = [type(end).__name__ for end in ends(ledger)]
            expect("how they ended", ["TurnCancelled", "TurnFinished"], found)

    async def test_a_cancel_while_a_question_is_open_ends_the_turn(self) -> None:
        """Y1: at once or after the step, since nothing is under way."""
        for mode in ("now", "after_step"):
            script = [calls("ask"), says("Next.").expecting(text="next")]
            async with self._asking(script) as stage:
                session = stage.session()
                await session.send("Paint it.")
                await _asked(stage)
                await within("the end of cancel", session.cancel(mode))
                ledger = await stage.over(1)
                expect("ends", 1, len(only(ledger, TurnCancelled)))
                expect("the next answer", "Next.", (await stage.turn(session, "next")).text)

    # --- what they share

    def _asking(self, script: list[Line]) -> AbstractAsyncContextManager[Stage]:
        return self.staged(script, tools=[_asking_tool()])


def _red(request: Request) -> Line:
    is_first = request.messages[-1].role == "user"
    return calls("ask") if is_first else says("Red it is.").expecting(result="red")


def _any_colour(request: Request) -> Line:
    return calls("ask") if request.messages[-1].role == "user" else says("Painted.")


def _asking_tool(*, read_only: bool = False) -> StageTool:
    async def ask(context: ToolContext) -> str:
        raise AskUser("Which colour?", options=("red", "blue"))

    return StageTool("ask", ask, read_only=read_only)


async def _asked(stage: Stage, count: int = 1, id: str = "s") -> list[QuestionAsked]:
    """The questions, when so many are stored and the session has come to a rest."""

    def look(ledger: list[LedgerEntry]) -> bool:
        return len(only(ledger, QuestionAsked)) >= count and is_at_rest(ledger)

    ledger = await stage.until_ledger(f"{count} question(s)", look, id)
    return [entry for entry in ledger if isinstance(entry, QuestionAsked)]


async def _answer(stage: Stage, session: Session, text: str, call_id: str | None = None) -> None:
    await within("the end of answer", stage.answering(session).answer(text, call_id=call_id))


async def _expect_refused(stage: Stage, session: Session, text: str, call_id: str | None) -> None:
    try:
        await _answer(stage, session, text, call_id)
    except GnomonError:
        return
    raise AssertionError("an answer to no question: expected one of our errors, and it was taken")


def _unknown(questions: list[QuestionAsked]) -> list[QuestionAsked]:
    return [question for question in questions if question.unknown]
