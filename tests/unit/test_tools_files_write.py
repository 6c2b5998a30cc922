"""`write_file`: a file is made or replaced, whole or not at all, and what it was is told."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gnomon import Agent, TurnUnfinished
from gnomon.contracts.tool import ToolContext
from gnomon.engine.permissions import Rule
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.tools._file_change import LARGEST, FileChange
from gnomon.tools.function import TouchingTool
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")

is_root = os.geteuid() == 0


async def write(root: Path, path: str, content: str) -> str:
    arguments = msgspec.json.encode({"path": path, "content": content}).decode()
    tool = Workspace(root).tool("write_file")
    return (await tool.execute(arguments, ToolContext(call_id="call_1"))).text


def listed(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


# --- made and replaced ------------------------------------------------------------


async def test_a_file_is_made_and_its_folders_too(tmp_path: Path) -> None:
    assert await write(tmp_path, "src/deep/a.py", "one\ntwo") == "'src/deep/a.py' was made: 2 lines, 7 bytes."
    assert (tmp_path / "src/deep/a.py").read_bytes() == b"one\ntwo"
    assert await write(tmp_path, "empty", "") == "'empty' was made: 0 lines, 0 bytes."
    assert await write(tmp_path, "é.txt", "é\n") == "'é.txt' was made: 1 line, 3 bytes."
    assert listed(tmp_path) == ["empty", "src", "src/deep", "src/deep/a.py", "é.txt"]


async def test_a_file_that_was_there_is_replaced_and_the_difference_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    content = "".join(f"line {n}\n" for n in range(1, 21) if n != 18).replace("line 5\n", "LINE 5\n")
    assert await write(tmp_path, "a.py", content) == (
        "'a.py' was replaced: 19 lines, 143 bytes; it had 20 lines, 151 bytes.\n"
        "@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+LINE 5\n line 6\n line 7\n line 8\n"
        "@@ -15,6 +15,5 @@\n line 15\n line 16\n line 17\n-line 18\n line 19\n line 20"
    )
    assert (tmp_path / "a.py").read_text() == content


async def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    """A call that was lost in a crash may run again, and who watches the file is not told of a change."""
    await write(tmp_path, "a.txt", "one\n")
    before = (tmp_path / "a.txt").stat()
    again = await write(tmp_path, "a.txt", "one\n")
    assert again == "'a.txt' held exactly this already: 1 line, 4 bytes. Nothing was written."
    after = (tmp_path / "a.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_a_file_is_written_through_a_link_that_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old\n")
    (tmp_path / "link").symlink_to("real.txt")
    (tmp_path / "later").symlink_to("made/new.txt")
    await write(tmp_path, "link", "new\n")
    await write(tmp_path, "later", "new\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real.txt").read_text() == (tmp_path / "made/new.txt").read_text() == "new\n"


async def test_the_mode_is_kept(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o750)
    await write(tmp_path, "run.sh", "#!/bin/bash\n")
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o750


# --- charsets and line ends ----------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "content", "after", "told"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n", "[its lines end with CRLF, as they did]"),
        (b"a\r\nb\r\n", "a\r\nc\n", b"a\r\nc\n", ""),
        (b"a\r\nb\n", "a\nc\n", b"a\nc\n", ""),
        (b"a\nb\n", "a\r\nc\r\n", b"a\r\nc\r\n", ""),
        (b"\xef\xbb\xbfold\n", "new\n", b"\xef\xbb\xbfnew\n", ""),
        (b"\xef\xbb\xbfold\n", "\ufeffnew\n", b"\xef\xbb\xbfnew\n", ""),
        (b"old\n", "\ufeffnew\n", b"\xef\xbb\xbfnew\n", ""),
        ("é\n".encode("utf-16"), "漢\n", "漢\n".encode("utf-16"), "[its charset is UTF-16, as it was]"),
        (
            b"\xfe\xff" + "a\r\n".encode("utf-16-be"),
            "b\n",
            b"\xfe\xff" + "b\r\n".encode("utf-16-be"),
            "[its charset is UTF-16, as it was]\n[its lines end with CRLF, as they did]",
        ),
        ("é –\n".encode("cp1252"), "à\n", b"\xe0\n", "[its charset is Windows-1252, as it was]"),
        (
            "é –\n".encode("cp1252"),
            "漢 à\n",
            "漢 à\n".encode(),
            "[it was in Windows-1252, which has no '漢': now it is in UTF-8]",
        ),
        (b"\x7fELF\0\0", "é\n", "é\n".encode(), ""),
    ],
)
async def test_charset_mark_and_line_ends_of_a_file_stay(
    before: bytes, content: str, after: bytes, told: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(before)
    said = await write(tmp_path, "a.txt", content)
    assert (tmp_path / "a.txt").read_bytes() == after
    assert "\n".join(line for line in said.split("\n") if line.startswith("[")) == told


async def test_what_was_no_text_is_told_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2" * 100)
    assert await write(tmp_path, "a.bin", "text\n") == (
        "'a.bin' was replaced: 1 line, 5 bytes; it had 300 bytes that were no text."
    )


async def test_bytes_that_are_no_text_are_shown_as_something_that_can_be_sent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 70_000 + b"\n\xff\xfe\nend\n")
    said = await write(tmp_path, "a.txt", "new\n")
    assert "-\ufffd\ufffd\n-end\n+new" in said
    said.encode()


# --- how much is shown ---------------------------------------------------------------


async def test_a_difference_is_short_however_much_was_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"old {n}\n" for n in range(5_000)))
    said = await write(tmp_path, "a.txt", "".join(f"new {n}\n" for n in range(4_000)))
    assert "@@ -1,5000 +1,4000 @@\n-old 0\n" in said
    assert "\n-old 54\n[4,940 more lines with -]\n-old 4995\n" in said
    assert said.endswith(
        "\n+new 54\n[3,940 more lines with +]\n+new 3995\n+new 3996\n+new 3997\n+new 3998\n+new 3999"
    )
    (tmp_path / "b.txt").write_text("".join(f"{n}{'a' * 500}\n" for n in range(200)))
    said = await write(tmp_path, "b.txt", "".join(f"{n}{'b' * 500}\n" for n in range(200)))
    assert said.endswith("\n[the rest of the difference is not shown]")
    assert len(said) < 13_000


async def test_a_long_line_is_shown_where_it_differs(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("x" * 5_000 + " old " + "y" * 5_000)
    said = await write(tmp_path, "a.js", "x" * 5_000 + " new " + "y" * 5_000)
    assert "\n-…xxx" in said
    assert "x old y" in said
    assert "x new y" in said
    assert len(said) < 1_000


async def test_a_file_that_is_too_large_to_be_compared_is_replaced_all_the_same(tmp_path: Path) -> None:
    with (tmp_path / "large.txt").open("wb") as file:
        file.write(b"\xef\xbb\xbf" + b"text\r\n" * 20_000)
        file.truncate(LARGEST + 1)  # a hole, which costs no disk
    assert await write(tmp_path, "large.txt", "small\n") == (
        f"'large.txt' was replaced: 1 line, 10 bytes; it had {LARGEST + 1:,} bytes.\n"
        "[its lines end with CRLF, as they did]"
    )
    assert (tmp_path / "large.txt").read_bytes() == b"\xef\xbb\xbfsmall\r\n"


# --- what cannot be written ------------------------------------------------------------


async def test_what_cannot_be_written_is_told_and_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    for path, why in {
        "folder": "'folder' is a folder: name a file in it",
        ".": "'.' is a folder: name a file in it",
        "file/new": "'file/new' cannot be used: not a directory. Nothing was written",
    }.items():
        with pytest.raises(ToolFailed, match=why):
            await write(tmp_path, path, "new")
    for path in ("folder/", "new/", "new/."):
        with pytest.raises(InvalidArguments, match=r"path: .* is the name of a folder"):
            await write(tmp_path, path, "new")
    assert listed(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "old"


def test_content_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    tool = Workspace(tmp_path).tool("write_file")
    assert isinstance(tool, TouchingTool)
    with pytest.raises(InvalidArguments, match=r"content: line 2 has half a character in it \('\\ud800'\)"):
        tool("a.txt", "one\ntwo \ud800\n", ctx=ToolContext(call_id="call_1"))
    with pytest.raises(
        InvalidArguments, match=r"content: it has 16,777,217 characters, and up to 16,777,216"
    ):
        tool("a.txt", "x" * (LARGEST + 1), ctx=ToolContext(call_id="call_1"))
    with pytest.raises(ToolFailed, match=r"it would have 33,554,432 bytes, and up to 16,777,216 are written"):
        tool("a.txt", "é" * LARGEST, ctx=ToolContext(call_id="call_1"))
    assert listed(tmp_path) == []


@pytest.mark.skipif(is_root, reason="root may write to every file")
async def test_what_is_write_protected_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "a.txt").chmod(0o444)
    with pytest.raises(ToolFailed, match=r"it is write-protected\. Nothing was written"):
        await write(tmp_path, "a.txt", "new")
    (tmp_path / "b.txt").write_text("old")
    (tmp_path / "b.txt").chmod(0o200)
    with pytest.raises(ToolFailed, match=r"'b.txt' cannot be opened: permission denied"):
        await write(tmp_path, "b.txt", "new")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(0o555)
    with pytest.raises(ToolFailed, match=r"permission denied\. Nothing was written"):
        await write(tmp_path, "folder/new.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize("change", ["changed", "removed", "made"])
async def test_what_somebody_else_did_meanwhile_is_not_lost(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moment when the file was read and the one when it is written."""
    path = tmp_path / "a.txt"
    if change != "made":
        path.write_text("old\n")
    put = FileChange.put

    def late(file: FileChange, data: bytes) -> None:
        path.unlink() if change == "removed" else path.write_text("theirs\n")
        put(file, data)

    monkeypatch.setattr(FileChange, "put", late)
    with pytest.raises(
        ToolFailed, match=f"'a.txt' cannot be used: it was {change} meanwhile. Nothing was written"
    ):
        await write(tmp_path, "a.txt", "mine\n")
    assert listed(tmp_path) == ([] if change == "removed" else ["a.txt"])
    assert change == "removed" or path.read_text() == "theirs\n"


