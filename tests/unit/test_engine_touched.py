"""Rules about what a call touches: commands word by word, paths, hosts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.engine._command_patterns import command_text, fits_command
from gnomon.engine.permissions import Exact, Rule
from gnomon.errors import ConfigError
from gnomon.types.touches import Touches


def rule(decision: Any, **where: Any) -> Rule:
    return Rule(decision, "t", {f"@{key}": value for key, value in where.items()})


def allows(touches: Touches | None, **where: Any) -> bool:
    return rule("allow", **where).matches("t", "{}", touches=touches)


def denies(touches: Touches | None, **where: Any) -> bool:
    denied = rule("deny", **where).matches("t", "{}", touches=touches)
    assert denied == rule("ask", **where).matches("t", "{}", touches=touches)
    return denied


def runs(*commands: str) -> Touches:
    return Touches(commands=tuple(tuple(command.split()) for command in commands))


# --- commands


@pytest.mark.parametrize(
    ("pattern", "argv", "allowed", "denied"),
    [
        ("git status", ["git", "status"], True, True),
        ("git status", ["git", "status", "-s"], False, True),
        ("git status", ["git"], False, False),
        ("git status", ["git status"], False, False),
        ("git status", ["git", "-c", "core.pager=x", "status"], False, False),
        ("git status *", ["git", "status"], True, True),
        ("git status *", ["git", "status", "-s", "/etc", "../x", ""], True, True),
        ("git status *", ["git", "stash"], False, False),
        ("git status*", ["git", "status"], True, True),
        ("git status*", ["git", "status", "-s"], False, True),
        ("git * x", ["git", "add", "x"], True, True),
        ("git * x", ["git", "x"], False, False),
        ("git * x", ["git", "a", "b", "x"], False, False),
        ("*", ["rm", "-rf", "/"], True, True),
        ("rm *", ["rm"], True, True),
        ("rm *", ["rmdir", "x"], False, False),
        ("rm *", ["/bin/rm", "x"], False, True),
        ("rm *", ["./rm", "x"], False, True),
        ("rm *", ["RM", "x"], False, True),
        ("/bin/rm *", ["rm", "x"], False, False),
        ("cat src/*", ["cat", "src/a"], True, True),
        ("cat src/*", ["cat", "src/a/b"], False, False),
        ("cat src/**", ["cat", "src/a/b"], True, True),
        ("cat src/**", ["cat", "src/../x"], False, True),
        ("cat src/**", ["cat", "src/%2e%2e/x"], False, True),
        ("cat ../x", ["cat", "../x"], True, True),
        ("cat a/../x", ["cat", "a/../x"], True, True),
        ("cat **", ["cat", "/etc/passwd"], False, True),
        ("cat **", ["cat", "~/x"], False, True),
        ("cat **", ["cat", ".."], False, True),
        ("cat **", ["cat", "a\nb"], False, True),
        ("cat /**", ["cat", "/etc/passwd"], True, True),
        ("tar --to=*", ["tar", "--to=x"], True, True),
        ("tar --to=*", ["tar", "--to=.."], False, True),
        ("tar --to=**", ["tar", "--to=a/../b"], False, True),
        ("tar --to=**", ["tar", "--to=/etc"], False, True),
        ("curl https://a.example/**", ["curl", "https://a.example/x/y"], True, True),
        ("curl https://a.example/**", ["curl", "https://a.example.evil/x"], False, False),
        ("echo 'a b' \"c d\" e\\ f", ["echo", "a b", "c d", "e f"], True, True),
        ("echo '*'", ["echo", "*"], True, True),
        ("echo '*'", ["echo", "x"], False, False),
        ("echo '*'", ["echo"], False, False),
        ("echo \\*", ["echo", "*"], True, True),
        ("echo \\*", ["echo", "x"], False, False),
        ("echo a'*'*", ["echo", "a*b"], True, True),
        ("echo a'*'*", ["echo", "ab"], False, False),
        ('echo "a\\"b\\\\c\\d"', ["echo", 'a"b\\c\\d'], True, True),
        ("echo ''", ["echo", ""], True, True),
        ("echo ';'", ["echo", ";"], True, True),
        (("git *", "ls"), ["ls"], True, True),
        (("git *", "ls"), ["rm"], False, False),
        (Exact(["git", "stash"]), ["git", "stash"], True, True),
        (Exact(["git", "stash"]), ["git", "stash", "list"], False, False),
        (Exact(["git", "*"]), ["git", "x"], False, False),
    ],
)
def test_a_command_is_compared_word_by_word(
    pattern: Any, argv: list[str], allowed: bool, denied: bool
) -> None:
    touches = Touches(commands=(tuple(argv),))
    assert allows(touches, command=pattern) is allowed
    assert denies(touches, command=pattern) is denied


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.lists(st.text(max_size=8), min_size=1))
def test_a_command_as_text_is_a_pattern_for_itself_alone(argv: list[str], other: list[str]) -> None:
    assert fits_command(command_text(argv), argv, widely=False)
    assert fits_command(command_text(argv), other, widely=False) is (argv == other)


# --- paths


@pytest.mark.parametrize(
    ("pattern", "path", "allowed", "denied"),
    [
        ("src/**", "src/a/b", True, True),
        ("src/**", "src", False, True),
        ("src/**", "src/", True, True),
        ("src/**", "src/a/", True, True),
        ("src/**", "../src/a", False, True),
        ("src/**", "/w/src/a", False, True),
        ("src/**", "test/src/a", False, False),
        ("src/*", "src/a/", False, True),
        ("src/*.py", "src/", False, True),
        ("src/*.py", "test/", False, False),
        ("**/*.pem", "src/", False, True),
        ("**", "./", True, True),
        ("**", "/", False, True),
        ("/**", "/etc/", True, True),
        ("/**", "src/", False, False),
        ("/etc/passwd", "/etc/", False, True),
        ("src/**", "./", False, True),
        ("src/**", "/", False, True),
        ("src/**", "src/../", False, True),
        ("a\\**", "a*b", True, True),
        ("a\\**", "a*/", False, True),
    ],
)
def test_a_path_is_compared_by_its_parts(pattern: str, path: str, allowed: bool, denied: bool) -> None:
    for touches, keys in (
        (Touches(reads=(path,)), ("reads", "paths")),
        (Touches(writes=(path,)), ("writes", "paths")),
    ):
        for key in keys:
            assert allows(touches, **{key: pattern}) is allowed
            assert denies(touches, **{key: pattern}) is denied
    assert not allows(Touches(reads=(path,)), writes=pattern)
    assert not denies(Touches(reads=(path,)), writes=pattern)


# --- hosts


@pytest.mark.parametrize(
    ("pattern", "host", "allowed", "denied"),
    [
        ("example.com", "example.com", True, True),
        ("Example.COM.", "example.com", True, True),
        ("example.com", "www.example.com", False, False),
        ("example.com", "example.com.evil.net", False, False),
        ("*.example.com", "www.example.com", True, True),
        ("*.example.com", "a.b.example.com", True, True),
        ("*.example.com", "example.com", False, True),
        ("*.example.com", "badexample.com", False, False),
        ("*", "example.com", True, True),
        ("*", "127.0.0.1", True, True),
        ("127.0.0.1", "127.0.0.1", True, True),
        ("*.0.0.1", "127.0.0.1", False, False),
        ("::1", "::1", True, True),
        ("0:0::1", "::1", True, True),
    ],
)
def test_a_host_is_compared_by_its_names(pattern: str, host: str, allowed: bool, denied: bool) -> None:
    assert allows(Touches(hosts=(host,)), host=pattern) is allowed
    assert denies(Touches(hosts=(host,)), host=pattern) is denied


# --- all parts, any part


def test_a_rule_that_allows_has_to_cover_every_part() -> None:
    assert allows(runs("git status", "git log"), command="git *")
    assert not allows(runs("git status", "rm -rf /"), command="git *")
    assert not allows(Touches(commands=(("git", "status"),), writes=("x",)), command="git *")
    assert not allows(Touches(commands=(("git", "status"),), hosts=("h",)), command="git *")
    assert not allows(Touches(), command="*")


def test_a_rule_that_denies_has_to_fit_any_part() -> None:
    assert denies(runs("git status", "rm -rf /"), command="rm *")
    assert denies(Touches(commands=(("ls",),), writes=("secrets/x",)), writes="secrets/**")
    assert not denies(Touches(), command="*")


def test_several_kinds_in_one_rule_have_to_fit_each() -> None:
    touches = Touches(reads=("a",), writes=("b",))
    assert allows(touches, reads="a", writes="b")
    assert not allows(Touches(reads=("a", "c"), writes=("b",)), reads="a", writes="b")
    assert not allows(Touches(reads=("a",)), reads="a", writes="b")
    assert denies(Touches(reads=("a", "c"), writes=("b",)), reads="a", writes="b")
    assert not denies(Touches(reads=("a",)), reads="a", writes="b")


def test_what_is_not_known_is_not_allowed_and_may_be_denied() -> None:
    doubtful = Touches(commands=(("git", "status"),), unknown="the variable $x")
    assert not allows(doubtful, command="*")
    assert denies(doubtful, command="rm *")
    assert denies(doubtful, host="example.com")
    assert not allows(None, command="*")
    assert denies(None, command="rm *")


def test_arguments_beside_it_have_to_match_too() -> None:
    allowing = Rule("allow", "t", {"@command": "ls", "quick": True})
    assert allowing.matches("t", '{"quick": true}', touches=runs("ls"))
    assert not allowing.matches("t", '{"quick": false}', touches=runs("ls"))
    denying = Rule("deny", "t", {"@command": "ls", "quick": True})
    assert denying.matches("t", '{"quick": true}', touches=runs("ls"))
    assert not denying.matches("t", "{}", touches=runs("ls"))


# --- as text, and what is no rule


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ('allow shell(@command="git status *")', Rule("allow", "shell", {"@command": "git status *"})),
        (
            'deny *(@writes=["src/**","*.toml"])',
            Rule("deny", "*", {"@writes": ["src/**", "*.toml"]}),  # type: ignore[dict-item]
        ),
        (
            'ask t(\\@host="x", @host="*.example.com")',
            Rule("ask", "t", {"\\@host": "x", "@host": "*.example.com"}),
        ),
        ('allow t(@command==["a","b"])', Rule("allow", "t", {"@command": Exact(["a", "b"])})),
    ],
)
def test_a_rule_on_what_is_touched_has_a_text(text: str, made: Rule) -> None:
    assert Rule.parse(text) == made
    assert str(made) == text


def test_an_argument_may_have_the_name_of_a_key() -> None:
    assert Rule("allow", "t", {"\\@host": "x"}).matches("t", '{"@host": "x"}')


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ('@command=""', "is empty"),
        ('@command="  "', "is empty"),
        ("@command=[]", "is empty"),
        ("@command=1", "by text"),
        ("@command=[null]", "by text"),
        ('@command="a && b"', "each command is compared by itself"),
        ('@command="a > b"', "no part of a word"),
        ('@command="a; b"', "no part of a word"),
        ('@command="echo $x"', "no part of a word"),
        ('@command="a \'b"', "does not end"),
        ('@command="a \\\\"', "ends in a backslash"),
        ('@command=="ls"', "the list of its words"),
        ("@command==[]", "the list of its words"),
        ('@command==["a",1]', "the list of its words"),
        ('@writes=""', "is empty"),
        ('@writes="a/../b"', "goes up again"),
        ('@writes="a/"', "ends in '/'"),
        ('@writes=="a"', "is matched by patterns"),
        ('@host=""', "is empty"),
        ('@host="https://example.com"', "names no host"),
        ('@host="example.com:8080"', "a port does not belong to it"),
        ('@host="exa*.com"', "names no host"),
        ('@host="münchen.example"', "names no host"),
        ('@hosts="example.com"', "there is no '@hosts'"),
        ('@="x"', "there is no '@'"),
        ('@reads.x="x"', "there is no '@reads.x'"),
    ],
)
def test_what_could_not_mean_what_it_says_is_refused_with_a_hint(where: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        Rule.parse(f"allow t({where})")
    assert refused.value.hint
