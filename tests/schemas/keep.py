"""Keeps a store as this version writes it, in a file beside this one.

    python tests/schemas/keep.py dynamo mongo
    python tests/schemas/keep.py expected     # what is in each of them

What is there already stays: a version that was released is never kept anew.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import schemas
import servers
from gnomon.storage import _owners
from gnomon.storage._rows import SCHEMA
from schemas.contents import LARGE_BYTES, OWNER, fill
from schemas.expecting import said
from stored import opened

__all__ = ["kept"]

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
"""When the runner was last alive, also for a machine whose clock is late."""


async def kept(name: str) -> str:
    """The text of a store that was filled just now."""
    copy = schemas.copier(name)
    with tempfile.TemporaryDirectory() as folder:
        place = schemas.fresh_place(name, Path(folder))
        async with opened(copy.address(place)) as store:
            await fill(store, LARGE_BYTES[name])
            with patch.object(_owners, "utc_now", lambda: _LONG_AGO):
                async with store.holding(OWNER):
                    return await copy.kept(place)


async def expected() -> str:
    async with opened("memory://") as store:
        await fill(store, 0)
        return await said(store)


def main(name: str) -> None:
    names = [*schemas.STORES, "expected"]
    if name not in names:
        sys.exit(f"there is no {name!r}; there are {', '.join(names)}")
    path = (
        schemas.FOLDER / f"expected-{SCHEMA}.jsonl" if name == "expected" else schemas.file_of(name, SCHEMA)
    )
    if path.exists():
        sys.exit(f"{path.name} is there: remove it, if version {SCHEMA} was never released")
    path.write_text(asyncio.run(expected() if name == "expected" else kept(name)), "utf-8")
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    # The driver of DynamoDB takes them from nowhere else.
    os.environ["AWS_ACCESS_KEY_ID"] = servers.DynamoServer.access_key
    os.environ["AWS_SECRET_ACCESS_KEY"] = servers.DynamoServer.secret_key
    for each in sys.argv[1:] or [""]:
        main(each)
