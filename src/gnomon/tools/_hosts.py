"""Which hosts may be asked: names, names with all that is below them, and ports."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

from gnomon.errors import ConfigError
from gnomon.tools._urls import Target, ascii_host

__all__ = ["HostRule", "host_rules"]

_USUAL_PORTS = (80, 443)


class HostRule(NamedTuple):
    """One line of the list. Without a port it means those of the web."""

    host: str
    """Empty with `is_below` for every host."""
    is_below: bool
    """Whether it means the names that end in this one, and not the name itself."""
    port: int | None

    def allows(self, target: Target) -> bool:
        ports = _USUAL_PORTS if self.port is None else (self.port,)
        return target.port in ports and self._names(target)

    def _names(self, target: Target) -> bool:
        if not self.is_below:
            return target.host == self.host
        return not self.host or (target.address is None and target.host.endswith(f".{self.host}"))


def host_rules(texts: Iterable[str], what: str) -> tuple[HostRule, ...]:
    """The list as it is compared with; a `ConfigError` for what names no host."""
    return tuple(_rule(text, what) for text in texts)


def _rule(text: object, what: str) -> HostRule:
    try:
        if not isinstance(text, str):
            raise ValueError(f"it is {type(text).__name__} and no text")
        name, port = _parted(text)
        if name == "*":
            return HostRule("", True, port)
        is_below = name.startswith("*.")
        return HostRule(_host(name.removeprefix("*.")), is_below, port)
    except ValueError as error:
        raise ConfigError(
            f"{what}: {text!r} names no host: {error}",
            hint="such as 'example.com', '*.example.com', 'example.com:8080' or '*' for every public host",
        ) from None


def _host(name: str) -> str:
    if any(letter in name for letter in "/@*% "):
        raise ValueError("it is more than a name and a port")
    return str(ip_address(name)) if ":" in name else ascii_host(name)


def _parted(text: str) -> tuple[str, int | None]:
    """Name and port. An IPv6 address has colons of its own, and stands in brackets before a port."""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        return name, _port(rest.removeprefix(":")) if rest else None
    if text.count(":") != 1:
        return text, None
    name, _, port = text.partition(":")
    return name, _port(port)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise ValueError(f"there is no port {text!r}")
    return int(text)
