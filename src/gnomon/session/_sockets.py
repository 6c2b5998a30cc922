"""Live deltas for other processes on this machine: a Unix socket for each owner.

They are a comfort. Whatever is wrong with a socket, the run goes on and readers have the ledger.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from time import monotonic
from weakref import WeakKeyDictionary, WeakValueDictionary

from gnomon.engine.live import Bus, Channel
from gnomon.errors import InvalidInput
from gnomon.session._live_lines import ASK_LIMIT_BYTES, Cursor, Feed, Lines, ask_line, asked_session
from gnomon.session._run_folder import (
    is_our_socket,
    listening_at,
    log,
    peer_uid,
    removed,
    run_folder,
    socket_path,
)

__all__ = ["LiveServer", "follow", "run_folder", "socket_path"]

CLIENTS = 64
ASK_S = 5.0
"""How long a client may take to say what it wants."""

STALLED_S = 60.0
"""How long a client may read nothing while there is something for it."""

PACE_S = 0.01
"""Between two writes to one client: what comes meanwhile goes with the second, and no eye can tell."""

_NO_DESCRIPTORS_S = 0.5
_PIECE_BYTES = 256 * 1024
_BUSY_PATIENCE_S, _BUSY_PAUSE_S = 2.0, 0.05


# --- the owner's end --------------------------------------------------------


class LiveServer:
    """Relays the channels of a bus to whoever of this user connects to the owner's socket.

    `open` never fails: where there can be no socket, `path` stays `None`. `close` may be called twice.
    """

    def __init__(self, bus: Bus, owner: str) -> None:
        self._bus = bus
        self._owner = owner
        self._turn = asyncio.Lock()
        self._listener: socket.socket | None = None
        self._file: tuple[int, int] = (0, 0)
        self._pause: asyncio.TimerHandle | None = None
        self._clients: dict[asyncio.Task[None], socket.socket] = {}
        self.path: Path | None = None

    async def open(self) -> None:
        """Listen, if that can be."""
        async with self._turn:
            path = socket_path(self._owner)
            if path is None or self._listener is not None:
                return
            try:
                self._listener = await listening_at(path)
            except OSError as error:
                log.debug("no live socket for %s: %s", self._owner, error)
                return
            self._file, self.path = _identity(path), path
            _listening[self._owner] = self
            self._accept_again()

    async def close(self) -> None:
        """Let every client go. Tasks, socket and file are gone afterwards."""
        async with self._turn:
            self._stop_listening()
            clients = tuple(self._clients)
            for client in clients:
                client.cancel()
            if clients:
                await asyncio.wait(clients)

    def _stop_listening(self) -> None:
        listener, path = self._listener, self.path
        self._listener = self.path = None
        if listener is None or path is None:
            return
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        asyncio.get_running_loop().remove_reader(listener)
        _listening.pop(self._owner, None)
        # While it still listens nobody else takes the name, so the file cannot become another's meanwhile.
        if _identity(path) == self._file:
            removed(path)
        listener.close()

    def _accept_again(self) -> None:
        self._pause = None
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        """One client at a time, so that a crowd at the door does not hold up the run."""
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptors left: the client waits, and the loop must not spin
            log.debug("no live client for %s now: %s", self._owner, error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            self._pause = loop.call_later(_NO_DESCRIPTORS_S, self._accept_again)
            return
        if len(self._clients) >= CLIENTS or not _may_read(connection):
            connection.close()
            return
        self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        client = asyncio.get_running_loop().create_task(_served(connection, self._bus))
        self._clients[client] = connection
        # Not in the task: one that is cancelled before its first step runs no `finally`.
        client.add_done_callback(self._gone)

    def _gone(self, client: asyncio.Task[None]) -> None:
        self._clients.pop(client).close()

    def speaks_in(self, channel: Channel) -> bool:
        """Whether this very channel is among those it relays."""
        return self._bus.channel(channel.session_id) is channel

    def leave_to_parent(self) -> None:
        """In a forked process: its copies would keep readers waiting when the parent is long dead."""
        for inherited in (self._listener, *self._clients.values()):
            if inherited is not None:
                inherited.close()
        self._listener = self.path = None
        self._clients = {}


_listening: WeakValueDictionary[str, LiveServer] = WeakValueDictionary()
"""The servers of this process, by their owner."""


def _leave_to_parent() -> None:
    for server in list(_listening.values()):
        server.leave_to_parent()
    _listening.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _may_read(connection: socket.socket) -> bool:
    try:
        return peer_uid(connection) in (None, 0, os.geteuid())
    except OSError:
        return False


async def _served(connection: socket.socket, bus: Bus) -> None:
    try:
        async with asyncio.timeout(ASK_S):
            session_id = await _asked(connection)
        await _relay(connection, bus.channel(session_id))
    except (OSError, InvalidInput) as error:  # a time that is up is an OSError too
        log.debug("a live client is dropped: %s", error)


async def _asked(connection: socket.socket) -> str:
    loop = asyncio.get_running_loop()
    line = b""
    while b"\n" not in line:
        if len(line) > ASK_LIMIT_BYTES:
            raise InvalidInput(f"a line of more than {ASK_LIMIT_BYTES} bytes")
        piece = await loop.sock_recv(connection, ASK_LIMIT_BYTES + 1 - len(line))
        if not piece:
            raise InvalidInput("it left without asking")
        line += piece
    return asked_session(line)  # whatever stands behind the line's end makes it unreadable


async def _relay(connection: socket.socket, channel: Channel) -> None:
    """Everything that goes by in the channel, until the client says something or is gone."""
    loop = asyncio.get_running_loop()
    cursor = Cursor(channel)
    with channel.listening() as ear:
        is_gone = False

        def hear() -> None:
            nonlocal is_gone
            is_gone = True
            loop.remove_reader(connection)  # it would be heard again at every step of the loop
            ear.set()

        loop.add_reader(connection, hear)
        try:
            while not is_gone:
                ear.clear()
                batch = cursor.next_batch()
                if batch:
                    async with asyncio.timeout(STALLED_S):
                        await loop.sock_sendall(connection, batch)
                    # Sending does not wait while there is room: the run must have its turn as well.
                    await asyncio.sleep(0 if cursor.is_behind else PACE_S)
                else:
                    await ear.wait()
        finally:
            loop.remove_reader(connection)


# --- the reader's end -------------------------------------------------------

_followed: WeakKeyDictionary[Channel, asyncio.Lock] = WeakKeyDictionary()
"""Readers of one process share a channel: one of them feeds it, and when it leaves the next does."""


async def follow(owner: str, channel: Channel) -> None:
    """Feed the channel with what the owner's socket says, until that ends or this is cancelled.

    It comes back at once where there is no such socket, and never raises for what the other end
    does. The attempt it fed is ended then. When the session is run in this process, it leaves the
    channel to the runner; while another follows for the same channel, it waits.
    """
    path = socket_path(owner)
    here = _listening.get(owner)
    if path is None or (here is not None and here.speaks_in(channel)):
        return  # it would only be given back what is put into it
    async with _followed.setdefault(channel, asyncio.Lock()):
        feed = Feed(channel)
        try:
            await _fed(feed, channel.session_id, path)
        except (OSError, InvalidInput) as error:
            log.debug("nothing live from %s: %s", owner, error)
        finally:
            feed.end()


async def _fed(feed: Feed, session_id: str, path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        await _connect(connection, path)
        await _read_on(connection, session_id, feed)


async def _connect(connection: socket.socket, path: Path) -> None:
    if not is_our_socket(path):
        raise FileNotFoundError("no socket of this user is there")
    until = monotonic() + _BUSY_PATIENCE_S
    while True:
        try:
            connection.connect(os.fspath(path))
            break
        except BlockingIOError:  # many at the door; a Unix socket is then not connected later on by itself
            if monotonic() > until:
                raise
            await asyncio.sleep(_BUSY_PAUSE_S)
    if peer_uid(connection) not in (None, os.geteuid()):
        raise PermissionError("another user listens there")


async def _read_on(connection: socket.socket, session_id: str, feed: Feed) -> None:
    loop = asyncio.get_running_loop()
    lines = Lines()
    await loop.sock_sendall(connection, ask_line(session_id))
    while piece := await loop.sock_recv(connection, _PIECE_BYTES):
        for line in lines.feed(piece):
            feed.take(line)
        await asyncio.sleep(0)  # receiving does not wait while there is something: readers want their turn
