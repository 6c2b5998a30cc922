"""What somebody gives to a session, looked at before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast, get_args

import msgspec

from gnomon.contracts.session import WhenBusy
from gnomon.engine.given import check_text
from gnomon.engine.ids import new_id
from gnomon.engine.turn import REPAIR
from gnomon.errors import InvalidInput
from gnomon.types.events import MessageReceived
from gnomon.types.messages import Content, Message, Part, Text, Thinking, ToolCall, ToolResult, as_parts

__all__ = [
    "as_answer",
    "as_message",
    "as_received",
    "checked_metadata",
    "checked_session_id",
    "checked_user_id",
]

_ASKING = ("user", "system")
_LONGEST_USER_BYTES = 512


def checked_session_id(given: object) -> str:
    """The id of a session, or a new one for none."""
    if given is None:
        return new_id("ses")
    if not isinstance(given, str) or not given:
        raise InvalidInput(
            "the id of a session is a text that is not empty", hint="leave it out for a new one"
        )
    return given


def checked_user_id(given: object) -> str | None:
    """Whose a session is, in a text that every store can hold. An empty one would be anybody."""
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput(
            "user_id is a text that is not empty", hint="leave it out for a session that is nobody's"
        )
    if "\0" in given:
        raise InvalidInput("user_id holds a NUL character, which cannot be stored")
    check_text("user_id", given)
    if len(given.encode()) > _LONGEST_USER_BYTES:
        raise InvalidInput(f"user_id has more than {_LONGEST_USER_BYTES} bytes, the most that can be stored")
    return given


def checked_metadata(given: object) -> Mapping[str, object]:
    """What is kept with a session for whoever made it: an object that JSON can say."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"metadata are given as a dict, not as {type(given).__name__}")
    if "owner" in given:
        raise InvalidInput("metadata cannot have a key 'owner': it says who runs the session")
    try:
        return msgspec.convert(msgspec.json.decode(msgspec.json.encode(given)), dict[str, object])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata that JSON cannot say: {error}") from error


def as_message(given: object) -> Message:
    """What is sent, as one message of the user's."""
    if isinstance(given, str):
        return Message("user", (Text(given),))
    if isinstance(given, Message):
        return _checked_message(given)
    if isinstance(given, Part):
        return _checked_message(Message("user", (given,)))
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return _checked_message(Message("user", as_parts(cast("Sequence[Content]", given))))
    raise TypeError(f"a prompt is text, parts or a Message, not {type(given).__name__}")


def as_answer(given: object) -> tuple[Part, ...]:
    """What a person answers for a call."""
    if isinstance(given, str | Part):
        return as_parts((given,))
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return as_parts(cast("Sequence[Content]", given))
    raise TypeError(f"an answer is text or parts, not {type(given).__name__}")


def as_received(input: object, when_busy: WhenBusy, message_id: object = None) -> MessageReceived:
    """What is sent, as it is written."""
    return MessageReceived(
        new_id("msg") if message_id is None else _checked_id(message_id),
        as_message(input),
        steer=_checked_policy(when_busy) == "steer",
    )


def _checked_message(message: Message) -> Message:
    """What no model could be shown would stand in the conversation for ever, and fail each turn of it."""
    if message.role not in _ASKING:
        hint = "earlier messages of others are handed to a run as messages=[…]"
        raise InvalidInput(f"a message of role {message.role!r} is nothing to answer", hint=hint)
    for part in message.content:
        if isinstance(part, ToolCall | ToolResult | Thinking):
            raise InvalidInput(f"a {type(part).__name__} is no part of what a model is asked")
    return message


def _checked_id(message_id: object) -> str:
    if not isinstance(message_id, str) or not message_id or message_id.startswith(REPAIR):
        raise InvalidInput(
            f"{message_id!r} cannot be the id of a message", hint="leave it out, or choose another"
        )
    return message_id


def _checked_policy(when_busy: str) -> str:
    if when_busy not in get_args(WhenBusy):
        known = ", ".join(get_args(WhenBusy))
        raise InvalidInput(f"when_busy is {when_busy!r}; it may be one of {known}")
    return when_busy
