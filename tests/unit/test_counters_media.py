"""Images by their pixels and by the rules of their vendors; audio and files by what they hold."""

from __future__ import annotations

import struct
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.counters._media import audio_tokens, file_tokens, image_part_tokens
from gnomon.counters._pixels import pixel_size
from gnomon.counters._vendors import family_of, image_tokens
from gnomon.types.messages import Audio, File, Image


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00"


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0\x00\x10JFIF" + bytes(10)
    table = b"\xff\xdb\x00\x05\xff\xc0\x00"  # of a table that holds what looks like a marker
    frame = b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" + bytes(9)
    return b"\xff\xd8" + app + b"\xff" + table + frame + b"\xff\xda"


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + body + bytes(10)


def extended(width: int, height: int) -> bytes:
    return webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + (width - 1 | height - 1 << 14).to_bytes(4, "little"))


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height))


@pytest.mark.parametrize("made", [png, gif, jpeg, extended, lossless, lossy])
def test_the_size_of_an_image_is_read_from_its_first_bytes(made) -> None:
    for size in ((1, 1), (640, 480), (50, 65), (4096, 3000)):
        assert pixel_size(made(*size)) == size


@pytest.mark.parametrize("made", [png, gif, jpeg, extended, lossless, lossy])
def test_an_image_that_is_cut_off_anywhere_has_no_size_and_no_error(made) -> None:
    whole = made(640, 480)
    assert {pixel_size(whole[:cut]) for cut in range(len(whole))} <= {None, (640, 480)}
    assert pixel_size(made(0, 480) if made not in (extended, lossless) else b"") is None


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF....WEBP"]),
)
def test_no_bytes_are_an_error(noise: bytes, start: bytes) -> None:
    size = pixel_size(start + noise)
    assert size is None or min(size) > 0
    assert image_part_tokens(Image(data=start + noise), "gpt-4o") > 0
    assert audio_tokens(Audio(data=start + noise)) > 0
    assert file_tokens(File(data=start + noise)) > 0


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        # The examples of the vendors' own pages.
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1105),
        ("gpt-4.1-mini", (1024, 1024), 1659),
        ("gpt-4o-mini", (128, 64), 2833 + 5667),
        ("openrouter/openai/gpt-4o-mini", (128, 64), 2833 + 5667),
        ("o3", (128, 64), 75 + 150),
        ("claude-opus-5-5", (1000, 1000), 1334),
        ("us.anthropic.claude-sonnet-4-5-v1:0", (200, 200), 54),
        ("claude-opus-5-5", (8000, 8000), 1600),
        ("gemini-2.0-flash", (384, 384), 258),
        ("gemini-2.5-flash", (3840, 2160), 258),
        ("gemini-3.5-flash", (60, 30), 1120),
        ("nobody-knows-it", (750, 100), 100),
    ],
)
def test_an_image_costs_what_its_vendor_says(model: str, size: tuple[int, int], tokens: int) -> None:
    assert image_tokens(model, size) == tokens


def test_a_coarse_look_costs_the_base_alone() -> None:
    part = Image(data=png(1024, 1024), meta={"detail": "low"})
    assert image_part_tokens(part, "gpt-4o") == 85


def test_patches_are_bounded() -> None:
    assert image_tokens("gpt-4.1-mini", (20_000, 20_000)) <= 1536 * 1.62 + 1


def test_an_image_in_a_data_url_is_looked_at_and_one_by_address_is_guessed() -> None:
    url = "data:image/png;base64," + b64encode(png(640, 480)).decode()
    assert image_part_tokens(Image(url=url), "claude-opus-5-5") == image_tokens("claude-opus-5-5", (640, 480))
    guessed = image_tokens("claude-opus-5-5", (1024, 1024))
    for odd in ("https://example.org/a.png", "data:image/png,abc", "data:image/png;base64,%%%%"):
        assert image_part_tokens(Image(url=odd), "claude-opus-5-5") == guessed


def test_audio_counts_by_the_seconds_that_it_plays() -> None:
    header = b"RIFF\x00\x00\x00\x00WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 24_000, 48_000, 2, 16)
    assert audio_tokens(Audio(data=header + bytes(480_000 - len(header)))) == 320
    assert audio_tokens(Audio(data=bytes(160_000))) == 320
    assert audio_tokens(Audio(url="https://example.org/a.mp3")) > 0


def test_a_file_counts_by_its_pages_its_text_or_its_bytes() -> None:
    pages = b"%PDF-1.7\n" + b"<< /Type /Page >>\n" * 3 + b"<< /Type /Pages /Count 3 >>"
    assert file_tokens(File(data=pages)) == 4_500
    assert file_tokens(File(data=b"words and words " * 1_000)) == pytest.approx(3_200, rel=0.2)
    assert file_tokens(File(data=b"\xff\xfe" * 1_000)) == 500


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-5", "openai"),
        ("o4-mini", "openai"),
        ("azure/my-gpt-4o", "openai"),
        ("claude-3-haiku-20240307", "claude-3"),
        ("claude-opus-5-5", "claude"),
        ("anthropic.claude-sonnet-4-6", "claude"),
        ("databricks-claude-3-7-sonnet", "claude-3"),
        ("gemini-3.5-flash", "google"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("mistral-large-latest", "mistral"),
        ("my-model", "general"),
        ("proto1", "general"),
        ("", "general"),
    ],
)
def test_a_model_is_known_by_its_name_wherever_it_is_served_from(model: str, family: str) -> None:
    assert family_of(model).name == family


@pytest.mark.parametrize(
    "model", ["gpt-5", "gpt-5-mini", "claude-opus-5", "gemini-1.5-pro", "gemini-2.0-flash", "x"]
)
@pytest.mark.parametrize("size", [(2**32 - 1, 2**32 - 1), (2**32 - 1, 1), (1, 2**32 - 1)])
def test_a_header_that_lies_costs_no_more_than_a_large_image(model: str, size: tuple[int, int]) -> None:
    assert 1 <= image_tokens(model, size) < 20_000


def test_a_sound_whose_header_lies_of_its_rate_is_counted_by_its_bytes() -> None:
    lying = b"RIFF\0\0\0\0WAVEfmt " + b"\0" * 12 + b"\xff" * 4 + b"\0" * 160_000
    assert audio_tokens(Audio(data=lying)) == audio_tokens(Audio(data=b"\0" * len(lying)))
