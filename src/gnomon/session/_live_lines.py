"""A channel as lines of JSON, for a reader in another process.

The reader asks with `{"session": id}`. It then gets, again and again, a line that begins an
attempt, a line for each of its events, and a line that ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast, get_args

import msgspec

from gnomon.engine.live import Attempt, Channel, LiveEvent
from gnomon.errors import InvalidInput
from gnomon.types.codec import decode_event, encode_event
from gnomon.types.events import StreamEvent, ToolProgress, Unknown

__all__ = ["ASK_LIMIT_BYTES", "Cursor", "Feed", "Lines", "ask_line", "asked_session"]

ASK_LIMIT_BYTES = 4096
BATCH_BYTES = 64 * 1024
LINE_LIMIT_BYTES = 64 * 1024 * 1024
"""A line holds one event, at most a whole response with its images."""

_END = b'{"end":true}'
_BEGIN = b'{"begin":'  # events begin with their type, so neither can be taken for one

_T = TypeVar("_T")
_KINDS = frozenset((*get_args(StreamEvent), ToolProgress))
_UNSENDABLE = encode_event(Unknown("unsendable"))


class _Ask(msgspec.Struct, frozen=True):
    session: str


class _Beginning(msgspec.Struct, frozen=True):
    turn_id: str
    message_id: str
    number: tuple[int, int]
    after_seq: int


class _BeginLine(msgspec.Struct, frozen=True):
    begin: _Beginning


_encoder = msgspec.json.Encoder()
_asks = msgspec.json.Decoder(_Ask)
_begin_lines = msgspec.json.Decoder(_BeginLine)


# --- asking -----------------------------------------------------------------


def ask_line(session_id: str) -> bytes:
    try:
        return _encoder.encode(_Ask(session_id)) + b"\n"
    except UnicodeError as error:
        raise InvalidInput(f"no name of a session: {error}") from error


def asked_session(line: bytes) -> str:
    """The session that is asked for; `InvalidInput` when the line cannot be read."""
    return _read(_asks, line).session


def _read(decoder: msgspec.json.Decoder[_T], line: bytes) -> _T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"not a line of a live socket: {error}") from error


# --- sending ----------------------------------------------------------------


class Cursor:
    """How far one reader of a channel has come.

    It reads from the attempt's own list at its reader's pace, so that a slow reader costs no
    memory. Where an attempt is over and a newer one runs, a reader that is more than a batch
    behind goes on with the newer.
    """

    __slots__ = ("_at", "_attempt", "_channel")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._attempt: Attempt | None = None
        self._at = 0

    @property
    def is_behind(self) -> bool:
        return self._attempt is not None and self._at < len(self._attempt.events)

    def next_batch(self) -> bytes:
        """The next lines, up to a bound; nothing when the reader has them all."""
        current = self._channel.current
        out = bytearray()
        if self._attempt is not None:
            self._take(self._attempt, out)
            if self._attempt.is_over and (current is not None or not self.is_behind):
                out += _END + b"\n"
                self._attempt = None
        if self._attempt is None and current is not None:
            self._attempt, self._at = current, 0
            out += _begin_line(current)
            self._take(current, out)
        return bytes(out)

    def _take(self, attempt: Attempt, out: bytearray) -> None:
        events, at, until = attempt.events, self._at, len(out) + BATCH_BYTES
        while at < len(events) and len(out) < until:
            out += _event_line(events[at])
            out += b"\n"
            at += 1
        self._at = at


def _begin_line(attempt: Attempt) -> bytes:
    of = _Beginning(attempt.turn_id, attempt.message_id, attempt.number, attempt.after_seq)
    return _encoder.encode(_BeginLine(of)) + b"\n"


def _event_line(event: LiveEvent) -> bytes:
    try:
        return encode_event(event)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _UNSENDABLE  # in its place, so that those after it keep theirs


# --- receiving --------------------------------------------------------------


class Lines:
    """Feed it pieces; it gives the lines that they complete."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        head, found, tail = piece.partition(b"\n")
        self._rest += head
        if len(self._rest) > LINE_LIMIT_BYTES:
            raise InvalidInput(f"a line of a live socket is longer than {LINE_LIMIT_BYTES} bytes")
        if not found:
            return
        first = bytes(self._rest)
        self._rest.clear()
        *others, rest = tail.split(b"\n")
        self._rest += rest
        yield first
        yield from others


class Feed:
    """Puts what the lines say into a channel, for as long as nobody else does."""

    __slots__ = ("_channel", "_mine")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._mine: Attempt | None = None

    def take(self, line: bytes) -> None:
        """One line; `InvalidInput` when it cannot be read, or the session is run here by now."""
        if self._channel.current is not self._mine:
            raise InvalidInput("somebody else speaks in this channel")
        if line.startswith(_BEGIN):
            begin = _read(_begin_lines, line).begin
            self._mine = self._channel.begin(begin.turn_id, begin.message_id, begin.number, begin.after_seq)
        elif self._mine is None:
            raise InvalidInput("an attempt that has not begun")
        elif line == _END:
            self.end()
        else:
            self._channel.put(_live_event(line))

    def end(self) -> None:
        """Nothing more comes. An attempt of somebody else is left alone."""
        if self._mine is not None and self._channel.current is self._mine:
            self._channel.end()
        self._mine = None


def _live_event(line: bytes) -> LiveEvent:
    event = decode_event(line)
    if type(event) not in _KINDS:
        raise InvalidInput(f"{type(event).__name__} is not an event of an attempt")
    return cast(LiveEvent, event)
