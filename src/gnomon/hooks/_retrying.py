"""Whether a step is done again, and when: the course of one step through its attempts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gnomon.errors import GnomonError, ProviderError
from gnomon.hooks._notes import add_retry
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    RunEvent,
    StreamWarning,
    Unknown,
    UsageUpdate,
)
from gnomon.types.requests import Spent, Usage, add_usage, spent
from gnomon.types.steps import HookEvent

__all__ = ["NOTED", "Attempt", "Course", "Policy"]

NOTED = frozenset({StreamWarning, Unknown, UsageUpdate, AttemptDiscarded})
"""What shows nobody anything, so that one can still start again in silence; or takes back what was shown."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How often, how long, and with which clock."""

    attempts: int
    deadline_s: float
    base_s: float
    cap_s: float
    clock: Callable[[], float]
    jitter: Callable[[float, float], float]


class Course:
    """The way of one step: how often it was tried, and what that has used."""

    def __init__(self, event: HookEvent, policy: Policy) -> None:
        self.event = event
        self._policy = policy
        self._ends_at = policy.clock() + policy.deadline_s
        self._tries = 1
        self.spent: tuple[Spent, ...] = ()
        """What the attempts before this one have used."""

    def wait_s(self, error: GnomonError | None = None) -> float | None:
        """Seconds until the next attempt; `None` when there is none."""
        policy = self._policy
        left_s = self._ends_at - policy.clock()
        if self._tries >= policy.attempts:
            return None
        asked_s = error.retry_after if isinstance(error, ProviderError) else None
        # Agents that start together fail together. Without the spread they
        # would also come back together, and be limited again.
        if asked_s is not None:
            least_s, spread_s = max(asked_s, 0.0), policy.base_s
        else:
            least_s, spread_s = 0.0, min(policy.base_s * 2.0 ** min(self._tries - 1, 60), policy.cap_s)
        if not least_s <= left_s:  # so that what is no number ends it too
            return None
        return min(least_s + policy.jitter(0.0, spread_s), left_s)

    def next(self) -> None:
        """Another attempt begins."""
        self._tries += 1
        add_retry(self.event)

    def shown_event(self) -> HookEvent:
        """The step as the hooks further in see it: with the number of its attempt."""
        if self._tries == 1:
            return self.event
        return msgspec.structs.replace(self.event, attempt=self.event.attempt + self._tries - 1)

    def give_up(self, error: GnomonError) -> None:
        """What all attempts have used goes with the error."""
        if self.spent:
            last: tuple[Spent, ...] = vars(error).get("spent", ())
            vars(error)["spent"] = (*self.spent, *last)  # an error of any class: a budget may end it, too


class Attempt:
    """One answer of a model: what is held back of it, and what it has used."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._told = 0  # attempts of its own, whose spend an `AttemptDiscarded` has told
        self._has_usage = False
        self._held: list[RunEvent] = []
        self.is_shown = False
        self.is_over = False

    def is_due(self, event: RunEvent) -> bool:
        """Whether what nobody sees may go out already: it waits for something that is seen."""
        if isinstance(event, UsageUpdate):
            self._has_usage = True
        elif isinstance(event, AttemptDiscarded):
            self._told += event.usage is not None or self._has_usage
            self._has_usage = False
            return True
        if not self.is_shown:
            self._held.append(event)
        return self.is_shown

    def begin_to_show(self) -> list[RunEvent]:
        """From now on a reader has seen something; what was held back goes before it."""
        self.is_shown = True
        return self._held

    def completed(self, done: Done) -> Done:
        """The last word, with what the attempts before have used."""
        self.is_over = True
        earlier = self._course.spent
        if not earlier:
            return done
        response = msgspec.structs.replace(done.response, discarded=(*earlier, *done.response.discarded))
        return Done(response)

    def discarded(self, error: GnomonError) -> AttemptDiscarded | None:
        """Note what was used. What a reader must be told to forget, if anything was shown."""
        used: tuple[Spent, ...] = error.spent if isinstance(error, ProviderError) else ()
        last = next(iter(used[self._told :][-1:]), None)
        if self.is_shown and last is None:
            # Something was used: what nobody has reported is unknown, and not nothing.
            provider, _, model = self._course.event.name.partition(":")
            last = spent(Usage(), provider, model or None)
            used = (*used, last)
        self._course.spent += used
        if not self.is_shown or last is None:
            return None
        reason = f"{self._course.event.name} failed: {error.summary}"
        return AttemptDiscarded(reason, add_usage((last,)), last.provider, last.model)
