"""Which entry of the snapshot a model's name belongs to."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

__all__ = ["Match"]


class Match(msgspec.Struct, frozen=True, omit_defaults=True, rename={"any_of": "or", "all_of": "and"}):
    """Every condition that is set has to hold; names are in lower case."""

    equals: tuple[str, ...] = ()
    """One of these, exactly."""
    starts_with: str | None = None
    ends_with: str | None = None
    contains: str | None = None
    regex: str | None = None
    any_of: tuple[Match, ...] = ()
    all_of: tuple[Match, ...] = ()

    def fits(self, name: str) -> bool:
        if self.any_of or self.equals:
            return name in self.equals or any(match.fits(name) for match in self.any_of)
        return (
            (self.starts_with is None or name.startswith(self.starts_with))
            and (self.ends_with is None or name.endswith(self.ends_with))
            and (self.contains is None or self.contains in name)
            and (self.regex is None or _compiled(self.regex).search(name) is not None)
            and all(match.fits(name) for match in self.all_of)
        )


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
