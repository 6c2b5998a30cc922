"""What of a message was not shown while it was said is shown when it is whole."""

from __future__ import annotations

import pytest

from gnomon.session._spoken import Spoken
from gnomon.stream import StreamFold
from gnomon.types.events import (
    AttemptDiscarded,
    ModelStarted,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from gnomon.types.messages import Message, Text, Thinking, ToolCall

CALL = ToolCall("c1", "weather", '{"city":"Rome"}', index=4)
WHOLE = Message("assistant", (Thinking("Hm."), Text("Let me see."), CALL, Text("One moment.")))
SAID: list[StreamEvent] = [
    ThinkingDelta(0, "H"),
    ThinkingDelta(0, "m."),
    TextDelta(1, "Let me "),
    TextDelta(1, "see."),
    ToolCallStart(4, "c1", "weather"),
    ToolCallDelta(4, "c1", '{"city":'),
    ToolCallDelta(4, "c1", '"Rome"}'),
    ToolCallEnd(4, CALL),
    TextDelta(7, "One moment."),
]


@pytest.mark.parametrize("count", range(len(SAID) + 1))
def test_what_was_shown_and_the_rest_are_the_message(count: int) -> None:
    spoken, fold = Spoken(), StreamFold()
    for event in SAID[:count]:
        spoken.take(event)
        fold.add(event)
    rest = list(spoken.rest(WHOLE))
    for event in rest:
        fold.add(event)
    assert fold.message == WHOLE
    assert bool(rest) == (count < len(SAID))


@pytest.mark.parametrize("again", [AttemptDiscarded("again"), ModelStarted("t", "m", (1, 2))])
def test_a_message_that_starts_anew_is_shown_from_its_start(again: AttemptDiscarded | ModelStarted) -> None:
    spoken = Spoken()
    for event in (*SAID[:4], again, TextDelta(0, "Let me")):
        spoken.take(event)
    assert list(spoken.rest(Message.assistant("Let me see."))) == [TextDelta(0, " see.")]


def test_a_call_whose_block_is_taken_gets_another() -> None:
    spoken, fold = Spoken(), StreamFold()
    for event in spoken.rest(Message("assistant", (Text("Let me see."), ToolCall("c1", "weather", "{}")))):
        fold.add(event)
    assert [type(part) for part in fold.message.content] == [Text, ToolCall]


def test_where_something_else_was_said_nothing_is_added() -> None:
    spoken = Spoken()
    spoken.take(TextDelta(0, "Yes"))
    assert list(spoken.rest(Message.assistant("No."))) == []


@pytest.mark.parametrize("count", range(1, len(SAID) + 1))
def test_of_a_message_that_was_cut_short_no_text_is_shown_twice(count: int) -> None:
    """Of its blocks, one text was kept."""
    spoken, fold = Spoken(), StreamFold()
    for event in SAID[:count]:
        spoken.take(event)
        fold.add(event)
    cut = Message.assistant(WHOLE.text)
    for event in spoken.rest(cut):
        fold.add(event)
    assert fold.message.text == cut.text
