"""What stands around the steps of a session: hooks (H1, H2), guardrails (G1, G2) and compactors (C3, L5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gnomon.contracts.guardrail import Position, View, Whole, Window
from gnomon.contracts.hook import Step
from gnomon.contracts.session import Session, SupportsCompaction
from gnomon.errors import ConfigError, Conflict, ContextTooLong, GnomonError, GuardrailTripped, Unauthorized
from gnomon.providers.scripted import ScriptedProvider, calls, fails, says
from gnomon.stream import PullStream
from gnomon.testing._session_audit import is_end, only
from gnomon.testing._session_patience import Gate, within
from gnomon.testing._session_suite import SessionSuite, Stage, read_until
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.testing._suite import expect, skip
from gnomon.types.codec import encode_event
from gnomon.types.events import Compacted, Guarded, LedgerEntry, RunEvent, TurnFailed
from gnomon.types.messages import Message
from gnomon.types.requests import Request
from gnomon.types.steps import GuardrailResult, HookEvent

__all__ = ["SessionAround"]

_WORD = "xylophone"
_DONE = says("Done.")


class SessionAround(SessionSuite):
    """The part of the suite that is about hooks, guardrails and compactors."""

    # --- hooks

    async def test_hooks_are_an_onion_around_every_kind_of_step(self) -> None:
        """H1: whose before ran first has its after run last; each knows its step, and how that ended."""
        log: list[str] = []
        hooks = [_Noting("a", log), _Noting("b", log)]
        async with self.staged([calls("save"), _DONE], tools=[StageTool("save")], hooks=hooks) as stage:
            await stage.turn(stage.session(), "Go.")
            await stage.over(1)
        whole = _onion("session", _onion("turn", _onion("model"), _onion("tool"), _onion("model")))
        expect("what the hooks saw", whole, log)

    async def test_a_hook_that_fails_beside_a_step_does_not_break_it(self) -> None:
        """H2: it is logged, and the others see all the same."""
        log: list[str] = []
        hooks = [_Failing(), _Noting("a", log)]
        async with self.staged([calls("save"), _DONE], tools=[StageTool("save")], hooks=hooks) as stage:
            expect("the answer", "Done.", (await stage.turn(stage.session(), "Go.")).text)
            await stage.over(1)
        expect("steps that the other saw begin and end", 10, len(log))

    async def test_a_hook_that_fails_around_a_step_breaks_it(self) -> None:
        """H2, and Y1: the turn fails with its error, and the session is idle again."""
        hook = _Around(Unauthorized("not today"))
        async with self.staged([_DONE], hooks=[hook]) as stage:
            session = stage.session()
            turn = await stage.turn(session, "Go.")
            expect("the error", "unauthorized", turn.error.code if turn.error is not None else None)
            hook.error = None
            expect("the next answer", "Done.", (await stage.turn(session, "Again.")).text)

    # --- guardrails

    async def test_nothing_of_a_stopped_answer_is_shown_or_kept(self) -> None:
        """G1: not to a reader, not in the result, not in the ledger; and no call of it runs."""
        for view in (Window(12), Whole()):
            save = StageTool("save")
            line = says(f"It is fine so far. The word is {_WORD}, you know.").calling("save")
            guard = _Guard("output", view)
            async with self.staged([line], tools=[save], guardrails=[guard]) as stage:
                session = stage.session()
                shown = [repr(await stage.turn(session, "Go.")), await _read(session)]
                ledger = await stage.over(1)
                shown.append(_text(ledger))
                expect("whether the word is anywhere", False, _WORD in "".join(shown))
                expect("what is told of it", [("guard", "output", False)], _guarded(ledger))
                expect("how the turn ended", ["TurnFailed"], only(ledger, TurnFailed))
            expect("runs of the tool", 0, save.runs)

    async def test_what_is_replaced_is_replaced_for_everybody_and_for_good(self) -> None:
        """G1: the ledger, the result and the next request have what was released."""
        guard = _Guard("output", Whole(), replacement="It is a secret.")
        next_line = says("Bye.").expecting(check=lambda request: _WORD not in repr(request.messages))
        provider = ScriptedProvider([says(f"It is {_WORD}."), next_line], verbatim=False)
        async with self.staged(provider, guardrails=[guard]) as stage:
            session = stage.session()
            expect("the answer", "It is a secret.", (await stage.turn(session, "Go.")).text)
            await stage.turn(session, "And now?")
            ledger = await stage.over(2)
            expect("whether the word is in the ledger", False, _WORD in _text(ledger))
            expect("what is told of it", [("guard", "output", True)], _guarded(ledger))

    async def test_a_stopped_input_costs_nothing_and_is_in_no_later_view(self) -> None:
        """G1, G2: it stays in the ledger, and the model is not asked."""
        fine = _DONE.expecting(check=lambda request: _WORD not in repr(request.messages))
        async with self.staged([fine], guardrails=[_Guard("input")]) as stage:
            session = stage.session()
            turn = await stage.turn(session, f"The word is {_WORD}.")
            expect("the error", GuardrailTripped.code, turn.error.code if turn.error is not None else None)
            expect("questions to the model", 0, len(stage.provider.requests))
            expect("the next answer", "Done.", (await stage.turn(session, "Go on.")).text)
            expect("what came", [f"The word is {_WORD}.", "Go on."], await stage.received())

    async def test_arguments_and_results_are_guarded_before_anybody_has_them(self) -> None:
        for position, runs in (("tool_arguments", 0), ("tool_results", 1)):
            tool = StageTool("save", _telling)
            tool.parameters = {"type": "object", "properties": {"word": {"type": "string"}}}
            word = _WORD if position == "tool_arguments" else "tell"
            guard = _Guard(cast(Position, position))
            async with self.staged([calls("save", word=word)], tools=[tool], guardrails=[guard]) as stage:
                await stage.turn(stage.session(), "Go.")
                ledger = await stage.over(1)
                expect(f"{position}: whether the word is kept", False, _WORD in _text(ledger))
                expect(f"{position}: what is told of it", [("guard", position, False)], _guarded(ledger))
            expect(f"{position}: runs of the tool", runs, tool.runs)

    async def test_a_reader_sees_what_was_guarded(self) -> None:
        async with self.staged([says(_WORD)], guardrails=[_Guard("output")]) as stage:
            session = stage.session()
            await session.send("Go.")
            async with session.events() as reader:
                seen = await read_until(reader, is_end)
            expect(
                "what is told of it", [("guard", "output", False)], _guarded(cast("list[LedgerEntry]", seen))
            )

    # --- compactors

    async def test_a_compaction_shortens_the_view_and_not_the_ledger(self) -> None:
        """C3: and any runtime that opens the session shows its model the same."""
        provider = ScriptedProvider([says(f"Answer {at}.") for at in range(6)], verbatim=False)
        async with self.staged(provider, compactor=_Last(1)) as stage:
            session = stage.session()
            for at in range(5):
                await stage.turn(session, f"Question {at}?")
            before = await stage.over(5)
            made = await within("the end of compact", _compacting(stage, session).compact())
            expect("whether it was made shorter", True, made is not None)
            await stage.turn(session, "And now?")
            ledger = await stage.over(6)
            expect("what stood before", before, ledger[: len(before)])
            expect("compactions", 1, len(only(ledger, Compacted)))
            expect("what the model is shown", _SHORT, _texts(provider.requests[-1]))
            other = ScriptedProvider([says("Bye.")], verbatim=False)
            async with stage.another(other, compactor=_Last(1)) as second:
                await second.turn(second.session(), "Bye?")
                shown = [*_SHORT, "Answer 5.", "Bye?"]
                expect("what another model is shown", shown, _texts(other.requests[-1]))

    async def test_a_compaction_is_refused_during_a_turn_and_without_a_compactor(self) -> None:
        gate = Gate()
        held = held_tool("hold", gate)
        async with self.staged([calls("hold"), _DONE], tools=[held], compactor=_Last(1)) as stage:
            session = stage.session()
            await session.send("Go.")
            await gate.reached()
            await _expect_raises(Conflict, _compacting(stage, session))
            gate.open()
            await stage.over(1)
        async with self.staged([_DONE]) as stage:
            session = stage.session()
            await stage.turn(session, "Go.")
            await _expect_raises(ConfigError, _compacting(stage, session))

    async def test_what_cannot_be_shorter_stays_as_it_is(self) -> None:
        async with self.staged([_DONE], compactor=_Last(9)) as stage:
            session = stage.session()
            await stage.turn(session, "Go.")
            before = await stage.over(1)
            expect("what it gives", None, await within("compact", _compacting(stage, session).compact()))
            expect("the ledger", before, await stage.ledger())

    async def test_a_conversation_that_is_too_long_is_compacted_once_and_tried_again(self) -> None:
        """L5."""
        too_long = fails(ContextTooLong("over the limit"))
        provider = ScriptedProvider([says("One."), too_long, says("Two.")], verbatim=False)
        async with self.staged(provider, compactor=_Last(1)) as stage:
            session = stage.session()
            await stage.turn(session, "First.")
            expect("the answer", "Two.", (await stage.turn(session, "Second.")).text)
            expect("what was shown then", ["Second."], _texts(provider.requests[-1]))
            expect("compactions", 1, len(only(await stage.over(2), Compacted)))
        provider = ScriptedProvider([says("One."), too_long, too_long], verbatim=False)
        async with self.staged(provider, compactor=_Last(1)) as stage:
            session = stage.session()
            await stage.turn(session, "First.")
            turn = await stage.turn(session, "Second.")
            expect("the error", ContextTooLong.code, turn.error.code if turn.error is not None else None)


_SHORT = ["Question 4?", "Answer 4.", "And now?"]


class _Noting:
    """Writes down what it sees begin and end."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name = name
        self._log = log

    async def before(self, event: HookEvent) -> None:
        event.notes[self._name] = event.kind
        self._log.append(f"{self._name} before {event.kind}")

    async def after(self, event: HookEvent) -> None:
        ended = event.response or event.result or event.kind in ("turn", "session")
        is_whole = ended and event.ended_at and event.notes.get(self._name) == event.kind
        self._log.append(f"{self._name} after {event.kind}" if is_whole else f"{self._name} after something")


