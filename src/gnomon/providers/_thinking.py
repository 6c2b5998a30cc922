"""Thinking that goes back to who thought it, and to nobody else (S9)."""

from __future__ import annotations

from gnomon.facts.replay import returns
from gnomon.providers._notes import Notes
from gnomon.types.messages import Thinking

__all__ = ["is_own", "note_dropped"]


def is_own(part: Thinking, vendor: str, model: str, notes: Notes) -> bool:
    """Whether this is sent to that vendor for that model; what is not is noted."""
    own = returns(part, vendor, model)
    if not own:
        note_dropped(notes)
    return own


def note_dropped(notes: Notes) -> None:
    notes.add("thinking_dropped", "thinking that another model did was not sent: only that model can use it")
