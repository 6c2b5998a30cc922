"""Leaving out the oldest: what goes, what stays, and what is raised."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest

from gnomon import registry
from gnomon.compactors._marks import mark_of, note, summary
from gnomon.compactors.truncate import TruncateCompactor
from gnomon.contracts.compactor import Compactor, SupportsAsking
from gnomon.counters.calibrated import CalibratedCounter
from gnomon.counters.estimating import EstimatingCounter
from gnomon.errors import ContextTooLong, UnknownName
from gnomon.providers import _gemini_body, _messages_body
from gnomon.types.messages import Message, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request

PROMPT = Message.system("Be brief.")
FIRST = Message.user("Watch the tides.")
WORDS = "water " * 20
"""About thirty tokens, as it is counted here."""


class Counter(EstimatingCounter):
    """Counts how often each message is counted."""

    def __init__(self) -> None:
        self.counted = 0

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        self.counted += len(messages)
        return super().count_messages(messages, tools)


def compact(messages: Sequence[Message], budget: int, **options: object) -> tuple[Message, ...]:
    compactor = TruncateCompactor(**{"counter": "estimating", "keep": 0.75, **options})  # type: ignore[arg-type]
    return asyncio.run(compactor.compact(messages, budget))


def exchange(at: int) -> list[Message]:
    return [Message.user(f"Question {at}: {WORDS}"), Message.assistant(f"Answer {at}: {WORDS}")]


def round_(at: int, words: str = WORDS) -> list[Message]:
    call = ToolCall(f"c{at}", "look", '{"for": "tides"}')
    return [Message.assistant(call), Message.tool(ToolResult.of(call, f"Found {at}: {words}"))]


def talk(count: int) -> list[Message]:
    return [PROMPT, FIRST, *(message for at in range(count) for message in exchange(at))]


def test_the_oldest_exchanges_go_and_a_note_stands_in_their_place() -> None:
    messages = talk(20)
    found = compact(messages, 700, keep=1.0)
    tail = len(found) - 3
    assert found[:2] == (PROMPT, FIRST)
    assert found[2] == note(len(messages) - 2 - tail)
    assert all(kept is given for kept, given in zip(found[3:], messages[-tail:], strict=True))
    assert tail == 2 * 10, "as many as there is room for"
    assert found[3].text.startswith("Question 10:")


def test_a_share_of_the_budget_is_left_for_what_comes_next() -> None:
    counted = [
        EstimatingCounter().count_messages(compact(talk(40), 1_000, keep=keep)) for keep in (0.3, 0.6, 1.0)
    ]
    assert counted[0] <= 300
    assert 500 < counted[1] <= 600
    assert 900 < counted[2] <= 1_000


def test_more_than_the_share_is_filled_when_the_last_exchange_needs_it_and_no_more_than_that() -> None:
    last = [Message.user("Now: ", WORDS * 3), Message.assistant("Then: ", WORDS * 3)]
    messages = [*talk(10), *last]
    assert compact(messages, 600, keep=0.25) == (PROMPT, FIRST, note(20), *last)


def test_a_model_that_talks_to_itself_is_cut_between_its_messages() -> None:
    messages = [PROMPT, FIRST, *(Message.assistant(f"Number {at}: {WORDS}") for at in range(40))]
    found = compact(messages, 500, keep=1.0)
    assert len(found) > 12
    assert found[3:] == tuple(messages[-len(found) + 3 :])


def test_the_budget_is_filled_by_short_messages_too() -> None:
    """What every prompt has around its messages is not counted for each of them."""
    counter = CalibratedCounter()
    messages = [
        message for at in range(300) for message in (Message.user(f"And {at}?"), Message.assistant("Yes."))
    ]
    found = compact(messages, 1_000, keep=1.0, counter=counter)
    assert 880 < counter.count_messages(found) <= 1_000


def test_in_a_long_turn_the_oldest_rounds_go_and_its_question_stays() -> None:
    question = Message.user("What is the tide?")
    messages = [*talk(5), question, *(message for at in range(30) for message in round_(at))]
    found = compact(messages, 500, keep=1.0)
    assert found[:3] == (PROMPT, FIRST, question)
    assert found[3] == note(len(messages) - 3 - (len(found) - 4))
    assert found[4].tool_calls
    assert found[-1] is messages[-1]
    assert len(found) > 10


def test_a_note_that_was_there_before_is_taken_up_in_the_next() -> None:
    messages = talk(20)
    first = compact(messages, 700, keep=1.0)
    again = compact([*first, *exchange(20), *exchange(21)], 700, keep=1.0)
    assert [mark_of(message) for message in again if message.meta] == [("note", 2 * 12)]
    assert again[:2] == (PROMPT, FIRST)


def test_a_note_is_not_taken_for_what_the_user_said_first() -> None:
    found = compact([PROMPT, note(1), *talk(20)[1:]], 700)
    assert found[:2] == (PROMPT, FIRST)
    assert [mark_of(message) for message in found if message.meta] == [("note", 41 - len(found) + 3)]


def test_an_earlier_summary_stays_where_there_is_room() -> None:
    written = summary("The tide is high at noon.", 50)
    messages = [PROMPT, FIRST, written, *talk(20)[2:]]
    found = compact(messages, 700)
    assert found[2] is written
    assert mark_of(found[3]) == ("note", len(messages) - len(found) + 1)
    assert written not in compact(messages, 180), "what the user said last goes first"


def test_instructions_on_the_way_stay_where_there_is_room_the_newest_first() -> None:
    orders = [Message.system(f"From now on {at}: {'speak plainly ' * 10}") for at in range(12)]
    messages = [PROMPT, FIRST, *(m for at in range(12) for m in (*exchange(at), orders[at])), *exchange(99)]
    found = compact(messages, 700)
    kept = [order for order in orders if order in found]
    assert kept == orders[-len(kept) :]
    assert 2 < len(kept) < 12
    assert found[-2:] == tuple(messages[-2:])
    assert sum(message.role == "assistant" for message in found) > 2, (
        "they have no more than half of the room"
    )


def test_a_greeting_before_the_first_question_goes_first() -> None:
    messages = [PROMPT, Message.assistant("Welcome! ", WORDS * 20), FIRST, *exchange(0)]
    assert compact(messages, 300) == (PROMPT, note(1), FIRST, *messages[-2:])


def test_long_results_in_the_last_exchange_are_shortened_when_there_is_no_other_way() -> None:
    messages = [*talk(5), *round_(1), *round_(2, WORDS * 500)]
    found = compact(messages, 600)
    question = messages[-6]
    assert found[:4] == (PROMPT, FIRST, question, note(len(messages) - 5))
    assert found[4] is messages[-2]
    text = found[5].tool_results[0].text
    assert text.startswith("Found 2: water")
    assert "shortened to fit the model's window" in text
    assert 550 <= EstimatingCounter().count_messages(found) <= 600, "as long as there is room for"


def test_where_nothing_is_left_out_there_is_no_note() -> None:
    messages = [PROMPT, FIRST, *round_(1, WORDS * 500)]
    found = compact(messages, 600)
    assert found[:3] == tuple(messages[:3])
    assert len(found) == 4
    assert "shortened" in found[3].tool_results[0].text


def test_it_raises_with_numbers_when_what_must_stay_is_too_long() -> None:
    with pytest.raises(ContextTooLong) as found:
        compact([PROMPT, FIRST, *exchange(1), Message.user(WORDS * 100)], 1_000)
    assert "what must stay comes to 30" in found.value.message
    assert "the budget is 1000" in found.value.message
    assert found.value.hint
    assert not found.value.retryable
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)


def test_a_budget_of_nothing_is_too_small_for_anything() -> None:
    assert compact([], 0) == ()
    for budget in (0, -1):
        with pytest.raises(ContextTooLong):
            compact([FIRST], budget)


def test_the_same_messages_give_the_same_view() -> None:
    assert compact(talk(30), 600) == compact(talk(30), 600)


def test_every_message_is_counted_a_few_times_however_many_there_are() -> None:
    for exchanges in (50, 1_000):
        counter = Counter()
        messages = talk(exchanges)
        compact(messages, 30 * exchanges, counter=counter)
        assert counter.counted < 4 * len(messages)


def test_a_counter_for_which_the_whole_is_more_than_its_parts_is_believed() -> None:
    class Crowded(EstimatingCounter):
        """Messages cost more among others."""

        def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
            return super().count_messages(messages, tools) * (3 if len(messages) > 2 else 2)

    for budget in (1_000, 2_000):
        found = compact(talk(40), budget, counter=Crowded(), keep=1.0)
        assert Crowded().count_messages(found) <= budget
        assert Crowded().count_messages(found) > budget / 2


def test_a_counter_that_cannot_be_satisfied_by_leaving_out_is_an_error() -> None:
    class Grudging(EstimatingCounter):
        """More than one message is always too much."""

        def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
            return 10 if len(messages) < 2 else 10_000

    with pytest.raises(ContextTooLong):
        compact(talk(40), 5_000, counter=Grudging())


# --- making one -------------------------------------------------------------------


def test_it_is_found_by_its_name() -> None:
    assert registry.names("compactors") == ("summarize", "truncate")
    assert registry.load("compactors", "truncate") is TruncateCompactor
    assert isinstance(TruncateCompactor(), Compactor)
    assert not isinstance(TruncateCompactor(), SupportsAsking)


@pytest.mark.parametrize("keep", [0, -1, 1.01])
def test_a_share_that_is_none_is_refused(keep: float) -> None:
    with pytest.raises(ValueError, match="keep is a share of the budget"):
        TruncateCompactor(keep=keep)


def test_a_counter_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="no token counter called 'abacus'"):
        TruncateCompactor(counter="abacus")
    with pytest.raises(TypeError, match="counter is a TokenCounter or a name"):
        TruncateCompactor(counter=4)  # type: ignore[arg-type]
    monkeypatch.setattr(registry, "load", lambda kind, name: object)
    with pytest.raises(registry.ConfigError, match="gave object, not a TokenCounter"):
        TruncateCompactor()


# --- on its way to a model ----------------------------------------------------------


@pytest.mark.parametrize("in_a_turn", [False, True])
def test_vendors_that_want_turns_get_them_without_a_warning(in_a_turn: bool) -> None:
    """First question, last question and note stand in a row: they are one turn, and results follow calls."""
    rounds = [message for at in range(30) for message in round_(at)] if in_a_turn else []
    messages = compact([*talk(30), Message.user("And now?"), *rounds], 800)
    assert [message.role for message in messages[:3]] == ["system", "user", "user"]
    request = Request(messages=messages)
    for made, turns in (
        (_messages_body.body_of(request, "claude-opus-5-5", _messages_body.Ways(cache=False)), "messages"),
        (_gemini_body.body_of(request, "gemini-3.5-flash", _gemini_body.Ways()), "contents"),
    ):
        body, warnings = made
        roles = [turn["role"] for turn in msgspec.json.decode(body)[turns]]
        assert roles[0] == "user"
        assert all(before != after for before, after in pairwise(roles))
        assert warnings == ()
