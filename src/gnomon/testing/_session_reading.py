"""Y3: any number of readers, each from its own place; a run belongs to the runtime and not to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from gnomon.contracts.session import Session, SessionReader
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.stream import StreamFold
from gnomon.testing._session_audit import is_end
from gnomon.testing._session_patience import Gate, Pace, beside, until, within
from gnomon.testing._session_suite import SessionSuite, Stage, is_stored, next_event, read_until
from gnomon.testing._session_tools import FollowedProvider, ProgressTool, StageTool
from gnomon.testing._suite import expect
from gnomon.testing._watch import Watch
from gnomon.types.events import (
    Live,
    MessageCompleted,
    SessionEvent,
    TextDelta,
    ToolProgress,
)

__all__ = ["SessionReading"]


class SessionReading(SessionSuite):
    """The part of the suite that is about `events`."""

    # --- from which place

    async def test_a_reader_from_the_start_sees_every_entry_in_order(self) -> None:
        """Y3: of turns that are over and of the one that comes, and knows its place at each."""
        async with self._with_tool() as stage:
            session = stage.session()
            await stage.turn(session, "one")
            await session.send("two")
            ledger = await stage.over(2)
            async with session.events() as reader:
                for seq, entry in enumerate(ledger, start=1):
                    seen = await _next_stored(reader)
                    expect(f"entry {seq}", entry, seen)
                    expect(f"the reader's place at entry {seq}", seq, reader.position)

    async def test_a_reader_from_the_middle_sees_what_comes_after_it(self) -> None:
        """Y3: from every place there is, and nothing from before it."""
        async with self._with_tool(turns=1) as stage:
            session = stage.session()
            await stage.turn(session, "one")
            ledger = await stage.over(1)
            for after in range(len(ledger)):
                async with session.events(after) as reader:
                    seen = [await _next_stored(reader) for _ in ledger[after:]]
                    expect(f"what comes after {after}", ledger[after:], seen)
                    expect("the reader's place", len(ledger), reader.position)

    async def test_a_reader_from_the_end_sees_only_what_comes(self) -> None:
        """Y3: it waits for it, and its place is where it began until then."""
        async with self._with_tool() as stage:
            session = stage.session()
            await stage.turn(session, "one")
            end = len(await stage.over(1))
            async with session.events(end) as reader:
                expect("its place before it has read", end, reader.position)
                await session.send("two")
                seen = await read_until(reader, is_end)
                ledger = await stage.over(2)
                stored = [event for event in seen if is_stored(event)]
                expect("what it saw", ledger[end : end + len(stored)], stored)

    async def test_a_reader_may_come_before_the_first_message(self) -> None:
        """Y3: the session is made by the first send, and the reader sees it."""
        async with self.staged(says("Hello.")) as stage:
            session = stage.session()
            async with session.events() as reader, beside(read_until(reader, is_end)) as reading:
                expect("the reader has ended", False, reading.done())
                await session.send("one")
                seen = await within("the end of the turn, read", reading)
            stored = [event for event in seen if is_stored(event)]
            expect("what it saw", (await stage.over(1))[: len(stored)], stored)

    # --- how many, and how fast

    async def test_three_readers_each_read_everything_at_their_own_pace(self) -> None:
        """Y3: one at once, one with pauses, one only when all is over."""
        async with self._with_tool() as stage:
            session = stage.session()

            async def read(pause_s: float) -> list[SessionEvent]:
                async with session.events() as reader:
                    return await _read_turns(reader, 2, pause_s)

            async with session.events() as late, beside(asyncio.gather(read(0.0), read(0.01))) as reading:
                await stage.turn(session, "one")
                await stage.turn(session, "two")
                ledger = await stage.over(2)
                seen = [*await within("two readers", reading), await _read_turns(late, 2)]
            for events in seen:
                stored = [event for event in events if is_stored(event)]
                expect("what one of three has read", ledger[: len(stored)], stored)

    async def test_a_reader_that_never_reads_does_not_hold_up_the_run(self) -> None:
        """Y3: nor does one that stops in the middle; both find everything when they go on."""
        long = says("word " * 2_000)
        async with self.staged([long, says("Two."), says("Three.")]) as stage:
            session = stage.session()
            async with session.events() as never, session.events() as stopped:
                await session.send("one")
                await next_event(stopped)
                await stage.over(1)
                for number, text in enumerate(("two", "three"), start=2):
                    await session.send(text)
                    await stage.over(number)
                ledger = await stage.ledger()
                expect("the one that never read", ledger, await _stored(never, len(ledger)))
                expect("the one that stopped", ledger[1:], await _stored(stopped, len(ledger) - 1))

    async def test_leaving_does_not_disturb_the_run(self) -> None:
        """Promise 6: by leaving the block, by a cancelled task, or by an error in the middle of a message."""
        pace = Pace()
        provider = ScriptedProvider(says("One two three four."), delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            await session.send("one")
            await until("the model in the middle of its answer", lambda: pace.held)
            async with session.events() as reader:  # what is kept for all readers is there from now on
                await read_until(reader, _is_delta)
            with Watch() as watch:
                async with session.events() as reader:
                    await read_until(reader, _is_delta)
                async with beside(_read_all(session)) as reading:
                    reading.cancel()
                try:
                    async with session.events() as reader:
                        await read_until(reader, _is_delta)
                        raise ZeroDivisionError("a bug of the reader")
                except ZeroDivisionError:
                    pass
            expect("left behind by readers", [], await watch.left())
            pace.free()
            turn = await stage.result(session)
            expect("the answer", ("One two three four.", "end_turn"), (turn.text, turn.stop))

    async def test_a_reader_may_be_closed_twice_and_unread(self) -> None:
        """It lets go, and the session does not mind."""
        async with self.staged(says("Hello.")) as stage:
            session = stage.session()
            unread = session.events()
            await unread.aclose()
            await unread.aclose()
            await stage.turn(session, "one")
            async with session.events() as reader:
                await next_event(reader)
                await reader.aclose()
                await reader.aclose()

    # --- coming back

    async def test_a_reader_that_comes_back_loses_nothing_and_sees_nothing_twice(self) -> None:
        """Promise 6: at every place, while the session runs, in parts of every length."""
        async with self._with_tool(turns=3) as stage:
            session = stage.session()
            for text in ("one", "two", "three"):
                await stage.turn(session, text)
            ledger = await stage.over(3)
            for length in (1, 2, 3, 5, 8):
                seen = await _in_parts(session, length, turns=3)
                expect(f"read in parts of {length}", ledger[: len(seen)], seen)
                expect("ends among it", 3, len([entry for entry in seen if is_end(entry)]))

    async def test_a_reader_that_comes_back_during_a_run_loses_nothing(self) -> None:
        """Promise 6: it leaves after every event, deltas too, and goes on where it was."""
        async with self._with_tool(turns=3) as stage:
            session = stage.session()
            async with beside(_in_parts(session, 1, turns=3)) as reading:
                for text in ("one", "two", "three"):
                    await stage.turn(session, text)
                ledger = await stage.over(3)
                seen = await within("the reader that keeps coming back", reading)
            expect("what it has read", ledger[: len(seen)], seen)

    # --- what is stored first

    async def test_what_a_reader_sees_of_the_ledger_is_in_the_store(self) -> None:
        """Durability §2: an end, like any entry, is shown only after it is stored."""
        async with self._with_tool() as stage:
            session = stage.session()
            async with session.events() as reader:
                for text in ("one", "two"):
                    await session.send(text)
                    event: SessionEvent | None = None
                    while not is_end(event):
                        event = await next_event(reader)
                        stored = (await stage.ledger())[reader.position - 1 : reader.position]
                        expect(
                            "in the store when it was seen", [event] if is_stored(event) else stored, stored
                        )

    # --- deltas

    async def test_deltas_come_while_the_model_speaks(self) -> None:
        """Durability §4: each with its place, before the next one is said."""
        pace = Pace()
        provider = ScriptedProvider(says("One two three."), delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            async with session.events() as reader:
                await session.send("one")
                seen: list[SessionEvent] = []
                for _ in range(3):
                    seen += await read_until(reader, _is_delta)
                    pace.step()
                pace.free()
                seen += await read_until(reader, is_end)
        live = [event for event in seen if isinstance(event, Live)]
        completed = _completed(seen)
        expect("their places", list(range(len(live))), [event.idx for event in live])
        whose = {(event.session_id, event.turn_id, event.message_id) for event in live}
        expect("whose they are", {("s", completed.turn_id, completed.message_id)}, whose)
        expect("attempts", 1, len({event.attempt for event in live}))
        expect("the deltas", ["One ", "two ", "three."], _texts(seen))

    async def test_a_message_that_is_completed_is_the_fold_of_its_deltas(self) -> None:
        """S2: thinking, text and calls, as a reader has drawn them."""
        first = says("One two.", thinking="Hm, well.").calling("look", place="here and there")
        provider = FollowedProvider([first, says("Done.")])
        async with self.staged(provider, tools=[StageTool("look", read_only=True)]) as stage:
            session = stage.session()
            async with session.events() as reader:
                await session.send("one")
                seen = await read_until(reader, provider.follow)
        fold, drawn = StreamFold(), 0
        for event in seen:
            if isinstance(event, MessageCompleted):
                expect("what was drawn from deltas", event.message, fold.message)
                fold, drawn = StreamFold(), drawn + 1
            elif isinstance(event, Live):
                fold.add(event)
        expect("messages that were drawn", 2, drawn)

    async def test_deltas_come_after_the_start_and_before_the_end_of_their_message(self) -> None:
        """None of a message that is stored already: it replaces what was drawn."""
        async with self.staged([says("One two three."), says("Four five six.")]) as stage:
            session = stage.session()
            async with session.events() as reader:
                await session.send("one")
                seen = await _read_turns(reader, 1)
                await session.send("two")
                seen += await _read_turns(reader, 1)
        over: set[str] = set()
        for event in seen:
            if isinstance(event, MessageCompleted):
                over.add(event.message_id)
            elif isinstance(event, Live):
                expect("a delta of a message that is over", False, event.message_id in over)

    async def test_a_reader_that_comes_late_gets_the_message_so_far(self) -> None:
        """Durability §4: from its first delta, whatever place it starts from, and then the rest."""
        pace = Pace()
        provider = ScriptedProvider(says("One two three four."), delay_s=1, sleep=pace)
        async with self.staged(provider) as stage:
            session = stage.session()
            await session.send("one")
            await until("the model after its first word", lambda: pace.held == 1)
            pace.step()
            await until("the model after its second word", lambda: pace.held == 2)
            end = len(await stage.ledger())
            for after in (0, end):
                async with session.events(after) as reader:
                    seen = await read_until(reader, _is_delta)
                    seen += await read_until(reader, _is_delta)
                    expect(f"the message so far, after {after}", ["One ", "two "], _texts(seen))
            async with session.events(end) as reader:
                await read_until(reader, _is_delta)
                pace.free()
                seen = await read_until(reader, is_end)
                expect("the whole message", "One two three four.", _completed(seen).message.text)

    async def test_progress_of_a_tool_is_shown_and_not_stored(self) -> None:
        """T2: as it comes, to whoever reads."""
        first, second = Gate(), Gate()
        tool = ProgressTool("dig", first, second)
        async with self.staged([calls("dig"), says("Dug.")], tools=[tool]) as stage:
            session = stage.session()
            async with session.events() as reader:
                await session.send("one")
                for number, gate in enumerate((first, second), start=1):
                    seen = await read_until(reader, lambda event: isinstance(event, ToolProgress))
                    progress = seen[-1]
                    assert isinstance(progress, ToolProgress)
                    expect("what it reports", f"{number} of 2", getattr(progress.content[0], "text", ""))
                    gate.open()
                await read_until(reader, is_end)
            kept = [entry for entry in await stage.ledger() if isinstance(entry, ToolProgress)]
            expect("progress in the ledger", [], kept)

    # --- what they share

    def _with_tool(self, turns: int = 2) -> AbstractAsyncContextManager[Stage]:
        """Turns of two rounds each, with a call in each."""
        script = [calls("look"), says("Seen.")] * turns
        return self.staged(script, tools=[StageTool("look", read_only=True)])


# --- reading -----------------------------------------------------------------------------------


async def _next_stored(reader: SessionReader) -> SessionEvent:
    return (await read_until(reader, is_stored))[-1]


async def _stored(reader: SessionReader, count: int) -> list[SessionEvent]:
    return [await _next_stored(reader) for _ in range(count)]


async def _read_all(session: Session) -> None:
    async with session.events() as reader:
        await read_until(reader, is_end)


async def _in_parts(session: Session, length: int, *, turns: int) -> list[SessionEvent]:
    """The entries of so many turns, as read by one who leaves after a few events and comes back."""
    seen: list[SessionEvent] = []
    position = 0
    while len([event for event in seen if is_end(event)]) < turns:
        async with session.events(position) as reader:
            for _ in range(length):
                event = await next_event(reader)
                seen += [event] if is_stored(event) else []
                if is_end(event):
                    break
            position = reader.position
    return seen


async def _read_turns(reader: SessionReader, turns: int, pause_s: float = 0.0) -> list[SessionEvent]:
    """What is read up to the end of so many turns, with a pause after each event."""
    seen: list[SessionEvent] = []
    while len([event for event in seen if is_end(event)]) < turns:
        seen.append(await next_event(reader))
        await asyncio.sleep(pause_s)
    return seen


def _is_delta(event: SessionEvent) -> bool:
    return isinstance(event, Live) and isinstance(event.event, TextDelta)


def _texts(events: Sequence[SessionEvent]) -> list[str]:
    live = [event.event for event in events if isinstance(event, Live)]
    return [event.text for event in live if isinstance(event, TextDelta)]


def _completed(events: Sequence[SessionEvent]) -> MessageCompleted:
    return next(event for event in events if isinstance(event, MessageCompleted))
