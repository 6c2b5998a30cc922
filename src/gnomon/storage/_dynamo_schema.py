"""The table itself: made when it is not there, and marked with the schema of what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import TypeAlias, cast

from gnomon.errors import InvalidInput, StorageError, WrongSchema
from gnomon.storage._dynamo_errors import TableExists
from gnomon.storage._dynamo_items import SCHEMA_KEY
from gnomon.storage._dynamo_table import Put, Table

__all__ = ["MIGRATIONS", "migrate", "version"]

_MADE_WITHIN_S = 120.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
_KEYS = {("pk", "HASH", "S"), ("sk", "RANGE", "S")}


async def version(table: Table) -> int:
    try:
        found = await table.get(SCHEMA_KEY)
    except WrongSchema:
        return 0
    except InvalidInput as error:
        raise _another(table) from error
    number = found.get("schema_version", 0) if found is not None else 0
    return number if isinstance(number, int) else 0


async def migrate(table: Table) -> None:
    """Each step may be done by several at once, or a second time; what is noted only ever grows."""
    for number, step in enumerate(MIGRATIONS, 1):
        if await version(table) < number:
            await step(table)
            await _note(table, number)


async def _note(table: Table, number: int) -> None:
    noted = Put(
        {**SCHEMA_KEY.item, "schema_version": number},
        "attribute_not_exists(pk) OR schema_version < :number",
        {":number": number},
    )
    waiting = _Waiting(table)
    while True:
        try:
            await table.commit([noted])
            return
        except WrongSchema:  # who answers may not have heard yet of a table that was just made
            await waiting.pause("not there")


async def _make_table(table: Table) -> None:
    waiting = _Waiting(table)
    while (status := await _status(table)) != "ACTIVE":
        if status == "":
            with suppress(TableExists):
                await _create(table)
        await waiting.pause(status or "not there")


class _Waiting:
    """For a table that is being made."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._until = monotonic() + _MADE_WITHIN_S
        self._pause_s = _FIRST_PAUSE_S

    async def pause(self, status: str) -> None:
        if monotonic() + self._pause_s > self._until:
            hint = "look at it in the console of AWS, and call migrate() again"
            raise StorageError(f"{self._table.where}: the table is still {status}", hint=hint)
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)


async def _create(table: Table) -> None:
    request = {
        "TableName": table.name,
        "KeySchema": [{"AttributeName": name, "KeyType": role} for name, role, _ in sorted(_KEYS)],
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, _, kind in sorted(_KEYS)
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    await table.call("create_table", request)


async def _status(table: Table) -> str:
    """Whether the table can be used; one with other keys is somebody else's. Empty when there is none."""
    try:
        answer = await table.call("describe_table", {"TableName": table.name})
    except WrongSchema:
        return ""
    described = cast("Mapping[str, object]", answer.get("Table", {}))
    if _keys(described) != _KEYS:
        raise _another(table)
    return str(described.get("TableStatus", ""))


def _keys(described: Mapping[str, object]) -> set[tuple[str, str, str]]:
    schema = cast("list[Mapping[str, str]]", described.get("KeySchema", []))
    attributes = cast("list[Mapping[str, str]]", described.get("AttributeDefinitions", []))
    kinds = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in attributes}
    return {(key["AttributeName"], key["KeyType"], kinds.get(key["AttributeName"], "")) for key in schema}


def _another(table: Table) -> WrongSchema:
    message = f"{table.where} is a table of another program: its keys are not the texts pk and sk"
    return WrongSchema(message, hint="name another table; nothing was changed")


Step: TypeAlias = Callable[[Table], Awaitable[None]]

MIGRATIONS: tuple[Step, ...] = (_make_table,)
"""The way from each schema to the next; the first begins with nothing."""
