"""The clock tool: the time of any zone, and help for a zone that was misspelt."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest

from gnomon.contracts.tool import ToolContext
from gnomon.errors import ToolFailed
from gnomon.tools.clock import now

needs_zones = pytest.mark.skipif(
    not zoneinfo.available_timezones(), reason="no time zones are installed here"
)


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("zone", ["UTC", "utc", " UTC ", "GMT", "Z", ""])
def test_utc_goes_by_its_usual_names(zone: str) -> None:
    assert _read(now(zone)).utcoffset() == timedelta(0)


def test_it_is_the_time_of_now_in_whole_seconds() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    said = _read(now())
    assert before <= said <= datetime.now(UTC)
    assert said.microsecond == 0


@needs_zones
def test_a_zone_has_its_own_offset() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    said = _read(now("Asia/Kolkata"))
    assert said.utcoffset() == timedelta(hours=5, minutes=30)
    assert before <= said <= datetime.now(UTC)


@needs_zones
@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("Europe/Pariss", "Europe/Paris"),
        ("europe/paris", "Europe/Paris"),
        ("Paris", "Europe/Paris"),
        ("Berln", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("Europe", "Europe/Amsterdam"),
    ],
)
def test_an_unknown_zone_is_answered_with_near_ones(zone: str, meant: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        now(zone)
    assert repr(zone) in str(failure.value)
    assert meant in str(failure.value)


@pytest.mark.parametrize("zone", ["../../etc/passwd", "/etc/passwd", "\0", "x" * 5000, "Europe/\n", "🕰"])
def test_what_is_no_zone_at_all_is_one_short_failure(zone: str) -> None:
    with pytest.raises(ToolFailed, match="no time zone is called") as failure:
        now(zone)
    assert len(str(failure.value)) < 200


def test_a_machine_without_time_zones_still_knows_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    monkeypatch.setattr(zoneinfo, "ZoneInfo", _no_zones)
    assert _read(now("UTC")).utcoffset() == timedelta(0)
    with pytest.raises(ToolFailed, match="no time zones installed"):
        now("Europe/Paris")


def _no_zones(name: str) -> None:
    raise zoneinfo.ZoneInfoNotFoundError(name)


async def test_a_model_can_call_it_without_arguments() -> None:
    result = await now.execute("{}", ToolContext(call_id="c1"))
    assert _read(result.text).utcoffset() == timedelta(0)
    assert now.read_only
    assert now.parameters["required"] == []
