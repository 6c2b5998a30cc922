"""`make facts`: writes the snapshot of what is known of models.

Prices, their dates and windows come from the `genai-prices` package; how much a model says and what
it takes from the map that LiteLLM publishes, read as data from the environment of its proxy.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from genai_prices import data

from gnomon.facts.names import Match
from gnomon.facts.prices import Price, Rate, Rates, Tiered
from gnomon.facts.snapshot import Limits, Priced, Snapshot, Vendor

TARGET = Path(__file__).resolve().parents[2] / "src" / "gnomon" / "facts" / "snapshot.json"

# Ours → theirs: the id in genai-prices, and the prefix in LiteLLM's map.
VENDORS = {
    "anthropic": ("anthropic", ""),
    "azure": ("azure", "azure/"),
    "cerebras": ("cerebras", "cerebras/"),
    "deepseek": ("deepseek", "deepseek/"),
    "fireworks": ("fireworks", "fireworks_ai/"),
    "gemini": ("google", "gemini/"),
    "groq": ("groq", "groq/"),
    "mistral": ("mistral", "mistral/"),
    "openai": ("openai", ""),
    "openrouter": ("openrouter", "openrouter/"),
    "perplexity": ("perplexity", "perplexity/"),
    "together": ("together", "together_ai/"),
    "xai": ("x-ai", "xai/"),
}
_RATES = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
}
_POWERS = {
    "image": "supports_vision",
    "audio": "supports_audio_input",
    "file": "supports_pdf_input",
    "tools": "supports_function_calling",
    "parallel_tools": "supports_parallel_function_calling",
    "thinking": "supports_reasoning",
    "structured_output": "supports_response_schema",
}


def main(folder: str) -> int:
    maps = sorted(
        Path(folder).glob("lib/python3*/site-packages/litellm/model_prices_and_context_window_backup.json")
    )
    if not maps:
        print(f"no map of LiteLLM's in {folder}: make test-proxies installs it", file=sys.stderr)
        return 1
    dist = next(maps[0].parent.parent.glob("litellm-*.dist-info")).name.removesuffix(".dist-info")
    made = Snapshot(
        made=datetime.now(UTC).date(),
        sources=(f"genai-prices {version('genai-prices')}", dist.replace("-", " ")),
        vendors=_vendors(json.loads(maps[0].read_text("utf-8"))),
    )
    TARGET.write_bytes(_one_line_a_model(made))
    counts = {name: (len(vendor.priced), len(vendor.limits)) for name, vendor in made.vendors.items()}
    print(f"wrote {TARGET.name}: {TARGET.stat().st_size:,} bytes, (priced, with limits) {counts}")
    return 0


def _one_line_a_model(made: Snapshot) -> bytes:
    """So that the difference between two snapshots can be read."""
    plain: dict[str, Any] = msgspec.to_builtins(made)
    out = [f'{{"made": {json.dumps(plain["made"])}, "sources": {json.dumps(plain["sources"])}, "vendors": {{']
    vendors: list[str] = []
    for name, vendor in plain["vendors"].items():
        priced = ",\n".join(_dumped(entry) for entry in vendor.get("priced", ()))
        limits = ",\n".join(
            f"{json.dumps(key)}: {_dumped(value)}" for key, value in vendor.get("limits", {}).items()
        )
        also = _dumped(vendor.get("also", []))
        vendors.append(f'"{name}": {{"also": {also}, "priced": [\n{priced}\n], "limits": {{\n{limits}\n}}}}')
    return "\n".join([*out, ",\n".join(vendors), "}}"]).encode() + b"\n"


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _vendors(limits: dict[str, dict[str, Any]]) -> dict[str, Vendor]:
    theirs = {provider.id: provider for provider in data.providers}
    ours = {source: name for name, (source, _) in VENDORS.items()}
    made: dict[str, Vendor] = {}
    for name, (source, prefix) in VENDORS.items():
        provider = theirs[source]
        made[name] = Vendor(
            priced=tuple(entry for model in provider.models if (entry := _priced(model)).prices),
            limits=_limits(name, prefix, limits),
            also=tuple(ours[other] for other in provider.fallback_model_providers or () if other in ours),
        )
    return made


def _priced(model: Any) -> Priced:
    conditions = model.prices if isinstance(model.prices, list) else [None]
    prices = [
        _price(condition.constraint, condition.prices) if condition else _price(None, model.prices)
        for condition in conditions
    ]
    return Priced(
        id=model.id,
        match=_match(model.match),
        prices=tuple(price for price in prices if price.rates != Rates()),
        context_window=model.context_window,
        deprecated=bool(model.deprecated),
    )


def _price(constraint: Any, prices: Any) -> Price:
    rates = {
        ours: _rate(value)
        for theirs, ours in _RATES.items()
        if (value := getattr(prices, theirs, None)) is not None
    }
    hours = getattr(constraint, "start_time", None)
    return Price(
        rates=Rates(**rates),
        since=getattr(constraint, "start_date", None),
        hours=(hours.replace(tzinfo=None), constraint.end_time.replace(tzinfo=None)) if hours else None,
    )


def _rate(value: Any) -> Rate:
    if not hasattr(value, "tiers"):
        return value
    return Tiered(base=value.base, steps=tuple((tier.start, tier.price) for tier in value.tiers))


def _match(clause: Any) -> Match:
    kind = type(clause).__name__
    if kind == "ClauseOr":
        exact = tuple(inner.equals.lower() for inner in clause.or_ if type(inner).__name__ == "ClauseEquals")
        others = tuple(_match(inner) for inner in clause.or_ if type(inner).__name__ != "ClauseEquals")
        return Match(equals=exact, any_of=others)
    if kind == "ClauseAnd":
        return Match(all_of=tuple(_match(inner) for inner in clause.and_))
    if kind == "ClauseEquals":
        return Match(equals=(clause.equals.lower(),))
    if kind == "ClauseRegex":
        return Match(regex=clause.regex)
    name = {"ClauseStartsWith": "starts_with", "ClauseEndsWith": "ends_with", "ClauseContains": "contains"}[
        kind
    ]
    return Match(**{name: getattr(clause, name).lower()})


def _limits(provider: str, prefix: str, limits: dict[str, dict[str, Any]]) -> dict[str, Limits]:
    found: dict[str, Limits] = {}
    for name, said in limits.items():
        if said.get("mode") not in ("chat", "responses") or not name.startswith(prefix):
            continue
        if not prefix and said.get("litellm_provider") != provider:
            continue
        entry = _limit(said)
        if entry != Limits():
            found[name.removeprefix(prefix).lower()] = entry
    return dict(sorted(found.items()))


def _limit(said: dict[str, Any]) -> Limits:
    powers = {name: said[theirs] for name, theirs in _POWERS.items() if isinstance(said.get(theirs), bool)}
    return Limits(
        context_window=_count(said.get("max_input_tokens")),
        max_output=_count(said.get("max_output_tokens")),
        **powers,
    )


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:2] or [".venv-proxies"]))
