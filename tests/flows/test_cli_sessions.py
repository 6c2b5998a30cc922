"""Runs of the command are sessions: kept, listed, gone on with, also after a crash and from two terminals."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command import GNOMON, PROMPTLY_S, Gnomon, failed_in_one_line, in_terminal

from gnomon.types.codec import decode_event
from gnomon.types.events import Live, TextDelta, TurnCancelled, TurnFinished, Unknown

QUESTION = "what is 12*(3+4)?"
LONG = "tell me something long"


def told(done: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listed(gnomon: Gnomon) -> list[dict[str, str]]:
    return json.loads(gnomon("sessions", "--output", "json").stdout)["sessions"]


def kinds(gnomon: Gnomon, session_id: str) -> list[str]:
    done = gnomon("events", session_id, "--output", "json")
    assert done.returncode == 0, done.stderr
    return [event["type"] for event in json.loads(done.stdout)["events"]]


def own_file(gnomon: Gnomon) -> Path:
    return Path(gnomon.env["HOME"]) / ".local" / "share" / "gnomon" / "gnomon.db"


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PROMPTLY_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def waiting_for(process: subprocess.Popen[bytes], kind: str) -> list[bytes]:
    """The lines of a `stream-json` run up to the first event of that kind."""
    assert process.stdout is not None
    lines: list[bytes] = []
    for line in process.stdout:
        lines.append(line)
        if json.loads(line)["type"] == kind:
            return lines
    raise AssertionError(f"no {kind} came: {lines!r}")


def ended(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    try:
        return process.communicate(timeout=PROMPTLY_S)
    finally:
        process.kill()


def very_slow(gnomon: Gnomon, *arguments: str) -> subprocess.Popen[bytes]:
    """A run that has begun to speak, and would go on for a minute; other runs are not slowed down."""
    settings = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[providers.demo]\ndelay_s = 1.0\n")
    process = gnomon.start(*arguments, "--output", "stream-json", LONG)
    waiting_for(process, "text_delta")
    settings.unlink()
    return process


@pytest.fixture
def shop(gnomon: Gnomon, tmp_path: Path) -> Path:
    """Tools that another package has installed: one that takes long, one that asks, one that does harm."""
    folder = tmp_path / "installed"
    info = folder / "shop-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gnomon.tools]\nrefund = shop:refund\npermit = shop:permit\nfill = shop:fill\n"
    )
    (folder / "shop.py").write_text(
        "import os, time\n"
        "from gnomon import tool\n"
        "from gnomon.errors import AskUser\n"
        "@tool\n"
        "def refund() -> str:\n"
        "    'Refund the money.'\n"
        "    with open(os.environ['REFUNDS'], 'a') as file:\n"
        "        file.write('x')\n"
        "    while os.path.exists(os.environ['REFUNDS'] + '.slow'):\n"
        "        time.sleep(0.02)\n"
        "    return 'refunded'\n"
        "@tool\n"
        "def permit() -> str:\n"
        "    'Permit it.'\n"
        "    raise AskUser('May I \\x1b[31mdo that?')\n"
        "@tool\n"
        "def fill() -> str:\n"
        "    'Fill the disk: no file of this process may grow any more.'\n"
        "    import resource\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        "    return 'full'\n"
    )
    gnomon.env |= {"PYTHONPATH": str(folder), "REFUNDS": str(tmp_path / "refunds")}
    return tmp_path / "refunds"


# --- where it is kept ---------------------------------------------------------


def test_a_run_is_kept_in_a_file_for_its_owner_alone(gnomon: Gnomon) -> None:
    session_id = told(gnomon("--output", "json", QUESTION))["session_id"]
    file = own_file(gnomon)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [row["id"] for row in listed(gnomon)] == [session_id]


def test_the_folder_of_xdg_is_used(gnomon: Gnomon, tmp_path: Path) -> None:
    assert gnomon("hi", XDG_DATA_HOME=str(tmp_path / "a folder%20with?signs#")).returncode == 0
    assert (tmp_path / "a folder%20with?signs#" / "gnomon" / "gnomon.db").exists()
    assert not own_file(gnomon).exists()


def test_the_store_of_the_environment_is_used(gnomon: Gnomon, tmp_path: Path) -> None:
    gnomon.env["GNOMON_STORE"] = f"sqlite:///{tmp_path}/other.db"
    assert gnomon("hi").returncode == 0
    assert (tmp_path / "other.db").exists()
    assert not own_file(gnomon).exists()
    assert len(listed(gnomon)) == 1


def test_a_project_cannot_say_where_runs_are_kept_until_it_is_trusted(gnomon: Gnomon, tmp_path: Path) -> None:
    (gnomon.folder / ".gnomon").mkdir()
    (gnomon.folder / ".gnomon" / "config.toml").write_text(f'store = "sqlite:///{tmp_path}/theirs.db"\n')
    failed_in_one_line(gnomon("hi"), 2, "`store`", "trusted folder")
    assert gnomon("--no-project", "hi").returncode == 0
    assert not (tmp_path / "theirs.db").exists()
    assert gnomon("trust").returncode == 0
    assert gnomon("hi").returncode == 0
    assert (tmp_path / "theirs.db").exists()


def test_with_no_store_nothing_is_kept(gnomon: Gnomon) -> None:
    done = gnomon("--no-store", "--output", "json", QUESTION)
    assert told(done)["session_id"] is None
    assert done.stderr == b""
    assert not own_file(gnomon).exists()
    assert gnomon("sessions").stdout == b""
    assert not own_file(gnomon).exists()


def test_without_a_place_to_keep_it_the_answer_comes_with_a_warning(gnomon: Gnomon) -> None:
    own_file(gnomon).parent.parent.mkdir(parents=True)
    own_file(gnomon).parent.write_text("a file where the folder should be")
    done = gnomon(QUESTION)
    assert done.returncode == 0
    assert b"84" in done.stdout
    assert re.search(
        r"^gnomon: warning: this run is not kept: .*gnomon\.db", done.stderr.decode(), re.MULTILINE
    )
    assert gnomon("-q", QUESTION).stderr == b""
    failed_in_one_line(gnomon("-c", "more"), 1, "session")
    assert gnomon("-r", "ses_1", "more").returncode == 1
    assert told(gnomon("--output", "json", QUESTION))["session_id"] is None


def test_without_a_home_the_answer_comes_with_a_warning(gnomon: Gnomon) -> None:
    del gnomon.env["HOME"]
    done = gnomon(QUESTION)
    assert done.returncode == 0
    assert b"84" in done.stdout
    assert b"no home folder" in done.stderr
    failed_in_one_line(gnomon("-c", "more"), 2, "no home folder", "GNOMON_STORE")
    failed_in_one_line(gnomon("sessions"), 2, "no home folder")


def test_a_store_that_is_damaged_does_not_cost_the_answer(gnomon: Gnomon) -> None:
    own_file(gnomon).parent.mkdir(parents=True)
    own_file(gnomon).write_bytes(b"this is no database, whatever its name says" * 100)
    done = gnomon(QUESTION)
    assert done.returncode == 0, done.stderr
    assert b"84" in done.stdout
    assert b"warning: this run is not kept" in done.stderr
    failed_in_one_line(gnomon("-c", "more"), 1, "gnomon.db")
    failed_in_one_line(gnomon("sessions"), 1, "gnomon.db")


def test_a_disk_that_takes_nothing_more_does_not_cost_the_answer(gnomon: Gnomon) -> None:
    assert gnomon("hi").returncode == 0
    done = _on_a_full_disk(gnomon, QUESTION)
    assert done.returncode == 0, done.stderr
    assert b"84" in done.stdout
    assert done.stdout.count(b"84") == 1
    assert b"warning: this run is not kept" in done.stderr
    again = _on_a_full_disk(gnomon, "-c", QUESTION)
    assert again.returncode == 1
    assert re.search(rb"gnomon: error: [^\n]*gnomon\.db", again.stderr)
    assert b"Traceback" not in again.stderr
    assert [row["title"] for row in listed(gnomon)] == ["hi"]


def test_a_disk_that_is_full_in_the_middle_of_a_turn_ends_the_command_with_one_line(
    gnomon: Gnomon, shop: Path
) -> None:
    gnomon("hi")
    done = gnomon("-q", "-c", "-t", "fill", "--permissions", "auto", "fill")
    assert done.returncode == 1
    assert re.fullmatch(r"gnomon: error: [^\n]*gnomon\.db[^\n]+\n", done.stderr.decode()), done.stderr
    (session,) = listed(gnomon)
    assert session["state"] == "unfinished"
    assert gnomon("-q", "cancel", session["id"]).returncode == 0


def _on_a_full_disk(gnomon: Gnomon, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """No file may grow: what a process with a spent quota sees."""
    return subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *GNOMON, *arguments],
        cwd=gnomon.folder,
        env=gnomon.env | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PROMPTLY_S,
        check=False,
    )


def test_a_wrong_store_is_said_and_nothing_is_run(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("hi", GNOMON_STORE="nosuch://x"), 2, "nosuch")


# --- going on -----------------------------------------------------------------


def test_the_latest_session_of_the_folder_goes_on(gnomon: Gnomon) -> None:
    first = told(gnomon("--output", "json", QUESTION))
    done = gnomon("-c", "--output", "json", "and what is 7*8?")
    second = told(done)
    assert second["session_id"] == first["session_id"]
    assert "56" in str(second["answer"])
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert kinds(gnomon, str(first["session_id"])).count("turn_finished") == 2


def test_going_on_shows_the_same_forms(gnomon: Gnomon) -> None:
    gnomon("hi")
    text = gnomon("-c", QUESTION)
    assert text.returncode == 0, text.stderr
    assert b"84" in text.stdout
    assert text.stdout.count(b"84") == 1
    assert 'calculate(expression="12*(3+4)") → 84' in text.stderr.decode()
    assert re.search(r"^demo:\S+ · .*tokens", text.stderr.decode(), re.MULTILINE)
    lines = gnomon("-c", "-m", "demo:slow", "--output", "stream-json", LONG).stdout.splitlines()
    events = [decode_event(line) for line in lines]
    assert not [event for event in events if type(event) is Unknown]
    assert [event for event in events if type(event) is TextDelta]
    assert type(events[-1]) is TurnFinished


def test_another_folder_has_sessions_of_its_own(gnomon: Gnomon, tmp_path: Path) -> None:
    gnomon("hi")
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Gnomon(tmp_path / "elsewhere", gnomon.env)
    failed_in_one_line(elsewhere("-c", "more"), 1, "no session was begun in this folder", "gnomon sessions")
    theirs = told(elsewhere("--output", "json", "hello"))["session_id"]
    assert told(gnomon("-c", "--output", "json", "again"))["session_id"] != theirs
    assert told(elsewhere("-c", "--output", "json", "again"))["session_id"] == theirs


def test_the_session_that_was_used_last_goes_on(gnomon: Gnomon) -> None:
    older = str(told(gnomon("--output", "json", "one"))["session_id"])
    gnomon("two")
    assert gnomon("-r", older, "more of one").returncode == 0
    assert told(gnomon("-c", "--output", "json", "again"))["session_id"] == older


def test_the_beginning_of_an_id_is_enough_and_one_that_fits_two_is_not(gnomon: Gnomon) -> None:
    first = str(told(gnomon("--output", "json", "one"))["session_id"])
    second = str(told(gnomon("--output", "json", "two"))["session_id"])
    assert told(gnomon("-r", first[:16], "--output", "json", "more"))["session_id"] == first
    assert told(gnomon("-r", second[4:18], "--output", "json", "more"))["session_id"] == second
    failed_in_one_line(gnomon("-r", "ses_", "more"), 2, "2 sessions begin with", first, second)
    failed_in_one_line(gnomon("-r", "nosuch", "more"), 1, "no session 'nosuch'", "gnomon sessions")
    failed_in_one_line(gnomon("-r", "", "more"), 2, "empty")


@pytest.mark.parametrize("command", ["events", "resume", "cancel", "fork"])
def test_an_id_that_was_left_out_is_said_with_where_to_read_on(gnomon: Gnomon, command: str) -> None:
    asked = f"gnomon {command}: missing argument 'ID' (see gnomon {command} --help)"
    failed_in_one_line(gnomon(command), 2, asked)


def test_what_does_not_go_together_is_said(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("-c", "-r", "x", "hi"), 2, "-c and -r")
    failed_in_one_line(gnomon("-c", "--no-store", "hi"), 2, "--no-store")
    failed_in_one_line(gnomon("--when-busy", "steer", "hi"), 2, "--when-busy")
    error = gnomon("-r", "nosuch", "--output", "json", "hi")
    assert json.loads(error.stdout)["error"]["code"] == "not_found"


def test_a_session_goes_on_with_the_model_tools_and_instructions_it_began_with(gnomon: Gnomon) -> None:
    gnomon("-m", "demo:slow", "-t", "now", "-s", "Be brief.", "hi")
    gnomon.env["GNOMON_SYSTEM"] = "Be long."
    again = told(gnomon("-c", "--output", "json", QUESTION))
    assert again["model"] == "slow"
    assert not [event for event in again["events"] if event["type"] == "tool_finished"]
    (session,) = listed(gnomon)
    hashes = _hashes(gnomon, session["id"])
    assert hashes[0] == hashes[1]
    other = told(gnomon("-c", "-m", "demo", "-t", "calculate", "--output", "json", QUESTION))
    assert other["model"] == "demo"
    assert "84" in str(other["answer"])
    assert _hashes(gnomon, session["id"])[2] != hashes[0]


def _hashes(gnomon: Gnomon, session_id: str) -> list[str]:
    events = json.loads(gnomon("events", session_id, "--output", "json").stdout)["events"]
    return [event["agent_hash"] for event in events if event["type"] == "turn_started"]


def test_a_failure_in_a_session_is_told_as_that_of_a_single_run(gnomon: Gnomon) -> None:
    gnomon("hi")
    done = gnomon("-q", "-c", "-m", "demo:flaky", "hello")
    assert done.returncode == 1
    assert re.fullmatch(r"gnomon: error: demo: [^\n]+\n", done.stderr.decode())
    assert gnomon("-c", "hello again").returncode == 0


def test_no_key_is_kept_with_a_session(gnomon: Gnomon) -> None:
    gnomon("hi", OPENAI_API_KEY="sk-abcdefgh12345678")
    content = b"".join(
        path.read_bytes() for path in own_file(gnomon).parent.glob("gnomon.db*") if path.is_file()
    )
    assert b"12345678" not in content


# --- what was run -------------------------------------------------------------


def test_sessions_are_listed_the_newest_first_and_in_pages(gnomon: Gnomon) -> None:
    for word in ("first", "second", "third"):
        gnomon(word)
    done = gnomon("sessions", "--limit", "2")
    lines = done.stdout.decode().splitlines()
    assert [line.split()[-1] for line in lines] == ["third", "second"]
    assert all(re.match(r"ses_[0-9a-f]{12} +\d+ s ago +idle ", line) for line in lines)
    assert b"there are more" in done.stderr
    page = json.loads(gnomon("sessions", "--limit", "2", "--output", "json").stdout)
    rest = json.loads(gnomon("sessions", "--after", page["next"], "--output", "json").stdout)
    assert [row["title"] for row in rest["sessions"]] == ["first"]
    assert rest["next"] is None
    assert rest["sessions"][0]["cwd"] == str(gnomon.folder)


def test_nobody_has_run_anything_yet(gnomon: Gnomon) -> None:
    done = gnomon("sessions")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no session is kept yet" in done.stderr
    assert gnomon("-q", "sessions").stderr == b""
    failed_in_one_line(gnomon("-c", "hi"), 1, "no session was begun in this folder")
    failed_in_one_line(gnomon("events", "ses_1"), 1, "no session")
    failed_in_one_line(gnomon("resume", "ses_1"), 1, "no session")
    failed_in_one_line(gnomon("cancel", "ses_1"), 1, "no session")
    error = gnomon("fork", "ses_1", "--output", "json")
    assert json.loads(error.stdout)["error"]["code"] == "not_found"


def test_a_title_and_an_answer_cannot_command_the_terminal(gnomon: Gnomon) -> None:
    gnomon("\x1b]0;owned\x07 hi \x1b[2J")
    code, seen = in_terminal(gnomon, "sessions")
    assert code == 0
    assert "]0;owned hi" in seen
    assert "\x1b]" not in seen
    assert "\x07" not in seen
    session_id = listed(gnomon)[0]["id"]
    shown = gnomon("events", session_id).stdout
    assert b"owned" in shown
    assert b"\x1b" not in shown


def test_events_are_a_line_each_with_their_number(gnomon: Gnomon) -> None:
    session_id = str(told(gnomon("--output", "json", QUESTION))["session_id"])
    lines = gnomon("events", session_id[:16]).stdout.decode().splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert [line for line in lines if "message_received" in line and QUESTION in line]
    assert [line for line in lines if "tool_finished" in line and "calculate · 84" in line]
    rest = gnomon("events", session_id, "--after", "3").stdout.decode().splitlines()
    assert rest == lines[3:]
    assert gnomon("events", session_id, "--after", "1000").stdout == b""
    numbered = [
        json.loads(line)
        for line in gnomon("events", session_id, "--output", "stream-json").stdout.splitlines()
    ]
    assert [event["seq"] for event in numbered] == list(range(1, len(lines) + 1))
    assert all(type(decode_event(json.dumps(event))) is not Unknown for event in numbered)
    failed_in_one_line(gnomon("events", session_id, "-f", "--output", "json"), 2, "stream-json")


def test_what_another_process_runs_is_followed_as_it_is_said(gnomon: Gnomon) -> None:
    running = gnomon.start("-q", "-m", "demo:slow", LONG)
    wait_until(lambda: listed(gnomon), "the run was never listed")
    following = gnomon.start("events", "-f", listed(gnomon)[0]["id"], "--output", "stream-json")
    lines = waiting_for(following, "turn_finished")
    events = [decode_event(line) for line in lines]
    spoken = [event for event in events if type(event) is Live and type(event.event) is TextDelta]
    assert len(spoken) > 3
    following.send_signal(signal.SIGINT)
    _, err = ended(following)
    assert following.returncode == 130
    assert b"Traceback" not in err
    out, _ = ended(running)
    assert "".join(event.event.text for event in spoken) in out.decode()


# --- Ctrl-C, crashes ----------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["-c"]], ids=["a single run", "a session"])
def test_ctrl_c_is_recorded_as_a_cancelled_turn(gnomon: Gnomon, arguments: list[str]) -> None:
    if arguments:
        gnomon("hi")
    process = gnomon.start("-q", *arguments, "-m", "demo:slow", LONG)
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, err = ended(process)
    assert process.returncode == 130
    assert err == b"gnomon: interrupted\n"
    (session,) = listed(gnomon)
    assert session["state"] == "idle"
    assert kinds(gnomon, session["id"])[-2:] == ["turn_cancelled", "released"]
    assert gnomon("-c", "-m", "demo", "go on").returncode == 0


def test_a_reader_that_leaves_early_cancels_the_turn_of_a_session_too(gnomon: Gnomon) -> None:
    gnomon("hi")
    process = gnomon.start("-q", "-c", "-m", "demo:slow", LONG)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.wait(timeout=PROMPTLY_S) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
    assert "turn_cancelled" in kinds(gnomon, listed(gnomon)[0]["id"])


def test_a_run_that_was_killed_is_gone_on_with(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", LONG)
    waiting_for(process, "text_delta")
    process.kill()
    process.communicate()
    (session,) = listed(gnomon)
    assert session["state"] == "unfinished"
    shown = gnomon("sessions")
    assert b"unfinished" in shown.stdout
    assert f"gnomon resume {session['id'][:16]}".encode() in shown.stderr
    done = gnomon("resume", session["id"], "--output", "json")
    again = told(done)
    assert again["session_id"] == session["id"]
    assert again["model"] == "slow"
    assert LONG in str(again["messages"][0])
    assert again["answer"]
    assert listed(gnomon)[0]["state"] == "idle"
    nothing = gnomon("resume", session["id"])
    assert nothing.returncode == 0
    assert b"nothing is open" in nothing.stderr
    idle = told(gnomon("resume", session["id"], "--output", "json"))
    assert idle == {"session_id": session["id"], "state": "idle"}


def test_the_next_prompt_finishes_first_what_was_killed(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", LONG)
    waiting_for(process, "text_delta")
    process.kill()
    process.communicate()
    done = gnomon("-c", QUESTION)
    assert done.returncode == 0, done.stderr
    assert b"84" not in done.stdout or b"12*(3+4)" in done.stdout
    assert b"that comes first" in done.stderr
    counted = kinds(gnomon, listed(gnomon)[0]["id"])
    assert counted.count("turn_started") == counted.count("turn_finished") == 2


def test_other_runs_that_were_killed_are_left_alone(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", LONG)
    waiting_for(process, "text_delta")
    process.kill()
    process.communicate()
    assert gnomon("hi").returncode == 0
    newest = listed(gnomon)[0]["id"]
    assert gnomon("-r", newest, "-m", "demo:slow", LONG).returncode == 0
    assert [row["state"] for row in listed(gnomon)] == ["idle", "unfinished"]


def test_a_tool_whose_outcome_is_unknown_is_asked_about_and_not_run_again_in_silence(
    gnomon: Gnomon, shop: Path
) -> None:
    shop.with_name("refunds.slow").touch()
    process = gnomon.start("-t", "refund", "--output", "stream-json", "refund")
    wait_until(shop.exists, "the tool was never run")
    process.kill()
    process.communicate()
    shop.with_name("refunds.slow").unlink()
    session_id = listed(gnomon)[0]["id"]
    for _ in range(2):
        done = gnomon("resume", session_id)
        failed_in_one_line(done, 3, "waits for an answer", "refund", "--answer TEXT, or --run-again")
    assert shop.read_text() == "x"
    assert listed(gnomon)[0]["state"] == "waiting"
    failed_in_one_line(gnomon("-c", "and now?"), 3, "waits for an answer")
    error = gnomon("resume", session_id, "--output", "json")
    assert error.returncode == 3
    assert json.loads(error.stdout)["error"]["code"] == "turn_unfinished"
    again = gnomon("resume", session_id, "--run-again")
    assert again.returncode == 0, again.stderr
    assert b"refunded" in again.stdout
    assert shop.read_text() == "xx"


def test_the_answer_to_a_question_becomes_the_result_of_the_call(gnomon: Gnomon, shop: Path) -> None:
    asked = gnomon("-t", "permit", "permit")
    assert asked.returncode == 3, asked.stderr
    error = asked.stderr.decode()
    assert "May I" in error
    assert "\x1b" not in error
    session_id = listed(gnomon)[0]["id"]
    assert f"gnomon resume {session_id} --answer TEXT" in error
    failed_in_one_line(gnomon("resume", session_id, "--answer", "yes", "--call", "nosuch"), 1, "nosuch")
    failed_in_one_line(gnomon("resume", session_id, "--call", "x"), 2, "--answer")
    failed_in_one_line(gnomon("resume", session_id, "--answer", "a", "--run-again"), 2, "both")
    done = gnomon("resume", session_id, "--answer", "by all means")
    assert done.returncode == 0, done.stderr
    assert b"by all means" in done.stdout
    failed_in_one_line(gnomon("resume", session_id, "--answer", "yes"), 1, "no open question")


def test_in_a_run_that_is_not_kept_the_model_is_told_that_nobody_can_be_asked(
    gnomon: Gnomon, shop: Path
) -> None:
    done = gnomon("-q", "--no-store", "-t", "permit", "permit")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"nobody can be asked" in done.stdout


def test_an_interrupting_prompt_takes_the_place_of_a_question(gnomon: Gnomon, shop: Path) -> None:
    assert gnomon("-t", "permit", "permit").returncode == 3
    done = gnomon("-c", "--when-busy", "interrupt", "hello")
    assert done.returncode == 0, done.stderr
    assert "turn_cancelled" in kinds(gnomon, listed(gnomon)[0]["id"])


# --- two at once --------------------------------------------------------------


def test_a_second_terminal_is_queued_and_says_so(gnomon: Gnomon) -> None:
    gnomon("hi")
    first = gnomon.start("-c", "-m", "demo:slow", "--output", "stream-json", LONG)
    head = waiting_for(first, "text_delta")
    second = gnomon("-c", "-m", "demo", QUESTION)
    out, err = ended(first)
    assert first.returncode == 0, err
    assert b"turn_finished" in (b"".join(head) + out)
    assert second.returncode == 0, second.stderr
    assert b"is busy: queued" in second.stderr
    assert b"84" in second.stdout
    counted = kinds(gnomon, listed(gnomon)[0]["id"])
    assert counted.count("turn_started") == counted.count("turn_finished") == 3


def test_a_busy_session_may_reject_or_be_interrupted(gnomon: Gnomon) -> None:
    first = very_slow(gnomon)
    failed_in_one_line(gnomon("-c", "--when-busy", "reject", "hello"), 1, "is busy")
    session_id = listed(gnomon)[0]["id"]
    failed_in_one_line(gnomon("resume", session_id), 1, "run by another process", "--take-over")
    done = gnomon("-c", "--when-busy", "interrupt", QUESTION)
    assert done.returncode == 0, done.stderr
    assert b"84" in done.stdout
    _, err = ended(first)
    assert first.returncode == 1
    assert b"cancelled elsewhere" in err


def test_ctrl_c_of_who_is_queued_does_not_end_the_turn_of_the_other(gnomon: Gnomon) -> None:
    gnomon("hi")
    first = very_slow(gnomon, "-c")
    session_id = listed(gnomon)[0]["id"]
    second = gnomon.start("-c", QUESTION)
    wait_until(lambda: kinds(gnomon, session_id).count("message_received") == 3, "it was never queued")
    time.sleep(0.5)  # it reads by now, and waits for its turn
    second.send_signal(signal.SIGINT)
    _, err = ended(second)
    assert second.returncode == 130
    assert b"is busy: queued" in err
    assert first.poll() is None
    assert not {"cancel_requested", "turn_cancelled"} & set(kinds(gnomon, session_id))
    first.kill()
    ended(first)


def test_a_running_turn_is_cancelled_from_another_terminal(gnomon: Gnomon) -> None:
    first = very_slow(gnomon)
    session_id = listed(gnomon)[0]["id"]
    done = gnomon("cancel", session_id)
    assert done.returncode == 0, done.stderr
    out, err = ended(first)
    assert first.returncode == 1
    assert b"cancelled elsewhere" in err
    assert type(decode_event(out.splitlines()[-1])) is TurnCancelled
    assert b"nothing is open" in gnomon("cancel", session_id).stderr


def test_what_was_killed_is_cancelled_too(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", LONG)
    waiting_for(process, "text_delta")
    process.kill()
    process.communicate()
    session_id = listed(gnomon)[0]["id"]
    assert told(gnomon("cancel", session_id, "--output", "json")) == {
        "session_id": session_id,
        "cancelled": True,
    }
    assert listed(gnomon)[0]["state"] == "idle"
    assert "turn_cancelled" in kinds(gnomon, session_id)


def test_a_session_is_taken_over_from_a_process_that_hangs(gnomon: Gnomon) -> None:
    first = gnomon.start("-m", "demo:slow", "-t", "now", "--output", "stream-json", LONG)
    waiting_for(first, "text_delta")
    first.send_signal(signal.SIGSTOP)
    try:
        session_id = listed(gnomon)[0]["id"]
        failed_in_one_line(gnomon("resume", session_id), 1, "--take-over")
        done = gnomon("resume", session_id, "--take-over", "--output", "json")
        assert told(done)["answer"]
    finally:
        first.send_signal(signal.SIGCONT)
        ended(first)
    assert first.returncode == 1
    assert kinds(gnomon, session_id).count("turn_finished") == 1


# --- branching off ------------------------------------------------------------


def test_a_fork_goes_on_by_itself(gnomon: Gnomon) -> None:
    session_id = str(told(gnomon("--output", "json", "hi"))["session_id"])
    made = gnomon("fork", session_id).stdout.decode().strip()
    assert made != session_id
    assert kinds(gnomon, made) == kinds(gnomon, session_id)
    assert told(gnomon("-c", "--output", "json", "more"))["session_id"] == made
    assert "more" not in gnomon("events", session_id).stdout.decode()
    earlier = told(gnomon("fork", session_id, "--at", "3", "--output", "json"))["session_id"]
    assert kinds(gnomon, str(earlier))[:3] == kinds(gnomon, session_id)[:3]
    failed_in_one_line(gnomon("fork", session_id, "--at", "1000"), 2, "1000")


def test_a_session_of_another_program_is_shown_and_not_run(gnomon: Gnomon) -> None:
    gnomon("hi")
    code = (
        "import asyncio, os\n"
        "from gnomon import Agent\n"
        "async def main():\n"
        "    async with Agent('demo', name='orders', storage=os.environ['STORE']) as agent:\n"
        "        await agent.session('order-17').run('hello')\n"
        "asyncio.run(main())\n"
    )
    env = gnomon.env | {"STORE": f"sqlite:///{own_file(gnomon)}"}
    subprocess.run([GNOMON[0], "-c", code], env=env, check=True, timeout=PROMPTLY_S)
    assert b"[orders] hello" in gnomon("sessions").stdout
    assert b"turn_finished" in gnomon("events", "order-17").stdout
    failed_in_one_line(gnomon("-r", "order-17", "more"), 2, "agent 'orders'")
    failed_in_one_line(gnomon("resume", "order-17"), 2, "agent 'orders'")


@pytest.mark.parametrize("name", ["sessions", "events", "resume", "cancel", "fork"])
def test_the_help_of_each_fits_a_screen(gnomon: Gnomon, name: str) -> None:
    lines = gnomon(name, "--help").stdout.decode().splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert len(lines[lines.index("Examples:") + 1 :]) >= 2


def test_a_store_may_be_named_for_one_command(gnomon: Gnomon, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/other.db"
    assert gnomon("hi", GNOMON_STORE=store).returncode == 0
    found = json.loads(gnomon("sessions", "--store", store, "--output", "json").stdout)
    assert [row["title"] for row in found["sessions"]] == ["hi"]
    assert listed(gnomon) == []
