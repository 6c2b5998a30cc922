"""Names for turns, messages and calls."""

from __future__ import annotations

import os
import time

__all__ = ["idempotency_key", "new_id"]

_POOL = 200
_random: list[str] = []


def new_id(prefix: str) -> str:
    """A name nobody else has; later ones sort after earlier ones, to the millisecond."""
    try:
        chance = _random.pop()
    except IndexError:
        chance = _drawn()
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{chance}"


def _drawn() -> str:
    """Asked of the system many at a time: a question costs more than all else about a name."""
    drawn = os.urandom(10 * _POOL).hex()
    _random.extend(drawn[at : at + 20] for at in range(20, len(drawn), 20))
    return drawn[:20]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)


def idempotency_key(session_id: str, turn_id: str, message_id: str, call_id: str) -> str:
    """The same for every attempt at one call: it comes from what was recorded, not from a counter.

    The message is part of it: some servers name the first call of every answer alike.
    """
    from hashlib import sha256

    # As a tuple's repr, so that no id can reach into its neighbour.
    return sha256(repr((session_id, turn_id, message_id, call_id)).encode()).hexdigest()
