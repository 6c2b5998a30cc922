"""Y5: several runtimes on one store. One runs a session; the others send, read, cancel and wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress

from gnomon.errors import Conflict
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.testing._session_audit import answered, ends, is_end, only
from gnomon.testing._session_patience import Gate, Pace, beside, until, within
from gnomon.testing._session_suite import SessionSuite, Stage, is_stored, read_until
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.testing._suite import expect
from gnomon.types.events import (
    LedgerEntry,
    Live,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    SessionEvent,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.requests import Request

__all__ = ["SessionSharing"]


class SessionSharing(SessionSuite):
    """The part of the suite that is about two runtimes."""

    async def test_two_runtimes_that_send_at_once_make_one_conversation(self) -> None:
        """Y5, promise 4: every message once, in one order, and one model call a round."""
        async with self.staged(_slow_echo()) as one, one.another(_slow_echo()) as two:
            sessions = [one.session(), two.session()]
            sends = [sessions[at % 2].send(f"message {at}") for at in range(30)]
            sent = await within("the end of 30 sends", asyncio.gather(*sends))
            ledger = await one.all_answered(sent)
            came = [entry.message_id for entry in ledger if isinstance(entry, MessageReceived)]
            expect("the messages", sorted(sent), sorted(came))
            expect("the messages that were answered, in the order they came", came, answered(ledger))
            _expect_one_call_a_round(one, two, await one.ledger())

    async def test_two_runtimes_that_take_turns_go_on_with_one_conversation(self) -> None:
        """Y5: each sees what the other was told and what its model said."""

        def answer(request: Request) -> Line:
            return says(f"{len(request.messages)} messages")

        async with self.staged(answer) as one, one.another(answer) as two:
            sessions = [one.session(), two.session()]
            for number in range(8):
                turn = await one.turn(sessions[number % 2], f"message {number}")
                expect("what the model has seen", f"{2 * number + 1} messages", turn.text)
            _expect_one_call_a_round(one, two, await one.ledger())

    async def test_the_same_id_sent_by_two_runtimes_is_one_message(self) -> None:
        """Whoever is first; a sender that was moved to another machine tries again there."""
        async with self.staged(_echo) as one, one.another(_echo) as two:
            sends = [stage.session().send("one", message_id="m-1") for stage in (one, two) for _ in range(3)]
            ids = await within("the end of six sends", asyncio.gather(*sends))
            expect("the ids", {"m-1"}, set(ids))
            await one.over(1)
            expect("the messages", ["one"], await one.received())
            await one.turn(two.session(), "two")
            _expect_one_call_a_round(one, two, await one.ledger())

    async def test_what_another_runtime_queues_is_answered_by_whoever_runs(self) -> None:
        """Y2, Y5: after the turn under way, and by one of the two."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            second = await within("the end of send", two.session().send("two"))
            gate.open()
            ledger = await one.all_answered([second])
            expect("turns", 2, len(only(ledger, TurnStarted)))
            expect("what was said", ["", "One.", "re: two"], _said(ledger))
            _expect_one_call_a_round(one, two, ledger)

    async def test_what_another_runtime_steers_reaches_the_turn(self) -> None:
        """Y2: the running owner reads its own session, whoever writes to it."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            await within("the end of send", two.session().send("to the left", when_busy="steer"))
            gate.open()
            ledger = await one.over(1)
            expect("turns", 1, len(only(ledger, TurnStarted)))
            expect("what was said", ["", "re: to the left"], _said(ledger))
            expect("requests of the other runtime", 0, len(two.provider.requests))

    async def test_another_runtime_can_interrupt(self) -> None:
        """Y2: the turn ends at once though its owner is elsewhere, and the message is answered."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            second = await within("the end of send", two.session().send("two", when_busy="interrupt"))
            ledger = await one.all_answered([second])
            found = [type(end).__name__ for end in ends(ledger)]
            expect("how they ended", ["TurnCancelled", "TurnFinished"], found)
            expect("the status of the call", "cancelled", (await one.results())["hold"].status)
            _expect_one_call_a_round(one, two, ledger)

    async def test_another_runtime_can_reject(self) -> None:
        """Y2: that the session is busy is known from its ledger, not from this process."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            try:
                await within("the end of send", two.session().send("two", when_busy="reject"))
            except Conflict:
                pass
            else:
                raise AssertionError("a message during a turn elsewhere: expected Conflict, and it was taken")
            gate.open()
            await one.over(1)
            expect("the messages", ["one"], await one.received())

    async def test_another_runtime_can_cancel(self) -> None:
        """The owner is told at once, and the canceller returns when the turn has ended."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            session = two.session()
            await within("the end of cancel", session.cancel())
            turn = await two.result(session)
            expect("how the turn ended", "cancelled", turn.stop)
            expect("the next answer", "re: next", (await one.turn(one.session(), "next")).text)

    async def test_another_runtime_waits_for_the_result(self) -> None:
        """And does not run anything for it."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            async with beside(two.session().turn_result()) as waiting:
                expect("it had a result while the turn ran", False, waiting.done())
                gate.open()
                turn = await within("the result, elsewhere", waiting)
            expect("the result", ("One.", "end_turn"), (turn.text, turn.stop))
            expect("requests of the other runtime", 0, len(two.provider.requests))
            await one.over(1)

    async def test_another_runtime_reads_the_same_entries(self) -> None:
        """Y3: in the same order, while they are written."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            async with two.session().events() as reader:
                gate.open()
                seen = [event for event in await read_until(reader, is_end) if is_stored(event)]
            expect("what was read elsewhere", (await one.over(1))[: len(seen)], seen)

    async def test_a_runtime_that_only_looks_runs_nothing(self) -> None:
        """Y5: reading, asking for the status and going on with what somebody has are no reason to claim."""
        gate = Gate()
        async with self._held(gate) as (one, two):
            session, before = two.session(), await one.ledger()
            async with session.events() as reader:
                await read_until(reader, lambda event: isinstance(event, MessageCompleted))
            _ = session.status
            async with beside(_shrugged(two.resuming(session).resume())):
                await two.turn(two.session("marker"), "so much for that")  # it has had its chance
                expect("the ledger", before, await one.ledger())
                gate.open()
                ledger = await one.over(1)
            expect("what was said", ["", "One."], _said(ledger))
            expect("requests of the other runtime", 1, len(two.provider.requests))

    async def test_a_session_can_be_taken_over_and_its_former_owner_stops(self) -> None:
        """Promise 4: the one that was superseded asks no model and stores nothing any more."""
        gate = Gate()

        async def held(request: Request) -> Line:
            if request.messages[0].text != "one":
                return says("Still here.")
            await gate.wait()
            return calls("save")

        tool, zombie = StageTool("save"), ScriptedProvider(held)
        async with self.staged([says("Mine.")]) as one, one.another(zombie, tools=[tool]) as two:
            await two.session().send("one")
            await gate.reached("the model of the first owner")
            session = one.session()
            async with beside(one.resuming(session).resume(take_over=True)):
                turn = await one.result(session)
            expect("the answer", "Mine.", turn.text)
            gate.open()
            await two.turn(two.session("marker"), "another")  # the former owner has had its chance
            asked = [request for request in zombie.requests if request.messages[0].text == "one"]
            expect("requests of the former owner", 1, len(asked))
            expect("runs of its tool", 0, tool.runs)
            expect("what was said", ["Mine."], _said(await one.over(1)))

    # --- when one of them ends

    async def test_a_turn_goes_on_elsewhere_when_its_runtime_ends(self) -> None:
        """A runtime that is closed does not end the turn; whoever asks for the result goes on with it."""
        gate = Gate()
        tools = [held_tool("look", gate, read_only=True)]
        script = [says("Done.").expecting(result="let go")]
        async with self.staged(script, tools=[held_tool("look", _opened(), read_only=True)]) as one:
            async with one.another([calls("look")], tools=tools) as two:
                await two.session().send("one")
                await gate.reached("the tool")
            turn = await one.result(one.session())
            expect("the result", ("Done.", "end_turn"), (turn.text, turn.stop))

    async def test_a_message_goes_on_elsewhere_when_its_runtime_ends(self) -> None:
        """In the middle of an answer: it is asked for again, and who reads along sees it start again."""
        pace = Pace()
        broken = ScriptedProvider(lambda request: says("Never to be finished."), delay_s=1, sleep=pace)
        async with self.staged([says("Whole and true.")]) as one:
            session = one.session()
            async with session.events() as reader:
                async with one.another(broken) as two:
                    await two.session().send("one")
                    await until("the model in the middle of its answer", lambda: pace.held)
                expect("the result", "Whole and true.", (await one.result(session)).text)
                seen = await read_until(reader, is_end)
        attempts = [event.attempt for event in seen if isinstance(event, ModelStarted)]
        expect("two attempts, the second higher", True, len(attempts) == 2 and attempts[0] < attempts[1])
        _expect_restarts(seen)

    async def test_a_runtime_that_ends_right_after_a_send_loses_nothing_and_leaves_nothing(self) -> None:
        """However far it had come with it: the message is durable, and is answered by whoever is there."""
        async with self.staged(_echo) as one:
            sent: list[str] = []
            for number in range(8):
                async with one.another(_echo) as two:
                    sent.append(await two.session().send(f"message {number}"))
                    for _ in range(number):
                        await asyncio.sleep(0)
            await one.result(one.session())
            ledger = await one.all_answered(sent)
            expect("the messages in the order of their turns", sent, answered(ledger))

    async def test_the_next_message_is_answered_elsewhere_when_a_runtime_ends(self) -> None:
        """The session was released, or its owner is known to be gone."""
        async with self.staged(_echo) as one:
            async with one.another(_echo) as two:
                expect("the first answer", "re: one", (await two.turn(two.session(), "one")).text)
            expect("the second answer", "re: two", (await one.turn(one.session(), "two")).text)
            expect("how they ended", 2, len(only(await one.ledger(), TurnFinished)))

    # --- what they share

    @asynccontextmanager
    async def _held(self, gate: Gate) -> AsyncGenerator[tuple[Stage, Stage], None]:
        """Two runtimes; the first is in the middle of a call, which ends when the gate opens."""
        tools = [held_tool("hold", gate)]
        async with self.staged(_holding, tools=tools) as one, one.another(_holding, tools=tools) as two:
            await one.session().send("one")
            await gate.reached("the tool")
            yield one, two


