"""The events of a model step on their way past: what they come to, and what was spent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import msgspec

from gnomon.contracts.hook import Step
from gnomon.errors import GnomonError, ProviderError
from gnomon.stream import PullStream
from gnomon.types.events import AttemptDiscarded, Done, RunEvent, StreamWarning, Unknown, UsageUpdate
from gnomon.types.requests import Response, Spent, Usage, spent
from gnomon.types.steps import HookEvent

__all__ = ["Outcome", "passing"]

_TOLD = frozenset({UsageUpdate, AttemptDiscarded, StreamWarning, Unknown, Done})
"""What shows nobody anything; or is the end."""

_CACHED = "cached"
"""The code of the warning that an answer out of a cache begins with: nothing of it was paid for."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream came to: an answer, or nothing but what was spent on it.

    `is_partial` is set where it is not known what was used: it was shown in part, and nobody has said
    how much that was.
    """

    response: Response | None = None
    spent: tuple[Spent, ...] = ()
    is_partial: bool = False


async def passing(
    event: HookEvent,
    call: Step,
    *,
    ended: Callable[[Outcome], None],
    began: Callable[[], None] = lambda: None,
) -> PullStream[RunEvent]:
    """The events of the step as they are. `began` is called with the first that is shown, `ended` once."""
    try:
        stream = await call(event)
    except GnomonError as error:
        ended(Outcome(spent=_said(error)))
        raise
    return _Passing(stream, _Seen(event, ended, began))


class _Passing(PullStream[RunEvent]):
    def __init__(self, behind: PullStream[RunEvent], seen: _Seen) -> None:
        super().__init__(self._read(behind, seen))
        self._behind = behind

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            await self._behind.aclose()  # for a stream that was never read

    async def _read(self, behind: PullStream[RunEvent], seen: _Seen) -> AsyncGenerator[RunEvent, None]:
        try:
            async with behind:
                async for event in behind:
                    # This is what a token costs: nearly all events are of a kind that is shown.
                    if event.__class__ in _TOLD:
                        seen.take(event)
                    elif not seen.is_shown:
                        seen.show()
                    yield event
        except GnomonError as error:
            seen.fail(error)
            raise
        finally:
            seen.leave()


class _Seen:
    """What has passed so far of one stream."""

    def __init__(self, event: HookEvent, ended: Callable[[Outcome], None], began: Callable[[], None]) -> None:
        self._provider, _, self._model = event.name.partition(":")
        self._ended = ended
        self._began = began
        self._discarded: list[Spent] = []
        self._usage: Usage | None = None
        self._is_over = False
        self._is_free = False
        self._has_begun = False
        self.is_shown = False

    def show(self) -> None:
        self.is_shown = True
        if not self._has_begun:
            self._has_begun = True
            self._began()

    def take(self, event: RunEvent) -> None:
        if isinstance(event, Done):
            self._end(Outcome(response=event.response))
        elif isinstance(event, UsageUpdate):
            self._usage = event.usage
        elif isinstance(event, AttemptDiscarded):
            usage = event.usage or self._usage
            if usage is not None:
                self._discarded.append(spent(usage, event.provider, event.model))
            self._usage, self.is_shown = None, False
        elif isinstance(event, StreamWarning) and event.code == _CACHED:
            self._is_free = True

    def fail(self, error: GnomonError) -> None:
        """A failed attempt says what it has used, or the events have said it."""
        known = _said(error) or self._so_far()
        is_partial = self.is_shown and len(known) <= len(self._discarded)
        self._end(Outcome(spent=known, is_partial=is_partial))

    def leave(self) -> None:
        """The reader has gone. What a vendor says in the middle of an answer is not the last word."""
        if not self._is_free and (self.is_shown or self._so_far()):
            self._end(Outcome(spent=self._so_far(), is_partial=self.is_shown))

    def _so_far(self) -> tuple[Spent, ...]:
        now = () if self._usage is None else (spent(self._usage, self._provider, self._model or None),)
        return (*self._discarded, *now)

    def _end(self, outcome: Outcome) -> None:
        if not self._is_over:
            self._is_over = True
            self._ended(outcome)


def _said(error: GnomonError) -> tuple[Spent, ...]:
    return error.spent if isinstance(error, ProviderError) else vars(error).get("spent", ())
