"""DynamoDB: the table's definition in a line, and each item in another, in DynamoDB's own JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from aiobotocore.session import AioSession

import servers

from .lines import bytes_of, line, objects, told

__all__ = ["address", "kept", "restore", "shape"]

_DEFINITION = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "LocalSecondaryIndexes")


def address(place: str) -> str:
    server = servers.shared("dynamo")
    return f"dynamodb://{server.region}/{place}?endpoint={server.url}"


async def kept(place: str) -> str:
    async with _client() as client:
        table = (await client.describe_table(TableName=place))["Table"]
        items = [_said(item) async for item in _items(client, place)]
    mode = table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    definition = {name: table[name] for name in _DEFINITION if table.get(name)} | {"BillingMode": mode}
    items.sort(key=lambda item: (item["pk"]["S"], item["sk"]["S"]))
    return line({"table": definition}) + "".join(line({"item": item}) for item in items)


async def restore(text: str, place: str) -> None:
    async with _client() as client:
        for said in objects(text):
            if "table" in said:
                await client.create_table(TableName=place, **said["table"])
            else:
                await client.put_item(TableName=place, Item=_read(said["item"]))


def shape(text: str) -> list[str]:
    return [each for each in text.split("\n") if each.startswith('{"table"')]


async def _items(client: Any, table: str) -> AsyncIterator[dict[str, Any]]:
    start: dict[str, object] = {}
    while True:
        page = await client.scan(TableName=table, ConsistentRead=True, **start)
        for item in page["Items"]:
            yield item
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _said(item: dict[str, Any]) -> dict[str, Any]:
    return {name: {"B": told(value["B"])} if "B" in value else value for name, value in item.items()}


def _read(item: dict[str, Any]) -> dict[str, Any]:
    return {name: {"B": bytes_of(value["B"])} if "B" in value else value for name, value in item.items()}


def _client() -> AbstractAsyncContextManager[Any]:
    server = servers.shared("dynamo")
    return AioSession().create_client(
        "dynamodb",
        region_name=server.region,
        endpoint_url=server.url,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )
