"""One turn read by whoever asked for it: `stream`, and `follow` for the one that is open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gnomon.contracts.session import SessionRun
from gnomon.contracts.tool import ToolContext
from gnomon.errors import AskUser, Overloaded, TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, fails, says
from gnomon.testing._session_audit import answered, ends, is_end, only
from gnomon.testing._session_patience import PATIENCE_S, Gate, Pace, beside, until, within
from gnomon.testing._session_suite import SessionSuite
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.testing._suite import expect
from gnomon.testing._watch import Watch
from gnomon.types.events import (
    CancelRequested,
    LedgerEntry,
    MessageReceived,
    ModelStarted,
    RunEvent,
    TextDelta,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)

__all__ = ["SessionStreaming"]

_LONG = "One two three four."
_LOOKS = 100


class SessionStreaming(SessionSuite):
    """The part of the suite that is about reading one turn."""

    # --- what is read

    async def test_a_stream_gives_the_turn_that_answers_what_it_sends(self) -> None:
        """From its beginning to its end, with what is being said; the turn is there afterwards."""
        async with self.staged([says("One."), says(_LONG)]) as stage:
            session = stage.session()
            await stage.turn(session, "one")
            run = stage.streaming(session).stream("two")
            seen = await _read(run)
            kinds = [type(event) for event in seen if isinstance(event, TurnStarted | ModelStarted)]
            expect("how it begins", [TurnStarted, ModelStarted], kinds)
            expect("how it ends", TurnFinished, type(seen[-1]))
            expect("what was being said", _LONG, _said(seen))
            expect("the turn", (_LONG, "two"), (run.turn.text, run.turn.messages[0].text))
            expect("the turn that ended", ends(await stage.over(2))[-1].turn_id, run.turn.id)

    async def test_nothing_is_sent_before_the_first_event_is_read(self) -> None:
        """A stream that nobody reads leaves no trace, and may be closed twice."""
        async with self.staged(says("One.")) as stage:
            session = stage.session()
            run = stage.streaming(session).stream("never")
            await run.aclose()
            await run.aclose()
            await stage.turn(session, "one")
            expect("what was sent", ["one"], await stage.received())

    async def test_a_stream_shows_nothing_of_the_turns_before_it(self) -> None:
        """Neither of the one that runs nor of one that waits; they are read, and come first."""
        pace = Pace()
        provider = ScriptedProvider([says("First."), says("Second."), says("Third.")], delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            await session.send("one")
            await until("the model in the middle of its answer", lambda: pace.held)
            await session.send("two")
            run = stage.streaming(session).stream("three")
            async with beside(_read(run)) as reading:
                await stage.until_ledger("the third message", lambda found: _received(found) == 3)
                pace.free()
                seen = await within("the turn", reading)
            expect("what was being said", "Third.", _said(seen))
            expect(
                "turns that were seen", 1, len([event for event in seen if isinstance(event, TurnStarted)])
            )
            expect("the turn", "Third.", run.turn.text)
            await stage.over(3)

    async def test_a_steering_stream_shows_the_turn_from_where_it_was_taken(self) -> None:
        """It is answered by the turn that runs, and that turn is what is given."""
        gate = Gate()
        script = [calls("hold"), says("Steered.")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached()
            run = stage.streaming(session).stream("two", when_busy="steer")
            async with beside(_read(run)) as reading:
                await stage.until_ledger("the second message", lambda found: _received(found) == 2)
                gate.open()
                seen = await within("the turn", reading)
            expect("what was being said", "Steered.", _said(seen))
            texts = [message.text for message in run.turn.messages if message.role == "user"]
            expect("what the turn was asked", ["one", "two"], texts)
            await stage.over(1)

    async def test_a_turn_that_fails_is_streamed_with_its_error(self) -> None:
        """It is told as it is over a wire, and the session takes the next message (Y1)."""
        async with self.staged([fails(Overloaded("too many")), says("Again.")]) as stage:
            session = stage.session()
            run = stage.streaming(session).stream("one")
            seen = await _read(run)
            expect("how it ends", TurnFailed, type(seen[-1]))
            error = run.turn.error
            expect("the error", "overloaded", error.code if error is not None else None)
            await stage.turn(session, "two")

    async def test_a_turn_of_another_runtime_is_streamed_from_there(self) -> None:
        """Y4, Y5: whoever runs it, whoever asked for it reads it."""
        pace = Pace()
        provider = ScriptedProvider(lambda _: says(_LONG), delay_s=1, sleep=pace)
        async with self.staged(provider) as one, one.another(lambda _: says(_LONG)) as two:
            await one.session().send("one")
            await until("the model in the middle of its answer", lambda: pace.held)
            run = two.streaming(two.session()).stream("two")
            async with beside(_read(run)) as reading:
                await one.until_ledger("the second message", lambda found: _received(found) == 2)
                pace.free()
                await within("the turn", reading)
            expect("the turn", (_LONG, "two"), (run.turn.text, run.turn.messages[0].text))
            await one.over(2)

    # --- what waits for a person

    async def test_a_stream_ends_where_its_turn_waits_for_a_person(self) -> None:
        """`turn` says so; once it is answered, `follow` gives the rest."""
        script = [calls("ask"), says("Red it is.").expecting(result="red")]
        async with self.staged(script, tools=[_asking_tool()]) as stage:
            session = stage.session()
            run = stage.streaming(session).stream("Paint it.")
            await _read(run)
            _expect_unfinished(run)
            rest = await stage.streaming(session).follow()
            assert rest is not None
            await stage.answering(session).answer("red")
            seen = await _read(rest)
            expect("what was being said", "Red it is.", _said(seen))
            expect("the turn", ("Paint it.", "Red it is."), (rest.turn.messages[0].text, rest.turn.text))

    async def test_a_stream_behind_a_turn_that_waits_ends_at_once(self) -> None:
        """Its message stays in its place, and is answered after that turn."""
        script = [calls("ask"), says("Red it is.").expecting(result="red"), says("Next.")]
        async with self.staged(script, tools=[_asking_tool()]) as stage:
            session = stage.session()
            await _read(stage.streaming(session).stream("Paint it."))
            run = stage.streaming(session).stream("and then?")
            expect("what was seen", [], await _read(run))
            _expect_unfinished(run)
            await stage.answering(session).answer("red")
            ledger = await stage.over(2)
            expect("messages that were answered", 2, len(answered(ledger)))

    async def test_an_interrupting_stream_takes_the_place_of_a_turn_that_waits(self) -> None:
        """Y2: nothing is waited for that is about to be cancelled."""
        script = [calls("ask"), says("Instead.")]
        async with self.staged(script, tools=[_asking_tool()]) as stage:
            session = stage.session()
            await _read(stage.streaming(session).stream("Paint it."))
            run = stage.streaming(session).stream("something else", when_busy="interrupt")
            await _read(run)
            expect("the turn", ("Instead.", "end_turn"), (run.turn.text, run.turn.stop))
            found = [type(end).__name__ for end in ends(await stage.over(2))]
            expect("ends", ["TurnCancelled", "TurnFinished"], found)

    # --- leaving

    async def test_who_leaves_a_stream_cancels_its_turn(self) -> None:
        """By leaving the block or by a cancelled task; nothing is left behind (Y1)."""
        pace = Pace()
        provider = ScriptedProvider([says(_LONG), says(_LONG), says("Next.")], delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            async with stage.streaming(session).stream("one") as run:
                await _until_delta(run)
            expect("how it ended", TurnCancelled, type((await stage.over(1))[-2]))
            with Watch() as watch:
                async with beside(_read(stage.streaming(session).stream("two"))) as reading:
                    await stage.until_ledger("the second question", lambda found: len(_asked(found)) == 2)
                    reading.cancel()
                    await asyncio.wait({reading})
            expect("left behind by a reader", [], await _left_behind(watch))
            ledger = await stage.over(2)
            expect("ends", ["TurnCancelled"] * 2, [type(end).__name__ for end in ends(ledger)])
            pace.free()
            await stage.turn(session, "three")

    async def test_who_detaches_leaves_the_turn_alone(self) -> None:
        """It goes on, and ends as it would have."""
        pace = Pace()
        provider = ScriptedProvider(says(_LONG), delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            async with beside(_read(stage.streaming(session).stream("one", on_leave="detach"))):
                await until("the model in the middle of its answer", lambda: pace.held)
            pace.free()
            expect("the turn", _LONG, (await stage.result(session)).text)
            expect("cancels", [], only(await stage.over(1), CancelRequested, TurnCancelled))

    async def test_who_leaves_the_queue_cancels_nothing(self) -> None:
        """The turn that runs is another's, and the message stays."""
        gate = Gate()
        script = [calls("hold"), says("First."), says("Second.")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached()
            async with beside(_read(stage.streaming(session).stream("two"))):
                await stage.until_ledger("the second message", lambda found: _received(found) == 2)
            gate.open()
            ledger = await stage.over(2)
            expect("cancels", [], only(ledger, CancelRequested, TurnCancelled))

    # --- following

    async def test_the_turn_that_is_open_is_followed_to_its_end(self) -> None:
        """From where it stands; leaving does not disturb it unless that was asked for."""
        gate = Gate()
        async with self.staged([calls("hold"), says("Done.")], tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached()
            left, run = [await stage.streaming(session).follow() for _ in range(2)]
            assert left is not None
            assert run is not None
            async with beside(_read(left)):
                pass
            gate.open()
            seen = await _read(run)
            expect("beginnings that were seen", [], [e for e in seen if isinstance(e, TurnStarted)])
            expect("what was being said", "Done.", _said(seen))
            expect("the turn", ("one", "Done."), (run.turn.messages[0].text, run.turn.text))

    async def test_what_happens_before_it_is_read_is_not_missed(self) -> None:
        """The turn may even have ended by then, and others after it."""
        gate = Gate()
        script = [calls("hold"), says("Done."), says("Next.")]
        async with self.staged(script, tools=[held_tool("hold", gate)]) as stage:
            session = stage.session()
            await session.send("one")
            await gate.reached()
            run = await stage.streaming(session).follow()
            assert run is not None
            gate.open()
            await session.send("two")
            await stage.over(2)
            seen = await _read(run)
            expect("ends that were seen", 1, len([event for event in seen if is_end(event)]))
            expect("the turn", "Done.", run.turn.text)

    async def test_there_is_nothing_to_follow_where_nothing_is_open(self) -> None:
        async with self.staged(says("One.")) as stage:
            session = stage.session()
            expect("before the first turn", None, await stage.streaming(session).follow())
            await stage.turn(session, "one")
            expect("after it", None, await stage.streaming(session).follow())


def _asking_tool() -> StageTool:
    async def ask(context: ToolContext) -> object:
        raise AskUser("Which colour?", options=("red", "blue"))

    return StageTool("ask", ask)


def _expect_unfinished(run: SessionRun) -> None:
    try:
        found: object = run.turn
    except TurnUnfinished:
        return
    raise AssertionError(f"the turn waits for a person, and was given all the same: {found!r}")


async def _read(run: SessionRun) -> list[RunEvent]:
    """All of it, in the task that also leaves."""
    async with asyncio.timeout(PATIENCE_S), run:
        return [event async for event in run]


async def _until_delta(run: SessionRun) -> None:
    async for event in run:
        if isinstance(event, TextDelta):
            return


async def _left_behind(watch: Watch) -> list[str]:
    """What stays. A store may need a moment more, to tell other processes of the last write."""
    left: list[str] = []
    for _ in range(_LOOKS):
        left = await watch.left()
        if not left:
            break
        await asyncio.sleep(0.01)
    return left


def _said(seen: Sequence[RunEvent]) -> str:
    return "".join(event.text for event in seen if isinstance(event, TextDelta))


def _received(ledger: list[LedgerEntry]) -> int:
    return len(only(ledger, MessageReceived))


def _asked(ledger: list[LedgerEntry]) -> list[str]:
    return only(ledger, ModelStarted)
