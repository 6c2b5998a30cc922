"""JSON in the making: its value after every piece, whatever the pieces."""

from __future__ import annotations

import copy
import gc
import json
import time
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.engine.output import PartialJSON

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(["😀", "a\\b", 'say "x"', "{[", "]}", "```", "\u2028\x7f", "\\u0041", -0.0, 1e5, 1e-7]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
documents = st.lists(values) | st.dictionaries(st.text(), values)


WIDE = 1  # blanks wherever they may stand


def written(value: object, ascii_only: bool, indent: int | None) -> str:
    separators = (" , ", "\n: ") if indent == WIDE else None
    return json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators)


texts = st.tuples(documents, st.booleans(), st.sampled_from([None, 0, WIDE]))


def is_prefix(part: Any, whole: Any) -> bool:
    """Whether a partial value is what a whole one begins with."""
    if type(part) is not type(whole):
        return False
    if isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(whole, list):
        return _ordered(part, whole[: len(part)]) and len(part) <= len(whole)
    if isinstance(whole, dict):
        return list(part) == list(whole)[: len(part)] and _ordered(
            list(part.values()), list(whole.values())[: len(part)]
        )
    return part == whole


def _ordered(part: list[Any], whole: list[Any]) -> bool:
    """All but the last are whole, and the last is a beginning."""
    return part[:-1] == whole[:-1] and all(map(is_prefix, part[-1:], whole[-1:]))


def fed(text: str, **options: str) -> PartialJSON:
    partial = PartialJSON(**options)
    partial.feed(text)
    return partial


@given(texts)
def test_after_every_character_the_value_is_a_beginning_of_the_whole(written_as: tuple[Any, bool, Any]):
    whole, text = written_as[0], written(*written_as)
    partial = PartialJSON()
    for sign in text[:-1]:
        partial.feed(sign)
        assert is_prefix(partial.value, whole)
        assert partial.is_open
        assert not partial.is_complete
    partial.feed(text[-1])
    assert partial.value == whole
    assert repr(partial.value) == repr(json.loads(text))  # -0.0 and 1.0 are themselves
    assert partial.is_complete
    assert not partial.is_open


@given(texts, st.data())
def test_pieces_of_any_size_give_the_same_as_the_text_at_once(
    written_as: tuple[Any, bool, Any], data: st.DataObject
):
    text = written(*written_as)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    partial = PartialJSON()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        before = copy.deepcopy(partial.value)
        changed = partial.feed(text[start:end])
        assert repr(partial.value) == repr(fed(text[:end]).value)
        assert changed == (repr(before) != repr(partial.value))
    assert partial.value == written_as[0]


@given(texts)
def test_a_snapshot_never_changes(written_as: tuple[Any, bool, Any]):
    text = written(*written_as)
    partial = PartialJSON()
    kept: list[tuple[object, str]] = []
    for sign in text:
        partial.feed(sign)
        assert partial.snapshot() == partial.value
        kept.append((partial.snapshot(), repr(partial.value)))
    assert [repr(snapshot) for snapshot, _ in kept] == [then for _, then in kept]


def test_the_value_is_live():
    partial = fed('{"a": [1, ')
    first = partial.value
    partial.feed('2], "b": "x')
    assert partial.value is first
    assert first == {"a": [1, 2], "b": "x"}


def test_a_snapshot_shares_what_is_closed_and_copies_what_is_open():
    partial = fed('{"a": [1], "b": [2')
    value: Any = partial.value
    snapshot: Any = partial.snapshot()
    assert snapshot["a"] is value["a"]
    assert snapshot["b"] is not value["b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("Sure, here", None),
        ("{", {}),
        ('{"na', {}),
        ('{"name"', {}),
        ('{"name" ', {}),
        ('{"name":', {}),
        ('{"name": ', {}),
        ('{"name": "', {"name": ""}),
        ('{"name": "Al', {"name": "Al"}),
        ('{"name": "Al\\', {"name": "Al"}),
        ('{"name": "Al\\u00e', {"name": "Al"}),
        ('{"name": "Al\\u00e9', {"name": "Alé"}),
        ('{"name": "\\ud83d', {"name": ""}),
        ('{"name": "\\ud83d\\', {"name": ""}),
        ('{"name": "\\ud83d\\ude0', {"name": ""}),
        ('{"name": "\\ud83d\\ude00', {"name": "😀"}),
        ("[1", []),
        ("[1 ", [1]),
        ("[1, 2", [1]),
        ("[1e", []),
        ("[1e5,", [1e5]),
        ("[-", []),
        ("[-0]", [0]),
        ("[-0.0,", [-0.0]),
        ("[2E+2,", [200.0]),
        ("[tru", []),
        ("[true", [True]),
        ("[fals", []),
        ("[false", [False]),
        ("[nul", []),
        ("[null", [None]),
        ('[[{"a": [', [[{"a": []}]]),
        ('{"a": {}, ', {"a": {}}),
        ('{"a": [] , "b', {"a": []}),
        ("[\n", []),
        ("[ ]", []),
        ("{ }", {}),
    ],
)
def test_what_there_is_so_far(text: str, value: object):
    assert repr(fed(text).value) == repr(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r'["\ud83dx', "\ufffdx"),
        (r'["\ud83d"', "\ufffd"),
        (r'["\ud83d\n', "\ufffd\n"),
        (r'["\ud83d\u0041', "\ufffdA"),
        (r'["\ud83d\ud83d\ude00', "\ufffd😀"),
        (r'["\ude00', "\ufffd"),
        (r'["\ud83d\ue000', "\ufffd\ue000"),
        (r'["\ud83d\udfff\udc00', "\U0001f7ff\ufffd"),
        (r'["\udbff\udfff\ud800\udc00', "\U0010ffff\U00010000"),
        (r'["\ud7ff\ue000', "\ud7ff\ue000"),
        (r'["\ud83d\udbff"', "\ufffd\ufffd"),
    ],
)
def test_half_a_surrogate_pair_is_shown_as_a_replacement(text: str, shown: str):
    assert fed(text).value == [shown]
    partial = PartialJSON()
    for sign in text:
        partial.feed(sign)
    assert partial.value == [shown]


