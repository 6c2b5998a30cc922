"""One DynamoDB table, as the rest of this back end calls it: plain values in and out, bounded in time.

The driver never asks twice by itself: what may be asked again is decided here
and above. What the service puts off (throttling, a conflict with another
transaction) was not done, and is asked again here; what broke is `Lost`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import TypeAlias, TypeVar, cast

import msgspec

from gnomon.errors import Damaged, GnomonError, StorageError
from gnomon.storage._dynamo_errors import DRIVER_ERRORS, Busy, Refused, translated
from gnomon.storage._rows import Lost

__all__ = ["Action", "Delete", "Item", "Key", "Opening", "Put", "Table", "at_once"]

Value: TypeAlias = str | int | bytes
Item: TypeAlias = Mapping[str, Value]
_Wire: TypeAlias = Mapping[str, Mapping[str, object]]
_Answer: TypeAlias = Mapping[str, object]

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""What gives the driver's client, and closes it."""

_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.025, 1.0
_MOST_KEYS = 100
_AT_ONCE = 8


class Key(msgspec.Struct, frozen=True):
    """The key of an item."""

    pk: str
    sk: str

    @property
    def item(self) -> dict[str, Value]:
        return {"pk": self.pk, "sk": self.sk}


class Put(msgspec.Struct, frozen=True):
    """Write an item, in the stead of what is there, if a condition holds."""

    item: Item
    only_if: str = ""
    values: Item = {}

    def request(self, table: str) -> dict[str, object]:
        return {"TableName": table, "Item": _to_wire(self.item), **_condition(self.only_if, self.values)}


class Delete(msgspec.Struct, frozen=True):
    """Remove an item, if a condition holds; one that is not there is removed already."""

    key: Key
    only_if: str = ""
    values: Item = {}

    def request(self, table: str) -> dict[str, object]:
        return {"TableName": table, "Key": _to_wire(self.key.item), **_condition(self.only_if, self.values)}


Action: TypeAlias = Put | Delete


class Table:
    """The table's calls. It connects at the first of them."""

    def __init__(self, name: str, where: str, opening: Opening, *, limit_s: float, busy_s: float) -> None:
        self.name = name
        self.where = where
        self.busy_s = busy_s
        """How long a call that is put off is asked again, before the layer above is told."""
        self._opening = opening
        self._limit_s = limit_s
        self._open: AbstractAsyncContextManager[object] | None = None
        self._client: object | None = None
        self._connecting = asyncio.Lock()
        self._is_closed = False

    # --- writing

    async def commit(self, actions: Sequence[Action]) -> frozenset[int]:
        """Do all or nothing; which conditions do not hold, none when it is done."""
        try:
            if len(actions) == 1:
                operation = "put_item" if isinstance(actions[0], Put) else "delete_item"
                await self.call(operation, actions[0].request(self.name))
            else:
                items = [{type(action).__name__: action.request(self.name)} for action in actions]
                await self.call("transact_write_items", {"TransactItems": items})
        except Refused as refused:
            return refused.at
        return frozenset()

    # --- reading, always what was written last

    async def get(self, key: Key, names: str = "") -> Item | None:
        request = {"TableName": self.name, "Key": _to_wire(key.item), "ConsistentRead": True}
        answer = await self.call("get_item", request | _projection(names))
        found = answer.get("Item")
        return None if found is None else _from_wire(found)

    async def get_many(self, keys: Sequence[Key], names: str = "") -> list[Item]:
        """The items that are there, in any order."""
        batches = [keys[at : at + _MOST_KEYS] for at in range(0, len(keys), _MOST_KEYS)]
        found = await at_once([_Batch(self, batch, names).read for batch in batches], 4)
        return [item for items in found for item in items]

    async def query(
        self,
        pk: str,
        *,
        low: str = "",
        high: str = "",
        descending: bool = False,
        limit: int = 0,
        names: str = "",
        start: _Wire | None = None,
    ) -> tuple[list[Item], _Wire | None]:
        """The items of a partition from one sort key to another, and where to go on, if anywhere.

        A bound alone is exclusive; of two, both are inclusive: that is what the service offers.
        """
        condition, values = _between(pk, low, high)
        request: dict[str, object] = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": _to_wire(values),
            "ScanIndexForward": not descending,
            "ConsistentRead": True,
        }
        request |= _projection(names)
        request |= {"Limit": limit} if limit else {}
        request |= {"ExclusiveStartKey": start} if start else {}
        answer = await self.call("query", request)
        items = [_from_wire(item) for item in cast("list[object]", answer.get("Items", []))]
        return items, cast("_Wire | None", answer.get("LastEvaluatedKey") or None)

    def read(self, kind: type[_S], item: Item) -> _S:
        try:
            return msgspec.convert(item, kind)
        except msgspec.ValidationError as error:
            raise Damaged(f"{self.where}: a stored {kind.__name__} cannot be read: {error}") from error

    # --- calling

    async def call(self, operation: str, request: Mapping[str, object]) -> _Answer:
        """Ask, and ask again for as long as the service puts it off."""
        patience = Patience(self.busy_s)
        while True:
            try:
                return await self._asked(operation, request)
            except Busy as busy:
                await patience.pause(busy)

    async def _asked(self, operation: str, request: Mapping[str, object]) -> _Answer:
        try:
            # The driver's own limits do not count the wait for a free connection.
            async with asyncio.timeout(self._limit_s):
                client = self._client or await self._connected()
                method = cast("Callable[..., Awaitable[_Answer]]", getattr(client, operation))
                return await method(**request)
        except DRIVER_ERRORS as error:
            made = translated(error, self.where)
            # What the service says of a signature stays out of the trace too.
            raise made from (None if isinstance(made, GnomonError | Refused) else error)

    async def _connected(self) -> object:
        async with self._connecting:
            if self._is_closed:
                raise StorageError(f"{self.where} is closed", hint="open it anew")
            if self._client is None:
                opening = self._opening()
                self._client = await opening.__aenter__()
                self._open = opening
            return self._client

    async def close(self) -> None:
        self._is_closed = True
        async with self._connecting:
            opened, self._open, self._client = self._open, None, None
            if opened is not None:
                await opened.__aexit__(None, None, None)


