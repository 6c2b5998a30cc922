"""Modes and rules: which calls run, which are asked about, which are denied."""

from __future__ import annotations

from itertools import permutations

import pytest

from gnomon.engine.permissions import (
    MODES,
    Exact,
    Mode,
    Rule,
    always_rule,
    arguments_hash,
    check_rules,
    decide,
)
from gnomon.errors import ConfigError
from gnomon.types.messages import ToolCall, ToolDef

READ = ToolDef(name="read", read_only=True)
WRITE = ToolDef(name="write")
DROP = ToolDef(name="drop", destructive=True)
LIAR = ToolDef(name="liar", read_only=True, destructive=True)

ALLOW, ASK, DENY = (Rule(decision, "*") for decision in ("allow", "ask", "deny"))


def verdict(mode: Mode, tool: ToolDef, *rules: Rule, arguments: str = "{}") -> str:
    return decide(mode, rules, tool, arguments).decision


# --- modes


@pytest.mark.parametrize(
    ("mode", "read", "write", "drop"),
    [
        ("deny", "deny", "deny", "deny"),
        ("plan", "run", "deny", "deny"),
        ("ask", "run", "ask", "ask"),
        ("accept_edits", "run", "run", "ask"),
        ("auto", "run", "run", "run"),
        ("bypass", "run", "run", "run"),
    ],
)
def test_a_mode_decides_by_what_a_tool_does(mode: Mode, read: str, write: str, drop: str) -> None:
    assert [verdict(mode, tool) for tool in (READ, WRITE, DROP)] == [read, write, drop]


@pytest.mark.parametrize(
    ("mode", "allow", "ask", "both"),
    [
        ("deny", "run", "deny", "ask"),
        ("plan", "deny", "deny", "deny"),
        ("ask", "run", "ask", "ask"),
        ("accept_edits", "run", "ask", "ask"),
        ("auto", "run", "ask", "ask"),
        ("bypass", "run", "run", "run"),
    ],
)
def test_a_rule_decides_for_what_destroys(mode: Mode, allow: str, ask: str, both: str) -> None:
    given = [verdict(mode, DROP, *rules) for rules in ((ALLOW,), (ASK,), (ALLOW, ASK))]
    assert given == [allow, ask, both]


@pytest.mark.parametrize("mode", MODES)
def test_a_deny_rule_holds_in_every_mode(mode: Mode) -> None:
    assert {verdict(mode, tool, ALLOW, ASK, DENY) for tool in (READ, WRITE, DROP)} == {"deny"}


@pytest.mark.parametrize("mode", ["plan", "ask", "accept_edits", "auto"])
def test_what_only_reads_is_asked_about_when_a_rule_says_so(mode: Mode) -> None:
    assert verdict(mode, READ, ALLOW, ASK) == "ask"


@pytest.mark.parametrize("mode", MODES)
def test_the_strictest_rule_wins_in_any_order(mode: Mode) -> None:
    for count in (2, 3):
        for rules in permutations((ALLOW, ASK, DENY), count):
            assert verdict(mode, DROP, *rules) == verdict(mode, DROP, *reversed(rules))


def test_every_mode_lets_no_less_run_than_the_one_before() -> None:
    for tool in (READ, WRITE, DROP, LIAR):
        order = [("deny", "ask", "run").index(verdict(mode, tool)) for mode in MODES]
        assert order == sorted(order)


@pytest.mark.parametrize("mode", ["plan", "ask", "accept_edits"])
def test_a_tool_that_reads_and_destroys_counts_as_one_that_destroys(mode: Mode) -> None:
    assert verdict(mode, LIAR) == verdict(mode, DROP)


def test_a_verdict_names_its_rule() -> None:
    rule = Rule("deny", "drop", {"table": "users"})
    found = decide("auto", [ASK, rule], DROP, '{"table": "users"}')
    assert found.rule is rule
    assert found.reason == 'denied by the rule: deny drop(table="users")'


def test_a_verdict_names_its_mode_when_no_rule_spoke() -> None:
    found = decide("plan", [ALLOW], WRITE, "{}")
    assert found.rule is None
    assert found.reason == "in mode plan only what reads may run, and write changes something"


