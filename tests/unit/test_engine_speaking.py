"""What is kept of an answer, whole or half."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon import (
    AttemptDiscarded,
    Message,
    Request,
    Spent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsageUpdate,
)
from gnomon.counters.estimating import EstimatingCounter
from gnomon.engine.accounts import Accounts
from gnomon.engine.speaking import partial
from gnomon.facts.catalogue import Catalogue

REQUEST = Request(messages=(Message.user("go"),), model="m-1")
BOOKS = Accounts(EstimatingCounter, Catalogue()).open("acme:m-1")


def test_of_half_an_answer_the_text_is_kept_and_who_said_it() -> None:
    kept = partial([TextDelta(0, "It is "), TextDelta(0, "half")], REQUEST, BOOKS)
    assert kept is not None
    assert kept.message == Message.assistant("It is half")
    assert (kept.provider, kept.model) == ("acme", "m-1")
    assert (kept.stop_reason, kept.raw_stop_reason) == ("other", "cancelled")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [ThinkingDelta(0, "hm")],
        [ToolCallStart(0, "c", "pay"), ToolCallEnd(0, ToolCall("c", "pay", "{}", 0))],
    ],
    ids=["nothing", "half a thought", "a call"],
)
def test_half_a_thought_or_a_call_is_no_use(events: list[Any]) -> None:
    assert partial(events, REQUEST, BOOKS) is None


def test_a_call_beside_the_text_is_left_out() -> None:
    kept = partial([TextDelta(0, "Paying."), ToolCallStart(1, "c", "pay")], REQUEST, BOOKS)
    assert kept is not None
    assert (kept.message.text, kept.message.tool_calls) == ("Paying.", ())


def test_what_was_reported_before_a_word_was_said_is_paid_for() -> None:
    used = Usage(input_tokens=9, output_tokens=1)
    kept = partial([UsageUpdate(used), ThinkingDelta(0, "hm")], REQUEST, BOOKS)
    assert kept is not None
    assert (kept.message.content, kept.usage) == ((), used)


def test_the_tokens_of_a_text_that_went_on_are_not_those_reported_at_its_start() -> None:
    kept = partial(
        [UsageUpdate(Usage(input_tokens=9, output_tokens=1)), TextDelta(0, "many words " * 20)],
        REQUEST,
        BOOKS,
    )
    assert kept is not None
    assert kept.usage == Usage(input_tokens=9)
    settled = BOOKS.settled(REQUEST, kept)
    assert settled.usage.estimated
    assert (settled.usage.output_tokens or 0) > 20


def test_attempts_that_failed_before_are_paid_for() -> None:
    lost = Spent(provider="acme", model="m-0", input_tokens=5)
    again = AttemptDiscarded("cut", Usage(input_tokens=5), "acme", "m-0")
    kept = partial([TextDelta(0, "a"), again, TextDelta(0, "b")], REQUEST, BOOKS)
    assert kept is not None
    assert kept.message.text == "b"
    assert kept.discarded == (lost,)
