"""A long session is opened without reading all of it whole, and comes to the same."""

from __future__ import annotations

from hashlib import sha256

import hypothesis
import pytest
from hypothesis import strategies as st

from gnomon._payload import ASIDE_BYTES, packed, unpacked
from gnomon.engine.fold import Fold
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    Compacted,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    Released,
    ToolFinished,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, Text, ToolCall, ToolResult, UnknownPart
from gnomon.types.records import LedgerEvent, utc_now
from gnomon.types.requests import Response, Usage

IDS = ("a", "b", 'c"\\', "é")


class Log:
    """Entries as a store keeps them."""

    def __init__(self, *entries: LedgerEntry) -> None:
        self.entries = entries
        kept = [packed(entry) for entry in entries]
        self._blobs = {sha256(blob).hexdigest(): blob for one in kept for blob in one.blobs}
        self.events = [
            LedgerEvent(
                session_id="s",
                seq=seq,
                id=f"e{seq}",
                type=str(entry.__struct_config__.tag),
                payload=one.payload,
                created_at=utc_now(),
                version=one.version,
            )
            for seq, (entry, one) in enumerate(zip(entries, kept, strict=True), 1)
        ]

    def whole(self) -> Fold:
        fold = Fold()
        for event in self.events:
            self._read(fold, event)
        return fold

    def skimmed(self) -> tuple[Fold, int]:
        """Opened from a snapshot of all of it; and how many events were read whole."""
        whole = self.whole()
        fold = Fold(whole.snapshot(), whole.seq)
        events = [event for event in self.events if event.seq >= whole.view_start]
        for seq, waiting in sorted(whole.waiting.values()):
            if seq < whole.view_start:
                fold.wait(seq, waiting)
        at, read = fold.skim(events), 0
        while at < len(events):
            self._read(fold, events[at])
            at, read = fold.skim(events, at + 1), read + 1
        return fold, read

    def _read(self, fold: Fold, event: LedgerEvent) -> None:
        fold.take(event.seq, unpacked(event, self._blobs))


def received(id: str, *content: Text | UnknownPart) -> MessageReceived:
    return MessageReceived(id, Message.user(*(content or (f"question {id}",))))


def said(*content: str | Text | ToolCall | UnknownPart) -> MessageCompleted:
    return MessageCompleted("t", "m", Response(message=Message.assistant(*content), stop_reason="end_turn"))


def turn(id: str, *between: LedgerEntry) -> list[LedgerEntry]:
    return [
        received(id),
        Claimed("one", 1),
        TurnStarted("t", "agent", "m", inputs=(id,)),
        ModelStarted("t", "m", (1, 1)),
        *(between or (said(f"answer {id}"),)),
        TurnFinished("t", "end_turn", 1, Usage(input_tokens=1), 0.5),
        Released("one", 1),
    ]


def call(id: str) -> ToolCall:
    return ToolCall(id, "act")


def result(id: str) -> ToolFinished:
    return ToolFinished("t", ToolResult(id, "act", (Text("done"),)))


def check_same(log: Log) -> int:
    whole, (fold, read) = log.whole(), log.skimmed()
    assert list(fold.messages) == list(whole.messages)
    assert (fold.seq, fold.waiting, fold.snapshot()) == (whole.seq, whole.waiting, whole.snapshot())
    return read


def test_plain_turns_are_skimmed_but_for_the_last() -> None:
    log = Log(*(entry for at in range(20) for entry in turn(f"m{at}")))
    # The last one's message came before it began, and so did its claim.
    assert check_same(log) == len(turn("m")) - 2


def test_only_what_came_with_calls_is_read_whole() -> None:
    calls = (said("so", call("x")), result("x"), said("then"))
    log = Log(*turn("a"), *turn("b", *calls), *turn("c"), *turn("d"))
    assert check_same(log) == 2 + len(turn("d")) - 2


def test_a_call_that_never_got_a_result_gets_one_also_where_it_is_skimmed() -> None:
    """As a log may be that another program wrote: no model is shown a call without a result."""
    log = Log(*turn("a", said("so", call("x"), call("y")), result("x")), *turn("b"), *turn("c"))
    check_same(log)
    shown = log.skimmed()[0].messages
    assert [part.status for message in shown for part in message.tool_results] == ["ok", "interrupted"]


