"""`gnomon traces`: what a session spent its time on, as a tree."""

from __future__ import annotations

import json
import re

from command import Gnomon, failed_in_one_line

QUESTION = "what is 12*(3+4)?"


def asked(gnomon: Gnomon) -> str:
    done = gnomon("--output", "json", QUESTION)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["session_id"]


def lines(gnomon: Gnomon, *arguments: str) -> list[str]:
    done = gnomon("traces", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def test_the_spans_of_a_session_are_shown_as_a_tree_with_times_and_tokens(gnomon: Gnomon) -> None:
    shown = lines(gnomon, asked(gnomon), "--rebuild")
    assert [re.sub(r"\d+", "N", line.strip()) for line in shown] == [
        "N.N s  turn gnomon · N in, N out tokens",
        "N.N s    model demo · N in, N out tokens",
        "N.N s    tool calculate",
        "N.N s    model demo · N in, N out tokens",
    ]
    counts = [[int(count) for count in re.findall(r"(\d+) (?:in|out)", line)] for line in shown]
    assert counts[0] == [sum(column) for column in zip(counts[1], counts[3], strict=True)]


def test_what_was_made_is_stored(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    rebuilt = lines(gnomon, session_id[:20], "--rebuild")
    assert lines(gnomon, session_id) == rebuilt
    again = json.loads(gnomon("traces", session_id, "--rebuild", "--output", "json").stdout)
    assert again["rebuilt"] == 0


def test_where_there_are_none_it_is_said_how_to_make_them(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    gnomon_says = gnomon("traces", session_id)
    assert (gnomon_says.returncode, gnomon_says.stdout) == (0, b"")
    assert b"--rebuild" in gnomon_says.stderr
    quiet = gnomon("traces", session_id, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, b"", b"")


def test_a_program_gets_them_whole(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    told = json.loads(gnomon("traces", session_id, "--rebuild", "--output", "json").stdout)
    assert (told["session_id"], told["rebuilt"]) == (session_id, 4)
    turn = next(trace for trace in told["traces"] if trace["kind"] == "turn")
    assert {trace["kind"] for trace in told["traces"] if trace.get("parent_id") == turn["id"]} == {
        "model",
        "tool",
    }
    assert "12*(3+4)" not in json.dumps(told), "what was said is in the events, not here"


def test_a_session_that_is_not_there_is_named(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("traces", "ses_none"), 1, "no session", "ses_none")
    asked(gnomon)
    failed_in_one_line(gnomon("traces", "ses_none"), 1, "no session", "ses_none")
    told = gnomon("traces", "ses_none", "--output", "json")
    assert json.loads(told.stdout)["error"]["code"] == "not_found"
