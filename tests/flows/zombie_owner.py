"""A runner that owns a session, for `test_storage_zombies.py`: each line on stdin is one thing to do, and
what came of it is said on stdout."""

from __future__ import annotations

import asyncio
import sys

from gnomon import registry
from gnomon.engine.ledger import Ledger
from gnomon.errors import GnomonError
from gnomon.types.events import MessageReceived
from gnomon.types.messages import Message


async def done(ledger: Ledger, what: str, name: str) -> str:
    """What came of it: the ledger's end, or the error."""
    try:
        match what:
            case "append":
                return str(await ledger.append(MessageReceived(name, Message.user("mine"))))
            case "project":
                return str((await ledger.project("running")).last_seq)
            case "release":
                return str(await ledger.release())
            case _:
                return "?"
    except GnomonError as error:
        return type(error).__name__


async def main(url: str, owner: str) -> None:
    storage = registry.storage(url)
    async with storage.holding(owner):  # type: ignore[attr-defined]
        ledger = await Ledger.open(storage, "s")
        print(await ledger.claim(owner), flush=True)
        number = 0
        while what := (await asyncio.to_thread(sys.stdin.readline)).strip():
            number += 1
            print(await done(ledger, what, f"{owner}/{number}"), flush=True)
    await storage.close()


asyncio.run(main(*sys.argv[1:]))
