"""Bytes of a file as text, and back: in which charset, with which mark, and with which line ends."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

__all__ = ["SAMPLE_BYTES", "Charset", "charset_of", "has_crlf", "lines_in", "sayable", "text_of"]

SAMPLE_BYTES = 65_536
"""How much of a file is looked at to tell what it is."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like the mark of UTF-16, so it is asked first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ODD = bytes({*range(32), 127} - {*b"\t\n\r\f\b\x1b"})
"""What no text has, unless it is in no charset that is known here."""
_MOST_ODD = 0.01
_HALF = re.compile("[\ud800-\udfff]")


class Charset(NamedTuple):
    codec: str
    mark: bytes = b""

    @property
    def shown(self) -> str:
        """Its name, where it is worth a word."""
        return (
            ""
            if self.codec == "utf-8"
            else {"cp1252": "Windows-1252", "latin-1": "Latin-1"}.get(
                self.codec, self.codec.upper().removesuffix("-LE").removesuffix("-BE")
            )
        )

    def bytes_of(self, text: str) -> bytes:
        """The file that says this; what `text_of` read comes out as it was."""
        return self.mark + text.encode(self.codec, self._odd)

    def text_of(self, data: bytes) -> str:
        return data[len(self.mark) :].decode(self.codec, self._odd)

    def lacks(self, text: str) -> str:
        """The first letter that it has no bytes for; none of what a person wrote, in any but a few."""
        try:
            text.encode(self.codec)
        except UnicodeEncodeError as error:
            return text[error.start]
        return ""

    @property
    def _odd(self) -> str:
        """How bytes that do not fit become text, so that they can be written back."""
        return "surrogatepass" if self.codec.startswith(("utf-16", "utf-32")) else "surrogateescape"


def charset_of(sample: bytes, *, is_whole: bool) -> Charset | None:
    """By how the file begins; `None` where it is no text.

    Bytes that are no UTF-8 are taken for what Windows calls ANSI, or for Latin-1: they can be written back as
    they were, whatever they meant.
    """
    for mark, codec in _MARKS:
        if sample.startswith(mark):
            return Charset(codec, mark)
    if b"\0" in sample:
        return None
    if _decodes(sample, "utf-8", is_whole):
        return Charset("utf-8")
    if len(sample) - len(sample.translate(None, _ODD)) > _MOST_ODD * len(sample):
        return None
    return Charset("cp1252" if _decodes(sample, "cp1252", is_whole) else "latin-1")


def _decodes(sample: bytes, codec: str, is_whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(codec)("strict").decode(sample, is_whole)
    except UnicodeDecodeError:
        return False
    return True


def text_of(data: bytes) -> tuple[str, Charset] | None:
    """What a file says, in which charset; `None` where it is no text that could be written back as it was."""
    charset = charset_of(data[:SAMPLE_BYTES], is_whole=len(data) <= SAMPLE_BYTES)
    if charset is None:
        return None
    try:
        return charset.text_of(data), charset
    except UnicodeDecodeError:
        return None


def has_crlf(text: str) -> bool:
    """Whether each of its lines ends with CRLF."""
    count = text.count("\n")
    return count > 0 and text.count("\r\n") == count


def lines_in(text: str) -> int:
    """How many lines there are; the last one may have no end."""
    return text.count("\n") + bool(text and not text.endswith("\n"))


def sayable(text: str) -> str:
    """The same without what stands for bytes that are no text."""
    return text if text.isascii() else _HALF.sub("�", text)
