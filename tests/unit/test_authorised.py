"""Whoever brings a header for it needs no key: every service that asks for one goes by the same rule."""

from __future__ import annotations

import pytest

from gnomon import registry
from gnomon._connect import Account, connected
from gnomon._transport import Limits
from gnomon.errors import MissingKey
from gnomon.types.messages import Message
from gnomon.types.requests import Request

ASK = Request(messages=(Message.user("Hello"),), model="a-model")
SERVICES = {
    "anthropic": {},
    "azure": {"endpoint": "https://acme.openai.azure.com"},
    "cerebras": {},
    "gemini": {},
    "groq": {},
    "mistral": {},
    "ollama": {"base_url": "https://ollama.com"},
    "openai": {},
}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN", "_HOST", "_BASE_URL")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_wants_a_key_takes_a_header_in_its_place(name: str) -> None:
    without = registry.provider(name, SERVICES[name])
    with pytest.raises(MissingKey):
        without._ask(ASK)  # type: ignore[attr-defined]
    with_one = registry.provider(name, {**SERVICES[name], "headers": {"Authorization": "Bearer of-my-own"}})
    assert with_one._ask(ASK).body  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "authorised"),
    [
        ({"key": "a-key-of-mine"}, True),
        ({"key": None, "token": lambda: "t"}, True),
        ({"key": None, "headers": {"X-Api-Key": "mine"}}, True),
        ({"key": None, "headers": {"AUTHORIZATION": "Basic eDp5"}}, True),
        ({"key": None, "headers": {"x-team": "search"}}, False),
        ({"key": None}, False),
    ],
)
def test_a_way_to_a_vendor_knows_whether_it_is_let_in(given: dict[str, object], authorised: bool) -> None:
    account = Account(vendor="acme", variables=(), header="x-api-key", prefix="")
    http = connected(account, "https://acme.example", limits=Limits(), **given)  # type: ignore[arg-type]
    assert http.authorised is authorised
