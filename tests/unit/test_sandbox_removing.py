"""What a command can make of a folder goes all the same, and nothing outside of it does."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gnomon.sandboxes._launcher.tree import written
from gnomon.sandboxes._removing import remove
from gnomon.sandboxes.process import ProcessSandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is said of paths is Linux's")

DEEP = """
import os
for _ in range({depth}):
    os.mkdir("{name}")
    os.chdir("{name}")
{then}
"""


def dig(folder: Path, *, depth: int = 3_000, name: str = "aaa", then: str = "open('f', 'w')") -> None:
    """Folders in folders: deeper than paths, stacks and lists of open files go."""
    code = DEEP.format(depth=depth, name=name, then=then)
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def lock(folder: Path) -> None:
    below = folder / "a/b"
    below.mkdir(parents=True)
    (below / "file").write_text("x")
    for each in (below, below.parent):
        each.chmod(0)


def branch(folder: Path) -> None:
    for number in range(200):
        place = folder / f"{number % 7}" / f"{number}" / "x"
        place.mkdir(parents=True)
        (place / "file").write_text("x")


def name_oddly(folder: Path) -> None:
    for name in (b"a\nb", b"\xff\xfe", b"-rf", b"x" * 255, "\u00e9".encode()):
        os.mkdir(os.fsencode(folder) + b"/" + name)
        (Path(os.fsdecode(os.fsencode(folder) + b"/" + name)) / "file").write_text("x")
    os.mkfifo(folder / "fifo")


@pytest.mark.parametrize("make", [dig, lock, branch, name_oddly])
def test_a_folder_goes_whatever_was_made_of_it(tmp_path: Path, make: Callable[[Path], None]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    remove(str(folder))
    assert not folder.exists()


def test_somebody_who_is_not_root_can_remove_what_a_command_has_locked(place: Path) -> None:
    folder = place / "folder"
    folder.mkdir()
    lock(folder)
    for each in (place, folder, folder / "a", folder / "a/b", folder / "a/b/file"):
        os.chown(each, NOBODY, NOBODY)
    as_nobody("from gnomon.sandboxes._removing import remove as it", str(folder))
    assert not folder.exists()


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    (outside / "below").mkdir(parents=True)
    (outside / "below/file").write_text("kept")
    outside.chmod(0o500)
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "other").symlink_to(outside / "below/file")
    os.link(outside / "below/file", folder / "hard")
    remove(str(folder))
    assert not folder.exists()
    assert (outside / "below/file").read_text() == "kept"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_what_is_not_there_is_no_matter(tmp_path: Path) -> None:
    remove(str(tmp_path / "none"))


async def test_a_command_that_digs_leaves_nothing_and_is_in_nobody_s_way() -> None:
    """It was in everybody's: what could not be removed was tried again by each sandbox that was made."""
    sandbox = ProcessSandbox(require="none")
    code = DEEP.format(depth=3_000, name="aaa", then="")
    result = await sandbox.execute(sandbox.python, ["-c", code], 60)
    assert result.exit_code == 0, result.error_text
    workspace = sandbox.workspace
    assert await sandbox.list_files() == []
    await sandbox.close()
    assert not await asyncio.to_thread(os.path.exists, workspace)


# --- what was written, for the limit of the disk ------------------------------------------


def test_a_folder_that_no_path_reaches_counts_as_too_much(tmp_path: Path) -> None:
    dig(tmp_path, depth=30, name="a" * 200)
    assert written([str(tmp_path)], 0.0, 1 << 40)
    remove(str(tmp_path))


@pytest.mark.parametrize("mode", [0o300, 0o600, 0])
def test_a_folder_that_its_owner_has_locked_counts_as_too_much(place: Path, mode: int) -> None:
    for name in ("locked", "open"):
        (place / name / "below").mkdir(parents=True)
        os.chown(place / name / "below", NOBODY, NOBODY)
    (place / "locked/below").chmod(mode)
    assert not as_nobody(WRITTEN, [str(place / "open")], 0.0, 1 << 40)
    assert as_nobody(WRITTEN, [str(place / "locked")], 0.0, 1 << 40) is (mode != 0o600)
    (place / "locked/below/file").write_text("x")
    assert as_nobody(WRITTEN, [str(place / "locked")], 0.0, 1 << 40)


def test_a_folder_that_others_have_locked_long_ago_is_passed_over(place: Path) -> None:
    (place / "theirs").mkdir(mode=0o700)
    assert as_nobody(WRITTEN, [str(place)], 0.0, 1 << 40)
    assert not as_nobody(WRITTEN, [str(place)], time.time() + 60, 1 << 40)


NOBODY = 65534
WRITTEN = "from gnomon.sandboxes._launcher.tree import written as it"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that others than root come to."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_nobody(imported: str, *arguments: object) -> object:
    """What it comes to for somebody who is not root."""
    code = f"import os; {imported}; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"
    said = subprocess.run(
        [sys.executable, "-c", f"{code}; print(it(*{arguments!r}))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return ast.literal_eval(said.stdout)
