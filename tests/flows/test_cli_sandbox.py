"""`gnomon sandbox` and what `gnomon doctor` says of sandboxes, as a person types it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command import GNOMON, Gnomon, failed_in_one_line, in_terminal

from servers import containers

needs_podman = pytest.mark.skipif(shutil.which("podman") is None, reason="Podman is not installed")
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def run(gnomon: Gnomon, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return gnomon("sandbox", "run", *arguments, stdin=stdin)


def test_a_command_runs_and_its_exit_code_is_the_answer(gnomon: Gnomon) -> None:
    done = run(gnomon, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert done.returncode == 7
    assert done.stdout == b"out\n"
    first, last = done.stderr.decode().splitlines()
    assert first == "err"
    assert last.startswith("gnomon: level ")
    assert " · exit 7 · " in last


def test_quiet_leaves_stderr_to_the_command(gnomon: Gnomon) -> None:
    done = run(gnomon, "-q", "--", "sh", "-c", "echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"err\n")


def test_the_homes_the_folder_and_the_variables_of_whoever_types_it_are_out_of_reach(gnomon: Gnomon) -> None:
    secret = gnomon.folder / "secret.txt"
    secret.write_text("canary-of-the-host")
    script = f"cat {secret} {os.environ.get('HOME', '/root')}/.profile; env; ls"
    done = gnomon("sandbox", "run", "--", "sh", "-c", script, HOST_VARIABLE="canary-in-env")
    assert b"canary" not in done.stdout + done.stderr
    assert b"HOST_VARIABLE" not in done.stdout


def test_a_workspace_is_shared_and_what_is_named_can_be_read(gnomon: Gnomon, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "facts").write_text("a fact")
    script = f"cat {tmp_path}/facts > found; echo $COLOUR >> found; echo x > {tmp_path}/facts"
    work, facts = str(tmp_path / "work"), str(tmp_path / "facts")
    done = run(gnomon, "-w", work, "-r", facts, "-e", "COLOUR=red", "--", "sh", "-c", script)
    assert done.returncode != 0
    assert (tmp_path / "work" / "found").read_text() == "a factred\n"
    assert (tmp_path / "facts").read_text() == "a fact"


def test_input_is_given_when_it_is_asked_for(gnomon: Gnomon) -> None:
    assert run(gnomon, "-q", "-i", "--", "cat", stdin=b"\0\xff piped").stdout == b"\0\xff piped"
    assert run(gnomon, "-q", "--", "cat", stdin=b"piped").stdout == b""


def test_time_that_is_up_is_said_in_words(gnomon: Gnomon) -> None:
    done = run(gnomon, "--timeout", "0.3", "--", "sh", "-c", "echo before; sleep 50")
    assert done.returncode == 137
    assert done.stdout == b"before\n"
    assert done.stderr.decode().rstrip().endswith("ended: its time was up")


def test_a_program_that_is_not_there_is_a_result(gnomon: Gnomon) -> None:
    done = run(gnomon, "--", "no-such-program")
    assert done.returncode == 127
    assert done.stderr.decode().count("\n") == 1
    assert "there is no such program" in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--require", "container", "--", "true"], "use ContainerSandbox"),
        (["--require", "vault", "--", "true"], "the levels are none, process"),
        (["--without", "luck", "--", "true"], "known: bubblewrap, landlock, seccomp, cgroups"),
        (["-w", "missing", "--", "true"], "'missing' is no folder"),
        (["-r", "missing", "--", "true"], "'missing' cannot be shown"),
        (["-e", "COLOUR", "--", "true"], "--env NAME=VALUE"),
        (["--timeout", "0", "--", "true"], "more than 0 seconds"),
        (["--timeout", "nan", "--", "true"], "time limit"),
        (["--memory", "0", "--", "true"], "--memory"),
        ([], "missing argument"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(gnomon: Gnomon, arguments: list[str], said: str) -> None:
    done = run(gnomon, *arguments)
    failed_in_one_line(done, done.returncode, said)
    assert done.returncode in (1, 2)


@needs_podman
def test_a_container_is_tried_where_an_image_is_named(gnomon: Gnomon) -> None:
    done = run(gnomon, "--image", containers.image(), "--", "sh", "-c", "id -u; exit 3")
    assert done.returncode == 3, done.stderr
    assert done.stdout.strip() not in (b"", b"0")
    assert done.stderr.decode().startswith("gnomon: level container · exit 3 · ")


@needs_podman
def test_what_is_not_for_containers_is_said(gnomon: Gnomon) -> None:
    done = run(gnomon, "--image", "none", "--read", "/etc", "--", "true")
    failed_in_one_line(done, done.returncode, "--read is not for containers")
    failed_in_one_line(run(gnomon, "--image", "no-such-image", "--", "true"), 1, "no-such-image")


def test_a_word_that_is_no_command_of_sandbox_is_taken_for_a_prompt_gone_astray(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("sandbox", "castle"), 2, "known: run, show", "gnomon -- PROMPT")


def test_a_terminal_is_not_moved_by_what_a_command_writes(gnomon: Gnomon) -> None:
    _, shown = in_terminal(gnomon, "sandbox", "run", "-q", "--", "printf", r"\033[2Jhidden\007")
    assert "hidden" in shown
    assert "\x1b[2J" not in shown
    assert "\a" not in shown


def test_the_reader_who_has_enough_ends_the_command(gnomon: Gnomon) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{' '.join(GNOMON)} sandbox run -q -- yes | head -1"],
        cwd=gnomon.folder,
        env=gnomon.env,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == b"y\n"
    assert done.stderr == b""


def test_ctrl_c_ends_the_command(gnomon: Gnomon, tmp_path: Path) -> None:
    script = 'echo $$ > pid; echo started; trap "" INT TERM; while :; do sleep 0.05; echo on > alive; done'
    started = gnomon.start("sandbox", "run", "-w", str(tmp_path), "--", "sh", "-c", script)
    assert started.stdout is not None
    assert started.stdout.readline() == b"started\n"
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=30)
    assert started.returncode == 130
    assert b"Traceback" not in errors
    _assert_nothing_is_written(tmp_path / "alive")


def test_kill_9_of_the_program_ends_the_command(gnomon: Gnomon, tmp_path: Path) -> None:
    script = 'echo started; trap "" INT TERM HUP; while :; do sleep 0.05; echo on > alive; done'
    started = gnomon.start("sandbox", "run", "-w", str(tmp_path), "--", "sh", "-c", script)
    assert started.stdout is not None
    assert started.stdout.readline() == b"started\n"
    started.kill()
    started.communicate(timeout=30)
    _assert_nothing_is_written(tmp_path / "alive")


def _assert_nothing_is_written(path: Path) -> None:
    """Whoever writes there twenty times a second is gone, within five seconds."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        path.unlink(missing_ok=True)
        time.sleep(0.5)
        if not path.exists():
            return
    pytest.fail("the command goes on")