def _onion(kind: str, *inside: list[str]) -> list[str]:
    within = [line for each in inside for line in each]
    return [f"a before {kind}", f"b before {kind}", *within, f"b after {kind}", f"a after {kind}"]


class _Failing:
    async def before(self, event: HookEvent) -> None:
        raise ValueError("a bug")

    async def after(self, event: HookEvent) -> None:
        raise ValueError("another bug")


class _Around:
    """Breaks every step, as long as it has an error to do that with."""

    def __init__(self, error: GnomonError | None) -> None:
        self.error = error

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        if self.error is not None:
            raise self.error
        return await call(event)


class _Guard:
    """Lets no text pass that has the word in it."""

    name = "guard"

    def __init__(
        self, position: Position, view: View | None = None, *, replacement: str | None = None
    ) -> None:
        self.positions = frozenset({position})
        self.view: View = view or Whole()
        self._replacement = replacement

    async def check(self, content: str) -> GuardrailResult:
        found = _WORD in content
        return GuardrailResult(not found, "a word that is not said" if found else "", self._replacement)


class _Last:
    """A compactor that keeps the last so many exchanges, by the messages of the user."""

    name = "last"

    def __init__(self, count: int) -> None:
        self._count = count

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        starts = [at for at, message in enumerate(messages) if message.role == "user"]
        return tuple(messages[starts[-min(self._count, len(starts))] :])


async def _telling(context: object) -> str:
    return f"the word is {_WORD}"


def _guarded(ledger: Sequence[LedgerEntry]) -> list[tuple[str, str, bool]]:
    found = [entry for entry in ledger if isinstance(entry, Guarded)]
    return [(entry.guardrail, entry.position, entry.replaced) for entry in found]


def _text(ledger: Sequence[LedgerEntry]) -> str:
    return "".join(encode_event(entry).decode() for entry in ledger)


def _texts(request: Request) -> list[str]:
    return [message.text for message in request.messages]


async def _read(session: Session) -> str:
    """All that a reader is shown up to the end of the turn."""
    async with session.events() as reader:
        return repr(await read_until(reader, is_end))


def _compacting(stage: Stage, session: Session) -> SupportsCompaction:
    return session if isinstance(session, SupportsCompaction) else skip(stage, "compaction")


async def _expect_raises(kind: type[GnomonError], session: SupportsCompaction) -> None:
    try:
        await within("the end of compact", session.compact())
    except kind:
        return
    raise AssertionError(f"compact: expected {kind.__name__}, found that it was done")
