"""What fits a question: by words, in any script, and among equals the newest."""

from __future__ import annotations

from datetime import timedelta

import pytest
from memory_shelves import START, CountingStore

from gnomon.errors import InvalidInput
from gnomon.memory import Memory
from gnomon.memory._ranking import LONGEST_QUERY, ranked
from gnomon.types.records import MemoryRecord


def fact(key: str, value: object, age_s: int = 0, session_id: str = "") -> MemoryRecord:
    at = START - timedelta(seconds=age_s)
    return MemoryRecord(
        id=f"{key}.{age_s}",
        key=key,
        value=value,
        created_at=at,
        updated_at=at,
        agent_id="helper",
        user_id="ann",
        session_id=session_id,
        kind="short_term" if session_id else "long_term",
    )


async def found(query: str, *facts: MemoryRecord, limit: int = 5) -> list[str]:
    memory = Memory(CountingStore(list(facts)), agent_id="helper", user_id="ann")
    return [record.key for record in await memory.recall(query, limit)]


async def test_the_rare_word_counts_for_more_than_the_common_one() -> None:
    facts = [fact(f"user {n}", "the user said so", age_s=n) for n in range(8)]
    facts.append(fact("pet", "the dog of the user is called Argos", age_s=99))
    assert (await found("what is the dog of the user called", *facts))[0] == "pet"


async def test_a_rare_word_alone_is_better_than_a_common_one_alone() -> None:
    facts = [fact(f"n{n}", "coffee", age_s=n) for n in range(8)]
    assert (await found("coffee tea", *facts, fact("rare", "tea", age_s=99)))[0] == "rare"


async def test_the_order_of_the_store_does_not_matter() -> None:
    facts = [fact("b", "tea", 5), fact("a", "tea", 5), fact("c", "tea", 1)]
    for given in (facts, facts[::-1]):
        assert [record.key for record in ranked(given, "")] == ["c", "a", "b"]
        assert [record.key for record in ranked(given, "tea")] == ["c", "a", "b"]


async def test_more_of_the_words_is_better() -> None:
    facts = [fact("a", "tea in the morning", 1), fact("b", "tea with milk in the morning", 5)]
    assert await found("tea with milk", *facts) == ["b", "a"]


async def test_a_short_fact_is_better_than_a_long_one_that_says_it_too() -> None:
    long = "tea " + " ".join(f"word{n}" for n in range(100))
    assert await found("tea", fact("long", long, 1), fact("short", "likes tea", 5)) == ["short", "long"]


async def test_the_words_of_the_key_count_too() -> None:
    assert await found("favourite colour", fact("favourite_colour", "green"), fact("town", "Rome")) == [
        "favourite_colour"
    ]


async def test_among_equals_the_newest_is_first_and_then_the_key_decides() -> None:
    facts = [fact("b", "tea", 5), fact("a", "tea", 5), fact("c", "tea", 1)]
    assert await found("tea", *facts) == ["c", "a", "b"]
    assert await found("tea", *reversed(facts)) == ["c", "a", "b"]


async def test_what_shares_no_word_is_not_found() -> None:
    assert await found("weather", fact("colour", "green")) == []


@pytest.mark.parametrize("query", ["", "  \n"])
async def test_a_question_without_words_gives_the_newest(query: str) -> None:
    facts = [fact("old", "x", 9), fact("new", "y", 1)]
    assert await found(query, *facts, limit=1) == ["new"]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("HAUPTSTRASSE", "wohnt in der Hauptstraße"),
        ("cafe", "trifft sich im Café"),
        ("Τσάι", "πίνει τσάι"),
        ("город", "любимый Город: Рим"),
        ("猫", "彼女は猫が好きです"),
        ("บ้าน", "เธออยู่ที่บ้านหลังเล็ก"),
        ("ｔｅａ", "likes tea"),
    ],
)
async def test_words_are_found_in_any_script_and_case(query: str, value: str) -> None:
    assert await found(query, fact("right", value), fact("other", "nothing of the kind")) == ["right"]


async def test_a_value_that_somebody_stored_as_data_is_found_by_its_words() -> None:
    assert await found("argos", fact("pet", {"dog": "Argos"}), fact("n", 7)) == ["pet"]


async def test_no_more_are_given_than_were_asked_for() -> None:
    facts = [fact(f"f{n}", "tea", n) for n in range(9)]
    assert await found("tea", *facts, limit=3) == ["f0", "f1", "f2"]
    with pytest.raises(InvalidInput, match="limit is a whole number above 0"):
        await found("tea", *facts, limit=0)


async def test_ten_thousand_memories_are_read_once_in_pages() -> None:
    facts = [fact(f"fact {n:05}", f"the number {n} was said", n) for n in range(9_999)]
    facts.append(fact("pet", "the dog is called Argos", 99_999))
    store = CountingStore(facts)
    memory = Memory(store, agent_id="helper", user_id="ann", timeout_s=100)
    assert [record.key for record in await memory.recall("dog", 3)] == ["pet"]
    assert store.asked == ["list"] * 20
    block = await memory.block(200)
    assert "fact 00000" in block
    assert store.asked == ["list"] * 40


async def test_a_question_of_any_length_is_answered() -> None:
    assert await found("tea " * 500_000, fact("a", "tea")) == ["a"]
    assert await found("x" * LONGEST_QUERY + " tea", fact("a", "tea")) == []
