"""Stores as released versions have left them, in text files, and a way back from the file to a store.

    restored("redis", 1)                  # on the shared server, in a place of its own; its URL
    restored("sqlite", 1, folder)         # a file in that folder

`<store>-<version>` is the store as that version wrote it, `expected-<version>.jsonl` what is in it. Once a
version is released, its files stay as they are. Whoever adds a version runs `keep.py`, which makes its files.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

__all__ = ["FOLDER", "STORES", "Copy", "copier", "file_of", "fresh_place", "old_urls", "restored"]

FOLDER = Path(__file__).resolve().parent
STORES = {"sqlite": "sql", "postgres": "sql", "redis": "jsonl", "mongo": "jsonl", "dynamo": "jsonl"}
"""Each store, and how its files end."""


class Copy(Protocol):
    """What the module of each store does. A place is a file, a schema, a prefix, a database or a table."""

    def address(self, place: str) -> str:
        """The URL of the store there."""
        ...

    async def kept(self, place: str) -> str:
        """All that is there, as a text that says nothing of the place."""
        ...

    async def restore(self, text: str, place: str) -> None: ...

    def shape(self, text: str) -> list[str]:
        """What of the text is not rows: tables and indexes."""
        ...


def copier(store: str) -> Copy:
    return cast(Copy, import_module(f"{__name__}.{store}_copy"))  # and with it the driver


def file_of(store: str, version: int) -> Path:
    return FOLDER / f"{store}-{version}.{STORES[store]}"


def fresh_place(store: str, folder: Path | None = None) -> str:
    """Where nothing is yet."""
    name = f"t{uuid.uuid4().hex}"
    if store != "sqlite":
        return name
    assert folder is not None, "a file needs a folder"
    return str(folder / f"{name}.db")


def restored(store: str, version: int, folder: Path | None = None) -> str:
    """The URL of a store as that version has left it."""
    place, copy = fresh_place(store, folder), copier(store)
    url = copy.address(place)  # first, since it starts the server, or skips the test here
    _in_a_thread(copy.restore(file_of(store, version).read_text("utf-8"), place))
    return url


def old_urls(store: str, folder: Path | None = None) -> list[str]:
    """A store of each version that was ever kept."""
    versions = sorted(int(path.stem.rpartition("-")[2]) for path in FOLDER.glob(f"{store}-*"))
    return [restored(store, version, folder) for version in versions]


def _in_a_thread(work: Coroutine[object, object, None]) -> None:
    """Who asks may be in an event loop, and need not be able to wait."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()
