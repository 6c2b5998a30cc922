"""Whose memory it is, and what may be put into it.

To a store an empty name means everybody's records, so no name here is ever empty, and each record that a
store gives is looked at again before it is shown.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple
from unicodedata import normalize

import msgspec

from gnomon.errors import InvalidInput, scrub
from gnomon.types.records import MemoryRecord

__all__ = ["LONGEST_KEY", "LONG_TERM", "SHORT_TERM", "Scope", "checked_id", "checked_key", "checked_value"]

LONG_TERM = "long_term"
SHORT_TERM = "short_term"
LONGEST_KEY = 100
"""In characters."""


class Scope(NamedTuple):
    """One user of one agent, and the session that is looked into beside what is kept for good."""

    agent_id: str
    user_id: str
    session_id: str = ""

    @property
    def kind(self) -> str:
        """How long what is put here is kept: with a session, as long as that is."""
        return SHORT_TERM if self.session_id else LONG_TERM

    def owns(self, record: MemoryRecord) -> bool:
        """Whether the record is this user's, for good or for any session."""
        whose = (record.agent_id, record.user_id) == (self.agent_id, self.user_id)
        return whose and record.kind in (LONG_TERM, SHORT_TERM)

    def shows(self, record: MemoryRecord) -> bool:
        """Whether the record is seen from here: those of other sessions are not."""
        is_ours = record.kind == LONG_TERM or (bool(self.session_id) and record.session_id == self.session_id)
        return is_ours and self.owns(record)

    def record_id(self, key: str) -> str:
        """The same for the same key, so that remembering again replaces, also in two processes at once."""
        named = msgspec.json.encode((self.agent_id, self.user_id, self.session_id, key))
        return f"mem_{sha256(named).hexdigest()[:40]}"


def checked_id(what: str, name: object) -> str:
    """The id of an agent or a user, which must say somebody."""
    if not isinstance(name, str):
        raise InvalidInput(f"the {what} of a memory is text, not {type(name).__name__}")
    if not name.strip():
        raise InvalidInput(f"the {what} of a memory is empty", hint="an empty one would be everybody")
    return name


def checked_key(key: object) -> str:
    """A key as it is stored: one short line."""
    if not isinstance(key, str):
        raise InvalidInput(f"the key of a memory is text, not {type(key).__name__}")
    plain = normalize("NFC", key[: 4 * LONGEST_KEY]).strip()
    if not plain:
        raise InvalidInput("the key of a memory is empty", hint="name the fact, such as favourite_colour")
    if len(plain) > LONGEST_KEY or len(key) > 4 * LONGEST_KEY:
        raise InvalidInput(f"the key of a memory is longer than {LONGEST_KEY} characters", hint="shorten it")
    if not plain.isprintable():
        raise InvalidInput("the key of a memory has a line break or a control character in it")
    return plain


def checked_value(key: str, value: object, most_chars: int) -> str:
    """A text that may be kept and be shown to a model again."""
    if not isinstance(value, str):
        raise InvalidInput(f"what is remembered under {key!r} is text, not {type(value).__name__}")
    text = value.strip()
    if not text:
        raise InvalidInput(f"what is to be remembered under {key!r} is empty", hint="forget it instead")
    if len(text) > most_chars:
        found = f"what is to be remembered under {key!r} has {len(text)} characters"
        raise InvalidInput(f"{found}, and {most_chars} is the most", hint="remember what matters of it")
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
        raise InvalidInput(f"what is to be remembered under {key!r} has characters that cannot be stored")
    # With the key, as in `password: …`, and in lines, as it may stand in a text.
    if any(scrub(said) != said for said in (f"{key}: {text}", f"{key}={text}", text)):
        hint = "remember where it is kept, not what it is"
        raise InvalidInput("this looks like a password or a key, which is not remembered", hint=hint)
    return text
