"""The servers of these tests: that they are what they say, and go away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from llama_servers import CannotStart, running


def test_a_server_that_cannot_start_says_why(tmp_path: Path, random_weights: Path) -> None:
    nothing = tmp_path / "nothing.gguf"
    nothing.write_bytes(random_weights.read_bytes()[:1000])
    with pytest.raises(CannotStart, match=r"llama\.cpp ended with 1"):
        running(nothing, "nothing", tmp_path, tokens=64, slots=1).__enter__()


def test_a_server_ends_with_its_block(tmp_path: Path, random_weights: Path) -> None:
    with running(random_weights, "brief", tmp_path, tokens=64, slots=1) as server:
        pid = server.pid
        os.kill(pid, 0)
        assert server.died() is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_same_seed_writes_the_same_model(tmp_path: Path, random_weights: Path) -> None:
    from random_model import write_random_model

    write_random_model(tmp_path / "same")
    write_random_model(tmp_path / "other", seed=2)
    assert random_weights.read_bytes() == (tmp_path / "same").read_bytes()
    assert random_weights.read_bytes() != (tmp_path / "other").read_bytes()
