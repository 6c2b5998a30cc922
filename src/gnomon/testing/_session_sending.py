"""Giving a session something to answer: ids, and what becomes of a message during a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from gnomon.errors import Conflict
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.testing._session_audit import answered, ends, only
from gnomon.testing._session_patience import Gate, Pace, until, within
from gnomon.testing._session_suite import SessionSuite
from gnomon.testing._session_tools import held_tool
from gnomon.testing._suite import expect
from gnomon.types.events import (
    LedgerEntry,
    MessageReceived,
    ModelStarted,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Image, Message, Text
from gnomon.types.requests import Request

__all__ = ["SessionSending"]


class SessionSending(SessionSuite):
    """The part of the suite that is about `send`."""

    # --- the message itself

    async def test_send_returns_the_id_of_a_message_that_is_stored(self) -> None:
        """It is durable when `send` returns, before the model has said a word."""
        gate = Gate()
        async with self.staged(_held_answer(gate)) as stage:
            message_id = await stage.session().send("Hello.")
            stored = [entry for entry in await stage.ledger() if isinstance(entry, MessageReceived)]
            expect("the stored messages", [(message_id, "Hello.")], _told(stored))
            gate.open()
            await stage.over(1)

    async def test_a_message_keeps_the_id_it_was_sent_with(self) -> None:
        """So that whoever sent it can send it again."""
        async with self.staged(says("Hi.")) as stage:
            session = stage.session()
            expect("the id that was given", "m-1", await session.send("Hello.", message_id="m-1"))
            await stage.over(1)
            expect("the stored id", ["m-1"], answered(await stage.ledger()))

    async def test_messages_without_an_id_get_one_each(self) -> None:
        """The same text twice is two messages."""
        async with self.staged(_echo) as stage:
            session = stage.session()
            sent = [await session.send("Again.") for _ in range(3)]
            expect("different ids", 3, len(set(sent)))
            ledger = await stage.all_answered(sent)
            expect("the messages, in the order they were sent", sent, _ids(ledger))

    async def test_the_same_id_twice_is_one_message(self) -> None:
        """At once, one after the other, after the answer, and from another object."""
        script = [says("One.").expecting(text="one"), says("Two.").expecting(text="two")]
        async with self.staged(script) as stage:
            session, other = stage.session(), stage.session()
            twice = await asyncio.gather(*(each.send("one", message_id="m-1") for each in (session, other)))
            expect("the ids given", ["m-1", "m-1"], list(twice))
            expect("the id given again", "m-1", await session.send("one", message_id="m-1"))
            await stage.over(1)
            expect("the id given after the answer", "m-1", await session.send("one", message_id="m-1"))
            await session.send("two", message_id="m-2")
            ledger = await stage.over(2)
            expect("the stored messages", ["m-1", "m-2"], _ids(ledger))

    async def test_the_same_id_again_during_its_turn_is_the_same_message_under_every_rule(self) -> None:
        """A sender that was not told tries again: that is no second message, whatever it says of those."""
        gate = Gate()
        async with self.staged(_held_answer(gate)) as stage:
            session = stage.session()
            await session.send("one", message_id="m-1")
            await gate.reached("the model")
            for rule in ("queue", "reject", "interrupt", "steer"):
                again = session.send("one", when_busy=rule, message_id="m-1")
                expect(f"the id given under {rule!r}", "m-1", await within("the end of send", again))
            gate.open()
            ledger = await stage.over(1)
            expect("the stored messages", ["m-1"], _ids(ledger))
            expect("how the turn ended", ["TurnFinished"], [type(end).__name__ for end in ends(ledger)])

    async def test_every_kind_of_input_reaches_the_model(self) -> None:
        """Text, a part, a list of both, and a whole message."""
        picture = Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")
        script = [
            says("1").expecting(text="plain", images=0),
            says("2").expecting(images=1),
            says("3").expecting(text="look", images=1),
            says("4").expecting(text="whole", check=lambda request: request.messages[-1].name == "Ada"),
            says("5").expecting(text="part"),
        ]
        async with self.staged(script) as stage:
            session = stage.session()
            whole = Message.user("whole", name="Ada")
            for number, given in enumerate(("plain", picture, ["look", picture], whole, Text("part")), 1):
                turn = await stage.turn(session, given)
                expect(f"the answer to input {number}", str(number), turn.text)

    async def test_sessions_do_not_mix(self) -> None:
        """Many at once in one runtime: each sees its own messages and nothing else."""
        async with self.staged(_echo_of_one) as stage:
            sessions = [stage.session(f"s{at}") for at in range(8)]
            turns = await asyncio.gather(*(stage.turn(each, f"I am {each.id}") for each in sessions))
            expect("the answers", [f"re: I am s{at}" for at in range(8)], [turn.text for turn in turns])
            expect("the sessions of the turns", [each.id for each in sessions], [t.session_id for t in turns])

    # --- during a turn (Y2)

    async def test_a_queued_message_is_answered_by_a_turn_of_its_own(self) -> None:
        """Y2: after the one that runs, which is not shown it."""
        gate = Gate()
        script = [
            calls("hold").expecting(text="one"),
            says("One.").expecting(text="one", result="let go"),
            says("Two.").expecting(text="two"),
        ]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            first = await session.send("one")
            await gate.reached("the tool")
            second = await within("the end of send", session.send("two", when_busy="queue"))
            gate.open()
            ledger = await stage.over(2)
            _expect_turns(ledger, [first], [second])
            shown = [message.role for message in stage.provider.requests[2].messages]
            expect("what the second turn shows", ["user", "assistant", "tool", "assistant", "user"], shown)

    async def test_several_queued_messages_are_answered_in_order(self) -> None:
        """Y2: each once, none before one that was sent earlier."""
        gate = Gate()

        def answer(request: Request) -> Line:
            is_first = len(request.messages) == 1
            return calls("hold") if is_first else says(f"re: {_last_user(request)}")

        async with self.staged(answer, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            sent = [await session.send("one")]
            await gate.reached("the tool")
            sent += [await session.send(f"queued {at}") for at in range(5)]
            gate.open()
            ledger = await stage.all_answered(sent)
            expect("the messages in the order of their turns", sent, answered(ledger))
            expect("the last answer", "re: queued 4", (await stage.result(session)).text)

    async def test_a_rejected_message_is_a_conflict_and_leaves_no_trace(self) -> None:
        """Y2: and when nothing runs it is taken like any other."""
        gate = Gate()
        script = [calls("hold"), says("One.").expecting(text="one"), says("Two.").expecting(text="three")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one", when_busy="reject")
            await gate.reached("the tool")
            before = await stage.ledger()
            await _expect_conflict(session.send("two", when_busy="reject"))
            expect("the ledger after a rejected message", before, await stage.ledger())
            gate.open()
            await stage.over(1)
            await session.send("three", when_busy="reject")
            await stage.over(2)
            expect("the messages", ["one", "three"], await stage.received())

    async def test_an_interrupt_during_a_call_takes_the_place_of_the_turn(self) -> None:
        """Y2, L3: the call is stopped and has its one result, and the new message is answered."""
        gate = Gate()
        script = [calls("hold").expecting(text="one"), says("Two.").expecting(text="two")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            first = await session.send("one")
            await gate.reached("the tool")
            second = await within("the end of send", session.send("two", when_busy="interrupt"))
            ledger = await stage.over(2)
            _expect_turns(ledger, [first], [second])
            expect("how they ended", ["TurnCancelled", "TurnFinished"], only(ledger, *_ENDS))
            expect("the status of the call", "cancelled", (await stage.results())["hold"].status)
            expect("the answer", "Two.", (await stage.result(session)).text)

    async def test_an_interrupt_while_the_model_speaks_takes_the_place_of_the_turn(self) -> None:
        """Y2: what it was about to say is not waited for."""
        pace = Pace()
        script = [says("One thing after another."), says("Two.").expecting(text="two")]
        provider = ScriptedProvider(script, delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            await session.send("one")
            await until("the model in the middle of its answer", lambda: pace.held)
            await within("the end of send", session.send("two", when_busy="interrupt"))
            pace.free()
            ledger = await stage.over(2)
            expect("how they ended", ["TurnCancelled", "TurnFinished"], only(ledger, *_ENDS))
            expect("the answer", "Two.", (await stage.result(session)).text)

    async def test_an_interrupt_when_nothing_runs_is_a_message(self) -> None:
        """Y2: there is nothing whose place it could take."""
        async with self.staged([says("One."), says("Two.")]) as stage:
            session = stage.session()
            for text in ("one", "two"):
                await session.send(text, when_busy="interrupt")
                await stage.over(1 if text == "one" else 2)
            expect("how they ended", ["TurnFinished"] * 2, only(await stage.ledger(), *_ENDS))

    async def test_a_message_that_steers_is_in_the_next_request_of_the_turn(self) -> None:
        """Y2: the running turn is given it, and no other turn answers it."""
        gate = Gate()
        script = [
            calls("hold").expecting(text="one"),
            says("Steered.").expecting(text="to the left"),
            says("Next.").expecting(text="next"),
        ]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            first = await session.send("one")
            await gate.reached("the tool")
            second = await within("the end of send", session.send("to the left", when_busy="steer"))
            gate.open()
            ledger = await stage.over(1)
            _expect_turns(ledger, [first, second])
            shown = [message.role for message in stage.provider.requests[1].messages]
            expect("what the model was shown", ["user", "assistant", "tool", "user"], shown)
            steering = [entry.inputs for entry in ledger if isinstance(entry, ModelStarted)]
            expect("the inputs of the requests", [(), (second,)], steering)
            await stage.turn(session, "next")

    async def test_a_message_that_steers_too_late_is_answered_all_the_same(self) -> None:
        """Y2: the last request of the turn is out already; the message must not be lost."""
        gate = Gate()

        async def answer(request: Request) -> Line:
            if len(request.messages) == 1:
                await gate.wait()
                return says("One.")
            return says(f"re: {_last_user(request)}")

        async with self.staged(answer) as stage:
            session = stage.session()
            sent = [await session.send("one")]
            await gate.reached("the model")
            sent.append(await within("the end of send", session.send("two", when_busy="steer")))
            gate.open()
            await stage.all_answered(sent)
            expect("the last answer", "re: two", (await stage.result(session)).text)

    async def test_a_message_that_steers_when_nothing_runs_starts_a_turn(self) -> None:
        """Y2: there is nothing to steer, and it must not wait for ever."""
        async with self.staged(says("One.").expecting(text="one")) as stage:
            await stage.session().send("one", when_busy="steer")
            await stage.over(1)

    async def test_a_queued_message_is_answered_when_the_turn_before_it_is_cancelled(self) -> None:
        """Y1, Y2: a cancel is for the turn that runs, not for what waits."""
        gate = Gate()
        script = [calls("hold"), says("Two.").expecting(text="two")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached("the tool")
            await session.send("two")
            await within("the end of cancel", session.cancel())
            ledger = await stage.over(2)
            expect("how they ended", ["TurnCancelled", "TurnFinished"], only(ledger, *_ENDS))

    async def test_many_senders_at_once_lose_nothing(self) -> None:
        """D7, seen from here: one order, every message once, every message answered."""
        async with self.staged(_echo) as stage:
            sessions = [stage.session() for _ in range(4)]
            sends = [sessions[at % 4].send(f"message {at}") for at in range(40)]
            sent = await within("the end of 40 sends", asyncio.gather(*sends))
            ledger = await stage.all_answered(sent)
            expect("the messages", sorted(sent), sorted(_ids(ledger)))
            expect("the messages that were answered, in the order they came", _ids(ledger), answered(ledger))


_ENDS = (TurnFinished, TurnCancelled)


def _echo(request: Request) -> Line:
    return says(f"re: {_last_user(request)}")


def _echo_of_one(request: Request) -> Line:
    if len(request.messages) != 1:
        raise AssertionError(f"expected the one message of a new session, found {len(request.messages)}")
    return _echo(request)


def _last_user(request: Request) -> str:
    return next(message.text for message in reversed(request.messages) if message.role == "user")


def _held_answer(gate: Gate) -> ScriptedProvider:
    """A model that answers once, and only when the gate is open."""

    async def answer(request: Request) -> Line:
        await gate.wait()
        return says("Here I am.")

    return ScriptedProvider([answer])


def _told(stored: list[MessageReceived]) -> list[tuple[str, str]]:
    return [(entry.message_id, entry.message.text) for entry in stored]


def _ids(ledger: list[LedgerEntry]) -> list[str]:
    return [entry.message_id for entry in ledger if isinstance(entry, MessageReceived)]


def _expect_turns(ledger: list[LedgerEntry], *inputs: list[str]) -> None:
    """That many turns, each with these messages."""
    turns = [entry for entry in ledger if isinstance(entry, TurnStarted)]
    expect("turns", len(inputs), len(turns))
    expect(
        "the messages in the order they were taken",
        [each for one in inputs for each in one],
        answered(ledger),
    )


async def _expect_conflict(sending: Awaitable[str]) -> None:
    try:
        await within("the end of send", sending)
    except Conflict:
        return
    raise AssertionError("a message that is to be rejected: expected Conflict, and it was taken")