class Patience:
    """The pauses of one call that is put off again and again."""

    def __init__(self, limit_s: float) -> None:
        self._until = monotonic() + limit_s
        self._longest_s = _FIRST_PAUSE_S

    async def pause(self, busy: Exception) -> None:
        # Those that were put off together must not come back together.
        pause_s = random.uniform(0, self._longest_s)  # noqa: S311 - to spread, not to hide
        if monotonic() + pause_s > self._until:
            raise Lost(f"it is too busy: {busy}") from busy
        self._longest_s = min(_LONGEST_PAUSE_S, self._longest_s * 2)
        await asyncio.sleep(pause_s)


class _Batch:
    """Up to a hundred items at once; what the service leaves out is asked for again."""

    def __init__(self, table: Table, keys: Sequence[Key], names: str) -> None:
        self._table = table
        self._asked: Mapping[str, object] = {
            "Keys": [_to_wire(key.item) for key in keys],
            "ConsistentRead": True,
            **_projection(names),
        }

    async def read(self) -> list[Item]:
        items: list[Item] = []
        patience = Patience(self._table.busy_s)
        while self._asked:
            request = {"RequestItems": {self._table.name: self._asked}}
            answer = await self._table.call("batch_get_item", request)
            found = cast("Mapping[str, list[object]]", answer.get("Responses", {})).get(self._table.name, [])
            items += [_from_wire(item) for item in found]
            left = cast("Mapping[str, Mapping[str, object]]", answer.get("UnprocessedKeys", {}))
            self._asked = left.get(self._table.name, {})
            if self._asked and found:
                patience = Patience(self._table.busy_s)
            elif self._asked:
                await patience.pause(Busy("nothing was read"))
        return items


async def at_once(calls: Sequence[Callable[[], Awaitable[_T]]], most: int = _AT_ONCE) -> list[_T]:
    """What the calls give, in their order, a few of them at a time; the first failure ends them all."""
    if len(calls) == 1:
        return [await calls[0]()]
    given: dict[int, _T] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for at, call in waiting:
            given[at] = await call()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(most, len(calls))):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
    return [given[at] for at in range(len(calls))]


# --- values ---------------------------------------------------------------------


def _to_wire(item: Item) -> dict[str, Mapping[str, object]]:
    return {name: _wired(value) for name, value in item.items()}


def _wired(value: Value) -> Mapping[str, object]:
    if isinstance(value, str):
        return {"S": value}
    return {"N": str(value)} if isinstance(value, int) else {"B": value}


def _from_wire(item: object) -> Item:
    return {name: _plain(value) for name, value in cast(_Wire, item).items()}


def _plain(value: Mapping[str, object]) -> Value:
    ((kind, plain),) = value.items()
    return int(str(plain)) if kind == "N" else cast("str | bytes", plain)


def _condition(only_if: str, values: Item) -> dict[str, object]:
    if not only_if:
        return {}
    given = {"ExpressionAttributeValues": _to_wire(values)} if values else {}
    return {"ConditionExpression": only_if, **given}


def _projection(names: str) -> dict[str, object]:
    return {"ProjectionExpression": names} if names else {}


def _between(pk: str, low: str, high: str) -> tuple[str, Item]:
    if low and high:
        return "pk = :pk AND sk BETWEEN :low AND :high", {":pk": pk, ":low": low, ":high": high}
    if low:
        return "pk = :pk AND sk > :low", {":pk": pk, ":low": low}
    if high:
        return "pk = :pk AND sk < :high", {":pk": pk, ":high": high}
    return "pk = :pk", {":pk": pk}
