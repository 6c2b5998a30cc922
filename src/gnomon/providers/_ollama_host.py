"""Which server a user of Ollama means: one that listens everywhere is asked here, the cloud by its name."""

from __future__ import annotations

import os
from contextlib import suppress
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from gnomon._ollama import ollama_url

__all__ = ["is_cloud", "server_address"]

_CLOUD = "ollama.com"
# `OLLAMA_HOST` is also where the server listens, and all addresses are none that can be asked.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - compared with, not bound to


def server_address(given: str | None) -> str:
    """The address up to and without `/api`, from what is given or `OLLAMA_HOST`, in any form of theirs."""
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
