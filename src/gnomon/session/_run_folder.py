"""The private folder where owners' sockets stand, and who may have a name in it.

A socket is a file that stays when its process dies. So a name is taken under a lock
of the folder: a file there is replaced only when nobody listens behind it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import socket
import stat
import struct
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from time import monotonic

__all__ = ["is_our_socket", "listening_at", "peer_uid", "removed", "run_folder", "socket_path"]

log = logging.getLogger("gnomon.session")

_LONGEST_PATH_BYTES = 103
"""What every system takes: Linux has room for 107 bytes, the BSDs and macOS for 103."""

_NAME = re.compile(r"[0-9a-f]{32}\.sock")
_NAME_BYTES = 32 + len(".sock")
_BACKLOG = 64
_LOCK_PATIENCE_S, _LOCK_PAUSE_S = 1.0, 0.01
_LISTED, _SWEPT = 1024, 64
"""How many files an owner looks at when it sweeps, and how many of them it tries."""


# --- the folder -------------------------------------------------------------


def run_folder() -> Path | None:
    """The folder for this user's sockets, made if need be; `None` where none can be private."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    return next((folder for folder in _candidates() if _is_private(folder)), None)


def socket_path(owner: str) -> Path | None:
    """Where the runner of that name listens, if it does."""
    folder = run_folder()
    name = sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return None if folder is None else folder / f"{name}.sock"


def _candidates() -> Iterator[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):  # a relative one would be another folder for every process
        yield Path(runtime) / "gnomon"
    with suppress(FileNotFoundError):  # there is no folder that can be written to
        yield Path(tempfile.gettempdir()) / f"gnomon-{os.geteuid()}"


def _is_private(folder: Path) -> bool:
    try:
        if len(os.fsencode(folder)) + 1 + _NAME_BYTES > _LONGEST_PATH_BYTES:
            raise OSError("its path is too long for a socket")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with _held_open(folder) as handle:
            _mend(handle)
    except OSError as error:
        log.debug("no live sockets in %s: %s", folder, error)
        return False
    return True


@contextmanager
def _held_open(folder: Path) -> Generator[int, None, None]:
    """The folder itself: what its path names may be another one a moment later."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


def _mend(handle: int) -> None:
    found = os.fstat(handle)
    if found.st_uid != os.geteuid():
        raise PermissionError(f"it belongs to user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.fchmod(handle, 0o700)
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o077:  # some file systems only say they did
            raise PermissionError("others may enter it")


# --- a name in it -----------------------------------------------------------


async def listening_at(path: Path) -> socket.socket:
    """A socket that listens there; `OSError` when another does, or it cannot be."""
    with _held_open(path.parent) as handle:
        async with _locked(handle):
            # Without an await in here: whoever is cancelled leaves nothing behind.
            _sweep(path.parent)
            return _bound(path)


@asynccontextmanager
async def _locked(handle: int) -> AsyncGenerator[None, None]:
    import fcntl  # not there on Windows

    until = monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if monotonic() > until:
                raise
            await asyncio.sleep(_LOCK_PAUSE_S)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a process forked meanwhile has the handle too


def _bound(path: Path) -> socket.socket:
    if is_our_socket(path) and not _has_listener(path):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        try:
            os.chmod(path, 0o600)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except BaseException:
            removed(path)
            raise
    except BaseException:
        listener.close()
        raise
    return listener


def removed(path: Path) -> None:
    """No such file is there any more, or it cannot be helped."""
    with suppress(OSError):
        path.unlink()


def _sweep(folder: Path) -> None:
    """Remove sockets that nobody listens behind: their processes were killed."""
    with os.scandir(folder) as entries:
        found = [entry.name for entry in islice(entries, _LISTED) if _NAME.fullmatch(entry.name)]
    # Any of them: the same first ones each time may all be alive.
    for name in random.sample(found, min(_SWEPT, len(found))):
        path = folder / name
        if is_our_socket(path) and not _has_listener(path):
            removed(path)


def is_our_socket(path: Path) -> bool:
    """Whether a socket of this user stands there, and not a link to something."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # too busy to answer, perhaps: alive
    return True


# --- who is at the other end ------------------------------------------------

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end; `None` where the system does not say: there the folder alone guards."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    packed = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(packed)[1])
