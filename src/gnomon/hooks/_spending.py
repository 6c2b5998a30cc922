"""What was spent, by whatever it is counted by; what was not used for long is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from decimal import Decimal

import msgspec

from gnomon.hooks._prices import Item
from gnomon.types.requests import Usage, add_usage

__all__ = ["Accounts", "Spend"]


class Spend(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What something has cost so far, in US dollars.

    `known` is the sum of what has a price; `unpriced` counts the answers and attempts that have none,
    or of which nobody has said how many tokens they took.
    """

    known: Decimal = Decimal(0)
    unpriced: int = 0
    priced: int = 0
    usage: Usage = Usage()

    @property
    def cost(self) -> Decimal | None:
        """The whole of it; `None` as long as a price is unknown."""
        return None if self.unpriced else self.known

    def plus(self, item: Item) -> Spend:
        return Spend(
            known=self.known + (item.cost or 0),
            unpriced=self.unpriced + (item.cost is None),
            priced=self.priced + (item.cost is not None),
            usage=add_usage((self.usage, item.usage)),
        )


class Accounts:
    """One `Spend` a name; of more than `most` names, those are kept that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Spend] = OrderedDict()

    def of(self, name: str) -> Spend:
        if name in self._kept:
            self._kept.move_to_end(name)
        return self._kept.get(name, _NOTHING)

    def add(self, name: str, item: Item) -> None:
        self._kept[name] = self.of(name).plus(item)
        self._kept.move_to_end(name)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def all(self) -> dict[str, Spend]:
        return dict(self._kept)


_NOTHING = Spend()
