"""Names for turns, messages and calls."""

from __future__ import annotations

import os
import time

__all__ = ["idempotency_key", "new_id"]


def new_id(prefix: str) -> str:
    """A name nobody else has; later ones sort after earlier ones, to the millisecond."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def idempotency_key(session_id: str, turn_id: str, message_id: str, call_id: str) -> str:
    """The same for every attempt at one call: it comes from what was recorded, not from a counter.

    The message is part of it: some servers name the first call of every answer alike.
    """
    from hashlib import sha256

    # As a tuple's repr, so that no id can reach into its neighbour.
    return sha256(repr((session_id, turn_id, message_id, call_id)).encode()).hexdigest()
