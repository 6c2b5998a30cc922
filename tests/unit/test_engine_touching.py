"""What becomes of a call by what it would touch, as its tool says it."""

from __future__ import annotations

import pytest

from gnomon.engine.permissions import MODES, Mode, Rule, Verdict, check_rules, decide
from gnomon.errors import ConfigError
from gnomon.types.messages import ToolDef
from gnomon.types.touches import Touches

SHELL = ToolDef(name="shell", destructive=True)
EDIT = ToolDef(name="edit")
READ = ToolDef(name="read", read_only=True)
UNKNOWN = Touches(unknown="the variable $x")


def runs(*commands: str, **more: object) -> Touches:
    return Touches(commands=tuple(tuple(each.split()) for each in commands), **more)  # type: ignore[arg-type]


def decided(mode: Mode, tool: ToolDef, touches: Touches | None, *rules: str) -> Verdict:
    return decide(mode, [Rule.parse(rule) for rule in rules], tool, "{}", touches)


def said(mode: Mode, tool: ToolDef, touches: Touches | None, *rules: str) -> str:
    return decided(mode, tool, touches, *rules).decision


# --- what allows


def test_rules_allow_together_what_none_of_them_allows_alone() -> None:
    git, ls = 'allow shell(@command="git status *")', 'allow shell(@command="ls *")'
    both = runs("git status", "ls src")
    assert said("ask", SHELL, both, git) == said("ask", SHELL, both, ls) == "ask"
    found = decided("ask", SHELL, both, git, ls)
    assert found.decision == "run"
    assert found.reason == f"allowed by the rule: {git}, and {ls}"
    assert said("deny", SHELL, both, git, ls) == "run"
    assert said("deny", SHELL, both, git) == "deny"


def test_a_part_that_no_rule_allows_is_named_to_whoever_is_asked() -> None:
    found = decided("ask", SHELL, runs("git status", "rm -rf src"), 'allow shell(@command="git status *")')
    assert found.reason.endswith(": no rule allows rm -rf src")
    found = decided("ask", SHELL, UNKNOWN, 'allow shell(@command="git status *")')
    assert found.reason.endswith(": the variable $x")
    found = decided("ask", EDIT, Touches(writes=("a",), reads=("a",)), 'allow edit(@writes="src/**")')
    assert found.reason.endswith("no rule allows to read 'a'")
    found = decided("ask", EDIT, Touches(hosts=("b.example",)), 'allow edit(@host="a.example")')
    assert found.reason.endswith("no rule allows to reach 'b.example'")


def test_who_may_write_a_file_may_see_what_was_there() -> None:
    change = Touches(reads=("src/a",), writes=("src/a",))
    assert said("ask", EDIT, change, 'allow edit(@writes="src/**")') == "run"
    assert said("ask", EDIT, change, 'allow edit(@reads="src/**")') == "ask"
    more = Touches(reads=("src/a", "b"), writes=("src/a",))
    assert said("ask", EDIT, more, 'allow edit(@writes="src/**")') == "ask"


@pytest.mark.parametrize("touches", [None, UNKNOWN, Touches(), runs("git status", unknown="the variable $x")])
def test_what_is_not_known_is_never_allowed_by_what_is_touched(touches: Touches | None) -> None:
    rules = ('allow shell(@command="git status *")', 'allow shell(@paths="**")', 'allow shell(@host="*.a")')
    assert said("ask", SHELL, touches, *rules) == "ask"
    assert said("deny", SHELL, touches, *rules) == "deny"
    assert said("ask", SHELL, touches, *rules, "allow shell") == "run"


# --- what denies


@pytest.mark.parametrize("mode", MODES)
def test_what_is_touched_and_denied_is_denied_in_every_mode(mode: Mode) -> None:
    rules = ("allow *", "ask *", 'deny *(@command="rm *")', 'deny *(@writes="kept/**")')
    assert said(mode, SHELL, runs("git status", "rm -rf src"), *rules) == "deny"
    assert said(mode, SHELL, runs("git status", writes=("kept/a",), unknown="$x"), *rules) == "deny"
    assert said(mode, SHELL, runs("git status"), "allow *", rules[2]) == ("deny" if mode == "plan" else "run")


@pytest.mark.parametrize("touches", [None, UNKNOWN])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("deny", "deny"),
        ("plan", "deny"),
        ("ask", "ask"),
        ("accept_edits", "ask"),
        ("auto", "ask"),
        ("bypass", "deny"),
    ],
)
def test_where_a_rule_that_denies_may_be_about_it_somebody_is_asked(
    mode: Mode, expected: str, touches: Touches | None
) -> None:
    """In mode bypass nobody is, so that it is denied."""
    assert said(mode, EDIT, touches, 'deny *(@writes="kept/**")') == expected


def test_whoever_is_asked_in_a_doubt_is_told_why() -> None:
    rule = 'deny *(@reads="kept/*.key")'
    told = "it cannot be told whether a rule that denies is about it: " + rule
    assert decided("auto", SHELL, UNKNOWN, rule).reason == f"{told} (the variable $x)"
    assert decided("auto", READ, None, rule).reason == f"{told} (read does not say what it touches)"
    folder = decided("auto", READ, Touches(reads=("./",)), rule)
    assert folder.reason == f"{told} (all that is in a folder is not told)"
    command = decided("auto", SHELL, runs("make all"), rule)
    assert command.reason == f"{told} (what a command does to files is not told)"
    assert folder.rule == Rule.parse(rule)


