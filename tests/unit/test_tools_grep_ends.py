"""A search ends on time whatever is looked for, holds up nobody meanwhile, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import ToolFailed
from gnomon.tools import _line_search, _searching
from gnomon.tools import grep as grep_module
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

HOSTILE = "(a+)+$"
LINE = "a" * 5_000 + "b\n"
"""A line on which that takes longer than the world will last."""


def searches(parent: int | None = None) -> list[int]:
    """The processes that search, of this program or of another."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        with suppress(OSError, IndexError):
            status = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            line = Path("/proc", entry, "cmdline").read_bytes()
            if int(status[1]) == (parent or os.getpid()) and b"_line_search" in line:
                found.append(int(entry))
    return found


async def until(holds: Callable[[], object], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:  # noqa: ASYNC110 - it is about another process
        await asyncio.sleep(0.01)
    return bool(holds())


async def over(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def grep_of(root: Path) -> Tool:
    return Workspace(root).tool("grep")


async def call(tool: Tool, pattern: str, **more: object) -> str:
    arguments = msgspec.json.encode({"pattern": pattern, **more}).decode()
    return (await tool.execute(arguments, ToolContext(call_id="call_1"))).text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What is found at once, what is hostile, and what comes after it."""
    (tmp_path / "a.txt").write_text("some aaa\n")
    (tmp_path / "b.txt").write_text(LINE)
    (tmp_path / "c.txt").write_text("more aaa\n")
    return tmp_path


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(grep_module, "_TIME_S", 1.0)
    return 1.0


# --- on time ------------------------------------------------------------------------


async def test_a_hostile_expression_ends_on_time_while_others_go_on(root: Path, short: float) -> None:
    ticks, longest, last = 0, 0.0, time.monotonic()

    async def tick() -> None:
        nonlocal ticks, longest, last
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            ticks, longest, last = ticks + 1, max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    started = time.monotonic()
    with pytest.raises(ToolFailed) as caught:
        await call(grep_of(root), HOSTILE, path="b.txt")
    took = time.monotonic() - started
    await over(ticking)
    assert str(caught.value) == (
        "ended after 1 s at 'b.txt', where the expression takes too long. Repetition within repetition, as "
        "in (a+)+ or (a|b*)*, can take for ever: write it otherwise, or look for plain text with literal=true"
    )
    assert short <= took < short + 2
    assert ticks > 20
    assert longest < 0.8
    assert searches() == []


async def test_what_was_found_until_then_is_shown(root: Path, short: float) -> None:
    text = await call(grep_of(root), HOSTILE)
    assert text.startswith("a.txt\n1: some aaa\n[ended after 1 s at 'b.txt', where the expression")
    assert "c.txt" not in text


async def test_several_hostile_searches_at_once_end_on_time_too(root: Path, short: float) -> None:
    tool = grep_of(root)
    started = time.monotonic()
    await asyncio.gather(*(call(tool, HOSTILE) for _ in range(6)))
    assert time.monotonic() - started < short + 4
    assert searches() == []


async def test_plain_text_is_never_hostile(root: Path) -> None:
    (root / "d.txt").write_text("x(a+)+$x\n")
    assert await call(grep_of(root), HOSTILE, literal=True) == "d.txt\n1: x(a+)+$x"


async def test_a_search_that_is_only_long_says_how_to_make_it_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_module, "_TIME_S", 2.0)
    piece = b"".join(b"%d some text with no end\n" % n for n in range(10_000))
    with (tmp_path / "large.txt").open("wb") as file:
        for _ in range(600):
            file.write(piece)
    with pytest.raises(ToolFailed) as caught:
        await call(grep_of(tmp_path), r"(?i)so+me.*begin|te+xt.*begin|wi+th.*begin|no+.*begin|en+d.*begin")
    assert str(caught.value) == (
        "ended after 2 s at 'large.txt': name a smaller folder in path, or fewer files with glob"
    )


async def test_an_expression_that_takes_much_memory_is_ended(tmp_path: Path) -> None:
    (tmp_path / "ab.txt").write_text("ab" * 4_900_000)
    with pytest.raises(ToolFailed, match=r"ended at 'ab.txt': it takes more than 512 MB of memory\."):
        await call(grep_of(tmp_path), "^(?:(a)|b)*c")


async def test_an_expression_that_takes_long_to_be_read_is_ended_too(root: Path, short: float) -> None:
    """It is read where it can be ended."""
    ranges = "".join(f"[\\U{n:08x}-\\U0010fff0]" for n in range(0x100, 0x100 + 400))
    started = time.monotonic()
    with suppress(ToolFailed):
        await call(grep_of(root), ranges, ignore_case=True)
    assert time.monotonic() - started < short + 2


# --- nothing is left ------------------------------------------------------------------


async def test_a_search_that_is_cancelled_is_over(root: Path) -> None:
    searching = asyncio.create_task(call(grep_of(root), HOSTILE))
    assert await until(searches)
    await over(searching)
    assert await until(lambda: not searches(), 2)


PROGRAM = """
import asyncio, sys
from gnomon.contracts.tool import ToolContext
from gnomon.tools.workspace import Workspace

tool = Workspace(sys.argv[1]).tool("grep")
asyncio.run(tool.execute('{"pattern": "(a+)+$"}', ToolContext(call_id="call_1")))
"""


async def test_a_search_ends_with_the_program_that_is_killed(root: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(root)])  # noqa: ASYNC220 - it only starts
    try:
        assert await until(lambda: searches(program.pid), 30)
        (search,) = searches(program.pid)
        assert await until(lambda: _is_busy(search))
    finally:
        program.kill()
        program.wait()
    assert await until(lambda: not os.path.exists(f"/proc/{search}"), 2)


def _is_busy(pid: int) -> bool:
    """Whether it has come to the line that it never leaves."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]
    return int(ticks) > 20


async def test_every_search_lets_go_of_what_it_opened(root: Path, short: float) -> None:
    tool = grep_of(root)
    gc.collect()  # other tests leave folders open, until they are found to be nobody's
    before = len(os.listdir("/proc/self/fd"))
    for arguments in (
        {"pattern": "a"},
        {"pattern": "("},
        {"pattern": "a", "path": "none"},
        {"pattern": HOSTILE},
    ):
        for _ in range(1 if arguments["pattern"] == HOSTILE else 10):
            with suppress(Exception):
                await call(tool, **arguments)
    assert len(os.listdir("/proc/self/fd")) <= before
    assert searches() == []
    assert sorted(os.listdir(root)) == ["a.txt", "b.txt", "c.txt"]


async def test_a_search_that_cannot_be_started_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = grep_of(root)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sys, "executable", str(root / "no-python"))
    with pytest.raises(ToolFailed, match="the search could not be started: No such file or directory"):
        await call(tool, "a")
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_search_that_dies_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_searching, "_PROGRAM", "import sys; sys.stdin.buffer.readline()")
    with pytest.raises(ToolFailed, match=r"the search ended by itself at 'a.txt'"):
        await call(grep_of(root), "a")


