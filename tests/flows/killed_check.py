"""Counts from the ledger, after something was killed, whether all that was acknowledged is there."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from killed_writer import SESSIONS, Said

from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger, Read
from gnomon.types.events import MessageReceived, ToolIntent

__all__ = ["check"]


async def check(storage: Storage, said: Sequence[Said]) -> Counter[str]:
    """Nothing that was said is missing, nothing is half there; how much there was of each kind."""
    for at in range(SESSIONS):
        session = f"s{at}"
        mine = [each for each in said if each.session == session]
        await _check_session(storage, session, mine)
    for each in said:
        if each.kind == "blob":
            await _check_blob(storage, each.name)
    return Counter(each.kind for each in said)


async def _check_session(storage: Storage, session: str, said: Sequence[Said]) -> None:
    # Reading by the ledger decodes every event, and fails for one whose blob is missing.
    ledger = Ledger(storage, session)
    entries = await ledger.refresh()
    assert [read.seq for read in entries] == list(range(1, len(entries) + 1)), "the ledger has a gap"
    _check_messages(entries, [each for each in said if each.kind == "message"])
    _check_groups(entries, [each for each in said if each.kind == "group"])
    await _check_derived(storage, session, len(entries), said)
    await _check_audit(storage, session, [each for each in said if each.kind == "audit"])
    opened = await Ledger.open(storage, session)
    assert opened.fold.seq == len(entries)
    assert opened.fold.messages == ledger.fold.messages


def _check_messages(entries: Sequence[Read], said: Sequence[Said]) -> None:
    found: dict[str, int] = {}
    for seq, entry, _ in entries:
        if isinstance(entry, MessageReceived):
            assert entry.message_id not in found, f"{entry.message_id} is there twice"
            name, size, rest = entry.message.text.split(":")
            assert (name, len(rest)) == (entry.message_id, int(size))
            found[entry.message_id] = seq
    for each in said:
        assert each.name in found, f"{each.name} was acknowledged and is not there"
        assert found[each.name] <= each.seq


def _check_groups(entries: Sequence[Read], said: Sequence[Said]) -> None:
    found: dict[str, list[tuple[int, str]]] = {}
    for seq, entry, _ in entries:
        if isinstance(entry, ToolIntent):
            found.setdefault(entry.turn_id, []).append((seq, entry.call_id))
    for name, parts in found.items():
        first, size = parts[0][0], len(parts)
        whole = [(first + at, f"{at + 1}/{size}") for at in range(size)]
        assert parts == whole, f"group {name} is not whole: {parts}"
    for each in said:
        assert each.name in found, f"group {each.name} was acknowledged and is not there"
        assert found[each.name][-1][0] == each.seq


async def _check_derived(storage: Storage, session: str, tail: int, said: Sequence[Said]) -> None:
    row = await storage.get_session(session)
    known = max((each.seq for each in said if each.kind == "row"), default=0)
    assert row is not None or not said
    assert row is None or known <= row.last_seq <= tail
    point = await storage.get_latest_checkpoint(session)
    saved = max((each.seq for each in said if each.kind == "point"), default=0)
    assert point is None or saved <= point.seq <= tail
    assert point is not None or not saved


async def _check_audit(storage: Storage, session: str, said: Sequence[Said]) -> None:
    assert await storage.verify_audit(session) == ()  # type: ignore[attr-defined]
    found: dict[str, int] = {}
    cursor: str | None = None
    while True:
        page = await storage.list_audit_logs(session, 500, cursor=cursor)
        found |= {row.id: row.seq for row in page.items}
        cursor = page.next
        if cursor is None:
            break
    assert sorted(found.values()) == list(range(1, len(found) + 1))
    for each in said:
        assert found.get(each.name) == each.seq, f"audit row {each.name} was acknowledged and is not there"


async def _check_blob(storage: Storage, digest: str) -> None:
    content = await storage.get_blob(digest)  # type: ignore[attr-defined]
    assert content is not None, f"blob {digest} was acknowledged and is not there"
    assert hashlib.sha256(content).hexdigest() == digest
