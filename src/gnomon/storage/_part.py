"""What the parts of a store share: the tenant they are bound to, and how a list is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from gnomon.errors import InvalidInput
from gnomon.storage._keys import cursor as made_cursor
from gnomon.storage._keys import opened
from gnomon.storage._rows import Found, Place, Row, Span
from gnomon.storage._steady import Steady
from gnomon.storage._values import decoded
from gnomon.types.records import Page

__all__ = ["ENROLLED", "LONGEST_PAGE", "Part"]

LONGEST_PAGE = 1_000
"""A page has at most so many rows, however many are asked for."""

ENROLLED = "~"
"""The list of tenants is kept under this name, which no tenant can have."""

_SCANS = 8

_S = TypeVar("_S", bound=msgspec.Struct)


def _all(_: object) -> bool:
    return True


class Part:
    """One kind of record of one tenant."""

    def __init__(self, rows: Steady, tenant: str) -> None:
        self._rows = rows
        self._tenant = tenant

    async def _get(self, kind: str, id: str, record: type[_S]) -> _S | None:
        found = await self._rows.get(self._tenant, kind, id)
        return None if found is None else self._read(record, found)

    def _read(self, record: type[_S], found: Found) -> _S:
        return decoded(record, found.body, self._rows.where)

    async def _enrol(self) -> None:
        """Before a tenant's first row: so that a copy of the store finds every tenant."""
        if self._tenant not in self._rows.tenants:
            place = Place("", self._tenant)
            row = Row(kind="tenants", id=self._tenant, body=b"{}", places={"all": place})
            await self._rows.write(ENROLLED, row, 0)
            self._rows.tenants.add(self._tenant)

    async def _page(
        self,
        listed: str,
        span: Span,
        record: type[_S],
        limit: int,
        offset: int = 0,
        cursor: str | None = None,
        keep: Callable[[_S], bool] = _all,
    ) -> Page[_S]:
        """A page of a list; with `keep`, some of its rows are left out, and so it may be short."""
        limit = checked_limit(limit, offset, cursor)
        reading = _Reading(span if cursor is None else moved(span, opened(listed, cursor)), limit, offset)
        items: list[_S] = []
        while True:
            asked = reading.batch(len(items))
            found = await self._rows.find(self._tenant, asked)
            for row in found:
                if len(items) == limit:  # and here is one more
                    return Page(tuple(items), made_cursor(listed, reading.sort))
                kept = self._read(record, row)
                if reading.takes(row.sort, keep(kept)):
                    items.append(kept)
            if len(found) < asked.limit:
                return Page(tuple(items))
            if reading.is_long:
                return Page(tuple(items), made_cursor(listed, reading.sort))


class _Reading:
    """How far one page has been read."""

    def __init__(self, span: Span, limit: int, offset: int) -> None:
        self._span = span
        self._limit = limit
        self._skip = offset
        self._batches = 0
        self.sort = ""

    def batch(self, have: int) -> Span:
        """What to read next: what is still wanted, and one row more to see whether the list ends."""
        self._batches += 1
        span = moved(self._span, self.sort) if self.sort else self._span
        return msgspec.structs.replace(span, limit=min(self._limit - have + self._skip, LONGEST_PAGE) + 1)

    def takes(self, sort: str, fits: bool) -> bool:
        """Whether a row belongs on the page; either way it has been read."""
        self.sort = sort
        if fits and self._skip:
            self._skip -= 1
            return False
        return fits

    @property
    def is_long(self) -> bool:
        """A page whose rows are mostly left out is given short: it must not read the whole store."""
        return self._batches >= _SCANS and not self._skip


def checked_limit(limit: int, offset: int, cursor: str | None) -> int:
    given = (cast(object, limit), cast(object, offset))
    if any(not isinstance(number, int) or isinstance(number, bool) for number in given):
        raise InvalidInput(f"limit and offset are whole numbers; {given} was given")
    if limit < 1:
        raise InvalidInput(f"limit must be at least 1; {limit} was given")
    if offset < 0:
        raise InvalidInput(f"offset must not be negative; {offset} was given")
    if cursor is not None and offset:
        raise InvalidInput("cursor and offset were both given", hint="a cursor is a place of its own")
    return min(limit, LONGEST_PAGE)


def moved(span: Span, sort: str) -> Span:
    """The rest of the stretch after that key."""
    bound = {"below": sort} if span.descending else {"above": sort}
    return msgspec.structs.replace(span, **bound)
