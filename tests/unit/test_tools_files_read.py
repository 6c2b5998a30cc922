"""`read_file` and `list_dir`: what a model is shown of files and folders."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from gnomon.contracts.tool import ToolContext
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.tools.workspace import Workspace
from gnomon.types.messages import ToolResult

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")


async def called(root: Path, name: str, **arguments: object) -> ToolResult:
    tool = Workspace(root).tool(name)
    return await tool.execute(msgspec.json.encode(arguments).decode(), ToolContext(call_id="call_1"))


async def read(root: Path, path: str, **arguments: object) -> str:
    return (await called(root, "read_file", path=path, **arguments)).text


async def listed(root: Path, path: str = ".") -> str:
    return (await called(root, "list_dir", path=path)).text


# --- lines ----------------------------------------------------------------------


async def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  three\nfour")
    assert await read(tmp_path, "a.txt") == "1\tone\n2\t\n3\t  three\n4\tfour"
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert await read(tmp_path, "a.txt") == "1\tone\n2\ttwo"


async def test_a_part_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert (
        await read(tmp_path, "a.txt", limit=2)
        == "1\tline 1\n2\tline 2\n[lines 1 to 2 of 10: go on with offset=3]"
    )
    assert (await read(tmp_path, "a.txt", offset=3, limit=1)).endswith(
        "[lines 3 to 3 of 10: go on with offset=4]"
    )
    assert await read(tmp_path, "a.txt", offset=9, limit=5) == "9\tline 9\n10\tline 10"
    assert await read(tmp_path, "a.txt", offset=10, limit=1) == "10\tline 10"


@pytest.mark.parametrize(("text", "count"), [("a\nb\n", 2), ("a\nb", 2), ("a", 1), ("\n", 1), ("\n\n", 2)])
async def test_an_offset_past_the_end_is_told_how_many_lines_there_are(
    text: str, count: int, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(text)
    await read(tmp_path, "a.txt", offset=count)
    with pytest.raises(InvalidArguments, match=rf"has {count} lines?, and none at {count + 1}$"):
        await read(tmp_path, "a.txt", offset=count + 1)


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert await read(tmp_path, "a.txt") == "'a.txt' is empty: it has no lines."


@pytest.mark.parametrize("given", [{"offset": 0}, {"offset": -1}, {"limit": 0}])
async def test_counting_begins_at_one(given: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidArguments, match=rf"{next(iter(given))}: it is at least 1"):
        await read(tmp_path, "a.txt", **given)


async def test_every_part_of_a_file_is_reached_by_going_on(tmp_path: Path) -> None:
    """Also where a line is longer than a part, and where pieces of the file end within a line."""
    lines = [f"{n} " + "x" * (n * 37 % 1500) for n in range(3000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        shown = (await read(tmp_path, "a.txt", offset=len(seen) + 1)).split("\n")
        seen += [line.partition("\t")[2] for line in shown if not line.startswith("[")]
        assert sum(map(len, shown)) < 60_000
    assert seen == lines


async def test_a_long_line_is_cut_and_says_by_how_much(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 3_000_000 + "\nshort\n")
    first, second = (await read(tmp_path, "a.txt")).split("\n")
    assert first == "1\t" + "a" * 2000 + "… [2,998,000 more characters in this line]"
    assert second == "2\tshort"


# --- charsets ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("é ü ł 漢\n".encode(), "1\té ü ł 漢"),
        (b"\xef\xbb\xbfmarked\n", "1\tmarked"),
        ("é 漢\n".encode("utf-16"), "1\té 漢\n[its charset is taken for UTF-16]"),
        (b"\xfe\xff" + "é\nb".encode("utf-16-be"), "1\té\n2\tb\n[its charset is taken for UTF-16]"),
        (b"\xff\xfe\0\0" + "é".encode("utf-32-le"), "1\té\n[its charset is taken for UTF-32]"),
        ("naïve – “so”\n".encode("cp1252"), "1\tnaïve – “so”\n[its charset is taken for Windows-1252]"),
        (b"caf\xe9 \x81\n", "1\tcafé \x81\n[its charset is taken for Latin-1]"),
        (b"one\r\ntwo\r\n", "1\tone\n2\ttwo\n[its lines end with CRLF]"),
    ],
)
async def test_text_is_read_in_its_charset(data: bytes, shown: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert await read(tmp_path, "a.txt") == shown


async def test_letters_on_the_border_of_two_pieces_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(["漢字" * 100] * 4000))
    assert await read(tmp_path, "a.txt", offset=4000) == "4000\t" + "漢字" * 100


async def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    for data, told in {
        b"\x7fELF\0\0\0": "7 bytes of something else$",
        b"%PDF-1.7\0\n": r"something else \(application/pdf\)",
        bytes(range(1, 255)) * 8: "2,032 bytes",
    }.items():
        (tmp_path / "a.bin").write_bytes(data)
        with pytest.raises(ToolFailed, match=f"'a.bin' is no text: .*{told}"):
            await read(tmp_path, "a.bin")


PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x10\0\0\0WEBP",
}


@pytest.mark.parametrize("kind", PICTURES)
async def test_a_picture_is_shown(kind: str, tmp_path: Path) -> None:
    data = PICTURES[kind] + b"\0" * 500
    (tmp_path / "without_a_suffix").write_bytes(data)
    result = await called(tmp_path, "read_file", path="without_a_suffix")
    assert [(image.data, image.media_type) for image in result.images] == [(data, kind)]
    assert f"({kind}) of {len(data)} bytes" in result.text


async def test_a_picture_that_is_too_large_is_told_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PICTURES["image/png"] + b"\0" * 5_000_000)
    with pytest.raises(ToolFailed, match="5,000,008 bytes; up to 5,000,000"):
        await read(tmp_path, "a.png")


# --- large files --------------------------------------------------------------------

READ_THE_END = """
import asyncio, sys
from gnomon.contracts.tool import ToolContext
from gnomon.tools.workspace import Workspace

