"""Names and model strings: what they mean, and what is said when they mean nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gnomon import registry
from gnomon.contracts.embedder import Embedder
from gnomon.contracts.provider import Provider
from gnomon.contracts.tool import Tool
from gnomon.errors import ConfigError, MissingExtra, UnknownName
from gnomon.registry import KINDS, ModelName, load, names, parse_model

PROVIDER = """
from gnomon import Provider, Finish

class Acme(Provider):
    name = "acme"

    def __init__(self, model="acme-1", *, temperature=0.0):
        self.model = model
        self.temperature = temperature

    async def events(self, request):
        yield Finish(stop_reason="end_turn")

class Other(Acme):
    pass

def not_a_class():
    return Acme()
"""

Plant = Callable[..., None]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Installs a distribution: a module and the metadata that importlib finds it by."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(
        package: str, points: Mapping[str, str], source: str = PROVIDER, group: str = "gnomon.providers"
    ) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        monkeypatch.delitem(sys.modules, package, raising=False)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")

    yield install
    for package in [name for name in sys.modules if name.startswith("planted_")]:
        del sys.modules[package]


# --- model strings ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("demo", "demo", None),
        ("openai:gpt-5", "openai", "gpt-5"),
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("ollama:llama3.2:1b", "ollama", "llama3.2:1b"),
        ("openrouter:anthropic/claude", "openrouter", "anthropic/claude"),
        ("openrouter/anthropic/claude:free", "openrouter", "anthropic/claude:free"),
        ("fallback:openai:gpt-5,demo", "fallback", "openai:gpt-5,demo"),
        ("demo:", "demo", None),
        ("demo/", "demo", None),
        ("  demo\n", "demo", None),
        ("openai: gpt-5", "openai", "gpt-5"),
        (" openai : gpt-5 ", "openai", "gpt-5"),
        ("demo: ", "demo", None),
    ],
)
def test_a_model_string_is_cut_at_its_first_separator(text: str, provider: str, model: str | None) -> None:
    assert parse_model(text) == ModelName(provider, model)


@pytest.mark.parametrize("text", ["", "   ", ":x", "/x", ":", " : x"])
def test_a_model_string_without_a_provider_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"names no provider.*provider:model"):
        parse_model(text)


# --- names ------------------------------------------------------------------


def test_the_built_in_names_come_first_and_all_of_them_load() -> None:
    assert set(names("providers")) >= {"demo", "scripted", "openai", "anthropic", "compatible", "local"}
    assert set(names("tools")) >= {"calculate", "now"}
    for name in ("calculate", "now"):
        assert isinstance(load("tools", name), Tool)


def test_every_kind_can_be_listed() -> None:
    for kind in KINDS:
        assert isinstance(names(kind), tuple)


def test_an_unknown_name_is_answered_with_near_matches() -> None:
    with pytest.raises(UnknownName, match=r"no provider called 'dmeo' \(did you mean 'demo'\?\)"):
        load("providers", "dmeo")


def test_an_unknown_name_that_is_near_to_nothing_is_answered_with_all_names() -> None:
    with pytest.raises(UnknownName, match=r"no tool called 'zzzzzz' \(known: ask_user, calculate, "):
        load("tools", "zzzzzz")


def test_a_kind_without_any_back_end_says_so() -> None:
    with pytest.raises(UnknownName, match="no driver called 'x'"):
        load("drivers", "x")


@pytest.mark.parametrize("call", [names, lambda kind: load(kind, "demo")])
def test_an_unknown_kind_is_refused_by_name(call: Callable[[str], object]) -> None:
    with pytest.raises(ConfigError, match=r"no kind of back end is called 'provider'.*'providers'"):
        call("provider")


# --- extras -----------------------------------------------------------------


def test_a_missing_driver_is_reported_with_the_line_that_installs_it(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant("planted_backend", {}, "import nowhere_to_be_found.client\n")
    monkeypatch.setitem(registry._BUILT_IN, "storage", {"redis": "planted_backend:Redis"})
    with pytest.raises(
        MissingExtra, match=r"storage 'redis' needs nowhere_to_be_found .*pip install 'gnomon\[redis\]'"
    ) as caught:
        load("storage", "redis")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_missing_module_of_ours_is_not_reported_as_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "storage", {"redis": "gnomon.storage_that_is_not_there:Redis"})
    with pytest.raises(ModuleNotFoundError) as caught:
        load("storage", "redis")
    assert not isinstance(caught.value, ConfigError)


def test_a_bug_in_a_back_end_is_not_reported_as_a_missing_extra(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant("planted_bug", {}, "from os import nothing_of_the_kind\n")
    monkeypatch.setitem(registry._BUILT_IN, "storage", {"redis": "planted_bug:Redis"})
    with pytest.raises(ImportError, match="nothing_of_the_kind"):
        load("storage", "redis")


# --- other packages ---------------------------------------------------------


def test_another_package_adds_a_provider(plant: Plant) -> None:
    plant("planted_acme", {"acme": "planted_acme:Acme"})
    assert "acme" in names("providers")
    made = registry.provider("acme:big", {"temperature": 0.5})
    assert (made.name, made.model) == ("acme", "big")
    assert registry.provider("acme").model == "acme-1"


def test_names_of_other_packages_are_sorted_and_listed_once(plant: Plant) -> None:
    plant("planted_one", {"zeta": "planted_one:Acme", "demo": "planted_one:Acme"})
    plant("planted_two", {"alpha": "planted_two:Acme", "zeta": "planted_two:Acme"})
    listed = names("providers")
    assert [name for name in listed if name in ("alpha", "zeta")] == ["alpha", "zeta"]
    assert listed.count("demo") == 1


def test_a_near_match_may_be_a_name_of_another_package(plant: Plant) -> None:
    plant("planted_acme", {"acme": "planted_acme:Acme"})
    with pytest.raises(UnknownName, match="did you mean 'acme'"):
        load("providers", "acem")


def test_a_built_in_name_wins_over_another_package(plant: Plant) -> None:
    plant("planted_thief", {"scripted": "planted_thief:Acme"})
    made = load("providers", "scripted")
    assert isinstance(made, type)
    assert made.__module__ == "gnomon.providers.scripted"
    assert "planted_thief" not in sys.modules


def test_listing_names_imports_nothing_of_other_packages(plant: Plant) -> None:
    plant("planted_heavy", {"heavy": "planted_heavy:Acme"}, "raise SystemExit('imported')\n")
    assert "heavy" in names("providers")
    assert "planted_heavy" not in sys.modules


def test_two_packages_that_offer_one_name_are_both_named(plant: Plant) -> None:
    plant("planted_one", {"acme": "planted_one:Acme"})
    plant("planted_two", {"acme": "planted_two:Other"})
    with pytest.raises(
        ConfigError, match=r"offer provider 'acme': planted_one:Acme and planted_two:Other .*uninstall one"
    ):
        load("providers", "acme")


def test_a_package_that_fails_at_import_is_named_with_the_cause(plant: Plant) -> None:
    plant("planted_broken", {"acme": "planted_broken:Acme"}, "raise ValueError('no licence file')\n")
    with pytest.raises(
        ConfigError, match=r"provider 'acme' \(planted_broken:Acme\) cannot be loaded: ValueError: no licence"
    ) as caught:
        load("providers", "acme")
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_entry_point_to_nothing_is_named(plant: Plant) -> None:
    plant("planted_acme", {"acme": "planted_acme:Missing"})
    with pytest.raises(
        ConfigError, match=r"'acme' \(planted_acme:Missing\) cannot be loaded: AttributeError"
    ):
        load("providers", "acme")


@pytest.mark.parametrize("what", ["not_a_class", "Finish"])
def test_an_entry_point_that_is_no_provider_is_refused(plant: Plant, what: str) -> None:
    plant("planted_acme", {"acme": f"planted_acme:{what}"})
    with pytest.raises(ConfigError, match=r"provider 'acme' is .*, not a class of Provider"):
        registry.provider("acme")


def test_a_tool_of_another_package_loads_by_name(plant: Plant) -> None:
    source = "from gnomon import tool\n\n@tool\ndef dig(depth: int) -> int:\n    return depth\n"
    plant("planted_tools", {"dig": "planted_tools:dig"}, source, "gnomon.tools")
    assert isinstance(load("tools", "dig"), Tool)


# --- settings ---------------------------------------------------------------


def test_a_setting_the_provider_does_not_take_is_named_with_the_nearest(plant: Plant) -> None:
    plant("planted_acme", {"acme": "planted_acme:Acme"})
    with pytest.raises(
        ConfigError, match=r"provider 'acme' takes no setting 'temprature' \(did you mean 'temperature'"
    ):
        registry.provider("acme", {"temprature": 1})


def test_a_provider_with_open_settings_takes_any(plant: Plant) -> None:
    source = PROVIDER + (
        "\nclass Open(Acme):\n"
        "    def __init__(self, **settings):\n"
        "        super().__init__(settings.pop('model', 'm'))\n"
        "        self.settings = settings\n"
    )
    plant("planted_open", {"open": "planted_open:Open"}, source)
    made = registry.provider("open:x", {"base_url": "http://localhost"})
    assert (made.model, vars(made)["settings"]) == ("x", {"base_url": "http://localhost"})


def test_a_provider_that_takes_no_model_says_so_when_one_is_named(plant: Plant) -> None:
    source = PROVIDER + "\nclass Fixed(Acme):\n    def __init__(self):\n        super().__init__()\n"
    plant("planted_fixed", {"fixed": "planted_fixed:Fixed"}, source)
    assert registry.provider("fixed").model == "acme-1"
    with pytest.raises(ConfigError, match="provider 'fixed' takes no setting 'model'"):
        registry.provider("fixed:x")


def test_a_setting_the_provider_cannot_do_without_is_a_config_error(plant: Plant) -> None:
    source = PROVIDER + (
        "\nclass Strict(Acme):\n    def __init__(self, *, region, model='m'):\n"
        "        super().__init__(model)\n"
    )
    plant("planted_strict", {"strict": "planted_strict:Strict"}, source)
    assert registry.provider("strict", {"region": "eu"}).model == "m"
    with pytest.raises(ConfigError, match=r"'strict' needs.*'region'"):
        registry.provider("strict")


def test_the_given_settings_are_not_changed(plant: Plant) -> None:
    plant("planted_acme", {"acme": "planted_acme:Acme"})
    settings: dict[str, object] = {"temperature": 0.5}
    assert isinstance(registry.provider("acme:big", settings), Provider)
    assert settings == {"temperature": 0.5}


# --- embedders --------------------------------------------------------------

EMBEDDER = """
class Acme:
    name = "acme"

    def __init__(self, model="acme-1", *, dimensions: int | None = None):
        self.model = model
        self.dimensions = dimensions

    async def embed(self, request): ...
    async def close(self): ...

