"""What a turn does with the answers of its model: L1 to L4, seen through a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gnomon.contracts.tool import ToolContext
from gnomon.engine.budget import Budget
from gnomon.providers.scripted import Call, Line, Script, calls, hallucinates, says
from gnomon.stream import StreamFold
from gnomon.testing._session_audit import only, story
from gnomon.testing._session_patience import within
from gnomon.testing._session_suite import SessionSuite, Stage
from gnomon.testing._session_tools import StageTool, logging_tool
from gnomon.testing._suite import expect, expect_some
from gnomon.types.codec import encode_event
from gnomon.types.events import (
    Claimed,
    LedgerEntry,
    MessageCompleted,
    ModelStarted,
    Released,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnStarted,
    TurnStop,
)
from gnomon.types.requests import Request, Usage, add_usage

__all__ = ["SessionTurns"]


class SessionTurns(SessionSuite):
    """The part of the suite that is about one turn."""

    # --- what it writes

    async def test_a_turn_writes_what_recovery_needs_in_order(self) -> None:
        """Durability §2: the intent before the effect, the result before the next question."""
        script = [calls("save").calling("look"), says("Done.")]
        tools = [StageTool("save"), StageTool("look", read_only=True)]
        async with self.staged(script, tools=tools) as stage:
            await stage.turn(stage.session(), "Go.")
            ledger = await stage.over(1)
        expected = [
            *("MessageReceived", "TurnStarted", "ModelStarted", "MessageCompleted", "ToolIntent"),
            *("ToolFinished", "ToolFinished", "ModelStarted", "MessageCompleted", "TurnFinished"),
        ]
        expect("the ledger", expected, [type(entry).__name__ for entry in story(ledger)])
        expect_some("claims", only(ledger, Claimed))
        expect("the end of the ledger", "Released", type(ledger[-1]).__name__)

    async def test_the_session_is_claimed_before_the_model_is_asked(self) -> None:
        """Promise 4: money is spent only by whoever has the session, and that is stored first."""
        found: list[list[str]] = []

        async def answer(request: Request) -> Line:
            ledger = await stage.ledger()
            found.append(only(ledger, Claimed, Released, TurnStarted, ModelStarted))
            return says("Yes.")

        async with self.staged(answer) as stage:
            await stage.turn(stage.session(), "Is it claimed?")
        expect("stored before the request", [["Claimed", "TurnStarted", "ModelStarted"]], found)

    async def test_a_tool_with_effects_starts_after_its_intent_is_stored(self) -> None:
        """Promise 3: with the key that it is given; a read-only one needs no intent."""
        seen: dict[str, list[LedgerEntry]] = {}

        async def look(context: ToolContext) -> str:
            seen[context.call_id] = await stage.ledger()
            return "seen"

        tools = [StageTool("save", look), StageTool("peek", look, read_only=True)]
        async with self.staged([calls("save").calling("peek"), says("Done.")], tools=tools) as stage:
            await stage.turn(stage.session(), "Go.")
            context = tools[0].contexts[0]
            stored = [entry for entry in seen[context.call_id] if isinstance(entry, ToolIntent)]
            intent = ToolIntent(context.turn_id, context.call_id, "save", context.idempotency_key)
            expect("the intents stored when the tool began", [intent], stored)
            expect_some("the idempotency key", context.idempotency_key)
            expect(
                "the message stored when the tool began",
                1,
                len(only(seen[context.call_id], MessageCompleted)),
            )
            expect("intents of all", 1, len(only(await stage.ledger(), ToolIntent)))

    async def test_a_tool_is_told_which_call_it_serves(self) -> None:
        """T5: session, turn, call and a key that is not another call's."""
        tool = StageTool("save")
        script = [calls("save").calling("save"), calls("save"), says("Done.")]
        async with self.staged(script, tools=[tool], deps={"door": 7}) as stage:
            turn = await stage.turn(stage.session(), "Go.")
        for context in tool.contexts:
            expect("session and turn", ("s", turn.id), (context.session_id, context.turn_id))
            expect("what its owner gives", {"door": 7}, context.deps)
            expect("attempt and cancelled", 1, context.attempt)
        expect("keys that differ", 3, len(set(tool.keys)))

    async def test_a_turn_tells_what_it_came_to(self) -> None:
        """Its messages, the user's first; rounds and tokens as the ledger has them."""
        spent = [Usage(input_tokens=10, output_tokens=3), Usage(input_tokens=20, output_tokens=4)]
        first = calls("look").calling("look")
        script = [_using(first, spent[0]), says("Done.", usage=spent[1])]
        async with self.staged(script, tools=[StageTool("look", read_only=True)]) as stage:
            turn = await stage.turn(stage.session(), "Go.")
            ledger = await stage.over(1)
        started = next(entry for entry in ledger if isinstance(entry, TurnStarted))
        finished = next(entry for entry in ledger if isinstance(entry, TurnFinished))
        expect("the turn", (started.turn_id, "s"), (turn.id, turn.session_id))
        expect("its messages", ["user", "assistant", "tool", "assistant"], [m.role for m in turn.messages])
        expect("its last words", ("Done.", "end_turn"), (turn.text, turn.stop))
        expect("its rounds, and those stored", (2, 2), (turn.rounds, finished.rounds))
        expect("its tokens", add_usage(spent), turn.usage)
        expect("the tokens stored", add_usage(spent), finished.usage)
        expect("its error", None, turn.error)
        expect("it ended after it began", True, turn.ended_at >= turn.started_at)

    async def test_a_ledger_grows_with_the_conversation_and_not_with_its_square(self) -> None:
        """Promise 5: each message is stored once, so a late turn writes as much as an early one."""
        async with self.staged(lambda request: says("The same answer.")) as stage:
            session, sizes = stage.session(), list[int]()
            for _ in range(30):
                await stage.turn(session, "The same question.")
                sizes.append(sum(len(encode_event(entry)) for entry in await stage.ledger()))
        early, late = sizes[4] - sizes[3], sizes[29] - sizes[28]
        expect(f"a late turn writes as an early one: {early} and {late} bytes", True, late <= early * 1.2)

    # --- L1: when it is over

    async def test_text_before_a_call_does_not_end_the_turn(self) -> None:
        """L1: nor does any part before the last one."""
        first = says("Let me look.", thinking="Where is it?").calling("look")
        tool = StageTool("look", read_only=True)
        async with self.staged([first, says("Found.")], tools=[tool]) as stage:
            turn = await stage.turn(stage.session(), "Where?")
        expect("the answer and its rounds", ("Found.", 2), (turn.text, turn.rounds))
        expect("runs of the tool", 1, tool.runs)

    async def test_the_label_of_an_answer_does_not_decide(self) -> None:
        """L1: calls are run under any stop reason, and an answer without a call is the end."""
        tool = StageTool("look", read_only=True)
        for reason in ("end_turn", "stop_sequence", "other"):
            first = Line(calls=(Call("look"),), stop_reason=reason)
            async with self.staged([first, says("Found.")], tools=[tool]) as stage:
                turn = await stage.turn(stage.session(), "Where?")
            expect(f"the answer after a call under {reason!r}", "Found.", turn.text)
        async with self.staged(says("Nothing to call.", stop_reason="tool_use")) as stage:
            turn = await stage.turn(stage.session(), "Where?")
        expect("rounds of an answer without a call", 1, turn.rounds)

    async def test_a_turn_says_why_the_model_stopped(self) -> None:
        """L1: an answer that a limit cut off is not taken for a whole one."""
        async with self.staged(says("And then", stop_reason="max_tokens")) as stage:
            turn = await stage.turn(stage.session(), "Tell me.")
        expect("why it stopped", "max_tokens", turn.stop)

    async def test_an_empty_answer_ends_the_turn(self) -> None:
        """L1: a model that says nothing at all is not asked again and again."""
        async with self.staged([Line(), says("Yes?").expecting(text="next")]) as stage:
            session = stage.session()
            turn = await stage.turn(session, "Say nothing.")
            expect("the answer and its rounds", ("", 1), (turn.text, turn.rounds))
            await stage.turn(session, "next")

    # --- L2: in which order calls run

    async def test_read_only_calls_run_side_by_side(self) -> None:
        """L2: three that wait for one another come to an end only together."""
        barrier = asyncio.Barrier(3)

        async def meet(context: ToolContext) -> str:
            await within("the other two calls", barrier.wait(), limit_s=10)
            return "met"

        tool = StageTool("meet", meet, read_only=True)
        script = [calls("meet").calling("meet").calling("meet"), says("Done.")]
        async with self.staged(script, tools=[tool]) as stage:
            await stage.turn(stage.session(), "Go.")
            ledger = await stage.ledger()
        expect("the results", ["ok"] * 3, [e.result.status for e in ledger if isinstance(e, ToolFinished)])

    async def test_results_are_shown_in_the_order_of_the_calls(self) -> None:
        """L2: also when the last one is done first."""
        order: list[str] = []
        gates = [asyncio.Event() for _ in range(3)]

        async def reverse(context: ToolContext) -> str:
            at = int(context.call_id.rpartition("_")[2]) - 1
            if at < 2:
                await within("the call after this one", gates[at + 1].wait(), limit_s=10)
            order.append(context.call_id)
            gates[at].set()
            return context.call_id

        tool = StageTool("look", reverse, read_only=True)
        script = [calls("look").calling("look").calling("look"), says("Done.")]
        async with self.staged(script, tools=[tool]) as stage:
            turn = await stage.turn(stage.session(), "Go.")
            shown = [result.text for result in stage.provider.requests[1].messages[-1].tool_results]
        expect("the order they ended in", shown[::-1], order)
        asked = [call.id for call in stage.provider.requests[1].messages[1].tool_calls]
        expect("the results as the model sees them", asked, shown)
        expect("the results in the turn", asked, [each.call_id for each in turn.messages[2].tool_results])

    async def test_calls_with_effects_run_one_after_another(self) -> None:
        """L2: in the order of the calls, and never two at once."""
        log: list[str] = []
        tool = logging_tool("save", log, _give_way)
        script = [calls("save").calling("save").calling("save"), says("Done.")]
        async with self.staged(script, tools=[tool]) as stage:
            await stage.turn(stage.session(), "Go.")
            ids = _call_ids(stage)
        expect("what ran when", [f"{id} {what}" for id in ids for what in ("starts", "ends")], log)

    async def test_a_read_only_call_waits_for_the_one_with_effects_before_it(self) -> None:
        """L2: what it reads must be what was written; and the next write waits for it in turn."""
        log: list[str] = []
        tools = [
            logging_tool("look", log, _give_way, read_only=True),
            logging_tool("save", log, _give_way),
        ]
        script = [calls("look").calling("save").calling("look").calling("save"), says("Done.")]
        async with self.staged(script, tools=tools) as stage:
            await stage.turn(stage.session(), "Go.")
            ids = _call_ids(stage)
        expect("what ran when", [f"{id} {what}" for id in ids for what in ("starts", "ends")], log)

    # --- L3: every call has one result

    async def test_a_truncated_call_is_not_run(self) -> None:
        """S5, L3: it has a result that says so; the whole call beside it is run."""
        tool, other = StageTool("save"), StageTool("look", read_only=True)
        cut = Call("save", '{"text": "half of', truncated=True)
        first = Line(calls=(Call("look"), cut), stop_reason="max_tokens")
        async with self.staged([first, says("Again.")], tools=[tool, other]) as stage:
            turn = await stage.turn(stage.session(), "Go.")
            results = await stage.results()
        expect("runs of the two tools", (0, 1), (tool.runs, other.runs))
        expect("the results", ("truncated", "ok"), (results["save"].status, results["look"].status))
        expect("the answer", "Again.", turn.text)

    async def test_a_call_to_a_tool_that_is_not_there_has_a_result(self) -> None:
        """L3: the model reads which tools there are, and the turn goes on."""
        script = [hallucinates("fly"), says("Then not.").expecting(result="look")]
        async with self.staged(script, tools=[StageTool("look", read_only=True)]) as stage:
            turn = await stage.turn(stage.session(), "Fly.")
            expect("the status of the result", "error", (await stage.results())["fly"].status)
        expect("the answer", "Then not.", turn.text)

    async def test_every_delta_and_the_result_come_from_one_run(self) -> None:
        """Promise 2: the message that is stored is the fold of what was shown, and the turn's text."""
        async with self.staged([says("One two three.", thinking="Hm, well.")]) as stage:
            turn = await stage.turn(stage.session(), "Go.")
            ledger = await stage.over(1)
        fold = StreamFold()
        for entry in ledger:
            fold.add(entry)
        expect("the message of the turn", fold.message, turn.messages[-1])
        expect("its text", "One two three.", turn.text)

    # --- L4: budgets

    async def test_a_budget_of_rounds_ends_the_turn_cleanly(self) -> None:
        """L4: with a result for every call, and the session takes the next message."""
        await self._expect_limit("rounds", Budget(rounds=3), [calls("look")] * 3)

    async def test_a_budget_of_tokens_ends_the_turn_cleanly(self) -> None:
        """L4: checked before a call, so what was said stays."""
        spending = _using(calls("look"), Usage(input_tokens=60, output_tokens=0))
        await self._expect_limit("tokens", Budget(tokens=100), [spending] * 2)

    async def test_a_budget_of_money_ends_the_turn_cleanly(self) -> None:
        """L4: at the prices that are known here."""
        spending = _using(calls("look"), Usage(input_tokens=600_000, output_tokens=0))
        prices = {"scripted:scripted": {"input_price": 1.0, "output_price": 8.0}}
        await self._expect_limit("cost", Budget(cost=1.0), [spending] * 2, models=prices)

    async def test_a_budget_of_seconds_ends_the_turn_cleanly(self) -> None:
        """L4: a call that took long is not taken back; the model is not asked again."""
        await self._expect_limit("seconds", Budget(seconds=0.05), [calls("look")], pause_s=0.1)

    async def _expect_limit(
        self,
        stop: TurnStop,
        budget: Budget,
        script: Sequence[Line],
        pause_s: float = 0.0,
        **agent_options: object,
    ) -> None:
        """The turn ends with the last of the script, and the message after it is answered."""

        async def look(context: ToolContext) -> str:
            await asyncio.sleep(pause_s)
            return "looked"

        tool = StageTool("look", look, read_only=True)
        whole: Script = [*script, says("Next.").expecting(text="next")]
        async with self.staged(whole, tools=[tool], budget=budget, **agent_options) as stage:
            session = stage.session()
            turn = await stage.turn(session, "Go on for ever.")
            expect("why it stopped", stop, turn.stop)
            expect("rounds and runs of the tool", (len(script), len(script)), (turn.rounds, tool.runs))
            expect("its error", None, turn.error)
            expect("the end in the ledger", stop, getattr(await stage.last_end(), "stop", None))
            expect("the next answer", "Next.", (await stage.turn(session, "next")).text)


async def _give_way(context: ToolContext) -> object:
    """Let whatever else could run do so, while this call is under way."""
    for _ in range(20):
        await asyncio.sleep(0)
    return None


def _call_ids(stage: Stage) -> list[str]:
    return [call.id for call in stage.provider.requests[1].messages[1].tool_calls]


def _using(line: Line, usage: Usage) -> Line:
    return Line(calls=line.calls, text=line.text, usage=usage)
