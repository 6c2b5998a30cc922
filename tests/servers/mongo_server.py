"""A server that speaks MongoDB's wire over files of SQLite: the package nx-27017. It is no mongod."""

from __future__ import annotations

import sys

from .ports import LOOPBACK
from .programs import package_file
from .running import Server, at

__all__ = ["mongo"]


class MongoServer(Server):
    name = "mongo"

    def __init__(self) -> None:
        package_file("nx_27017", "nx_27017.py")
        super().__init__()

    @property
    def url(self) -> str:
        return at("mongodb", self.port, path="/")

    def _command(self) -> list[str]:
        # It refuses to start beside another whose number is in its file, which by default all share.
        pid_file = self.folder / "server.pid"
        pid_file.unlink(missing_ok=True)
        place = ["--host", LOOPBACK, "--port", str(self.port), "--data-dir", str(self.folder / "files")]
        notes = ["--pid-file", str(pid_file), "--log-file", "/dev/null"]
        return [sys.executable, "-m", "nx_27017.nx_27017", *place, *notes]


def mongo() -> Server:
    """MongoDB's wire, without replica set, users or change streams."""
    return MongoServer()
