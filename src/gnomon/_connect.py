"""The way to a vendor, from what a user has set: address, key, headers, limits, proxy, certificates.

Providers and embedders share it, and do not know one another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import cast

import msgspec

from gnomon._http import HTTP, Limits
from gnomon._token import Token, TokenSource
from gnomon.errors import ConfigError, MissingKey

__all__ = ["Account", "connected", "found_key", "limits_from"]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Whose key goes to which vendor. `variables` are where a key is looked for; `header` is its place."""

    vendor: str
    variables: tuple[str, ...]
    header: str = "authorization"
    prefix: str = "Bearer "
    kind: str = "provider"
    """What asks, as errors call it."""

    @property
    def asker(self) -> str:
        return f"{self.kind} {self.vendor!r}"

    def missing(self) -> MissingKey:
        ways = [f"set {' or '.join(self.variables)}"] if self.variables else []
        is_configured = self.kind == "provider"  # the configuration knows of no others
        table = f"set key in [providers.{self.vendor}] of your configuration"
        ways.append(table if is_configured else "pass key")
        return MissingKey(f"{self.asker} has no key", hint=", or ".join(ways))


def found_key(account: Account, given: str | None) -> str | None:
    """The key that was given, or the first that the environment has."""
    found = given or next((value for name in account.variables if (value := os.environ.get(name))), None)
    if found is None or not found.strip():
        return None
    key = found.strip()  # a key read from a file ends with its line
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"the key for {account.asker} holds a character that no key has",
            hint="copy it again",
        )
    return key


def limits_from(
    connect_s: float | None, first_byte_s: float | None, idle_s: float | None, total_s: float | None
) -> Limits:
    """The usual limits, and in their place those that are given."""
    given = {"connect_s": connect_s, "first_byte_s": first_byte_s, "idle_s": idle_s, "total_s": total_s}
    for name, value in given.items():
        if value is not None and not value > 0:
            raise ConfigError(f"{name} is a number of seconds above zero, not {value!r}")
    return Limits(**{name: value for name, value in given.items() if value is not None})


def connected(
    account: Account,
    base_url: str,
    *,
    key: str | None,
    token: Token | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits,
    proxy: str | None = None,
    ca: str | None = None,
    kind: type[HTTP] = HTTP,
) -> HTTP:
    """HTTP to the vendor, with the key in its place, or a token that is fetched for every request.

    What the user set in `headers` wins over a key, and a token over that. `kind` is for a vendor
    that needs a way of its own.
    """
    sent = {account.header: account.prefix + key} if key else {}
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} of {account.asker} is no name of a header")
        if not value.isprintable():
            raise ConfigError(f"header {name!r} of {account.asker} holds a line end")
        sent[name.lower()] = value
    _check_proxy(proxy, account.asker)
    if token is not None and not callable(cast(object, token)):
        raise ConfigError(
            f"the token of {account.asker} is a function that gives one",
            hint="one that does not change is set as a header, authorization",
        )
    secrets = tuple(value for value in (key, *map(_secret_in, (headers or {}).items())) if value)
    return kind(
        base_url,
        vendor=account.vendor,
        headers=sent,
        secrets=secrets,
        token=token and TokenSource(token, vendor=account.vendor, header="authorization", prefix="Bearer "),
        authorised=token is not None or bool(sent.keys() & {account.header, "authorization"}),
        limits=limits,
        proxy=proxy,
        ca=ca,
    )


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _check_proxy(proxy: str | None, asker: str) -> None:
    """Its address is not shown: it may hold a password."""
    if proxy is not None and not proxy.lower().startswith(("http://", "https://")):
        raise ConfigError(
            f"the proxy of {asker} is none that can be used",
            hint="write it as http://host:port; SOCKS is not spoken",
        )


def _secret_in(header: tuple[str, str]) -> str | None:
    """What a header of the user's keeps secret, by its name; it may be echoed in a reply."""
    name, value = header
    is_secret = any(word in name.lower() for word in ("auth", "key", "token", "secret", "cookie"))
    return value.rpartition(" ")[2] if is_secret else None
