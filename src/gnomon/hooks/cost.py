"""What steps cost, and how much they may."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from threading import Lock

import msgspec

from gnomon.contracts.hook import Step
from gnomon.errors import BudgetExceeded, ConfigError
from gnomon.facts.catalogue import Catalogue
from gnomon.hooks._passing import Outcome, passing
from gnomon.hooks._prices import Item, items, items_of_response
from gnomon.hooks._spending import Accounts, Spend
from gnomon.stream import PullStream
from gnomon.types.events import RunEvent
from gnomon.types.records import utc_now
from gnomon.types.requests import Response, Usage
from gnomon.types.steps import HookEvent

__all__ = ["CostReport", "CostTracker", "Spend"]

log = logging.getLogger("gnomon.hooks.cost")

_MOST_TOLD = 1_000
_TOTAL = ""


class CostReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent, by whom and on what; runs are named `session/turn`, models `provider:model`."""

    total: Spend
    runs: dict[str, Spend]
    sessions: dict[str, Spend]
    users: dict[str, Spend]
    models: dict[str, Spend]


class CostTracker:
    """Prices every answer, and stops what has used up its budget before it asks again.

    ```python
    tracker = CostTracker(run=0.25, session=2.00, total=50.00)
    Agent("openai", hooks=[tracker])
    ```

    Budgets are in US dollars: of a run (one turn), of a session, of a user and of everything. They are
    looked at before a model is asked: `BudgetExceeded` says which one is used up. A call under way is not
    stopped, so several at the same time may go beyond it together. A step is of the session's user, unless
    `user_of` says whose it is.

    Attempts that failed on the way count. What a cache gives back has used no tokens, and costs nothing.
    What has no known price is counted by itself (`Spend.unpriced`): no budget can count it, and the log
    says so once a model. `models` sets prices, as for an agent.

    It remembers the `keep` runs, sessions, users and models that were used last, while the process runs.
    """

    name = "cost"

    def __init__(
        self,
        *,
        run: float | None = None,
        session: float | None = None,
        user: float | None = None,
        total: float | None = None,
        user_of: Callable[[HookEvent], str | None] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        catalogue: Catalogue | None = None,
        keep: int = 1_000,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if keep < 1:
            raise ConfigError(f"keep of hook 'cost' is 1 or more, not {keep}")
        self._limits = _checked(run=run, session=session, user=user, total=total)
        self._accounts = {scope: Accounts(keep) for scope in ("run", "session", "user", "model")}
        self._accounts["total"] = Accounts(1)
        self._user_of = user_of
        self._catalogue = catalogue or Catalogue(models)
        self._now = now
        self._lock = Lock()  # a report may be asked for by another thread
        self._told: set[str] = set()
        self._note = f"cost.{id(self)}"

    async def before(self, event: HookEvent) -> None:
        """It has nothing to see to: what must stop a call stands around it."""

    async def after(self, event: HookEvent) -> None:
        """Count an answer of which the service did not say what it took: by now that is estimated."""
        pending = event.notes.pop(self._note, None)
        if isinstance(pending, Response):
            answer = event.response if event.response and _is_whole(event.response.usage) else pending
            self._count(event, self._items_of(answer, event)[-1:])

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        """The step as it is; `BudgetExceeded` in its place where a budget is used up."""
        if event.kind != "model":
            return await call(event)
        self._check(event)
        return await passing(event, call, ended=lambda outcome: self._end(event, outcome))

    def report(self) -> CostReport:
        """What was spent so far."""
        with self._lock:
            kept = {scope: accounts.all() for scope, accounts in self._accounts.items()}
        return CostReport(
            total=kept["total"].get(_TOTAL, Spend()),
            runs=kept["run"],
            sessions=kept["session"],
            users=kept["user"],
            models=kept["model"],
        )

    def _check(self, event: HookEvent) -> None:
        for scope, name in self._scopes(event):
            limit = self._limits.get(scope)
            if limit is None:
                continue
            with self._lock:
                spend = self._accounts[scope].of(name)
            if spend.known >= limit:
                raise _exceeded(scope, name, spend, limit)

    def _end(self, event: HookEvent, outcome: Outcome) -> None:
        answer = outcome.response
        if answer is None or _is_whole(answer.usage):
            self._count(event, items(outcome, self._catalogue, event.name, self._now()))
            return
        event.notes[self._note] = answer
        self._count(event, self._items_of(answer, event)[:-1])

    def _items_of(self, answer: Response, event: HookEvent) -> list[Item]:
        return items_of_response(answer, self._catalogue, event.name, self._now())

    def _count(self, event: HookEvent, spent: list[Item]) -> None:
        scopes = self._scopes(event)
        with self._lock:
            for item in spent:
                for scope, name in (*scopes, ("model", item.model)):
                    self._accounts[scope].add(name, item)
        for item in spent:
            if item.cost is None:
                self._tell(item)

    def _scopes(self, event: HookEvent) -> list[tuple[str, str]]:
        """Each scope that a step belongs to, and its name in there."""
        user = self._user_of(event) if self._user_of is not None else event.user_id
        run = f"{event.session_id}/{event.turn_id}" if event.turn_id else ""
        named = [("run", run), ("session", event.session_id), ("user", user)]
        return [*((scope, name) for scope, name in named if name), ("total", _TOTAL)]

    def _tell(self, item: Item) -> None:
        """Once a model: what is not known cannot be kept within a budget."""
        if item.model in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(item.model)
        what = "is not known" if _is_whole(item.usage) else "cannot be told, its tokens are not known"
        log.warning("the price of an answer of %s %s: no budget counts it", item.model, what)


def _is_whole(usage: Usage) -> bool:
    return usage.input_tokens is not None and usage.output_tokens is not None


def _checked(**limits: float | None) -> dict[str, Decimal]:
    for scope, limit in limits.items():
        if limit is not None and not 0 < limit < float("inf"):
            raise ConfigError(f"the budget for {scope!r} is a number of dollars above zero, not {limit!r}")
    return {scope: Decimal(str(limit)) for scope, limit in limits.items() if limit is not None}


def _exceeded(scope: str, name: str, spend: Spend, limit: Decimal) -> BudgetExceeded:
    whose = {"total": "the whole budget"}.get(scope, f"the budget of {scope} {name!r}")
    more = f", besides {spend.unpriced} without a known price" if spend.unpriced else ""
    return BudgetExceeded(
        f"{whose} is used up: ${spend.known:.4f} of ${limit:f} are spent{more}",
        hint=f"give CostTracker a larger {scope!r}",
    )
