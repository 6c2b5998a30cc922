"""Text that is held back: what a guardrail looks for is never shown, however the text is cut."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.contracts.guardrail import Position, Sentence, View, Whole, Window
from gnomon.engine.gates import Gates
from gnomon.engine.guards import Guard
from gnomon.errors import GuardrailTripped
from gnomon.types.steps import GuardrailResult


class Words:
    """Looks for whole words, as a blocklist does; a window of their length is all it needs."""

    name = "words"
    positions: frozenset[Position] = frozenset({"output"})

    def __init__(self, pattern: str, view: View, replacement: str | None = None) -> None:
        self._pattern = re.compile(pattern)
        self.view = view
        self._replacement = replacement
        self.shown: list[str] = []

    async def check(self, content: str) -> GuardrailResult:
        self.shown.append(content)
        if not self._pattern.search(content):
            return GuardrailResult(passed=True)
        instead = None if self._replacement is None else self._pattern.sub(self._replacement, content)
        return GuardrailResult(passed=False, reason="a word", replacement=instead)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


async def through(gates: Gates, pieces: list[str]) -> str:
    shown = ""
    for piece in pieces:
        shown += await gates.feed(piece)
    return shown + await gates.finish()


def run(work: Coroutine[Any, Any, str]) -> str:
    return asyncio.run(work)


texts = st.lists(
    st.sampled_from(["bad", "badly", "a", "not", "so", "bad.", "x" * 30, "b", "ad", "\n", "e. "]), max_size=30
).map(" ".join)
places = st.lists(st.integers(0, 200), max_size=40)


@settings(max_examples=150, deadline=None)
@given(texts, places)
def test_a_text_that_is_replaced_is_the_same_however_it_is_cut(text: str, at: list[int]) -> None:
    guard = Guard(Words(r"\bbad\b", Window(5), "***"))
    assert run(through(Gates([guard]), cut(text, at))) == re.sub(r"\bbad\b", "***", text)


@settings(max_examples=150, deadline=None)
@given(texts, places)
def test_a_word_that_stops_is_never_shown(text: str, at: list[int]) -> None:
    gates = Gates([Guard(Words(r"\bbad\b", Window(5)))])
    first = re.search(r"\bbad\b", text)
    try:
        shown = run(through(gates, cut(text, at)))
    except GuardrailTripped:
        assert first is not None
        assert len(gates.released) <= first.start()
    else:
        assert first is None
        assert shown == text


@settings(max_examples=60, deadline=None)
@given(texts, places)
def test_what_one_guardrail_puts_in_another_sees(text: str, at: list[int]) -> None:
    first = Guard(Words(r"\bbad\b", Window(5), "worse"))
    second = Guard(Words(r"worse", Window(5), "good"))
    shown = run(through(Gates([first, second]), cut(text, at)))
    assert "worse" not in shown
    assert shown == re.sub(r"\bbad\b", "good", text)


@settings(max_examples=60, deadline=None)
@given(texts, places)
def test_whole_and_sentence_give_the_text_once(text: str, at: list[int]) -> None:
    for view in (Whole(), Sentence()):
        assert run(through(Gates([Guard(Words("zzz", view))]), cut(text, at))) == text


async def test_no_more_is_held_back_than_the_window() -> None:
    gates = Gates([Guard(Words(r"\bbad\b", Window(5)))])
    shown = "".join([await gates.feed(letter) for letter in "all of this is fine"])
    assert shown == "all of this is fine"[:-4]
    assert gates.holds
    assert await gates.finish() == "fine"
    assert not gates.holds


async def test_after_a_word_was_replaced_text_flows_again() -> None:
    gates = Gates([Guard(Words(r"\bbad\b", Window(5), "***"))])
    text = "a bad word, and then a long and harmless rest of the text that goes on"
    shown = "".join([await gates.feed(letter) for letter in text])
    assert len(shown) >= len(text) - 12
    assert [trip.reason for trip in gates.trips] == ["a word"]


async def test_a_sentence_is_shown_when_it_is_whole() -> None:
    words = Words("bad", Sentence(), "good")
    gates = Gates([Guard(words)])
    assert await gates.feed("One is ba") == ""
    assert await gates.feed("d. Two is") == "One is good. "
    assert words.shown == ["One is bad. "]
    assert await gates.finish() == "Two is"


async def test_what_has_no_end_is_not_held_for_ever() -> None:
    gates = Gates([Guard(Words("bad", Sentence()))])
    assert len(await gates.feed("x" * 5_000)) == 5_000


async def test_whole_shows_nothing_before_the_end() -> None:
    words = Words("bad", Whole(), "good")
    gates = Gates([Guard(words)])
    assert await gates.feed("so ba") == ""
    assert await gates.feed("d") == ""
    assert await gates.finish() == "so good"
    assert words.shown == ["so bad"]


async def test_a_window_too_small_does_not_take_back_what_was_shown() -> None:
    class Short(Words):
        async def check(self, content: str) -> GuardrailResult:
            if "needle" in content:
                return GuardrailResult(
                    passed=False, reason="found", replacement=content.replace("a hay", "b")
                )
            return GuardrailResult(passed=True)

    gates = Gates([Guard(Short("", Window(6)))])
    assert await gates.feed("a haystack with much in it, and a ") != ""
    with pytest.raises(GuardrailTripped, match="would change what was shown already"):
        await through(gates, list("needle in the end of it all"))


async def test_what_was_shown_long_ago_is_not_kept() -> None:
    words = Words(r"\bbad\b", Window(5))
    gates = Gates([Guard(words)])
    text = "word " * 4_000
    assert await through(gates, cut(text, list(range(0, 20_000, 50)))) == text
    assert max(map(len, words.shown)) < 200
