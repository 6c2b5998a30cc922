"""Where an Ollama server is: what `OLLAMA_HOST` may say, read as Ollama's own client reads it."""

from __future__ import annotations

import os
from contextlib import suppress
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from gnomon.errors import ConfigError

__all__ = ["is_cloud", "ollama_url", "server_address"]

_CLOUD = "ollama.com"
_HERE = "127.0.0.1"
_PORT = 11434
_PORTS = {"http": 80, "https": 443}
# `OLLAMA_HOST` is also where the server listens, and all addresses are none that can be asked.
_EVERYWHERE = {"0.0.0.0": _HERE, "::": "[::1]"}  # noqa: S104 - compared with, not bound to


def server_address(given: str | None) -> str:
    """The address up to and without `/api`, from what is given or `OLLAMA_HOST`, in any form of theirs.

    A server that listens everywhere is asked here, and the cloud by its name.
    """
    parts = urlsplit(ollama_url(_in_full(given or os.environ.get("OLLAMA_HOST") or "")))
    host = parts.hostname or ""
    path = _before_the_api(parts.path)
    if is_cloud(f"//{host}"):
        return f"https://{host}{path}"  # a key goes there
    where = f"{_EVERYWHERE[host]}:{parts.port}" if host in _EVERYWHERE else parts.netloc
    return f"{parts.scheme}://{where}{path}"


def is_cloud(address: str) -> bool:
    """Whether this is Ollama's own service, the only one that wants a key."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    return host == _CLOUD or host.endswith("." + _CLOUD)


def ollama_url(given: str | None = None) -> str:
    """What is given, or `OLLAMA_HOST`, or this machine, as Ollama's own client reads it.

    A host, a port, both, or a whole address will do: `gpu`, `:8080`, `gpu:8080`,
    `https://gpu/ollama`. An address with a scheme has the scheme's own port.
    """
    text = (given or os.environ.get("OLLAMA_HOST") or "").strip()
    scheme, separator, place = text.partition("://") if "://" in text else ("http", "", text)
    scheme = scheme.lower()
    if scheme not in _PORTS:
        raise _no_address(text, f"nobody is asked by {scheme!r}")
    try:
        parts = urlsplit(f"{scheme}://{place}")
        port = parts.port or (_PORTS[scheme] if separator else _PORT)
    except ValueError as error:
        raise _no_address(text, str(error)) from None
    if "@" in parts.netloc or (separator and not parts.hostname):
        raise _no_address(text, "it holds a password" if "@" in parts.netloc else "it names no host")
    host = parts.hostname or _HERE
    path = parts.path.strip("/")
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}" + (f"/{path}" if path else "")


def _in_full(text: str) -> str:
    """Two short forms that Ollama itself knows: the cloud by its name, and IPv6 without its brackets."""
    plain = text.strip().strip("\"'").strip()
    if "://" not in plain and is_cloud(f"//{plain}"):
        return f"https://{plain}"
    with suppress(ValueError):
        return f"[{IPv6Address(plain)}]"
    return plain


def _before_the_api(path: str) -> str:
    """Ollama's pages give its addresses with `/api`, and those of its OpenAI form with `/v1`."""
    short = path.rstrip("/")
    for end in ("/api", "/v1"):
        short = short.removesuffix(end)
    return short


def _no_address(text: str, why: str) -> ConfigError:
    shown = text.rpartition("@")[2]  # a password stands before it
    return ConfigError(
        f"{shown!r} is no address of an Ollama server: {why}",
        hint="write OLLAMA_HOST, or base_url, as host, host:port or http://host:port",
    )
