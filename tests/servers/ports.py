"""Ports that are ours for as long as we hold them, also while the server that uses one is down."""

from __future__ import annotations

import errno
import random
import socket

__all__ = ["LOOPBACK", "reserved"]

LOOPBACK = "127.0.0.1"

# Below what Linux gives to clients: one of those, asking a server that is down, could be given the
# server's own port and answer itself.
_FIRST, _LAST = 15_000, 31_000
_TRIES = 200
_random = random.SystemRandom()  # the other one is seeded alike in every process that runs tests


def reserved() -> socket.socket:
    """A socket that is bound and never listens. With SO_REUSEADDR a server can still listen there; whoever
    looks for a free port finds this one taken. Closing it gives the port back."""
    for _ in range(_TRIES):
        if (sock := _bound(_random.randint(_FIRST, _LAST))) is not None:
            return sock
    raise OSError(errno.EADDRINUSE, f"no free port found between {_FIRST} and {_LAST}")


def _bound(port: int) -> socket.socket | None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind((LOOPBACK, port))  # without SO_REUSEADDR: nobody else has it, in whatever way
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        sock.close()
        return None
    return sock
