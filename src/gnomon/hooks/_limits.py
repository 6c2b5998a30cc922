"""What is limited, and the way in that keeps to it."""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf
from typing import Protocol

import msgspec

from gnomon.errors import RateLimited

__all__ = ["MOMENT_S", "OURS", "Lane", "Limits", "waited_too_long"]

MINUTE_S = 60.0

MOMENT_S = 1e-6
"""Less than that is not waited for: a clock that is read as a float may never get there."""

OURS = "rate_limit_hook"
"""The code of an error that is raised here: the service has not said anything."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What may go in a minute, and how much at the same time; `None` is no limit.

    `burst_s` is how many seconds' worth may go at once: in t seconds never more than
    the limit for `burst_s` + t seconds.
    """

    requests: float | None = None
    tokens: float | None = None
    concurrent: int | None = None
    burst_s: float = MINUTE_S

    @property
    def request_s(self) -> float:
        """How long it takes until one more request comes back."""
        return 0.0 if self.requests is None else MINUTE_S / self.requests

    @property
    def token_s(self) -> float:
        return 0.0 if self.tokens is None else MINUTE_S / self.tokens

    def room_s(self, cost_s: float) -> float:
        """How far from whole a limit may be, so that this can be taken; not at all for more than it holds."""
        return max(self.burst_s - cost_s, 0.0)

    def described(self) -> str:
        """The limits in words, for errors."""
        facts = [
            f"{self.requests:,g} requests a minute" if self.requests is not None else "",
            f"{self.tokens:,g} tokens a minute" if self.tokens is not None else "",
            f"{self.concurrent} at the same time" if self.concurrent is not None else "",
        ]
        return ", ".join(fact for fact in facts if fact)


class Lane(Protocol):
    """The way in for all steps of one key: alone in this process, or shared with others."""

    def enter_at_once(self, tokens: float) -> bool:
        """Take, where nobody has to be waited for or asked; else nothing is taken."""
        ...

    async def enter(self, tokens: float, max_wait_s: float | None) -> str:
        """Wait until it is one's turn, and take. It gives the name of what was taken, if that has one."""
        ...

    def leave(self, taken: str, tokens: float, used: float) -> Awaitable[None] | None:
        """Settle: of so many tokens that were taken, so many were used. What it gives is to be waited for."""
        ...

    async def shut_for(self, seconds: float) -> None:
        """Let nobody in for so long."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when it is forgotten."""
        ...


def waited_too_long(key: str, limits: Limits, waited_s: float, left_s: float) -> RateLimited:
    """`left_s` is how long it would take still, where that is known."""
    return RateLimited(
        f"{key} is limited to {limits.described()}, and it was not this step's turn within {waited_s:.3g} s",
        vendor_code=OURS,
        retry_after=left_s if 0 < left_s < inf else None,
        hint="let less run at the same time, or raise max_wait_s or the limits of RateLimitHook",
    )
