"""Bytes in a line of JSON: as base64, and a long run of one byte as that byte and how often it comes."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator

__all__ = ["Told", "bytes_of", "line", "objects", "told"]

Told = str | dict[str, list[list[str | int]]]

_RUN = re.compile(rb"(?s)(.)\1{999,}")


def told(content: bytes) -> Told:
    """The bytes as JSON can say them: base64, or pieces of it that are to be repeated."""
    if not _RUN.search(content):
        return _plain(content)
    runs: list[list[str | int]] = []
    end = 0
    for run in _RUN.finditer(content):
        between = content[end : run.start()]
        runs += [[_plain(between), 1]] if between else []
        runs.append([_plain(run[1]), len(run[0])])
        end = run.end()
    return {"runs": [*runs, [_plain(content[end:]), 1]]}


def bytes_of(said: Told) -> bytes:
    if isinstance(said, str):
        return b64decode(said, validate=True)
    return b"".join(b64decode(str(piece), validate=True) * int(times) for piece, times in said["runs"])


def line(value: object) -> str:
    """In ASCII: no character of a key may end a line, or be lost in an editor."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"


def objects(text: str) -> Iterator[object]:
    """What the lines of a file say, without its comments."""
    lines: Iterable[str] = text.split("\n")
    return (json.loads(each) for each in lines if each and not each.startswith("#"))


def _plain(content: bytes) -> str:
    return b64encode(content).decode()
