"""`Memory`: facts that outlive a session, and those of one session, for one user of one agent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Never, TypeAlias, cast

from gnomon import registry
from gnomon._threads import run_in_thread
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.storage import MemoryStore
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import ConfigError, GnomonError, InvalidInput
from gnomon.memory._block import block_of
from gnomon.memory._ranking import ranked
from gnomon.memory._scope import Scope, checked_id, checked_key, checked_value
from gnomon.memory._shelf import Shelf, StoreSource
from gnomon.types.records import MemoryRecord, utc_now

__all__ = ["LOCAL", "Memory", "UserOf", "of_session"]

log = logging.getLogger("gnomon.memory")

UserOf: TypeAlias = Callable[[ToolContext[Never]], str]
"""Says whose memory a call is about, from its context: `lambda context: context.deps.user`."""


LOCAL = "local"
"""Whose memory it is in a session that is nobody's."""


def of_session(context: ToolContext[Never]) -> str:
    """The user whose session it is."""
    return context.user_id or LOCAL


class Memory:
    """What an agent remembers of a user, on any store.

    ```python
    memory = Memory(storage, agent_id="helper", user_id="ann")
    await memory.remember("favourite_colour", "green")
    await memory.recall("which colour?")
    ```

    `storage` keeps it: a store, a view of it (`storage.scoped("acme")`) or a function that gives one.
    `user_id` is whose memory it is: a text, or a function of the `ToolContext` of a call. Without one it is
    of the user whose session it is used in, and of `local` where that is nobody's. It may not be empty, and
    no user or agent sees what is another's.

    With a `session_id`, what is remembered is of that session alone, and goes with it. Values are texts of at
    most `max_value_chars`; what looks like a password or a key is refused. A user has at most `max_entries`.
    The store is waited for `timeout_s`, then `Unavailable` is raised.
    """

    def __init__(
        self,
        storage: StoreSource,
        *,
        agent_id: str,
        user_id: str | UserOf = of_session,
        budget_tokens: int = 1_000,
        counter: TokenCounter | None = None,
        timeout_s: float = 5.0,
        max_value_chars: int = 2_000,
        max_entries: int = 10_000,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        is_given = isinstance(cast(object, storage), MemoryStore) or callable(storage)
        if not is_given or isinstance(storage, type):
            raise TypeError(f"memory is kept in a Storage, not in {storage!r:.80}")
        self.agent_id = checked_id("agent_id", agent_id)
        self._user: str | UserOf = user_id if callable(user_id) else checked_id("user_id", user_id)
        limits = {
            "budget_tokens": budget_tokens,
            "timeout_s": timeout_s,
            "max_value_chars": max_value_chars,
            "max_entries": max_entries,
        }
        for name, limit in limits.items():
            _check_limit(name, limit)
        self._budget_tokens = budget_tokens
        self._counter = counter
        self._max_value_chars = max_value_chars
        self._now = now
        self._shelf = Shelf(storage, timeout_s=timeout_s, max_entries=max_entries)

    async def remember(
        self, key: str, value: str, *, session_id: str = "", user_id: str | None = None
    ) -> bool:
        """Keeps the value under the key, in place of what was there; tells whether it was another."""
        scope = self._scope(user_id, session_id)
        key = checked_key(key)
        value, now = checked_value(key, value, self._max_value_chars), self._now()
        record = MemoryRecord(
            id=scope.record_id(key),
            key=key,
            value=value,
            created_at=now,
            updated_at=now,
            session_id=session_id,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            kind=scope.kind,
        )
        return await self._shelf.put(scope, record)

    async def recall(
        self, query: str = "", limit: int = 5, *, session_id: str = "", user_id: str | None = None
    ) -> tuple[MemoryRecord, ...]:
        """What fits the question best, by its words; without one, what was remembered last."""
        _check_limit("limit", limit)
        records = await self._shelf.seen(self._scope(user_id, session_id))
        found = await run_in_thread(lambda: ranked(records, query), name="recall")
        return tuple(found[:limit])

    async def forget(self, key: str, *, session_id: str = "", user_id: str | None = None) -> bool:
        """Deletes what is kept under the key, for good and for the session; tells whether there was any."""
        return await self._shelf.drop(self._scope(user_id, session_id), checked_key(key))

    async def forget_all(self, user_id: str | None = None) -> int:
        """Deletes all that this agent remembers of the user, in every session; tells how many it was."""
        return await self._shelf.drop_all(self._scope(user_id, ""))

    async def block(
        self,
        budget_tokens: int | None = None,
        *,
        query: str = "",
        session_id: str = "",
        user_id: str | None = None,
    ) -> str:
        """What is remembered, as a text for the instructions, of at most so many tokens; empty without any.

        The newest come first, and with a `query` those that fit it. It stays the same until something is
        remembered or forgotten, which a `query` or a counter that learns would spoil. When the store
        fails, it is empty, and a warning is logged.
        """
        scope = self._scope(user_id, session_id)
        budget = self._budget_tokens if budget_tokens is None else budget_tokens
        _check_limit("budget_tokens", budget)
        try:
            records = await self._shelf.seen(scope)
        except Exception as error:  # noqa: BLE001 - a turn without memory is better than none
            said = str(error) if isinstance(error, GnomonError) else type(error).__name__
            log.warning("a turn goes without memory: %s", said, extra={"agent": self.agent_id})
            return ""
        counter = self._counter or _estimating()
        return await run_in_thread(lambda: _block(records, query, budget, counter), name="memory")

    # --- for an agent

    def tools(self) -> tuple[Tool, ...]:
        """`remember`, `recall`, `forget` and `forget_all`. A model cannot say whose memory it is."""
        from gnomon.memory._tools import MemoryTools

        return MemoryTools(self).all()

    async def instructions(self, context: ToolContext) -> str:
        """What the model is told of it at the start of a turn."""
        return await self.block(session_id=context.session_id, user_id=self.user_of(context))

    def user_of(self, context: ToolContext) -> str:
        """Whose memory a call is about."""
        if isinstance(self._user, str):
            return self._user
        return checked_id("user_id", self._user(cast("ToolContext[Never]", context)))

    def _scope(self, user_id: str | None, session_id: str) -> Scope:
        if user_id is None:
            user_id = self._user if isinstance(self._user, str) else None
        if user_id is None:
            raise ConfigError(
                "whose memory it is, is known only within a call", hint="say it here, with user_id=…"
            )
        return Scope(self.agent_id, checked_id("user_id", user_id), session_id)


def _block(records: list[MemoryRecord], query: str, budget_tokens: int, counter: TokenCounter) -> str:
    order = ranked(records, query)
    if query:
        fitting = {record.id for record in order}
        order += [record for record in ranked(records, "") if record.id not in fitting]
    return block_of(order, budget_tokens, counter)


def _estimating() -> TokenCounter:
    # Not the one that learns: what fits would change from turn to turn, and the prompt with it.
    return cast("Callable[[], TokenCounter]", registry.load("counters", "estimating"))()


def _check_limit(name: str, limit: object) -> None:
    kinds, kind = ((int, float), "a number") if name == "timeout_s" else ((int,), "a whole number")
    if isinstance(limit, bool) or not isinstance(limit, kinds) or not limit > 0:
        raise InvalidInput(f"{name} is {kind} above 0, not {limit!r}")
