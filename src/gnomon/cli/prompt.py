"""What is asked: the words of the command line, what came through a pipe, and attachments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, cast

from gnomon.errors import InvalidInput
from gnomon.types.messages import Content

__all__ = ["compose", "piped_text", "spoken"]

_PIPE_LIMIT_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


def compose(words: str, piped: str, attachments: Sequence[Content]) -> str | list[Content]:
    """The prompt as one text, or as a list when something is attached."""
    if words and piped:
        text = f"{words}\n\n<stdin>\n{piped}\n</stdin>"
    else:
        text = words or piped
    if not text:
        raise InvalidInput("there is nothing to ask", hint="gnomon 'PROMPT', or pipe text into it")
    return [text, *attachments] if attachments else text


def spoken(words: Sequence[str]) -> str:
    """The words of the command line as one text."""
    return " ".join(_utf8(word) for word in words).strip()


def piped_text(*, quiet: bool) -> str:
    """What was piped in; empty when nobody piped anything."""
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison] - `<&-`
        return ""
    _say_when_waiting(stdin.buffer, quiet=quiet)
    try:
        text = _read_all(stdin.buffer).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(f"byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise InvalidInput(f"cannot read standard input: {(error.strerror or str(error)).lower()}") from None
    return text.replace("\r\n", "\n").rstrip()


def _read_all(stdin: BinaryIO) -> bytes:
    """Everything up to its end. What is no text, or has no end, is refused on the way."""
    data = bytearray()
    while (piece := _next_piece(stdin)) != b"":
        if b"\0" in piece:
            raise _not_text("it has NUL bytes")
        data += piece
        if len(data) > _PIPE_LIMIT_BYTES:
            raise InvalidInput(f"standard input is longer than {_PIPE_LIMIT_BYTES // 1024**2} MB")
    return bytes(data)


def _next_piece(stdin: BinaryIO) -> bytes:
    """More of it; nothing at its end. Who shares a pipe may have made it non-blocking."""
    from select import select

    while (piece := cast("bytes | None", stdin.read(_PIECE_BYTES))) is None:
        select([stdin], [], [])
    return piece


def _not_text(reason: str) -> InvalidInput:
    return InvalidInput(f"standard input is not text: {reason}", hint="attach a binary file with -a PATH")


def _say_when_waiting(stdin: BinaryIO, *, quiet: bool) -> None:
    """An open pipe that nobody writes to looks like a program that hangs."""
    if quiet or os.name != "posix":
        return
    from select import select

    ready, _, _ = select([stdin], [], [], 1.0)
    if not ready:
        sys.stderr.write("gnomon: waiting for standard input (end it with Ctrl-D, or give it </dev/null)\n")
        sys.stderr.flush()


def _utf8(word: str) -> str:
    """A word as text; in a locale other than UTF-8, Python leaves bytes it could not read in it."""
    try:
        word.encode()
        return word
    except UnicodeEncodeError:
        pass
    try:
        return os.fsencode(word).decode()
    except UnicodeError:
        raise InvalidInput("the prompt is not UTF-8 text") from None
