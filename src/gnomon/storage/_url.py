"""The URL of a store: our own settings are taken out of it, and what is shown of it has no password."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from gnomon.errors import ConfigError, scrub

__all__ = ["shown", "split_settings"]


def split_settings(url: str, ours: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The URL as the driver takes it, and the settings in its query that are ours."""
    parts = _parts(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    settings = {name: value for name, value in query if name in ours}
    if not settings:
        return url, {}
    rest = urlencode([(name, value) for name, value in query if name not in ours])
    return urlunsplit(parts._replace(query=rest)), settings


def shown(url: str) -> str:
    """Where a store is, for messages: no user, no password, no query."""
    parts = _parts(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port if parts.scheme not in ("sqlite", "mongodb", "mongodb+srv") else None
    except ValueError as error:
        raise ConfigError(f"{scrub(url)!r} is not a URL: {error}") from None
    return parts