class Mute:
    def __init__(self, model="m"):
        self.model = model

def not_a_class():
    return Acme()
"""


def test_every_embedder_is_made_by_its_name() -> None:
    assert set(names("embedders")) >= {"cached", "hashed", "ollama", "openai"}
    for name in ("hashed", "ollama", "openai"):
        made = registry.embedder(name)
        assert isinstance(made, Embedder)
        assert made.name == name
        assert made.model


@pytest.mark.parametrize(
    ("text", "name", "model"),
    [
        ("openai:text-embedding-3-large", "openai", "text-embedding-3-large"),
        ("ollama/nomic-embed-text:v1.5", "ollama", "nomic-embed-text:v1.5"),
        ("hashed:v1-64", "hashed", "v1-64"),
        ("cached:ollama:nomic-embed-text", "cached", "nomic-embed-text"),
        ("cached:cached:hashed", "cached", "v1-512"),
    ],
)
def test_an_embedder_is_named_with_its_model(text: str, name: str, model: str) -> None:
    made = registry.embedder(text)
    assert (made.name, made.model) == (name, model)


def test_another_package_adds_an_embedder(plant: Plant) -> None:
    plant("planted_acme", {"acme": "planted_acme:Acme"}, EMBEDDER, "gnomon.embedders")
    made = registry.embedder("acme:big", {"dimensions": 7})
    assert (made.name, made.model, vars(made)["dimensions"]) == ("acme", "big", 7)
    assert registry.embedder("cached:acme").model == "acme-1"


@pytest.mark.parametrize("what", ["not_a_class", "Mute"])
def test_an_entry_point_that_is_no_embedder_is_refused(plant: Plant, what: str) -> None:
    plant("planted_acme", {"acme": f"planted_acme:{what}"}, EMBEDDER, "gnomon.embedders")
    with pytest.raises(ConfigError, match=r"embedder 'acme' is .*, not a class of Embedder"):
        registry.embedder("acme")


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("openai", {"dimension": 5}, r"embedder 'openai' takes no setting 'dimension' .*'dimensions'"),
        ("openai", {"dimensions": "five"}, "setting 'dimensions' of embedder 'openai' cannot be used"),
        ("openai", {"encoding_format": "hex"}, "setting 'encoding_format' of embedder 'openai'"),
        ("ollama", {"headers": {"x": 1}}, "setting 'headers' of embedder 'ollama'"),
        ("cached", {}, "embedder 'cached' needs one other embedder"),
        ("cached:hashed", {"most_entries": "many"}, "setting 'most_entries' of embedder 'cached'"),
    ],
)
def test_settings_of_an_embedder_are_checked_like_those_of_a_provider(
    text: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        registry.embedder(text, settings)


def test_an_extra_may_be_called_otherwise_than_what_it_is_for(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant("planted_backend", {}, "import nowhere_to_be_found.client\n")
    monkeypatch.setitem(registry._BUILT_IN, "storage", {"redis": "planted_backend:Redis"})
    monkeypatch.setitem(registry._EXTRAS, ("storage", "redis"), "stores")
    with pytest.raises(MissingExtra, match=r"storage 'redis' needs .*pip install 'gnomon\[stores\]'"):
        load("storage", "redis")


# --- stores -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", "MemoryStorage"),
        ("sqlite:///somewhere.db", "SQLiteStorage"),
        (" SQLite:///somewhere.db ", "SQLiteStorage"),
        ("postgresql://user@127.0.0.1:1/db", "PostgresStorage"),
        ("postgres://user@127.0.0.1:1/db", "PostgresStorage"),
        ("redis://127.0.0.1:1/0", "RedisStorage"),
        ("rediss://127.0.0.1:1/0", "RedisStorage"),
        ("mongodb://127.0.0.1:1/db", "MongoStorage"),
        ("dynamodb://eu-central-1/table", "DynamoStorage"),
    ],
)
def test_a_store_is_made_of_its_url_and_nobody_is_asked(url: str, kind: str) -> None:
    assert type(registry.storage(url)).__name__ == kind


@pytest.mark.parametrize("url", ["gnomon.db", "", "sqlite", "user:secret-word@host"])
def test_what_is_no_url_is_told_how_one_looks(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the URL of a store") as caught:
        registry.storage(url)
    assert "sqlite:///gnomon.db" in str(caught.value)


def test_an_unknown_scheme_is_told_the_near_ones() -> None:
    with pytest.raises(UnknownName, match=r"storage called 'sqlit'.*did you mean 'sqlite'"):
        registry.storage("sqlit:///x.db")


def test_a_setting_that_a_store_does_not_take_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"takes no setting 'synchronus'.*did you mean 'synchronous'"):
        registry.storage("sqlite:///x.db", {"synchronus": "full"})


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite://host/x.db",
        "sqlite:///:memory:",
        "sqlite:///x.db?mode=ro",
        "memory://x",
    ],
)
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        registry.storage(url)
