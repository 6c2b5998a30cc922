"""What somebody gives for an agent, looked at once: what would fail in each turn is refused at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast, get_args

from gnomon.errors import ConfigError
from gnomon.types.messages import Message

__all__ = ["check_number", "check_text", "checked_messages", "checked_name", "of_kind", "one_of"]

_T = TypeVar("_T")


def one_of(what: str, given: _T, kinds: object) -> _T:
    """One of the values of a `Literal`."""
    known = get_args(kinds)
    if given not in known:
        raise ConfigError(f"{what} is {given!r}", hint=f"it may be one of {', '.join(map(repr, known))}")
    return given


def of_kind(what: str, given: object, kind: type[_T], example: str) -> _T | None:
    """An object of that class, or nothing."""
    if given is not None and not isinstance(given, kind):
        raise TypeError(f"{what} is a {kind.__name__} such as {example}, not {type(given).__name__}")
    return given


def check_number(what: str, given: object, *, is_whole: bool = False, may_be_zero: bool = False) -> None:
    """A number that a vendor would take, or nothing."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int if is_whole else int | float):
        raise TypeError(f"{what} is a {'whole ' if is_whole else ''}number, not {type(given).__name__}")
    if not (given > 0 or (may_be_zero and given == 0)):  # so that NaN is refused too
        raise ConfigError(f"{what} is {given}", hint="give a positive number, or leave it out")


def check_text(what: str, text: str) -> None:
    """Text that can be stored and sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what}: half a character in it can be neither stored nor sent") from None


def checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError("an agent needs a name: a text that is not empty")
    check_text("the name of an agent", name)
    return name


def checked_messages(given: object) -> Sequence[Message]:
    """Earlier messages. A generator is none: it would be empty when it is read again."""
    if not isinstance(given, Sequence):
        raise TypeError(f"messages are a list of Message, not {type(given).__name__}")
    for message in cast("Sequence[object]", given):
        if not isinstance(message, Message):
            raise TypeError(f"messages are a list of Message, and {type(message).__name__} was found in it")
    return cast("Sequence[Message]", given)
