"""Remembers that a service has failed, so that not everybody has to find out again."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

__all__ = ["Breaker"]

_LONGEST_REST = 8
"""In times of the first rest: how far it grows while one probe after another fails."""


class Breaker:
    """Closed while all is well. After some failures in a row it is open: nobody asks for a while.

    Then it is half open: one may ask, and what becomes of that decides for everybody. Whoever
    was let in by `enter` must say how it went, with one of `succeeded`, `failed` and `left` and the
    ticket that `enter` gave. A ticket from before the last rest began counts for nothing: that
    the service failed is known by then, and whether it is well again is for the probe to say.
    """

    def __init__(self, failures: int, rest_s: float, now: Callable[[], float] = monotonic) -> None:
        self._limit = failures
        self._rest_s = rest_s
        self._now = now
        self._ticket = 1
        self._failures = 0
        self._rests = 0  # in a row
        self._open_until: float | None = None
        self._probing = False
        self.why = ""
        """What the last failure was."""

    @property
    def rests_for(self) -> float:
        """Seconds until somebody may ask; zero when it is closed, or a probe is due."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self._now())

    def enter(self) -> int | None:
        """A ticket, if one may ask now. While half open, the first to come gets one and the others do not."""
        if self._open_until is not None:
            if self._probing or self.rests_for > 0:
                return None
            self._probing = True
        return self._ticket

    def succeeded(self, ticket: int) -> None:
        if ticket == self._ticket:
            self._failures = self._rests = 0
            self._open_until, self._probing = None, False

    def failed(self, ticket: int, why: str = "") -> None:
        if ticket != self._ticket:
            return
        self.why = why
        self._failures += 1
        if self._probing or self._failures >= self._limit:
            self._rest()

    def left(self, ticket: int) -> None:
        """It ended in a way that says nothing of the service: cancelled, or the request was wrong."""
        if ticket == self._ticket:
            self._probing = False

    def _rest(self) -> None:
        longer = min(2 ** min(self._rests, _LONGEST_REST), _LONGEST_REST)
        self._open_until = self._now() + self._rest_s * longer
        self._rests += 1
        self._ticket += 1
        self._failures, self._probing = 0, False
