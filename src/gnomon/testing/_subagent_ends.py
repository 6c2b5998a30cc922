"""How sub-agents end when they do not succeed, what flows up from them, and what they may not do."""

from __future__ import annotations

import msgspec

from gnomon.contracts.session import SupportsApprovals
from gnomon.contracts.tool import Tool
from gnomon.engine.budget import Budget
from gnomon.errors import Unauthorized
from gnomon.providers.scripted import Line, ScriptedProvider, calls, fails, says
from gnomon.testing._session_audit import only
from gnomon.testing._session_patience import Gate, until_found, within
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.testing._subagent_suite import HANDS_ON, SubagentSuite, subagents_of
from gnomon.testing._suite import expect, skip
from gnomon.types.events import ApprovalDecided
from gnomon.types.requests import Request, Usage, add_usage

__all__ = ["SubagentEnds"]

_USED = Usage(input_tokens=1_000, output_tokens=100, cache_read_tokens=10)


class SubagentEnds(SubagentSuite):
    """The part of the suite that is about what an end means above."""

    # --- ends that are no success

    async def test_a_failure_is_a_result(self) -> None:
        async with self.family(fails(Unauthorized("no key"))) as (stage, session, _):
            turn = await stage.turn(session, "Go.")
            expect("the answer of the one above", "Thanks.", turn.text)
            (subagent,) = await subagents_of(stage, session)
            result = await within("the result", subagent.wait())
            expect("its status and error", ("failed", True), (result.status, result.error is not None))
            expect("the result of the call", "error", (await stage.results())["helper"].status)

    async def test_a_budget_that_is_used_up_is_a_result(self) -> None:
        script, options = [calls("look"), calls("look")], {"budget": Budget(rounds=2)}
        async with self.family(script, tools=[StageTool("look")], below=options) as (stage, session, _):
            await stage.turn(session, "Go.")
            (subagent,) = await subagents_of(stage, session)
            expect("its status", "budget", (await within("the result", subagent.wait())).status)

    async def test_a_cancel_ends_it_and_the_one_above_goes_on(self) -> None:
        gate = Gate()
        held = held_tool("hold", gate, read_only=True)
        async with self.family([calls("hold")], tools=[held]) as (stage, session, _):
            await session.send("Go.")
            await gate.reached()
            (subagent,) = await subagents_of(stage, session)
            await within("the end of cancel", subagent.cancel())
            expect("its status", "cancelled", (await within("the result", subagent.wait())).status)
            expect("the answer", "Thanks.", (await stage.result(session)).text)
            expect("the result of the call", "cancelled", (await stage.results())["helper"].status)
            await within("a cancel of what has ended", subagent.cancel())

    async def test_a_cancel_of_the_one_above_reaches_it(self) -> None:
        gate = Gate()
        held = held_tool("hold", gate, read_only=True)
        async with self.family([calls("hold")], above=[HANDS_ON], tools=[held]) as (stage, session, _):
            await session.send("Go.")
            await gate.reached()
            (subagent,) = await subagents_of(stage, session)
            await within("the end of cancel", session.cancel())
            expect("its status", "cancelled", (await within("the result", subagent.wait())).status)
            expect("how the turn ended", "cancelled", (await stage.result(session)).stop)

    # --- what flows up

    async def test_its_spend_counts_at_the_one_above(self) -> None:
        """Once: what the turn used is what all of them were told that they had used."""
        above = [_using(HANDS_ON), says("Thanks.", usage=_USED)]
        script = [_using(calls("look")), says("Found it.", usage=_USED)]
        async with self.family(script, above=above, tools=[StageTool("look")]) as (stage, session, _):
            turn = await stage.turn(session, "Go.")
            (subagent,) = await subagents_of(stage, session)
            result = await within("the result", subagent.wait())
            expect("what it used", add_usage([_USED] * 2), result.usage)
            expect("what the turn used", add_usage([_USED] * 4), turn.usage)

    async def test_its_approvals_surface_at_the_root(self) -> None:
        """With its path; the decision is its own, and only its call goes on."""
        asks: dict[str, object] = {"permissions": "ask"}
        look = StageTool("look")
        script = [calls("look"), says("Found it.").expecting(result="done")]
        async with self.family(script, tools=[look], below=asks) as (stage, session, _):
            root = session if isinstance(session, SupportsApprovals) else skip(self, "approvals")
            await session.send("Go.")
            (asked,) = await until_found("a request for leave at the root", root.approvals)
            (subagent,) = await subagents_of(stage, session)
            shown = (tuple(asked.path), asked.call.name, look.runs)
            expect("its path, its tool, and runs of that", ((subagent.id,), "look", 0), shown)
            await within("the end of approve", root.approve(asked.approval_id))
            expect("the result", "Found it.", (await within("the result", subagent.wait())).output)
            expect("the answer", "Thanks.", (await stage.result(session)).text)
            expect("runs of the tool", 1, look.runs)
            decided = only(await stage.ledger(subagent.id), ApprovalDecided)
            expect("decisions in its ledger", 1, len(decided))

    # --- what it may not do

    async def test_it_does_not_count_as_read_only(self) -> None:
        """A plan may not hand work to somebody else: the call is denied."""
        tool = self.as_tool(ScriptedProvider([]), tools=[StageTool("look", read_only=True)])
        expect("whether it says that it only reads", False, tool.read_only)
        script = [HANDS_ON, says("Thanks.").expecting(result="not run")]
        async with self.staged(script, tools=[tool], permissions="plan") as stage:
            await stage.turn(stage.session(), "Go.")
            expect("the result of the call", "denied", (await stage.results())["helper"].status)

    async def test_it_goes_no_deeper_than_the_limit(self) -> None:
        """Of twelve below one another the last is never asked; each of the others ends all the same."""
        asked: set[int] = set()

        def level(depth: int) -> ScriptedProvider:
            def answer(request: Request) -> Line:
                asked.add(depth)
                below = calls(f"helper{depth + 1}", task="find it")
                return below if request.tools and len(request.messages) == 1 else says(f"Back at {depth}.")

            return ScriptedProvider(answer)

        tools: list[Tool] = []
        for depth in range(12, 0, -1):
            tools = [self.as_tool(level(depth), name=f"helper{depth}", tools=tools)]
        script = [calls("helper1", task="find it"), says("Thanks.").expecting(result="Back at 1.")]
        async with self.staged(script, tools=tools) as stage:
            await stage.turn(stage.session(), "Go.")
        expect("the first and the last that was asked", (True, False), (1 in asked, 12 in asked))


def _using(line: Line) -> Line:
    return msgspec.structs.replace(line, usage=_USED)
