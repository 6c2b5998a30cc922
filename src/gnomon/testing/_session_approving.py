"""Calls that wait for leave: what asks for it, and what an answer comes to (L6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from gnomon.contracts.hook import Step
from gnomon.contracts.session import Session, SupportsApprovals
from gnomon.errors import ApprovalRefused, GnomonError, NotFound
from gnomon.providers.scripted import Line, calls, says
from gnomon.stream import PullStream
from gnomon.testing._session_audit import ends, is_at_rest, only
from gnomon.testing._session_patience import until_found, within
from gnomon.testing._session_suite import SessionSuite, Stage, read_until
from gnomon.testing._session_tools import StageTool
from gnomon.testing._suite import expect, skip
from gnomon.types.events import ApprovalDecided, ApprovalRequested, RunEvent
from gnomon.types.requests import Request
from gnomon.types.steps import HookEvent

__all__ = ["SessionApproving"]


class SessionApproving(SessionSuite):
    """The part of the suite that is about `SupportsApprovals`."""

    async def test_a_call_that_needs_leave_waits_for_it_and_nobody_holds_the_session(self) -> None:
        save = StageTool("save")
        async with self.staged([calls("save"), _DONE], tools=[save], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            (asked,) = await _asked(stage, session)
            expect("the call, and runs of the tool", ("save", 0), (asked.call.name, save.runs))
            await stage.until_ledger("that nobody holds it", is_at_rest)
            expect("ends of turns", [], ends(await stage.ledger()))
            expect("what the status tells", (asked.approval_id,), session.status.pending_approvals)
            await _approve(stage, session)
            expect("the answer", "Done.", (await stage.result(session)).text)
            expect("runs of the tool", 1, save.runs)
            await stage.state(session, "idle")

    async def test_a_call_that_is_refused_has_that_result_and_the_turn_goes_on(self) -> None:
        save = StageTool("save")
        line = says("Then not.").expecting(result="too dear")
        async with self.staged([calls("save"), line], tools=[save], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            (asked,) = await _asked(stage, session)
            await _power(stage, session).deny(asked.approval_id, reason="too dear")
            expect("the answer", "Then not.", (await stage.result(session)).text)
            expect("the result", "denied", (await stage.results())["save"].status)
        expect("runs of the tool", 0, save.runs)

    async def test_calls_beside_it_run_once_whatever_is_decided(self) -> None:
        save, look = StageTool("save"), StageTool("look", read_only=True)
        line = calls("look").calling("save").calling("look").calling("save")
        async with self.staged([line, _DONE], tools=[save, look], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            first, second = await _asked(stage, session, 2)
            await _power(stage, session).deny(second.approval_id)
            await _approve(stage, session, first.approval_id)
            await stage.over(1)
            statuses = [result.status for result in stage.provider.requests[1].messages[-1].tool_results]
            expect("the results", ["ok", "ok", "ok", "denied"], statuses)
        expect("runs of the tools", (1, 2), (save.runs, look.runs))

    async def test_leave_is_asked_for_once_and_given_elsewhere(self) -> None:
        """The runtime that asked is gone; whoever comes next finds the same request."""
        save, other = StageTool("save"), StageTool("save")
        async with self.staged([_DONE], tools=[save], permissions="ask") as stage:
            async with stage.another([calls("save")], tools=[other], permissions="ask") as first:
                await first.session().send("Save it.")
                (asked,) = await _asked(first, first.session())
            session = stage.session()
            expect("the request", (asked,), await _asked(stage, session))
            await _approve(stage, session, asked.approval_id, arguments_hash=asked.arguments_hash)
            await stage.over(1)
            expect("runs of the tools", (1, 0), (save.runs, other.runs))
            expect("requests", 1, len(only(await stage.ledger(), ApprovalRequested)))

    async def test_an_answer_that_does_not_count_is_refused_and_leaves_no_trace(self) -> None:
        """For other arguments, for no request, and a second time."""
        async with self.staged([calls("save"), _DONE], tools=[StageTool("save")], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            (asked,) = await _asked(stage, session)
            await stage.until_ledger("that nobody holds it", is_at_rest)
            before, power = await stage.ledger(), _power(stage, session)
            await _expect_refused(power.approve(asked.approval_id, arguments_hash="of something else"))
            await _expect_refused(power.approve("no such request"))
            expect("the ledger", before, await stage.ledger())
            await _approve(stage, session, asked.approval_id)
            await stage.over(1)
            await _expect_refused(power.deny(asked.approval_id))
            await _expect_refused(power.approve())
            expect("decisions", 1, len(only(await stage.ledger(), ApprovalDecided)))

    async def test_leave_for_other_arguments_runs_nothing(self) -> None:
        """Also where it stands in the ledger: what was shown is compared with what would run."""
        async with self.staged([calls("save"), _DONE], tools=[StageTool("save")], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            (asked,) = await _asked(stage, session)
            left = await stage.until_ledger("that nobody holds it", is_at_rest)
            await _approve(stage, session)
            await stage.over(1)
        other = msgspec.structs.replace(asked, arguments_hash="of something else")
        ledger = [other if entry == asked else entry for entry in left]
        save, line = StageTool("save"), says("Not done.").expecting(result="other arguments")
        async with self.staged([line], tools=[save], permissions="ask") as stage:
            await stage.bench.write("s", [*ledger, ApprovalDecided(asked.approval_id, "approved", "eve")])
            expect("the answer", "Not done.", (await stage.result(stage.session())).text)
            expect("the result", "denied", (await stage.results())["save"].status)
        expect("runs of the tool", 0, save.runs)

    async def test_of_two_answers_at_once_one_counts(self) -> None:
        """From two runtimes, one yes and one no."""
        tools, asks = [StageTool("save")], {"permissions": "ask"}
        async with (
            self.staged(_saving, tools=tools, **asks) as one,
            one.another(_saving, tools=tools, **asks) as two,
        ):
            for id in (f"s{at}" for at in range(6)):
                await one.session(id).send(f"Save {id}.")
                (asked,) = await _asked(one, one.session(id))
                yes = _power(one, one.session(id)).approve(asked.approval_id)
                no = _power(two, two.session(id)).deny(asked.approval_id)
                told = await within("two answers", asyncio.gather(yes, no, return_exceptions=True))
                ledger = await one.over(1, id)
                refused = [each for each in told if isinstance(each, GnomonError)]
                found = (len(only(ledger, ApprovalDecided)), len(refused), told.count(None))
                expect("answers that are stored, refused, and taken", (1, 1, 1), found)

    async def test_leave_that_nobody_gives_in_time_is_refused(self) -> None:
        save = StageTool("save")
        options: dict[str, object] = {"permissions": "ask", "approval_timeout_s": 0.2}
        line = says("Too late.").expecting(result="in time")
        async with self.staged([calls("save"), line], tools=[save], **options) as stage:
            session = stage.session()
            await session.send("Save it.")
            await stage.over(1)
            expect("the answer", "Too late.", (await stage.result(session)).text)
            expect("the result", "denied", (await stage.results())["save"].status)
        expect("runs of the tool", 0, save.runs)

    async def test_always_saves_exactly_the_rule_that_was_shown(self) -> None:
        """The same call runs from then on, here; one with other arguments is asked about."""
        save = StageTool("save")
        save.parameters = {"type": "object", "properties": {"to": {"type": "string"}}}
        again, other = calls("save", to="a"), calls("save", to="b")
        script = [calls("save", to="a"), again, other, _DONE]
        async with self.staged(script, tools=[save], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            (first,) = await _asked(stage, session)
            await _approve(stage, session, first.approval_id, always=True)
            (second,) = await until_found("a second request", lambda: _others(stage, session, first))
            expect(
                "what is asked about, and what has run", ('{"to":"b"}', 2), (second.call.arguments, save.runs)
            )
            await _power(stage, session).deny(second.approval_id)
            await stage.over(1)
            decided = [entry for entry in await stage.ledger() if isinstance(entry, ApprovalDecided)]
            expect("the rules that were saved", [first.rule, ""], [entry.rule for entry in decided])

    async def test_modes_and_rules_say_what_runs_what_waits_and_what_is_denied(self) -> None:
        """L6, on a tool that reads, one that writes and one that destroys."""
        cases = {
            ("deny", ""): "deny deny deny",
            ("plan", ""): "run deny deny",
            ("ask", ""): "run ask ask",
            ("accept_edits", ""): "run run ask",
            ("auto", ""): "run run run",
            ("bypass", ""): "run run run",
            ("auto", "ask save"): "run ask run",
            ("bypass", "deny save"): "run deny run",
            ("ask", "allow save"): "run run ask",
            ("plan", "allow save"): "run deny deny",
        }
        for (mode, rule), expected in cases.items():
            expect(f"mode {mode!r} with the rule {rule!r}", expected, await self._outcomes(mode, rule))

    async def _outcomes(self, mode: str, rule: str) -> str:
        """What becomes of a call of each of the three tools."""
        found: list[str] = []
        for name in ("look", "save", "drop"):
            tools = [StageTool("look", read_only=True), StageTool("save"), StageTool("drop")]
            tools[2].destructive = True
            options: dict[str, object] = {"permissions": mode, "rules": [rule] if rule else []}
            async with self.staged(_once(name), tools=tools, **options) as stage:
                session = stage.session()
                await session.send("Go.")

                async def seen(stage: Stage = stage, session: Session = session) -> str:
                    if await _power(stage, session).approvals():
                        return "ask"
                    statuses = [result.status for result in (await stage.results()).values()]
                    return {"ok": "run", "denied": "deny"}.get(statuses[0], "?") if statuses else ""

                found.append(await until_found("what becomes of the call", seen))
                await session.cancel()
        return " ".join(found)

    async def test_arguments_that_a_hook_changes_are_asked_about_anew(self) -> None:
        """What runs is what leave was given for, or nothing."""
        save = StageTool("save")
        save.parameters = {"type": "object", "properties": {"to": {"type": "string"}}}
        script = [calls("save", to="a"), says("Not done.").expecting(result="not run")]
        options: dict[str, object] = {"permissions": "ask", "hooks": [_Rewriting()]}
        async with self.staged(script, tools=[save], **options) as stage:
            session = stage.session()
            await session.send("Save it.")
            await _asked(stage, session)
            await _approve(stage, session)
            expect("the answer", "Not done.", (await stage.result(session)).text)
        expect("runs of the tool", 0, save.runs)

    async def test_a_message_meanwhile_is_queued_and_an_interrupt_cancels_the_request(self) -> None:
        """Y2."""
        save = StageTool("save")
        async with self.staged(_saving, tools=[save], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            (asked,) = await _asked(stage, session)
            await session.send("And then?")
            expect("requests that wait", (asked,), await _power(stage, session).approvals())
            await within("the end of send", session.send("Stop that.", when_busy="interrupt"))
            await stage.until_ledger("the end of the first turn", ends)
            expect("the result", "cancelled", (await stage.results())["save"].status)
            await _expect_refused(_power(stage, session).approve(asked.approval_id))
            await session.cancel()
            await stage.until_ledger("that it rests", is_at_rest)
        expect("runs of the tool", 0, save.runs)

    async def test_a_reader_sees_the_request_and_the_decision(self) -> None:
        async with self.staged([calls("save"), _DONE], tools=[StageTool("save")], permissions="ask") as stage:
            session = stage.session()
            await session.send("Save it.")
            async with session.events() as reader:
                seen = await read_until(reader, lambda event: isinstance(event, ApprovalRequested))
                expect("the request", (seen[-1],), await _asked(stage, session))
                await _approve(stage, session)
                seen = await read_until(reader, lambda event: isinstance(event, ApprovalDecided))
                decided = seen[-1]
            assert isinstance(decided, ApprovalDecided)
            expect("the decision", "approved", decided.decision)
            await stage.over(1)


_DONE = says("Done.")


def _saving(request: Request) -> Line:
    return _DONE if request.messages[-1].role == "tool" else calls("save")


def _once(name: str) -> Callable[[Request], Line]:
    def answer(request: Request) -> Line:
        return _DONE if request.messages[-1].role == "tool" else calls(name)

    return answer


class _Rewriting:
    """A hook that puts other arguments in the place of those that were approved."""

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        if event.tool_call is not None:
            changed = msgspec.structs.replace(event.tool_call, arguments='{"to":"z"}')
            event = msgspec.structs.replace(event, tool_call=changed)
        return await call(event)


def _power(stage: Stage, session: Session) -> SupportsApprovals:
    return session if isinstance(session, SupportsApprovals) else skip(stage, "approvals")


async def _asked(stage: Stage, session: Session, count: int = 1) -> tuple[ApprovalRequested, ...]:
    """What leave is asked for, when that many calls wait for it."""

    async def look() -> tuple[ApprovalRequested, ...]:
        found = await _power(stage, session).approvals()
        return found if len(found) >= count else ()

    found = await until_found(f"{count} request(s) for leave", look)
    expect("requests for leave", count, len(found))
    return found


async def _others(stage: Stage, session: Session, known: ApprovalRequested) -> list[ApprovalRequested]:
    return [each for each in await _power(stage, session).approvals() if each != known]


async def _approve(
    stage: Stage,
    session: Session,
    approval_id: str | None = None,
    *,
    always: bool = False,
    arguments_hash: str | None = None,
) -> None:
    approving = _power(stage, session).approve(approval_id, always=always, arguments_hash=arguments_hash)
    await within("the end of approve", approving)


async def _expect_refused(answer: Awaitable[object]) -> None:
    try:
        await within("an answer that does not count", answer)
    except (ApprovalRefused, NotFound):
        return
    raise AssertionError("an answer that does not count: expected ApprovalRefused, found that it was taken")