def _echo(request: Request) -> Line:
    return says(f"re: {request.messages[-1].text}")


def _holding(request: Request) -> Line:
    """A call of `hold` for the first message, and then an answer to whatever stands last."""
    if request.messages[-1].role == "tool":
        return says("One.")
    return calls("hold") if request.messages[-1].text == "one" else _echo(request)


def _slow_echo() -> ScriptedProvider:
    """One that gives way at every word, so that two could get into each other's way."""
    pace = Pace()
    pace.free()
    return ScriptedProvider(_echo, delay_s=1, sleep=pace)


def _opened() -> Gate:
    gate = Gate()
    gate.open()
    return gate


async def _shrugged(work: Awaitable[object]) -> None:
    """Going on with a session that another runs may wait for it or be refused, as it likes."""
    with suppress(Conflict):
        await work


def _expect_restarts(seen: Sequence[SessionEvent]) -> None:
    """Deltas by the rule of a reader: attempts only rise, and each begins with 0 and has no gap."""
    latest, places = (0, 0), list[int]()
    for event in seen:
        if isinstance(event, Live):
            expect("an attempt is never lower than the one before", True, event.attempt >= latest)
            places = [] if event.attempt > latest else places
            latest = event.attempt
            places.append(event.idx)
            expect("the places of an attempt", list(range(len(places))), places)


def _said(ledger: Sequence[LedgerEntry]) -> list[str]:
    return [entry.message.text for entry in ledger if isinstance(entry, MessageCompleted)]


def _expect_one_call_a_round(one: Stage, two: Stage, ledger: Sequence[LedgerEntry]) -> None:
    requests = len(one.provider.requests) + len(two.provider.requests)
    rounds = len(only(ledger, MessageCompleted))
    expect(
        "requests of both, questions and answers",
        (requests, requests),
        (len(only(ledger, ModelStarted)), rounds),
    )
