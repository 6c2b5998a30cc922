"""Archives are fetched once and whole: by several processes at once, after a kill, and never another one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
import sdists
from sdists import CannotFetch, Pinned, cache_folder, fetched, fetched_or_ended, pinned

FILES = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: gnomon-sample\nVersion: 1.0\n",
    "pyproject.toml": '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n',
}


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pinned:
    """A small archive, in a folder that pip looks in, and nowhere else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    archive = shelf / "gnomon_sample-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        for name, said in FILES.items():
            entry = tarfile.TarInfo(f"gnomon_sample-1.0/{name}")
            entry.size = len(said)
            made.addfile(entry, io.BytesIO(said.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("GNOMON_TEST_CACHE", str(tmp_path / "cache"))
    return Pinned("gnomon-sample", "1.0", sha256(archive.read_bytes()).hexdigest())


_ASK = "import sys; from sdists import *; print(*fetched([Pinned(*sys.argv[1:])]).values())"


def test_several_processes_fetch_an_archive_once(sample: Pinned) -> None:
    command = [sys.executable, "-c", _ASK, sample.name, sample.version, sample.digest]
    path = {**os.environ, "PYTHONPATH": str(Path(sdists.__file__).parent)}
    asking = [subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in asking]
    assert [process.returncode for process in asking] == [0, 0, 0]
    assert "".join(said).count("==> fetching") == 1
    assert all(sample.file in words for words in said)


def test_half_a_file_and_what_a_kill_left_are_cleared_away(sample: Pinned) -> None:
    folder = cache_folder()
    (folder / "fetching-killed").mkdir(parents=True)
    (folder / sample.file).write_bytes(b"half")
    found = fetched([sample], say=lambda _: None)
    assert sample.is_at(found[sample.name])
    assert sorted(path.name for path in folder.iterdir()) == ["fetching.lock", sample.file]


def test_an_archive_of_another_hash_is_refused_and_not_asked_for_again_at_once(sample: Pinned) -> None:
    other = Pinned(sample.name, sample.version, "0" * 64)
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(CannotFetch, match=r"pip: .*(?i:hash|match)"):
            fetched([other], say=said.append)
    assert len(said) == 1
    assert not (cache_folder() / other.file).exists()


def test_without_recordings_a_test_is_skipped_and_fails_where_all_must_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GNOMON_TEST_CACHE", str(tmp_path / "file"))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no recordings: .*cannot be used"):
        fetched_or_ended()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no recordings"):
        fetched_or_ended()


def test_the_lock_pins_every_archive_by_its_hash() -> None:
    names = ["anthropic", "crewai", "langchain-anthropic", "langchain-openai", "magentic"]
    assert [archive.name for archive in pinned()] == names
    assert all(len(bytes.fromhex(archive.digest)) == 32 for archive in pinned())
