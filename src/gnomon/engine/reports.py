"""What a call reports while it works, as far as guardrails let a reader see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.contracts.guardrail import Window
from gnomon.engine.guards import Guard, Tripped, checked
from gnomon.types.events import Guarded
from gnomon.types.messages import Part, Text

__all__ = ["Reports"]


class Reports:
    """The reports of one call, each shown to the guardrails of results before it is shown to anybody.

    A report is a text by itself, and is shown at once: nothing is held back to wait for the next. So
    one that only together with those before it says what a guardrail looks for is not shown; how far back
    is looked says the guardrail's window.
    """

    def __init__(
        self, guards: Sequence[Guard], turn_id: str, call_id: str, note: Callable[[Guarded], None] | None
    ) -> None:
        self._guards = guards
        self._turn_id = turn_id
        self._call_id = call_id
        self._note = note
        self._noted: set[tuple[str, bool]] = set()
        self._kept = 2 * max(
            (guard.view.size for guard in guards if isinstance(guard.view, Window)), default=0
        )
        self._shown = ""

    async def passed(self, content: Sequence[Part]) -> tuple[Part, ...] | None:
        """What may be shown of a report; `None` when it is nothing."""
        before, shown = self._shown, [await self._part(part) for part in content]
        if any(part is None for part in shown):
            self._shown = before
            return None
        return tuple(part for part in shown if part is not None)

    async def _part(self, part: Part) -> Part | None:
        if not isinstance(part, Text) or not part.text:
            return part
        text, trips = await checked(self._guards, part.text)
        self._tell(trips)
        if any(trip.replacement is None for trip in trips):
            return None
        following = await self._following(text)
        if following is None:
            return None
        self._shown = (self._shown + following)[-self._kept :] if self._kept else ""
        return part if following == part.text else Text(following, part.meta)

    async def _following(self, text: str) -> str | None:
        """The text behind that which was shown before; `None` where the two say what neither says alone."""
        for guard in self._guards:
            before = self._before(guard)
            if not before:
                continue
            result = await guard.check(before + text)
            if result.passed or not (await guard.check(before)).passed:  # cut off, it may look like another
                continue
            trip = Tripped.of(guard, result)
            self._tell([trip])
            if trip.replacement is None or not trip.replacement.startswith(before):
                return None
            text = trip.replacement[len(before) :]
        return text

    def _before(self, guard: Guard) -> str:
        """The end of what was shown, as long as that guardrail's window, from the start of a word."""
        if not isinstance(guard.view, Window):
            return ""
        start = max(len(self._shown) - guard.view.size, 0)
        return self._shown[max(self._shown.rfind(" ", 0, start + 1), 0) :]

    def _tell(self, trips: Sequence[Tripped]) -> None:
        """Each guardrail once: there may be thousands of reports."""
        for trip in trips:
            is_replaced = trip.replacement is not None
            if self._note is None or (trip.guardrail, is_replaced) in self._noted:
                continue
            self._noted.add((trip.guardrail, is_replaced))
            self._note(
                Guarded(
                    turn_id=self._turn_id,
                    guardrail=trip.guardrail,
                    position="tool_results",
                    reason=trip.reason,
                    call_id=self._call_id,
                    replaced=is_replaced,
                )
            )
