"""What a session says of itself: the result of its latest turn, its status, and its end."""

from __future__ import annotations

import asyncio

from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.testing._session_audit import is_end
from gnomon.testing._session_patience import Gate, beside, within
from gnomon.testing._session_suite import SessionSuite, read_until
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.testing._suite import expect, expect_some
from gnomon.testing._watch import settle
from gnomon.types.requests import Request
from gnomon.types.steps import Turn

__all__ = ["SessionState"]


class SessionState(SessionSuite):
    """The part of the suite that is about `turn_result`, `status` and `close`."""

    # --- the result of the latest turn

    async def test_there_is_no_result_before_the_first_turn(self) -> None:
        """It is a mistake of the caller's, and nothing to wait for."""
        async with self.staged(says("Hello.")) as stage:
            session = stage.session()
            try:
                await within("the end of turn_result", session.turn_result())
            except RuntimeError:
                pass
            else:
                raise AssertionError("turn_result before the first turn: expected RuntimeError, found a turn")
            await stage.turn(session, "one")

    async def test_the_result_after_a_send_is_that_of_its_turn(self) -> None:
        """Not of the turn before, however soon it is asked for."""
        async with self.staged(lambda request: says(f"re: {request.messages[-1].text}")) as stage:
            session = stage.session()
            for number in range(20):
                await session.send(f"message {number}")
                turn = await stage.result(session)
                expect("the answer", f"re: message {number}", turn.text)
                expect("what it answers", f"message {number}", turn.messages[0].text)

    async def test_the_result_is_waited_for_by_any_number(self) -> None:
        """While the turn runs; one who stops waiting does not stop the turn."""
        gate = Gate()
        async with self.staged([calls("hold"), says("Done.")], tools=[held_tool("hold", gate)]) as stage:
            session, other = stage.session(), stage.session()
            await session.send("one")
            await gate.reached("the tool")
            waiting = asyncio.gather(session.turn_result(), session.turn_result(), other.turn_result())
            async with beside(waiting) as results, beside(session.turn_result()) as impatient:
                impatient.cancel()
                await settle()
                expect("somebody had a result while the turn ran", False, results.done())
                gate.open()
                turns = await within("three results", results)
            expect("the answers", ["Done."] * 3, [turn.text for turn in turns])
            expect("the same turn", 1, len({turn.id for turn in turns}))

    async def test_the_result_can_be_asked_for_again(self) -> None:
        """As often as one likes, also by an object that was made after the turn."""
        async with self.staged(says("Hello.")) as stage:
            turn = await stage.turn(stage.session(), "one")
            again = await stage.result(stage.session())
            what = ("Hello.", turn.id, turn.stop, turn.rounds, turn.usage, turn.messages)
            found = (again.text, again.id, again.stop, again.rounds, again.usage, again.messages)
            expect("the same turn again", what, found)

    # --- status

    async def test_status_says_idle_running_and_idle_again(self) -> None:
        """With the turn, the agent and the model while it runs."""
        gate = Gate()
        script = [calls("hold"), says("Done.")]
        async with self.staged(script, tools=[held_tool("hold", gate)], name="orders") as stage:
            session = stage.session()
            expect("before the first message", "idle", session.status.state)
            await session.send("one")
            await gate.reached("the tool")
            await stage.state(session, "running")
            status = session.status
            expect_some("the turn", status.turn_id)
            expect("the agent", "orders", status.agent)
            expect("the model is named", True, "scripted" in status.model)
            gate.open()
            turn = await stage.result(session)
            expect("the turn that it named", turn.id, status.turn_id)
            await stage.state(session, "idle")
            expect("the turn when none runs", None, session.status.turn_id)

    async def test_the_id_is_the_one_that_was_asked_for(self) -> None:
        """Of any script, and with signs that mean something elsewhere."""
        async with self.staged(lambda request: says("Hello.")) as stage:
            for id in ("order-17", "été/海 #1?x=y", "a" * 200):
                session = stage.session(id)
                expect("the id", id, session.id)
                turn = await stage.turn(session, "one")
                expect("the session of the turn", id, turn.session_id)
                expect_some("its ledger", await stage.ledger(id))

    # --- close

    async def test_close_may_be_called_twice(self) -> None:
        """Before anything was sent, and after."""
        async with self.staged(says("Hello.")) as stage:
            unused, used = stage.session("unused"), stage.session()
            await stage.turn(used, "one")
            for session in (unused, used):
                await within("the end of close", session.close())
                await within("the end of close", session.close())

    async def test_close_during_a_turn_does_not_end_it(self) -> None:
        """Promise 6: the run belongs to the runtime, and what is durable stays."""
        gate = Gate()
        script = [calls("hold"), says("Done."), says("Next.").expecting(text="next")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached("the tool")
            await within("the end of close", session.close())
            gate.open()
            await stage.over(1)
            other = stage.session()
            expect("the result", ("Done.", "end_turn"), _said(await stage.result(other)))
            expect("the next answer", "Next.", (await stage.turn(other, "next")).text)

    async def test_what_one_object_closes_another_still_reads(self) -> None:
        """Sessions of one id share what is stored, and nothing that one of them could close."""
        gate = Gate()
        async with self.staged([calls("hold"), says("Done.")], tools=[held_tool("hold", gate)]) as stage:
            session, other = stage.session(), stage.session()
            async with other.events() as reader:
                await session.send("one")
                await gate.reached("the tool")
                await within("the end of close", session.close())
                gate.open()
                seen = await read_until(reader, is_end)
                expect("the end that was read", "TurnFinished", type(seen[-1]).__name__)

    async def test_the_conversation_goes_on_with_an_object_made_later(self) -> None:
        """What a session is about is in the store, not in the object."""

        def answer(request: Request) -> Line:
            said = [message.text for message in request.messages if message.role == "user"]
            return says(" ".join(said))

        async with self.staged(ScriptedProvider(answer), tools=[StageTool("look")]) as stage:
            for number in range(1, 6):
                session = stage.session()
                turn = await stage.turn(session, str(number))
                expect("what was said so far", " ".join(map(str, range(1, number + 1))), turn.text)
                await session.close()


def _said(turn: Turn[object]) -> tuple[str, str]:
    return turn.text, turn.stop
