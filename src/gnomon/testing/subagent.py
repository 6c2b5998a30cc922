"""What a sub-agent promises, as checks that anybody's can run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from gnomon.contracts.subagent import Subagent
from gnomon.errors import Conflict
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.testing._session_audit import is_end, only, story
from gnomon.testing._session_patience import Gate, until, within
from gnomon.testing._session_suite import is_stored, read_until
from gnomon.testing._session_tools import held_tool
from gnomon.testing._subagent_ends import SubagentEnds
from gnomon.testing._subagent_suite import HANDS_ON, subagents_of
from gnomon.testing._suite import expect
from gnomon.types.events import (
    Claimed,
    LedgerEntry,
    MessageCompleted,
    Released,
    SubagentFinished,
    SubagentStarted,
    TurnStarted,
)
from gnomon.types.messages import Message
from gnomon.types.requests import Request

__all__ = ["SubagentContract"]

_HOLDS = (Claimed, Released)


class SubagentContract(SubagentEnds):
    """The suite of `Subagent`. Fill in `open`, as for a `SessionContract`, and `as_tool`.

        class TestAcme(SubagentContract):
            def as_tool(self, provider, *, name="helper", tools=(), **agent_options):
                return AcmeAgent(provider, name=name, tools=tools, **agent_options).as_tool()

    The sessions must be `SupportsSubagents`, and `SupportsApprovals` for the checks of approvals.
    """

    # --- its session

    async def test_it_has_a_session_and_a_ledger_of_its_own(self) -> None:
        async with self.family(says("Found it.").expecting(text="find it")) as (stage, session, _):
            await stage.turn(session, "Go.")
            (subagent,) = await subagents_of(stage, session)
            expect("whether its id is another's", True, subagent.id != session.id)
            await stage.over(1, subagent.id)
            theirs, ours = await stage.ledger(subagent.id), await stage.ledger()
            expect("the task in its ledger", ["find it"], await stage.received(subagent.id))
            expect("messages of the model, there and here", (1, 2), (_count(theirs), _count(ours)))
            told = [entry.session_id for entry in ours if isinstance(entry, SubagentStarted)]
            expect("the session that is told of", [subagent.id], told)

    async def test_what_it_says_last_is_the_result_of_the_call(self) -> None:
        async with self.family(says("Found it.")) as (stage, session, _):
            turn = await stage.turn(session, "Go.")
            expect("the answer", "Thanks.", turn.text)
            result = (await stage.results())["helper"]
            expect("the result of the call", ("ok", "Found it."), (result.status, result.text))

    async def test_wait_gives_the_same_result_any_number_of_times(self) -> None:
        """At once, later, and from a runtime that did not see it work."""
        gate = Gate()
        script = [calls("hold"), says("Found it.")]
        async with self.family(script, tools=[held_tool("hold", gate)]) as (stage, session, below):
            await session.send("Go.")
            await gate.reached()
            (subagent,) = await subagents_of(stage, session)
            waiting = [asyncio.ensure_future(subagent.wait()) for _ in range(3)]
            gate.open()
            results = await within("three results", asyncio.gather(*waiting))
            await stage.over(1)
            results.append(await within("a result that is there", subagent.wait()))
            tools = [self.as_tool(below)]
            async with stage.another([], tools=tools) as other:
                (same,) = await subagents_of(other, other.session())
                results.append(await within("the result elsewhere", same.wait()))
            expect("how they differ", [results[0]] * 5, results)
            found = (results[0].id, results[0].status, results[0].output)
            expect("the result", (subagent.id, "finished", "Found it."), found)
            expect("who spoke", ["user", "assistant", "tool", "assistant"], _roles(results[0].messages))

    async def test_several_of_one_turn_are_given_in_their_order(self) -> None:
        line = calls("helper", task="one").calling("helper", task="two")

        def answer(request: Request) -> Line:
            return says(f"Did {request.messages[0].text}.")

        async with self.family(answer, above=[line, says("Thanks.")]) as (stage, session, _):
            await stage.turn(session, "Go.")
            subagents = await subagents_of(stage, session, 2)
            outputs = [(await within("a result", each.wait())).output for each in subagents]
            expect("what they came to", ["Did one.", "Did two."], outputs)

    # --- events and messages

    async def test_its_events_can_be_read_from_any_place_by_anybody(self) -> None:
        async with self.family(says("Found it.")) as (stage, session, _):
            await stage.turn(session, "Go.")
            (subagent,) = await subagents_of(stage, session)
            whole = await _stored(subagent, 0)
            ledger = await stage.over(1, subagent.id)
            names = [type(entry).__name__ for entry in story(ledger)]
            expect("what is read from the start", names, whole)
            expect("what is read a second time", whole, await _stored(subagent, 0))
            at = next(at for at, entry in enumerate(ledger, start=1) if isinstance(entry, TurnStarted))
            rest = whole[whole.index("TurnStarted") + 1 :]
            expect("what is read after the start of the turn", rest, await _stored(subagent, at))

    async def test_it_can_be_told_more_while_it_works(self) -> None:
        gate = Gate()
        script = [calls("hold"), says("Red it is.").expecting(text="make it red")]
        async with self.family(script, tools=[held_tool("hold", gate)]) as (stage, session, _):
            await session.send("Go.")
            await gate.reached()
            (subagent,) = await subagents_of(stage, session)
            await within("the end of send", subagent.send("make it red"))
            gate.open()
            expect("the result", "Red it is.", (await within("the result", subagent.wait())).output)
            await stage.over(1)
            try:
                await within("the end of send", subagent.send("make it blue"))
            except Conflict:
                return
            raise AssertionError("a message to one that has ended: expected Conflict, found none")

    async def test_its_status_says_how_it_stands(self) -> None:
        gate = Gate()
        held = held_tool("hold", gate)
        async with self.family([calls("hold"), says("Found it.")], tools=[held]) as (stage, session, _):
            await session.send("Go.")
            await gate.reached()
            (subagent,) = await subagents_of(stage, session)
            async with subagent.events() as reader:
                await read_until(reader, lambda event: isinstance(event, MessageCompleted))
                await until("that it runs", lambda: subagent.status.state == "running")
                gate.open()
                await within("the result", subagent.wait())
                await until("that it rests", lambda: subagent.status.state == "idle")
            await stage.over(1)

    # --- runtimes that are lost

    async def test_however_far_a_runtime_came_the_next_one_goes_on(self) -> None:
        """Cut after each entry, also between the word that there is one and its first message."""
        async with self.family(says("Found it.")) as (stage, session, _):
            await stage.turn(session, "Go.")
            whole = [_by_the_dead(entry) for entry in await stage.over(1)]

        def answer(request: Request) -> Line:
            return says("Thanks.").expecting(result="Found it.") if len(request.messages) > 1 else HANDS_ON

        tool = self.as_tool(ScriptedProvider(lambda request: says("Found it.").expecting(text="find it")))
        async with self.staged(answer, tools=[tool]) as stage:
            for length in range(1, len(whole)):
                name = f"cut-after-{length}-{type(whole[length - 1]).__name__}"
                # Each has a sub-agent of its own: what is left of others is in other stores.
                await stage.bench.write(name, [_of_their_own(entry, name) for entry in whole[:length]])
                expect(f"{name}: the answer", "Thanks.", (await stage.result(stage.session(name))).text)
                ended = only(await stage.over(1, name), SubagentFinished)
                expect(f"{name}: ends of sub-agents", 1, len(ended))

    async def test_one_whose_runtime_is_gone_is_gone_on_with(self) -> None:
        """And so is whoever waits for it."""
        gate, hold = Gate(), Gate()
        first = ScriptedProvider([calls("hold")])
        second = ScriptedProvider([says("Found it.").expecting(result="held and let go")])
        thanks = says("Thanks.").expecting(result="Found it.")
        gate.open()
        below = self.as_tool(second, tools=[held_tool("hold", gate, read_only=True)])
        async with self.staged([thanks], tools=[below], adopt=False) as stage:
            lost = self.as_tool(first, tools=[held_tool("hold", hold, read_only=True)])
            async with stage.another([HANDS_ON], tools=[lost]) as other:
                await other.session().send("Go.")
                await hold.reached()
            session = stage.session()
            expect("the answer", "Thanks.", (await stage.result(session)).text)
            (subagent,) = await subagents_of(stage, session)
            expect("the result", "Found it.", (await within("the result", subagent.wait())).output)
        second.assert_finished()


def _by_the_dead(entry: LedgerEntry) -> LedgerEntry:
    """The entry as a runner has left it who is not there any more."""
    return msgspec.structs.replace(entry, owner="nobody") if isinstance(entry, Claimed | Released) else entry


def _of_their_own(entry: LedgerEntry, name: str) -> LedgerEntry:
    if isinstance(entry, SubagentStarted):
        id = f"{entry.session_id}-{name}"
        return msgspec.structs.replace(entry, session_id=id, subagent_id=id)
    if isinstance(entry, SubagentFinished):
        return msgspec.structs.replace(entry, subagent_id=f"{entry.subagent_id}-{name}")
    return entry


def _count(ledger: Sequence[LedgerEntry]) -> int:
    return len(only(ledger, MessageCompleted))


def _roles(messages: Sequence[Message]) -> list[str]:
    return [message.role for message in messages]


async def _stored(subagent: Subagent, after: int) -> list[str]:
    """The names of the entries that are read from there, up to the end of its turn."""
    async with subagent.events(after) as reader:
        events = await read_until(reader, is_end)
    return [type(event).__name__ for event in events if is_stored(event) and not isinstance(event, _HOLDS)]
