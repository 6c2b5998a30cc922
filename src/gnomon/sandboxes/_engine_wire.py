"""The API that Docker and Podman have in common, over the Unix socket on which it answers.

Addresses carry no version: an engine then takes the newest that it knows, and what is asked for here is in
all of them.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import msgspec

from gnomon.errors import SandboxError

__all__ = ["Answer", "Attached", "Wire", "connected", "in_background", "shortened"]

_T = TypeVar("_T")

_MOST_WORDS = 300
_MOST_HEAD = 65_536
_PIECE = 1 << 18


class Answer(NamedTuple):
    """What an engine says to one request."""

    status: int
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def content(self) -> dict[str, Any]:
        """An object; empty where it says something else."""
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except msgspec.DecodeError:
            return {}

    @property
    def contents(self) -> list[dict[str, Any]]:
        """A list of objects."""
        try:
            return msgspec.json.decode(self.body, type=list[dict[str, Any]])
        except msgspec.DecodeError:
            return []

    @property
    def words(self) -> str:
        """What it says: of an error, the message."""
        return shortened(str(self.content.get("message") or self.body.decode(errors="replace")))


class Attached(NamedTuple):
    """The streams of a program. A socket and no `StreamWriter`: what cannot be written any more must not keep
    what has been written from being read."""

    socket: socket.socket
    status: int
    rest: bytes
    """What came together with the answer."""


def shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}…"


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, patience_s: float) -> None:
        super().__init__("engine", timeout=patience_s)
        self._path = path

    def connect(self) -> None:
        self.sock = connected(self._path, self.timeout)


def connected(path: str, patience_s: float | None) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(patience_s)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made


class Wire:
    """One request, one connection: the socket is on this machine, and a connection costs next to nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    def call(self, method: str, path: str, body: object = None, *, patience_s: float = 60.0) -> Answer:
        """From a thread, since it waits."""
        connection = _Connection(self.path, patience_s)
        try:
            data = None if body is None else msgspec.json.encode(body)
            connection.request(method, path, body=data, headers={"content-type": "application/json"})
            reply = connection.getresponse()
            return Answer(reply.status, reply.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from None
        finally:
            connection.close()

    def hold(self, path: str, *, patience_s: float = 60.0) -> int:
        """A descriptor, which the engine takes for a program's standard input as long as it is open."""
        try:
            held = connected(self.path, patience_s)
            try:
                held.sendall(_upgrade(path, b""))
            except BaseException:
                held.close()
                raise
        except OSError as error:
            raise self._silent(error) from None
        return held.detach()

    async def attach(self, path: str, body: object) -> Attached:
        """A connection that has become the streams of a program."""
        loop = asyncio.get_running_loop()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            await loop.sock_connect(made, self.path)
            await loop.sock_sendall(made, _upgrade(path, msgspec.json.encode(body)))
            said = b""
            while b"\r\n\r\n" not in said:
                if not (piece := await loop.sock_recv(made, _PIECE)) or len(said) > _MOST_HEAD:
                    raise OSError("it hung up")
                said += piece
            head, _, rest = said.partition(b"\r\n\r\n")
            return Attached(made, int(head.split(None, 2)[1]), rest)
        except (OSError, ValueError, IndexError) as error:
            made.close()
            raise self._silent(error) from None
        except BaseException:
            made.close()
            raise

    def _silent(self, error: Exception) -> SandboxError:
        why = "it did not answer in time" if isinstance(error, TimeoutError) else str(error) or repr(error)
        return SandboxError(
            f"the container engine at {self.path} does not answer: {why}",
            hint="is it running, and is it yours?",
        )


def _upgrade(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def in_background(function: Callable[[], _T]) -> Future[_T]:
    """In a thread of its own, which holds up no end: a deadline must not wait for a place in a pool."""
    done: Future[_T] = Future()
    done.set_running_or_notify_cancel()  # whoever stops waiting for it does not stop it

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name="gnomon-container", daemon=True).start()
    return done
