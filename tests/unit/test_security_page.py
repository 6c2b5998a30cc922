"""The table of docs/security.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gnomon.sandboxes._survey import ALL, Survey, survey

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
COLUMNS = ("container", "namespaces", "process", "none")
OLD_LANDLOCK = "Landlock 6"
FILTER = "with seccomp"
FILTER_OR_GROUP = "with seccomp or a control group"
CELLS = {"yes", "no", OLD_LANDLOCK, FILTER, FILTER_OR_GROUP}


def table() -> dict[str, dict[str, str]]:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    cells = {name: [cell.strip() for cell in rest.split("|")] for name, _, rest in rows if name in ALL}
    return {name: dict(zip(COLUMNS, found, strict=True)) for name, found in cells.items()}


def test_every_protection_is_in_the_table() -> None:
    assert set(table()) == set(ALL)
    assert {cell for row in table().values() for cell in row.values()} <= CELLS


@pytest.mark.parametrize("groups", [(), ("cgroups",)])
@pytest.mark.parametrize(
    ("level", "bubblewrap", "landlock", "seccomp"),
    [
        ("namespaces", "/usr/bin/bwrap", 7, True),
        ("namespaces", "/usr/bin/bwrap", 0, False),
        ("process", "", 7, True),
        ("process", "", 5, True),
        ("none", "", 0, True),
        ("none", "", 0, False),
    ],
)
def test_each_level_holds_what_the_table_says(
    level: str, bubblewrap: str, landlock: int, seccomp: bool, groups: tuple[Any, ...]
) -> None:
    found = Survey(bubblewrap, landlock, seccomp, survey(groups).cgroups, {})
    assert found.level == level
    holding = {"yes"} | ({OLD_LANDLOCK} if landlock >= 6 else set())
    holding |= {FILTER, FILTER_OR_GROUP} if seccomp else set()
    holding |= {FILTER_OR_GROUP} if "memory" in found.controllers else set()
    expected = {name for name, row in table().items() if row[level] in holding}
    assert set(found.report().held) == expected
    assert set(found.report().missing) == set(ALL) - expected


def test_this_machine_is_in_the_table() -> None:
    for without in ((), ("bubblewrap",), ("bubblewrap", "landlock"), ("bubblewrap", "landlock", "seccomp")):
        found = survey(without)
        assert found.level in COLUMNS
        assert set(found.report().held) | set(found.report().missing) == set(ALL)
