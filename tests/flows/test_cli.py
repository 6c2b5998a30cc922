"""The `gnomon` command as a person or a script runs it: a process, its streams, its exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from command import GNOMON, PROMPTLY_S, Gnomon, failed_in_one_line, in_terminal

from gnomon.cli.render import TextRenderer
from gnomon.cli.screen import Screen
from gnomon.stream import StreamFold
from gnomon.types.codec import decode_event, encode_message
from gnomon.types.events import (
    AttemptDiscarded,
    Error,
    RunEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    Unknown,
)
from gnomon.types.messages import ToolCall, ToolResult

QUESTION = "what is 12*(3+4)?"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


# --- an answer ----------------------------------------------------------------


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(gnomon: Gnomon) -> None:
    done = gnomon(QUESTION)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, err
    assert "84" in out
    assert out.endswith("\n")
    assert not out.endswith("\n\n")
    assert 'calculate(expression="12*(3+4)") → 84' in err.splitlines()
    assert "calculate" not in out.splitlines()[0] or "→" not in out
    assert re.search(r"^demo:\S+ · .*tokens.* · [\d.]+ s$", err, re.MULTILINE)
    assert "\x1b" not in out + err


def test_quiet_leaves_stderr_empty(gnomon: Gnomon) -> None:
    done = gnomon("-q", QUESTION)
    assert done.returncode == 0
    assert b"84" in done.stdout
    assert done.stderr == b""


def test_words_need_no_quotes_and_options_may_stand_anywhere(gnomon: Gnomon) -> None:
    done = gnomon("what", "is", "--output", "json", "2+2")
    assert _asked(done) == "what is 2+2"


def test_a_first_word_may_be_a_command_and_two_dashes_make_it_a_prompt(gnomon: Gnomon) -> None:
    assert b"Versions" in gnomon("doctor").stdout
    assert b"Versions" in gnomon("--debug", "-m", "demo", "doctor").stdout
    assert _asked(gnomon("--output", "json", "--", "doctor")) == "doctor"
    assert _asked(gnomon("--output", "json", "the", "doctor")) == "the doctor"
    assert _asked(gnomon("--output", "json", "doctor who?")) == "doctor who?"


def test_only_the_demo_has_tools_that_nobody_asked_for(gnomon: Gnomon) -> None:
    with_one = json.loads(gnomon("-m", "demo", "-t", "now", "--output", "json", QUESTION).stdout)
    assert not [event for event in with_one["events"] if event["type"] == "tool_finished"]
    (gnomon.folder / ".gnomon").mkdir()
    (gnomon.folder / ".gnomon" / "config.toml").write_text("tools = []\n")
    without = json.loads(gnomon("--output", "json", QUESTION).stdout)
    assert not [event for event in without["events"] if event["type"] == "tool_finished"]


def _asked(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)["messages"][0]["content"]
    return "".join(part.get("text", "") for part in content)


# --- for programs ---------------------------------------------------------------


def test_json_is_one_object_with_answer_usage_and_events(gnomon: Gnomon) -> None:
    done = gnomon("--output", "json", QUESTION)
    assert done.stdout.count(b"\n") == 1
    told = json.loads(done.stdout)
    assert "84" in told["answer"]
    assert told["stop"] == "end_turn"
    assert told["provider"] == "demo"
    assert told["model"]
    assert told["rounds"] == 2
    assert told["warnings"] == []
    assert told["usage"]["total_tokens"] > 0
    assert [message["role"] for message in told["messages"]] == ["user", "assistant", "tool", "assistant"]
    events = [decode_event(json.dumps(event)) for event in told["events"]]
    assert type(events[0]) is TurnStarted
    assert events[0].turn_id == told["turn_id"]
    assert type(events[-1]) is TurnFinished
    assert [event.result.text for event in events if type(event) is ToolFinished] == ["84"]


def test_stream_json_is_one_known_event_a_line_and_folds_to_the_message_of_json(gnomon: Gnomon) -> None:
    lines = gnomon("--output", "stream-json", QUESTION).stdout.splitlines()
    events = [decode_event(line) for line in lines]
    assert not [event for event in events if type(event) is Unknown]
    fold = StreamFold()
    for event in events:
        fold.add(event)
    whole = json.loads(gnomon("--output", "json", QUESTION).stdout)
    assert json.loads(encode_message(fold.message)) == whole["messages"][-1]


def test_stream_json_comes_while_the_model_speaks(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", "tell me something long")
    assert process.stdout is not None
    first = process.stdout.readline()
    process.kill()
    rest = process.stdout.read()
    process.communicate()
    assert type(decode_event(first)) is TurnStarted
    assert b"turn_finished" not in rest, "the first event came only with the last"


def test_a_failure_is_json_too(gnomon: Gnomon) -> None:
    done = gnomon("-m", "demo:flaky", "--output", "json", "hello")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1
    assert set(error) == {"code", "message", "retryable", "hint"}
    assert error["retryable"] is True
    lines = gnomon("-m", "demo:flaky", "--output", "stream-json", "hello").stdout.splitlines()
    last = decode_event(lines[-1])
    assert type(last) is Error
    assert last.code == error["code"]
    unknown = gnomon("-m", "nosuch:x", "--output", "json", "hello")
    assert unknown.returncode == 2
    assert json.loads(unknown.stdout)["error"]["code"] == "unknown_name"


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_budget_that_is_reached_exits_4_with_the_answer_so_far(gnomon: Gnomon, form: str) -> None:
    done = gnomon("--max-rounds", "1", "--output", form, QUESTION)
    assert done.returncode == 4
    assert b"the budget of rounds was reached" in done.stderr.splitlines()[-1]
    if form != "text":
        last = json.loads(done.stdout.splitlines()[-1])
        assert last["stop"] == "rounds"


@pytest.mark.parametrize(
    "locale",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_output_is_utf8_whatever_the_locale(gnomon: Gnomon, locale: dict[str, str]) -> None:
    done = gnomon("--output", "json", "grüße, 世界", **locale)
    assert _asked(done) == "grüße, 世界"
    piped = gnomon("--output", "json", stdin="grüße, 世界".encode(), **locale)
    assert _asked(piped) == "grüße, 世界"


# --- pipes -----------------------------------------------------------------------


def test_what_is_piped_in_joins_the_prompt_between_marks(gnomon: Gnomon) -> None:
    asked = _asked(gnomon("--output", "json", "why?", stdin=b"line 1\r\n  line 2\n\n"))
    assert asked == "why?\n\n<stdin>\nline 1\n  line 2\n</stdin>"


def test_a_pipe_alone_is_the_prompt(gnomon: Gnomon) -> None:
    assert b"84" in gnomon(stdin=QUESTION.encode() + b"\n").stdout
    marked = b"\xef\xbb\xbf" + QUESTION.encode()
    assert _asked(gnomon("--output", "json", stdin=marked)) == QUESTION


def test_a_large_pipe_is_read_whole(gnomon: Gnomon) -> None:
    done = gnomon("--output", "json", "how long?", stdin=b"0123456789\n" * 200_000)
    assert len(_asked(done)) > 2_000_000


def test_a_pipe_that_nobody_writes_to_is_waited_for_aloud(gnomon: Gnomon) -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [*GNOMON, QUESTION], env=gnomon.env, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(reader)
    said, _, _ = select.select([process.stderr], [], [], PROMPTLY_S)
    os.close(writer)
    out, err = process.communicate(timeout=PROMPTLY_S)
    assert said, "nothing was said while it waited"
    assert b"waiting for standard input" in err.splitlines()[0]
    assert b"84" in out


def test_a_reader_that_leaves_early_ends_it_quietly(gnomon: Gnomon) -> None:
    process = gnomon.start("-q", "-m", "demo:slow", "tell me something long")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=PROMPTLY_S) == 0


def test_closed_and_full_streams_are_no_traceback(gnomon: Gnomon) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m gnomon -q '{QUESTION}'"
    for redirection, code in ((">&-", 0), ("<&-", 0), ("2>&-", 0), (">/dev/full", 1)):
        done = subprocess.run(
            ["sh", "-c", f"{command} {redirection}"],
            env=gnomon.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROMPTLY_S,
            check=False,
        )
        assert done.returncode == code, redirection
        assert b"Traceback" not in done.stderr
        assert b"Exception ignored" not in done.stderr
        assert len(done.stderr.splitlines()) == code


# --- what cannot be used ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ([], None, "nothing to ask"),
        ([""], None, "nothing to ask"),
        ([], b" \n", "nothing to ask"),
        (["-m", "demo"], None, "nothing to ask"),
        (["hi"], b"caf\xe9", "standard input is not text"),
        (["hi"], b"a\0b", "NUL bytes"),
        (["hi"], "grüße".encode("utf-16"), "standard input is not text"),
        ([b"\xff\xfe"], None, "the prompt is not UTF-8"),
        (["-s", b"\xff", "hi"], None, "not UTF-8"),
        (["-m", "nosuch:x", "hi"], None, "no provider called 'nosuch'"),
        (["-m", "deno", "hi"], None, "did you mean 'demo'?"),
        (["-m", "demo:nosuch", "hi"], None, "no model 'nosuch'"),
        (["-m", "", "hi"], None, "--model"),
        (["-t", "calculater", "hi"], None, "did you mean 'calculate'?"),
        (["-a", "missing.png", "hi"], None, "'missing.png'"),
        (["-a", ".", "hi"], None, "it is a folder"),
        (["-a", "/dev/zero", "hi"], None, "it is a device"),
        (["--modle", "demo", "hi"], None, "'--modle'"),
        (["-5", "+", "3"], None, "gnomon -- PROMPT"),
        (["--output", "xml", "hi"], None, "'--output'"),
        (["--max-rounds", "0", "hi"], None, "'--max-rounds'"),
        (["--max-rounds", "many", "hi"], None, "'--max-rounds'"),
        (["hi", "-m"], None, "requires an argument"),
        (["trust", "me", "on", "this"], None, "gnomon -- PROMPT"),
        (["trust", "nowhere"], None, "nothing to trust"),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_exit_2(
    gnomon: Gnomon, arguments: Sequence[str | bytes], stdin: bytes | None, said: str
) -> None:
    failed_in_one_line(gnomon(*arguments, stdin=stdin), 2, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"model = ", "not valid TOML"),
        (b"modle = 'demo'\n", "did you mean `model`?"),
        (b"model = 7\n", "`model`"),
        (b"system = '\xff'\n", "not UTF-8"),
    ],
)
def test_a_malformed_config_is_one_line_and_exit_2(gnomon: Gnomon, text: bytes, said: str) -> None:
    file = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    failed_in_one_line(gnomon("hi"), 2, str(file), said)


def test_a_broken_project_file_can_be_left_out(gnomon: Gnomon) -> None:
    (gnomon.folder / ".gnomon").mkdir()
    (gnomon.folder / ".gnomon" / "config.toml").write_text("model =")
    failed_in_one_line(gnomon("hi"), 2, "config.toml", "not valid TOML")
    assert gnomon("--no-project", "hi").returncode == 0


def test_debug_shows_where_it_happened(gnomon: Gnomon) -> None:
    for asked in (
        gnomon("--debug", "-m", "nosuch:x", "hi"),
        gnomon("-m", "nosuch:x", "hi", GNOMON_DEBUG="1"),
    ):
        assert asked.returncode == 2
        assert b"Traceback" in asked.stderr
        assert asked.stderr.splitlines()[-1].startswith(b"gnomon: error: there is no provider")
    assert b"Traceback" not in gnomon("-m", "nosuch:x", "hi", GNOMON_DEBUG="0").stderr


def test_a_service_that_fails_is_exit_1_and_says_what_failed(gnomon: Gnomon) -> None:
    done = gnomon("-q", "-m", "demo:flaky", "hello")
    assert done.returncode == 1
    assert re.fullmatch(r"gnomon: error: demo: [^\n]+\n", done.stderr.decode())
    assert done.stdout == b"" or done.stdout.endswith(b"\n")


def test_what_nobody_foresaw_is_one_line_too(gnomon: Gnomon, tmp_path: Path) -> None:
    """A broken installation, here a tool that cannot be imported, and a key in the message."""
    (tmp_path / "sitecustomize.py").write_text(
        "import gnomon.tools.function as f\n"
        "def broken(*_, **__): raise RuntimeError('no luck\\nwith sk-abcdefgh12345678')\n"
        "f.tool = broken\n"
    )
    done = gnomon("-m", "demo", QUESTION, PYTHONPATH=str(tmp_path))
    failed_in_one_line(done, 1, "internal error: RuntimeError: no luck with", "--debug")
    assert b"12345678" not in done.stderr


def test_no_key_of_the_environment_is_ever_shown(gnomon: Gnomon, tmp_path: Path) -> None:
    """Also one that looks like nothing in particular, and also in a traceback."""
    (tmp_path / "sitecustomize.py").write_text(
        "import gnomon.tools.function as f\n"
        "def broken(*_, **__): raise RuntimeError('refused: plainwords')\n"
        "f.tool = broken\n"
    )
    for form in ("text", "json", "stream-json"):
        done = gnomon(
            "--debug", "--output", form, QUESTION, PYTHONPATH=str(tmp_path), ACME_API_KEY="plainwords"
        )
        assert done.returncode == 1
        assert b"refused" in done.stderr
        assert b"plainwords" not in done.stdout + done.stderr


# --- attachments -----------------------------------------------------------------------


def test_attachments_are_what_their_content_says(gnomon: Gnomon) -> None:
    (gnomon.folder / "photo").write_bytes(PNG)
    (gnomon.folder / "notes.txt").write_text("remember the milk")
    (gnomon.folder / "song.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    done = gnomon("--output", "json", "look", "-a", "photo", "-a", "notes.txt", "--attach", "song.wav")
    assert done.returncode == 0, done.stderr
    parts = json.loads(done.stdout)["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image", "file", "audio"]
    assert parts[1]["media_type"] == "image/png"
    assert parts[2]["name"] == "notes.txt"


# --- at a terminal ------------------------------------------------------------------------


def test_a_bare_gnomon_at_a_terminal_shows_its_help(gnomon: Gnomon) -> None:
    code, seen = in_terminal(gnomon)
    assert code == 0
    assert seen.startswith("Usage: gnomon ")


def test_notes_are_dim_and_on_lines_of_their_own(gnomon: Gnomon) -> None:
    code, seen = in_terminal(gnomon, "-m", "demo", QUESTION)
    assert code == 0
    assert "\x1b[2m" in seen
    plain = re.sub(r"\x1b\[\d+m", "", seen).splitlines()
    assert 'calculate(expression="12*(3+4)") → 84' in plain
    assert re.fullmatch(r"demo:\S+ · .*tokens.* · [\d.]+ s", plain[-1])


@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colour_gets_none(gnomon: Gnomon, plain: dict[str, str]) -> None:
    code, seen = in_terminal(gnomon, "-m", "demo", QUESTION, **plain)
    assert code == 0
    assert "\x1b" not in seen


def test_a_model_cannot_command_the_terminal(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    with open(terminal, "w") as out, (tmp_path / "err").open("w") as err:
        Screen(out=out, err=err).answer("\x1b]0;owned\x07plain\ttext\n")
    assert os.read(main, 1000) == b"]0;ownedplain\ttext\r\n"
    os.close(main)


def test_ctrl_c_ends_it_cleanly_with_130(gnomon: Gnomon) -> None:
    process = gnomon.start("-q", "-m", "demo:slow", "tell me something long")
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=PROMPTLY_S)
    assert process.returncode == 130
    assert time.monotonic() - started < 2.0
    assert err == b"gnomon: interrupted\n"
    assert out.endswith(b"\n")


def test_ctrl_c_is_told_to_a_program_as_well(gnomon: Gnomon) -> None:
    process = gnomon.start("-m", "demo:slow", "--output", "stream-json", "tell me something long")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PROMPTLY_S)
    assert process.returncode == 130
    assert decode_event(out.splitlines()[-1]) == Error("interrupted", "interrupted")


# --- how text is drawn -------------------------------------------------------------------------


def _drawn(tmp_path: Path, *events: RunEvent, together: bool, quiet: bool = False) -> tuple[str, str]:
    """What the text form writes to stdout and stderr, or to the one file that both are."""
    out_path, err_path = tmp_path / "out", tmp_path / ("out" if together else "err")
    with (
        open(os.open(out_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w") as out,
        open(os.open(err_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w") as err,
    ):
        drawing = TextRenderer(Screen(quiet=quiet, out=out, err=err))
        for event in events:
            drawing.show(event)
        drawing.fail(RuntimeError())
    return out_path.read_text(), err_path.read_text()


def test_a_note_in_the_middle_of_a_line_breaks_it_only_where_both_are_one_place(tmp_path: Path) -> None:
    events = (TextDelta(0, "half"), StreamWarning("odd\x1b[31m\nthing"), TextDelta(0, " and half"))
    assert _drawn(tmp_path, *events, together=False) == ("half and half\n", "warning: odd[31m thing\n")
    (tmp_path / "out").unlink()
    assert _drawn(tmp_path, *events, together=True)[0] == "half\nwarning: odd[31m thing\n and half\n"


def test_thinking_is_kept_apart_from_the_answer(tmp_path: Path) -> None:
    events = (
        ThinkingDelta(0, "let me"),
        ThinkingDelta(0, " see"),
        TextDelta(1, "yes"),
        ThinkingDelta(2, "done"),
    )
    assert _drawn(tmp_path, *events, together=True)[0] == "let me see\nyes\ndone\n"


def test_a_discarded_attempt_is_said_and_the_answer_starts_on_a_new_line(tmp_path: Path) -> None:
    events = (TextDelta(0, "It is 8"), AttemptDiscarded("the line was cut"), TextDelta(0, "It is 84"))
    out, err = _drawn(tmp_path, *events, together=False)
    assert out == "It is 8\nIt is 84\n"
    assert err == "forget the answer so far, it starts again: the line was cut\n"


def test_a_tool_call_is_one_short_line(tmp_path: Path) -> None:
    call = ToolCall("c1", "search", json.dumps({"query": "x" * 500, "deep": True}))
    result = ToolResult.of(call, "first\nsecond " + "y" * 500, status="error")
    events = (ToolCallEnd(0, call), ToolFinished("t1", result))
    err = _drawn(tmp_path, *events, together=False)[1]
    assert re.fullmatch(r'search\(query="x+…\) → error: first second y+…\n', err)
    assert len(err) < 300
    (tmp_path / "err").unlink()
    assert _drawn(tmp_path, *events, together=False, quiet=True)[1] == ""


# --- doctor ----------------------------------------------------------------------------------

_SECRET = "sk-very-secret-0123456789"


def test_doctor_names_what_it_found_and_never_a_key(gnomon: Gnomon) -> None:
    keys = {
        "OPENAI_API_KEY": _SECRET,
        "XAI_API_KEY": "plain-words-only",
        "OLLAMA_HOST": "http://user:hunter22@10.0.0.7",
    }
    text = gnomon("doctor", **keys).stdout.decode()
    told = json.loads(gnomon("doctor", "--output", "json", **keys).stdout)
    titles = ("Versions", "Model", "Config", "API keys", "Local model", "Local model servers", "Sandboxes")
    for title in (*titles, "Stores"):
        assert title in text.splitlines()
    assert re.search(r"^  OPENAI_API_KEY +set", text, re.MULTILINE)
    assert re.search(r"^  XAI_API_KEY +set", text, re.MULTILINE)
    assert re.search(r"^  not set +.*ANTHROPIC_API_KEY", text, re.MULTILINE)
    assert re.search(r"^  Ollama +.*not asked", text, re.MULTILINE)
    assert re.search(r"^  sqlite3 +3\.", text, re.MULTILINE)
    found = {key["variable"]: key["set"] for key in told["keys"]}
    assert found["OPENAI_API_KEY"]
    assert found["XAI_API_KEY"]
    assert not found["GROQ_API_KEY"]
    assert told["model"]["name"] == "demo"
    for secret in (_SECRET, _SECRET[:8], "plain-words", "hunter22", "10.0.0.7"):
        assert secret not in text + json.dumps(told)


def test_doctor_says_when_no_provider_can_use_a_key(gnomon: Gnomon) -> None:
    told = json.loads(gnomon("doctor", "--output", "json", CEREBRAS_API_KEY="x" * 20).stdout)
    key = next(key for key in told["keys"] if key["variable"] == "CEREBRAS_API_KEY")
    text = gnomon("doctor", CEREBRAS_API_KEY="x" * 20).stdout.decode()
    if not key["provider_available"]:
        assert "no provider 'cerebras' yet" in text


def test_doctor_sees_a_server_that_answers(gnomon: Gnomon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = gnomon("doctor", OLLAMA_HOST=f"localhost:{port}").stdout.decode()
    assert re.search(
        rf"^  Ollama +a server answers on port {port}, but not with a list of models$", text, re.MULTILINE
    )
    gone = gnomon("doctor", OLLAMA_HOST=f"localhost:{port}").stdout.decode()
    assert re.search(rf"^  Ollama +nothing answers on port {port}$", gone, re.MULTILINE)


def test_doctor_shows_which_file_sets_what_and_a_broken_one_in_its_place(gnomon: Gnomon) -> None:
    (gnomon.folder / ".gnomon").mkdir()
    file = gnomon.folder / ".gnomon" / "config.toml"
    file.write_text("model = 'demo'\n[budget]\nrounds = 3\n")
    del gnomon.env["GNOMON_MODEL"]  # which is stronger
    text = gnomon("doctor").stdout.decode()
    assert re.search(rf"^  demo +chosen by {re.escape(str(file))}$", text, re.MULTILINE)
    assert re.search(r"^  project +.*not trusted.*sets model, budget\.rounds$", text, re.MULTILINE)
    file.write_text(f"model = '{_SECRET}\n")
    broken = gnomon("doctor")
    assert broken.returncode == 0
    assert re.search(r"^  problem +.*not valid TOML", broken.stdout.decode(), re.MULTILINE)
    assert _SECRET not in broken.stdout.decode()


def test_doctor_says_why_a_model_cannot_be_used(gnomon: Gnomon) -> None:
    told = json.loads(gnomon("doctor", "-m", "nosuch:x", "--output", "json").stdout)
    assert told["model"]["name"] == "nosuch:x"
    assert told["model"]["because"] == "chosen by --model"
    assert "no provider called 'nosuch'" in told["model"]["problem"]


# --- trust ------------------------------------------------------------------------------------


def test_a_project_may_set_an_address_only_once_its_folder_is_trusted(gnomon: Gnomon) -> None:
    (gnomon.folder / ".gnomon").mkdir()
    file = gnomon.folder / ".gnomon" / "config.toml"
    file.write_text("[providers.other]\nbase_url = 'http://localhost:1/'\n")
    failed_in_one_line(gnomon(QUESTION), 2, "providers.other.base_url", "gnomon trust")
    assert gnomon("--no-project", QUESTION).returncode == 0
    trusting = gnomon("trust")
    assert trusting.returncode == 0, trusting.stderr
    assert str(gnomon.folder) in trusting.stdout.decode()
    assert gnomon(QUESTION).returncode == 0
    file.write_text(file.read_text() + "key = 'changed'\n")
    failed_in_one_line(gnomon(QUESTION), 2, "gnomon trust")
    assert gnomon("trust", str(gnomon.folder)).returncode == 0
    assert gnomon(QUESTION).returncode == 0
    assert b"no longer trusted" in gnomon("trust", "--undo").stdout
    assert b"is not trusted" in gnomon("trust", "--undo").stdout
    failed_in_one_line(gnomon(QUESTION), 2, "gnomon trust")


def test_trust_finds_the_project_from_below(gnomon: Gnomon) -> None:
    (gnomon.folder / ".gnomon").mkdir()
    (gnomon.folder / ".gnomon" / "config.toml").write_text("[providers.other]\nkey = 'x'\n")
    below = gnomon.folder / "src" / "deep"
    below.mkdir(parents=True)
    project, gnomon.folder = gnomon.folder, below
    assert str(project).encode() in gnomon("trust").stdout
    assert gnomon(QUESTION).returncode == 0


# --- help and its price --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["doctor", "--help"],
        ["trust", "-h"],
        ["models", "--help"],
        ["sandbox", "-h"],
        ["sandbox", "show", "-h"],
        ["sandbox", "run", "-h"],
    ],
)
def test_help_fits_a_screen_and_ends_with_examples(gnomon: Gnomon, arguments: list[str]) -> None:
    lines = gnomon(*arguments).stdout.decode().splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) >= 2
    assert all("gnomon" in example for example in examples)


def test_the_version_is_that_of_the_package(gnomon: Gnomon) -> None:
    from gnomon import __version__

    assert gnomon("--version").stdout.decode() == f"gnomon {__version__}\n"


def test_help_imports_nothing_heavy(gnomon: Gnomon) -> None:
    code = (
        "import sys; sys.argv = ['gnomon', '--help']\n"
        "from gnomon.cli import main; assert main() == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=gnomon.env, capture_output=True, check=True)
    loaded = set(done.stderr.decode().split())
    assert "click" in loaded
    assert not loaded & {
        "asyncio",
        "msgspec",
        "rich",
        "prompt_toolkit",
        "aiohttp",
        "tomllib",
        "gnomon.agent",
        "gnomon.config",
        "gnomon.registry",
        "gnomon.stream",
    }


def test_an_answer_imports_no_http_client_and_no_terminal_library(gnomon: Gnomon) -> None:
    code = (
        f"import sys; sys.argv = ['gnomon', '-q', {QUESTION!r}]\n"
        "from gnomon.cli import main; assert main() == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=gnomon.env,
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert not set(done.stderr.decode().split()) & {"rich", "prompt_toolkit", "aiohttp", "importlib.metadata"}


def test_help_costs_little_more_than_that_of_the_smallest_click_program(
    gnomon: Gnomon, tmp_path: Path
) -> None:
    smallest = tmp_path / "smallest.py"
    smallest.write_text(
        "import click\n\n@click.command()\n@click.option('--name', help='Whom to greet.')\n"
        "def hello(name): 'Say hello.'\n\nhello()\n"
    )
    theirs, ours = [], []
    for _ in range(9):
        theirs.append(_cpu_s([sys.executable, str(smallest), "--help"], gnomon.env))
        ours.append(_cpu_s([*GNOMON, "--help"], gnomon.env))
    assert statistics.median(ours) <= 1.5 * statistics.median(theirs)


def _cpu_s(command: Sequence[str], env: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


# --- hostile surroundings ------------------------------------------------------------------------


def project_config(gnomon: Gnomon, content: bytes) -> None:
    (gnomon.folder / ".gnomon").mkdir(exist_ok=True)
    (gnomon.folder / ".gnomon" / "config.toml").write_bytes(content)


def run_with(gnomon: Gnomon, *arguments: str, **streams: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*GNOMON, *arguments],
        cwd=gnomon.folder,
        env=gnomon.env,
        stdin=subprocess.DEVNULL,
        timeout=PROMPTLY_S,
        check=False,
        **streams,  # type: ignore[call-overload]
    )


def test_notes_that_cannot_be_written_do_not_cost_the_answer(gnomon: Gnomon) -> None:
    with open("/dev/full", "wb") as full:
        done = run_with(gnomon, QUESTION, stdout=subprocess.PIPE, stderr=full)
    assert done.returncode == 0
    assert b"84" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_answer_that_cannot_be_written_is_a_failure(gnomon: Gnomon, unbuffered: str) -> None:
    gnomon.env["PYTHONUNBUFFERED"] = unbuffered
    with open("/dev/full", "wb") as full:
        done = run_with(gnomon, "-q", "--output", "json", QUESTION, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_trust_names_what_it_lets_in_also_behind_a_byte_order_mark(gnomon: Gnomon) -> None:
    project_config(gnomon, b"\xef\xbb\xbf[providers.other]\nbase_url = 'http://localhost:1/'\n")
    assert b"it sets providers.other.base_url" in gnomon("trust").stdout


def test_trust_shows_no_control_characters_of_the_file(gnomon: Gnomon) -> None:
    project_config(gnomon, b'"\\u001b[2Kx\\nit sets nothing" = 1\n')
    shown = gnomon("trust").stdout
    assert b"\x1b" not in shown
    assert shown.count(b"\n") == 2


def test_a_file_that_cannot_be_read_is_not_trusted(gnomon: Gnomon) -> None:
    project_config(gnomon, b"model = \n")
    failed_in_one_line(gnomon("trust"), 2, "config.toml", "line 1")


def test_who_asked_for_json_gets_json_also_for_wrong_options(gnomon: Gnomon) -> None:
    done = gnomon("--output", "json", "--max-rounds", "0", "hi")
    assert done.returncode == 2
    assert "max-rounds" in json.loads(done.stdout)["error"]["message"]


def test_a_long_secret_in_the_wrong_place_is_not_shown_in_part(gnomon: Gnomon) -> None:
    secret = "0123456789abcdef" * 4
    done = gnomon("hi", GNOMON_OUTPUT=secret, OPENAI_API_KEY=secret)
    failed_in_one_line(done, 2, "GNOMON_OUTPUT")
    assert secret[:16].encode() not in done.stderr


def test_a_file_whose_name_is_not_utf8_can_be_attached(gnomon: Gnomon) -> None:
    (gnomon.folder / os.fsdecode(b"bad\xff.txt")).write_text("inside")
    done = gnomon("look", "-a", b"bad\xff.txt", "--output", "json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


def test_doctor_does_not_wait_for_a_program_that_hangs(gnomon: Gnomon, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text("#!/bin/sh\nsleep 50\n")
    docker.chmod(0o755)
    began = time.monotonic()
    done = gnomon("doctor", PATH=f"{programs}:{gnomon.env.get('PATH', os.defpath)}")
    assert done.returncode == 0
    assert time.monotonic() - began < 30
