"""`kill -9` at every write of a process that runs a root and its three sub-agents: all four recover.

No effect of a call that has its result is repeated, each sub-agent's end is told once, what was spent adds up
at the root, and nobody is left at work. With `GNOMON_SOAK=1` every point is tried, otherwise some, by
`GNOMON_TEST_SEED`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from family import TASKS, check_family
from killing import STORES, Killing, killing_on

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
WRITES = 30
"""As often it writes at the least; how much more depends on who is quicker, and on what comes together."""
SENT = 6
"""From this write on the ledgers know of all that there is to do."""
POINTS = [(point, when) for point in range(1, WRITES + 22) for when in ("before", "after")]
CHOSEN = POINTS if SOAK else sorted(random.Random(SEED).sample(POINTS, 4))
HELPED = range(SENT, 46) if SOAK else (12, 30)
MOMENTS = 100 if SOAK else 4


@pytest.fixture(params=STORES)
def killing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killing]:
    with killing_on(request.param, tmp_path, check_family, "family") as made:
        yield made


def test_a_family_that_nobody_kills_has_each_effect_once(killing: Killing) -> None:
    assert killing.run((WRITES, "before", 0.0)) == [True]
    killing.counts.clear()
    assert killing.run() == []
    acting = sum(step != "look" for task in TASKS for step in task.split())
    assert killing.counts["effects"] == acting + 1


@pytest.mark.parametrize(("point", "when"), CHOSEN)
def test_a_family_that_is_killed_at_any_write_recovers_whole(killing: Killing, point: int, when: str) -> None:
    """By one who sends the message again; by one who waits; by one who serves, and knows of nothing."""
    assert killing.run((point, when, 0.0))[0] or point > WRITES
    if point >= SENT:
        killing.run((point, when, 0.0), last="wait")
        killing.run((point, when, 0.0), last="serve")


@pytest.mark.parametrize("point", HELPED)
def test_what_a_killed_parent_has_left_below_is_done_by_a_process_that_has_the_sub_agent_alone(
    killing: Killing, point: int
) -> None:
    """It tells the root of the end in its ledger; whoever has the root's agent goes on from there."""
    killing.run((point, "after", 0.0), (0, "", 0.0, "help"), last="serve")
    killing.run((point, "before", 0.0), (point // 3, "after", 0.0, "help"), last="serve")
    assert killing.counts["kills"] >= 2 or point > WRITES


def test_a_family_that_is_killed_again_in_its_recovery_recovers_whole(killing: Killing) -> None:
    chance = random.Random(SEED)
    for _ in range(MOMENTS):
        points = [(chance.randint(1, WRITES), "during", chance.uniform(0, 0.008)) for _ in range(3)]
        killing.run(*points)
    assert killing.counts["kills"] > MOMENTS
