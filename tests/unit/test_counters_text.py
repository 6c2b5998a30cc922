"""What texts weigh: the sum of what their characters do, whatever they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.counters._text import _OTHERS, _WEIGHTS, UNIT, weigh, weigh_others

ANY_TEXT = st.text(st.characters(), max_size=300)  # lone surrogates too


def one_by_one(text: str, table: bytes) -> int:
    return sum(table[byte] for byte in text.encode("utf-8", "surrogatepass"))


@given(ANY_TEXT)
def test_a_weight_is_the_sum_over_the_characters(text: str) -> None:
    assert weigh(text) == one_by_one(text, _WEIGHTS)
    assert weigh_others(text) == one_by_one(text, _OTHERS)
    assert 0 <= weigh_others(text) <= weigh(text)


@given(ANY_TEXT, ANY_TEXT)
def test_weights_add_up(left: str, right: str) -> None:
    assert weigh(left + right) == weigh(left) + weigh(right)


@pytest.mark.parametrize(
    "character", ["a", "\n", "9", "é", "я", "字", "🙂", "\U0010ffff", "\ud800", "\x00", "~"]
)
@pytest.mark.parametrize("length", [1, 3_199, 3_200, 3_201, 6_400, 20_001])
def test_long_texts_are_weighed_in_blocks_and_nothing_runs_over(character: str, length: int) -> None:
    assert weigh(character * length) == weigh(character) * length
    assert weigh(character) >= 1


def test_no_character_is_heavier_than_a_block_can_hold() -> None:
    heaviest = max(_WEIGHTS)
    assert heaviest * 3_200 < 65_521
    assert set(_WEIGHTS[0x80:0xC2]) == {0}  # what continues a character weighs nothing


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        # As the public tokenizers cl100k and o200k count them, and Anthropic's of old.
        ("The tide comes in twice a day, and goes out again before anybody has noticed. " * 10, 140, 200),
        ("for index, item in enumerate(items):\n    total += item.price * index\n" * 10, 160, 280),
        ("東京は日本の首都であり、世界最大級の都市圏を形成している。" * 10, 200, 400),
        ("Быстрая лиса перепрыгивает через ленивую собаку и убегает в лес. " * 10, 200, 450),
        ("😀🎉🚀👍" * 10, 60, 120),
    ],
    ids=["prose", "code", "Japanese", "Russian", "emoji"],
)
def test_scripts_weigh_about_what_tokenizers_make_of_them(text: str, least: int, most: int) -> None:
    assert least <= weigh(text) / UNIT <= most
