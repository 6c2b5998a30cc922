"""The legal ways to write one and the same event stream.

Each takes a body with plain line ends and gives it in another form; whoever holds to the standard of
event streams reads the same out of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random

__all__ = ["FORMS", "LONG_FORMS"]

_LONG_BYTES = 10 * 2**20

_COMMENT = b": a comment that looks like data: {\n"
_FIELDS = b"id: 7\nretry: 3000\nx-unknown: {\n"


def crlf(body: bytes) -> bytes:
    return body.replace(b"\n", b"\r\n")


def cr(body: bytes) -> bytes:
    return body.replace(b"\n", b"\r")


def mixed_line_ends(body: bytes) -> bytes:
    """LF, CRLF and CR in turn; but a CR and the LF of a blank line after it would be one line end."""
    random = Random(len(body))  # noqa: S311 - which is which does not matter, that it stays so does
    written, before = bytearray(), b""
    for line in body.split(b"\n")[:-1]:
        ends = (b"\r\n", b"\r") if before == b"\r" and not line else (b"\n", b"\r\n", b"\r")
        before = random.choice(ends)
        written += line + before
    return bytes(written)


def byte_order_mark(body: bytes) -> bytes:
    return b"\xef\xbb\xbf" + body


def no_space_after_the_colon(body: bytes) -> bytes:
    return re.sub(rb"(?m)^(data|event|id): ", rb"\1:", body)


def comments_between_events(body: bytes) -> bytes:
    between = _COMMENT + b"\n:\n\n"
    return between + body.replace(b"\n\n", b"\n\n" + between)


def comments_inside_events(body: bytes) -> bytes:
    return _COMMENT + _FIELDS + re.sub(rb"\n(?!\n|\Z)", b"\n" + _COMMENT, body)


def events_without_data(body: bytes) -> bytes:
    empty = b"event: of-no-known-kind\n\n"
    return empty + body.replace(b"\n\n", b"\n\n" + empty)


def data_over_several_lines(body: bytes) -> bytes:
    """Each object, as several `data` lines: the line ends fall between the tokens of the JSON."""
    return re.sub(rb"(?m)^data: (\{.*)$", lambda found: _broken_up(found[1]), body)


def several_lines_with_crlf(body: bytes) -> bytes:
    """A line end that is split in two must not be two: that would be the end of the event."""
    return crlf(data_over_several_lines(body))


def one_long_comment(body: bytes) -> bytes:
    first = body.index(b"\n\n") + 2
    return body[:first] + b":" + b"x" * _LONG_BYTES + b"\n\n" + body[first:]


def one_long_unknown_field(body: bytes) -> bytes:
    """In every second object, so that one of them is an event that says something; the sum is the length."""
    count = len(re.findall(rb"(?m)^data: \{.*\}$", body)) or 1
    padding = b', "x_padding": "' + b"x" * (_LONG_BYTES // count) + b'"}'
    return re.sub(rb"(?m)^(data: \{.*)\}$", lambda found: found[1] + padding, body)


def _broken_up(json: bytes) -> bytes:
    lines, start, in_string, escaped = list[bytes](), 0, False, False
    for at, byte in enumerate(json):
        if escaped:
            escaped = False
        elif byte == 0x5C:
            escaped = True
        elif byte == 0x22:
            in_string = not in_string
        elif byte in b",{[" and not in_string:
            lines.append(json[start : at + 1])
            start = at + 1
    return b"\n".join(b"data: " + line for line in (*lines, json[start:]))


FORMS: Mapping[str, Callable[[bytes], bytes]] = {
    "CRLF line ends": crlf,
    "CR line ends": cr,
    "mixed line ends": mixed_line_ends,
    "a byte order mark": byte_order_mark,
    "no space after the colon": no_space_after_the_colon,
    "comments between events": comments_between_events,
    "comments and unknown fields inside events": comments_inside_events,
    "events without data": events_without_data,
    "data over several lines": data_over_several_lines,
    "data over several lines with CRLF": several_lines_with_crlf,
}

LONG_FORMS: Mapping[str, Callable[[bytes], bytes]] = {
    "a comment of 10 MB": one_long_comment,
    "10 MB in an unknown field": one_long_unknown_field,
}
