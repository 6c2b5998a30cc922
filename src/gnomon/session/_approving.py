"""Leave for a call: who asks for it, and what an answer from outside comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal

from gnomon.engine.fold import Fold
from gnomon.engine.journal import TRIES, crowded
from gnomon.engine.ledger import Ledger
from gnomon.errors import ApprovalRefused, InvalidInput, NotFound
from gnomon.types.codec import encodable
from gnomon.types.events import ApprovalDecided, ApprovalRequested

__all__ = ["Answer", "below", "decide", "pending"]


class Answer:
    """What somebody answers to a request for leave, which may be the only one."""

    def __init__(
        self,
        decision: Literal["approved", "denied"],
        approval_id: str | None,
        *,
        by: str,
        reason: str | None,
        always: bool = False,
        arguments_hash: str | None = None,
    ) -> None:
        texts: dict[str, object] = {"approval_id": approval_id, "reason": reason, "by": by}
        for name, given in texts.items():
            if not isinstance(given, str) and (given is not None or name == "by"):
                raise InvalidInput(f"{name} is a text, not {type(given).__name__}")
        self.decision: Literal["approved", "denied"] = decision
        self.approval_id = approval_id
        self.by = encodable(by)
        self.reason = None if reason is None else encodable(reason)
        self.always = always
        self.arguments_hash = arguments_hash

    def decided(self, asked: ApprovalRequested) -> ApprovalDecided:
        if self.always and not asked.rule:
            raise InvalidInput(
                f"there is no rule to save for {asked.call.name!r}: its arguments can be read in two ways",
                hint="approve it without always",
            )
        rule = asked.rule if self.always else ""
        return ApprovalDecided(asked.approval_id, self.decision, self.by, self.reason, rule)


def pending(fold: Fold) -> tuple[ApprovalRequested, ...]:
    """What the session waits for leave for."""
    turn = fold.open_turn
    return (*turn.open_requests, *turn.told_requests) if turn is not None else ()


def _own(fold: Fold) -> tuple[ApprovalRequested, ...]:
    return tuple(each for each in pending(fold) if not each.path)


def below(fold: Fold, answer: Answer) -> ApprovalRequested | None:
    """The request that a sub-agent has, where the answer is for that one."""
    found = [each for each in pending(fold) if answer.approval_id in (None, each.approval_id)]
    return found[0] if len(found) == 1 and found[0].path else None


async def decide(
    ledger: Ledger, answer: Answer, now: Callable[[], datetime], refuse: Callable[[str], Awaitable[None]]
) -> ApprovalDecided:
    """Write the answer down, and give what was written.

    `refuse` is told why one does not count, before that is raised. One that comes too late ends the wait
    all the same.
    """
    for _ in range(TRIES):
        asked = await _asked(ledger, answer, refuse)
        if answer.arguments_hash not in (None, asked.arguments_hash):
            await _refused(answer, "it is for other arguments than the call has", refuse)
        decided = answer.decided(asked)
        is_late = asked.expires_at is not None and asked.expires_at <= now()
        if is_late:
            decided = ApprovalDecided(asked.approval_id, "expired", by="")
        if await ledger.try_receive((decided,), ledger.fold.seq):
            if is_late:
                await _refused(
                    answer, f"it could be given until {asked.expires_at:%Y-%m-%d %H:%M:%S} UTC", refuse
                )
            return decided
    raise crowded(ledger.session_id)


async def _asked(
    ledger: Ledger, answer: Answer, refuse: Callable[[str], Awaitable[None]]
) -> ApprovalRequested:
    """The request that the answer is for."""
    waiting, wanted = _own(ledger.fold), answer.approval_id
    found = [each for each in waiting if wanted in (None, each.approval_id)]
    if len(found) == 1:
        return found[0]
    await _check_decided(ledger.fold, answer, refuse)
    where = f"session {ledger.session_id!r}"
    names = ", ".join(f"{each.approval_id} ({each.call.name})" for each in waiting)
    hint = f"waiting: {names}" if names else "nothing waits for leave"
    if wanted is not None:
        await refuse("there is no such request")
        raise NotFound(f"{where} has no open request for leave {wanted!r}", hint=hint)
    if waiting:
        raise InvalidInput(f"{where} waits for leave for {len(waiting)} calls: say which", hint=hint)
    raise NotFound(f"{where} waits for no leave", hint="session.approvals() tells what is asked for")


async def _check_decided(fold: Fold, answer: Answer, refuse: Callable[[str], Awaitable[None]]) -> None:
    """A request is answered once."""
    turn = fold.turn
    before = turn.decisions.get(answer.approval_id or "") if turn is not None else None
    if before is not None:
        who = f" by {before.by}" if before.by else ""
        await _refused(answer, f"it was {before.decision}{who} before", refuse)


async def _refused(answer: Answer, why: str, refuse: Callable[[str], Awaitable[None]]) -> None:
    await refuse(why)
    raise ApprovalRefused(
        f"the answer to {answer.approval_id or 'the request'} does not count: {why}",
        hint="session.approvals() tells what is asked for now",
    )