def test_a_long_rule_is_told_in_short() -> None:
    found = decide("auto", [Rule("deny", "drop", {"": Exact({"x": "y" * 9_999})})], DROP, "broken")
    assert found.decision == "deny"
    assert len(found.reason) < 300


def test_the_first_of_the_rules_that_say_the_same_is_named() -> None:
    first, second = Rule("ask", "d*"), Rule("ask", "drop")
    assert decide("auto", [first, second], DROP, "{}").rule is first


# --- arguments that cannot be read

UNREADABLE = [
    "",
    "nonsense",
    "[1]",
    '"path"',
    "null",
    '{"path": "a", "path": "b"}',
    '{"x": {"path": "a", "path": "b"}}',
    '{"path": NaN}',
    '{"path": 1e999}',
    '{"path": "\\ud800"}',
    '{"path": "a"} {}',
    '{"path": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"path": ' + "9" * 5_000 + "}",
]


@pytest.mark.parametrize("arguments", UNREADABLE[1:], ids=range(len(UNREADABLE) - 1))
def test_arguments_that_cannot_be_read_are_not_allowed_by_what_they_say(arguments: str) -> None:
    where = {"path": "**"}
    assert verdict("deny", DROP, Rule("allow", "drop", where), arguments=arguments) == "deny"
    assert verdict("auto", DROP, Rule("ask", "drop", where), arguments=arguments) == "ask"
    assert verdict("bypass", DROP, Rule("deny", "drop", where), arguments=arguments) == "deny"
    assert verdict("bypass", DROP, Rule("deny", "other", where), arguments=arguments) == "run"


def test_arguments_that_cannot_be_read_are_allowed_by_a_rule_that_does_not_ask_for_any() -> None:
    assert verdict("deny", DROP, Rule("allow", "drop"), arguments="nonsense") == "run"


def test_no_text_is_no_arguments() -> None:
    exact = Rule("allow", "drop", {"": Exact({})})
    assert verdict("deny", DROP, exact, arguments="") == "run"
    assert verdict("bypass", DROP, Rule("deny", "drop", {"x": 1}), arguments="") == "run"


# --- defaults of the schema

MODED = ToolDef(
    name="save", schema={"properties": {"mode": {"default": 1}, "path": {"type": "string"}, "odd": True}}
)


def test_a_default_counts_for_a_rule_that_denies_and_not_for_one_that_allows() -> None:
    assert verdict("auto", MODED, Rule("deny", "save", {"mode": 1})) == "deny"
    assert verdict("auto", MODED, Rule("ask", "save", {"mode": 1})) == "ask"
    assert verdict("deny", MODED, Rule("allow", "save", {"mode": 1})) == "deny"


def test_what_is_given_counts_before_the_default() -> None:
    assert verdict("auto", MODED, Rule("deny", "save", {"mode": 1}), arguments='{"mode": 2}') == "run"


def test_an_argument_that_is_missing_and_has_no_default_matches_nothing() -> None:
    for decision, mode in (("deny", "auto"), ("ask", "auto")):
        assert verdict(mode, MODED, Rule(decision, "save", {"path": "**"})) == "run"


# --- rules that could never hold


def test_a_rule_that_denies_by_an_argument_nobody_has_is_refused() -> None:
    rule = Rule("deny", "s*", {"paht": "secrets/**"})
    with pytest.raises(ConfigError, match=r"can never hold: there is no argument 'paht' in save"):
        check_rules([rule], [MODED, READ])


@pytest.mark.parametrize(
    "rule",
    [
        Rule("allow", "save", {"paht": "x"}),
        Rule("deny", "save", {"path": "x"}),
        Rule("deny", "save", {"path.inner": "x"}),
        Rule("deny", "save", {"": Exact({})}),
        Rule("deny", "elsewhere", {"paht": "x"}),
        Rule("deny", "*", {"paht": "x"}),  # read says nothing of its arguments
        Rule("deny", "save", {"od\\.d": "x"}),
        Rule("deny", "save"),
    ],
)
def test_a_rule_that_may_hold_is_fine(rule: Rule) -> None:
    check_rules([rule], [MODED, READ])


