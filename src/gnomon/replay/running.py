"""A recorded session, run again by the same loop, with the agent as it is now."""

from __future__ import annotations

from gnomon.engine.definition import Definition
from gnomon.engine.live import Channel
from gnomon.engine.loop import Loop
from gnomon.engine.turn import Ended
from gnomon.replay._definition import changes, made_of
from gnomon.replay._family import RecordedFamily
from gnomon.replay._matching import Mismatch, spoken_of
from gnomon.replay._tape import Stopped, Tape
from gnomon.replay.recording import Recording
from gnomon.replay.report import Difference, Replay, short
from gnomon.types.events import MessageCompleted, ModelStarted, TurnCancelled, TurnFailed, TurnStarted

__all__ = ["replayed"]


async def replayed(recording: Recording, agent: Definition, before: Definition | None = None) -> Replay:
    """How the session goes again; `before` is the agent of that time, where it is at hand."""
    return await _Replaying(recording, agent, before).run()


class _Replaying:
    """One turn after another, each from the state that the recording has where it begins."""

    def __init__(self, recording: Recording, agent: Definition, before: Definition | None) -> None:
        self._agent = agent
        self._before = before
        self._tape = Tape(recording, self._differs)
        self._again = made_of(agent, self._tape)
        self._differences: list[Difference] = []
        self._compared: set[tuple[str, str, str]] = set()
        self._turn_id = self._error = ""
        if recording.events and recording.events[0].seq > 1:
            self._tape.skip("the first events are not there any more", recording.events[0].seq)

    async def run(self) -> Replay:
        tape = self._tape
        while (found := self._next_turn()) is not None:
            place, started = found
            tape.take_to(place)
            tape.turn, tape.round, tape.is_stopped = tape.turn + 1, 1, False
            self._turn_id = started.turn_id
            self._compare(started)
            tape.round = 0
            await self._turn(started)
        tape.take_to(len(tape.events))
        return Replay(
            session_id=tape.session_id,
            turns=tape.turn,
            rounds=tape.rounds,
            differences=tuple(self._differences),
            skipped=tuple(tape.skipped),
        )

    def _next_turn(self) -> tuple[int, TurnStarted] | None:
        for at, entry in self._tape.ahead():
            if isinstance(entry, TurnStarted):
                return at, entry
        return None

    def _differs(self, found: Mismatch, seq: int) -> None:
        self._differences.append(
            Difference(
                turn=self._tape.turn,
                turn_id=self._turn_id,
                round=max(self._tape.round, 1),
                seq=seq,
                kind=found.kind,
                what=short(found.what),
                expected=short(found.expected),
                found=short(found.found),
            )
        )

    def _compare(self, started: TurnStarted) -> None:
        """What is defined otherwise is told once, and not at each turn."""
        kind = (started.agent, started.model, started.agent_hash)
        if kind in self._compared:
            return
        self._compared.add(kind)
        seq = self._tape.events[self._tape.at].seq
        for found in changes(started, self._agent, self._before, self._called()):
            self._differs(found, seq)

    def _called(self) -> list[str]:
        """The tools that the turn calls."""
        names: dict[str, None] = {}
        for at, entry in self._tape.ahead():
            if isinstance(entry, TurnStarted) and at > self._tape.at:
                break
            if isinstance(entry, MessageCompleted):
                names |= dict.fromkeys(call.name for call in entry.message.tool_calls)
        return list(names)

    async def _turn(self, started: TurnStarted) -> None:
        tape = self._tape
        after = tape.next_of_runner(tape.at + 1)
        if after is None or not isinstance(after[1], ModelStarted):
            self._unasked(after)
        else:
            await self._segment(started, turns=1)
            while tape.is_in_turn and not tape.is_stopped:
                await self._go_on(started)
        self._pass_over()

    def _unasked(self, after: tuple[int, object] | None) -> None:
        """A turn that was over before the model was asked has nothing to replay."""
        if after is not None and not isinstance(after[1], TurnCancelled):
            self._tape.skip("the turn ended before the model was asked", self._tape.events[after[0]].seq)

    async def _go_on(self, started: TurnStarted) -> None:
        """What another runner did, after the first was lost or a person had acted."""
        tape = self._tape
        found = tape.next_of_runner()
        assert found is not None
        tape.take_to(tape.claimed_before(found[0]))
        place = tape.at
        if isinstance(tape.ended_at(place), TurnFailed):  # by a rule for agents that were changed
            tape.give_up("the turn failed before it was gone on with", tape.events[place].seq)
            return
        await self._segment(started, turns=0)
        if tape.at == place and not tape.is_stopped:
            what = "the turn waits here, and went on"
            tape.stop(Mismatch("end", what, spoken_of(found[1]), self._error), tape.events[place].seq)

    async def _segment(self, started: TurnStarted, turns: int) -> None:
        tape = self._tape
        turn = tape.fold.open_turn
        # By its hash it is the agent of that time: what is defined otherwise was told.
        self._again.hash = turn.agent_hash if turn is not None and not turns else started.agent_hash
        loop = Loop(
            self._again,
            tape,
            owner="replay",
            clock=tape,
            channel=Channel(tape.session_id),
            turns=turns,
            turn_id=started.turn_id if turns else None,
            family=RecordedFamily(tape),
        )
        tape.loop = loop
        ended = tape.cancelled_at(tape.at)
        if ended is not None:  # whoever came next did nothing else
            loop.cancel(ended.reason)
        try:
            async for _ in loop.events():
                pass
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - a turn that fails is compared like any other end
            self._error = str(error)

    def _pass_over(self) -> None:
        """To the end of the turn, whatever was not replayed of it."""
        tape = self._tape
        while tape.at < len(tape.events):
            entry = tape.events[tape.at].entry
            if isinstance(entry, TurnStarted) and entry.turn_id != self._turn_id:
                return
            tape.take()
            if isinstance(entry, Ended) and entry.turn_id == self._turn_id:
                return
