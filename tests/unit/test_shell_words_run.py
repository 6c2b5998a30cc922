"""What is told of a shell command, compared with what real shells do with it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from shell_stage import RECORDERS, SHELLS, Ran, Stage, Writer

from gnomon.contracts.tool import Touches
from gnomon.tools._shell_words import touches_of

SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
COMMANDS = 8_000 if os.environ.get("GNOMON_SOAK") else int(os.environ.get("N", "250"))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def _told(found: Touches) -> Counter[tuple[str, ...]]:
    """The commands whose arguments a recorder writes down."""
    return Counter(argv for argv in found.commands if argv[0] in RECORDERS)


def _compare(command: str, shell: str, found: Touches, ran: Ran) -> None:
    more = set(ran.commands) - set(_told(found))
    assert not more, f"{shell} ran {more} for {command!r}, and it was told: {found}"
    files = ran.files - set(found.writes)
    assert not files, f"{shell} made {files} for {command!r}, and it was told: {found}"


@pytest.mark.parametrize("shell", SHELLS)
def test_no_shell_runs_or_writes_what_was_not_told(stage: Stage, shell: str) -> None:
    writer = Writer(SEED)
    known = whole = 0
    for _ in range(COMMANDS):
        command = writer.command()
        found = touches_of(command)
        if found.unknown:
            continue
        known += 1
        ran = stage.run(shell, command)
        _compare(command, shell, found, ran)
        if writer.is_straight:
            whole += 1
            assert Counter(ran.commands) == _told(found), f"{shell} ran {ran.commands} for {command!r}"
    assert known > COMMANDS // 3
    assert whole > COMMANDS // 10


@pytest.mark.parametrize("shell", SHELLS)
def test_no_shell_runs_more_of_a_text_that_is_hardly_a_command(stage: Stage, shell: str) -> None:
    writer = Writer(SEED)
    known = 0
    for number in range(COMMANDS):
        command = writer.spoilt() if number % 2 else writer.soup()
        found = touches_of(command)
        if not found.unknown:
            known += 1
            _compare(command, shell, found, stage.run(shell, command))
    assert known > COMMANDS // 20
