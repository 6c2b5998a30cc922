"""Names for turns, messages and calls."""

from __future__ import annotations

import os
import time

__all__ = ["idempotency_key", "new_id"]


def new_id(prefix: str) -> str:
    """A name nobody else has; later ones sort after earlier ones, to the millisecond."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def idempotency_key(session_id: str, turn_id: str, call_id: str) -> str:
    """The same for every attempt at one call: it comes from what was recorded, not from a counter."""
    from hashlib import sha256

    return sha256("\0".join((session_id, turn_id, call_id)).encode()).hexdigest()
