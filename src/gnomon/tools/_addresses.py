"""Which addresses belong to the public internet, and which to this machine, its networks or nobody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

from gnomon.errors import ConfigError
from gnomon.tools._urls import Address

__all__ = ["Network", "networks", "why_not_public"]

Network: TypeAlias = IPv4Network | IPv6Network


def networks(texts: Iterable[str], what: str) -> tuple[Network, ...]:
    """Addresses and networks as they are compared with; a `ConfigError` for what is none."""
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ip_network(text))
        except ValueError as error:
            raise ConfigError(
                f"{what}: {text!r} is no address and no network: {error}",
                hint="such as '127.0.0.1', '::1' or '10.0.0.0/8'",
            ) from None
    return tuple(found)


def why_not_public(address: Address, allowed: Sequence[Network] = ()) -> str:
    """What kind of address it is that nobody may be led to; empty for a public one, or one that is allowed.

    Where an IPv6 address stands for an IPv4 one, both have to be public or allowed by name.
    """
    inner = _inner(address)
    if inner is not None and (why := why_not_public(inner, allowed)):
        return f"{_kind(address)} that stands for {inner}, {why}"
    kind = _kind(address)
    return "" if not kind or any(address in network for network in allowed) else kind


def _kind(address: Address) -> str:
    """The first that it is found in, the narrow ones before the wide ones; empty for a public address."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "an address of one network card"
    for network, kind in _V4 if isinstance(address, IPv4Address) else _V6:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return "a reserved address"
    if isinstance(address, IPv6Address) and _is_isatap(address):
        return "an ISATAP address"
    return "" if address.is_global and not address.is_multicast else "no public address"


def _inner(address: Address) -> IPv4Address | None:
    """The IPv4 address that the packets would reach in the end."""
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    if address in _TEREDO:
        return IPv4Address(~number & 0xFFFFFFFF)
    stands = any(address in network for network in _HOLD_IPV4) or _is_isatap(address)
    is_mapped = stands and number > 0xFFFF  # :: and ::1 are addresses of their own
    return IPv4Address(number & 0xFFFFFFFF) if is_mapped else None


def _is_isatap(address: IPv6Address) -> bool:
    """Whether its last half is one of those that an ISATAP tunnel makes of an IPv4 address."""
    return (int(address) >> 32) & 0xFDFFFFFF == 0x00005EFE


_METADATA = "an address where cloud machines keep their credentials"

_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("169.254.169.254/32", _METADATA),
        ("169.254.170.2/32", _METADATA),
        ("100.100.100.200/32", _METADATA),
        ("168.63.129.16/32", _METADATA),
        ("192.0.0.192/32", _METADATA),
        ("127.0.0.0/8", "a loopback address"),
        ("0.0.0.0/8", "an address of this machine"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("169.254.0.0/16", "a link-local address"),
        ("100.64.0.0/10", "an address of a provider's own network"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("198.18.0.0/15", "an address for measurements"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)

_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("fd00:ec2::254/128", _METADATA),
        ("fd20:ce::254/128", _METADATA),
        ("::1/128", "a loopback address"),
        ("::/128", "an address of this machine"),
        ("::ffff:0:0/96", "an IPv4-mapped address"),
        ("::ffff:0:0:0/96", "an IPv4-translated address"),
        ("::/96", "an IPv4-compatible address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
        ("100::/64", "a discarded address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private address"),
        ("ff00::/8", "a multicast address"),
        ("2001::/32", "a Teredo address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "an address for documentation"),
    )
)

_UNICAST = IPv6Network("2000::/3")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_HOLD_IPV4 = tuple(
    map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/96"))
)