async def test_a_call_that_nobody_waits_for_any_more_writes_nothing(tmp_path: Path) -> None:
    tool = Workspace(tmp_path).tool("write_file")
    over = ToolContext(call_id="call_1", is_cancelled=lambda: True)
    with pytest.raises(ToolFailed, match="nobody waits for it any more"):
        await tool.execute('{"path": "a.txt", "content": "late"}', over)
    assert listed(tmp_path) == []


# --- whole or not at all -----------------------------------------------------------------

CALLED = """
import asyncio, os, resource, signal, sys
from gnomon import _beneath as b
from gnomon.contracts.tool import ToolContext
from gnomon.errors import ToolFailed
from gnomon.tools.workspace import Workspace

def die(): os.kill(os.getpid(), signal.SIGKILL)

root, name, arguments, before = sys.argv[1:]
tool = Workspace(root).tool(name)
exec(before)
try:
    print(asyncio.run(tool.execute(arguments, ToolContext(call_id="call_1"))).text)
except ToolFailed as error:
    print(error)
"""
CALLS = {
    "write_file": {"path": "a.txt", "content": "n" * 100_000},
    "edit_file": {"path": "a.txt", "old": "line 7\n", "new": "n" * 100_000 + "\n"},
}
OLD = "".join(f"line {n}\n" for n in range(1, 11))
NEW = {"write_file": "n" * 100_000, "edit_file": OLD.replace("line 7", "n" * 100_000)}


