"""DynamoDB twice: Dynoxide, which is fast, and ExtendDB, which checks signatures and throttles."""

from __future__ import annotations

from pathlib import Path

from .ports import LOOPBACK
from .programs import program
from .running import Server, at

__all__ = ["DynamoServer", "dynamo", "extenddb"]


class DynamoServer(Server):
    """A server with a key to sign requests by."""

    region = "us-east-1"
    # The pair that the documentation of AWS itself uses in its examples.
    access_key = "AKIAIOSFODNN7EXAMPLE"
    secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

    @property
    def url(self) -> str:
        return at("http", self.port)


class Dynoxide(DynamoServer):
    name = "dynamo"

    def __init__(self) -> None:
        self._program = program("dynoxide")
        super().__init__()

    def _command(self) -> list[str]:
        where = ["--host", LOOPBACK, "--port", str(self.port)]
        return [str(self._program), "serve", *where, "--db-path", str(self.folder / "dynamo.db")]


class ExtendDB(DynamoServer):
    name = "extenddb"

    def __init__(self, *, throttling: bool) -> None:
        self._program = program("extenddb")
        self._throttling = throttling
        super().__init__()

    def _prepare(self) -> None:
        """Its settings and an empty catalogue; both go into the folder, as do the files it keeps at home."""
        where = ["--sqlite-path", str(self.folder / "extend.db"), "--config", str(self._settings)]
        self._run([str(self._program), "init", *where, "--bind-addr", LOOPBACK])
        if self._throttling:
            text = self._settings.read_text()
            self._settings.write_text(text.replace("[server]\n", "[server]\nthrottling_enabled = true\n", 1))

    def _command(self) -> list[str]:
        how = ["serve", "--foreground", "--config", str(self._settings), "--port", str(self.port)]
        return [str(self._program), *how]

    @property
    def _settings(self) -> Path:
        return self.folder / "extenddb.toml"


def dynamo() -> DynamoServer:
    """DynamoDB by Dynoxide: any key will do, and there is no limit to what can be asked in a second."""
    return Dynoxide()


def extenddb(*, throttling: bool = False) -> DynamoServer:
    """DynamoDB by ExtendDB: only its own key signs, and with `throttling` tables have a capacity."""
    return ExtendDB(throttling=throttling)