# --- what holds here ----------------------------------------------------------------


@needs_bubblewrap
def test_doctor_says_which_levels_hold_and_by_what(gnomon: Gnomon) -> None:
    told = json.loads(gnomon("doctor", "--output", "json").stdout)["levels"]
    levels = {level["level"]: level for level in told}
    assert levels["namespaces"]["holds"]
    assert "bubblewrap" in levels["namespaces"]["by"]
    text = gnomon("doctor").stdout.decode()
    section = text[text.index("Sandboxes") :]
    assert "namespaces  holds: bubblewrap, seccomp" in section


def test_doctor_says_what_to_install_where_a_level_does_not_hold(gnomon: Gnomon, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    told = json.loads(gnomon("doctor", "--output", "json", PATH=str(tmp_path / "empty")).stdout)["levels"]
    found = {level["level"]: level for level in told}
    assert not found["namespaces"]["holds"]
    assert "install bubblewrap" in found["namespaces"]["by"]


def test_doctor_says_that_no_container_engine_answers(gnomon: Gnomon, tmp_path: Path) -> None:
    # A program that looks for a daemon finds none here, and the one that needs none is not in PATH.
    (tmp_path / "empty").mkdir()
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "PATH": str(tmp_path / "empty")}
    told = json.loads(gnomon("doctor", "--output", "json", **nowhere).stdout)["levels"]
    found = next(level for level in told if level["level"] == "container")
    assert not found["holds"]
    assert "none.sock" in found["by"]


@needs_podman
def test_doctor_says_which_engine_holds_containers(gnomon: Gnomon) -> None:
    told = json.loads(gnomon("doctor", "--output", "json").stdout)["levels"]
    found = next(level for level in told if level["level"] == "container")
    assert found["holds"]
    assert found["by"].startswith("Podman ")


def test_show_names_what_each_level_leaves_open(gnomon: Gnomon) -> None:
    told = json.loads(gnomon("sandbox", "show", "--json").stdout)["levels"]
    lines = gnomon("sandbox", "show").stdout.decode().splitlines()
    assert [level["level"] for level in told] == ["container", "namespaces", "process"]
    for level in told:
        word = "holds" if level["holds"] else "does not hold"
        assert any(line.startswith(f"{level['level']:<12}{word}: ") for line in lines)
        for name in level.get("missing", ()):
            assert any(line.strip().startswith(f"not held: {name} (") for line in lines)
