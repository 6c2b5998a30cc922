"""Bodies that are larger than an item may be: kept in pieces, under an id that nobody else has.

The pieces are written first, then the item that names them, so that no reader
finds a body in part. A body is on the list of waste from before its first piece
is written until the very transaction that writes the item, and again from the
transaction that removes or replaces the item until the last piece is gone. So
whatever a crash leaves behind is on the list. What is still there after an hour
is swept by whoever next writes a large body, at most every ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from secrets import token_hex
from time import monotonic, time_ns
from typing import TypeVar

import msgspec

from gnomon.storage._dynamo_items import WASTE, Large, piece_key
from gnomon.storage._dynamo_table import Action, Delete, Key, Put, Table, at_once
from gnomon.storage._keys import number_key
from gnomon.storage._rows import Lost

__all__ = ["INLINE_BYTES", "Bodies"]

INLINE_BYTES = 350_000
"""A body up to this is kept in its item: one of 400 KB at most, in which keys and places count too."""

_PIECE_BYTES = 350_000
_GRACE_S = 3600.0
_SWEEP_EVERY_S = 600.0
_SWEPT = 25
_AGAIN_S, _PAUSE_S = 3.0, 0.1

_T = TypeVar("_T")


class _Waste(msgspec.Struct, frozen=True):
    sk: str
    of_tenant: str
    pieces: int


class Bodies:
    """The large bodies of a store."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._swept_at = float("-inf")

    async def put(self, tenant: str, body: bytes) -> Large:
        """Write the pieces. They last only if `keeping` is part of what writes the item."""
        await self._sweep_now_and_then()
        pieces = -(-len(body) // _PIECE_BYTES)
        large = Large(_new_id(), pieces, len(body), sha256(body).digest())
        await self._table.commit([_wasted(tenant, large)])
        calls = [partial(self._put_piece, tenant, large, number, body) for number in range(pieces)]
        await at_once([partial(_steadily, call) for call in calls])
        return large

    async def get(self, tenant: str, large: Large) -> bytes | None:
        """The body; `None` when pieces are gone, as they are once the item is gone or names another."""
        calls = [partial(self._get_piece, tenant, large, number) for number in range(large.pieces)]
        pieces = await at_once([partial(_steadily, call) for call in calls])
        body = b"".join(pieces)
        return body if len(body) == large.size else None

    def keeping(self, large: Large) -> Action:
        """Refused when the body was taken for waste in the meantime."""
        return Delete(_waste_key(large), "attribute_exists(pk) AND attribute_not_exists(taken)")

    def leaving(self, tenant: str, large: Large) -> Action:
        """For the transaction after which no item names the body any more; then comes `drop`."""
        return _wasted(tenant, large, is_taken=True)

    async def drop(self, tenant: str, large: Large) -> None:
        """Remove the pieces of a body that is on the list of waste; if that breaks, it stays on the list."""
        keys = [piece_key(tenant, large, number) for number in range(large.pieces)]
        with suppress(Lost):
            await at_once([partial(self._table.commit, [Delete(key)]) for key in keys])
            await self._table.commit([Delete(_waste_key(large))])

    async def sweep(self, grace_s: float = _GRACE_S) -> int:
        """Remove what was left behind long ago; how many bodies that were."""
        before = number_key(time_ns() - int(grace_s * 1e9))
        found, _ = await self._table.query(WASTE, high=before, limit=_SWEPT)
        for item in found:
            waste = self._table.read(_Waste, item)
            large = Large(waste.sk, waste.pieces, 0, b"")
            # First it is taken, so that a writer that was asleep for an hour does not come to name it.
            taken = _wasted(waste.of_tenant, large, is_taken=True)
            if not await self._table.commit([Put(taken.item, "attribute_exists(pk)")]):
                await self.drop(waste.of_tenant, large)
        return len(found)

    async def _sweep_now_and_then(self) -> None:
        if monotonic() - self._swept_at > _SWEEP_EVERY_S:
            self._swept_at = monotonic()
            with suppress(Lost):  # another time will do
                await self.sweep()

    async def _put_piece(self, tenant: str, large: Large, number: int, body: bytes) -> None:
        piece = body[number * _PIECE_BYTES : (number + 1) * _PIECE_BYTES]
        await self._table.commit([Put({**piece_key(tenant, large, number).item, "body": piece})])

    async def _get_piece(self, tenant: str, large: Large, number: int) -> bytes:
        found = await self._table.get(piece_key(tenant, large, number))
        piece = found["body"] if found is not None else b""
        return piece if isinstance(piece, bytes) else b""


async def _steadily(call: Callable[[], Awaitable[_T]]) -> _T:
    """A piece that may be read or written twice: not for each is the whole body begun anew."""
    until = monotonic() + _AGAIN_S
    while True:
        try:
            return await call()
        except Lost:
            if monotonic() + _PAUSE_S > until:
                raise
            await asyncio.sleep(_PAUSE_S)


def _new_id() -> str:
    return f"{number_key(time_ns())}-{token_hex(8)}"


def _waste_key(large: Large) -> Key:
    return Key(WASTE, large.id)


def _wasted(tenant: str, large: Large, *, is_taken: bool = False) -> Put:
    taken = {"taken": 1} if is_taken else {}
    return Put({**_waste_key(large).item, "of_tenant": tenant, "pieces": large.pieces, **taken})
