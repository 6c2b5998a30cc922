"""Ten thousand turns in one process: memory is flat, and nothing is left of them but the ledger."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
from soaking_agent import PASSING, Held

from storing import child, sqlite_url

SOAK = os.environ.get("GNOMON_SOAK") == "1"
PROGRAM = Path(__file__).parent / "soaking_agent.py"
WARM, TURNS = (2_000, 12_000) if SOAK else (1_600, 2_600)
GROWTH = 1.05


def test_memory_is_flat_over_thousands_of_turns_and_nothing_is_left_running(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "store.db")
    with child(sys.executable, str(PROGRAM), url, str(WARM), str(TURNS)) as process:
        lines = process.rest()
        assert process.process.returncode == 0, process.complaints()
    warm, end, closed = (msgspec.json.decode(line, type=Held) for line in lines)
    print(f"\n{warm}\n{end}\n{closed}")
    assert end.turns == TURNS
    assert end.rss_bytes <= warm.rss_bytes * GROWTH
    assert end.tasks <= max(warm.tasks, PASSING)  # some come and go
    assert end.threads <= warm.threads
    assert end.files <= warm.files
    assert (closed.tasks, closed.threads) == (1, 1)
    assert closed.files < end.files
