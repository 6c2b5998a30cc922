"""What hooks of one step tell one another, in its notes."""

from __future__ import annotations

from gnomon.types.steps import HookEvent

__all__ = ["add_retry", "retries"]

_RETRIES = "gnomon.retries"


def add_retry(event: HookEvent) -> None:
    """The step is done once more."""
    event.notes[_RETRIES] = retries(event) + 1


def retries(event: HookEvent) -> int:
    """How often the step was done again."""
    found = event.notes.get(_RETRIES, 0)
    return found if isinstance(found, int) else 0
