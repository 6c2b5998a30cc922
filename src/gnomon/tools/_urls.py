"""What an address of the web names: scheme, host, port and path, read in one way only.

Whoever reads an address in a way of his own can be led elsewhere by one that can be read in two. So what
has two readings is refused here, and what goes out is written anew from the parts that were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

__all__ = ["Address", "Target", "ascii_host", "followed", "read_url"]

Address: TypeAlias = IPv4Address | IPv6Address

_LONGEST = 4_096
_LONGEST_HOST = 253
_SHOWN = 200
_PORTS = {"http": 80, "https": 443}
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TWO_READINGS = "ßς"
"""Letters that one standard of such names keeps, and an older one takes for others."""


class Target(NamedTuple):
    """Where a request goes. `host` is in small ASCII letters; an IPv6 address stands without its brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The host, where it is an address and no name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def shown(self) -> str:
        """The address, or how it begins."""
        return self.url if len(self.url) <= _SHOWN else f"{self.url[:_SHOWN]}…"


def read_url(text: str) -> Target:
    """Where it leads; a `ValueError` that says what is wrong with it."""
    _check_characters(text)
    scheme = text.partition("://")[0].lower()
    if scheme not in _PORTS or len(scheme) == len(text):
        raise ValueError("it begins with neither http:// nor https://")
    try:
        parts = urlsplit(text)
    except ValueError:  # in other words with each version of Python
        raise ValueError("its host cannot be read") from None
    if "@" in parts.netloc:
        raise ValueError("it holds the name or the password of a user, which is not sent")
    found = _PLACE.fullmatch(parts.netloc)
    if found is None:
        raise ValueError("its host cannot be read")
    inner, name, port = found.groups()
    host = ascii_host(name) if inner is None else _inside_brackets(inner)
    number = int(port) if port else _PORTS[scheme]
    if not 0 < number < 65_536:
        raise ValueError(f"there is no port {number}")
    query = f"?{parts.query}" if parts.query else ""
    return Target(scheme, host, number, _ascii((parts.path or "/") + query))


def followed(target: Target, location: str) -> Target:
    """Where a redirect leads; a `ValueError` that says what is wrong with it."""
    _check_characters(location)
    try:
        whole = urljoin(target.url, location)
    except ValueError:
        raise ValueError("its host cannot be read") from None
    return read_url(whole)


def ascii_host(name: str) -> str:
    """A host's name as it is looked up, or an address as everybody writes it."""
    if any(letter in _TWO_READINGS for letter in name.lower()):
        raise ValueError(
            f"the name {name[:80]!r} can be read in two ways; write the one that begins with xn--"
        )
    host = name.lower() if name.isascii() else _encoded(name)
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _plain_ipv4(host)
    if len(host) > _LONGEST_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{name[:80]!r} is no name of a host")
    return host


def _check_characters(text: str) -> None:
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text):,} characters; {_LONGEST:,} are allowed")
    if " " in text:
        raise ValueError("it holds a space; write it as %20")
    for letter in text:
        if letter == "\\" or not letter.isprintable():
            raise ValueError(f"it holds the character U+{ord(letter):04X}, which no address has")


def _encoded(name: str) -> str:
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError(f"{name[:80]!r} is no name of a host") from None


def _plain_ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except AddressValueError:
        raise ValueError(f"{text[:80]!r} is an odd way to write an address; write it as 192.0.2.1") from None


def _inside_brackets(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        raise ValueError(f"'[{text[:80]}]' is no IPv6 address") from None


def _ascii(path: str) -> str:
    """What is no ASCII is sent as a browser sends it; all else as it was written."""
    return "".join(_quoted(path))


def _quoted(path: str) -> Iterable[str]:
    return (letter if letter.isascii() else quote(letter) for letter in path)
