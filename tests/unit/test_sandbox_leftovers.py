"""What commands, forks and closed sandboxes leave behind, and whom it may not trouble."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gnomon._beneath import Beneath
from gnomon.errors import SandboxError
from gnomon.sandboxes import _owners
from gnomon.sandboxes._cgroups import Groups, Place
from gnomon.sandboxes._removing import remove
from gnomon.sandboxes._rooms import own_folder
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.types.steps import ExecLimits, ExecResult

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and Landlock are Linux's")

HOLDING: list[tuple[Any, ...]] = [(), ("bubblewrap",)]


@asynccontextmanager
async def opened(*arguments: Any, **options: Any) -> AsyncIterator[ProcessSandbox]:
    sandbox = ProcessSandbox(*arguments, **options)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def python(sandbox: ProcessSandbox, code: str, **options: Any) -> ExecResult:
    return await sandbox.execute(sandbox.python, ["-c", code], options.pop("timeout_s", 30.0), **options)


# --- folders ------------------------------------------------------------------------


@pytest.mark.parametrize("without", HOLDING)
async def test_folders_however_deep_are_gone_with_the_sandbox_and_trouble_no_other(
    without: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deep = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"
    async with opened(without=without) as sandbox:
        for place in ("", "import os; os.chdir(os.environ['HOME'])\n"):
            result = await python(sandbox, place + deep)
            assert result.exit_code == 0, result.stderr
    assert os.listdir(tmp_path) == []


def test_no_link_is_followed_where_folders_are_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    (kept / "file").touch()
    inner = tmp_path / "gone" / "inner"
    inner.mkdir(parents=True)
    for place in (inner, inner.parent):
        (place / "link").symlink_to(kept)
    inner.chmod(0)
    remove(str(tmp_path / "gone"))
    assert os.listdir(tmp_path) == ["kept"]
    assert (kept / "file").exists()
    assert kept.stat().st_mode & 0o777 == 0o755


async def test_the_program_goes_on_while_what_a_command_left_is_removed() -> None:
    removing = threading.get_ident()
    async with opened(without=("bubblewrap",)) as sandbox:
        by: list[int] = []
        unlink = os.unlink

        def seen(*arguments: Any, **options: Any) -> None:
            by.append(threading.get_ident())
            unlink(*arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "unlink", seen)
            result = await python(
                sandbox, "import os\nfor i in range(50): open(os.environ['HOME'] + f'/{i}', 'w').close()"
            )
        assert result.exit_code == 0, result.stderr
    assert len(by) >= 50
    assert removing not in by


def test_what_another_container_has_in_a_folder_that_both_see_is_not_taken_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    monkeypatch.setattr(os, "getpid", lambda: gone.pid)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(_owners, "_namespace", lambda: 17)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        theirs = own_folder()
        Groups([Place(str(tmp_path), ("memory",), 1)]).take(memory_bytes=1, processes=1)
    left = own_folder()
    there = os.listdir(tmp_path)
    assert len(there) == 3
    own_folder()
    Groups([Place(str(tmp_path), ("memory",), 1)])
    assert theirs.exists()
    assert not left.exists()
    assert [name for name in os.listdir(tmp_path) if name.startswith(f"gnomon-{gone.pid}-17-")]


# --- forks --------------------------------------------------------------------------


@pytest.mark.parametrize("closes", [False, True])
def test_a_fork_that_ends_takes_nothing_of_the_program_s_sandbox_with_it(closes: bool) -> None:
    code = f"""
import asyncio, os, sys
from gnomon.sandboxes.process import ProcessSandbox

sandbox = ProcessSandbox()
assert asyncio.run(sandbox.execute("touch", ["file"], 20.0)).exit_code == 0
child = os.fork()
if child == 0:
    if {closes}:
        asyncio.run(sandbox.execute("true", [], 20.0))
        asyncio.run(sandbox.close())
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(asyncio.run(sandbox.execute("ls", [], 20.0)))
asyncio.run(sandbox.close())
print(os.path.exists(sandbox.workspace))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "stdout=b'file\\n'" in done.stdout
    assert done.stdout.endswith("False\n")


# --- groups -------------------------------------------------------------------------


@pytest.mark.parametrize("without", HOLDING)
async def test_files_that_a_command_left_in_memory_are_not_counted_for_the_next(
    without: tuple[Any, ...],
) -> None:
    if not shutil.disk_usage("/dev/shm").free > 300 << 20:
        pytest.skip("there is no room in /dev/shm")
    workspace = tempfile.mkdtemp(dir="/dev/shm")
    try:
        async with opened(workspace, without=without) as sandbox:
            limits = ExecLimits(memory_bytes=300 << 20)
            filled = await sandbox.execute(
                "sh", ["-c", "head -c 200000000 /dev/zero >f"], 20.0, limits=limits
            )
            assert filled.exit_code == 0, filled.note
            uses = "print(len(bytearray(150 << 20)))"
            assert (await python(sandbox, uses, limits=limits)).text == "157286400\n"
            small = ExecLimits(memory_bytes=100 << 20)
            assert (await python(sandbox, "print(1)", limits=small)).text == "1\n"
    finally:
        shutil.rmtree(workspace)


# --- closing, and no room -----------------------------------------------------------


@pytest.mark.parametrize("without", HOLDING)
def test_closing_on_another_loop_ends_what_runs_at_once(without: tuple[Any, ...]) -> None:
    sandbox = ProcessSandbox(without=without)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(lambda: asyncio.run(sandbox.execute("sleep", ["60"], 60.0)))
        while not sandbox._runs:  # pyright: ignore[reportPrivateUsage]
            time.sleep(0.01)
        began = time.monotonic()
        asyncio.run(sandbox.close())
        assert time.monotonic() - began < 3
        assert running.result().note == "ended: the sandbox was closed"
    assert not os.path.exists(sandbox.workspace)


async def test_a_command_whose_files_were_put_there_before_its_sandbox_closed_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = Beneath.write
    sandbox = ProcessSandbox(tmp_path, without=("bubblewrap",))

    def closed_meanwhile(beneath: Beneath, *arguments: Any, **options: Any) -> None:
        written(beneath, *arguments, **options)
        asyncio.run(sandbox.close())

    monkeypatch.setattr(Beneath, "write", closed_meanwhile)
    with pytest.raises(SandboxError, match="the sandbox is closed"):
        await sandbox.execute("touch", ["begun"], 20.0, files={"file": b""})
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("without", HOLDING)
async def test_a_program_that_has_no_descriptor_left_is_told_so(without: tuple[Any, ...]) -> None:
    async with opened(without=without) as sandbox:
        assert (await sandbox.execute("true", [], 20.0)).exit_code == 0
        before = len(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = [os.dup(0) for _ in range(100)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 1, hard))
        try:
            for _ in range(5):
                with pytest.raises(SandboxError, match="could not be set up: Too many open files"):
                    await sandbox.execute("true", [], 20.0)
                os.close(taken.pop())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in taken:
                os.close(each)
        assert len(os.listdir("/proc/self/fd")) == before
        assert (await sandbox.execute("true", [], 20.0)).exit_code == 0
