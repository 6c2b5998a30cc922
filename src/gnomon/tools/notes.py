"""Notes for a person, in a file of the user's own."""

from __future__ import annotations

from gnomon.errors import ToolFailed
from gnomon.tools.function import tool

__all__ = ["save_note"]

_LONGEST = 2_000


@tool
def save_note(text: str) -> str:
    """Save a note.

    text: what it says
    """
    import os

    from gnomon._trust import named_folder

    line = " ".join(text.split())
    if not line or len(line) > _LONGEST:
        raise ToolFailed(f"a note has 1 to {_LONGEST:,} characters, not {len(line):,}")
    folder = named_folder(os.environ, "XDG_DATA_HOME", ".local", "share")
    if folder is None:
        raise ToolFailed("there is no home folder to keep notes in")
    path = os.path.join(folder, "gnomon", "notes.txt")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(line + "\n")
    except OSError as error:
        raise ToolFailed(f"the note was not saved: {error.strerror}") from error
    return f"saved in {path}"
