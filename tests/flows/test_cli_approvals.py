"""Leave at the command line: asked for at a terminal, given from another process, refused, never taken."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command import GNOMON, PROMPTLY_S, Gnomon, failed_in_one_line

import storing
from gnomon import Agent, tool
from gnomon.testing import ScriptedProvider, calls, says

NOTE = "save a note: buy milk"
BELOW = "ask a helper: save a note: buy milk"


def notes(gnomon: Gnomon) -> list[str]:
    file = Path(gnomon.env["HOME"]) / ".local" / "share" / "gnomon" / "notes.txt"
    return file.read_text().splitlines() if file.exists() else []


def waiting(gnomon: Gnomon, *arguments: str) -> list[dict[str, object]]:
    done = gnomon("approvals", *arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["approvals"]


def asked(gnomon: Gnomon, prompt: str = NOTE) -> str:
    """A session that waits for leave."""
    failed_in_one_line_but_for_words(gnomon("-q", prompt))
    (one,) = waiting(gnomon)
    return str(one["session_id"])


def failed_in_one_line_but_for_words(done: subprocess.CompletedProcess[bytes]) -> None:
    error = done.stderr.decode()
    assert done.returncode == 3, error
    assert error.startswith("gnomon: error: the turn waits for leave to call save_note (apr_")
    assert error.count("\n") == 1
    for command in ("gnomon approve ses_", "gnomon deny ses_", "gnomon approvals ses_"):
        assert command in error


def at_terminal(gnomon: Gnomon, *arguments: str, types: list[tuple[str, bytes]]) -> tuple[int, str]:
    """What a person sees who types each answer once the words before it are there."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [*GNOMON, *arguments],
        cwd=gnomon.folder,
        env=gnomon.env | {"TERM": "dumb", "COLUMNS": "80"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen, read, left = b"", 0, list(types)
    deadline = time.monotonic() + PROMPTLY_S
    try:
        while select.select([main], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
            while left and (at := seen.find(left[0][0].encode(), read)) >= 0:
                read = at + len(left[0][0])
                _type(main, process, left.pop(0)[1])
        code = process.wait(timeout=PROMPTLY_S)
    finally:
        process.kill()
        os.close(main)
    assert not left, f"never saw {left[0][0]!r} in {seen.decode()}"
    return code, seen.decode().replace("\r\n", "\n")


def _type(main: int, process: subprocess.Popen[bytes], answer: bytes) -> None:
    if answer == b"^C":
        process.send_signal(signal.SIGINT)
    else:
        os.write(main, answer)


# --- a person at a terminal -----------------------------------------------------------


def test_a_person_is_shown_the_call_and_the_reason_and_says_yes(gnomon: Gnomon) -> None:
    code, seen = at_terminal(gnomon, NOTE, types=[("[a]lways? ", b"y\n")])
    assert code == 0, seen
    assert 'save_note({"text":"buy milk"})' in seen
    assert "needs leave: in mode ask what changes something is asked about" in seen
    assert 'always means: allow save_note(=={"text":"buy milk"})' in seen
    assert "saved in" in seen
    assert notes(gnomon) == ["buy milk"]
    assert waiting(gnomon) == []


def test_a_no_with_its_reason_reaches_the_model_and_nothing_is_done(gnomon: Gnomon) -> None:
    code, seen = at_terminal(gnomon, NOTE, types=[("[a]lways? ", b"n, too dear\n")])
    assert code == 0, seen
    assert "too dear" in seen.partition("n, too dear")[2]
    assert notes(gnomon) == []


def test_an_answer_that_is_none_is_asked_for_again(gnomon: Gnomon) -> None:
    answers = [("[a]lways? ", b"maybe\n"), ("n TEXT)? ", b"yes please\n"), ("n TEXT)? ", b"Y\n")]
    code, seen = at_terminal(gnomon, NOTE, types=answers)
    assert code == 0, seen
    assert notes(gnomon) == ["buy milk"]


def test_always_saves_the_rule_that_was_shown_for_the_session(gnomon: Gnomon) -> None:
    assert at_terminal(gnomon, NOTE, types=[("[a]lways? ", b"always\n")])[0] == 0
    assert gnomon("-c", NOTE).returncode == 0
    assert notes(gnomon) == ["buy milk", "buy milk"]
    failed_in_one_line_but_for_words(gnomon("-q", "-c", "save a note: buy gold"))
    assert notes(gnomon) == ["buy milk", "buy milk"]


def test_whoever_ends_the_input_leaves_the_question_open(gnomon: Gnomon) -> None:
    code, seen = at_terminal(gnomon, NOTE, types=[("[a]lways? ", b"\x04")])
    assert code == 3, seen
    assert "gnomon approve ses_" in seen
    assert len(waiting(gnomon)) == 1


def test_ctrl_c_at_the_question_ends_the_command_and_gives_no_leave(gnomon: Gnomon) -> None:
    code, seen = at_terminal(gnomon, NOTE, types=[("[a]lways? ", b"^C")])
    assert code == 130, seen
    assert notes(gnomon) == []


def test_what_a_sub_agent_needs_leave_for_is_asked_here(gnomon: Gnomon) -> None:
    code, seen = at_terminal(gnomon, BELOW, types=[("[a]lways? ", b"y\n")])
    assert code == 0, seen
    assert "needs leave of a sub-agent" in seen
    assert notes(gnomon) == ["buy milk"]


def test_a_session_that_waits_is_asked_about_when_it_is_resumed(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    code, seen = at_terminal(gnomon, "resume", session_id, types=[("[a]lways? ", b"y\n")])
    assert code == 0, seen
    assert notes(gnomon) == ["buy milk"]


def test_without_a_store_leave_can_be_given_at_the_terminal_alone(gnomon: Gnomon) -> None:
    done = gnomon("-q", "--no-store", NOTE)
    assert done.returncode == 3
    assert b"without --no-store, or at a terminal" in done.stderr
    code, seen = at_terminal(gnomon, "--no-store", NOTE, types=[("[a]lways? ", b"y\n")])
    assert code == 0, seen
    assert notes(gnomon) == ["buy milk"]


# --- from another process ---------------------------------------------------------------


@pytest.mark.parametrize("prompt", [NOTE, BELOW], ids=["own", "of a sub-agent"])
def test_leave_that_another_process_gives_lets_the_turn_go_on_there(gnomon: Gnomon, prompt: str) -> None:
    session_id = asked(gnomon, prompt)
    (one,) = waiting(gnomon, session_id[:16])
    assert (one["tool"], one["arguments"]) == ("save_note", '{"text":"buy milk"}')
    assert one["of_subagent"] is (prompt is BELOW)
    assert notes(gnomon) == []
    done = gnomon("approve", session_id, "--by", "ada")
    assert done.returncode == 0, done.stderr
    assert b"saved in" in done.stdout
    assert notes(gnomon) == ["buy milk"]
    assert waiting(gnomon) == []
    assert b"approved \xc2\xb7 by ada" in gnomon("events", session_id).stdout


def test_what_is_refused_is_told_to_the_model_with_the_reason(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    (one,) = waiting(gnomon)
    done = gnomon(
        "deny", session_id, str(one["approval_id"])[:12], "--reason", "not today", "--output", "json"
    )
    assert done.returncode == 0, done.stderr
    assert "not today" in json.loads(done.stdout)["answer"]
    assert notes(gnomon) == []


def test_an_answer_counts_once(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    approval_id = str(waiting(gnomon)[0]["approval_id"])
    assert gnomon("approve", session_id).returncode == 0
    failed_in_one_line(gnomon("approve", session_id), 1, "waits for no leave")
    failed_in_one_line(gnomon("deny", session_id, approval_id), 1, "no open request for leave")
    assert notes(gnomon) == ["buy milk"]


def test_a_sub_agents_own_session_leads_to_the_one_that_was_begun(gnomon: Gnomon) -> None:
    asked(gnomon, BELOW)
    rows = json.loads(gnomon("sessions", "--output", "json").stdout)["sessions"]
    below = next(row["id"] for row in rows if row["id"].startswith("sub_"))
    assert gnomon("approve", below).returncode == 0
    assert notes(gnomon) == ["buy milk"]


def test_which_session_is_said_where_several_wait(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("approve"), 1, "nothing waits for leave")
    one = asked(gnomon)
    failed_in_one_line_but_for_words(gnomon("-q", "save a note: buy bread"))
    failed_in_one_line(gnomon("approve"), 2, "2 sessions wait for leave: say which")
    assert notes(gnomon) == []
    assert gnomon("deny", one).returncode == 0
    assert gnomon("approve").returncode == 0
    assert notes(gnomon) == ["buy bread"]
    failed_in_one_line(gnomon("approve"), 1, "nothing waits for leave")


def test_the_next_question_waits_for_the_answer(gnomon: Gnomon) -> None:
    session_id = asked(gnomon)
    failed_in_one_line(gnomon("-q", "-c", "hi"), 3, "waits for leave", f"gnomon approve {session_id}")


def test_a_session_of_another_program_is_answered_and_not_run(gnomon: Gnomon, tmp_path: Path) -> None:
    import asyncio

    url, paid = storing.sqlite_url(tmp_path / "shop.db"), []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def agent() -> Agent[str]:
        script = ScriptedProvider(
            lambda request: says("Done.") if request.messages[-1].tool_results else calls("pay", amount=5)
        )
        return Agent(script, name="shop", tools=[pay], permissions="ask", storage=url)

    async def ask() -> None:
        async with agent() as shop:
            await shop.session("order-17").send("Pay.")
            while not await shop.session("order-17").approvals():  # noqa: ASYNC110 - until it asks
                await asyncio.sleep(0.02)

    async def go_on() -> str:
        async with agent() as shop:
            return (await shop.session("order-17").turn_result()).text

    asyncio.run(ask())
    (one,) = waiting(gnomon, "--store", url)
    assert (one["agent"], one["tool"], one["arguments"]) == ("shop", "pay", '{"amount":5}')
    done = gnomon("approve", "order-17", "--store", url)
    assert done.returncode == 0, done.stderr
    assert b"the program that has the agent 'shop' goes on with it" in done.stderr
    assert paid == []
    assert asyncio.run(go_on()) == "Done."
    assert paid == [5]


# --- modes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "code", "saved"), [("auto", 0, 1), ("accept_edits", 0, 1), ("plan", 0, 0), ("ask", 3, 0)]
)
def test_the_mode_says_what_is_done_unasked(gnomon: Gnomon, mode: str, code: int, saved: int) -> None:
    assert gnomon("-q", "--permissions", mode, NOTE).returncode == code
    assert len(notes(gnomon)) == saved


def test_a_session_goes_on_in_the_mode_it_began_with(gnomon: Gnomon) -> None:
    assert gnomon("-q", "--permissions", "auto", NOTE).returncode == 0
    assert gnomon("-q", "-c", NOTE).returncode == 0
    assert len(notes(gnomon)) == 2


# --- a sub-agent ------------------------------------------------------------------------


def test_the_demo_hands_work_to_a_helper_when_it_is_told_to(gnomon: Gnomon) -> None:
    done = gnomon("Let a helper work out 12*(3+4).")
    assert done.returncode == 0, done.stderr
    assert b"84" in done.stdout
    assert b"subagent_started: helper" in done.stderr


def test_a_turn_whose_helper_was_killed_goes_on_when_it_is_resumed(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", "ask a helper: what is 12*(3+4)?")
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "subagent_started":
                break
    finally:
        process.kill()
        process.communicate()
    rows = json.loads(gnomon("sessions", "--output", "json").stdout)["sessions"]
    root = next(row["id"] for row in rows if row["id"].startswith("ses_"))
    done = gnomon("resume", root, "-m", "demo")
    assert done.returncode == 0, done.stderr
    assert b"84" in done.stdout


# --- compaction -------------------------------------------------------------------------


def test_a_long_session_is_made_shorter_and_says_what_was_done(gnomon: Gnomon) -> None:
    session_id = json.loads(gnomon("-t", "now", "--output", "json", "tell me " + "something " * 60).stdout)[
        "session_id"
    ]
    for _ in range(3):
        assert gnomon("-q", "-c", "tell me " + "something " * 60).returncode == 0
    done = gnomon("compact", session_id)
    assert done.returncode == 0, done.stderr
    assert "messages" in done.stderr.decode()
    shown = gnomon("events", session_id).stdout.decode().splitlines()[-1]
    assert "compacted" in shown
    assert "truncate" in shown.lower()
    assert "as asked" in shown
    assert gnomon("-q", "-c", "hi").returncode == 0


def test_a_short_session_stays_as_it_is(gnomon: Gnomon) -> None:
    session_id = json.loads(gnomon("--output", "json", "hi").stdout)["session_id"]
    done = gnomon("compact", session_id, "--output", "json")
    assert json.loads(done.stdout) == {"session_id": session_id, "compacted": None}
