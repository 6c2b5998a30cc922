"""What a host is compared with: a name, all names below one, or any host."""

from __future__ import annotations

import re

__all__ = ["check_host", "fits_host"]

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_PATTERN = re.compile(rf"\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")


def check_host(pattern: str) -> None:
    """Raises `ValueError` for what names no host."""
    if not _PATTERN.fullmatch(_plain(pattern)) and ":" not in _plain(pattern):
        raise ValueError(_WRONG.format(pattern))
    if ":" in pattern and not _is_address(_plain(pattern)):
        raise ValueError(f"{_WRONG.format(pattern)}; a port does not belong to it")


_WRONG = (
    "{!r} names no host: write 'example.com', '*.example.com' for all names below it, or '*' for any host, "
    "in the letters of names as they are looked up"
)


def fits_host(pattern: str, host: str, *, widely: bool) -> bool:
    """Whether the host is meant; `widely`, with all names below it also the name itself."""
    pattern, host = _plain(pattern), _plain(host)
    if pattern == "*":
        return True
    if not pattern.startswith("*."):
        return pattern == host
    if _is_address(host):
        return False
    return host.endswith(pattern[1:]) or (widely and host == pattern[2:])


def _plain(name: str) -> str:
    name = name.lower().removesuffix(".")
    if _is_address(name):
        from ipaddress import ip_address

        return str(ip_address(name))
    return name


def _is_address(name: str) -> bool:
    if ":" not in name and not name.replace(".", "").isdigit():
        return False
    from ipaddress import ip_address

    try:
        ip_address(name)
    except ValueError:
        return False
    return True