def called(root: Path, name: str, before: str) -> list[str]:
    """The command that makes the call in a process of its own."""
    return [sys.executable, "-c", CALLED, str(root), name, msgspec.json.encode(CALLS[name]).decode(), before]


# What is killed on its way: half of the draft is written, all of it is, and it is in its place.
POINTS = {
    "half written": "def half(file, data): os.write(file, data[: len(data) // 2]); die()\nb._write = half",
    "before it takes its place": "os.replace = lambda *_, **__: die()",
    "after that": "put = os.replace\ndef after(*a, **k): put(*a, **k); die()\nos.replace = after",
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("point", POINTS)
async def test_a_call_that_is_killed_leaves_the_old_file_or_the_new_one(
    point: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(OLD)
    done = subprocess.run(called(tmp_path, name, POINTS[point]), timeout=60, check=False)  # noqa: ASYNC221
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "a.txt").read_text() == (NEW[name] if point.startswith("after") else OLD)
    listing = await Workspace(tmp_path).tool("list_dir").execute("{}", ToolContext(call_id="call_1"))
    assert len(listing.text.splitlines()) == 1  # and a draft that is left is not shown


@pytest.mark.parametrize("name", CALLS)
def test_a_file_that_may_not_grow_so_large_stays_as_it_was(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(OLD)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))"
    command = called(tmp_path, name, limit)
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert done.stdout == "'a.txt' cannot be used: file too large. Nothing was written\n", done.stderr
    assert (tmp_path / "a.txt").read_text() == OLD
    assert listed(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, of util-linux")
def test_on_a_full_disk_the_file_stays_as_it_was(name: str, tmp_path: Path) -> None:
    script = (
        'cd "$0" && mount -t tmpfs -o size=64k none . && cd "$0" && printf %s "$1" > a.txt && shift && "$@"'
    )
    script += " && cat a.txt && ls -A"
    command = ["unshare", "-Urm", "sh", "-c", script, str(tmp_path), OLD, *called(tmp_path, name, "")]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    said = "'a.txt' cannot be used: no space left on device. Nothing was written\n"
    assert done.stdout == f"{said}{OLD}a.txt\n", done.stderr


async def test_what_was_told_to_be_written_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation says that it was, and outlives a loss of power as well."""
    kept: list[int] = []
    fsync = os.fsync

    def keep(file: int) -> None:
        kept.append(stat.S_IFMT(os.fstat(file).st_mode))
        fsync(file)

    monkeypatch.setattr(os, "fsync", keep)
    await write(tmp_path, "a.txt", "new")
    assert kept == [stat.S_IFREG, stat.S_IFDIR]


# --- through the front door ------------------------------------------------------------


async def test_with_accept_edits_an_edit_runs_and_a_write_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("helo\n")
    model = ScriptedProvider(
        [
            calls("edit_file", path="a.txt", old="helo", new="hello"),
            calls("write_file", path="a.txt", content="bye\n").expecting(result="+hello"),
            says("Done.").expecting(result="was replaced"),
        ]
    )
    async with Agent(
        model,
        tools=["edit_file", "write_file"],
        workspace=tmp_path,
        permissions="accept_edits",
        storage=f"sqlite:///{tmp_path}/store.db",
    ) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("Go.")
        assert (tmp_path / "a.txt").read_text() == "hello\n"
        (asked,) = await session.approvals()
        assert asked.call.name == "write_file"
        await session.approve(asked.approval_id, by="ada", arguments_hash=asked.arguments_hash)
        assert (await session.turn_result()).text == "Done."
    assert (tmp_path / "a.txt").read_text() == "bye\n"
    model.assert_finished()


async def test_what_becomes_of_a_call_whose_outcome_is_lost(tmp_path: Path) -> None:
    """A write may run again: what it says is there then. An edit may not, and the model can look."""
    write, edit = Workspace(tmp_path).tools("write_file", "edit_file")
    assert isinstance(write, TouchingTool)
    assert isinstance(edit, TouchingTool)
    assert (write.idempotent, write.destructive) == (True, True)
    assert (edit.idempotent, edit.destructive, edit.on_unknown) == (False, False, "tell")


async def test_a_rule_about_what_is_written_holds_whatever_the_path_is_called(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a.txt").write_text("old\n")
    (tmp_path / "link").symlink_to("kept")
    model = ScriptedProvider(
        [
            calls("write_file", path="link/a.txt", content="new\n"),
            calls("edit_file", path="./link/../kept/a.txt", old="old", new="new").expecting(result="denied"),
            says("Done.").expecting(result="denied"),
        ]
    )
    rules = ['deny *(@writes="kept/**")']
    async with Agent(model, tools=["edit_file", "write_file"], workspace=tmp_path, rules=rules) as agent:
        await agent.run("Go.")
    assert (tmp_path / "kept" / "a.txt").read_text() == "old\n"
    model.assert_finished()


@pytest.mark.parametrize("name", CALLS)
def test_rules_about_files_are_compared_with_what_a_call_touches(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("kept")
    tool = Workspace(tmp_path).tool(name)
    assert isinstance(tool, TouchingTool)
    arguments = msgspec.json.encode({**CALLS[name], "path": "link/a.txt"}).decode()
    touches = tool.touches(arguments)

    def fits(rule: str) -> bool:
        return Rule.parse(rule).matches(name, arguments, tool.parameters, touches)

    assert fits('deny *(@writes="kept/**")')
    assert fits('deny *(@reads="kept/**")')
    assert fits('allow *(@paths="kept/*")')
    assert not fits('deny *(@writes="link/**")')
    assert not fits('allow *(@writes="other/**")')
