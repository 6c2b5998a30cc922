"""The ids of spans: made from what stands in the ledger, so that the same span always has the same."""

from __future__ import annotations

from hashlib import sha256

__all__ = ["span_id"]


def span_id(session_id: str, turn_id: str, kind: str, *names: object) -> str:
    """The id of the span of that kind in that turn; the names tell it from others like it."""
    # As a tuple's repr, so that no name can reach into its neighbour.
    digest = sha256(repr((session_id, turn_id, kind, *names)).encode("utf-8", "backslashreplace"))
    return f"spn_{digest.hexdigest()[:32]}"
