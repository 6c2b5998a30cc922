"""What must hold of a session of ten calls whose runners were killed: by its ledger, and by the file of what
really happened."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from effects import STEPS, Effects

from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.types.events import (
    Claimed,
    Event,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    Released,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnStarted,
)

__all__ = ["check_run", "entries_of", "of_kind"]

_T = TypeVar("_T")


async def entries_of(storage: Storage, session_id: str) -> list[Event]:
    """The whole ledger, which has no gap; read from its first event, and not from a checkpoint."""
    reads = await Ledger(storage, session_id).refresh()
    assert [read.seq for read in reads] == list(range(1, len(reads) + 1))
    return [read.entry for read in reads]


def of_kind(entries: list[Event], kind: type[_T]) -> list[_T]:
    return [entry for entry in entries if isinstance(entry, kind)]


async def check_run(storage: Storage, session_id: str, effects: Effects) -> Counter[str]:
    """One turn, ended; ten calls with one result each; and no effect that was not wanted."""
    entries = await entries_of(storage, session_id)
    assert len(of_kind(entries, MessageReceived)) == 1
    assert len(of_kind(entries, TurnStarted)) == 1
    (finished,) = of_kind(entries, TurnFinished)
    assert (finished.stop, finished.rounds) == ("end_turn", len(STEPS) + 1)
    assert isinstance(entries[-1], Released)
    epochs = [entry.epoch for entry in of_kind(entries, Claimed)]
    assert epochs == list(range(1, len(epochs) + 1))
    attempts = [(entry.message_id, entry.attempt) for entry in of_kind(entries, ModelStarted)]
    for message_id in {message_id for message_id, _ in attempts}:
        numbers = [number for of, number in attempts if of == message_id]
        assert numbers == sorted(set(numbers)), "an attempt used the number of another"
    asked = effects.all("asked")
    assert len(asked) <= len(attempts), "the model was asked without a word in the ledger"
    return _check_calls(entries, effects)


def _check_calls(entries: list[Event], effects: Effects) -> Counter[str]:
    counts: Counter[str] = Counter()
    calls = [call for entry in of_kind(entries, MessageCompleted) for call in entry.message.tool_calls]
    assert [call.name for call in calls] == list(STEPS)
    results = [entry.result for entry in of_kind(entries, ToolFinished)]
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert {(entry.call_id, entry.name) for entry in of_kind(entries, ToolIntent)} == {
        (call.id, call.name) for call in calls if call.name != "look"
    }
    again = Counter(entry.call_id for entry in of_kind(entries, QuestionAnswered) if entry.run_again)
    keys: dict[str, set[str]] = {call.id: set() for call in calls}
    for intent in of_kind(entries, ToolIntent):
        keys[intent.call_id].add(intent.key)
    had, ran = effects.by_key("effect"), effects.by_key("ran")
    for result in results:
        if result.name == "look":
            assert (result.status, result.text[:4]) == ("ok", "seen")
            continue
        (key,) = keys.pop(result.call_id)  # the same at every attempt
        unknown = result.status == "unknown"
        counts.update(effects=had[key], unknowns=unknown, asked=again[result.call_id])
        counts["answered for"] += result.text == "it was paid"
        counts["found"] += result.text == "book, as was found"
        if unknown:
            assert result.name == "mail"
            assert had[key] <= 1
        else:
            assert result.status == "ok"
            assert had[key] == 1, f"{result.name} had {had[key]} effects"
        if result.name == "store":
            counts["repeats under the same key"] += ran[key] - 1
        elif result.name != "book":  # it looked first, and there was none
            assert ran[key] <= 1 + again[result.call_id], f"{result.name} was repeated in silence"
    assert set(had) <= {entry.key for entry in of_kind(entries, ToolIntent)}
    counts["reads again"] = sum(line.name == "look" for line in effects.all("ran")) - STEPS.count("look")
    counts["asked again"] = len(effects.all("asked")) - len(STEPS) - 1
    return counts
