"""How long things are waited for, where several have to agree on it."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["LOST_WAKE"]

LOST_WAKE = timedelta(seconds=30)
"""When a session is looked at again that somebody was about to write to."""
