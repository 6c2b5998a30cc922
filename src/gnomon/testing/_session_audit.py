"""What must be true of every ledger, whatever happened to its session: judged entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gnomon.types.events import (
    Claimed,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    Released,
    SubagentFinished,
    ToolFinished,
    ToolIntent,
    ToolProgress,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)

__all__ = ["Ended", "answered", "ends", "is_at_rest", "is_end", "only", "story", "unsound"]

Ended: TypeAlias = TurnFinished | TurnFailed | TurnCancelled

_BY_RUNNERS = (TurnStarted, ModelStarted, MessageCompleted, ToolIntent, ToolFinished, Ended)


def is_end(entry: object) -> bool:
    return isinstance(entry, Ended)


def ends(ledger: Sequence[LedgerEntry]) -> list[Ended]:
    return [entry for entry in ledger if isinstance(entry, Ended)]


def is_at_rest(ledger: Sequence[LedgerEntry]) -> bool:
    """Whether nobody runs the session now, though somebody has."""
    holds = [entry for entry in ledger if isinstance(entry, Claimed | Released)]
    return bool(holds) and isinstance(holds[-1], Released)


def story(ledger: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """What happened, without who ran it."""
    return [entry for entry in ledger if not isinstance(entry, Claimed | Released)]


def only(ledger: Sequence[LedgerEntry], *kinds: type) -> list[str]:
    """The names of the entries of these kinds, in order."""
    return [type(entry).__name__ for entry in ledger if isinstance(entry, kinds)]


def answered(ledger: Sequence[LedgerEntry]) -> list[str]:
    """The ids of the messages that turns have taken, in that order."""
    waiting: list[str] = []
    taken: list[str] = []
    for entry in ledger:
        if isinstance(entry, MessageReceived):
            waiting.append(entry.message_id)
        elif isinstance(entry, TurnStarted):
            taken += entry.inputs or [each for each in waiting if each not in taken]
        elif isinstance(entry, ModelStarted):
            taken += entry.inputs
    return taken


def unsound(ledger: Sequence[LedgerEntry]) -> list[str]:
    """What is wrong with a ledger, in words; nothing is what it should be."""
    judge = _Judge()
    for seq, entry in enumerate(ledger, start=1):
        judge.take(seq, entry)
    return judge.faults


class _Judge:
    """Reads a ledger and knows at each entry what may come next."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._seq = 0
        self._messages: set[str] = set()
        self._epoch = 0
        self._held = False
        self._turn = ""
        self._turns: set[str] = set()
        self._attempts: set[tuple[str, tuple[int, int]]] = set()
        self._asking = ""
        self._calls: dict[str, bool] = {}
        self._keys: dict[str, str] = {}

    def take(self, seq: int, entry: LedgerEntry) -> None:
        self._seq = seq
        if isinstance(entry, _BY_RUNNERS):
            self._expect(self._held, f"{type(entry).__name__} by nobody who has claimed the session")
        turn_id = getattr(entry, "turn_id", self._turn)
        # What was left to others may end, and be paid for, after the turn that it was for.
        if not isinstance(entry, TurnStarted | SubagentFinished):
            self._expect(turn_id == self._turn, f"an entry of turn {turn_id!r} while {self._turn!r} is open")
        self._take(entry)

    def _take(self, entry: LedgerEntry) -> None:
        match entry:
            case Claimed() | Released():
                self._hold(entry)
            case MessageReceived(message_id):
                self._expect(message_id not in self._messages, f"message {message_id!r} a second time")
                self._messages.add(message_id)
            case TurnStarted():
                self._start(entry)
            case ModelStarted():
                self._ask(entry)
            case MessageCompleted():
                self._complete(entry)
            case ToolIntent() | ToolFinished():
                self._call(entry)
            case ToolProgress():
                self._expect(False, "progress, which is shown and not kept")
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self._expect_results("the turn ended")
                self._turn, self._asking = "", ""
            case _:
                pass

    def _hold(self, entry: Claimed | Released) -> None:
        if isinstance(entry, Claimed):
            self._expect(entry.epoch == self._epoch + 1, f"epoch {entry.epoch} after {self._epoch}")
            self._epoch, self._held = entry.epoch, True
        elif entry.epoch == self._epoch:
            self._held = False

    def _start(self, entry: TurnStarted) -> None:
        self._expect(not self._turn, f"turn {entry.turn_id!r} began while {self._turn!r} was open")
        self._expect(entry.turn_id not in self._turns, f"turn {entry.turn_id!r} a second time")
        strangers = [each for each in entry.inputs if each not in self._messages]
        self._expect(not strangers, f"a turn that answers {strangers}, which nobody has sent")
        self._turn = entry.turn_id
        self._turns.add(entry.turn_id)

    def _ask(self, entry: ModelStarted) -> None:
        """A number is never used again for a message, and what is asked again is asked under a higher one."""
        self._expect_results("the model was asked")
        attempt = (entry.message_id, entry.attempt)
        self._expect(attempt not in self._attempts, f"attempt {attempt} a second time")
        if self._asking:
            last = max(number for at, number in self._attempts if at == self._asking)
            self._expect(
                entry.attempt > last, f"attempt {entry.attempt} after attempt {last}, which was cut off"
            )
        self._attempts.add(attempt)
        self._asking = entry.message_id

    def _complete(self, entry: MessageCompleted) -> None:
        what = f"message {entry.message_id!r}, where {self._asking!r} was asked for"
        self._expect(entry.message_id == self._asking, what)
        self._asking = ""
        self._calls = {call.id: False for call in entry.message.tool_calls}
        self._keys = {}

    def _call(self, entry: ToolIntent | ToolFinished) -> None:
        call_id = entry.call_id if isinstance(entry, ToolIntent) else entry.result.call_id
        self._expect(call_id in self._calls, f"a call {call_id!r} that the last message does not make")
        self._expect(
            not self._calls.get(call_id), f"{type(entry).__name__} of {call_id!r}, which has a result"
        )
        if isinstance(entry, ToolFinished):
            self._calls[call_id] = True
        else:
            key = self._keys.setdefault(call_id, entry.key)
            self._expect(bool(entry.key) and key == entry.key, f"another key for the same call {call_id!r}")

    def _expect_results(self, event: str) -> None:
        missing = [call_id for call_id, is_answered in self._calls.items() if not is_answered]
        self._expect(not missing, f"{event} while calls {missing} had no result")

    def _expect(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(f"at {self._seq}: {fault}")
