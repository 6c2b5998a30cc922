"""What of the host a command is shown."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gnomon.sandboxes.process import ProcessSandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and Landlock are Linux's")

HOLDING: list[tuple[Any, ...]] = [(), ("bubblewrap",)]


async def run(sandbox: ProcessSandbox, *command: str) -> str:
    try:
        return (await sandbox.execute(command[0], command[1:], 20.0)).text
    finally:
        await sandbox.close()


async def test_nothing_that_is_mounted_can_be_written_but_what_is_the_commands(tmp_path: Path) -> None:
    """Whoever the command is: root's own modes would let root write to what is shown of the machine."""
    lines = (
        await run(ProcessSandbox(tmp_path, require="namespaces"), "cat", "/proc/self/mounts")
    ).splitlines()
    points = {point: options.split(",") for _, point, _, options, *_ in map(str.split, lines)}
    assert {"/", "/usr", "/proc", "/dev", "/etc"} <= set(points)
    harmless = {
        f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts", "console")
    }
    writable = {point for point, options in points.items() if "rw" in options}
    assert writable - harmless == {"/tmp", "/dev/shm", str(tmp_path)}


@pytest.mark.parametrize("without", HOLDING)
async def test_the_people_of_this_machine_are_not_shown(without: tuple[Any, ...]) -> None:
    told = await run(ProcessSandbox(without=without), "sh", "-c", "cat /etc/passwd /etc/group")
    assert {line.partition(":")[0] for line in told.splitlines()} <= {"sandbox"}


async def test_what_is_to_be_read_is_there_also_where_it_lies_in_the_folder_that_begins_empty() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "told.txt").write_text("told")
        sandbox = ProcessSandbox(read=[folder], require="none")
        try:
            result = await sandbox.execute("cat", [f"{folder}/told.txt"], 10)
        finally:
            await sandbox.close()
    assert result.text == "told", result