def peak():  # what getrusage says begins with what the parent had
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))

async def main():
    tool = Workspace(sys.argv[1]).tool("read_file")
    await tool.execute('{"path": "small.txt"}', ToolContext(call_id="call_1"))
    before = peak()
    for arguments in sys.argv[2:]:
        print((await tool.execute(arguments, ToolContext(call_id="call_1"))).text[:200])
    print(peak() - before)

asyncio.run(main())
"""


def test_a_gigabyte_is_not_held_in_memory(tmp_path: Path) -> None:
    """Lines at its end, and one that is all of it."""
    (tmp_path / "small.txt").write_text("small\n")
    with (tmp_path / "large.txt").open("wb") as file:
        file.write(b"text\n" * 20_000)
        file.truncate(1 << 30)  # a hole, which costs no disk: one long line
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    started = time.monotonic()
    asked = ['{"path": "large.txt", "offset": 20002}', '{"path": "large.txt", "offset": 20001, "limit": 1}']
    command = [sys.executable, "-c", READ_THE_END, str(tmp_path), *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    end, long, grown = done.stdout.splitlines()
    assert end == "20002\tthe end"
    assert long.startswith("20001\t\0\0\0")
    assert int(grown) < 40_000  # in kilobytes
    assert time.monotonic() - started < 30


async def test_a_file_that_takes_hours_is_let_go_of_when_nobody_waits_any_more(tmp_path: Path) -> None:
    (tmp_path / "endless.txt").write_text("text\n" * 20_000)
    os.truncate(tmp_path / "endless.txt", 1 << 42)
    started = time.monotonic()
    context = ToolContext(call_id="call_1", is_cancelled=lambda: time.monotonic() > started + 0.2)
    arguments = '{"path": "endless.txt", "offset": 1000000}'
    with pytest.raises(InvalidArguments):
        await Workspace(tmp_path).tool("read_file").execute(arguments, context)
    assert time.monotonic() - started < 20


# --- what is no file ----------------------------------------------------------------


async def test_what_is_not_there_is_told_with_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "parser.py").touch()
    with pytest.raises(ToolFailed, match=r"there is no 'src/parsr.py'. There is 'src/parser.py'$"):
        await read(tmp_path, "src/parsr.py")
    with pytest.raises(ToolFailed, match=r"there is no 'scr/deep/a.py'. There is 'src'$"):
        await read(tmp_path, "scr/deep/a.py")
    with pytest.raises(ToolFailed, match=r"there is no 'zzz'$"):
        await read(tmp_path, "zzz")


async def test_a_folder_is_read_by_another_tool_and_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").touch()
    with pytest.raises(ToolFailed, match="'src' is a folder: list_dir shows"):
        await read(tmp_path, "src")
    with pytest.raises(ToolFailed, match=r"'a.txt' is a file: read_file shows"):
        await listed(tmp_path, "a.txt")


# --- folders ------------------------------------------------------------------------


async def test_a_folder_is_listed_by_name(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "b.txt").write_text("x" * 1234)
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    assert (await listed(tmp_path)).split("\n") == [
        ".env  5 bytes",
        "b.txt  1,234 bytes",
        "out -> /etc/passwd",
        "pipe  (no regular file)",
        "src/",
    ]
    assert await listed(tmp_path, "src") == "'src' is empty."


async def test_a_large_folder_is_cut(tmp_path: Path) -> None:
    for number in range(620):
        (tmp_path / f"{number:03}").touch()
    lines = (await listed(tmp_path)).split("\n")
    assert lines[:2] == ["000  0 bytes", "001  0 bytes"]
    assert lines[499:] == ["499  0 bytes", "[and 120 more: glob finds those of some name]"]


async def test_a_name_cannot_look_like_two_lines(tmp_path: Path) -> None:
    (tmp_path / "a\nb  5 bytes").touch()
    with (tmp_path / os.fsdecode(b"caf\xe9")).open("w"):
        pass
    assert await listed(tmp_path) == "a\\nb  5 bytes  0 bytes\ncaf\\udce9  0 bytes"


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
async def test_every_call_lets_go_of_what_it_opened(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    async with Workspace(tmp_path) as workspace:
        for path in ("a.txt", "none", "../x", "."):
            for name in ("read_file", "list_dir"):
                for _ in range(20):
                    with suppress(ToolFailed, InvalidArguments):
                        await workspace.tool(name).execute(f'{{"path": "{path}"}}', ToolContext(call_id="c"))
    assert len(os.listdir("/proc/self/fd")) <= before
