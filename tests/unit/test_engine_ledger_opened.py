"""What a ledger finds when it is opened or read again: what waits, what was cut, and what is gone."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from session_stage import StagedStorage, answered, make_row, write

from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Ledger
from gnomon.errors import Damaged, NotFound
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import (
    Compacted,
    MessageReceived,
    ModelStarted,
    QuestionAsked,
    Released,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Image, Message, ToolCall, ToolResult
from gnomon.types.records import Checkpoint, utc_now


def said(text: str) -> MessageReceived:
    return MessageReceived(text, Message.user(text))


async def shortened(store: MemoryStorage) -> Ledger:
    """A message still waits from before the place where the view starts by now."""
    ledger = await Ledger.open(store, "s")
    await ledger.append(said("early"))
    await ledger.append(said("first"), TurnStarted("t1", "agent", "m", inputs=("first",)))
    await ledger.append(answered("one"), TurnFinished("t1", "end_turn", 1))
    await ledger.append(said("late"), Compacted("t1", 6, 90, 9))
    await ledger.checkpoint()
    return ledger


async def test_a_message_that_waits_since_before_the_view_is_answered_all_the_same() -> None:
    store = MemoryStorage()
    live = await shortened(store)
    opened = await Ledger.open(store, "s")
    assert list(opened.fold.waiting) == list(live.fold.waiting) == ["early", "late"]
    await opened.append(TurnStarted("t2", "agent", "m", inputs=("early",)))
    assert [message.text for message in opened.fold.messages] == ["early"]


async def test_a_message_that_is_gone_is_not_taken_for_the_next_one_there_is() -> None:
    store = MemoryStorage()
    await make_row(store)
    await shortened(store)
    assert await store.prune("events", utc_now() + timedelta(seconds=1)) > 0
    opened = await Ledger.open(store, "s")
    assert {name: waiting.seq for name, waiting in opened.fold.waiting.items()} == {"late": 6}


async def test_a_place_that_holds_no_message_is_passed_over() -> None:
    """A checkpoint is derived: where it is wrong, the ledger counts."""
    store = MemoryStorage()
    ledger = await shortened(store)
    state = {**ledger.fold.state(), "waiting": {"early": 1, "odd": 3}}
    await store.save_checkpoint(
        Checkpoint(id="s", session_id="s", seq=ledger.fold.seq, created_at=utc_now(), state=state)
    )
    assert list((await Ledger.open(store, "s")).fold.waiting) == ["early", "late"]


async def test_a_checkpoint_that_cannot_be_read_changes_nothing() -> None:
    store = MemoryStorage()
    ledger = await Ledger.open(store, "s")
    await ledger.append(said("one"), TurnStarted("t1", "agent", "m"))
    await store.save_checkpoint(
        Checkpoint(id="s", session_id="s", seq=2, created_at=utc_now(), state={"view_start": "later"})
    )
    assert (await Ledger.open(store, "s")).fold.snapshot() == ledger.fold.snapshot()


async def test_calls_and_results_of_turns_that_are_over_are_shown_after_a_checkpoint() -> None:
    store, call = MemoryStorage(), ToolCall("c1", "look", index=0)
    ledger = await Ledger.open(store, "s")
    await ledger.append(said("a"), TurnStarted("t1", "agent", "m", inputs=("a",)))
    await ledger.append(ModelStarted("t1", "m1", (1, 1)), answered(call))
    await ledger.append(ToolFinished("t1", ToolResult.of(call, "found")), answered("one"))
    await ledger.append(TurnFinished("t1", "end_turn", 2))
    await ledger.append(said("b"), TurnStarted("t2", "agent", "m", inputs=("b",)))
    await ledger.checkpoint()
    opened = await Ledger.open(store, "s")
    assert opened.fold.settled == 8, "the first turn is skimmed"
    assert list(opened.fold.messages) == list(ledger.fold.messages)
    assert [message.role for message in opened.fold.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


async def test_an_open_turn_that_began_before_the_view_is_counted_once() -> None:
    store = MemoryStorage()
    ledger = await Ledger.open(store, "s")
    one, two = ToolCall("c1", "look", index=0), ToolCall("c2", "look", index=0)
    await ledger.append(said("a"), TurnStarted("t1", "agent", "m", inputs=("a",)))
    await ledger.append(answered(one), ToolFinished("t1", ToolResult.of(one, "found")))
    await ledger.append(Compacted("t1", 6, 90, 9), answered(two, message_id="m2"))
    await ledger.checkpoint()
    opened = await Ledger.open(store, "s")
    assert opened.fold.turn is not None
    assert (opened.fold.turn.rounds, opened.fold.turn.usage.input_tokens) == (2, 6)
    assert [call.id for call in opened.fold.open_calls] == ["c2"]


async def test_an_event_whose_blob_is_gone_is_damaged_and_says_which() -> None:
    store = MemoryStorage()
    ledger = await Ledger.open(store, "s")
    image = Image(data=b"\x89PNG" + b"\x00" * 40_000, media_type="image/png")
    await ledger.append(MessageReceived("a", Message.user("look", image)))
    await store.sweep_blobs(frozenset(), utc_now() + timedelta(seconds=1))
    with pytest.raises(Damaged, match=r"blob .* is missing"):
        await Ledger.open(store, "s")


async def test_a_copy_of_a_session_that_is_deleted_meanwhile_says_so() -> None:
    store = MemoryStorage()
    await write(store, said("a"), said("b"), session_id="gone")
    copy = await Ledger.open(store, "copy")
    await store.delete_session("gone")
    with pytest.raises(NotFound, match="ledger of session 'gone' has no event 1"):
        await copy.copy_from("gone", 2)


# --- results that were cut


def cut(call: ToolCall, full: str) -> ToolFinished:
    return ToolFinished("t1", ToolResult.of(call, "…"), full=full)


async def test_the_whole_of_a_result_is_that_of_its_own_call_or_nothing() -> None:
    """The first of them may have been pruned: what is there now in its place is another's."""
    store = MemoryStorage()
    await make_row(store)
    ledger = await Ledger.open(store, "s")
    one, two = ToolCall("c1", "look", index=0), ToolCall("c2", "look", index=1)
    await ledger.append(said("a"), TurnStarted("t1", "agent", "m", inputs=("a",)), answered(one, two))
    await ledger.append(cut(one, "the whole of one"))
    await ledger.append(cut(two, "the whole of two"))
    assert await ledger.full_output("c1") == "the whole of one"
    assert await ledger.full_output("c2") == "the whole of two"
    assert await ledger.full_output("c3") is None
    await ledger.append(Compacted("t1", 5, 90, 9))
    await ledger.checkpoint()
    assert await store.prune("events", utc_now() + timedelta(seconds=1)) > 0
    assert await ledger.full_output("c2") == "the whole of two"
    assert await ledger.full_output("c1") is None
    await store.delete_session("s")
    assert await ledger.full_output("c2") is None


