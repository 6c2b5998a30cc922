"""Has a model write a summary of what is left out."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.compactors._counting import counter_of, share_of
from gnomon.compactors._fitting import Fitting
from gnomon.compactors._marks import summary
from gnomon.compactors._plan import Plan
from gnomon.compactors._transcript import entries
from gnomon.compactors._writing import LEAST_TOKENS, NoSummary, Writing
from gnomon.contracts.compactor import Ask
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.provider import Provider
from gnomon.errors import ConfigError
from gnomon.types.messages import Message

__all__ = ["SummarizeCompactor"]


class SummarizeCompactor:
    """Puts a model's summary in the place of the oldest exchanges.

    What comes back: the system prompt, what the user said first, what the user said last, the summary, and
    the newest exchanges as they are. With the summary they fill the budget, or a share of it, `keep`, where
    that is enough for the last exchange. The summary is made from what was said, what tools were asked and
    what they gave; an earlier summary goes into it. It has at most `summary_tokens`, and a quarter of the
    budget.

    `compact_asking` asks the model of the agent, or `model` of the same provider; `compact` asks `provider`.
    One question comes to at most `window` tokens: what is longer is summarised in parts, and then the parts
    are. When not said, that is the budget for `compact`, and twice the budget for `compact_asking`: an agent
    makes a conversation half as long as it may be.

    An answer that is empty, too long, a refusal or a tool call is asked for once more, shorter. If that will
    not do either, the oldest exchanges are left out without a summary, and the note in their place says so.
    Errors of the service are raised.
    """

    name = "summarize"

    def __init__(
        self,
        *,
        provider: Provider | None = None,
        model: str | None = None,
        keep: float = 1.0,
        summary_tokens: int = 2_000,
        window: int | None = None,
        counter: TokenCounter | str | None = None,
    ) -> None:
        if summary_tokens < LEAST_TOKENS:
            raise ValueError(f"summary_tokens is at least {LEAST_TOKENS}, not {summary_tokens}")
        if window is not None and window < 1:
            raise ValueError(f"window is a number of tokens above zero, not {window}")
        self._provider = provider
        self._model = model
        self._keep = share_of(keep)
        self._summary_tokens = summary_tokens
        self._window = window
        self._counter = counter_of(counter)

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        """What the model is to see from now on; `provider` writes the summary."""
        fitting = Fitting(messages, budget, self._counter)
        if fitting.fits:
            return fitting.messages
        if self._provider is None:
            raise ConfigError(
                "a SummarizeCompactor without a provider has no model to write the summary",
                hint="give it one: SummarizeCompactor(provider=…), or let an agent use it",
            )
        return await self._compacted(fitting, self._provider.complete, budget)

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> tuple[Message, ...]:
        """What the model is to see from now on; whoever `ask` reaches writes the summary."""
        fitting = Fitting(messages, budget, self._counter)
        return fitting.messages if fitting.fits else await self._compacted(fitting, ask, 2 * budget)

    async def _compacted(self, fitting: Fitting, ask: Ask, window: int) -> tuple[Message, ...]:
        limit = min(self._summary_tokens, fitting.budget // 4)
        plan = self._plan(fitting, limit) if limit >= LEAST_TOKENS else None
        if plan is None:
            return fitting.truncated(self._keep, "there is no room for one")
        try:
            text = await self._writing(ask, limit, window).summary_of(entries(plan.dropped(fitting.messages)))
        except NoSummary as why:
            return fitting.truncated(self._keep, str(why))
        found = fitting.joined(plan, lambda gone: summary(text, gone))
        if fitting.count(found) > fitting.budget:
            return fitting.truncated(self._keep, "there is no room for one")
        return found

    def _plan(self, fitting: Fitting, limit: int) -> Plan | None:
        """With room for the summary and its frame; none where the rest would not fit beside them."""
        room = limit + fitting.count((summary("", len(fitting.messages)),))
        limit = int(fitting.budget * self._keep)
        return fitting.layout(summaries=False).plan(limit - room, fitting.budget - room)

    def _writing(self, ask: Ask, limit: int, window: int) -> Writing:
        window = self._window or window
        return Writing(ask, self._counter, limit=limit, window=window, model=self._model)
