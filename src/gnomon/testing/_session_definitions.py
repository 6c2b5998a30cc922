"""What a turn remembers of its agent, and sessions that begin like another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import AskUser, DefinitionChanged
from gnomon.providers.scripted import Line, Script, calls, says
from gnomon.testing._session_audit import ends, is_at_rest, only, story
from gnomon.testing._session_patience import beside, within
from gnomon.testing._session_suite import SessionSuite, Stage
from gnomon.testing._session_tools import StageTool
from gnomon.testing._suite import expect, expect_some
from gnomon.types.events import (
    LedgerEntry,
    MessageCompleted,
    QuestionAsked,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.requests import Request

__all__ = ["SessionDefinitions"]


class SessionDefinitions(SessionSuite):
    """The part of the suite that is about `agent_hash`, `on_change` and `fork`."""

    # --- the definition of the agent

    async def test_a_turn_names_the_definition_it_began_under(self) -> None:
        """The same for the same definition in another runtime, another for another one."""
        hashes = [
            await self._hash_of(instructions="Be brief."),
            await self._hash_of(instructions="Be brief."),
            await self._hash_of(instructions="Be long."),
            await self._hash_of(StageTool("look"), instructions="Be brief."),
        ]
        expect_some("the hash", hashes[0])
        expect("of the same definition", hashes[0], hashes[1])
        expect("of three definitions", 3, len(set(hashes)))

    async def test_a_new_turn_under_another_definition_is_a_turn_like_any_other(self) -> None:
        """The rule is for turns that are open, not for sessions."""
        for rule in ("continue", "pause", "refuse"):
            first, second = says("One.").expecting(system="Before."), says("Two.").expecting(system="After.")
            async with self.staged([second], instructions="After.", on_change=rule) as stage:
                async with stage.another([first], instructions="Before.", on_change=rule) as before:
                    await before.turn(before.session(), "one")
                expect("the answer", "Two.", (await stage.turn(stage.session(), "two")).text)
                hashes = [e.agent_hash for e in await stage.ledger() if isinstance(e, TurnStarted)]
                expect("hashes", 2, len(set(hashes)))

    async def test_an_open_turn_goes_on_under_another_definition_when_the_rule_is_continue(self) -> None:
        """What the model is told is then the new definition's."""
        script = [says("Red.").expecting(system="After.", result="red")]
        async with self._changed(script, "continue") as stage:
            session = stage.session()
            await within("the end of answer", stage.answering(session).answer("red"))
            await stage.over(1)
            expect("the answer", "Red.", (await stage.result(session)).text)

    async def test_an_open_turn_is_paused_when_the_rule_is_pause(self) -> None:
        """It waits, nothing is spent, and it goes on when somebody says so."""
        script = [says("Red.").expecting(system="After.", result="red")]
        async with self._changed(script, "pause") as stage:
            session = stage.session()
            await within("the end of answer", stage.answering(session).answer("red"))
            await stage.until_ledger("the pause", _is_paused)
            await stage.state(session, "waiting")
            expect("requests before somebody says so", 0, len(stage.provider.requests))
            async with beside(stage.resuming(session).resume()):
                ledger = await stage.over(1)
            found = only(ledger, TurnPaused, TurnResumed)
            expect("pauses and what ended them", ["TurnPaused", "TurnResumed"], found)
            expect("the answer", "Red.", (await stage.result(session)).text)

    async def test_an_open_turn_fails_under_another_definition_when_the_rule_is_refuse(self) -> None:
        """Nothing is spent; the turn says why it ended, and the session takes the next message."""
        script = [says("Next.").expecting(text="next", system="After.")]
        async with self._changed(script, "refuse") as stage:
            session = stage.session()
            await within("the end of answer", stage.answering(session).answer("red"))
            await stage.over(1)
            turn = await stage.result(session)
            found = (turn.stop, turn.error.code if turn.error is not None else "")
            expect("how the turn ended", ("failed", DefinitionChanged.code), found)
            expect("requests", 0, len(stage.provider.requests))
            expect("the next answer", "Next.", (await stage.turn(session, "next")).text)

    # --- forks

    async def test_a_fork_has_the_same_events_up_to_its_place(self) -> None:
        """And another id; what comes later on either side is not seen on the other."""
        script = [says("One."), says("Two."), says("Fork."), says("Three.")]
        async with self.staged(script) as stage:
            session = stage.session()
            await stage.turn(session, "one")
            at = len(await stage.over(1))
            await stage.turn(session, "two")
            before = await stage.over(2)
            fork = await within("the end of fork", stage.forking(session).fork(at=at))
            stage.keep(fork)
            expect("it has an id of its own", True, bool(fork.id) and fork.id != session.id)
            expect("its story so far", story(before[:at]), story(await stage.ledger(fork.id)))
            expect("the answer in the fork", "Fork.", (await stage.turn(fork, "fork")).text)
            expect("what the fork shows", ["one", "One.", "fork"], _shown(stage))
            expect("the first session", story(before), story(await stage.ledger()))
            expect("the next answer", "Three.", (await stage.turn(session, "three")).text)
            expect("what the first shows", ["one", "One.", "two", "Two.", "three"], _shown(stage))

    async def test_a_fork_without_a_place_is_of_the_whole_session(self) -> None:
        """Two of them do not share an id."""
        async with self.staged([says("One."), says("Fork.")]) as stage:
            session = stage.session()
            await stage.turn(session, "one")
            whole = await stage.over(1)
            forks = [await within("the end of fork", stage.forking(session).fork()) for _ in range(2)]
            for fork in forks:
                stage.keep(fork)
                expect("its story", story(whole), story(await stage.ledger(fork.id)))
            expect("ids", 3, len({session.id, *(fork.id for fork in forks)}))
            expect("the answer in the fork", "Fork.", (await stage.turn(forks[0], "fork")).text)

    async def test_a_fork_in_the_middle_of_a_turn_takes_the_next_message(self) -> None:
        """Promise 7: what was open there is over in the fork, and its calls are not made again."""
        tool = StageTool("save")
        async with self.staged(_saving, tools=[tool]) as stage:
            session = stage.session()
            await stage.turn(session, "one")
            whole = await stage.over(1)
            at = 1 + next(at for at, entry in enumerate(whole) if isinstance(entry, MessageCompleted))
            fork = await within("the end of fork", stage.forking(session).fork(at=at))
            stage.keep(fork)
            sent = await within("the end of send", fork.send("two"))
            ledger = await stage.all_answered([sent], fork.id)
            expect("the last end", "TurnFinished", type(ends(ledger)[-1]).__name__)
            expect("runs of the tool in both", 1, tool.runs)

    # --- what they share

    async def _hash_of(self, *tools: Tool, **agent_options: object) -> str:
        async with self.staged(says("Hello."), tools=tools, **agent_options) as stage:
            await stage.turn(stage.session(), "one")
            started = [entry for entry in await stage.ledger() if isinstance(entry, TurnStarted)]
            return started[0].agent_hash

    @asynccontextmanager
    async def _changed(self, script: Script, rule: str) -> AsyncGenerator[Stage, None]:
        """A runtime with other instructions than the one in which the open turn of `s` began."""
        async with self.staged(script, tools=[_asking()], instructions="After.", on_change=rule) as stage:
            first = stage.another([calls("ask")], tools=[_asking()], instructions="Before.", on_change=rule)
            async with first as before:
                await before.session().send("one")
                await before.until_ledger("the question", _is_waiting)
            yield stage


def _asking() -> StageTool:
    async def ask(context: ToolContext) -> str:
        raise AskUser("Which colour?")

    return StageTool("ask", ask)


def _is_waiting(ledger: list[LedgerEntry]) -> bool:
    return bool(only(ledger, QuestionAsked)) and is_at_rest(ledger)


def _is_paused(ledger: list[LedgerEntry]) -> bool:
    return bool(only(ledger, TurnPaused)) and is_at_rest(ledger)


def _saving(request: Request) -> Line:
    return calls("save") if len(request.messages) == 1 else says("Well.")


def _shown(stage: Stage) -> list[str]:
    """The texts of the last request."""
    return [message.text for message in stage.provider.requests[-1].messages]
