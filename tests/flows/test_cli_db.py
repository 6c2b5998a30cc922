"""`gnomon db` through the front door, on SQLite files: what is printed, what is written, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command import GNOMON, PROMPTLY_S, Gnomon, failed_in_one_line, in_terminal

import stored
from gnomon.storage._records import RecordStorage
from stored import event, opened, session

COMMANDS = ["migrate", "status", "verify", "copy", "export", "import", "prune", "delete"]


def url_of(gnomon: Gnomon, name: str = "a.db") -> str:
    return stored.in_file(gnomon.folder / name)


def work_on(url: str, work: Callable[[RecordStorage], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with opened(url) as store:
            return await work(store)

    return asyncio.run(run())


@pytest.fixture
def filled(gnomon: Gnomon) -> str:
    """A store in the folder `a.db`, with one of everything."""
    work_on(url_of(gnomon), lambda store: stored.fill(store, sessions=3))
    return "sqlite:///a.db"


async def fill_many(store: RecordStorage) -> None:
    """So much that a command takes a while with it."""
    names = [f"s{number}" for number in range(200)]
    await asyncio.gather(*(store.create_session(session(name)) for name in names))
    payload = b"x" * 3_000
    logs = [[event(name, seq, payload) for seq in range(1, 21)] for name in names]
    await asyncio.gather(*(store.append_events(log) for log in logs))


def hashes(gnomon: Gnomon, name: str) -> dict[tuple[str, str], str]:
    return work_on(url_of(gnomon, name), stored.hashes)


def lines_of(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def told(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


# --- help and usage -----------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_fits_a_screen_and_ends_with_examples(gnomon: Gnomon, command: str) -> None:
    lines = lines_of(gnomon("db", *command.split(), "--help"))
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) >= 2
    assert all("gnomon db" in example for example in examples)


def test_the_commands_are_listed_where_one_looks(gnomon: Gnomon) -> None:
    bare = lines_of(gnomon("db"))
    assert [line.split()[0] for line in bare if line.split()[:1] and line.split()[0] in COMMANDS] == COMMANDS
    assert any("db" in line.replace(",", " ").split() for line in lines_of(gnomon("--help")))


def test_options_may_stand_before_the_command(gnomon: Gnomon, filled: str) -> None:
    assert told(gnomon("-q", "db", "--json", "status", filled))["is_ready"] is True


def test_wrong_usage_exits_2_and_says_what_to_type(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("db", "is", "broken"), 2, "no command 'is'", "gnomon -- PROMPT")
    failed_in_one_line(gnomon("db", "copy", "sqlite:///a.db"), 2, "missing argument 'TO'")
    failed_in_one_line(gnomon("db", "status", "a", "b"), 2, "gnomon db status: got unexpected")
    failed_in_one_line(gnomon("db", "verify", "--jsno"), 2, "--jsno", "gnomon db verify --help")
    failed_in_one_line(gnomon("db", "status", "a.db"), 2, "'a.db' is not the URL", "sqlite:///gnomon.db")
    failed_in_one_line(gnomon("db", "export", "a", "b", "c"), 2, "gnomon db export [URL] FILE")


def test_a_password_in_a_url_is_never_shown(gnomon: Gnomon) -> None:
    for command in (["status"], ["verify"], ["copy", "sqlite:///a.db"]):
        done = gnomon("db", *command, "nosuch://ana:hunter2@db.example/x", "--debug")
        assert done.returncode == 2
        assert b"hunter2" not in done.stdout + done.stderr
    doctor = gnomon("doctor", GNOMON_STORE="postgresql://ana:hunter2@db.example/gnomon?sslmode=require")
    assert b"postgresql://db.example/gnomon, named by GNOMON_STORE" in doctor.stdout
    assert b"hunter2" not in doctor.stdout + doctor.stderr


def test_nor_where_it_stands_in_the_wrong_place_or_is_mistyped(gnomon: Gnomon) -> None:
    url = "postgresql://ana:hunter2/x@db.example/gnomon"
    typed = [
        [url],
        ["status", "a", url],
        ["export", url],
        ["export", "sqlite:///a.db", url],
        ["import", url, "sqlite:///a.db"],
        ["status", "postgresql//ana:hunter2@db.example/gnomon", "--json"],
    ]
    for words in typed:
        done = gnomon("db", *words, "--debug", GNOMON_STORE="sqlite:///a.db")
        assert done.returncode == 2, words
        assert b"hunter2" not in done.stdout + done.stderr, words


# --- which store --------------------------------------------------------------------


def test_without_a_store_one_is_told_how_to_name_it(gnomon: Gnomon) -> None:
    for command in ("migrate", "status", "verify"):
        typed = f"gnomon db {command} sqlite:///gnomon.db"
        failed_in_one_line(gnomon("db", command), 2, "no store was named", typed, "GNOMON_STORE")
    failed_in_one_line(gnomon("db", "export", "x"), 2, "gnomon db export sqlite:///gnomon.db FILE")


def test_it_is_named_by_the_argument_then_the_environment_then_the_config(gnomon: Gnomon) -> None:
    file = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('store = "sqlite:///config.db"\n')
    assert "config.db" in lines_of(gnomon("db", "migrate"))[0]
    assert "environment.db" in lines_of(gnomon("db", "migrate", GNOMON_STORE="sqlite:///environment.db"))[0]
    named = gnomon("db", "migrate", "sqlite:///named.db", GNOMON_STORE="sqlite:///environment.db")
    assert "named.db" in lines_of(named)[0]


def test_a_project_may_name_a_store_only_when_it_is_trusted(gnomon: Gnomon) -> None:
    (gnomon.folder / ".gnomon").mkdir()
    (gnomon.folder / ".gnomon" / "config.toml").write_text('store = "sqlite:///project.db"\n')
    failed_in_one_line(gnomon("db", "migrate"), 2, "`store` may be set only in a trusted folder")
    assert not (gnomon.folder / "project.db").exists()
    failed_in_one_line(gnomon("db", "migrate", "--no-project"), 2, "no store was named")
    assert gnomon("db", "migrate", "sqlite:///named.db").returncode == 0
    assert gnomon("trust").returncode == 0
    assert "project.db" in lines_of(gnomon("db", "migrate"))[0]


# --- migrate and status -------------------------------------------------------------


def test_tables_are_made_once(gnomon: Gnomon) -> None:
    before = gnomon("db", "status", "sqlite:///a.db")
    assert before.returncode == 1
    assert b"no tables yet (gnomon db migrate)" in before.stdout
    assert not (gnomon.folder / "a.db").exists(), "status has made a file"
    assert "has schema 1 now; it had no tables" in lines_of(gnomon("db", "migrate", "sqlite:///a.db"))[0]
    assert "has schema 1 already" in lines_of(gnomon("db", "migrate", "sqlite:///a.db"))[0]
    after = "\n".join(lines_of(gnomon("db", "status", "sqlite:///a.db")))
    assert "nothing was stored yet" in after
    assert "survives a power cut" in after


def test_status_counts_by_tenant(gnomon: Gnomon, filled: str) -> None:
    text = "\n".join(lines_of(gnomon("db", "status", filled)))
    assert "tenant default       5 sessions, 5 memory records" in text
    found = told(gnomon("db", "status", filled, "--json"))
    assert {tenant["name"]: tenant["sessions"] for tenant in found["tenants"]} == dict.fromkeys(
        stored.TENANTS, 5
    )
    assert (found["schema_found"], found["schema_known"], found["is_ready"]) == (1, 1, True)


def test_a_count_ends_at_a_thousand(gnomon: Gnomon) -> None:
    async def fill(store: RecordStorage) -> None:
        await asyncio.gather(*(store.create_session(session(f"s{n}", minutes=n)) for n in range(1_001)))

    work_on(url_of(gnomon), fill)
    text = "\n".join(lines_of(gnomon("db", "status", "sqlite:///a.db")))
    assert "1,000+ sessions, 0 memory records" in text


def test_a_store_that_cannot_be_used_is_one_line_and_json_where_that_was_asked_for(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("db", "status", "sqlite:///no/such/a.db"), 2, "does not exist")
    (gnomon.folder / "other.db").write_bytes(b"not a database" * 100)
    failed_in_one_line(gnomon("db", "status", "sqlite:///other.db"), 1, "not an SQLite database")
    done = gnomon("db", "status", "sqlite:///other.db", "--json")
    assert done.returncode == 1
    assert told(done)["error"]["code"] == "damaged"
    for command in ("verify", "export"):
        arguments = ["x.jsonl"] if command == "export" else []
        failed_in_one_line(gnomon("db", command, "sqlite:///no.db", *arguments), 1, "no tables", "migrate")
    assert not (gnomon.folder / "x.jsonl").exists()


def test_tables_that_are_newer_are_left_alone(gnomon: Gnomon, filled: str) -> None:
    with closing(sqlite3.connect(gnomon.folder / "a.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    status = gnomon("db", "status", filled)
    assert status.returncode == 1
    assert b"99, and this gnomon knows 1 (upgrade gnomon)" in status.stdout
    failed_in_one_line(gnomon("db", "migrate", filled), 1, "version 99", "upgrade gnomon")
    assert gnomon("db", "migrate", "sqlite:///b.db").returncode == 0
    failed_in_one_line(gnomon("db", "copy", "sqlite:///b.db", filled, "-q"), 1, "version 99")


# --- copy ---------------------------------------------------------------------------


def test_a_store_is_copied_with_its_tables_and_again_finds_all_of_it_there(
    gnomon: Gnomon, filled: str
) -> None:
    (line,) = lines_of(gnomon("db", "copy", filled, "sqlite:///b.db"))
    assert line.startswith("copied 10 sessions, ")
    assert line.endswith("every session has the same hash in both")
    assert hashes(gnomon, "b.db") == hashes(gnomon, "a.db")
    (again,) = lines_of(gnomon("db", "copy", filled, "sqlite:///b.db"))
    assert "copied nothing; 10 sessions were there already" in again
    back = gnomon("db", "copy", "sqlite:///b.db", "sqlite:///c.db", "--json")
    assert told(back) | {"bytes": 0} == {
        "tenants": 2,
        "sessions": 10,
        "skipped": 0,
        "events": 938,
        "blobs": 4,
        "memory": 10,
        "bytes": 0,
        "missing_blobs": 0,
    }
    assert hashes(gnomon, "c.db") == hashes(gnomon, "a.db")


def test_a_target_that_differs_is_named_and_left_as_it_is(gnomon: Gnomon, filled: str) -> None:
    async def differ(store: RecordStorage) -> None:
        await store.append_event(event("blobs", 1, b"mine"))

    work_on(url_of(gnomon, "b.db"), differ)
    failed_in_one_line(
        gnomon("db", "copy", filled, "sqlite:///b.db"), 1, "session 'blobs'", "nothing was written over"
    )
    done = gnomon("db", "copy", filled, "sqlite:///b.db", "--json")
    assert told(done)["error"]["code"] == "conflict"
    failed_in_one_line(gnomon("db", "copy", filled, filled), 2, "the same one")
    failed_in_one_line(gnomon("db", "copy", filled, "sqlite:///./a.db"), 2, "the same one")


def test_ctrl_c_ends_a_copy_with_130_and_the_next_one_goes_on(gnomon: Gnomon) -> None:
    work_on(url_of(gnomon), fill_many)
    process = gnomon.start("db", "copy", "sqlite:///a.db", "sqlite:///b.db")
    _wait_for(lambda: _rows(gnomon.folder / "b.db", "sessions") > 5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=PROMPTLY_S)
    assert process.returncode == 130, error
    assert error.decode().splitlines()[-1] == "gnomon: interrupted"
    assert b"Traceback" not in error
    assert _rows(gnomon.folder / "b.db", "sessions") < 200
    done = gnomon("db", "copy", "sqlite:///a.db", "sqlite:///b.db")
    assert done.returncode == 0, done.stderr
    assert b"were there already" in done.stdout
    assert hashes(gnomon, "b.db") == hashes(gnomon, "a.db")


def _rows(path: Path, table: str) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    except sqlite3.Error:
        return 0
    return int(count)


def _wait_for(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PROMPTLY_S
    while not fact():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)


# --- export and import --------------------------------------------------------------


def test_a_store_goes_into_a_file_and_comes_out_of_it(gnomon: Gnomon, filled: str) -> None:
    done = gnomon("db", "export", filled, "backup.jsonl")
    assert lines_of(done) == []
    assert done.stderr.startswith(b"gnomon: exported 10 sessions, ")
    backup = gnomon.folder / "backup.jsonl"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [path.name for path in gnomon.folder.glob(".*backup*")] == []
    (line,) = lines_of(gnomon("db", "import", "backup.jsonl", "sqlite:///b.db"))
    assert line.startswith("imported 10 sessions, 938 events, 4 blobs, 10 memory records")
    assert hashes(gnomon, "b.db") == hashes(gnomon, "a.db")


def test_a_store_goes_through_a_pipe(gnomon: Gnomon, filled: str) -> None:
    out = gnomon("db", "export", "-", "-q", GNOMON_STORE=filled)
    assert out.returncode == 0
    assert out.stderr == b""
    done = gnomon("db", "import", "-", stdin=out.stdout, GNOMON_STORE="sqlite:///b.db")
    assert done.returncode == 0, done.stderr
    assert hashes(gnomon, "b.db") == hashes(gnomon, "a.db")


def test_a_file_that_is_there_is_not_written_over_unasked(gnomon: Gnomon, filled: str) -> None:
    (gnomon.folder / "mine").write_text("mine")
    failed_in_one_line(gnomon("db", "export", filled, "mine"), 2, "mine exists already", "--force")
    assert (gnomon.folder / "mine").read_text() == "mine"
    assert gnomon("db", "export", filled, "mine", "--force", "-q").returncode == 0
    assert (gnomon.folder / "mine").read_bytes().startswith(b'{"format":"gnomon-archive"')


def test_a_pipe_with_a_name_is_written_to_and_stays(gnomon: Gnomon, filled: str) -> None:
    os.mkfifo(gnomon.folder / "pipe")
    with (
        (gnomon.folder / "out").open("wb") as out,
        subprocess.Popen(["cat", gnomon.folder / "pipe"], stdout=out) as reader,
    ):
        assert gnomon("db", "export", filled, "pipe", "--force", "-q").returncode == 0
        assert reader.wait(timeout=PROMPTLY_S) == 0
    assert (gnomon.folder / "out").read_bytes().startswith(b'{"format":"gnomon-archive"')
    assert (gnomon.folder / "pipe").is_fifo()
    failed_in_one_line(gnomon("db", "export", filled, "none/out"), 1, "error: none/out: no such file")
    failed_in_one_line(gnomon("db", "export", filled, ".", "--force"), 1, "error: .: is a directory")


def test_a_damaged_file_is_refused_by_its_line_and_nothing_is_imported(gnomon: Gnomon, filled: str) -> None:
    assert gnomon("db", "export", filled, "whole", "-q").returncode == 0
    lines = (gnomon.folder / "whole").read_bytes().splitlines(keepends=True)
    (gnomon.folder / "cut").write_bytes(b"".join(lines[:40]))
    failed_in_one_line(gnomon("db", "import", "cut", "sqlite:///b.db"), 2, "ends after line 40")
    lines[30] = lines[30][:20] + b"\n"
    (gnomon.folder / "damaged").write_bytes(b"".join(lines))
    failed_in_one_line(gnomon("db", "import", "damaged", "sqlite:///b.db"), 2, "line 31 is damaged")
    failed_in_one_line(gnomon("db", "import", "a.db", "sqlite:///b.db"), 2, "no archive of gnomon")
    failed_in_one_line(gnomon("db", "import", "none", "sqlite:///b.db"), 1, "none: no such file")
    assert _rows(gnomon.folder / "b.db", "sessions") == 0


def test_an_export_that_is_interrupted_leaves_no_file(gnomon: Gnomon) -> None:
    work_on(url_of(gnomon), fill_many)
    process = gnomon.start("db", "export", "sqlite:///a.db", "out")
    _wait_for(lambda: any(path.stat().st_size for path in gnomon.folder.glob(".out.*")))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PROMPTLY_S)
    assert process.returncode == 130
    assert list(gnomon.folder.glob("*out*")) == []


@pytest.mark.parametrize("place", ["-", "pipe"])
def test_ctrl_c_is_heard_while_nobody_writes_to_the_pipe(gnomon: Gnomon, place: str) -> None:
    os.mkfifo(gnomon.folder / "pipe")
    process = subprocess.Popen(
        [*GNOMON, "db", "import", place, "sqlite:///b.db"],
        cwd=gnomon.folder,
        env=gnomon.env,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        with process.stdin if place == "-" else (gnomon.folder / "pipe").open("wb"):
            assert b"waiting for" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PROMPTLY_S) == 130
        assert process.stderr.read() == b"gnomon: interrupted\n"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stderr.close()


def test_ctrl_c_is_heard_while_nobody_reads_the_pipe(gnomon: Gnomon) -> None:
    work_on(url_of(gnomon), fill_many)
    process = gnomon.start("db", "export", "sqlite:///a.db", "-")
    assert process.stdout is not None
    process.stdout.read(1)
    time.sleep(1)  # the pipe is full by now
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(timeout=PROMPTLY_S) == 130
    finally:
        process.kill()
        process.communicate()


def test_a_reader_that_leaves_is_no_failure(gnomon: Gnomon, filled: str) -> None:
    process = gnomon.start("db", "export", filled, "-", "-q")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=PROMPTLY_S) == 0
    process.stderr.close()


# --- what is shown on the way -------------------------------------------------------


def _half_sent(gnomon: Gnomon, filled: str, *options: str) -> subprocess.Popen[bytes]:
    """An import that has got most of an archive, and waits for the rest."""
    whole = gnomon("db", "export", filled, "-", "-q").stdout
    process = subprocess.Popen(
        [*GNOMON, "db", "import", "-", "sqlite:///b.db", *options],
        cwd=gnomon.folder,
        env=gnomon.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(whole[: len(whole) * 9 // 10])
    process.stdin.flush()
    return process


def _ended(process: subprocess.Popen[bytes]) -> list[str]:
    """What stood on stderr when nothing more came."""
    _, error = process.communicate(timeout=PROMPTLY_S)
    assert process.returncode == 2
    return error.decode().splitlines()


def test_what_takes_more_than_a_second_says_how_far_it_is(gnomon: Gnomon, filled: str) -> None:
    process = _half_sent(gnomon, filled)
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    while line.startswith("gnomon: waiting for"):  # a slow machine has not come so far yet
        line = process.stderr.readline().decode()
    assert line.startswith("gnomon: importing: ")
    assert line.endswith(" so far\n")
    assert "session" in line
    (*_, last) = _ended(process)
    assert last.startswith("gnomon: error: ")


def test_quiet_says_nothing_but_the_error(gnomon: Gnomon, filled: str) -> None:
    process = _half_sent(gnomon, filled, "--quiet")
    _wait_for(lambda: _rows(gnomon.folder / "b.db", "sessions") > 0)
    time.sleep(1.5)
    (only,) = _ended(process)
    assert "cut off" in only or "without its last line" in only


def test_what_is_quick_says_nothing_on_the_way(gnomon: Gnomon, filled: str) -> None:
    assert gnomon("db", "verify", filled, "--tenant", stored.TENANTS[0]).stderr == b""


def test_at_a_terminal_one_line_moves(gnomon: Gnomon, filled: str) -> None:
    whole = gnomon("db", "export", filled, "-", "-q").stdout
    fifo = gnomon.folder / "fifo"
    os.mkfifo(fifo)

    def feed() -> None:
        with fifo.open("wb") as file:
            file.write(whole[: len(whole) * 9 // 10])
            file.flush()
            time.sleep(2.5)
            file.write(whole[len(whole) * 9 // 10 :])

    feeding = threading.Thread(target=feed)
    feeding.start()
    code, seen = in_terminal(gnomon, "db", "import", "fifo", "sqlite:///b.db")
    feeding.join()
    assert code == 0, seen
    assert "importing: " in seen
    assert "imported 10 sessions" in seen.rstrip().splitlines()[-1]


# --- verify -------------------------------------------------------------------------


def test_a_sound_store_is_said_to_be_sound(gnomon: Gnomon, filled: str) -> None:
    assert lines_of(gnomon("db", "verify", filled)) == [
        "10 sessions with 938 events of 2 tenants: nothing is wrong"
    ]


def test_damage_exits_1_and_is_named(gnomon: Gnomon, filled: str) -> None:
    with closing(sqlite3.connect(gnomon.folder / "a.db")) as connection, connection:
        connection.execute("DELETE FROM blobs WHERE tenant = 'default'")
        connection.execute("DELETE FROM audit WHERE tenant = 'default' AND session_part = ''")
    done = gnomon("db", "verify", filled)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 1
    assert lines[-1] == "10 sessions with 938 events of 2 tenants: 4 things are wrong"
    assert lines[0].startswith("tenant 'default', session 'blobs': event 2 names blob ")
    assert lines[-2] == "tenant 'default', no session: audit row 1 was removed"
    found = told(gnomon("db", "verify", filled, "--json"))
    assert {finding["flaw"] for finding in found["found"]} == {"missing_blob", "audit"}
    assert told(gnomon("db", "verify", filled, "--json", "--tenant", stored.TENANTS[1]))["found"] == []


# --- prune and delete ---------------------------------------------------------------


def test_what_is_old_is_pruned_by_kind(gnomon: Gnomon, filled: str) -> None:
    done = gnomon("db", "prune", filled, "--older-than", "0d", "--kind", "memory,traces")
    assert lines_of(done) == ["memory: 10 removed", "traces: 14 removed"]
    kept = gnomon("db", "prune", filled, "--older-than", "5000w", "--kind", "sessions")
    assert lines_of(kept) == ["sessions: 0 removed"]
    one = gnomon("db", "prune", filled, "--older-than", "0d", "--kind", "sessions", "--tenant", "default")
    assert lines_of(one) == ["sessions: 5 removed"]
    blobs = gnomon("db", "prune", filled, "--blobs", "--grace", "0s", "--nobody-writes")
    assert lines_of(blobs) == ["blobs: 2 removed, 2 are named by events"]


def test_a_tenant_that_is_not_there_is_an_error_and_not_an_empty_backup(gnomon: Gnomon, filled: str) -> None:
    typed = [
        ["verify", filled],
        ["export", filled, "out"],
        ["copy", filled, "sqlite:///b.db"],
        ["prune", filled, "--kind", "traces", "--older-than", "1d"],
    ]
    for words in typed:
        failed_in_one_line(gnomon("db", *words, "--tenant", "nobody"), 2, "there is no tenant 'nobody'")
    assert [path.name for path in gnomon.folder.glob("*") if path.name in ("out", "b.db")] == []


def test_an_age_that_has_no_date_is_refused(gnomon: Gnomon, filled: str) -> None:
    done = gnomon("db", "prune", filled, "--kind", "traces", "--older-than", "999999w")
    failed_in_one_line(done, 2, "'999999w' is more than 100,000 days")
    failed_in_one_line(
        gnomon("db", "prune", filled, "--kind", ",", "--older-than", "1d"), 2, "nothing to prune"
    )
    failed_in_one_line(gnomon("db", "prune", filled, "--blobs", "--older-than", "1d"), 2, "by its age")


def test_a_prune_that_is_not_said_in_full_is_refused(gnomon: Gnomon, filled: str) -> None:
    failed_in_one_line(gnomon("db", "prune", filled), 2, "nothing to prune", "--kind", "--blobs")
    failed_in_one_line(gnomon("db", "prune", filled, "--kind", "traces"), 2, "how old", "--older-than")
    failed_in_one_line(
        gnomon("db", "prune", filled, "--kind", "traces", "--older-than", "30"), 2, "'30' is no age"
    )
    failed_in_one_line(
        gnomon("db", "prune", filled, "--kind", "trace", "--older-than", "30d"), 2, "no kind 'trace'"
    )
    failed_in_one_line(gnomon("db", "prune", filled, "--blobs", "--grace", "5m"), 2, "less than an hour")


def test_nothing_is_deleted_without_a_yes(gnomon: Gnomon, filled: str) -> None:
    failed_in_one_line(gnomon("db", "delete", filled, "--session", "blobs"), 2, "--yes")
    failed_in_one_line(gnomon("db", "delete", filled, "--session", "blobs", stdin=b"y\n"), 2, "--yes")
    failed_in_one_line(gnomon("db", "delete", filled, "--yes"), 2, "--session ID, or --user ID")
    both = ("--session", "a", "--user", "b")
    failed_in_one_line(gnomon("db", "delete", filled, *both, "--yes"), 2, "--user ID")
    assert _rows(gnomon.folder / "a.db", "sessions") == 10


def test_a_session_and_a_user_are_deleted(gnomon: Gnomon, filled: str) -> None:
    gone = gnomon("db", "delete", filled, "--session", "blobs", "--yes")
    assert lines_of(gone) == ["deleted session 'blobs' of tenant 'default'"]
    failed_in_one_line(gnomon("db", "delete", filled, "--session", "blobs", "--yes"), 1, "no session 'blobs'")
    user = gnomon("db", "delete", filled, "--user", "user 1", "--tenant", stored.TENANTS[1], "--yes")
    assert lines_of(user) == [f"deleted everything of user 'user 1' of tenant {stored.TENANTS[1]!r}"]
    failed_in_one_line(gnomon("db", "delete", filled, "--user", "user 1", "--yes"), 1, "nothing of user")
    assert _rows(gnomon.folder / "a.db", "sessions") == 5


def test_a_session_that_runs_is_not_deleted(gnomon: Gnomon) -> None:
    work_on(url_of(gnomon), lambda store: store.create_session(session("s", status="running")))
    failed_in_one_line(
        gnomon("db", "delete", "sqlite:///a.db", "--session", "s", "--yes"), 1, "session 's' is running"
    )


@pytest.mark.parametrize(
    ("answer", "code", "left"), [(b"y\n", 0, 9), (b"n\n", 2, 10), (b"\n", 2, 10), (b"\x03", 130, 10)]
)
def test_at_a_terminal_one_is_asked(gnomon: Gnomon, filled: str, answer: bytes, code: int, left: int) -> None:
    found, seen = answered(gnomon, answer, "db", "delete", filled, "--session", "blobs")
    assert "Delete session 'blobs' of tenant 'default'? It cannot be undone [y/N]:" in seen
    assert found == code, seen
    assert "Traceback" not in seen
    assert _rows(gnomon.folder / "a.db", "sessions") == left


def answered(gnomon: Gnomon, answer: bytes, *arguments: str) -> tuple[int, str]:
    """What a person sees who types this when asked."""
    process_id, main = pty.fork()
    if process_id == 0:  # the child, whose terminal it is
        os.chdir(gnomon.folder)
        os.execve(sys.executable, [*GNOMON, *arguments], gnomon.env | {"TERM": "xterm"})
    seen = b""
    deadline = time.monotonic() + PROMPTLY_S
    while select.select([main], [], [], max(0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
        if b"[y/N]" in seen and answer:
            time.sleep(0.5)  # the question is written before Python waits for the answer
            os.write(main, answer)
            answer = b""
    os.close(main)
    _, status = os.waitpid(process_id, 0)
    return os.waitstatus_to_exitcode(status), seen.decode()
