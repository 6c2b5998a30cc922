"""Where runs are kept: in the store that was named, else in a file of the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from gnomon import config
from gnomon._trust import named_folder
from gnomon.errors import ConfigError, InvalidInput

__all__ = ["Place", "place", "place_named", "prepare"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A store. `file` is set for the one that nobody named."""

    url: str
    file: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether it could hold something; to look into the user's own file does not make it."""
        return self.file is None or os.path.exists(self.file)


def place(settings: config.Config, env: Mapping[str, str]) -> Place | None:
    """The store of these settings; `None` where nobody named one and there is no home folder."""
    if settings.store is not None:
        return Place(url=settings.store)
    folder = named_folder(env, "XDG_DATA_HOME", ".local", "share")
    if folder is None:
        return None
    from urllib.parse import quote

    file = os.path.join(folder, "gnomon", "gnomon.db")
    return Place(url=f"sqlite:///{quote(os.fsencode(file))}", file=file)


def place_named(url: str | None, *, use_project: bool) -> Place:
    """The store that a command is to look into: the one that was typed, else the usual one."""
    if url is not None:
        return Place(url=url)
    found = place(config.load(use_project=use_project).config, os.environ)
    if found is None:
        raise ConfigError("there is no home folder to keep sessions in", hint="set HOME or GNOMON_STORE")
    return found


def prepare(found: Place) -> None:
    """The folder of the user's own file: conversations are nobody else's business."""
    if found.file is None:
        return
    try:
        os.makedirs(os.path.dirname(found.file), mode=0o700, exist_ok=True)
    except OSError as error:
        from gnomon.storage._sqlite_file import refused

        raise refused(error, found.file) from error
    except ValueError:
        raise InvalidInput("XDG_DATA_HOME is not a usable path") from None
