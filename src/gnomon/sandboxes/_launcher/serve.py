"""The launcher: a supervisor for each message, until there is nobody left who could send one."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

from .supervise import supervise

__all__ = ["serve"]

_DESCRIPTORS = 5  # the status socket, the order, and what the command has for input, output and errors
_PACKET = 64


def serve(descriptor: int) -> None:
    """Reads messages that carry nothing but descriptors. The end of the socket is the end of the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for supervisors
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program above
    os.umask(0o077)
    channel = socket.socket(fileno=descriptor)
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, _PACKET, _DESCRIPTORS)
        if not data and not descriptors:
            return
        if len(descriptors) == _DESCRIPTORS and _is_child():
            channel.close()
            _begin(descriptors)
        for each in descriptors:
            os.close(each)


def _is_child() -> bool:
    try:
        return os.fork() == 0
    except OSError:  # no room for another: whoever asked sees the socket end
        return False


def _begin(descriptors: list[int]) -> None:
    status, order, *stdio = descriptors
    for each in descriptors:
        os.set_inheritable(each, False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    supervise(socket.socket(fileno=status), order, (stdio[0], stdio[1], stdio[2]))
