"""What is in a store when it is kept: one of everything, through the public methods alone.

It may grow with a later version, which then has expectations of its own; a store that was kept is not
filled again.
"""

from __future__ import annotations

import msgspec

from gnomon.storage._records import RecordStorage
from gnomon.storage._values import LONGEST_NAME_BYTES
from stored import WORDS, at, audit, checkpoint, event, events, large_event, memory, session, trace

__all__ = ["LARGE", "LARGE_BYTES", "OTHER_TENANT", "OWNER", "SMALL_BLOB", "fill", "runs"]

OTHER_TENANT = "acme/ünïcode"
OWNER = "a runner that has died"
SMALL_BLOB = b"a blob\x00\xff"

LARGE = "large"
"""The type of an event whose payload is `runs`, and the name of the session that it is in."""

LARGE_BYTES = {"sqlite": 20_000, "postgres": 20_000, "redis": 20_000, "mongo": 4_200_000, "dynamo": 450_000}
"""Two pieces where large bodies are split; little where they are not and a file would hold every byte."""

# An event of such a session has a number behind it in its id.
_LONGEST = (WORDS * LONGEST_NAME_BYTES).encode()[: LONGEST_NAME_BYTES - 8].decode(errors="ignore")


def runs(size_bytes: int) -> bytes:
    """Bytes that take little room in a file, though no two pieces of a large body are alike."""
    each = -(-size_bytes // 20)
    return b"".join(bytes([letter]) * each for letter in range(97, 117))[:size_bytes]


async def fill(store: RecordStorage, large_bytes: int) -> None:
    await _fill_pruned(store)
    await _fill_waiting(store)
    await _fill_named_at_length(store)
    await _fill_large(store, large_bytes)
    await _fill_loose(store)
    await _fill_plain(store, "kept")
    await _fill_plain(store.scoped(OTHER_TENANT), "another tenant's")


async def _fill_plain(store: RecordStorage, title: str) -> None:
    """A session with a log in groups, checkpoints, a chain, and spans of which one has not ended."""
    row = session("plain", minutes=90, agent_id="a", user_id="ana", title=f"{title} {WORDS}")
    await store.create_session(row)
    await store.append_events(events("plain", 1, 3), checkpoint=checkpoint("p1", "plain", 3, view_start=1))
    await store.append_event(event("plain", 4, b"\x00\xff", version=2))
    await store.save_checkpoint(checkpoint("p2", "plain", 4, view_start=4, open=[{"call": 1}]))
    metadata = {"n": [1, -2.5, None, True], "z": {"ü": WORDS}}
    changed = session("plain", minutes=90, agent_id="a", user_id="ana", title=row.title, metadata=metadata)
    await store.update_session(changed)
    for number in range(4):
        await store.append_audit_log(audit(f"p{number}", "plain", number))
    await store.insert_trace(trace("ended", "plain", is_open=True))
    await store.insert_trace(trace("ended", "plain"))
    await store.insert_trace(trace("open", "plain", 1, is_open=True))
    await store.put_memory(memory("m1", "taste", 1, agent_id="a", user_id="ana", session_id="plain"))
    await store.put_memory(memory("m2", "taste", 2, agent_id="a", kind="short_term", value=[title, 0.1]))
    await store.put_blob(SMALL_BLOB)


async def _fill_pruned(store: RecordStorage) -> None:
    """A session whose log and chain begin in the midst, and one that was brought from elsewhere so."""
    await store.create_session(session("pruned", minutes=10, user_id="bob", last_seq=30))
    for first in (1, 11, 21):
        await store.append_events(events("pruned", first, first + 9))
    await store.save_checkpoint(checkpoint("view", "pruned", 25, view_start=21))
    for number in range(4):
        await store.append_audit_log(audit(f"r{number}", "pruned", number))
    assert await store.prune("events", at(1_000)) == 20
    assert await store.prune("audit", at(1.5)) == 2
    await store.create_session(session("moved", minutes=11, status="closed", last_seq=13))
    await store.begin_log(events("moved", 11, 13))
    await store.save_checkpoint(checkpoint("later view", "moved", 13, view_start=11))


async def _fill_waiting(store: RecordStorage) -> None:
    await store.create_session(session("due", minutes=20, agent_id="b", status="running", runnable=True))
    await store.create_session(session("asleep", minutes=21, status="waiting", wake_at=at(600)))
    await store.append_event(event("due", 1))


async def _fill_named_at_length(store: RecordStorage) -> None:
    """Names that some databases can hold only in another form."""
    await store.create_session(session(_LONGEST, minutes=30, agent_id=_LONGEST, user_id=_LONGEST))
    await store.append_event(event(_LONGEST, 1))
    await store.put_memory(memory(_LONGEST, _LONGEST, 3, agent_id=_LONGEST, user_id=_LONGEST))
    await store.append_audit_log(audit("a", _LONGEST))


async def _fill_large(store: RecordStorage, large_bytes: int) -> None:
    await store.create_session(session("large", minutes=40, last_seq=4))
    await store.append_event(event("large", 1))
    large = event("large", 2, runs(large_bytes))
    await store.append_event(msgspec.structs.replace(large, type=LARGE))
    await store.append_event(await large_event(store, "large", 3, WORDS * 500, b"\x00\xff" * 2_000))
    await store.append_event(event("large", 4))
    await store.put_blob(runs(large_bytes))


async def _fill_loose(store: RecordStorage) -> None:
    """What belongs to no session."""
    for number in range(2):
        await store.append_audit_log(audit(f"l{number}", "", 100 + number))
    await store.insert_trace(trace("loose", "", 5))
    await store.put_memory(memory("m0", "loose", 0, value=None, user_id="bob"))
