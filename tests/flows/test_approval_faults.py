"""Answers to a request for leave that do not count: each is refused, the ledger does not change, and a row of
the audit chain tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from faced import until
from recorded_effects import entries_of, of_kind

from gnomon import Agent, tool
from gnomon.contracts.storage import Storage
from gnomon.errors import ApprovalRefused, GnomonError, NotFound, TurnUnfinished
from gnomon.testing import FakeClock, ScriptedProvider, calls, says
from gnomon.types.events import ApprovalDecided, ApprovalRequested, ToolFinished
from gnomon.types.records import AuditLog
from storing import opened

PLACES = ("own", "below")
"""Whose call it is: the agent's, or its sub-agent's."""


class Stage:
    """An agent whose call `send` needs leave, or whose sub-agent's does; in session "s".

    The models of one that `comes_later` are asked for the first time when that call has been decided.
    """

    def __init__(
        self, storage: Storage, place: str, clock: FakeClock, *, comes_later: bool = False, **options: Any
    ) -> None:
        self.storage = storage
        self.sent: list[str] = []
        self.gate = asyncio.Event()

        @tool
        async def send(to: str) -> str:
            self.sent.append(to)
            await self.gate.wait()
            return f"sent to {to}"

        asking: dict[str, Any] = {"tools": [send], "permissions": "ask", **options}
        script, handing = [calls("send", to="ann"), says("Did it.")], [calls("spawn", task="send it")]
        if comes_later:
            script, handing = script[1:], []
        if place == "own":
            self.agent = Agent(ScriptedProvider(script), storage=storage, clock=clock, **asking)
        else:
            helper = Agent(ScriptedProvider(script), name="helper", **asking)
            root = ScriptedProvider([*handing, says("Did it.")])
            self.agent = Agent(root, storage=storage, subagents=[helper], clock=clock)
        self.session = self.agent.session("s")

    async def asked(self) -> ApprovalRequested:
        """Begun, and now in want of leave."""
        await self.session.send("Go.")
        await self._rests()
        (request,) = await self.session.approvals()
        return request

    async def _rests(self) -> None:
        async with asyncio.timeout(20):
            while not await self.session.approvals() or self.agent._live().loops:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def ended(self) -> str:
        self.gate.set()
        async with asyncio.timeout(20):
            return (await self.session.turn_result()).text

    async def decided(self, request: ApprovalRequested) -> list[ApprovalDecided]:
        """What the ledger says that it was asked in."""
        session_id = request.path[-1] if request.path else "s"
        return of_kind(await entries_of(self.storage, session_id), ApprovalDecided)


@asynccontextmanager
async def staged(folder: Path, place: str, **options: Any) -> AsyncGenerator[Stage, None]:
    async with opened(folder / "store.db") as storage:
        stage = Stage(storage, place, FakeClock(), **options)
        try:
            yield stage
        finally:
            stage.gate.set()
            await stage.agent.close()


async def refusals(storage: Storage, session_id: str = "s") -> list[AuditLog]:
    rows = (await storage.list_audit_logs(session_id)).items
    assert await storage.verify_audit(session_id) == ()  # type: ignore[attr-defined]
    return [row for row in rows if row.action == "approval.refused"]


async def expect_refusal(storage: Storage, approval_id: str, by: str, why: str) -> None:
    (row,) = await refusals(storage)
    assert (row.actor, row.detail["approval_id"]) == (by, approval_id)
    assert why in str(row.detail["why"])


@pytest.mark.parametrize("place", PLACES)
async def test_a_second_answer_does_not_count(tmp_path: Path, place: str) -> None:
    async with staged(tmp_path, place) as stage:
        request = await stage.asked()
        await stage.session.approve(request.approval_id, by="ann")
        await until(lambda: bool(stage.sent))
        with pytest.raises(ApprovalRefused, match="approved by ann before"):
            await stage.session.deny(request.approval_id, by="bob")
        await expect_refusal(stage.storage, request.approval_id, "bob", "approved by ann before")
        assert await stage.ended() == "Did it."
        assert [each.by for each in await stage.decided(request)] == ["ann"]
        assert stage.sent == ["ann"]


@pytest.mark.parametrize("place", PLACES)
async def test_an_answer_after_the_end_does_not_count(tmp_path: Path, place: str) -> None:
    async with staged(tmp_path, place) as stage:
        request = await stage.asked()
        await stage.session.deny(request.approval_id, by="ann")
        assert await stage.ended() == "Did it."
        with pytest.raises(GnomonError, match=r"no open request|before"):
            await stage.session.approve(request.approval_id, by="bob")
        (row,) = await refusals(stage.storage)
        assert (row.actor, row.detail["approval_id"]) == ("bob", request.approval_id)
        assert stage.sent == []


@pytest.mark.parametrize("place", PLACES)
async def test_an_answer_to_other_arguments_does_not_count(tmp_path: Path, place: str) -> None:
    async with staged(tmp_path, place) as stage:
        request = await stage.asked()
        with pytest.raises(ApprovalRefused, match="other arguments"):
            await stage.session.approve(request.approval_id, by="bob", arguments_hash="0" * 64)
        await expect_refusal(stage.storage, request.approval_id, "bob", "other arguments")
        assert await stage.decided(request) == []
        with pytest.raises(TurnUnfinished):
            await stage.session.turn_result()
        await stage.session.approve(by="ann", arguments_hash=request.arguments_hash)
        assert await stage.ended() == "Did it."
        assert stage.sent == ["ann"]


@pytest.mark.parametrize("place", PLACES)
async def test_an_answer_after_the_time_is_up_does_not_count(tmp_path: Path, place: str) -> None:
    async with staged(tmp_path, place, approval_timeout_s=60) as stage:
        request = await stage.asked()
        stage.agent._clock.advance(61)  # type: ignore[attr-defined]
        with pytest.raises(ApprovalRefused, match=r"could be given until|expired"):
            await stage.session.approve(request.approval_id, by="bob")
        await expect_refusal(stage.storage, request.approval_id, "bob", "")
        assert await stage.ended() == "Did it."
        assert [each.decision for each in await stage.decided(request)] == ["expired"]
        assert stage.sent == []


async def test_an_answer_of_another_tenant_does_not_count(tmp_path: Path) -> None:
    async with staged(tmp_path, "own") as stage:
        request = await stage.asked()
        theirs = stage.storage.scoped("others")
        stranger = Agent(ScriptedProvider([]), storage=theirs, permissions="ask")
        async with stranger:
            session = stranger.session("s")
            assert await session.approvals() == ()
            with pytest.raises(NotFound, match="no open request"):
                await session.approve(request.approval_id, by="eve")
        await expect_refusal(theirs, request.approval_id, "eve", "no such request")
        assert await refusals(stage.storage) == []
        assert await theirs.get_session("s") is None
        assert await stage.decided(request) == []
        await stage.session.deny(by="ann")
        assert await stage.ended() == "Did it."
        assert stage.sent == []


@pytest.mark.parametrize("place", PLACES)
async def test_of_two_who_decide_at_once_one_wins(tmp_path: Path, place: str) -> None:
    async with staged(tmp_path, place) as stage:
        request = await stage.asked()
        other = Stage(stage.storage, place, stage.agent._clock, comes_later=True)  # type: ignore[arg-type]
        other.gate.set()
        outcomes = await asyncio.gather(
            stage.session.approve(request.approval_id, by="ann"),
            other.session.deny(request.approval_id, by="bob"),
            return_exceptions=True,
        )
        (lost,) = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(lost, ApprovalRefused)
        winner, loser = ("bob", "ann") if outcomes[0] is lost else ("ann", "bob")
        await expect_refusal(stage.storage, request.approval_id, loser, f"by {winner} before")
        await stage.ended()
        assert [each.by for each in await stage.decided(request)] == [winner]
        assert stage.sent + other.sent == (["ann"] if winner == "ann" else [])
        await other.agent.close()


@pytest.mark.parametrize("place", PLACES)
async def test_leave_that_nobody_gave_expires_also_across_a_restart(tmp_path: Path, place: str) -> None:
    """Nobody names the session to the one who comes after: it is found when its time is up."""
    async with staged(tmp_path, place, approval_timeout_s=60) as stage:
        request = await stage.asked()
        clock = stage.agent._clock
        assert isinstance(clock, FakeClock)
        await stage.agent.close()
        clock.advance(59)
        early = Stage(stage.storage, place, clock, approval_timeout_s=60)
        async with early.agent:
            serving = asyncio.ensure_future(early.agent.serve())
            await asyncio.sleep(0.1)
            assert await early.decided(request) == []
            serving.cancel()
        clock.advance(2)
        late = Stage(stage.storage, place, clock, approval_timeout_s=60)
        async with late.agent:
            serving = asyncio.ensure_future(late.agent.serve())
            assert await _over(late) == "denied"
            serving.cancel()
        assert [each.decision for each in await late.decided(request)] == ["expired"]
        assert late.sent == []
        with pytest.raises(GnomonError):
            await Stage(stage.storage, place, clock).session.approve(request.approval_id, by="bob")
        (row,) = await refusals(stage.storage)
        assert row.actor == "bob"


async def _over(stage: Stage) -> str:
    """How the call ended that needed leave."""
    async with asyncio.timeout(20):
        while True:
            for row in (await stage.storage.list_sessions()).items:
                for entry in of_kind(await entries_of(stage.storage, row.id), ToolFinished):
                    if entry.result.name == "send":
                        return entry.result.status
            await asyncio.sleep(0.02)
