"""Images, audio and files on their way to a vendor."""

from __future__ import annotations

from base64 import b64encode

import pytest

from gnomon.errors import BadRequest
from gnomon.providers._media import base64_text, checked_size, data_url, media_bytes, media_type
from gnomon.types.messages import Audio, File, Image

PNG = b"\x89PNG\r\n\x1a\n and so on"
PNG_URL = "data:image/png;base64," + b64encode(PNG).decode()


@pytest.mark.parametrize(
    "part", [Image(data=PNG), Image(url=PNG_URL), Image(url=PNG_URL.replace("data", "DATA"))]
)
def test_bytes_may_be_given_as_such_or_in_a_url(part: Image) -> None:
    assert media_bytes(part) == PNG
    assert media_type(part) == "image/png"
    assert base64_text(part) == b64encode(PNG).decode()
    assert data_url(part).lower() == PNG_URL.lower()


def test_a_data_url_need_not_be_base64() -> None:
    part = File(url="data:text/plain;charset=utf-8,caf%C3%A9")
    assert (media_bytes(part), media_type(part)) == ("café".encode(), "text/plain")


@pytest.mark.parametrize("url", ["data:image/png;base64", "data:image/png;base64,A"])
def test_a_data_url_that_holds_nothing_is_refused(url: str) -> None:
    with pytest.raises(BadRequest, match="data: URL"):
        media_bytes(Image(url=url))


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Image(data=PNG, media_type="image/x-own"), "image/x-own"),
        (Audio(data=b"ID3..."), "audio/mpeg"),
        (File(data=b"a,b", name="table.csv"), "text/csv"),
        (Image(url="https://example.org/a.jpg?size=large"), "image/jpeg"),
        (Image(url="https://example.org/a"), None),
        (Image(data=b"????"), None),
        (Image(url="data:,x"), None),
    ],
)
def test_a_media_type_is_what_was_given_or_what_can_be_found(
    part: Image | Audio | File, kind: str | None
) -> None:
    assert media_type(part) == kind


def test_what_has_no_type_is_sent_as_bytes() -> None:
    assert data_url(File(data=b"x")) == "data:application/octet-stream;base64,eA=="


def test_a_part_by_address_has_no_bytes() -> None:
    part = Image(url="https://example.org/a.png")
    assert media_bytes(part) is None
    with pytest.raises(ValueError, match="by address"):
        base64_text(part)


def test_a_size_is_judged_only_where_the_bytes_are_here() -> None:
    checked_size(Image(data=bytes(100)), 100, "acme")
    checked_size(Image(url="https://example.org/a.png"), 0, "acme")
    for part in (Audio(data=bytes(2_500_001)), Audio(url="data:audio/wav," + "x" * 2_500_001)):
        with pytest.raises(BadRequest, match=r"the audio has 2.5 MB and acme takes 2 MB at most") as caught:
            checked_size(part, 2_000_000, "acme")
        assert caught.value.vendor == "acme"


def test_an_address_that_is_none_has_no_media_type() -> None:
    assert media_type(Image(url="http://[")) is None
