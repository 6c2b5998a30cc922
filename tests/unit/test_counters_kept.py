"""What was measured is remembered by the object it was made of: sound, incremental and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gnomon.counters._kept import Kept
from gnomon.counters._measure import NOTHING, Columns, measure
from gnomon.types.messages import Image, Message, Thinking


class Counting:
    """Measures messages, and knows how many."""

    def __init__(self) -> None:
        self.measured = 0

    def __call__(self, messages: Sequence[Message]) -> Columns:
        self.measured += len(messages)
        return measure(messages, "gpt-4o")


def messages(count: int) -> list[Message]:
    return [Message.user(f"message {number}") for number in range(count)]


def test_a_grown_history_is_measured_where_it_grew() -> None:
    counting = Counting()
    kept = Kept(counting)
    history: list[Message] = []
    for _ in range(500):
        history += messages(2)
        assert kept.total(history) == measure(history, "gpt-4o")
    assert counting.measured <= 1_000 + 2 * 500 // 10  # each once, and little more at the seams


def test_a_long_history_costs_no_more_to_grow_than_a_short_one() -> None:
    for size in (1, 63, 64, 65, 1_000, 5_000):
        counting = Counting()
        kept = Kept(counting)
        history = messages(size)
        kept.total(history)
        counting.measured = 0
        for _ in range(3):
            history.append(Message.user("one more"))
            kept.total(history)
        assert counting.measured <= 3, size


def test_the_same_history_is_not_measured_again() -> None:
    counting = Counting()
    kept = Kept(counting)
    history = messages(200)
    assert kept.total(history) == kept.total(tuple(history)) == kept.total(history)
    assert counting.measured == 200


@given(st.integers(), st.integers(1, 5), st.integers(1, 200))
def test_whatever_changes_the_total_is_right(seed: int, most: int, size: int) -> None:
    """With a memory so small that it forgets all the time, and objects that are freed."""
    random = Random(seed)
    kept: Kept[Message] = Kept(lambda some: measure(some, "gpt-4o"), most=most)
    history = messages(size)
    for _ in range(10):
        assert kept.total(history) == measure(history, "gpt-4o")
        for _ in range(random.randrange(4)):
            history.insert(random.randrange(len(history) + 1), Message.user("x" * random.randrange(99)))
        at = random.randrange(len(history) + 1)
        del history[at : at + random.randrange(3)]
        history = history[random.randrange(2) :]


def test_it_does_not_grow_without_bound() -> None:
    kept: Kept[Message] = Kept(lambda some: measure(some, "gpt-4o"), most=10)
    for _ in range(200):
        kept.total(messages(100))
        assert len(kept) <= 20


def test_large_things_are_not_held_for_long() -> None:
    kept: Kept[Message] = Kept(lambda some: measure(some, "gpt-4o"), most_bytes=1_000_000)
    for _ in range(50):
        kept.total([Message.user(Image(data=bytes(400_000)))])
        kept.total([Message.user("x" * 400_000)])
        assert len(kept) <= 12


def test_what_is_large_and_has_no_text_is_not_held_for_long_either() -> None:
    address = "data:image/png;base64," + "A" * 100_000
    for part in (Image(url=address), Thinking(text="x", signature="S" * 100_000)):
        assert measure((Message.assistant(part),), "gpt-4o").held >= 100_000


def test_nothing_is_nothing() -> None:
    assert Kept(Counting()).total(()) == NOTHING
