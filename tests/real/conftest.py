"""Servers for the tests of this folder: started once in each process that runs tests, when first asked for.

A server that cannot be started is a failure where `CI=true`, and elsewhere a skip that says why.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from llama_servers import CannotStart, LlamaServer, running, smollm2_weights
from real_asking import KEY

import counted

_KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def _smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    yield from _served("smollm2", tmp_path_factory, tokens=8 * 512, slots=8)


@pytest.fixture(scope="session")
def _random_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    yield from _served("random", tmp_path_factory, tokens=8 * 2048, slots=8)


@pytest.fixture(scope="session")
def _locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    yield from _served("locked", tmp_path_factory, tokens=512, slots=1, key=KEY)


@pytest.fixture
def smollm2(_smollm2: LlamaServer) -> Iterator[LlamaServer]:
    """SmolLM2-135M: small, slow, and it does talk. 512 tokens a slot, eight slots."""
    yield from _watched(_smollm2)


@pytest.fixture
def random_model(_random_model: LlamaServer) -> Iterator[LlamaServer]:
    """Random weights, for calls under a grammar. 2,048 tokens a slot, eight slots."""
    yield from _watched(_random_model)


@pytest.fixture
def random_weights(_random_model: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _random_weights(tmp_path_factory.getbasetemp())


@pytest.fixture
def locked(_locked: LlamaServer) -> Iterator[LlamaServer]:
    """Random weights behind `KEY`, with one slot of 512 tokens."""
    yield from _watched(_locked)


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """Random weights on a server of the test's own, to be ended in the middle."""
    yield from _served("mortal", tmp_path_factory, tokens=2048, slots=1)


def _served(
    kind: str, folders: pytest.TempPathFactory, *, tokens: int, slots: int, key: str = ""
) -> Iterator[LlamaServer]:
    with ExitStack() as stack:
        try:
            weights = smollm2_weights() if kind == "smollm2" else _random_weights(folders.getbasetemp())
            folder = folders.mktemp(kind)
            server = stack.enter_context(running(weights, kind, folder, tokens=tokens, slots=slots, key=key))
        except CannotStart as reason:
            if os.environ.get("CI") == "true":
                pytest.fail(f"no server for {kind}: {reason}", pytrace=False)
            pytest.skip(f"no server for {kind}: {reason}")
        yield server
        counted.exchanges.update(server.exchanges)


def _random_weights(folder: Path) -> Path:
    path = folder / "random.gguf"
    if importlib.util.find_spec("gguf") is None:
        raise CannotStart("gguf, which writes the random model, is not installed")
    if not path.exists():
        from random_model import write_random_model  # slow to import

        write_random_model(path)
    return path


def _watched(server: LlamaServer) -> Iterator[LlamaServer]:
    yield server
    if (how := server.died()) is not None:
        pytest.fail(how, pytrace=False)
