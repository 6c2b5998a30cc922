"""Redis: the commands that make the keys of a prefix, one a line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import redis.asyncio

import servers

from .lines import Told, bytes_of, line, objects, told

__all__ = ["address", "kept", "restore", "shape"]

_PREFIX = "gnomon"


def address(place: str) -> str:
    return f"{servers.shared('redis').url}?prefix={place}"


async def kept(place: str) -> str:
    async with _client() as client:
        keys = sorted([key async for key in client.scan_iter(f"{place}:*")])
        commands = [command for key in keys async for command in _commands(client, key)]
    return "".join(line([_word(word) for word in _renamed(each, place, _PREFIX)]) for each in commands)


async def restore(text: str, place: str) -> None:
    async with _client() as client:
        for said in objects(text):
            command = [_bytes(word) for word in cast("list[object]", said)]
            await client.execute_command(*_renamed(command, _PREFIX, place))


def shape(text: str) -> list[str]:
    """Only the version: tables and indexes come with their rows."""
    return [each for each in text.split("\n") if each.startswith('["SET"')]


async def _commands(client: redis.asyncio.Redis, key: bytes) -> AsyncIterator[list[bytes]]:
    match await client.type(key):
        case b"string":
            yield [b"SET", key, await client.get(key)]
        case b"hash":
            fields = sorted((await client.hgetall(key)).items())
            yield [b"HSET", key, *(word for field in fields for word in field)]
        case b"zset":
            members = await client.zrange(key, 0, -1, withscores=True)
            yield [b"ZADD", key, *(word for name, score in members for word in (b"%g" % score, name))]
        case b"stream":
            for id, fields in await client.xrange(key):
                yield [b"XADD", key, id, *(word for field in fields.items() for word in field)]
            yield [b"XSETID", key, (await client.xinfo_stream(key))["last-generated-id"]]
        case other:
            raise AssertionError(f"{key!r} is a {other!r}, which no command here makes")


def _renamed(command: list[bytes], prefix: str, other: str) -> list[bytes]:
    """The command for the same key under another prefix; nothing but a key holds it."""
    name, key, *words = command
    assert key.startswith(prefix.encode() + b":")
    return [name, other.encode() + key.removeprefix(prefix.encode()), *words]


def _word(word: bytes) -> str | dict[str, Told]:
    """Text where it is text, so that it can be read."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return {"bytes": told(word)}


def _bytes(word: object) -> bytes:
    return word.encode() if isinstance(word, str) else bytes_of(cast("dict[str, Told]", word)["bytes"])


def _client() -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(servers.shared("redis").url)
