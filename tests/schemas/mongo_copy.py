"""MongoDB: each collection's indexes in a line, and each of its documents as extended JSON in another.

The server of the tests does not give indexes back as they were asked for: it has names of its own, and says
nothing of `sparse`. So the question is listened to.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import pymongo
from bson import json_util
from pymongo import monitoring

import servers

from .lines import bytes_of, line, objects, told

__all__ = ["address", "kept", "restore", "shape"]

_CANONICAL = json_util.CANONICAL_JSON_OPTIONS  # keeps numbers of 32 and of 64 bits apart


def address(place: str) -> str:
    return f"{servers.shared('mongo').url}{place}"


async def kept(place: str) -> str:
    lines: list[str] = []
    async with _client() as client:
        for name in sorted(await client[place].list_collection_names()):
            lines.append(line({"collection": name, "indexes": _asked.of(place, name)}))
            documents = await client[place][name].find().sort("_id", 1).to_list()
            lines += [line({"collection": name, "document": _said(each)}) for each in documents]
    return "".join(lines)


async def restore(text: str, place: str) -> None:
    async with _client() as client:
        for said in objects(text):
            collection = client[place][said["collection"]]
            if "document" in said:
                await collection.insert_one(_read(said["document"]))
            elif said["indexes"]:
                await collection.create_indexes([_model(each) for each in said["indexes"]])


def shape(text: str) -> list[str]:
    """The collections that have indexes: others come with their first document."""
    lines = [(each, json.loads(each)) for each in text.split("\n") if each]
    return [each for each, said in lines if said.get("indexes")]


class _Asked(monitoring.CommandListener):
    """The indexes that were asked for, of any client of this process that was made after this was read."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[str, str], dict[str, Any]] = {}

    def of(self, database: str, collection: str) -> list[dict[str, Any]]:
        return [index for _, index in sorted(self._indexes.get((database, collection), {}).items())]

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "createIndexes":
            asked = self._indexes.setdefault((event.database_name, event.command["createIndexes"]), {})
            asked |= {
                each["name"]: {**each, "key": list(each["key"].items())} for each in event.command["indexes"]
            }

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


_asked = _Asked()
monitoring.register(_asked)


def _model(said: dict[str, Any]) -> pymongo.IndexModel:
    options = {name: value for name, value in said.items() if name != "key"}
    return pymongo.IndexModel([tuple(pair) for pair in said["key"]], **options)


def _said(document: dict[str, Any]) -> object:
    return _changed(json.loads(json_util.dumps(document, json_options=_CANONICAL)), _shortened)


def _read(said: object) -> dict[str, Any]:
    return json_util.loads(json.dumps(_changed(said, _lengthened)), json_options=_CANONICAL)


def _changed(value: object, change: Callable[[Any], object]) -> object:
    """The same value, with another text in the stead of every base64."""
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: change(each) if name == "base64" else _changed(each, change) for name, each in value.items()
    }


def _shortened(base64: str) -> object:
    return told(b64decode(base64))


def _lengthened(said: Any) -> str:
    return b64encode(bytes_of(said)).decode()


def _client() -> pymongo.AsyncMongoClient[dict[str, Any]]:
    return pymongo.AsyncMongoClient(servers.shared("mongo").url)
