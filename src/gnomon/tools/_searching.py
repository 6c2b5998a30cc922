"""The process in which lines are compared with an expression, as the program sees it.

`_line_search.py` is what runs there.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from gnomon.errors import ToolFailed
from gnomon.tools._line_search import Line
from gnomon.tools._searches import Span

__all__ = ["Answer", "OutOfTime", "Searching"]

_FOLDER = str(Path(__file__).parent)
_PROGRAM = (
    # At the end of the path: what is called here like a part of the standard library must not stand for it.
    "import sys; sys.path.append(sys.argv[1]); from _line_search import main; "
    "main(int(sys.argv[2]), int(sys.argv[3]))"
)
_PIECE = 1 << 18
_LOOKS_UP_EVERY_S = 0.1
_GRACE_S = 5


class OutOfTime(Exception):
    """The span was over before all was answered."""


class Answer(msgspec.Struct):
    """What comes of a piece of a file."""

    lines: list[Line] = []
    is_last: bool = False
    """Whether that was all of the file."""
    is_full: bool = False
    """Whether as much has been told as was asked for, so that nothing more comes."""
    found: int = 0
    """How many lines of the file fit so far."""
    is_cut: bool = False
    wrong: str | None = None
    """What is wrong with the expression, and at which character; then nothing else comes."""
    at: int | None = None
    lost: str | None = None
    """Why the search could not go on."""


class Searching:
    """One such process. It has nothing but what it is handed, and it is ended with the `with` block, whatever
    it is busy with. Where the program ends without that, the kernel ends it.
    """

    def __init__(self, order: Mapping[str, object], span: Span) -> None:
        self._span = span
        self._to_send = msgspec.json.encode(order) + b"\n"
        self._received = bytearray()
        self._has_ended = False

    def __enter__(self) -> Self:
        with ExitStack() as theirs, ExitStack() as ours:
            try:
                self._socket, there = socket.socketpair()
                ours.enter_context(self._socket)
                theirs.enter_context(there)
                lifeline, held = os.pipe()
                ours.callback(os.close, held)
                theirs.callback(os.close, lifeline)
                self._process = _started(there, lifeline, ceil(self._span.left_s) + _GRACE_S)
            except OSError as error:
                raise ToolFailed(f"the search could not be started: {error.strerror}") from None
            self._socket.setblocking(False)
            self._poll = select.poll()
            self._held = ours.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._held.close()

    def give(self, codec: str, data: bytes, *, is_last: bool) -> None:
        """A piece of a file."""
        if self._span.is_over:
            raise OutOfTime
        header = f"{codec} {len(data)} {'last' if is_last else 'part'}\n"
        self._send(self._to_send + header.encode() + data)
        self._to_send = b""

    def answers(self) -> Iterator[Answer]:
        """Those that have come by now."""
        self._receive()
        while (end := self._received.find(b"\n")) >= 0:
            answer = msgspec.json.decode(self._received[:end], type=Answer)
            del self._received[: end + 1]
            yield answer

    def rest(self) -> Iterator[Answer]:
        """Those that are still to come, when nothing more is given."""
        self._send(self._to_send)
        self._socket.shutdown(socket.SHUT_WR)
        while not self._has_ended:
            self._wait(select.POLLIN)
            yield from self.answers()

    # --- how ----------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left and not self._has_ended:
            try:
                left = left[self._socket.send(left[:_PIECE]) :]
            except BlockingIOError:
                # It may be that it waits too, for somebody to take its answers.
                self._wait(select.POLLIN | select.POLLOUT)
                self._receive()
            except ConnectionError:
                self._has_ended = True

    def _receive(self) -> None:
        while True:
            try:
                data = self._socket.recv(_PIECE)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self._has_ended = True
                return
            self._received += data

    def _wait(self, what: int) -> None:
        """Until it can be done. Nobody tells that a call was cancelled: it is looked up now and then."""
        self._poll.register(self._socket, what)
        while True:
            if self._span.is_over:
                raise OutOfTime
            if self._poll.poll(min(self._span.left_s, _LOOKS_UP_EVERY_S) * 1000):
                return


def _started(theirs: socket.socket, lifeline: int, seconds: int) -> subprocess.Popen[bytes]:
    # Nothing of what is looked for stands on the command line, which everybody may read.
    command = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, _FOLDER, str(lifeline), str(seconds)]
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        command,
        env={"LC_ALL": "C.UTF-8"},  # no variable of ours is there to be read
        cwd="/",
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        stderr=subprocess.DEVNULL,
        pass_fds=[lifeline],
        start_new_session=True,
    )
