"""The URL of a store: our own settings are taken out of it, and what is shown of it has no password."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from gnomon.errors import ConfigError

__all__ = ["shown", "split_settings"]

_SEVERAL_HOSTS = ("mongodb", "mongodb+srv", "postgres", "postgresql")
"""Where several may be named, each with a port: their drivers read them."""


def split_settings(url: str, ours: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The URL as the driver takes it, and the settings in its query that are ours."""
    parts = _parts(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    settings = {name: value for name, value in query if name in ours}
    if not settings:
        return url, {}
    rest = urlencode([(name, value) for name, value in query if name not in ours])
    # As text: Python's way back from the parts loses the slashes before a path without a host.
    head = url.partition("?")[0]
    return (f"{head}?{rest}" if rest else head), settings


def shown(url: str) -> str:
    """Where a store is, for messages: no user, no password, no query."""
    parts = _parts(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port if parts.scheme not in _SEVERAL_HOSTS and parts.scheme != "sqlite" else None
    except ValueError:
        raise _unreadable(url) from None
    if parts.scheme != "sqlite" and "@" not in parts.netloc and "@" in url:
        raise _unreadable(url)
    return parts


def _unreadable(url: str) -> ConfigError:
    """Nothing of it is shown: a password with a bare slash in it reads like a port and a path."""
    scheme, separator, _ = url.partition("://")
    what = f"the {scheme}:// URL of the store" if separator else "the URL of the store"
    return ConfigError(
        f"{what} cannot be read",
        hint="in a password write %2F for /, %3F for ?, %23 for #; a port is a number",
    )
