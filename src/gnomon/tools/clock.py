"""What time it is, anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnomon.contracts.tool import Touches
from gnomon.errors import ToolFailed
from gnomon.tools.function import tool

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = ["now"]

_UTC = ("utc", "gmt", "z", "")


@tool(read_only=True, touches=Touches())
def now(timezone: str = "UTC") -> str:
    """The date and time at this moment, in ISO 8601 with its offset.

    timezone: an IANA name such as Europe/Paris
    """
    from datetime import datetime

    return datetime.now(_zone(timezone.strip())).isoformat(timespec="seconds")


def _zone(name: str) -> tzinfo:
    from datetime import UTC
    from zoneinfo import ZoneInfo

    if name.lower() in _UTC:  # also where no time zones are installed
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no relative path; a folder of zones
        raise ToolFailed(f"no time zone is called {name[:60]!r}; {_advice(name)}") from None


def _advice(name: str) -> str:
    from zoneinfo import available_timezones

    zones = available_timezones()
    if not zones:
        return "this machine has no time zones installed, ask for UTC"
    near = _near(name, sorted(zones))
    return f"did you mean {', '.join(near)}?" if near else "write it as Europe/Paris"


def _near(name: str, zones: list[str]) -> list[str]:
    """Zones of that city or region first, then those that are spelt alike."""
    from difflib import get_close_matches

    wanted = name[:60].strip("/").replace(" ", "_").lower()
    by_name = {zone.lower(): zone for zone in zones}
    by_city = {lower.rpartition("/")[2]: zone for lower, zone in by_name.items()}
    within = [zone for lower, zone in by_name.items() if wanted and wanted in lower.split("/")]
    alike = [by_name[found] for found in get_close_matches(wanted, by_name, 3)]
    cities = [by_city[found] for found in get_close_matches(wanted, by_city, 3)]
    return list(dict.fromkeys((*within, *alike, *cities)))[:3]
