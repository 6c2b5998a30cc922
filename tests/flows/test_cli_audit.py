"""`gnomon audit`: the chain of a session, as people and as programs read it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from pathlib import Path
from typing import cast

import pytest
from command import Gnomon, failed_in_one_line

from gnomon.cli.audit_log import _faults
from gnomon.contracts.storage import Storage
from gnomon.errors import ConfigError
from gnomon.session._auditing import audited, refused
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import AuditLog, utc_now

SECRET = "sk-live-0123456789abcdef"


@pytest.fixture
def session_id(gnomon: Gnomon) -> str:
    done = gnomon("--output", "json", "what is 12*(3+4)?")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["session_id"]


def file_of(gnomon: Gnomon) -> Path:
    return Path(gnomon.env["HOME"]) / ".local" / "share" / "gnomon" / "gnomon.db"


def told_of(gnomon: Gnomon, session_id: str) -> None:
    """The rows that follow from what was run, and two more."""

    async def write() -> None:
        async with SQLiteStorage(f"sqlite:///{file_of(gnomon)}") as storage:
            assert await audited(storage, session_id)
            assert await refused(storage, session_id, "a1", "eve\x1b[31m", "too late", tool="send")
            row = AuditLog(
                id="x",
                session_id=session_id,
                actor="ann",
                action="note",
                detail={"n": 1, "text": f"password={SECRET}"},
                created_at=utc_now(),
            )
            await storage.append_audit_log(row)

    asyncio.run(write())


def forge(gnomon: Gnomon, sql: str) -> None:
    with sqlite3.connect(file_of(gnomon)) as file:
        assert file.execute(sql).rowcount == 1
    file.close()


def object_in(done: subprocess.CompletedProcess[bytes], code: int = 0) -> dict[str, object]:
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_the_rows_are_shown_a_line_each(gnomon: Gnomon, session_id: str) -> None:
    told_of(gnomon, session_id)
    done = gnomon("audit", session_id[:16])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    ran, late, note = (" ".join(line.split()) for line in lines)
    assert "tool.ran gnomon calculate" in ran
    assert "status=ok" in ran
    assert "arguments_hash=" in ran
    assert "since=" not in ran
    assert "approval.refused eve[31m send approval_id=a1 why=too late" in late
    assert "note ann n=1" in note
    assert SECRET not in note
    assert done.stderr == b""


def test_the_rows_are_one_object_for_programs(gnomon: Gnomon, session_id: str) -> None:
    told_of(gnomon, session_id)
    found = object_in(gnomon("audit", session_id, "--output", "json"))
    assert found["session_id"] == session_id
    assert found["faults"] is None
    assert [(row["seq"], row["action"]) for row in found["rows"]] == [
        (1, "tool.ran"),
        (2, "approval.refused"),
        (3, "note"),
    ]


def test_a_chain_that_holds_is_said_to(gnomon: Gnomon, session_id: str) -> None:
    told_of(gnomon, session_id)
    done = gnomon("audit", session_id, "--verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines()[-1] == "3 rows: the chain holds"
    assert object_in(gnomon("audit", session_id, "--verify", "--output", "json"))["faults"] == []


_LATE = "WHERE CAST(body AS TEXT) LIKE '%approval.refused%'"


@pytest.mark.parametrize(
    ("sql", "words", "reason"),
    [
        (
            f"UPDATE audit SET body = CAST(replace(CAST(body AS TEXT), 'late', 'soon') AS BLOB) {_LATE}",
            "row 2 was changed after it was written",
            "edited",
        ),
        (f"DELETE FROM audit {_LATE}", "row 2 is missing", "removed"),
    ],
    ids=["edited", "removed"],
)
def test_a_chain_that_was_tampered_with_is_a_failure(
    gnomon: Gnomon, session_id: str, sql: str, words: str, reason: str
) -> None:
    told_of(gnomon, session_id)
    forge(gnomon, sql)
    done = gnomon("audit", session_id, "--verify")
    assert done.returncode == 1
    assert words in done.stdout.decode().splitlines()
    assert done.stdout.decode().splitlines()[-1].endswith("the chain does not hold")
    found = object_in(gnomon("audit", session_id, "--verify", "--output", "json"), 1)
    assert reason in [fault["reason"] for fault in found["faults"]]
    assert gnomon("audit", session_id).returncode == 0  # nobody asked


def test_a_session_in_which_nothing_was_audited_says_so(gnomon: Gnomon) -> None:
    session_id = json.loads(gnomon("--output", "json", "hi").stdout)["session_id"]
    done = gnomon("audit", session_id)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"nothing in this session was audited" in done.stderr
    assert gnomon("audit", "-q", session_id).stderr == b""
    assert gnomon("audit", session_id, "--verify").stdout == b"0 rows: the chain holds\n"


def test_an_id_that_is_wrong_is_said(gnomon: Gnomon, session_id: str) -> None:
    failed_in_one_line(gnomon("audit", "nosuch"), 1, "no session 'nosuch'", "gnomon sessions")
    failed_in_one_line(gnomon("audit"), 2, "gnomon audit: missing argument 'ID'")


def test_before_anything_is_kept_there_is_no_session(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("audit", "ses_1"), 1, "no session 'ses_1'")
    assert not file_of(gnomon).exists()


def test_a_store_that_cannot_tell_is_said_to() -> None:
    with pytest.raises(ConfigError, match="cannot say whether its audit rows were changed"):
        asyncio.run(_faults(cast(Storage, object()), "s"))
