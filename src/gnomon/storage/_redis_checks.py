"""Whether a Redis may be trusted with a ledger: it must keep what it has acknowledged.

It is asked before the first command, and again after every break: it may be another server by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from redis import exceptions as told

from gnomon.errors import StorageError
from gnomon.storage._redis_scripts import Script
from gnomon.storage._redis_wire import Reply, Wire, Word
from gnomon.storage._rows import Lost

__all__ = ["Trusted"]

# With `no-appendfsync-on-rewrite yes`, Redis does not wait for the disk while it writes a snapshot.
_DURABLE = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}

_QUESTIONS: Sequence[Sequence[Word]] = (
    ("INFO", "replication"),
    ("INFO", "memory"),
    ("CONFIG", "GET", "append*"),
    ("CONFIG", "GET", "no-appendfsync-on-rewrite"),
)
_RELAX = 'to take the risk, say durability="relaxed"'


class Trusted:
    """The server, once it has said that it can be trusted."""

    def __init__(self, wire: Wire, *, is_relaxed: bool) -> None:
        self._wire = wire
        self._is_relaxed = is_relaxed
        self._is_trusted = False
        self._was_trusted = False

    async def run(self, script: Script, key: str, *words: Word, size: int = 0) -> Reply:
        """What the script gives for the key; `size` is how much goes over the line, where that is much."""
        if not self._is_trusted:
            await self._check()
        try:
            return await self._wire.run(script, key, *words, size=size)
        except Lost:
            self._is_trusted = False
            raise

    async def ask(self, *words: Word, size: int = 0) -> Reply:
        """The reply to one command."""
        if not self._is_trusted:
            await self._check()
        try:
            return await self._wire.ask(*words, size=size)
        except Lost:
            self._is_trusted = False
            raise

    async def _check(self) -> None:
        replies = await self._wire.ask_all(_QUESTIONS)
        is_silent = any(self._is_refused(reply) for reply in replies)
        lines = _lines(replies[:2])
        self._check_role(lines.get("role"))
        self._check_eviction(lines)
        if not self._is_relaxed:
            self._check_durable(None if is_silent else _settings(replies[2:]))
        self._is_trusted = self._was_trusted = True

    def _is_refused(self, reply: Reply | told.RedisError) -> bool:
        """Whether it will not say: by a permission, or because a service has taken the command away."""
        if not isinstance(reply, told.RedisError):
            return False
        error = self._wire.translated(reply)
        if isinstance(error, Lost):
            raise error from reply
        return True

    def _check_role(self, role: str | None) -> None:
        if role != "slave":
            return
        if self._was_trusted:  # it was the primary a moment ago
            raise Lost("the server has become a replica")
        raise StorageError(
            f"{self._store} is a replica, which cannot be written", hint="give the primary's address"
        )

    def _check_eviction(self, lines: dict[str, str]) -> None:
        """Only the policies called `volatile` leave keys alone that never expire, and ours never do."""
        policy = lines.get("maxmemory_policy", "")
        if lines.get("maxmemory", "0") != "0" and policy.startswith("allkeys"):
            message = (
                f"{self._store} throws stored rows away when its memory is full: maxmemory-policy is {policy}"
            )
            raise StorageError(message, hint="CONFIG SET maxmemory-policy noeviction, and in redis.conf")

    def _check_durable(self, settings: dict[str, str] | None) -> None:
        if settings is None:
            message = (
                f"{self._store} does not say whether it can be trusted: INFO or CONFIG GET is not allowed"
            )
            raise StorageError(message, hint=f"allow it (ACL: +config|get +info); {_RELAX}")
        wrong = {
            name: settings.get(name, "") for name, wanted in _DURABLE.items() if settings.get(name) != wanted
        }
        if wrong:
            found = ", ".join(f"{name} is {value!r}" for name, value in wrong.items())
            wanted = ", ".join(f"{name} {_DURABLE[name]}" for name in wrong)
            message = f"{self._store} can lose what it has acknowledged: {found}"
            raise StorageError(message, hint=f"CONFIG SET {wanted}, and in redis.conf; {_RELAX}")

    @property
    def _store(self) -> str:
        return f"redis store {self._wire.where}"


def _lines(replies: Sequence[Reply | told.RedisError]) -> dict[str, str]:
    lines: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, bytes):
            pairs = [line.partition(":") for line in reply.decode(errors="replace").splitlines()]
            lines |= {name: value for name, colon, value in pairs if colon}
    return lines


def _settings(replies: Sequence[Reply | told.RedisError]) -> dict[str, str]:
    """A flat list, or a mapping in the newer protocol."""
    settings: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, list):
            flat = cast("list[bytes]", reply)
            settings |= {
                name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)
            }
        elif isinstance(reply, dict):
            settings |= {name.decode(): cast(bytes, value).decode() for name, value in reply.items()}
    return settings
