"""What a runtime makes of a session that another has left in the middle: promise 3 and durability §3."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import msgspec

from gnomon.contracts.session import Session
from gnomon.providers.scripted import Line, calls, says
from gnomon.testing._session_audit import is_at_rest, is_end, only
from gnomon.testing._session_patience import beside, within
from gnomon.testing._session_suite import Resuming, SessionSuite, Stage, read_until
from gnomon.testing._session_tools import LookupTool, StageTool
from gnomon.testing._suite import expect, expect_some
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    LedgerEntry,
    Live,
    MessageCompleted,
    ModelStarted,
    QuestionAsked,
    Released,
    ToolFinished,
    ToolIntent,
)
from gnomon.types.requests import Request
from gnomon.types.steps import Turn

__all__ = ["SessionRecovery"]


class SessionRecovery(SessionSuite):
    """The part of the suite that is about sessions whose runner died."""

    async def test_a_turn_cut_off_after_any_entry_is_finished(self) -> None:
        """Promise 3: no finished call runs again, no open one in silence, and every turn ends."""
        whole = await self._recorded()
        save, look = StageTool("save"), StageTool("look", read_only=True)
        async with self.staged(_by_history, tools=[save, look]) as stage:
            for length in range(1, len(whole)):
                left, runs = whole[:length], (save.runs, look.runs)
                name = f"cut-after-{length}-{type(left[-1]).__name__}"
                await stage.bench.write(name, left)
                if _unanswered(left):
                    await _expect_question(stage, name)
                else:
                    await self._expect_finished(stage, name, left)
                found = (save.runs - runs[0], look.runs - runs[1])
                expect(f"{name}: runs of the tools", _runs_to_come(left), found)

    async def _expect_finished(self, stage: Stage, name: str, left: Sequence[LedgerEntry]) -> None:
        """The turn ends as it would have, and no round is paid for twice."""
        asked = len(stage.provider.requests)
        turn = await _gone_on(stage, stage.session(name))
        expect(f"{name}: the answer", "Done.", turn.text)
        rounds = len(stage.provider.requests) - asked
        expect(f"{name}: rounds that were asked for", 2 - len(only(left, MessageCompleted)), rounds)

    async def test_a_session_cut_off_after_any_entry_takes_the_next_message(self) -> None:
        """Promise 7: without being asked for the result first; queued behind what is open."""
        whole = await self._recorded()
        tools = [StageTool("save", on_unknown="tell"), StageTool("look", read_only=True)]
        async with self.staged(_by_history, tools=tools) as stage:
            for length in range(1, len(whole) + 1):
                name = f"cut-after-{length}-{type(whole[length - 1]).__name__}"
                await stage.bench.write(name, whole[:length])
                sent = await within("the end of send", stage.session(name).send("next"))
                ledger = await stage.all_answered([sent], name)
                last = [entry for entry in ledger if isinstance(entry, MessageCompleted)][-1]
                expect(f"{name}: the last answer", "Here again.", last.message.text)

    # --- the model

    async def test_a_message_that_was_cut_off_is_asked_for_again_as_another_attempt(self) -> None:
        """Durability §4: a higher attempt, whose deltas start from 0; a reader sees both."""
        whole = await self._recorded()
        left = whole[: 1 + next(at for at, e in enumerate(whole) if isinstance(e, ModelStarted))]
        tools = [StageTool("save"), StageTool("look", read_only=True)]
        async with self.staged(_by_history, tools=tools) as stage:
            await stage.bench.write("s", left)
            session = stage.session()
            async with session.events() as reader, beside(_resumed(session)):
                seen = await read_until(reader, is_end)
        first, second = [event for event in seen if isinstance(event, ModelStarted)][:2]
        expect("the second attempt is higher", True, second.attempt > first.attempt)
        live = [event for event in seen if isinstance(event, Live)]
        expect("deltas of the first attempt", [], [e for e in live if e.attempt <= first.attempt])
        for attempt in {event.attempt for event in live}:
            places = [event.idx for event in live if event.attempt == attempt]
            expect(f"the places of attempt {attempt}", list(range(len(places))), places)

    async def test_a_cancel_that_nobody_carried_out_ends_the_turn(self) -> None:
        """Durability §3: the owner died between the request and the end."""
        whole = await self._recorded()
        at = next(at for at, entry in enumerate(whole) if isinstance(entry, ToolIntent))
        tools = [StageTool("save"), StageTool("look", read_only=True)]
        async with self.staged(_by_history, tools=tools) as stage:
            for name, left in (("early", whole[:at]), ("late", whole[: at + 1])):
                await stage.bench.write(name, [*left, CancelRequested()])
                session = stage.session(name)
                turn = await _gone_on(stage, session)
                expect(f"{name}: how the turn ended", "cancelled", turn.stop)
                expect(f"{name}: the next answer", "Here again.", (await stage.turn(session, "next")).text)
        expect("runs of the tools", [0, 0], [tool.runs for tool in tools])

    # --- a call whose outcome is unknown

    async def test_an_unknown_outcome_is_asked_about_and_the_answer_is_the_result(self) -> None:
        """Promise 3: the session waits, the tool is not run, and a person says what became of it."""
        tool = StageTool("save")
        async with self._cut_in_the_call(tool, shows="it was saved") as stage:
            session = stage.session()
            question = await _expect_question(stage, session.id)
            answer = stage.answering(session).answer("it was saved", call_id=question.call_id)
            await within("the end of answer", answer)
            expect("the answer", "Done.", (await _over(stage, session)).text)
            expect("the result", "it was saved", (await stage.results())["save"].text)
        expect("runs of the tool", 0, tool.runs)

    async def test_an_unknown_outcome_may_be_run_again_when_a_person_says_so(self) -> None:
        """Promise 3: under the key of the first time."""
        tool = StageTool("save")
        async with self._cut_in_the_call(tool, shows="done") as stage:
            session = stage.session()
            question = await _expect_question(stage, session.id)
            answer = stage.answering(session).answer("", call_id=question.call_id, run_again=True)
            await within("the end of answer", answer)
            expect("the answer", "Done.", (await _over(stage, session)).text)
            expect("the keys it was run under", [await _key(stage)], tool.keys)

    async def test_an_unknown_outcome_can_be_told_to_the_model(self) -> None:
        """Promise 3: where the tool says so; it is not run, and nobody is asked."""
        tool = StageTool("save", on_unknown="tell")
        async with self._cut_in_the_call(tool) as stage:
            turn = await _gone_on(stage, stage.session())
            expect("the answer", "Done.", turn.text)
            expect("the status of the call", "unknown", (await stage.results())["save"].status)
            expect("questions", [], only(await stage.ledger(), QuestionAsked))
        expect("runs of the tool", 0, tool.runs)

    async def test_an_idempotent_call_is_run_again_under_the_same_key(self) -> None:
        """Durability §3: a second call under it has no second effect."""
        tool = StageTool("save", idempotent=True)
        async with self._cut_in_the_call(tool, shows="done") as stage:
            expect("the answer", "Done.", (await _gone_on(stage, stage.session())).text)
            expect("the keys it was run under", [await _key(stage)], tool.keys)

    async def test_a_tool_that_can_look_up_a_call_is_asked(self) -> None:
        """Durability §3: what it finds is the result; where it finds nothing the call runs."""
        for known, runs in (("found: saved", 0), (None, 1)):
            tool = LookupTool("save", known)
            async with self._cut_in_the_call(tool, shows=known or "done") as stage:
                expect("the answer", "Done.", (await _gone_on(stage, stage.session())).text)
                key = await _key(stage)
                expect("the keys it was asked for", [key], tool.asked)
                expect("the keys it was run under", [key] * runs, tool.keys)

    async def test_a_tool_that_cannot_tell_leaves_the_outcome_unknown(self) -> None:
        """Its `lookup` raises: that is no leave to run the call again."""
        tool = LookupTool("save", error=RuntimeError("the service is away"))
        async with self._cut_in_the_call(tool) as stage:
            await _expect_question(stage, "s")
            expect("runs of the tool", 0, tool.runs)

    # --- what they share

    async def _recorded(self) -> list[LedgerEntry]:
        """The ledger of a turn with two calls, as somebody wrote it who is dead now."""
        tools = [StageTool("save"), StageTool("look", read_only=True)]
        async with self.staged(_by_history, tools=tools) as stage:
            await stage.turn(stage.session(), "one")
            return [_by_the_dead(entry) for entry in await stage.over(1)]

    @asynccontextmanager
    async def _cut_in_the_call(self, tool: StageTool, shows: str = "") -> AsyncGenerator[Stage, None]:
        """A session whose runner died while `save` ran; what the model is then shown has this in it.

        It has the same id in another store, so that whatever a key is made of stays the same.
        """

        def answer(request: Request) -> Line:
            is_first = request.messages[-1].role == "user"
            return calls("save") if is_first else says("Done.").expecting(result=shows)

        async with self.staged([calls("save"), says("Done.")], tools=[StageTool("save")]) as stage:
            await stage.turn(stage.session(), "one")
            whole = [_by_the_dead(entry) for entry in await stage.over(1)]
        at = next(at for at, entry in enumerate(whole) if isinstance(entry, ToolIntent))
        async with self.staged(answer, tools=[tool]) as stage:
            await stage.bench.write("s", whole[: at + 1])
            yield stage


def _by_history(request: Request) -> Line:
    """Two calls, and then an answer; the next message is answered at once."""
    last = request.messages[-1]
    if last.role == "tool":
        return says("Done.")
    return says("Here again.") if last.text == "next" else calls("save").calling("look")


def _by_the_dead(entry: LedgerEntry) -> LedgerEntry:
    """The same, by a runner of whom nobody has heard since."""
    if isinstance(entry, Claimed | Released):
        return msgspec.structs.replace(entry, owner="a-runner-that-died")
    return entry


def _unanswered(ledger: Sequence[LedgerEntry]) -> set[str]:
    """The calls that had begun to have their effect when the runner died."""
    begun = {entry.call_id for entry in ledger if isinstance(entry, ToolIntent)}
    return begun - {entry.result.call_id for entry in ledger if isinstance(entry, ToolFinished)}


def _runs_to_come(ledger: Sequence[LedgerEntry]) -> tuple[int, int]:
    """How often `save` and `look` must still run to end a turn that was cut off there."""
    if _unanswered(ledger):
        return 0, 0
    names = {entry.result.name for entry in ledger if isinstance(entry, ToolFinished)}
    return int("save" not in names), int("look" not in names)


async def _resumed(session: Session) -> None:
    if isinstance(session, Resuming):
        await session.resume()


async def _gone_on(stage: Stage, session: Session) -> Turn[object]:
    """What the open turn comes to, when this runtime goes on with it."""
    await within("the end of resume", _resumed(session))
    return await stage.result(session)


async def _over(stage: Stage, session: Session) -> Turn[object]:
    await stage.over(1, session.id)
    return await stage.result(session)


async def _expect_question(stage: Stage, id: str) -> QuestionAsked:
    """The session comes to a rest with a question about the call, and nobody holds it."""
    session = stage.session(id)

    def look(ledger: list[LedgerEntry]) -> bool:
        return bool(only(ledger, QuestionAsked)) and is_at_rest(ledger)

    async with beside(_resumed(session)):
        ledger = await stage.until_ledger("a question about the call", look, id)
        await stage.state(session, "waiting")
    question = next(entry for entry in ledger if isinstance(entry, QuestionAsked))
    expect(f"{id}: the call it is about", _unanswered(ledger), {question.call_id})
    expect(f"{id}: it is about an unknown outcome", True, question.unknown)
    expect_some(f"{id}: what is asked", question.question)
    return question


async def _key(stage: Stage) -> str:
    """The key under which the call had begun."""
    return next(entry.key for entry in await stage.ledger() if isinstance(entry, ToolIntent))