def test_every_short_escape_is_read():
    assert fed(r'["\"\\\/\b\f\n\r\t"]').value == ['"\\/\b\f\n\r\t']


@pytest.mark.parametrize(
    "before",
    ["```json\n", "Here it is:\n\n", "\ufeff", 'He said "yes" [sic] and {so on}: ', "[[x]] ", "{[x] "],
)
@pytest.mark.parametrize("after", ["", "\n```", "\n\nAnything else? {[", "]"])
def test_prose_and_fences_around_it_are_passed_over(before: str, after: str):
    for piece in (1, 3, 1000):
        text = before + '{"a": [1, "x"]}' + after
        partial = PartialJSON()
        for at in range(0, len(text), piece):
            partial.feed(text[at : at + piece])
        assert partial.value == {"a": [1, "x"]}
        assert partial.is_complete
        assert not partial.is_broken


def test_only_the_wanted_bracket_opens_it():
    assert fed('see [1]: {"a": 2}', opening="{").value == {"a": 2}
    assert fed("{1} [2]", opening="[").value == [2]
    assert fed("see [1]: {").value == [1]


def test_a_bracket_of_prose_takes_its_value_back():
    partial = PartialJSON()
    assert partial.feed("[")
    assert partial.value == []
    assert partial.feed("N")
    assert partial.value is None
    assert not partial.is_open
    assert not partial.feed("ote]")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, b', {"a": 1}),
        ('{"a": 1 "b"', {"a": 1}),
        ('{"a": 1, "b" 2', {"a": 1}),
        ('{"a": 1]', {"a": 1}),
        ("[1}", [1]),
        ("[1, ]", [1]),
        ('{"a": 1, }', {"a": 1}),
        ("[1, x", [1]),
        ("[1, nuLl", [1]),
        ("[1, tfue", [1]),
        ("[1, 01,", [1]),
        ("[1, 1.,", [1]),
        ("[1, .5,", [1]),
        ("[1, +5,", [1]),
        ("[1, 1-2,", [1]),
        ("[1, NaN", [1]),
        ("[1, -Infinity", [1]),
        ("[1, 1e999,", [1]),
        ("[1, " + "9" * 5000 + ",", [1]),
        ("[1, ٣", [1]),
        ('["ab\\x', ["ab"]),
        ('["ab\\u00g', ["ab"]),
        ('["ab\\un', ["ab"]),
        ('["ab\\uu', ["ab"]),
    ],
)
def test_what_is_no_json_leaves_what_was_right(text: str, value: object):
    partial = fed(text)
    assert partial.value == value
    assert partial.is_broken
    assert not partial.is_open
    assert not partial.feed('3], "c": {"d": 4}}')
    assert partial.value == value == partial.snapshot()
    assert not partial.is_complete


def test_a_large_number_is_exact():
    assert fed("[" + "9" * 400 + "]").value == [int("9" * 400)]


def test_of_a_key_that_stands_twice_the_last_value_holds():
    assert fed('{"a": "x", "a": "yz').value == {"a": "yz"}


def test_nesting_has_a_limit():
    assert fed("[1," + "[" * 199).is_open
    too_deep = fed("[1," + "[" * 200)
    assert too_deep.is_broken
    assert str(too_deep.value).count("[") == 200


class Watched(PartialJSON):
    """One that a weak reference can be had of."""


def test_a_partial_that_is_left_is_gone_at_once():
    gc.disable()
    try:
        partial = Watched()
        partial.feed('{"a": [1, "x')
        gone = weakref.ref(partial)
        del partial
        assert gone() is None
    finally:
        gc.enable()


DOCUMENTS: dict[str, object] = {
    "one long text": {"a": "x" * 100_000},
    "many numbers": {"a": list(range(18_000))},
    "many keys": {f"key{at}": at for at in range(6_000)},
    "rows": {"rows": [{"id": at, "name": 'é\n"q"', "ok": True} for at in range(2_000)]},
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_ten_thousand_pieces_cost_little_more_than_one(document: object):
    text = json.dumps(document)
    size = max(1, len(text) // 10_000)
    partial = PartialJSON()
    begun = time.process_time()
    for at in range(0, len(text), size):
        partial.feed(text[at : at + size])
        _ = partial.value
    assert time.process_time() - begun < 2  # 20 to 90 ms; reading all anew each time takes a minute
    assert partial.value == document


def seconds(text: str) -> float:
    begun = time.process_time()
    partial = PartialJSON()
    for at in range(0, len(text), 16):
        partial.feed(text[at : at + 16])
        _ = partial.value
    return time.process_time() - begun


@pytest.mark.parametrize(
    "unit", ["[", "{", '{"a":', '{"', "[{", "[x", '["a\\', "9", "[1,", '"', "\\u00", "[[]]"], ids=repr
)
@pytest.mark.parametrize("start", ["", '["', "["], ids=repr)
def test_hostile_text_takes_linear_time(start: str, unit: str):
    count = 20_000 // len(unit)
    short, long = seconds(start + unit * count), seconds(start + unit * count * 4)
    assert long < 10 * short + 0.2