def test_a_tool_that_takes_any_argument_may_have_it() -> None:
    free = ToolDef(name="free", schema={"properties": {}, "additionalProperties": True})
    check_rules([Rule("deny", "free", {"anything": 1})], [free])


# --- what binds an answer to a call


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [true, null]}', '{ "b":[true,null],\n"a":1 }'),
        ('{"a": "\\u0041"}', '{"a": "A"}'),
        ("", "{}"),
    ],
)
def test_the_hash_is_the_same_for_the_same_arguments(one: str, other: str) -> None:
    assert arguments_hash("t", one) == arguments_hash("t", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 1}', '{"a": "1"}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 0}', '{"a": -0}'),
        ('{"a": 0.1}', '{"a": 0.1000000000000000055}'),
        ('{"a": 9007199254740992}', '{"a": 9007199254740993}'),
        ('{"a": ' + "9" * 5_000 + "}", '{"a": ' + "9" * 4_999 + "8}"),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ('{"a": 1, "a": 2}', '{"a": 1}'),
        ('{"a": 1, "a": 2}', '{"a": 2, "a": 1}'),
        ('{"a": [1, 2]}', '{"a": [2, 1]}'),
        ('{"a": {"b": 1}}', '{"a.b": 1}'),
        ('{"a": NaN}', '{"a": "NaN"}'),
        ('{"a": "é"}', '{"a": "e\u0301"}'),
        ("nonsense", '"nonsense"'),
        ("[]", "{}"),
        ('{"a": "\\ud800"}', '{"a": "\\ud801"}'),
        ("\ud800", "\ud801"),
        ('{"a": null}', "{}"),
    ],
)
def test_the_hash_tells_different_arguments_apart(one: str, other: str) -> None:
    assert arguments_hash("t", one) != arguments_hash("t", other)


def test_the_hash_is_of_the_tool_too() -> None:
    assert arguments_hash("a", "{}") != arguments_hash("b", "{}")
    assert arguments_hash('a","json', "{}") != arguments_hash("a", '","json{}')


def test_text_cannot_pass_for_the_form_of_other_arguments() -> None:
    assert arguments_hash("t", '{"a":1,"a":1}') != arguments_hash("t", '{"a":1}')


def test_the_hash_is_the_one_that_is_stored() -> None:
    """An approval may wait for weeks: a change of this value makes every open one void."""
    assert arguments_hash("send", '{"to": "ann", "n": 1.50}') == (
        "113b65aa4451cfdd570abbaa1f863bae61730ef52af328c02d5c8c67eb678249"
    )


# --- always


def test_always_allows_this_call_and_no_other() -> None:
    rule = always_rule(ToolCall("1", "send", '{"to": "a*", "n": 1}'))
    assert str(rule) == 'allow send(=={"n":1,"to":"a*"})'
    assert rule is not None
    assert rule.matches("send", '{"n":1,"to":"a*"}')
    for other in (
        '{"n":1,"to":"ab"}',
        '{"n":1.0,"to":"a*"}',
        '{"n":1,"to":"a*","cc":1}',
        '{"n":1}',
        "{}",
        "x",
    ):
        assert not rule.matches("send", other)
    assert not rule.matches("sender", '{"n":1,"to":"a*"}')


def test_always_takes_the_name_of_a_tool_literally() -> None:
    rule = always_rule(ToolCall("1", "a*?\\"))
    assert rule is not None
    assert rule.matches("a*?\\", "{}")
    assert not rule.matches("abc\\", "{}")
    assert not rule.matches("a*?\\more", "{}")


@pytest.mark.parametrize("arguments", UNREADABLE[1:], ids=range(len(UNREADABLE) - 1))
def test_there_is_no_always_for_what_cannot_be_read(arguments: str) -> None:
    assert always_rule(ToolCall("1", "send", arguments)) is None


def test_there_is_no_always_for_a_call_that_was_cut_off() -> None:
    assert always_rule(ToolCall("1", "send", "{}", truncated=True)) is None
    assert always_rule(ToolCall("1", "")) is None
