"""The snapshot that comes with a release: `make facts` writes `snapshot.json`, and this reads it."""

from __future__ import annotations

import re
from datetime import date
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from gnomon.facts.names import Match
from gnomon.facts.prices import Price

__all__ = ["Known", "Limits", "Priced", "Snapshot", "Vendor", "known", "snapshot", "undated"]


class Priced(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is billed alike, under all its names."""

    id: str
    match: Match
    prices: tuple[Price, ...] = ()
    context_window: int | None = None
    deprecated: bool = False


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one model can do. `None` is not known, which is not the same as no."""

    context_window: int | None = None
    max_output: int | None = None
    image: bool | None = None
    audio: bool | None = None
    file: bool | None = None
    tools: bool | None = None
    parallel_tools: bool | None = None
    thinking: bool | None = None
    structured_output: bool | None = None


class Vendor(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The models of one provider; `also` are vendors whose models it serves at their prices."""

    priced: tuple[Priced, ...] = ()
    limits: dict[str, Limits] = {}
    also: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`made` is the day on which the sources were read."""

    made: date
    sources: tuple[str, ...]
    vendors: dict[str, Vendor]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the snapshot says of one name."""

    priced: Priced | None = None
    limits: Limits = Limits()


@cache
def snapshot() -> Snapshot:
    return msgspec.json.decode(Path(__file__).with_name("snapshot.json").read_bytes(), type=Snapshot)


@lru_cache(maxsize=1024)
def known(provider: str, model: str) -> Known:
    """By the provider's own list first, then by those of whoever makes what it serves."""
    vendors, name = snapshot().vendors, model.lower()
    first = vendors.get(provider)
    if first is None:
        return Known()
    served = [first, *(vendors[other] for other in first.also if other in vendors)]
    priced = next((found for vendor in served if (found := _priced(vendor, name))), None)
    limits = next((found for vendor in served if (found := _limits(vendor, name))), Limits())
    return Known(priced=priced, limits=limits)


def _priced(vendor: Vendor, name: str) -> Priced | None:
    # Dates are written in two ways, and a price list knows one of them.
    return next(
        (entry for form in _forms(name) for entry in vendor.priced if entry.match.fits(form)),
        None,
    )


def _forms(name: str) -> tuple[str, ...]:
    dashed = re.sub(r"-(20\d\d)(0[1-9]|1[0-2])([0-2]\d|3[01])(?=$|[-:])", r"-\1-\2-\3", name)
    return (name,) if dashed == name else (name, dashed)


def _limits(vendor: Vendor, name: str) -> Limits | None:
    """A dated name is the model of that name, as of a day."""
    return vendor.limits.get(name) or vendor.limits.get(undated(name))


def undated(name: str) -> str:
    return _DATE.sub("", name)


_DATE = re.compile(r"[-@]20\d\d-?\d\d-?\d\d$")
