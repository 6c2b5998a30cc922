"""Entries as stored bytes: what is large is set aside, and comes back byte for byte."""

from __future__ import annotations

from hashlib import sha256

import hypothesis
import pytest
from hypothesis import strategies as st
from strategies import values_of

from gnomon._payload import ASIDE_BYTES, blobs_named, packed, unpacked
from gnomon.errors import Damaged
from gnomon.types.events import LedgerEntry, MessageReceived
from gnomon.types.messages import Image, Message, Text
from gnomon.types.records import LedgerEvent, utc_now

LARGE = ASIDE_BYTES + 1


def _event(kept) -> LedgerEvent:
    return LedgerEvent(
        session_id="s",
        seq=1,
        id="e",
        type="t",
        payload=kept.payload,
        created_at=utc_now(),
        version=kept.version,
    )


def _blobs(kept) -> dict[str, bytes]:
    return {sha256(content).hexdigest(): content for content in kept.blobs}


def _received(*content) -> MessageReceived:
    return MessageReceived("msg_1", Message.user(*content))


def test_a_small_entry_is_its_json() -> None:
    kept = packed(_received("hello"))
    assert (kept.version, kept.blobs) == (1, ())
    assert unpacked(_event(kept), {}) == _received("hello")


@pytest.mark.parametrize("text", ["a" * LARGE, "ü" * LARGE, "🙂" * (LARGE // 4 + 1)])
def test_a_large_text_is_set_aside_as_its_bytes(text: str) -> None:
    kept = packed(_received(Text("before"), Text(text)))
    assert kept.version == 2
    assert kept.blobs == (text.encode(),)
    assert blobs_named(_event(kept)) == tuple(_blobs(kept))
    assert unpacked(_event(kept), _blobs(kept)) == _received(Text("before"), Text(text))


def test_media_is_set_aside_raw_and_not_as_base64() -> None:
    image = Image(data=bytes(range(256)) * 100, media_type="image/png")
    kept = packed(_received("look", image))
    assert kept.blobs == (image.data,)
    assert len(kept.payload) < 1_000
    assert unpacked(_event(kept), _blobs(kept)) == _received("look", image)


def test_the_same_media_twice_is_one_blob() -> None:
    image = Image(data=b"x" * LARGE, media_type="image/png")
    kept = packed(_received(image, image))
    assert len(_blobs(kept)) == 1
    assert unpacked(_event(kept), _blobs(kept)) == _received(image, image)


def test_a_text_that_looks_like_an_envelope_stays_a_text() -> None:
    text = '{"event": null, "blobs": [{"path": ["message"], "digest": "x", "form": "text"}]}'
    entry = _received(text, "z" * LARGE, text)
    kept = packed(entry)
    assert unpacked(_event(kept), _blobs(kept)) == entry


def test_many_small_parts_stay_where_they_are() -> None:
    entry = _received(*(Text("x" * 1_000) for _ in range(40)))
    kept = packed(entry)
    assert (kept.version, kept.blobs) == (1, ())
    assert unpacked(_event(kept), {}) == entry


def test_a_missing_blob_names_the_event_and_the_blob() -> None:
    kept = packed(_received("y" * LARGE))
    with pytest.raises(Damaged, match=r"event 1 of session 's'.*blob [0-9a-f]{12}… is missing"):
        unpacked(_event(kept), {})


@pytest.mark.parametrize(
    "payload",
    [
        b"nonsense",
        b'{"event": 1}',
        b'{"event": {}, "blobs": [{"path": ["no", "where"], "digest": "d", "form": "text"}]}',
        b'{"event": [], "blobs": [{"path": ["x"], "digest": "d", "form": "text"}]}',
    ],
)
def test_a_damaged_envelope_is_said_to_be_damaged(payload: bytes) -> None:
    event = LedgerEvent(
        session_id="s", seq=3, id="e", type="t", payload=payload, created_at=utc_now(), version=2
    )
    with pytest.raises(Damaged, match="event 3 of session 's'"):
        unpacked(event, {"d": b"text"})


@hypothesis.given(values_of(LedgerEntry), st.integers(0, 3))
def test_every_entry_comes_back(entry, repeats: int) -> None:
    entries = [entry, _received(*(Text("w" * LARGE) for _ in range(repeats)), Text("end"))]
    for one in entries:
        kept = packed(one)
        assert packed(unpacked(_event(kept), _blobs(kept))) == kept
