"""What was done so far: counted while it is done, and shown to whoever waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

__all__ = ["Progress", "Tally", "silent"]


class Tally(msgspec.Struct, kw_only=True):
    """Counts. `sessions` are those that were gone through; of these `skipped` were there already."""

    tenant: str = ""
    tenants: int = 0
    sessions: int = 0
    skipped: int = 0
    events: int = 0
    blobs: int = 0
    checkpoints: int = 0
    audit: int = 0
    traces: int = 0
    memory: int = 0
    missing_blobs: int = 0
    bytes: int = 0


Progress: TypeAlias = Callable[[Tally], None]
"""Told again and again while something long is done; it must be quick, and must not keep the tally."""


def silent(_: Tally) -> None:
    """For whoever does not want to be told."""