# --- what stands already


def test_what_a_runner_knows_is_found_in_the_ledger_by_its_id() -> None:
    fold, call, other = Fold(), ToolCall("c1", "look", index=0), ToolCall("c2", "look", index=1)
    asked, finished = QuestionAsked("t1", "c2", "Which?"), ToolFinished("t1", ToolResult.of(call, "ok"))
    known = (said("a"), answered(call, other), finished, asked)
    assert not any(fold.has(entry) for entry in known), "nothing stands in an empty ledger"
    for seq, entry in enumerate((said("a"), TurnStarted("t1", "agent", "m"), *known[1:]), 1):
        fold.take(seq, entry)
    assert all(fold.has(entry) for entry in known)
    strangers = (said("b"), answered("x", message_id="m2"), QuestionAsked("t1", "c1", "Which?"))
    assert not any(fold.has(entry) for entry in strangers)
    assert not fold.has(Released("me", 1)), "what has no id of its own is never taken for another"


# --- stores that cannot tell


class Plain(StagedStorage):
    """A store that has no watch."""

    watch = None  # type: ignore[assignment]


async def test_a_store_that_cannot_tell_is_asked_on_from_where_the_reader_is() -> None:
    store = Plain()
    await write(store, said("a"), said("b"))
    ledger = Ledger(store, "s")
    async with asyncio.timeout(10), ledger.watch() as reads:
        seen = [(await anext(reads)).seq, (await anext(reads)).seq]
        await write(store, said("c"), after=2)
        seen.append((await anext(reads)).seq)
    assert seen == [1, 2, 3], "each of them once"


async def test_a_message_from_before_the_view_that_a_turn_has_taken_since_is_shown_all_the_same() -> None:
    store = MemoryStorage()
    await make_row(store, status="idle", runnable=False)
    live = await shortened(store)
    await live.append(TurnStarted("t2", "agent", "m", inputs=("early",)), answered("two", message_id="m2"))
    await live.append(TurnFinished("t2", "end_turn", 1))
    await live.checkpoint()
    for _ in range(2):
        opened = await Ledger.open(store, "s")
        assert list(opened.fold.messages) == list(live.fold.messages)
        assert opened.fold.snapshot() == live.fold.snapshot()
        await store.prune("events", utc_now() + timedelta(seconds=1))
