"""What can happen to a reply on its way, as data: each fault makes another reply of a sound one."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Literal

import msgspec

from gnomon.testing._forms import FORMS, LONG_FORMS
from gnomon.testing._server import Close, Drip, Pause, Reset, Send, ServerReply, Stall, Step
from gnomon.testing.streams import chop

__all__ = [
    "Cut",
    "Dripping",
    "Fault",
    "Flood",
    "Garbled",
    "Gzipped",
    "Held",
    "Instead",
    "Late",
    "Retyped",
    "Split",
    "Stalled",
    "Written",
]


class Fault(msgspec.Struct, frozen=True):
    """No fault: the reply as it is."""

    def applied(self, reply: ServerReply) -> ServerReply:
        return reply

    def __str__(self) -> str:
        return "no fault"


# --- what must make no difference ------------------------------------------------


class Split(Fault, frozen=True):
    """The body in pieces: cut at the given offsets, or every so many bytes."""

    at: tuple[int, ...] = ()
    every: int = 1

    def applied(self, reply: ServerReply) -> ServerReply:
        return _stepped(reply, _pieces(reply.body, self.at or self.every))

    def __str__(self) -> str:
        return f"split at {_listed(self.at)}" if self.at else f"in pieces of {self.every}"


class Written(Fault, frozen=True):
    """The same events, in another form, whole or in pieces of so many bytes."""

    form: str
    every: int | None = None

    def applied(self, reply: ServerReply) -> ServerReply:
        write = {**FORMS, **LONG_FORMS}[self.form]
        written = msgspec.structs.replace(reply, body=write(reply.body))
        return Split(every=self.every).applied(written) if self.every else written

    def __str__(self) -> str:
        pieces = f" in pieces of {self.every}" if self.every else ""
        return f"written with {self.form}{pieces}"


class Gzipped(Fault, frozen=True):
    """The body compressed, and split at these parts of its length."""

    at: tuple[float, ...] = ()

    def applied(self, reply: ServerReply) -> ServerReply:
        body = gzip.compress(reply.body)
        packed = _with_headers(reply, ("content-encoding", "gzip"), body=body)
        return _stepped(packed, _pieces(body, [int(len(body) * part) for part in self.at]))

    def __str__(self) -> str:
        return "compressed with gzip"


class Retyped(Fault, frozen=True):
    """The body under another content type."""

    content_type: str

    def applied(self, reply: ServerReply) -> ServerReply:
        return _with_headers(reply, ("content-type", self.content_type))

    def __str__(self) -> str:
        return f"under content type {self.content_type!r}"


class Held(Fault, frozen=True):
    """The whole body comes, and the connection stays open."""

    def applied(self, reply: ServerReply) -> ServerReply:
        return _stepped(reply, [Send(reply.body), Stall()])

    def __str__(self) -> str:
        return "held open after the last event"


class Flood(Fault, frozen=True):
    """Comments of many megabytes in the middle of the events."""

    at: int
    size: int

    def applied(self, reply: ServerReply) -> ServerReply:
        line = b":" + b"x" * 1022 + b"\n"
        block = Send(line * 16)
        blocks = [block] * (self.size // len(block.data))
        return _stepped(
            reply, [Send(reply.body[: self.at]), *blocks, Send(b"\n"), Send(reply.body[self.at :])]
        )

    def __str__(self) -> str:
        return f"{self.size} bytes of comments after byte {self.at}"


# --- what must be told ------------------------------------------------------------


class Cut(Fault, frozen=True):
    """The body ends early: in form, with the connection, or as a broken connection."""

    at: int
    how: Literal["ended", "closed", "closed unframed", "reset"]

    def applied(self, reply: ServerReply) -> ServerReply:
        ends: dict[str, list[Step]] = {"ended": [], "reset": [Reset()]}
        steps = [Send(reply.body[: self.at]), *ends.get(self.how, [Close()])]
        if self.how == "closed unframed":  # nothing in HTTP tells that this was not all
            reply = msgspec.structs.replace(reply, framing="close")
        return _stepped(reply, steps)

    def __str__(self) -> str:
        return f"cut after byte {self.at} ({self.how})"


class Stalled(Fault, frozen=True):
    """Nothing comes any more after so many bytes of the body, or not even a head."""

    at: int | None

    def applied(self, reply: ServerReply) -> ServerReply:
        if self.at is None:
            return _stepped(msgspec.structs.replace(reply, framing="raw"), [Stall()])
        return _stepped(reply, [Send(reply.body[: self.at]), Stall()])

    def __str__(self) -> str:
        return "stalled before its head" if self.at is None else f"stalled after byte {self.at}"


class Dripping(Fault, frozen=True):
    """A byte now and then, and never an end: of a comment after so many bytes, or of the head."""

    at: int | None

    def applied(self, reply: ServerReply) -> ServerReply:
        if self.at is None:
            raw = msgspec.structs.replace(reply, framing="raw")
            return _stepped(raw, [Send(reply.head()[:-2] + b"x-drip: "), Drip(b"x")])
        return _stepped(reply, [Send(reply.body[: self.at]), Send(b":"), Drip(b"x")])

    def __str__(self) -> str:
        return f"dripping {'in its head' if self.at is None else f'after byte {self.at}'}"


class Late(Fault, frozen=True):
    """A rest in the middle of the body."""

    at: int
    seconds: float

    def applied(self, reply: ServerReply) -> ServerReply:
        return _stepped(
            reply, [Send(reply.body[: self.at]), Pause(self.seconds), Send(reply.body[self.at :])]
        )

    def __str__(self) -> str:
        return f"resting {self.seconds} s after byte {self.at}"


class Garbled(Fault, frozen=True):
    """An event whose data is no JSON, in the place of the one between the two offsets."""

    start: int
    end: int

    def applied(self, reply: ServerReply) -> ServerReply:
        event = reply.body[self.start : self.end]
        before, found, _ = event.partition(b"{")
        garbled = before + found + b'"broken": \n\n'
        body = reply.body[: self.start] + garbled + reply.body[self.end :]
        return msgspec.structs.replace(reply, body=body)

    def __str__(self) -> str:
        return f"garbled from byte {self.start} to {self.end}"


class Instead(Fault, frozen=True):
    """Something else altogether."""

    reply: ServerReply
    what: str

    def applied(self, reply: ServerReply) -> ServerReply:
        return self.reply

    def __str__(self) -> str:
        return self.what


def _stepped(reply: ServerReply, steps: Sequence[Step]) -> ServerReply:
    framing = "chunked" if reply.framing == "length" else reply.framing
    return msgspec.structs.replace(reply, steps=tuple(steps), framing=framing)


def _pieces(body: bytes, at: Sequence[int] | int) -> list[Step]:
    return [Send(piece) for piece in chop(body, at)]


def _with_headers(reply: ServerReply, header: tuple[str, str], body: bytes | None = None) -> ServerReply:
    others = tuple(pair for pair in reply.headers if pair[0] != header[0])
    return msgspec.structs.replace(
        reply, headers=(*others, header), body=reply.body if body is None else body
    )


def _listed(offsets: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, offsets[:8]))
    return shown if len(offsets) <= 8 else f"{shown} and {len(offsets) - 8} more places"
