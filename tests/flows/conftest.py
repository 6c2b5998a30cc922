"""The command in surroundings of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Gnomon, nobody_else


@pytest.fixture
def gnomon(tmp_path: Path) -> Gnomon:
    """A user whose model is the demo, so that no test depends on what else is installed."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Gnomon(folder, nobody_else(tmp_path / "home") | {"GNOMON_MODEL": "demo"})
