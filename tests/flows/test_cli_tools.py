"""Built-in tools at the command line: they work in this folder, and what they change is asked about."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from command import GNOMON, Gnomon, failed_in_one_line

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")

WRITES = ("-m", "demo", "-t", "shell", 'shell with command "echo made > made.txt"')


def waits_for_leave(done: subprocess.CompletedProcess[bytes]) -> None:
    assert done.returncode == 3, done.stderr
    assert b"the turn waits for leave to call shell" in done.stderr


def test_a_file_of_this_folder_is_read_and_none_above(gnomon: Gnomon) -> None:
    (gnomon.folder / "notes.txt").write_text("twelve eggs")
    done = gnomon("-m", "demo", "-t", "read_file", "read the file notes.txt")
    assert b"twelve eggs" in done.stdout
    assert done.returncode == 0
    (gnomon.folder.parent / "above.txt").write_text("hunter2")
    done = gnomon("-m", "demo", "-t", "read_file", "read the file ../above.txt")
    assert b"hunter2" not in done.stdout + done.stderr
    assert b"leads out" in done.stdout


def test_a_command_waits_for_leave_and_runs_in_the_folder_where_it_was_asked_for(
    gnomon: Gnomon, tmp_path: Path
) -> None:
    waits_for_leave(gnomon("-q", *WRITES))
    made, elsewhere = gnomon.folder / "made.txt", Gnomon(tmp_path / "elsewhere", gnomon.env)
    elsewhere.folder.mkdir()
    assert not made.exists()
    failed_in_one_line(elsewhere("-q", "approve"), 2, f"began in '{gnomon.folder}'", "go there first")
    assert gnomon("approve").returncode == 0
    assert made.read_text() == "made\n"
    waits_for_leave(gnomon("-q", "-c", *WRITES[4:]))
    assert os.listdir(elsewhere.folder) == []


def test_a_command_runs_unasked_where_that_was_said(gnomon: Gnomon) -> None:
    assert gnomon("--permissions", "bypass", *WRITES).returncode == 0
    assert (gnomon.folder / "made.txt").read_text() == "made\n"
    (gnomon.folder / "made.txt").unlink()
    assert gnomon("-c", *WRITES[4:]).returncode == 0  # it goes on as it began
    assert (gnomon.folder / "made.txt").exists()


def test_a_project_that_was_cloned_has_no_command_run_unasked(gnomon: Gnomon) -> None:
    """Its config may name tools before anybody trusts it."""
    (gnomon.folder / ".gnomon").mkdir()
    (gnomon.folder / ".gnomon" / "config.toml").write_text('model = "demo"\ntools = ["shell"]\n')
    waits_for_leave(gnomon("-q", WRITES[-1]))
    assert not (gnomon.folder / "made.txt").exists()


@pytest.mark.parametrize("tool", ["shell", "read_file"])
def test_no_tool_works_in_a_home_or_in_all_there_is(gnomon: Gnomon, tool: str) -> None:
    home = Path(gnomon.env["HOME"])
    home.mkdir(exist_ok=True)
    for folder in (home, Path("/")):
        done = Gnomon(folder, gnomon.env)("-q", "-m", "demo", "-t", tool, "read all")
        failed_in_one_line(done, 2, f"{tool} would work in '{folder}'", "go to the folder of a project")


def test_a_folder_that_was_deleted_is_said(gnomon: Gnomon, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    asks = [*GNOMON, "-q", "--no-store", "-m", "demo", "-t", "read_file", "x"]
    command = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *asks]
    done = subprocess.run(command, env=gnomon.env, capture_output=True, timeout=60, check=False)
    failed_in_one_line(done, 2, "this folder was deleted")
