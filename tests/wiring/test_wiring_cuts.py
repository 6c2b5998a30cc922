"""Each wire of an agent and each protection of a sandbox is watched by a test.

A few of them are cut here, and `make wiring` cuts them all.
"""

from __future__ import annotations

import os
import random
from subprocess import CompletedProcess

import pytest
from cut import NotHere, judged, misplaced, tried
from cuts import CUTS, Cut

SEED = os.environ.get("GNOMON_TEST_SEED", "1")
WIRES = [cut for cut in CUTS if cut.listed_in != "sandboxes"]
LAUNCHER = [cut for cut in CUTS if "/_launcher/" in cut.path]
PROTECTIONS = [cut for cut in CUTS if cut.listed_in == "sandboxes" and cut not in LAUNCHER]


def _chosen() -> list[Cut]:
    """What is cut in the process that starts commands is among them: it has to come from the copy too."""
    if os.environ.get("GNOMON_SOAK") == "1":
        return CUTS
    by_chance = random.Random(SEED)
    return [*by_chance.sample(WIRES, 3), by_chance.choice(LAUNCHER), by_chance.choice(PROTECTIONS)]


def test_every_wire_that_is_listed_is_there_and_so_is_its_test() -> None:
    assert len(WIRES) >= 50
    assert len(LAUNCHER) + len(PROTECTIONS) >= 50
    assert [wrong for cut in CUTS if (wrong := misplaced(cut))] == []


def test_every_wire_is_listed_once() -> None:
    listed = [(cut.path, cut.old, cut.new) for cut in CUTS]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("cut", _chosen(), ids=lambda cut: f"{cut.path}: {cut.name}")
def test_a_wire_that_is_cut_is_missed_by_its_test(cut: Cut) -> None:
    try:
        assert tried(cut).wrong == ""
    except NotHere as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("            hooks=self._chain,\n", "            hooks=self._chain,  # as it was\n", "stayed green"),
        ("            hooks=self._chain,\n", "            hooks=nobody,\n", "torn and not cut"),
        ("            hooks=nobody,\n", "", "has 0 times"),
    ],
)
def test_a_cut_that_shows_nothing_is_told_apart(old: str, new: str, said: str) -> None:
    test = "flows/test_wired_hooks.py::test_hooks_are_closed_with_their_agent"
    assert said in tried(Cut("a trial", "agent.py", old, new, test)).wrong


@pytest.mark.parametrize(
    "said",
    [
        "E   gnomon.errors.SandboxLost: what held the command broke: NameError: name 'x' is not defined",
        "E   gnomon.errors.SandboxError: the sandbox could not be set up: limits: no such thing",
        "E           AssertionError: the attack trace was not made: exit code 127",
    ],
)
def test_a_sandbox_that_is_broken_is_told_from_one_that_holds_less(said: str) -> None:
    assert "torn and not cut" in judged(CompletedProcess([], 1, f"F\n{said}\n1 failed", "")).wrong


def test_a_test_that_is_skipped_shows_nothing() -> None:
    said = "s\n==== skipped, and why ====\n    1  podman is not installed\n1 skipped in 0.1s\n"
    with pytest.raises(NotHere, match="podman is not installed"):
        judged(CompletedProcess([], 0, said, ""))
