"""Forgetting by age, in every tenant: what kinds of rows, and how old."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import get_args

import msgspec

from gnomon.contracts.storage import RecordKind, Storage, SupportsRetention
from gnomon.errors import InvalidInput, StorageError
from gnomon.upkeep._walk import tenants_of

__all__ = ["KINDS", "age", "parse_kinds", "prune"]

KINDS: tuple[RecordKind, ...] = get_args(RecordKind)
"""Everything that can be pruned."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST = timedelta(days=100_000)
"""What is taken off the time of day must still have a date."""
_AGE = re.compile(r"\s*(\d{1,6})\s*([smhdw])\s*", re.ASCII)


def age(text: str) -> timedelta:
    """What `30d`, `12h` or `2w` says; months and years have no length."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text!r} is no age", hint="write 90s, 15m, 12h, 30d or 2w")
    given = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if given > _LONGEST:
        raise InvalidInput(f"{text!r} is more than {_LONGEST.days:,} days")
    return given


def parse_kinds(text: str) -> tuple[RecordKind, ...]:
    """What `traces,checkpoints` names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        return tuple(dict.fromkeys(msgspec.convert(names, tuple[RecordKind, ...])))
    except msgspec.ValidationError:
        wrong = next(name for name in names if name not in KINDS)
        raise InvalidInput(
            f"there is no kind {wrong!r} to prune", hint=f"known: {', '.join(KINDS)}"
        ) from None


async def prune(
    store: Storage, kinds: Sequence[RecordKind], older_than: datetime, *, tenants: Sequence[str] | None = None
) -> Mapping[RecordKind, int]:
    """How many rows of each kind went; what recovery needs stays."""
    removed: dict[RecordKind, int] = dict.fromkeys(kinds, 0)
    async with aclosing(tenants_of(store, tenants)) as names:
        async for tenant in names:
            view = store.scoped(tenant)
            if not isinstance(view, SupportsRetention):
                raise StorageError(
                    "this store cannot forget by age", hint="it does not offer SupportsRetention"
                )
            for kind in removed:
                removed[kind] += await view.prune(kind, older_than)
    return removed
