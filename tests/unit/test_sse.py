"""Bytes → events: the readers against a plain reading of the standard, however the bytes are split."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon._sse import LineReader, SSEReader


def read(pieces: Iterable[bytes]) -> list[bytes]:
    reader = SSEReader()
    return [data for piece in pieces for data in reader.feed(piece)]


def by_the_standard(stream: bytes) -> list[bytes]:
    """Line by line, as the standard tells it; data that is empty means nothing to us."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[bytes] = []
    data: list[bytes] = []
    for line in text.split(b"\n")[:-1]:  # the last has no end
        if not line:
            events.append(b"\n".join(data))
            data = []
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value[1:] if value.startswith(b" ") else value)
    return [event for event in events if event]


def split(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = sorted({cut % (len(stream) + 1) for cut in cuts})
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


PLAIN = [
    b'data: {"a":1}',
    b"data:x",
    b"data:  two spaces",
    b"data",
    b"data:",
    "data: é😀".encode(),
    b"data: [DONE]",
]
OTHER = [
    b": comment",
    b":",
    b"event: ping",
    b"event: error",
    b"id: 7",
    b"retry: 10",
    b"database: no",
    b" data: x",
]
LINES = st.sampled_from([*PLAIN, *OTHER, b"nonsense", b"", b"", b""])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(st.tuples(LINES, ENDS), max_size=25))
    mark = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return mark + b"".join(line + end for line, end in lines) + draw(st.sampled_from([b"", b"data: cut off"]))


@given(streams(), st.lists(st.integers(0, 10_000), max_size=12))
def test_whatever_the_split_the_events_are_those_of_the_standard(stream: bytes, cuts: list[int]) -> None:
    assert read(split(stream, cuts)) == by_the_standard(stream)


@given(streams())
def test_one_byte_at_a_time_makes_no_difference(stream: bytes) -> None:
    assert read(bytes([byte]) for byte in stream) == by_the_standard(stream)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"event: x\ndata: a\n\n", [b"a"]),
        (b"data: a\nevent: x\n\n", [b"a"]),
        (b"event: x\nid: 3\ndata: a\n\n", [b"a"]),
        (b": hello\n\ndata: a\n\n", [b"a"]),
        (b"data: a\r\n\r\ndata: b\r\r", [b"a", b"b"]),
        (b"\n\n\ndata: a\n\n\n", [b"a"]),
        (b"data: cut", []),
        (b"data: cut\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: \xef\xbb\xbf\n\n", [b"\xef\xbb\xbf"]),
    ],
)
def test_an_event_is_its_data(stream: bytes, events: list[bytes]) -> None:
    assert read([stream]) == events
    assert by_the_standard(stream) == events


def test_a_line_of_ten_megabytes_is_read_in_time_that_grows_with_its_length() -> None:
    line = b"data: " + b"x" * 10_000_000
    pieces = [line[at : at + 1000] for at in range(0, len(line), 1000)]
    assert [len(data) for data in read([*pieces, b"\n", b"\n"])] == [10_000_000]


@given(
    st.lists(st.sampled_from([b'{"a":1}', b"", b"  ", "{é}".encode()])), st.lists(st.integers(0, 999)), ENDS
)
def test_lines_of_json_come_whole(lines: list[bytes], cuts: list[int], end: bytes) -> None:
    stream = b"".join(line + end for line in lines)
    for last in (b"", b'{"last": true}'):
        reader = LineReader()
        found = [line for piece in split(stream + last, cuts) for line in reader.feed(piece)]
        assert found + reader.end() == [line for line in [*lines, last] if line.strip()]