DOUBTED = 'deny *(@writes="kept/**")'


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([DOUBTED], {"bypass": "deny", "auto": "ask", "ask": "ask"}),
        ([DOUBTED, "allow shell"], {"bypass": "deny", "auto": "ask", "ask": "ask"}),
        ([DOUBTED, 'allow shell(@command="make *")'], {"bypass": "run", "auto": "run", "ask": "run"}),
        ([DOUBTED, 'allow shell(@command="git *")'], {"bypass": "deny", "auto": "ask", "ask": "ask"}),
        (['ask *(@reads="kept/**")'], {"bypass": "run", "auto": "ask", "ask": "ask"}),
        (['ask *(@reads="kept/**")', 'allow shell(@command="make *")'], {"auto": "run", "ask": "run"}),
        (['deny *(@host="*.example")'], {"bypass": "run", "auto": "run", "ask": "ask"}),
    ],
)
def test_a_command_may_do_to_files_what_its_words_do_not_say(
    rules: list[str], expected: dict[Mode, str]
) -> None:
    """A rule about files is in doubt of every command, but of one that somebody has allowed by its words."""
    assert {mode: said(mode, SHELL, runs("make all"), *rules) for mode in expected} == expected


def test_words_that_are_allowed_clear_no_other_doubt() -> None:
    rules = (DOUBTED, 'allow shell(@command="make *")')
    assert said("auto", SHELL, runs("make all", unknown="the variable $x"), *rules) == "ask"
    assert said("auto", SHELL, runs("make all", writes=("kept/a",)), *rules) == "deny"
    assert said("auto", SHELL, runs("make all", writes=("made",)), *rules) == "ask"


def test_a_rule_that_denies_for_sure_goes_before_one_that_may() -> None:
    unsure, sure = 'deny shell(@writes="kept/**")', "deny shell"
    found = decided("auto", SHELL, UNKNOWN, unsure, sure)
    assert (found.decision, str(found.rule)) == ("deny", sure)


def test_what_only_reads_writes_nothing_also_where_it_does_not_say_what_it_touches() -> None:
    rule = 'deny *(@writes="kept/**")'
    liar = ToolDef(name="liar", read_only=True, destructive=True)
    assert [said("auto", tool, None, rule) for tool in (READ, EDIT, liar)] == ["run", "ask", "ask"]
    assert said("auto", READ, None, 'deny *(@paths="kept/**")') == "ask"


def test_a_tool_that_touches_nothing_is_left_alone() -> None:
    for rule in ('deny *(@paths="**")', 'ask *(@host="*.example")', 'deny *(@command="rm *")'):
        assert said("auto", EDIT, Touches(), rule) == "run"


@pytest.mark.parametrize(("mode", "expected"), [("ask", "ask"), ("accept_edits", "ask"), ("auto", "run")])
def test_what_is_not_known_is_asked_about_where_changes_are(mode: Mode, expected: str) -> None:
    assert said(mode, EDIT, UNKNOWN) == expected
    assert said(mode, READ, UNKNOWN) == "run"
    assert "the variable $x" in decided("accept_edits", EDIT, UNKNOWN).reason


@pytest.mark.parametrize("mode", ["ask", "accept_edits", "auto", "bypass"])
@pytest.mark.parametrize("tool", [SHELL, EDIT, READ])
@pytest.mark.parametrize("rule", ['deny *(@writes="a")', 'ask *(@paths="a")', 'allow *(@paths="**")'])
def test_a_call_that_its_tool_would_refuse_is_asked_about_in_no_mode(
    mode: Mode, tool: ToolDef, rule: str
) -> None:
    refused = Touches(unknown="there is no argument pth", is_refused=True)
    assert decided(mode, tool, refused, rule) == Verdict("deny", "there is no argument pth", is_by_tool=True)


def test_what_is_denied_for_sure_is_denied_before_a_tool_may_refuse_it() -> None:
    refused = Touches(unknown="there is no argument pth", is_refused=True)
    assert decided("auto", EDIT, refused, "deny edit").reason == "denied by the rule: deny edit"
    assert not decided("plan", EDIT, refused).is_by_tool
    assert not decided("deny", READ, refused).is_by_tool


# --- rules that cannot be kept


def test_a_rule_about_what_a_tool_touches_needs_one_that_says_it() -> None:
    rule = Rule.parse('deny edit(@writes="kept/**")')
    with pytest.raises(ConfigError, match=r"cannot be kept: edit does not say what it touches"):
        check_rules([rule], [EDIT, READ])
    check_rules([rule], [EDIT, READ], {"edit"})
    check_rules([rule], [READ])  # it is about a tool that is not there
    check_rules([Rule.parse('deny *(@writes="kept/**")')], [EDIT])  # it asks
    check_rules([Rule.parse('allow edit(@writes="kept/**")')], [EDIT])


@pytest.mark.parametrize(
    ("rule", "asks"), [("ask x", True), ("deny x", False), ('deny *(@writes="a")', True), ("allow x", False)]
)
def test_a_rule_says_whether_anybody_may_be_asked_for_it(rule: str, asks: bool) -> None:
    assert Rule.parse(rule).may_ask is asks
