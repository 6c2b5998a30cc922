"""What the four guardrails have in common: their names, their places, and how they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gnomon import registry
from gnomon.contracts.guardrail import Guardrail, SupportsView
from gnomon.errors import ConfigError
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.guardrails.max_length import MaxLengthGuardrail
from gnomon.guardrails.pii import PIIGuardrail
from gnomon.guardrails.secrets import SecretsGuardrail

MAKERS: dict[str, Callable[..., Any]] = {
    "blocklist": lambda **settings: BlocklistGuardrail(["bad"], **settings),
    "max_length": lambda **settings: MaxLengthGuardrail(characters=9, **settings),
    "pii": PIIGuardrail,
    "secrets": SecretsGuardrail,
}

EVERYWHERE = {"input", "output", "tool_arguments", "tool_results"}
USUAL = {
    "blocklist": {"input", "output"},
    "max_length": {"input"},
    "pii": EVERYWHERE,
    "secrets": EVERYWHERE,
}

each = pytest.mark.parametrize("name", MAKERS)


def test_the_registry_knows_these() -> None:
    assert registry.names("guardrails")[:4] == tuple(MAKERS)


@each
def test_a_name_stands_for_its_class(name: str) -> None:
    made = MAKERS[name]()
    assert registry.load("guardrails", name) is type(made)
    assert isinstance(made, Guardrail)
    assert isinstance(made, SupportsView)


@each
def test_it_is_called_and_stands_where_it_is_told(name: str) -> None:
    usual = MAKERS[name]()
    assert (usual.name, usual.positions) == (name, USUAL[name])
    told = MAKERS[name](name="second", positions=["output", "tool_results"])
    assert (told.name, told.positions) == ("second", {"output", "tool_results"})


@each
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"positions": []}, "positions is nothing"),
        ({"positions": ["inputs"]}, "positions is 'inputs'"),
        ({"positions": "input"}, "positions is 'input'"),
        ({"on_match": "warn"}, "on_match is 'warn'"),
        ({"name": " "}, "its name is empty"),
    ],
)
def test_a_setting_that_is_none_is_refused_in_words(
    name: str, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=f"guardrail '{name}': {complaint}") as refused:
        MAKERS[name](**settings)
    assert refused.value.hint
