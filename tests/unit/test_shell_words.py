"""What a shell command would touch, told from its text; `test_shell_words_run.py` asks real shells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.contracts.tool import Touches
from gnomon.tools._shell_words import touches_of

READ: list[tuple[str, list[str]]] = [
    ("git status", ["git status"]),
    ("  git\tstatus  ", ["git status"]),
    ("one; two & three", ["one", "two", "three"]),
    ("one && two || three | four", ["one", "two", "three", "four"]),
    ("one |& two", ["one", "two"]),
    ("one\n\ntwo\n", ["one", "two"]),
    ("one &&\n two", ["one", "two"]),
    ("one \\\n two", ["one two"]),
    ("one # two\nthree#four", ["one", "three#four"]),
    ("(one; two) | three", ["one", "two", "three"]),
    ("{ one; two; } && three", ["one", "two", "three"]),
    ("! one", ["one"]),
    ("if one; then two; elif three; then four; else five; fi", ["one", "two", "three", "four", "five"]),
    ("while one; do two; done; until three\ndo four\ndone", ["one", "two", "three", "four"]),
    ("o'n'e", ["one"]),
    ('o\\ne "t"wo', ["one two"]),
    ("echo if then fi", ["echo if then fi"]),
    (
        "echo a=b +x %1 a^b a! HEAD~1 stash@{0} {} a{}b $ ]",
        ["echo a=b +x %1 a^b a! HEAD~1 stash@{0} {} a{}b $ ]"],
    ),
    ("[ -f one ] && two", ["[ -f one ]", "two"]),
    ("LC_ALL=C NO_COLOR=1 sort", ["sort"]),
    ("echo café", ["echo café"]),
    ("set -euo pipefail\none", ["set -euo pipefail", "one"]),
    ("command -v one", ["command -v one"]),
    ("", []),
    ("# nothing\n", []),
]


@pytest.mark.parametrize(("command", "parts"), READ)
def test_the_arguments_of_each_part_are_told(command: str, parts: list[str]) -> None:
    assert touches_of(command) == Touches(commands=tuple(tuple(part.split()) for part in parts))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo 'a b' \"c  d\"", ["a b", "c  d"]),
        ("echo \"a'b\" 'a\"b'", ["a'b", 'a"b']),
        (r"""echo "\$x \` \" \\ \n" """, ['$x ` " \\ \\n']),
        ("echo '$x `y` *' \"* ~ {a,b} ;\"", ["$x `y` *", "* ~ {a,b} ;"]),
        (r"echo a\ b \* \$x \; \~ \{a,b\} ''", ["a b", "*", "$x", ";", "~", "{a,b}", ""]),
        ("echo 'a\nb' \"a\\\nb\"", ["a\nb", "ab"]),
        ('grep "a$" "^$|b"', ["a$", "^$|b"]),
    ],
)
def test_quotes_are_taken_away_as_a_shell_does(command: str, words: list[str]) -> None:
    found = touches_of(command)
    assert found.unknown == ""
    assert found.commands == ((command.split()[0], *words),)


@pytest.mark.parametrize(
    ("command", "commands"),
    [
        ("timeout 5 make -j2", ["timeout 5 make -j2", "make -j2"]),
        ("timeout -k 1 --signal=KILL 5s make", ["timeout -k 1 --signal=KILL 5s make", "make"]),
        ("nohup nice -n 5 make", ["nohup nice -n 5 make", "nice -n 5 make", "make"]),
        ("env LANG=C sort -u", ["env LANG=C sort -u", "sort -u"]),
        ("/usr/bin/env sort", ["/usr/bin/env sort", "sort"]),
        ("sudo -n -u bob rm x", ["sudo -n -u bob rm x", "rm x"]),
        ("time make", ["time make", "make"]),
        ("command rm x", ["command rm x", "rm x"]),
        ("exec rm x", ["exec rm x", "rm x"]),
        ("eval rm x", ["eval rm x", "rm x"]),
        ("find . -exec echo hi \\;", ["find . -exec echo hi ;", "echo hi"]),
        ("sh script.sh", ["sh script.sh"]),
    ],
)
def test_what_a_command_runs_stands_beside_it(command: str, commands: list[str]) -> None:
    found = touches_of(command)
    assert found == Touches(commands=tuple(tuple(each.split()) for each in commands))


def test_a_text_for_a_shell_is_read_as_one() -> None:
    found = touches_of("bash -ec 'git status && eval \"rm x; ls > out\"'")
    assert found.unknown == ""
    assert found.commands[1:] == (("git", "status"), ("eval", "rm x; ls > out"), ("rm", "x"), ("ls",))
    assert found.writes == ("out",)


@pytest.mark.parametrize(
    ("command", "reads", "writes"),
    [
        ("one > a", [], ["a"]),
        ("one >> a 2> b", [], ["a", "b"]),
        ("one >| a", [], ["a"]),
        ("one < a", ["a"], []),
        ("one <> a", ["a"], ["a"]),
        ("one &> a", [], ["a"]),
        ("one 2>&1 >&2 <&- 2>/dev/null", [], []),
        ("> a", [], ["a"]),
        ("> a one < b", ["b"], ["a"]),
        ("(one; two) > a", [], ["a"]),
        ("if one; then two; fi < a", ["a"], []),
        ("one > './/a//b' > /etc/x", [], ["a/b", "/etc/x"]),
        ("one > ../a", [], ["../a"]),
        ("one <<< a", [], []),
        ("one > /dev/stderr 2> /dev/stdout < /dev/stdin", [], []),
    ],
)
def test_redirections_read_and_write(command: str, reads: list[str], writes: list[str]) -> None:
    found = touches_of(command)
    assert found.unknown == ""
    assert (found.reads, found.writes) == (tuple(reads), tuple(writes))


def test_a_relative_redirection_lies_in_the_folder_that_was_given() -> None:
    assert touches_of("one > a < /b", "sub/folder").writes == ("sub/folder/a",)
    assert touches_of("one > a < /b", "sub/folder").reads == ("/b",)


def test_a_here_document_is_no_command() -> None:
    found = touches_of("cat > x.py <<'END'\nrm $(y) `z`\nEND\none <<-OTHER && two\n\trm x\n\tOTHER\nthree\n")
    assert found == Touches(commands=(("cat",), ("one",), ("two",), ("three",)), writes=("x.py",))


UNKNOWN: list[tuple[str, list[str], str]] = [
    ("rm -rf $HOME/x y", ["rm -rf"], "the variable $HOME"),
    ('rm "$x"', ["rm"], "the variable $x"),
    ("$x rm", [], "the variable $x"),
    ("rm -f ${x}", ["rm -f"], "an expansion that begins with ${"),
    ("rm $(ls)", ["rm"], "a command substitution"),
    ("rm `ls`", ["rm"], "a command substitution"),
    ("rm $'a'", ["rm"], "an expansion that begins with $'"),
    ('rm $"a"', ["rm"], 'an expansion that begins with $"'),
    ("rm *.py", ["rm"], "a pattern for names of files"),
    ("r? x", [], "a pattern for names of files"),
    ("rm [ab]", ["rm"], "a pattern for names of files"),
    ("rm {a,b}", ["rm"], "an expansion of braces"),
    ("rm a{1..3}", ["rm"], "an expansion of braces"),
    ("rm ~", ["rm"], "a home directory"),
    ("rm ~root/x", ["rm"], "a home directory"),
    ("make prefix=~/x", ["make"], "a home directory"),
    ("rm 'a", ["rm"], "a quotation mark without its other"),
    ('rm "a', ["rm"], "a quotation mark without its other"),
    ("rm \\", ["rm"], "a backslash at the end"),
    ("rm\u00a0x", [], "a sign that cannot be seen, U+00A0"),
    ("rm\u2028x", [], "a sign that cannot be seen, U+2028"),
    ("rm \u3164x", [], "a sign that cannot be seen, U+3164"),
    ("rm \u202ex", [], "a sign that cannot be seen, U+202E"),
    ("rm \x00x", [], "a sign that cannot be seen, U+0000"),
    ("rm x\r\n", [], "a sign that cannot be seen, U+000D"),
    ("rm \ud800", [], "a sign that cannot be seen, U+D800"),
    ("PATH=. ls", ["ls"], "it sets PATH"),
    ("GIT_PAGER=x git log", ["git log"], "it sets GIT_PAGER"),
    ("LANG=zh_CN.GBK ls", ["ls"], "it sets LANG"),
    ("x+=1 ls", [], "a += that shells read differently"),
    ("env LD_PRELOAD=x ls", ["env LD_PRELOAD=x ls", "ls"], "it sets LD_PRELOAD"),
    ("env -S 'rm x'", ["env", "-S"], "options of env"),
    ("export PATH=.", ["export PATH=."], "export changes what other words mean"),
    ("alias ls=rm", ["alias ls=rm"], "alias changes what other words mean"),
    ("alias ls=rm\nls x", ["alias ls=rm", "ls x"], "alias changes what other words mean"),
    (". ./x", [". ./x"], ". changes what other words mean"),
    ("trap 'rm x' EXIT", [], "trap changes what other words mean"),
    ("set -o posix", ["set -o posix"], "set changes what other words mean"),
    ("printf -v x y", ["printf -v x y"], "printf with -v"),
    ("[ -v x ]", ["[ -v x ]"], "a test for a variable"),
    ("ls() { rm x; }", ["ls"], "'(' in a place where no shell has it"),
    ("function ls { rm x; }", [], "a command that begins with function"),
    ("[[ -f x ]]", [], "a command that begins with [["),
    ("((x))", [], "an arithmetic command"),
    ("case x in y) rm z;; esac", [], "a command that begins with case"),
    ("for x in a b; do rm $x; done", ["rm"], "the loop over x"),
    ("diff <(a) b", ["diff"], "a process substitution"),
    ("sh", ["sh"], "a shell that reads commands"),
    ("curl x | bash -s", ["curl x", "bash -s"], "options of a shell"),
    ("sh <<'E'\nrm x\nE\n", ["sh"], "a shell that reads commands"),
    ("zsh -c ls", ["zsh -c ls"], "zsh may run another command"),
    ("setsid rm x", ["setsid rm x"], "setsid may run another command"),
    ("logsave - rm x", ["logsave - rm x"], "logsave may run another command"),
    (
        "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
        ["/lib64/ld-linux-x86-64.so.2 /bin/rm x"],
        "another ld-linux-x86-64.so.2 than the usual one",
    ),
    ("./env rm x", ["./env rm x"], "another env than the usual one"),
    ("xargs rm -f", ["xargs rm -f", "rm -f"], "arguments that xargs reads"),
    ("find . -exec rm {} +", ["find . -exec rm {} +", "rm"], "names that find puts in"),
    ("nohup cd x", ["nohup cd x", "cd x"], "cd outside of a shell"),
    (
        "cd x && ls > y",
        ["cd x", "ls"],
        "a redirection to a relative path in a command that changes its folder",
    ),
    ("echo > /dev/tcp/example.com/80", ["echo"], "a connection that bash opens"),
    ("echo 2< x > /dev/stderr", ["echo"], "a redirection to a stream, which may be a file that is read"),
    ("echo 12> x", ["echo"], "a redirection that shells read differently"),
    ("echo {fd}> x", ["echo"], "a redirection of a variable's file"),
    ("echo >& x", ["echo"], "a >& that shells read differently"),
    ("a &> x b", ["a"], "words behind &>, which shells read differently"),
    ("cat <<E\n$x\nE\n", ["cat"], "an expansion in a here-document"),
    ("cat <<E\nx\n", ["cat"], "a here-document without an end"),
    ("a\\\nb", [], "a word over two lines"),
    ("a &\\\n& b", ["a"], "a line that goes on in the midst of something"),
    ("if a; then b", ["a", "b"], "its end in a place where no shell has it"),
    ("a;; b", ["a"], "a case command"),
    ("a && ", ["a"], "its end in a place where no shell has it"),
    ("'' a", [" a"], "a command without a name"),
    ("'a'=b c", [], "a command with = in its name"),
]


@pytest.mark.parametrize(("command", "known", "why"), UNKNOWN)
def test_what_cannot_be_known_is_said(command: str, known: list[str], why: str) -> None:
    found = touches_of(command)
    assert found.unknown == why
    if known and not command.startswith(("env -S", "''")):
        assert [" ".join(argv) for argv in found.commands] == known


def test_depth_and_length_are_bounded() -> None:
    assert "too deep" in touches_of("( " * 500 + "a" + " )" * 500).unknown
    assert "too deep" in touches_of("eval " * 100 + "a").unknown
    assert "too long" in touches_of("a " * 60_000).unknown


@given(
    st.text(alphabet=st.sampled_from("ab1 \t\n'\"\\$`;&|<>(){}[]*?~!#=-+/.%^,\u00e9\u00a0\x00"), max_size=60)
)
def test_no_text_is_an_error(command: str) -> None:
    assert touches_of(command) == touches_of(command)
