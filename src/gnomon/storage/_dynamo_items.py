"""The items of a store on DynamoDB, and their keys.

Everything is in one table with the keys `pk` and `sk`, both text:

- a row: pk of tenant, "r", kind and id; sk "row". Its revision, mark, places, and body or pieces.
- its entry in an index: pk of tenant, "i", kind, index and part; sk the row's sort. Its row_id.
- a group of a log: pk of tenant, "e" and session; sk its first number. Its last_seq, and body or pieces.
- the tail of a log: pk of tenant, "t" and session; sk "tail". Its last_seq.
- a piece of a body: pk of tenant, "p", the body's id and the piece's number; sk "piece". Its bytes.
- a body to be removed: pk of "" and "waste"; sk the body's id. See `_dynamo_bodies`.
- the schema: pk of "" and "schema". Its schema_version.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from gnomon.storage._dynamo_table import Item, Key
from gnomon.storage._keys import joined, number_key
from gnomon.storage._rows import Place

__all__ = [
    "SCHEMA_KEY",
    "WASTE",
    "Head",
    "Large",
    "Listed",
    "StoredRow",
    "Tail",
    "cut",
    "entry_key",
    "group_key",
    "is_cut",
    "listed",
    "log_partition",
    "packed",
    "packed_places",
    "partition",
    "piece_key",
    "row_key",
    "sort_key",
    "span_bounds",
    "tail_key",
    "unpacked_places",
]

# No name of a tenant is empty, so that these are nobody's.
SCHEMA_KEY = Key(joined("", "schema"), "schema")
WASTE = joined("", "waste")

_LONGEST_PK_BYTES = 2048
_LONGEST_SORT = 240
"""In characters, of four bytes at most: with the hash below, 1,024 bytes are not exceeded."""
_CUT, _PAST_CUT = "\x02\x04", "\x02\x05"
"""Neither is found in a key that `joined` has made."""


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """A place of a row, and in which index."""

    index: str
    part: str
    sort: str


class Large(msgspec.Struct, frozen=True, array_like=True):
    """A body that is kept in pieces. Its id begins with the time, and nobody can guess it."""

    id: str
    pieces: int
    size: int
    digest: bytes


class StoredRow(msgspec.Struct, frozen=True):
    """A row's item. `mark` is another one after each write, even where the revision is not."""

    revision: int
    mark: str
    places: bytes = b""
    body: bytes = b""
    pieces: bytes = b""
    pk: str = ""

    @property
    def large(self) -> Large | None:
        return _large(self.pieces)


class Head(msgspec.Struct, frozen=True):
    """The item of a group of events."""

    sk: str
    last_seq: int
    body_bytes: int = 0
    body: bytes = b""
    pieces: bytes = b""

    @property
    def first(self) -> int:
        return int(self.sk)

    @property
    def large(self) -> Large | None:
        return _large(self.pieces)


class Tail(msgspec.Struct, frozen=True):
    """The item of a log's end."""

    last_seq: int


# --- what is packed --------------------------------------------------------------

_pack = msgspec.msgpack.Encoder().encode
_places = msgspec.msgpack.Decoder(tuple[tuple[Listed, ...], tuple[Listed, ...]]).decode
_pieces = msgspec.msgpack.Decoder(Large).decode


def packed(body: bytes | Large) -> Item:
    """A body as attributes of the item it belongs to."""
    return {"pieces": _pack(body)} if isinstance(body, Large) else {"body": body}


def packed_places(places: Mapping[str, Place], stale: tuple[Listed, ...]) -> bytes:
    return _pack((listed(places), stale))


def listed(places: Mapping[str, Place]) -> tuple[Listed, ...]:
    return tuple(Listed(index, *place) for index, place in places.items())


def unpacked_places(row: StoredRow) -> tuple[tuple[Listed, ...], tuple[Listed, ...]]:
    """Where the row stands, and where it stood before and may still have entries."""
    return _places(row.places) if row.places else ((), ())


def _large(pieces: bytes) -> Large | None:
    return _pieces(pieces) if pieces else None


# --- keys ------------------------------------------------------------------------


def partition(tenant: str, *fields: str) -> str:
    """A partition's key. Names are long only when they are meant to be; then their hash stands for them."""
    whole = joined(tenant, *fields)
    if len(whole) * 4 <= _LONGEST_PK_BYTES or len(whole.encode()) <= _LONGEST_PK_BYTES:
        return whole
    return joined(tenant) + _CUT + sha256(whole.encode()).hexdigest()


def row_key(tenant: str, kind: str, id: str) -> Key:
    return Key(partition(tenant, "r", kind, id), "row")


def entry_key(tenant: str, kind: str, at: Listed) -> Key:
    return Key(partition(tenant, "i", kind, at.index, at.part), sort_key(at.sort))


def log_partition(tenant: str, session_id: str) -> str:
    return partition(tenant, "e", session_id)


def group_key(pk: str, first: int) -> Key:
    return Key(pk, number_key(first))


def tail_key(tenant: str, session_id: str) -> Key:
    # Not among the groups: a query for them must not find it.
    return Key(partition(tenant, "t", session_id), "tail")


def piece_key(tenant: str, large: Large, number: int) -> Key:
    # A partition for each, so that the pieces of one body are not all in one place.
    return Key(partition(tenant, "p", large.id, str(number)), "piece")


# --- long sort keys --------------------------------------------------------------
#
# A sort key may be longer than the service allows. It is cut after so many characters, and its hash
# follows: keys that begin alike stay together, and among themselves are put in order by who reads them.


def sort_key(sort: str) -> str:
    return cut(sort) + _CUT + sha256(sort.encode()).hexdigest()[:40] if is_cut(sort) else sort


def cut(sort: str) -> str:
    """As much of a sort, or of the key made of it, as is in order."""
    return sort[:_LONGEST_SORT]


def is_cut(sort: str) -> bool:
    return len(sort) > _LONGEST_SORT


def span_bounds(above: str, below: str) -> tuple[str, str]:
    """The bounds of a reading that misses nothing between the two; it may hold a little more."""
    low = cut(above)
    high = cut(below) + _PAST_CUT if is_cut(below) else below
    return low, high
