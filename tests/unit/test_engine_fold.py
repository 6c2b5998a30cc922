"""What a session has come to, whatever its log is like."""

from __future__ import annotations

import pytest

from gnomon import (
    Message,
    MessageCompleted,
    ModelStarted,
    Response,
    ToolCall,
    ToolFinished,
    ToolResult,
    Usage,
)
from gnomon.engine.fold import Fold, Snapshot
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    Error,
    LedgerEntry,
    MessageReceived,
    Released,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnStarted,
)
from gnomon.types.messages import Text


def folded(*entries: LedgerEntry) -> Fold:
    fold = Fold()
    for entry in entries:
        fold.take(fold.seq + 1, entry)
    return fold


def received(id: str, *, steer: bool = False) -> MessageReceived:
    return MessageReceived(id, Message.user(id), steer=steer)


def started(*inputs: str, id: str = "t") -> TurnStarted:
    return TurnStarted(id, "agent", "m", inputs=inputs)


def said(text: str, *calls: str) -> MessageCompleted:
    message = Message.assistant(text, *(ToolCall(id, "act", index=at) for at, id in enumerate(calls, 1)))
    return MessageCompleted("t", "m", Response(message=message, stop_reason="tool_use"))


def result(id: str, full: str = "") -> ToolFinished:
    return ToolFinished("t", ToolResult(id, "act", (Text("ok"),)), 0.0, full)


def texts(fold: Fold) -> list[str]:
    return [message.text or message.role for message in fold.messages]


def test_a_message_waits_until_a_turn_takes_it() -> None:
    fold = folded(received("a"), received("b"))
    assert (texts(fold), list(fold.waiting)) == ([], ["a", "b"])
    fold.take(3, started("a"))
    assert (texts(fold), list(fold.waiting)) == (["a"], ["b"])
    fold.take(4, ModelStarted("t", "m", (1, 1), ("b",)))
    assert (texts(fold), list(fold.waiting)) == (["a", "b"], [])
    assert fold.turn is not None
    assert [message.text for message in fold.turn.messages] == ["a", "b"]


def test_a_turn_that_does_not_say_what_it_answers_answers_all_that_waits() -> None:
    assert texts(folded(received("a"), received("b"), started())) == ["a", "b"]


def test_a_message_that_is_not_there_is_no_part_of_a_turn() -> None:
    assert texts(folded(received("a"), started("a", "gone"))) == ["a"]


def test_no_model_is_shown_a_call_without_a_result() -> None:
    by = [started(id="t2"), said("next"), TurnCancelled("t")]
    for ending in by:
        fold = folded(received("a"), started("a"), said("so", "x", "y"), result("y"), ending)
        answers = next(message for message in fold.messages if message.role == "tool")
        statuses = [(one.call_id, one.status) for one in answers.tool_results]
        assert statuses == [("x", "interrupted"), ("y", "ok")], ending


def test_results_stand_where_their_calls_stand() -> None:
    fold = folded(received("a"), started("a"), said("so", "x"), received("b"), result("x"))
    fold.take(6, ModelStarted("t", "m", (1, 1), ("b",)))
    assert [message.role for message in fold.messages] == ["user", "assistant", "tool", "user"]


def test_a_log_that_begins_in_the_midst_of_a_turn_is_read() -> None:
    fold = folded(ModelStarted("t", "m", (1, 1)), result("x"), TurnPaused("t", "h"), said("late"))
    assert (fold.turn_id, texts(fold)) == ("t", ["late"])


def test_the_calls_that_had_begun_are_known_by_their_keys() -> None:
    fold = folded(started(), said("so", "x", "y"))
    assert (fold.intents, fold.has_result("x")) == ({}, False)
    fold.take(3, ToolIntent("t", "x", "act", "key"))
    assert fold.intents == {"x": "key"}
    fold.take(4, result("x", full="all of it"))
    assert (fold.intents, fold.has_result("x"), fold.cut) == ({}, True, {"x": 4})
    assert [call.id for call in fold.open_calls] == ["y"]


def test_an_empty_session_has_nothing_open() -> None:
    fold = folded()
    assert (fold.open_calls, fold.intents, fold.turn_id, fold.open_turn) == ((), {}, None, None)
    assert fold.has_result("x") is False


def test_a_cancel_holds_for_what_is_open_and_ends_with_it() -> None:
    asked = CancelRequested("now", "enough")
    assert folded(asked).cancel is None, "there is nothing to cancel"
    assert folded(received("a"), asked).cancel is asked
    fold = folded(received("a"), started("a"), asked)
    assert fold.cancel is asked
    fold.take(4, TurnCancelled("t"))
    assert fold.cancel is None
    fold.take(5, asked)
    assert fold.cancel is None, "the turn is over"


def test_what_the_turns_used_is_summed_and_an_unknown_price_stays_unknown() -> None:
    ends = [
        TurnFinished("t", "end_turn", 1, Usage(input_tokens=1), 0.5),
        TurnFailed("t", Error("x", "y"), Usage(input_tokens=2), 0.25),
    ]
    fold = folded(*ends)
    assert (fold.usage.input_tokens, fold.cost) == (3, 0.75)
    fold.take(3, TurnCancelled("t", "", Usage(input_tokens=4), None))
    fold.take(4, ends[0])
    assert (fold.usage.input_tokens, fold.cost) == (8, None)


def test_a_release_ends_the_claim_that_it_names() -> None:
    fold = folded(Claimed("one", 1), Claimed("two", 2), Released("one", 1))
    assert (fold.owner, fold.epoch) == ("two", 2)
    fold.take(4, Released("two", 2))
    assert (fold.owner, fold.epoch) == (None, 2)


def test_only_so_many_messages_are_remembered_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon.engine import fold as module

    monkeypatch.setattr(module, "_RECENT", 2)
    assert folded(received("a"), received("b"), received("c")).recent == {"b": 2, "c": 3}


def test_what_a_snapshot_has_counted_is_not_counted_again() -> None:
    entries = [
        Claimed("one", 1),
        received("a"),
        started("a"),
        said("so"),
        TurnFinished("t", "end_turn", 1, Usage(input_tokens=1), 0.5),
        Released("one", 1),
        received("b"),
    ]
    whole = folded(*entries)
    again = Fold(whole.snapshot(), whole.seq)
    for seq, entry in enumerate(entries, 1):
        again.take(seq, entry)
    assert again.snapshot() == whole.snapshot()
    assert list(again.messages) == list(whole.messages)


def test_an_open_turn_from_before_the_view_is_kept_by_its_mark() -> None:
    whole = folded(received("a"), started("a"), said("so"))
    snapshot = whole.snapshot()
    later = Fold(Snapshot(view_start=3, turn=snapshot.turn), 3)
    assert later.turn is not None
    assert (later.turn_id, later.turn.rounds) == ("t", 1)
    within = Fold(snapshot, 3)
    assert within.turn is None, "it will be read"