def test_a_turn_that_takes_another_message_than_the_one_that_waits_leaves_it_waiting() -> None:
    early = [received("a"), TurnStarted("t", "agent", "m", inputs=("gone",)), said("so")]
    log = Log(*early, TurnFinished("t", "end_turn", 1), *turn("b"))
    check_same(log)
    assert log.skimmed()[0].messages[0].text == "so"


@pytest.mark.parametrize("inputs", [("a", "b"), ("b",), ()])
def test_of_several_that_wait_a_turn_takes_those_that_it_names(inputs: tuple[str, ...]) -> None:
    started = TurnStarted("t", "agent", "m", inputs=inputs)
    log = Log(received("a"), received("b"), started, said("so"), *turn("c"), *turn("d"))
    check_same(log)


def test_what_steered_a_turn_stands_where_it_was_taken() -> None:
    steered = (said("one"), received("x"), ModelStarted("t", "m", (1, 2), ("x",)), said("two"))
    check_same(Log(*turn("a", *steered), *turn("b")))


def test_a_part_that_an_older_reader_carried_becomes_itself() -> None:
    carried = UnknownPart("text", {"text": "from a newer one"})
    log = Log(*turn("a", said(carried)), *turn("b"), received("c", carried), *turn("d"))
    check_same(log)
    assert log.skimmed()[0].messages[1].text == "from a newer one"


def test_what_is_kept_as_a_blob_is_read_whole() -> None:
    log = Log(*turn("a", said("w" * (ASIDE_BYTES + 1))), *turn("b"))
    check_same(log)


def test_a_view_that_starts_later_is_skimmed_from_there() -> None:
    compacted = Compacted("t", 5, 10, 1, Message.user("summary"))
    log = Log(*turn("a"), *turn("b"), compacted, *turn("c"), *turn("d"))
    check_same(log)
    assert log.skimmed()[0].messages[0].text == "summary"


_ENTRIES = st.one_of(
    st.sampled_from(IDS).map(received),
    st.sampled_from(IDS).map(lambda id: received(id, Text("one"), Text("two"))),
    st.lists(st.sampled_from(IDS), max_size=2).map(
        lambda inputs: TurnStarted("t", "agent", "m", inputs=tuple(inputs))
    ),
    st.lists(st.sampled_from(IDS), max_size=1).map(
        lambda inputs: ModelStarted("t", "m", (1, 1), tuple(inputs))
    ),
    st.sampled_from(["plain", "unknown"]).map(said),
    st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2, unique=True).map(
        lambda ids: said("so", *map(call, ids))
    ),
    st.sampled_from(["x", "y"]).map(result),
    st.sampled_from(
        [
            Claimed("one", 1),
            Released("one", 1),
            CancelRequested("now", ""),
            TurnFinished("t", "end_turn", 1, Usage(input_tokens=1), 0.5),
            TurnCancelled("t", "by a person"),
        ]
    ),
)


@hypothesis.given(st.lists(_ENTRIES, max_size=30))
def test_whatever_the_log_is_like_it_comes_to_the_same(entries: list[LedgerEntry]) -> None:
    log = Log(*entries)
    whole, (fold, _) = log.whole(), log.skimmed()
    assert list(fold.messages) == list(whole.messages)
    assert (fold.seq, fold.waiting) == (whole.seq, whole.waiting)


def test_a_cancel_among_calls_of_a_turn_that_has_ended_is_not_for_the_one_that_is_open() -> None:
    asked = CancelRequested("after_step", "enough")
    cancelled = turn("a", said("so", call("x"), call("y")), result("x"), asked, result("y"))
    cancelled[-2] = TurnCancelled("t", "enough", Usage(input_tokens=1), 0.5)
    log = Log(*cancelled, *turn("b"), *turn("c")[:-2])
    check_same(log)
    assert log.skimmed()[0].cancel is None


def test_what_the_engine_asked_of_a_turn_that_was_cut_off_waits_for_no_other() -> None:
    log = Log(*turn("a", said("so"), received("fix_1")), *turn("b"), *turn("c")[:-2])
    check_same(log)
    assert not log.skimmed()[0].waiting
