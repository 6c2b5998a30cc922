"""Who is asked next: the course of one request through the members of a fallback."""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import uniform
from typing import TypeAlias

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.errors import (
    ConfigError,
    ContextTooLong,
    GnomonError,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Unauthorized,
)
from gnomon.providers._breaker import Breaker
from gnomon.types.requests import Spent

__all__ = ["Course", "Failed", "Member", "Policy"]

Failed: TypeAlias = ProviderError | ConfigError
"""What another provider may make good, unless it is a refusal."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How often the same is asked again, and how long to wait before that."""

    retries: int
    wait_s: float
    most_wait_s: float


class Member(msgspec.Struct, frozen=True):
    """One of the providers, and what is remembered of it."""

    provider: Provider
    breaker: Breaker

    @property
    def name(self) -> str:
        return f"{self.provider.name}:{self.provider.model}".rstrip(":")


class Course:
    """The way of one request: the same again, then the next, by the class of the error.

    `member` is the one whose turn it is. It was let in by its breaker, which is told how it went
    by one of `succeeded`, `after` and, on every other way out, `leave`.
    """

    def __init__(self, members: tuple[Member, ...], policy: Policy) -> None:
        self._left = list(members)
        self._policy = policy
        self._tries = 0
        self._failures: list[tuple[Member, Failed]] = []
        self._ticket: int | None = None
        self.spent: list[Spent] = []
        """What attempts have used of which nothing was shown."""
        self.member = self._first(members)

    def succeeded(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self.member.breaker.succeeded(ticket)

    def leave(self) -> None:
        """Whatever is not settled yet says nothing of the service."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self.member.breaker.left(ticket)

    def after(self, error: Failed) -> float | None:
        """Whose turn it is now is in `member`; the seconds to wait before, or `None` when nobody is left."""
        self._failures.append((self.member, error))
        self._tries += 1
        self._settle(error)
        if isinstance(error, Refused):
            return None
        wait = self._wait(error)
        again = error.retryable and self._tries <= self._policy.retries and wait <= self._policy.most_wait_s
        if again and self._entered(self.member):
            return wait
        following = self._next()
        if following is None:
            return None
        self.member = following
        return 0.0

    def failure(self, used: tuple[Spent, ...] = ()) -> Failed:
        """The error for all of them: the one that says best what could be done.

        `used` is what the last attempt has used.
        """
        errors = [error for _, error in self._failures]
        chosen = next((error for is_it in _WORTH for error in errors if is_it(error)), errors[-1])
        others = [f"{member.name} ({_said(error)})" for member, error in self._last() if error is not chosen]
        if others:
            tried = "also tried: " + ", ".join(others)
            hint = (chosen.hint or "").removesuffix(tried).removesuffix("; ")  # one error may be raised twice
            chosen.hint = f"{hint}; {tried}" if hint else tried
        if isinstance(chosen, ProviderError):
            chosen.spent = (*self.spent, *used)
        return chosen

    def _first(self, members: tuple[Member, ...]) -> Member:
        member = self._next()
        if member is not None:
            return member
        wait = max(min(member.breaker.rests_for for member in members), 0.1)
        heard = ", ".join(f"{member.name} ({member.breaker.why})" for member in members)
        raise Overloaded(
            "every provider failed a moment ago and is left alone for now",
            vendor="fallback",
            retry_after=wait,
            hint=f"ask again in {wait:.3g} s; last heard: {heard}",
        )

    def _next(self) -> Member | None:
        self._tries = 0
        return next((member for member in self._taken() if self._entered(member)), None)

    def _taken(self) -> Generator[Member]:
        while self._left:
            yield self._left.pop(0)

    def _entered(self, member: Member) -> bool:
        self._ticket = member.breaker.enter()
        return self._ticket is not None

    def _settle(self, error: Failed) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return
        if _is_unwell(error):
            self.member.breaker.failed(ticket, _said(error))
        else:
            self.member.breaker.left(ticket)

    def _wait(self, error: Failed) -> float:
        asked = error.retry_after if isinstance(error, ProviderError) else None
        if asked is not None:
            return asked
        longest = min(self._policy.wait_s * 2.0 ** min(self._tries - 1, 60), self._policy.most_wait_s)
        return uniform(0, longest)  # noqa: S311 - nothing secret

    def _last(self) -> list[tuple[Member, Failed]]:
        """The last error of each."""
        return list({id(member): (member, error) for member, error in self._failures}.values())


def _is_unwell(error: GnomonError) -> bool:
    """Whether it says something of the service, and not of this request."""
    no_way_in = isinstance(error, Unauthorized | ConfigError)
    return error.retryable or no_way_in or isinstance(error, RateLimited)


def _said(error: Failed) -> str:
    return f"{error.code}: {error.message[:120]}"


_WORTH: tuple[Callable[[Failed], bool], ...] = (
    lambda error: isinstance(error, Refused),
    lambda error: isinstance(error, ContextTooLong),  # a shorter conversation helps
    lambda error: error.retryable,  # time helps
    lambda error: isinstance(error, ProviderError),
)
