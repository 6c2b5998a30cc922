"""`ask_user`: the model asks the person whom it works for, and goes on with the answer.

Nothing waits in memory. The question stands in the ledger of the session, and an answer may be given there by
any process, however much later. Questions are no leave: they are asked whatever the mode of permissions is.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.contracts.tool import Touches
from gnomon.errors import AskUser, InvalidArguments
from gnomon.tools.function import tool

__all__ = ["ask_user"]

_LONGEST_QUESTION = 4_000
_MOST_OPTIONS = 20
_LONGEST_OPTION = 200


@tool(read_only=True, touches=Touches())
async def ask_user(question: str, options: list[str] | None = None, multiple: bool = False) -> str:
    """Ask the user something that only they can know or decide, and wait for the answer.

    Do not ask what you can find out yourself, and do not ask for leave to call a tool: that is asked for
    where it is needed.

    question: the whole question, in words that can be understood without what was said before
    options: the answers to choose from, where no other will do; leave it out for an answer in free words
    multiple: whether several of the options may be chosen
    """
    asked, offered = question.strip(), [" ".join(option.split()) for option in options or ()]
    if not asked:
        raise InvalidArguments("question: it is empty")
    if len(asked) > _LONGEST_QUESTION:
        size = f"{len(asked):,} characters, {_LONGEST_QUESTION:,} are allowed"
        raise InvalidArguments(f"question: it has {size}")
    _check(offered, multiple)
    raise AskUser(asked, options=offered, multiple=multiple)


def _check(options: Sequence[str], multiple: bool) -> None:
    """One thing that is wrong with the options, by the number of the option as a reader counts."""
    if len(options) > _MOST_OPTIONS:
        raise InvalidArguments(f"options: {len(options):,} are too many, {_MOST_OPTIONS} are allowed")
    if multiple and not options:
        raise InvalidArguments("multiple: there are no options to choose several of")
    if len(options) == 1:
        raise InvalidArguments("options: one alone is no choice; give two or more, or none")
    places: dict[str, int] = {}
    for place, option in enumerate(options, 1):
        if not option:
            raise InvalidArguments(f"options: option {place} is empty")
        if len(option) > _LONGEST_OPTION:
            size = f"{len(option):,} characters, {_LONGEST_OPTION} are allowed"
            raise InvalidArguments(f"options: option {place} has {size}")
        if earlier := places.get(option.casefold()):
            raise InvalidArguments(f"options: options {earlier} and {place} are the same")
        places[option.casefold()] = place
