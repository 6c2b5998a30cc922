"""The blocklist: what counts as a word, however it is written, and what does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import ConfigError
from gnomon.guardrails._folding import GAP, HIDDEN
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.types.steps import GuardrailResult


def checked(terms: Sequence[str], text: str) -> GuardrailResult:
    return asyncio.run(BlocklistGuardrail(terms, on_match="redact").check(text))


def starred(terms: Sequence[str], text: str) -> str:
    """The text with its terms starred out; as it is, when there are none."""
    result = checked(terms, text)
    if result.passed:
        return text
    assert result.replacement is not None
    return result.replacement


# --- whole words ------------------------------------------------------------

WRITTEN = {
    "as it is": "bad",
    "in capitals": "BAD",
    "before a full stop": "bad.",
    "in quotes": '"bad"',
    "in Markdown": "_bad_ **bad**",
    "after a number and a sign": "1/bad",
    "with a zero-width space": "b\u200bad",
    "with a soft hyphen": "ba\xadd",
    "with a joiner at every place": "b\u200da\u200dd\u200d",
    "with a byte order mark": "\ufeffba\ufeffd",
    "with marks of direction": "\u202eb\u202dad\u202c",
    "with a control character": "ba\x00d",
    "with a variation selector": "b\ufe0fad",
    "with tags": "b\U000e0061ad",
    "struck through": "b\u0336a\u0336d\u0336",
    "with accents": "bäd",
    "with accents that were put on": "ba\u0308d\u0301",
    "in full width": "ｂａｄ",
    "in mathematical letters": "𝐛𝒶𝕕",
    "in circles": "ⓑⓐⓓ",
    "with a Cyrillic letter": "b\u0430d",
    "among other scripts": "это bad 字",
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_a_word_is_found_however_it_is_written(text: str) -> None:
    result = checked(["bad"], text)
    assert not result.passed
    assert result.reason == "term 1 of 1 was found"
    assert result.replacement is not None
    assert "***" in result.replacement


@pytest.mark.parametrize(
    "text", ["badly", "abad", "bad1", "ba d", "b-a-d", "bаdly", "bédly", "BADLY", "", "d a b"]
)
def test_a_piece_of_another_word_is_none(text: str) -> None:
    assert checked(["bad"], text) == GuardrailResult(True)


SAME = [
    ("straße", "STRASSE"),
    ("ﬁsh", "FISH"),
    ("café", "CAFE"),
    ("cafe", "Café"),
    ("İstanbul", "istanbul"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ("рос", "РОС"),
    ("한국", "한국"),
    ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ("が", "か\u3099"),
    ("कुत्ता", "यह कुत्ता है"),
    ("שָׁלוֹם", "שָׁלוֹם"),
]


@pytest.mark.parametrize(("term", "text"), SAME)
def test_other_scripts_and_forms_are_compared_as_they_are_read(term: str, text: str) -> None:
    assert not checked([term], text).passed


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("कुत्ता", "कुत्तागिरी"),
        ("рос", "рост"),
        ("한국", "한국어"),
        ("か", "が"),
        ("ก", "ก่"),
        ("bad", "bad\u0915"),
    ],
)
def test_a_longer_word_of_another_script_is_another_word(term: str, text: str) -> None:
    assert checked([term], text).passed


def test_scripts_without_spaces_are_searched_anywhere() -> None:
    assert starred(["赌博", "ไม่ดี", "毒"], "我喜欢赌博游戏 และไม่ดีมาก 毒品") == "我喜欢***游戏 และ***มาก ***品"
    assert starred(["赌 博"], "赌博 赌 博 赌\u3000博") == "赌博 *** ***"
    assert checked(["赌博"], "博赌 赌x博").passed
    assert starred(["赌x博"], "a赌x博") == "a***"


# --- terms of more than a word ----------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["new york", "New  York", "new\nyork", "NEW-YORK", "new_york", "new – york", "new\u200b \u00a0york"],
)
def test_words_of_a_term_may_be_spaced_and_joined_in_any_way(text: str) -> None:
    assert starred(["New York"], f"in {text}, they say") == "in ***, they say"
    assert starred(["new-york"], f"in {text}, they say") == "in ***, they say"


@pytest.mark.parametrize(
    "text",
    ["new. york", "new, york", "newyork", "york new", "new", "new yorks", "new" + " " * (GAP + 2) + "york"],
)
def test_words_that_are_not_together_are_not_the_term(text: str) -> None:
    assert checked(["new york"], text).passed


def test_words_may_stand_as_far_apart_as_it_says_and_no_farther() -> None:
    assert not checked(["new york"], "new" + " " * GAP + "york").passed
    assert checked(["new york"], "new" + " " * (GAP + 1) + "york").passed
    others = ["new york", "rock & roll", "a" + "!" * 20 + "b"]
    assert checked(others, "new" + " " * (GAP + 1) + "york").passed
    assert not checked(others, "rock" + " " * (GAP - 1) + "&  roll").passed


def test_the_longest_term_is_taken_and_then_the_next_one() -> None:
    terms = ["new", "new york", "new york city", "city"]
    assert starred(terms, "new york city, new york, new city york") == "***, ***, *** *** york"
    assert checked(terms, "new york city").reason == "term 3 of 4 was found"


def test_terms_that_share_a_sign_are_not_both_taken() -> None:
    assert starred(["b@", "@a"], "b@a b @a") == "***a b ***"
    assert starred(["b@", "@a", "@"], "b@a @") == "***a ***"


@pytest.mark.parametrize(
    ("term", "text", "expected"),
    [
        ("c++", "I like C++, and c, c+ too", "I like ***, and c, c+ too"),
        ("c--", "c-- c", "*** c"),
        (".net", "use .NET or net", "use *** or net"),
        ("@here", "hey @here, here", "hey ***, here"),
        ("f**k", "F**K and fk", "*** and fk"),
        ("a&b", "A&B a & b", "*** a & b"),
        ("rock & roll", "Rock  &  Roll", "***"),
        ("a" + "!" * 12 + "b", "a" + "!" * 12 + "b", "***"),
        ("evil-site.example", "https://evil-site.example/x", "https://***/x"),
        ("don't", "DON'T do", "*** do"),
        ("$$$", "$$$ and $$", "*** and $$"),
        ("🖕", "hi 🖕\ufe0f!", "hi ***!"),
        ("( )", "(   ) ()", "*** ()"),
        ("--", "a -- b", "a *** b"),
        ("- -", "a - - b -- c", "a *** b -- c"),
        ("@ here", "at @  here, here", "at ***, here"),
        ("a +", "a   +, a+", "***, a+"),
        ("  bad  ", "bad", "***"),
    ],
)
def test_signs_in_a_term_count(term: str, text: str, expected: str) -> None:
    assert starred([term], text) == expected


# --- what hides something ---------------------------------------------------


def test_so_many_unseen_characters_are_looked_through_and_more_are_a_match_themselves() -> None:
    assert checked(["bad"], "b" + "\u200b" * HIDDEN + "ad").reason == "term 1 of 1 was found"
    more = "b" + "\u200b" * (HIDDEN + 1) + "ad"
    result = checked(["bad"], f"so {more}, so")
    assert result == GuardrailResult(False, "a run of unseen characters was found", "so ***, so")
    assert starred(["good"], f"so {more}, so") == "so bad, so"
    assert starred(["good"], "so\x00" * 3 + "\x00" * 9 + " it is") == "so\x00so\x00so it is"


@pytest.mark.parametrize(
    "text", ["a \u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b b", "👩\u200d👩\u200d👧", "1\ufe0f\u20e3"]
)
def test_unseen_characters_that_hide_nothing_pass(text: str) -> None:
    assert checked(["bad"], text).passed


# --- what it says and what it makes -----------------------------------------


def test_the_reason_names_the_places_in_the_list_and_not_the_words() -> None:
    words = [f"w{letter}x" for letter in "abcdefgh"]
    assert checked(words, "wbx wax wbx").reason == "term 2 of 8 and term 1 of 8 were found"
    many = checked(words, " ".join(words)).reason
    assert many == ", ".join(f"term {n} of 8" for n in range(1, 6)) + " and 3 more were found"


async def test_it_stops_unless_it_is_told_to_redact() -> None:
    assert await BlocklistGuardrail(["bad"]).check("bad") == GuardrailResult(False, "term 1 of 1 was found")


def test_a_replacement_that_would_not_pass_is_none() -> None:
    result = checked(["bad", "a *** b"], "a bad b")
    assert not result.passed
    assert result.replacement is None


def test_a_term_twice_in_the_list_is_found_as_the_first() -> None:
    assert (
        checked(["good", "bad", "BAD", "$", "$"], "bad $").reason == "term 2 of 5 and term 4 of 5 were found"
    )


# --- its view ---------------------------------------------------------------


def test_the_view_is_as_long_as_a_term_can_be_made() -> None:
    guardrail = BlocklistGuardrail(["new york", "a"])
    stretched = ("\u200b" * HIDDEN).join("new" + " " * GAP + "york") + "\u200b" * HIDDEN
    assert len(stretched) == guardrail.view.size
    assert not asyncio.run(guardrail.check(stretched)).passed
    assert BlocklistGuardrail(["a"]).view.size == HIDDEN + 2
    assert BlocklistGuardrail(["( )"]).view.size == (2 + GAP) * (1 + HIDDEN)


UNSEEN = st.text("\u200b\u0301\x00\ufe0f", max_size=HIDDEN)
WORDS = st.text("abçdé", min_size=1, max_size=5)


@given(st.lists(WORDS, min_size=1, max_size=3), st.data())
def test_a_term_is_found_in_any_disguise_within_its_view(words: list[str], data: st.DataObject) -> None:
    guardrail = BlocklistGuardrail([" ".join(words)])
    pieces: list[str] = []
    for word in words:
        pieces.append(data.draw(st.text(" -_\n\u00a0", min_size=1, max_size=GAP)) if pieces else "")
        for letter in word:
            pieces += [data.draw(st.sampled_from([letter, letter.upper()])), data.draw(UNSEEN)]
    disguised = "".join(pieces)
    assert len(disguised) <= guardrail.view.size
    assert not asyncio.run(guardrail.check(disguised)).passed, repr(disguised)
    assert not asyncio.run(guardrail.check(f"x {disguised} y")).passed


# --- many, beside an expression that is plainly right -----------------------

TEXTS = st.text("ab c-+\nA", max_size=40)
TERMS = st.lists(
    st.text("ab c+", min_size=1, max_size=6).filter(lambda term: term.strip()), min_size=1, max_size=8
)


def plainly(terms: list[str], text: str) -> bool:
    """Whether any of them is there, by a regular expression each."""

    def found(term: str) -> bool:
        pattern = re.sub(r"(?:\\ )+", rf"[\\s-]{{1,{GAP}}}", re.escape(term.strip().lower()))
        before = r"(?<![a-z0-9])" if term.strip()[0].isalnum() else ""
        after = r"(?![a-z0-9])" if term.strip()[-1].isalnum() else ""
        return re.search(before + pattern + after, text.lower()) is not None

    return any(map(found, terms))


@given(TERMS, TEXTS)
def test_it_finds_what_a_regular_expression_finds(terms: list[str], text: str) -> None:
    result = checked(terms, text)
    assert result.passed is not plainly(terms, text)
    if result.replacement is not None:
        assert not plainly(terms, result.replacement)


def test_ten_thousand_terms_are_as_good_as_one() -> None:
    terms = [f"word{number}" for number in range(10_000)]
    assert checked(terms, "nothing of it").passed
    assert starred(terms, "word0 word9999 word10000 and more") == "*** *** word10000 and more"


# --- what it is made with ---------------------------------------------------


@pytest.mark.parametrize("terms", ["bad", [], ["bad", " "], ["\u200b"]])
def test_a_list_without_words_is_refused(terms: Sequence[str]) -> None:
    with pytest.raises(ConfigError, match=r"guardrail 'blocklist'.*term"):
        BlocklistGuardrail(terms)


def test_the_stars_cannot_be_a_term_themselves() -> None:
    with pytest.raises(ConfigError, match="is a term"):
        BlocklistGuardrail(["bad", "**"], on_match="redact")
    BlocklistGuardrail(["bad", "**"])
