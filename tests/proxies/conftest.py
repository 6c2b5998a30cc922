"""A LiteLLM proxy for the tests of this folder, before real llama.cpp servers: `make test-proxies`.

`GNOMON_PROXIES` names the interpreter that has LiteLLM; without it the tests are skipped. With it, whatever
cannot be started is a failure.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

# The servers behind the proxy are those of the tests beside these.
sys.path.append(str(Path(__file__).parents[1] / "real"))

from litellm_proxy import Proxy, proxying
from llama_servers import LlamaServer, running, smollm2_weights

PYTHON = os.environ.get("GNOMON_PROXIES", "")
_KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "LITELLM_API_KEY",
    "LITELLM_BASE_URL",
)
_exchanges: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """SmolLM2-135M: 512 tokens a slot, eight slots."""
    yield from _served(smollm2_weights(), "smollm2", tmp_path_factory, slots=8, tokens=512)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """Random weights, for calls under a grammar: 2,048 tokens a slot, eight slots."""
    yield from _served(_random_weights(tmp_path_factory), "random", tmp_path_factory, slots=8, tokens=2048)


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """Random weights on a server with a slot for every way to ask it, which one test ends in the middle."""
    yield from _served(_random_weights(tmp_path_factory), "mortal", tmp_path_factory, slots=15, tokens=2048)


@pytest.fixture(scope="session")
def proxy(
    smollm2: LlamaServer,
    random_model: LlamaServer,
    mortal: LlamaServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Proxy]:
    servers = {"smollm2": smollm2, "random": random_model, "mortal": mortal}
    with proxying(PYTHON, servers, tmp_path_factory.mktemp("litellm")) as running_proxy:
        yield running_proxy


def _served(
    weights: Path, kind: str, folders: pytest.TempPathFactory, *, slots: int, tokens: int
) -> Iterator[LlamaServer]:
    """`tokens` is what each of the slots has."""
    with running(weights, kind, folders.mktemp(kind), tokens=slots * tokens, slots=slots) as server:
        yield server
        _exchanges.update(server.exchanges)


def _random_weights(folders: pytest.TempPathFactory) -> Path:
    from random_model import write_random_model  # slow to import

    path = folders.getbasetemp() / "random.gguf"
    if not path.exists():
        write_random_model(path)
    return path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if PYTHON and _exchanges:
        counts = ", ".join(f"{count} by {who}" for who, count in sorted(_exchanges.items()))
        terminalreporter.write_line(
            f"exchanges through the LiteLLM proxy, and with what is behind it: {counts}"
        )
