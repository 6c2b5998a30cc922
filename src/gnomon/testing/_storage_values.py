"""What a store must hold, what it must not, and what looks like something to be run."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

__all__ = [
    "EXECUTED",
    "IDS",
    "LIVE_PICKLES",
    "LOOKS_ALIVE",
    "NUMBERS",
    "TEXTS",
    "TIMES",
    "UNHOLDABLE",
    "executed",
    "nested",
]

TEXTS = (
    "",
    " ",
    "Grüße aus Zürich, naïve façade",
    "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "いろはにほへと 東京 𠮷野家 한국어 ภาษาไทย हिन्दी தமிழ் አማርኛ",
    "\u202bالعربية\u202c עברית \u2066mixed\u2069 \u200f",
    "e\u0301 \u00e9 n\u0303\u0323 \u1e69 s\u0323\u0307 ﷽",
    "👩‍👩‍👧‍👦🏳️‍🌈🇨🇭👍🏽",
    "\ufeffmark \ufffd \ufffe \uffff \U0001ffff \U0010ffff",
    "one\ntwo\r\nthree\rfour\tfive\x0bsix\x0cseven\x85eight\u2028nine\u2029ten",
    "".join(map(chr, range(1, 32))) + "\x7f" + "".join(map(chr, range(0x80, 0xA0))),
    "quotes ' \" ` '' \\' \\ \\\\ \\u0000 \\x00 %s %% {} {{}} $1 :name ? -- /* */ ;",
    "'; DROP TABLE events; --",
    "null",
    "NaN",
    "2024-05-17T12:30:15.123456Z",
    "MTIzNDU=",
)
"""Text in many scripts, and text that means something to somebody."""

NUMBERS = (0, 1, -1, 255, 2**31, -(2**31) - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, 0.1, -2.5, 1e-9, 5e-324, 1e308, -1.7976931348623157e308, 1e16, 123456789.123456789)

IDS = (
    "x",
    "with space",
    " edge ",
    "a/b/../c",
    "a:b::c",
    "100%",
    "%41",
    'it\'s "quoted" `x`',
    "back\\slash",
    "a.b.c",
    "$dollar",
    "#hash?query=1&x",
    "*[a-z]?",
    "{curly}",
    "(round)",
    "ünïcödé",
    "u\u0308ni",
    "東京",
    "👍🏽",
    "\U0010ffff",
    "X",
    "None",
    "0",
    "00",
    "-1",
    "line\nbreak",
    "x" * 200,
    "é" * 200,
)
"""Names that must be kept apart, and must each come back as they are."""


def nested() -> dict[str, object]:
    """A value with every kind of JSON in it, and keys that some stores read."""
    deep: object = "bottom"
    for _ in range(40):
        deep = [deep, {"": deep}] if isinstance(deep, str) else [deep]
    return {
        "texts": list(TEXTS),
        "with NUL": "a\x00b\x00",
        "NUL \x00 in a key": True,
        "numbers": list(NUMBERS),
        "floats": list(_FLOATS),
        "kinds": [True, 1, 1.0, "1", False, 0, None, "", [], {}],
        "deep": deep,
        "": "an empty key",
        "a.b": {"$set": 1, "$where": "1", "_id": 2, ".": 3, "$": 4},
        "__proto__": {"constructor": []},
        **{text[:20] or "empty": number for number, text in enumerate(TEXTS[2:9])},
    }


class _Odd:
    pass


UNHOLDABLE: dict[str, object] = {
    "bytes": b"bytes",
    "a bytearray": bytearray(b"bytes"),
    "a set": {1, 2},
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "an object": _Odd(),
    "a class": _Odd,
    "a function": nested,
    "half a character": "half \ud83d",
    "half a character as a key": {"half \ud83d": 1},
    "a number as a key": {1: "one"},
    "None as a key": {None: 1},
    "a complex number": 1j,
    "a time": datetime(2024, 1, 1, tzinfo=UTC),
}
"""What JSON has no form for."""

TIMES = (
    datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2024, 5, 17, 12, 0, 0, 1, tzinfo=UTC),
    datetime(2024, 5, 17, 12, 0, 0, 0, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1, 1, 1, 0, 0, 0, 0, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, 500, tzinfo=UTC),
    datetime(2024, 7, 1, 9, 0, 0, 7, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    datetime(2024, 7, 1, 9, 0, 0, 7, tzinfo=timezone(-timedelta(hours=9, minutes=30))),
    datetime(2024, 7, 1, 9, 0, 0, 7, tzinfo=timezone(timedelta(minutes=19, seconds=32))),
)


# --- what must not be run -----------------------------------------------------------

EXECUTED: list[str] = []
"""What was run, though it was only to be kept."""


def executed(what: str = "pickle") -> str:
    EXECUTED.append(what)
    return what


def _live_pickles() -> tuple[bytes, ...]:
    """Bytes of three protocols that call `executed` when they are unpickled; written out, not made."""
    module, name = executed.__module__.encode(), executed.__qualname__.encode()
    text = b"c%s\n%s\n(Vpickle\ntR." % (module, name)
    words = b"".join(b"\x8c%c%s" % (len(word), word) for word in (module, name))
    newest = words + b"\x93\x8c\x06pickle\x85R."
    return text, b"\x80\x02" + text, b"\x80\x04\x95" + len(newest).to_bytes(8, "little") + newest


LIVE_PICKLES = _live_pickles()

_CALL = f"{executed.__module__}.{executed.__qualname__}"

LOOKS_ALIVE: tuple[object, ...] = (
    {"$type": _CALL, "$args": ["type"]},
    {"__class__": _CALL, "__init__": ["class"]},
    {"__type__": "datetime", "value": "2024-01-01"},
    {"py/object": _CALL},
    {"py/reduce": [{"py/function": _CALL}, {"py/tuple": ["jsonpickle"]}]},
    {"!python/object/apply": [_CALL]},
    {"lc": 1, "type": "constructor", "id": _CALL.split("."), "kwargs": {}},
    {"$oid": "5f43a1b2c3d4e5f6a7b8c9d0"},
    {"$date": "2024-01-01T00:00:00Z"},
    {"$numberLong": "12"},
    {"$binary": {"base64": "AAAA", "subType": "00"}},
    {"S": "text"},
    {"N": "12"},
    {"B": "AAAA"},
    ["__reduce__", _CALL],
    LIVE_PICKLES[0].decode(),
)
"""JSON that a careless decoder would make something else of."""