# --- what it has ------------------------------------------------------------------------


async def test_the_process_has_no_variable_and_no_file_of_the_program(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_PROGRAM", "hunter2")
    with (root / "a.txt").open() as opened:
        os.set_inheritable(opened.fileno(), True)
        searching = asyncio.create_task(call(grep_of(root), "hunter2|" + HOSTILE))
        try:
            assert await until(lambda: any(map(_is_busy, searches())))
            (search,) = searches()
            proc = Path("/proc", str(search))
            environment, line = (proc / "environ").read_bytes(), (proc / "cmdline").read_bytes()
            files = [os.readlink(proc / "fd" / name) for name in os.listdir(proc / "fd")]
            limits = (proc / "limits").read_text()
        finally:
            await over(searching)
    assert b"hunter2" not in environment + line
    assert sorted(file.split(":")[0] for file in files) == ["/dev/null", "pipe", "socket", "socket"]
    assert f"Max address space         {_line_search.MEMORY_BYTES} " in limits
    assert "Max file size             0 " in limits
    assert "Max core file size        0 " in limits


def test_what_runs_there_imports_the_standard_library_alone() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import _line_search; print(*sys.modules)"
    folder = str(Path(_line_search.__file__).parent)
    command = [sys.executable, "-I", "-S", "-B", "-c", code, folder]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "_line_search" in modules
    assert {name.split(".")[0] for name in modules} - {"_line_search", "__main__"} <= set(
        sys.stdlib_module_names
    )
    assert modules.isdisjoint({"typing", "asyncio", "socket", "subprocess"})  # each would cost a start more
