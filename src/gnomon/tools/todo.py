"""A list of what is to be done, which a model keeps for itself.

Nothing is kept here. Each call says the whole list, and so does its result; both stand in the
conversation, and with it in the ledger: a turn that is gone on with elsewhere has its list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from gnomon.contracts.tool import Touches
from gnomon.errors import InvalidArguments
from gnomon.tools.function import tool

__all__ = ["TodoItem", "todo"]

_MOST_ITEMS = 100
_LONGEST = 500
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


@tool(read_only=True, touches=Touches())
def todo(items: list[TodoItem]) -> str:
    """Keep a list of what is to be done, for work of several steps.

    Send the whole list each time: it takes the place of the one before. Have one item in progress while
    you work on it, and set it to completed as soon as it is done. An empty list clears it.

    items: all items, in the order in which they are to be done
    """
    cleaned = [TodoItem(" ".join(item.content.split()), item.status) for item in items]
    _check(cleaned)
    return _rendered(cleaned)


def _check(items: Sequence[TodoItem]) -> None:
    """One thing that is wrong with the list, by the number of the item as a reader counts."""
    if len(items) > _MOST_ITEMS:
        raise InvalidArguments(f"items: {len(items):,} are too many, {_MOST_ITEMS} are allowed")
    places: dict[str, int] = {}
    working = 0
    for place, item in enumerate(items, 1):
        if not item.content:
            raise InvalidArguments(f"items: item {place} says nothing in its content")
        if len(item.content) > _LONGEST:
            size = f"{len(item.content):,} characters, {_LONGEST} are allowed"
            raise InvalidArguments(f"items: the content of item {place} has {size}")
        if earlier := places.get(item.content):
            raise InvalidArguments(f"items: items {earlier} and {place} say the same")
        places[item.content] = place
        if item.status == "in_progress":
            if working:
                both = f"items {working} and {place} are both in_progress"
                raise InvalidArguments(f"items: {both}, and one at most may be")
            working = place


def _rendered(items: Sequence[TodoItem]) -> str:
    if not items:
        return "The list is empty."
    lines = [f"{place}. {_MARKS[item.status]} {item.content}" for place, item in enumerate(items, 1)]
    done = sum(item.status == "completed" for item in items)
    return "\n".join((*lines, f"{done} of {len(items)} completed"))
