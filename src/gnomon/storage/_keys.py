"""Sort keys and cursors. A key is made of fields; keys compare as their fields do, one after another."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from datetime import UTC, datetime

from gnomon.errors import InvalidInput

__all__ = ["cursor", "joined", "number_key", "opened", "past", "time_key"]

# The separator is the lowest character there is but NUL, which PostgreSQL does not take; it and the
# mark that escapes it are escaped, so that a field that begins like another still comes after it.
_SEPARATOR, _MARK = "\x01", "\x02"
_ESCAPED = str.maketrans({_SEPARATOR: _MARK + "\x02", _MARK: _MARK + "\x03"})


def joined(*fields: str) -> str:
    """One key of several fields."""
    key = _SEPARATOR.join(fields)
    if key.count(_SEPARATOR) == len(fields) - 1 and _MARK not in key:
        return key  # nothing to escape, as nearly always
    return _SEPARATOR.join([field.translate(_ESCAPED) for field in fields])


def past(*fields: str) -> str:
    """A bound above every key that begins with these fields, and below any other that follows."""
    return joined(*fields) + _MARK


def time_key(time: datetime) -> str:
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    return time.isoformat(timespec="microseconds")[:-6]  # without "+00:00"


def number_key(number: int) -> str:
    return f"{number:020d}"


def cursor(listed: str, sort: str) -> str:
    """Where a list goes on, as text that says nothing to its reader."""
    return urlsafe_b64encode(f"{listed}\x00{sort}".encode()).decode().rstrip("=")


def opened(listed: str, given: str) -> str:
    """The sort key in a cursor of that list."""
    try:
        text = urlsafe_b64decode(given.encode() + b"=" * (-len(given) % 4)).decode()
    except (NotBase64, ValueError, AttributeError):
        text = ""
    found, separator, sort = text.partition("\x00")
    if not separator or found != listed or not sort:
        raise InvalidInput(f"the cursor was not given by {listed}", hint="use Page.next of the same list")
    return sort
