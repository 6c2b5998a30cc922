"""Whether a Redis may be trusted with a ledger: it must keep what it has acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from redis import exceptions as told

from gnomon.errors import StorageError
from gnomon.storage._redis_errors import translated
from gnomon.storage._rows import Lost

__all__ = ["QUESTIONS", "Reply", "Trust", "Word"]

Word: TypeAlias = bytes | str | int
Reply: TypeAlias = bytes | int | list["Reply"] | dict[bytes, "Reply"] | None

QUESTIONS: Sequence[Sequence[Word]] = (
    ("INFO", "replication"),
    ("INFO", "memory"),
    ("CONFIG", "GET", "append*"),
    ("CONFIG", "GET", "no-appendfsync-on-rewrite"),
)

# With `no-appendfsync-on-rewrite yes`, Redis does not wait for the disk while it writes a snapshot.
_DURABLE = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
_RELAX = 'to take the risk, say durability="relaxed"'


class Trust:
    """Judges a server by its answers to the questions."""

    def __init__(self, where: str, *, is_relaxed: bool) -> None:
        self.where = where
        self._is_relaxed = is_relaxed
        self._was_given = False

    def judge(self, replies: Sequence[Reply | told.RedisError]) -> None:
        """Raises what is wrong with the server."""
        is_silent = any(self._is_refused(reply) for reply in replies)
        lines = _lines(replies[:2])
        self._check_role(lines.get("role"))
        self._check_eviction(lines)
        if not self._is_relaxed:
            self._check_durable(None if is_silent else _settings(replies[2:]))
        self._was_given = True

    def _is_refused(self, reply: Reply | told.RedisError) -> bool:
        """Whether it will not say: by a permission, or because a service has taken the command away."""
        if not isinstance(reply, told.RedisError):
            return False
        error = translated(reply, self.where)
        if isinstance(error, Lost):
            raise error from reply
        return True

    def _check_role(self, role: str | None) -> None:
        if role != "slave":
            return
        if self._was_given:  # it was the primary a moment ago
            raise Lost("the server has become a replica")
        message = f"redis store {self.where} is a replica, which cannot be written"
        raise StorageError(message, hint="give the primary's address")

    def _check_eviction(self, lines: dict[str, str]) -> None:
        """The policies called `volatile` leave keys alone that never expire, and ours never do."""
        policy = lines.get("maxmemory_policy", "")
        if lines.get("maxmemory", "0") != "0" and policy.startswith("allkeys"):
            found = f"maxmemory-policy is {policy}"
            message = f"redis store {self.where} throws rows away when its memory is full: {found}"
            raise StorageError(message, hint="CONFIG SET maxmemory-policy noeviction, and in redis.conf")

    def _check_durable(self, settings: dict[str, str] | None) -> None:
        if settings is None:
            found = "INFO or CONFIG GET is not allowed"
            message = f"redis store {self.where} does not say whether it can be trusted: {found}"
            raise StorageError(message, hint=f"allow it (ACL: +config|get +info); {_RELAX}")
        wrong = [name for name, wanted in _DURABLE.items() if settings.get(name) != wanted]
        if wrong:
            found = ", ".join(f"{name} is {settings.get(name, '')!r}" for name in wrong)
            wanted = ", ".join(f"{name} {_DURABLE[name]}" for name in wrong)
            message = f"redis store {self.where} can lose what it has acknowledged: {found}"
            raise StorageError(message, hint=f"CONFIG SET {wanted}, and in redis.conf; {_RELAX}")


def _lines(replies: Sequence[Reply | told.RedisError]) -> dict[str, str]:
    lines: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, bytes):
            pairs = [line.partition(":") for line in reply.decode(errors="replace").splitlines()]
            lines |= {name: value for name, colon, value in pairs if colon}
    return lines


def _settings(replies: Sequence[Reply | told.RedisError]) -> dict[str, str]:
    """A flat list, or a mapping in the newer protocol."""
    settings: dict[bytes, bytes] = {}
    for reply in replies:
        if isinstance(reply, list):
            flat = cast("list[bytes]", reply)
            settings |= zip(flat[::2], flat[1::2], strict=True)
        elif isinstance(reply, dict):
            settings |= cast("dict[bytes, bytes]", reply)
    return {name.decode(): value.decode() for name, value in settings.items()}
