"""The workspace as commands are given it: where they start, and the files put there for them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gnomon._beneath import Beneath
from gnomon.errors import InvalidInput
from gnomon.sandboxes._commands import checked_cwd

__all__ = ["put", "start_folder"]


def start_folder(beneath: Beneath, cwd: str | None) -> str:
    """Where a command starts, relative to the workspace, whatever links lead there; "." is the workspace."""
    if (asked := checked_cwd(cwd)) in ("", "."):
        return "."
    try:
        os.close(beneath.open(asked, os.O_DIRECTORY | os.O_RDONLY))
    except OSError as error:
        raise InvalidInput(f"there is no folder {cwd!r} in the workspace: {error.strerror}") from None
    return beneath.canonical(asked)


def put(beneath: Beneath, folder: str, files: Mapping[str, bytes], owner: tuple[int, int] | None) -> None:
    """Files into a folder of the workspace; they and the folders made for them are given to the owner."""
    for path, content in files.items():
        if not path or path.startswith("/") or "\0" in path:
            raise InvalidInput(f"{path!r} is no path of a file for a command", hint="relative to its folder")
        place = path if folder == "." else f"{folder}/{path}"
        made = _missing_folders(beneath, place) if owner else []
        beneath.write(place, content)
        if owner:
            for each in (*made, place):
                _hand_over(beneath, each, owner)


def _missing_folders(beneath: Beneath, place: str) -> list[str]:
    """The folders above it that are not there yet, the highest first."""
    missing: list[str] = []
    above = os.path.dirname(place)
    while above:
        try:
            os.close(beneath.open(above, os.O_DIRECTORY | os.O_RDONLY))
        except OSError:
            missing.append(above)
        else:
            break
        above = os.path.dirname(above)
    return missing[::-1]


def _hand_over(beneath: Beneath, place: str, owner: tuple[int, int]) -> None:
    try:
        descriptor = beneath.open(place, os.O_RDONLY)
    except OSError as error:
        raise InvalidInput(f"{place!r} went away while it was put there: {error.strerror}") from None
    try:
        os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)
