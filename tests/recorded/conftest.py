"""The recordings for the tests of this folder: fetched when a test first asks for them."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import pytest
from cassettes import Exchange, exchanges_in
from sdists import fetched_or_ended

import counted

_SETTINGS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "COMPATIBLE_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def recordings(pytestconfig: pytest.Config) -> list[Exchange]:
    """Every exchange of every archive."""
    capture: Any = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(what: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            print(what, file=sys.stderr, flush=True)

    archives = fetched_or_ended(say=say)
    return [exchange for name, path in archives.items() for exchange in exchanges_in(path, name)]


@pytest.fixture
def counts() -> dict[str, str]:
    """What a test has counted, by name: shown at the end of the run."""
    return counted.notes
