"""Rules: what they match, and that they are the same as objects, as JSON and as text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.engine.permissions import Exact, Rule, always_rule
from gnomon.errors import InvalidInput
from gnomon.types.messages import ToolCall


def allows(where: dict[str, Any], **arguments: Any) -> bool:
    return Rule("allow", "t", where).matches("t", json.dumps(arguments))


def denies(where: dict[str, Any], **arguments: Any) -> bool:
    given = json.dumps(arguments)
    denied = Rule("deny", "t", where).matches("t", given)
    assert denied == Rule("ask", "t", where).matches("t", given)
    return denied


# --- tools


@pytest.mark.parametrize(
    ("pattern", "tool", "found"),
    [
        ("save", "save", True),
        ("save", "saver", False),
        ("save", "Save", False),
        ("*", "any/thing", True),
        ("mcp_*", "mcp_a/b", True),
        ("mcp_*", "mc", False),
        ("mcp_?", "mcp_/", True),
        ("a**b", "ab", True),
        ("a*b", "a/../b", True),
        ("**/x", "x", False),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("\\*", "*x", False),
        ("\\**", "*x", True),
        ("a\\\\*", "a\\b", True),
    ],
)
def test_a_tool_is_a_name_or_a_pattern(pattern: str, tool: str, found: bool) -> None:
    assert Rule("allow", pattern).matches(tool, "{}") is found


# --- values


@pytest.mark.parametrize(
    ("wanted", "value", "allowed", "denied"),
    [
        (1, 1, True, True),
        (1, 1.0, False, True),
        (1, True, False, False),
        (1, "1", False, False),
        (1.5, 1.5, True, True),
        (True, True, True, True),
        (True, 1, False, False),
        (None, None, True, True),
        (None, False, False, False),
        ((1, "x*"), "xy", True, True),
        ((1, "x*"), 1, True, True),
        ((1, "x*"), 2, False, False),
        (1, [1, 1], True, True),
        (1, [1, 2], False, True),
        (1, [], False, False),
        ("a", [["a"], "a"], True, True),
        ("a", {"a": "a"}, False, False),
        (Exact([1, "a*"]), [1, "a*"], True, True),
        (Exact([1, "a*"]), [1, "ab"], False, False),
        (Exact([1]), [1.0], False, True),
        (Exact({"a": (1, 2.5)}), {"a": [1.0, 2.5]}, False, True),
        (Exact(1), [1], False, False),
        (2**70, 2**70, True, True),
        (2**70, 2**70 + 1, False, False),
    ],
)
def test_a_value_is_compared_with_its_kind(wanted: Any, value: Any, allowed: bool, denied: bool) -> None:
    assert allows({"x": wanted}, x=value) is allowed
    assert denies({"x": wanted}, x=value) is denied


def test_all_conditions_have_to_hold() -> None:
    where = {"a": 1, "b": 2}
    assert allows(where, a=1, b=2)
    assert not allows(where, a=1, b=3)
    assert not denies(where, a=1)


def test_an_argument_that_is_missing_does_not_match() -> None:
    for matcher in ("**", None, Exact(None)):
        assert not allows({"x": matcher}, y=1)
        assert not denies({"x": matcher}, y=1)


def test_a_path_goes_into_objects() -> None:
    assert allows({"a.b": 1}, a={"b": 1})
    assert not allows({"a.b": 1}, **{"a.b": 1})
    assert not allows({"a.b": 1}, a=1)
    assert allows({"a\\.b": 1}, **{"a.b": 1})
    assert allows({"a\\\\.b": 1}, **{"a\\": {"b": 1}})


def test_a_path_goes_through_lists() -> None:
    where = {"files.path": "src/**"}
    assert allows(where, files=[{"path": "src/a"}, {"path": "src/b"}])
    assert not allows(where, files=[{"path": "src/a"}, {"path": "etc/b"}])
    assert not allows(where, files=[{"path": "src/a"}, {}])
    assert not allows(where, files=[])
    assert denies(where, files=[{"path": "etc/b"}, {"path": "src/a"}])
    assert denies({"files.path": Exact("x")}, files=[{}, {"path": "x"}])


def test_the_empty_path_is_all_arguments() -> None:
    where = {"": Exact({"a": 1})}
    assert allows(where, a=1)
    assert not allows(where, a=1, b=2)
    assert denies(where, a=1.0)


# --- what is no rule


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (("maybe", "t"), "allow, ask or deny, not 'maybe'"),
        (("allow", ""), "names a tool"),
        (("allow", 1), "names a tool"),
        (("allow", "a\\b"), "a backslash stands before no"),
        (("allow", "a\\"), "a backslash stands before no"),
        (("allow", "\ud800"), "half a surrogate"),
        (("allow", "t", {"": "x"}), "by an Exact value only"),
        (("allow", "t", {"a..b": "x"}), "is no path"),
        (("allow", "t", {"a\\b": "x"}), "is no path"),
        (("allow", "t", {1: "x"}), "is no path"),
        (("allow", "t", {"\ud800": "x"}), "half a surrogate"),
        (("allow", "t", {"a": []}), "is empty"),
        (("allow", "t", {"a": {"b": 1}}), "not by a dict"),
        (("allow", "t", {"a": [[1]]}), "not by a list"),
        (("allow", "t", {"a": float("nan")}), "is not JSON"),
        (("allow", "t", {"a": "x\\y"}), "backslash at 1 stands before no"),
        (("allow", "t", {"a": "\\*x\\"}), "backslash at 3 stands before no"),
        (("allow", "t", {"a": "src/../x"}), "goes up again"),
        (("allow", "t", {"a": ["**/../x"]}), "goes up again"),
        (("allow", "t", {"a": "/../x"}), "goes up again"),
        (("allow", "t", {"a": "src/"}), r"ends in '/': write 'src/\*\*'"),
        (("allow", "t", {"a": "\ud800"}), "half a surrogate"),
    ],
)
def test_what_could_not_mean_what_it_says_is_refused(parts: tuple[Any, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Rule(*parts)


@pytest.mark.parametrize("value", [float("inf"), object(), "\ud800", b"x"])
def test_an_exact_value_is_json(value: object) -> None:
    with pytest.raises(ValueError, match="has to be JSON"):
        Exact(value)


def test_an_exact_value_is_not_without_end() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="has to be JSON"):
        Exact(loop)


def test_a_rule_does_not_change_with_what_it_was_made_of() -> None:
    where: dict[str, Any] = {"a": [1, 2]}
    rule = Rule("allow", "t", where)
    where["b"] = 1
    assert rule.where == {"a": (1, 2)}


def test_json_that_is_no_rule_is_refused() -> None:
    for text in ('{"decision":"maybe","tool":"t"}', '{"decision":"allow","tool":"t","where":{"a":{"b":1}}}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=Rule)


# --- as text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("deny *", Rule("deny", "*")),
        ("ask a.b:c/d-e_f?", Rule("ask", "a.b:c/d-e_f?")),
        (
            'allow write_file(path="src/**", mode=1)',
            Rule("allow", "write_file", {"path": "src/**", "mode": 1}),
        ),
        ('allow t(a=[1,"b",null])', Rule("allow", "t", {"a": (1, "b", None)})),
        ('allow t(a==[1,{"b":null}])', Rule("allow", "t", {"a": Exact([1, {"b": None}])})),
        ('allow t(=={"a":1.0})', Rule("allow", "t", {"": Exact({"a": 1.0})})),
        ('allow "my tool"("my argument"=true)', Rule("allow", "my tool", {"my argument": True})),
        ('allow t(a="\\u202e\\n\\u2028é")', Rule("allow", "t", {"a": "\u202e\n\u2028é"})),
        ('allow "größe"', Rule("allow", "größe")),
        ('allow t(a="\\\\*\\"")', Rule("allow", "t", {"a": '\\*"'})),
    ],
)
def test_a_rule_is_a_line_of_text(text: str, rule: Rule) -> None:
    assert str(rule) == text
    assert Rule.parse(text) == rule


@pytest.mark.parametrize(
    "text", ['  allow   t ( a = 1 ,b== "x" )  ', '\tallow t(a=1,"b"=="x")', 'allow "t"(a=1,b=="x")']
)
def test_spaces_and_quotes_are_free(text: str) -> None:
    assert str(Rule.parse(text)) == 'allow t(a=1, b=="x")'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "column 1: a rule begins with allow, ask or deny, and it ends there"),
        ("permit t", "column 1: a rule begins with allow, ask or deny, and 'permit t' stands there"),
        ("Allow t", "column 1: a rule begins"),
        ("allow", "column 6: there should be the name of a tool, and it ends there"),
        ("allow (a=1)", "column 7: there should be the name of a tool"),
        ("allow größe", "column 9: the rule should end here"),
        ('allow "t', "column 7: there should be a JSON value"),
        ("allow t(", "column 9: there should be the name of an argument, and it ends"),
        ("allow t()", "column 9: there should be the name of an argument, and '\\)' stands"),
        ("allow t(a)", "column 10: there should be = or =="),
        (
            "allow t(a=)",
            "column 11: there should be a JSON value \\(Expecting value\\), and '\\)' stands there",
        ),
        ("allow t(a=src)", "column 11: there should be a JSON value"),
        ("allow t(a=1", "column 12: there should be a comma or a closing bracket, and it ends"),
        ("allow t(a=1 b=2)", "column 13: there should be a comma"),
        ("allow t(a=1,)", "column 13: there should be the name"),
        ("allow t(a=1, a=2)", "column 14: the argument 'a' stands twice"),
        ('allow t(a={"b":1})', "column 11: an object is matched with =="),
        ("allow t(a=NaN)", "column 11: there should be a JSON value \\(NaN is not JSON\\)"),
        ("allow t(a=1e999)", "column 11: .*out of range"),
        ('allow t(a=="\\ud800")', "column 12: there should be a JSON value"),
        ('allow t(a=={"b":1,"b":2})', "column 12: .*a key stands twice"),
        ("allow t(a==" + "[" * 99_999 + ")", "column 12: .*nested too deeply"),
        ("allow t(a=1) deny t", "column 14: the rule should end here"),
        ("allow t\ndeny t", "column 8: the rule should end here"),
        ("allow t(a=[])", "cannot be used: the list for 'a' is empty"),
        ('allow t(="x")', "cannot be used: the arguments as a whole"),
        ('allow ""', "cannot be used: a rule names a tool"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        Rule.parse(text)
    assert len(str(caught.value)) < 400


# --- there and back

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = texts.filter(bool).map(lambda text: text.replace("\\", "\\\\"))
keys = texts.filter(bool).map(lambda text: text.replace("\\", "\\\\").replace(".", "\\."))
paths = st.lists(keys, min_size=1, max_size=3).map(".".join)
paths = paths.map(lambda path: f"\\{path}" if path.startswith("@") else path)  # else it is what is touched
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
patterns = texts.map(lambda text: text.replace("\\", "\\*").replace("..", "x").rstrip("/"))
scalars = st.none() | st.booleans() | numbers | patterns
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
exact = values.map(Exact)
several = st.lists(scalars, min_size=1, max_size=3).map(tuple)
where = st.dictionaries(paths, scalars | several | exact, max_size=3) | exact.map(lambda one: {"": one})
rules = st.builds(Rule, st.sampled_from(["allow", "ask", "deny"]), names, where)


def same(one: Rule, other: Rule) -> bool:
    """Also where Python takes 1, 1.0 and True for equal."""
    return one == other and repr(one) == repr(other)


@given(rules)
def test_a_rule_comes_back_from_json(rule: Rule) -> None:
    assert same(msgspec.json.decode(msgspec.json.encode(rule), type=Rule), rule)


@given(rules)
def test_a_rule_comes_back_from_its_line(rule: Rule) -> None:
    line = str(rule)
    assert line.isprintable()
    again = Rule.parse(line)
    assert str(again) == line
    assert again == rule
    assert msgspec.json.encode(again, order="sorted") == msgspec.json.encode(rule, order="sorted")


@given(st.dictionaries(texts, values, max_size=4), names)
def test_what_is_always_allowed_is_saved_as_text_and_allows_it(arguments: dict[str, Any], name: str) -> None:
    call = ToolCall("1", name, json.dumps(arguments))
    rule = always_rule(call)
    assert rule is not None
    assert Rule.parse(str(rule)).matches(name, call.arguments)


@given(st.text(max_size=40) | st.text('allow deny(="[]{}*\\.,1)', max_size=40).map("allow t(a=".__add__))
def test_any_text_is_a_rule_or_is_refused(text: str) -> None:
    try:
        rule = Rule.parse(text)
    except InvalidInput:
        return
    assert Rule.parse(str(rule)) == rule


@given(where, st.dictionaries(texts, values, max_size=3))
def test_what_an_allow_rule_matches_a_deny_rule_of_the_same_words_matches_too(
    where: dict[str, Any], arguments: dict[str, Any]
) -> None:
    if allows(where, **arguments):
        assert denies(where, **arguments)
