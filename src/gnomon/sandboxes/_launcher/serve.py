"""The launcher: a supervisor for each message, until there is nobody left who could send one."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from typing import NoReturn

from .supervise import get_ready, supervise

__all__ = ["serve"]

_DESCRIPTORS = 5  # the status socket, the order, and what the command has for input, output and errors
_PACKET = 64
_TAKEN, _OVER = b"t", b"o"
_LATER_S = 0.002


def serve(descriptor: int) -> None:
    """Messages carry nothing but descriptors. The end of the socket is the end of the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for supervisors
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program above
    os.umask(0o077)
    channel = socket.socket(fileno=descriptor)
    gc.freeze()  # or each fork copies what its collection of garbage touches
    said = _TAKEN
    while said != _OVER:
        # The command that has just begun goes first. Where somebody has ended the one that waited, another
        # comes when there is something to do.
        select.select([channel], [], [], _LATER_S if said else None)
        said = _next(channel)


def _next(channel: socket.socket) -> bytes:
    """A supervisor, forked before there is an order for it: a command would wait for that."""
    told, tell = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:  # no room for it: whoever asks next sees the socket end
        for each in (told, tell, *_received(channel)):
            os.close(each)
        return _TAKEN
    if pid == 0:
        os.close(told)
        _stand_by(channel, tell)
    os.close(tell)
    with open(told, "rb", buffering=0) as file:
        return file.read(1)


def _stand_by(channel: socket.socket, tell: int) -> NoReturn:
    try:
        ready = get_ready()
        descriptors = _received(channel)
        os.write(tell, _TAKEN if descriptors else _OVER)
        if len(descriptors) == _DESCRIPTORS:
            os.close(tell)
            channel.close()
            status, order, *stdio = descriptors
            heard = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=status)
            supervise(heard, order, (stdio[0], stdio[1], stdio[2]), ready)
    finally:
        os._exit(0)


def _received(channel: socket.socket) -> list[int]:
    """What the next message carries; nothing when there will be no more."""
    descriptors: list[int] = []
    while not descriptors:
        data, descriptors, _, _ = socket.recv_fds(channel, _PACKET, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not data:
            break
    return descriptors
