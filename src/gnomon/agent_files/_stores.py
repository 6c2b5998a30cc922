"""Where an agent's sessions are kept, from a URL or from Chronos's `backend` and `dsn`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote, unquote

from gnomon.agent_files._place import Found, wrong
from gnomon.agent_files._values import filled, refuse_secrets
from gnomon.errors import ConfigError, InvalidInput

__all__ = ["store_url"]

_BACKENDS = {
    "sqlite": "sqlite:///gnomon.db",
    "postgres": "postgresql://host/database",
    "postgresql": "postgresql://host/database",
    "redis": "redis://host/0",
    "mongo": "mongodb://host/database",
    "mongodb": "mongodb://host/database",
    "dynamo": "dynamodb://region/table",
    "dynamodb": "dynamodb://region/table",
}
"""Each backend and what its URL looks like."""
_SCHEMES = {
    "sqlite": ("sqlite",),
    "postgres": ("postgres", "postgresql"),
    "redis": ("redis", "rediss"),
    "mongo": ("mongodb", "mongodb+srv"),
    "dynamo": ("dynamodb",),
}


def store_url(fields: Mapping[str, Found], env: Mapping[str, str], folder: str) -> str | None:
    """The URL of the store, an SQLite file with its whole path; `None` is memory."""
    url, backend, dsn = (fields.get(name) for name in ("url", "backend", "dsn"))
    if url is not None:
        for other in (backend, dsn):
            if other is not None:
                raise ConfigError(f"{other.place} says the same as `{url.place.key}`: keep one")
        return _from_url(url, env, folder)
    if backend is None:
        return None if dsn is None else _from_url(dsn, env, folder)
    kind = _text(backend, env).lower()
    if kind in ("none", "memory"):
        return None
    if kind not in _BACKENDS:
        raise wrong(backend, f"{', '.join(_BACKENDS)} or none", shown=True)
    if dsn is None:
        raise InvalidInput(f"{backend.place} needs a `dsn` beside it", hint=f"such as {_BACKENDS[kind]}")
    return _of_backend(kind, dsn, env, folder)


def _from_url(found: Found, env: Mapping[str, str], folder: str) -> str | None:
    text = _text(found, env)
    if text in ("none", "memory", "memory:", "memory://"):
        return None
    if "://" not in text:
        raise wrong(found, "the URL of a store such as sqlite:///gnomon.db, or none")
    return _sqlite(text, folder) if text.lower().startswith("sqlite:") else text


def _of_backend(kind: str, dsn: Found, env: Mapping[str, str], folder: str) -> str | None:
    text = _text(dsn, env)
    if kind == "sqlite" and text == ":memory:":
        return None
    if kind == "sqlite" and "://" not in text:
        return _file(text.removeprefix("file:"), folder)
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    expected = next(schemes for name, schemes in _SCHEMES.items() if kind.startswith(name))
    if scheme not in expected:
        raise wrong(dsn, f"a URL such as {_BACKENDS[kind]}")
    return _sqlite(text, folder) if kind == "sqlite" else text


def _sqlite(url: str, folder: str) -> str:
    """With the path from the root, and what stands behind a question mark as it is."""
    rest, mark, settings = url.partition("://")[2].partition("?")
    return _file(unquote(rest.removeprefix("/")), folder) + mark + settings


def _file(name: str, folder: str) -> str:
    return "sqlite:///" + quote(os.path.realpath(os.path.join(folder, os.path.expanduser(name))))


def _text(found: Found, env: Mapping[str, str]) -> str:
    """Never shown: it may hold a password."""
    refuse_secrets(found)
    value = filled(found, env)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise wrong(found, "text")
    return value.strip()
