"""`save_note`: a line in a file of the user's own, or a failure that says why."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gnomon.errors import ToolFailed
from gnomon.tools.notes import save_note


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "gnomon"


def test_a_note_is_one_line_for_its_owner_alone(folder: Path) -> None:
    said = save_note("buy\nmilk ")
    save_note("and bread")
    file = folder / "notes.txt"
    assert said == f"saved in {file}"
    assert file.read_text() == "buy milk\nand bread\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", " \n", "x" * 2_001])
def test_a_note_that_is_empty_or_endless_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(ToolFailed, match="a note has 1 to 2,000 characters"):
        save_note(text)
    assert not folder.exists()


def test_a_file_that_cannot_be_written_is_told(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("in the way")
    with pytest.raises(ToolFailed, match="the note was not saved: "):
        save_note("buy milk")


def test_without_a_home_folder_there_is_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("gnomon._trust.home_folder", lambda env: None)
    with pytest.raises(ToolFailed, match="no home folder"):
        save_note("buy milk")


def test_it_is_known_to_change_something() -> None:
    assert not save_note.read_only
