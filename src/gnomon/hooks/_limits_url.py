"""The URL of a server that keeps limits: the same that a store takes, with the store's own settings in it."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from gnomon.errors import ConfigError

__all__ = ["Place", "place_of"]

_OF_A_STORE = ("durability", "prefix", "schema", "statement_cache_size")
_NAME = re.compile(r"[a-z_][a-z0-9_.:-]{0,62}", re.IGNORECASE)


class Place:
    """`url` is for the driver; `where` is for messages, without user, password and query."""

    def __init__(self, url: str, where: str, name: str) -> None:
        self.url = url
        self.where = where
        self.name = name


def place_of(url: str, setting: str) -> Place:
    """`setting` is what the counts are named by on this kind of server, in the query of its URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable() from None
    if "@" in url and "@" not in parts.netloc:  # a password with a bare slash in it reads like a path
        raise _unreadable()
    query = parse_qsl(parts.query, keep_blank_values=True)
    rest = urlencode([(key, value) for key, value in query if key not in _OF_A_STORE])
    name = dict(query).get(setting, "gnomon")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{setting} of the shared rate limit is a plain name, not {name!r}")
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return Place(url.partition("?")[0] + (f"?{rest}" if rest else ""), where, name)


def _unreadable() -> ConfigError:
    """Nothing of it is shown."""
    return ConfigError(
        "the URL of the shared rate limit cannot be read",
        hint="in a password write %2F for /, %3F for ?, %23 for #; a port is a number",
    )
