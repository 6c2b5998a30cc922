"""A store in one DynamoDB table: `dynamodb://region/table`.

A row and its entries in the indexes are written in one transaction, since the
service's own indexes lag behind. Credentials come as they do for any AWS
program: from the environment, a profile or the machine's role, never from the
URL. They must allow GetItem, BatchGetItem, Query, PutItem and DeleteItem on the
table, and DescribeTable and CreateTable where `migrate` is to make it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias, cast
from urllib.parse import urlsplit

import msgspec
from aiobotocore.config import AioConfig  # pyright: ignore[reportMissingTypeStubs]
from aiobotocore.session import AioSession  # pyright: ignore[reportMissingTypeStubs]

from gnomon.errors import ConfigError
from gnomon.storage import _dynamo_schema as schema
from gnomon.storage._dynamo_bodies import Bodies
from gnomon.storage._dynamo_logs import Logs
from gnomon.storage._dynamo_rows import RowItems
from gnomon.storage._dynamo_table import Opening, Table
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import Found, Group, Row, Rows, Span
from gnomon.storage._steady import PATIENCE_S
from gnomon.storage._url import shown, split_settings

__all__ = ["DynamoStorage"]

_Create: TypeAlias = Callable[..., AbstractAsyncContextManager[object]]

_CONNECT_S = 3.0
_CONNECTIONS = 64
_POLL_S = 0.25
_TIMEOUT_S = 5.0
_FORM = "write dynamodb://region/table, and ?endpoint=http://127.0.0.1:8000 for a local one"
_ENDPOINT, _NUMBERS = "endpoint", ("patience_s", "poll_s", "timeout_s")
_REGION = re.compile(r"[a-z0-9-]{2,}")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class DynamoStorage(RecordStorage):
    """`DynamoStorage("dynamodb://eu-central-1/gnomon")`, or `DynamoStorage(client=client, table="gnomon")`.

    A client is one of aiobotocore's for DynamoDB; it stays the caller's to close. `timeout_s` is how long the
    service may be silent, `poll_s` how often a reader that waits looks again; in a URL they are settings too.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: object | None = None,
        table: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        poll_s: float = _POLL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        limits = {"timeout_s": timeout_s, "poll_s": poll_s, "patience_s": patience_s}
        if (url is None) == (client is None):
            raise ConfigError("a store needs either a URL or a client", hint=_FORM)
        if url is not None:
            address = _address(url)
            limits |= address.numbers
            name, where, opening = address.table, shown(url), address.opening(limits["timeout_s"])
        else:
            name, where, opening = _table_name(table), f"dynamodb table {table}", _given(client)
        for setting, number in limits.items():
            if number <= 0:
                raise ConfigError(f"{setting} must be more than 0; {number:g} was given")
        limit_s, busy_s = 3 * limits["timeout_s"], limits["patience_s"] / 2
        calls = Table(name, where, opening, limit_s=limit_s, busy_s=busy_s)
        super().__init__(DynamoRows(calls, limits["poll_s"]), patience_s=limits["patience_s"])


class DynamoRows(Rows):
    """The primitives, each where its subject is."""

    name = "dynamo"
    is_of_one_loop = True

    def __init__(self, table: Table, poll_s: float) -> None:
        super().__init__(table.where)
        self.durability = "what was acknowledged is kept in several places by the service"
        self.poll_s = poll_s  # pyright: ignore[reportAttributeAccessIssue] - its own, not its class's
        self.bodies = Bodies(table)
        self._table = table
        self._rows = RowItems(table, self.bodies)
        self._logs = Logs(table, self.bodies)

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        return await self._rows.write(tenant, row, expect)

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        return await self._rows.get(tenant, kind, id)

    async def find(self, tenant: str, span: Span) -> list[Found]:
        return await self._rows.find(tenant, span)

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        return await self._rows.delete(tenant, kind, id, expect)

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        return await self._logs.append(tenant, session_id, group)

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        return await self._logs.read(tenant, session_id, after_seq, limit)

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        return await self._logs.cut(tenant, session_id, through)

    async def version(self) -> int:
        return await schema.version(self._table)

    async def migrate(self) -> None:
        await schema.migrate(self._table)

    async def close(self) -> None:
        await self._table.close()


# --- where it is ------------------------------------------------------------------


class _Address(msgspec.Struct, frozen=True, kw_only=True):
    region: str
    table: str
    endpoint: str | None
    numbers: dict[str, float]

    def opening(self, timeout_s: float) -> Opening:
        config = AioConfig(
            connect_timeout=min(_CONNECT_S, timeout_s),
            read_timeout=timeout_s,
            max_pool_connections=_CONNECTIONS,
            # A driver that asks again by itself may find its own first try in the way.
            retries={"total_max_attempts": 1, "mode": "standard"},
            parameter_validation=False,
        )

        def opened() -> AbstractAsyncContextManager[object]:
            # The driver has no types; what it gives is an object here, and called by name.
            create = cast("_Create", AioSession().create_client)  # pyright: ignore[reportUnknownMemberType]
            return create("dynamodb", region_name=self.region, endpoint_url=self.endpoint, config=config)

        return opened


def _given(client: object) -> Opening:
    if not hasattr(client, "transact_write_items"):
        hint = "give what aiobotocore's create_client('dynamodb') opens"
        raise ConfigError(f"a {type(client).__name__} is no client for DynamoDB", hint=hint)

    @asynccontextmanager
    async def opened() -> AsyncGenerator[object, None]:
        yield client

    return opened


def _address(url: str) -> _Address:
    rest, settings = split_settings(url, (_ENDPOINT, *_NUMBERS))
    parts = urlsplit(rest)
    if "@" in parts.netloc:
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile in AWS_PROFILE"
        raise ConfigError("the URL of a DynamoDB store holds no user and no key", hint=hint)
    if parts.query or parts.fragment:
        hint = f"there are {', '.join((_ENDPOINT, *_NUMBERS))}"
        raise ConfigError(f"{shown(url)} has settings that are not known", hint=hint)
    if parts.scheme not in ("dynamo", "dynamodb") or not _REGION.fullmatch(parts.netloc):
        raise ConfigError(f"{shown(url)!r} names no region of AWS", hint=_FORM)
    return _Address(
        region=parts.netloc,
        table=_table_name(parts.path.removeprefix("/")),
        endpoint=_endpoint(settings.get(_ENDPOINT)),
        numbers={name: _number(name, settings[name]) for name in _NUMBERS if name in settings},
    )


def _table_name(name: str | None) -> str:
    if name is None or not _TABLE.fullmatch(name):
        hint = "a table's name has 3 to 255 letters, digits, or any of _ . -"
        raise ConfigError(f"{name or ''!r} is no name of a DynamoDB table", hint=hint)
    return name


def _endpoint(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError("the endpoint of a DynamoDB store is no plain http or https address", hint=_FORM)
    return url


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} is a number of seconds; {text!r} was given") from None
