"""Bytes of the web as text: by their mark, by what the server says, by what the page says of itself."""

from __future__ import annotations

import re

__all__ = ["decoded"]

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_META = re.compile(
    rb"""<meta[^>]{0,500}?charset\s{0,20}=\s{0,20}["']?\s{0,20}([\w.:-]{1,40})""", re.IGNORECASE
)
_HEAD = 1_024
"""How far into a page the name of its charset may stand, as browsers have it."""

_LABELS = {
    "utf-8": "utf8 utf-8 unicode-1-1-utf-8 x-unicode20utf8",
    # What calls itself so is Windows' own in truth, and every browser reads it like that.
    "cp1252": "ascii us-ascii latin1 iso-8859-1 iso8859-1 iso_8859-1 l1 cp1252 windows-1252 x-cp1252",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2 csunicode",
    "utf-16-be": "utf-16be unicodefffe",
    "gb18030": "gb18030 gbk gb2312 gb_2312 gb_2312-80 x-gbk chinese csgb2312",
    "big5hkscs": "big5 big5-hkscs x-x-big5 csbig5 cn-big5",
    "cp932": "shift_jis shift-jis sjis x-sjis ms932 windows-31j ms_kanji",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 korean windows-949",
    "koi8_r": "koi8-r koi8 koi",
    "koi8_u": "koi8-u koi8-ru",
    "cp866": "ibm866 cp866 866",
    "cp874": "windows-874 tis-620 iso-8859-11 dos-874",
    "cp1254": "windows-1254 iso-8859-9 latin5 l5",
    "mac_roman": "macintosh mac x-mac-roman",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    **{f"cp{n}": f"windows-{n} cp{n} x-cp{n}" for n in (1250, 1251, 1253, 1255, 1256, 1257, 1258)},
    **{
        f"iso8859_{n}": f"iso-8859-{n} iso8859-{n} iso_8859-{n}"
        for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)
    },
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}


def decoded(body: bytes, said: str, *, is_page: bool = False) -> str:
    """The text. What is wrong in it shows as �, and an unknown charset is read as UTF-8."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    codec = _CODECS.get(said.strip().lower())
    if codec is None and is_page and (found := _META.search(body[:_HEAD])):
        codec = _CODECS.get(found[1].decode().lower())
        # A page in two-byte letters could not have been read as far as here.
        codec = "utf-8" if codec is not None and codec.startswith("utf-16") else codec
    return body.decode(codec or "utf-8", "replace")
