"""Layers, checks and trust. Every test brings its own environment and its own home folder."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import config
from gnomon.config import BudgetSettings, Config, load
from gnomon.errors import ConfigError, InvalidInput, NotTrusted

SECRET = "sk-secret-123456789"  # planted, to see that it never shows
UNSCRUBBED = "opensesame"  # a secret that looks like nothing in particular


class Place:
    """A home folder and a project beside each other, with an environment that knows no other."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = self.home / "code" / "project"
        self.project.mkdir(parents=True)
        self.env: dict[str, str] = {"HOME": str(self.home)}

    @property
    def user_path(self) -> Path:
        return self.home / ".config" / "gnomon" / "config.toml"

    @property
    def project_path(self) -> Path:
        return self.project / ".gnomon" / "config.toml"

    @property
    def state_path(self) -> Path:
        return self.home / ".local" / "state" / "gnomon" / "trusted.json"

    def user(self, text: str | bytes) -> Path:
        return write(self.user_path, text)

    def set_project(self, text: str | bytes, *, trusted: bool = False) -> Path:
        path = write(self.project_path, text)
        if trusted:
            self.trust()
        return path

    def load(self, *, flags: Mapping[str, object] | None = None, **env: str) -> config.Loaded:
        return load(flags=flags, env={**self.env, **env}, cwd=self.project)

    def trust(self, folder: Path | None = None) -> Path:
        return config.trust(folder or self.project, env=self.env)

    def trusted(self, folder: Path | None = None) -> bool:
        return config.trusted(folder or self.project, env=self.env)

    def untrust(self, folder: Path | None = None) -> bool:
        return config.untrust(folder or self.project, env=self.env)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fails(action: Callable[[], object], kind: type[ConfigError] = ConfigError) -> str:
    """What the error says; it is one line, and a secret is nowhere in it."""
    with pytest.raises(kind) as caught:
        action()
    said = str(caught.value)
    everything = said + repr(caught.value) + "".join(traceback.format_exception(caught.value))
    assert "\n" not in said
    assert said.isprintable()
    assert SECRET not in everything
    assert UNSCRUBBED not in everything
    return said


# --- the layers ---------------------------------------------------------------


def test_nothing_set_gives_the_defaults(place: Place) -> None:
    loaded = place.load()
    assert loaded.config == Config()
    assert loaded.config.budget == BudgetSettings(rounds=None, tokens=None, seconds=None)
    assert loaded.sources == {}


def test_every_key_can_be_set_in_a_file(place: Place) -> None:
    place.user(
        """
        model = "openai:gpt-5"
        system = "Be brief."
        output = "stream-json"
        tools = ["calculate", "now"]
        [budget]
        rounds = 3
        tokens = 1000
        seconds = 2.5
        [providers.demo]
        delay_s = 0.01
        headers = { "X-Team" = "a" }
        """
    )
    assert place.load().config == Config(
        model="openai:gpt-5",
        system="Be brief.",
        output="stream-json",
        tools=("calculate", "now"),
        budget=BudgetSettings(rounds=3, tokens=1000, seconds=2.5),
        providers={"demo": {"delay_s": 0.01, "headers": {"X-Team": "a"}}},
    )


def test_every_variable_is_read(place: Place) -> None:
    loaded = place.load(
        GNOMON_MODEL="demo",
        GNOMON_SYSTEM="Be brief: ${NOT_A_REFERENCE}",
        GNOMON_OUTPUT="json",
        GNOMON_TOOLS="calculate, now",
        GNOMON_BUDGET_ROUNDS="3",
        GNOMON_BUDGET_TOKENS="1000",
        GNOMON_BUDGET_SECONDS="1.5",
    )
    assert loaded.config == Config(
        model="demo",
        system="Be brief: ${NOT_A_REFERENCE}",
        output="json",
        tools=("calculate", "now"),
        budget=BudgetSettings(rounds=3, tokens=1000, seconds=1.5),
    )
    assert loaded.sources["budget.rounds"] == "GNOMON_BUDGET_ROUNDS"


def test_flags_stand_over_environment_over_project_over_user(place: Place) -> None:
    user = place.user('model = "user"\nsystem = "user"\noutput = "text"\n[budget]\nrounds = 1')
    assert place.load().config.model == "user"
    project = place.set_project('model = "project"\nsystem = "project"\noutput = "json"')
    assert place.load().config.model == "project"
    assert place.load(GNOMON_MODEL="environment").config.model == "environment"
    loaded = place.load(flags={"model": "flags"}, GNOMON_MODEL="environment", GNOMON_SYSTEM="environment")
    assert loaded.config == Config(
        model="flags", system="environment", output="json", budget=BudgetSettings(rounds=1)
    )
    assert loaded.sources == {
        "model": "--model",
        "system": "GNOMON_SYSTEM",
        "output": str(project),
        "budget.rounds": str(user),
    }


def test_flags_are_shaped_like_a_file_and_none_is_not_set(place: Place) -> None:
    place.user('model = "user"\n[budget]\nrounds = 1\ntokens = 2')
    flags = {"model": None, "budget": {"rounds": None, "tokens": 9}, "tools": ("now",), "system": "a ${b}"}
    loaded = place.load(flags=flags)
    assert loaded.config == Config(
        model="user", system="a ${b}", tools=("now",), budget=BudgetSettings(rounds=1, tokens=9)
    )
    assert loaded.sources["budget.tokens"] == "--budget-tokens"


def test_an_empty_list_of_tools_and_an_empty_system_prompt_are_values(place: Place) -> None:
    place.user('tools = ["now"]\nsystem = "user"')
    place.set_project('tools = []\nsystem = ""')
    assert place.load().config == Config(tools=(), system="")


def test_an_empty_variable_sets_nothing(place: Place) -> None:
    place.user('model = "user"')
    assert place.load(GNOMON_MODEL="", GNOMON_TOOLS="", GNOMON_BUDGET_ROUNDS="").config == Config(
        model="user"
    )


def test_unknown_and_reserved_variables_are_left_alone(place: Place) -> None:
    reserved = dict.fromkeys(("GNOMON_TEST_SEED", "GNOMON_SOAK", "GNOMON_DEBUG", "GNOMON_NO_SUCH_THING"), "1")
    assert place.load(**reserved, GNOMON_HOME=str(place.home)).config == Config()


def test_the_process_environment_and_folder_are_the_defaults(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("GNOMON_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("GNOMON_OUTPUT", "json")
    place.user('[providers.demo]\nkey = "${HOME}"')
    path = place.set_project('model = "project"')
    monkeypatch.chdir(place.project)
    loaded = load()
    assert loaded.config == Config(
        model="project", output="json", providers={"demo": {"key": str(place.home)}}
    )
    assert config.project_file() == path
    assert config.user_file() == place.user_path
    config.trust(place.project)
    assert place.state_path.exists()
    assert config.trusted(place.project)
    assert config.untrust(place.project)


# --- merging ------------------------------------------------------------------


def test_tables_merge_key_by_key(place: Place) -> None:
    place.user("[providers.demo]\ndelay_s = 0.01\nheaders = { a = 1, b = 2 }")
    place.set_project("[providers.other]\nx = 1\n[providers.demo]\nheaders = { b = 3 }", trusted=True)
    assert place.load().config.providers == {
        "demo": {"delay_s": 0.01, "headers": {"a": 1, "b": 3}},
        "other": {"x": 1},
    }


def test_a_value_replaces_a_table_and_its_sources(place: Place) -> None:
    place.user('[providers.demo]\nx = { a = 1, b = 2 }\ny = 1\n"x.a" = 5')
    project = place.set_project("[providers.demo]\nx = 1\ny = { c = 1 }", trusted=True)
    loaded = place.load()
    assert loaded.config.providers == {"demo": {"x": 1, "y": {"c": 1}, "x.a": 5}}
    assert loaded.sources == {
        "providers.demo.x": str(project),
        "providers.demo.y.c": str(project),
        'providers.demo."x.a"': str(place.user_path),
    }


_settings = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, min_size=1, max_size=3),
    max_leaves=8,
)
_providers = st.dictionaries(
    st.sampled_from(["demo", "open.ai"]), st.dictionaries(st.sampled_from("xyz"), _settings, max_size=3)
)


def merged(weak: object, strong: object) -> object:
    """What merging means, said in three lines."""
    if not (isinstance(weak, dict) and isinstance(strong, dict)):
        return strong
    return weak | {k: merged(weak[k], v) if k in weak else v for k, v in strong.items()}


def leaves(value: object) -> int:
    return sum(leaves(item) for item in value.values()) if isinstance(value, dict) else 1


@given(weak=_providers, strong=_providers)
def test_merging_is_the_same_at_every_depth(
    weak: dict[str, object], strong: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    user = write(tmp_path_factory.mktemp("user") / "config.toml", toml("providers", weak))
    loaded = load(flags={"providers": strong}, env={"GNOMON_CONFIG": str(user)}, use_project=False)
    assert loaded.config.providers == merged(weak, strong)
    assert len(loaded.sources) == leaves(loaded.config.providers)
    assert sum(source.startswith("--") for source in loaded.sources.values()) == leaves(strong)


def toml(name: str, table: Mapping[str, object]) -> str:
    return f"{name} = {inline(table)}".replace("${", "$${")


def inline(value: object) -> str:
    """JSON is TOML, but for `=` in tables and the letters beyond the basic plane."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {inline(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@given(
    budgets=st.lists(
        st.dictionaries(
            st.sampled_from(["rounds", "tokens", "seconds"]), st.integers(min_value=1, max_value=99)
        ),
        min_size=4,
        max_size=4,
    )
)
def test_the_strongest_layer_that_sets_a_key_wins(
    budgets: list[dict[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Place(tmp_path_factory.mktemp("place").resolve())
    user, project, environment, flags = budgets
    place.user(toml("budget", user))
    place.set_project(toml("budget", project))
    variables = {f"GNOMON_BUDGET_{name.upper()}": str(value) for name, value in environment.items()}
    loaded = place.load(flags={"budget": flags}, **variables)
    assert loaded.config.budget == BudgetSettings(**{**user, **project, **environment, **flags})
    assert {key.partition(".")[2] for key in loaded.sources} == {name for b in budgets for name in b}


# --- where the files are --------------------------------------------------------


def test_the_nearest_project_file_going_up_is_used(place: Place) -> None:
    write(place.home / "code" / ".gnomon" / "config.toml", 'model = "far"')
    deep = place.project / "src" / "deep"
    deep.mkdir(parents=True)
    found = lambda: config.project_file(deep, place.env)  # noqa: E731
    assert found() == place.home / "code" / ".gnomon" / "config.toml"
    assert found() == Path(load(env=place.env, cwd=deep).sources["model"])
    path = place.set_project('model = "near"')
    assert found() == path
    assert load(env=place.env, cwd=str(deep)).config.model == "near"


@pytest.mark.parametrize("marker", ["folder", "file"])
def test_the_search_stops_after_the_root_of_a_repository(place: Place, marker: str) -> None:
    write(place.home / "code" / ".gnomon" / "config.toml", 'model = "outside"')
    git = place.project / ".git"
    git.mkdir() if marker == "folder" else git.write_text("gitdir: elsewhere")
    deep = place.project / "deep"
    deep.mkdir()
    assert config.project_file(deep, place.env) is None
    path = place.set_project('model = "root"')
    assert config.project_file(deep, place.env) == path


def test_the_search_stops_at_the_home_folder_whose_own_file_is_no_project(place: Place) -> None:
    write(place.home / ".gnomon" / "config.toml", 'model = "home"')
    write(place.home.parent / ".gnomon" / "config.toml", 'model = "above"')
    assert config.project_file(place.project, place.env) is None
    assert config.project_file(place.home, place.env) is None
    assert place.load().config == Config()


def test_a_home_folder_behind_a_link_is_still_the_home_folder(place: Place) -> None:
    write(place.home / ".gnomon" / "config.toml", 'model = "home"')
    link = place.home.parent / "link"
    link.symlink_to(place.home)
    for home, cwd in ((link, place.project), (place.home, link / "code")):
        assert config.project_file(cwd, {"HOME": str(home)}) is None


def test_the_search_ends_at_the_root_of_the_file_system(place: Place) -> None:
    paths = [Path(file.path) for file in load(env={}, cwd="/").files]
    assert paths == [Path("/.gnomon/config.toml")]
    looked_at = [Path(file.path).parent.parent for file in load(env={}, cwd="/no/such/folder").files]
    assert looked_at == [Path("/no/such/folder"), Path("/no/such"), Path("/no"), Path("/")]


def test_no_project_reads_no_project_file(place: Place) -> None:
    place.set_project("not even [toml")
    loaded = load(env=place.env, cwd=place.project, use_project=False)
    assert loaded.config == Config()
    assert [file.layer for file in loaded.files] == ["user"]


def test_a_deleted_working_folder_has_no_project(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.user('model = "user"')
    gone = place.home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load(env=place.env).config.model == "user"
    assert config.project_file(env=place.env) is None


def test_the_user_file_is_found_by_variable_then_standard_then_home(place: Place, tmp_path: Path) -> None:
    named = write(tmp_path / "named.toml", 'model = "named"')
    write(tmp_path / "xdg" / "gnomon" / "config.toml", 'model = "standard"')
    place.user('model = "home"')
    env = {**place.env, "XDG_CONFIG_HOME": str(tmp_path / "xdg"), "GNOMON_CONFIG": str(named)}
    assert config.user_file(env) == named
    assert load(env=env, cwd=place.project).config.model == "named"
    del env["GNOMON_CONFIG"]
    assert config.user_file(env) == tmp_path / "xdg" / "gnomon" / "config.toml"
    assert load(env=env, cwd=place.project).config.model == "standard"
    for ignored in ("", "relative/path"):
        env["XDG_CONFIG_HOME"] = ignored
        assert config.user_file(env) == place.user_path
        assert load(env=env, cwd=place.project).config.model == "home"


def test_a_file_named_by_variable_must_exist(place: Place) -> None:
    missing = place.home / "missing.toml"
    said = fails(lambda: place.load(GNOMON_CONFIG=str(missing)), InvalidInput)
    assert "GNOMON_CONFIG" in said
    assert str(missing) in said
    place.user('model = "home"')
    assert place.load(GNOMON_CONFIG=os.devnull).config == Config()


@pytest.mark.parametrize("home", [None, "", "relative", "/no/such/home"])
def test_without_a_home_folder_the_user_layer_is_absent(place: Place, home: str | None) -> None:
    env = {} if home is None else {"HOME": home}
    path = place.set_project('model = "project"')
    loaded = load(env=env, cwd=place.project)
    assert loaded.config.model == "project"
    assert config.user_file(env) is None
    assert not config.trusted(place.project, env=env)
    assert not config.untrust(place.project, env=env)
    said = fails(lambda: config.trust(place.project, env=env))
    assert "GNOMON_HOME" in said
    assert [file.path for file in loaded.files if file.found] == [str(path)]


def test_files_tell_what_was_looked_for_found_and_trusted(place: Place) -> None:
    deep = place.project / "deep"
    deep.mkdir()
    project = place.set_project('model = "project"')

    def seen() -> list[tuple[str, str, bool, bool]]:
        files = load(env=place.env, cwd=deep).files
        return [(file.path, file.layer, file.found, file.trusted) for file in files]

    nearer = (str(deep / ".gnomon" / "config.toml"), "project", False, False)
    assert seen() == [
        nearer,
        (str(project), "project", True, False),
        (str(place.user_path), "user", False, True),
    ]
    place.trust()
    place.user("")
    assert seen() == [
        nearer,
        (str(project), "project", True, True),
        (str(place.user_path), "user", True, True),
    ]


# --- bad keys and values --------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ('modle = "x"', "modle", "`model`"),
        ('OUTPUT = "x"', "OUTPUT", "`output`"),
        ("[budget]\nround = 1", "budget.round", "`budget.rounds`"),
        ("tokens = 1", "tokens", "`budget.tokens`"),
        ("[provider.demo]\nx = 1", "provider", "`providers`"),
        ("[budget]\nzzz = 1", "budget.zzz", "known are budget, budget.rounds"),
        ('[hooks]\nstart = "rm"', "hooks", "known are"),
        ('"a\\nb\\u001b" = 1', '"a\\nb\\x1b"', "known are"),
    ],
)
def test_an_unknown_key_is_named_with_the_file_and_the_nearest_known_key(
    place: Place, text: str, key: str, nearest: str
) -> None:
    path = place.user(text)
    said = fails(place.load)
    assert f"{path}: `{key}` is not a known key" in said
    assert nearest in said
    place.user("")
    place.set_project(text, trusted=True)
    assert f"{place.project_path}: `{key}` is not a known key" in fails(place.load)


def test_an_unknown_flag_is_named_with_the_nearest_known_key(place: Place) -> None:
    assert (
        fails(lambda: place.load(flags={"modle": "x"}))
        == "--modle is not a known key (did you mean `model`?)"
    )


COUNT = "a whole number above zero"
WRONG = [
    ("model = 3", "model", "a model such as", "a whole number, 3"),
    ('model = ""', "model", "a model such as", 'text ""'),
    ('model = "a\\u001b[2J"', "model", "a model such as", 'text "a\\x1b[2J"'),
    ('model = "demo "', "model", "a model such as", 'text "demo "'),
    ("model = 2024-01-01", "model", "a model such as", "date"),
    ("system = true", "system", "text", "true or false"),
    ('output = "xml"', "output", '"text", "json" or "stream-json"', 'text "xml"'),
    (f'output = "{"x" * 99}"', "output", '"text", "json" or "stream-json"', "text of 99 characters"),
    ('output = ["json"]', "output", '"text", "json" or "stream-json"', 'a list of text "json"'),
    ('tools = "now"', "tools", "a list of tool names", 'text "now"'),
    ('tools = ["now", 1]', "tools", "a list of tool names", 'a list of text "now", a whole number, 1'),
    ('tools = [""]', "tools", "a list of tool names", 'a list of text ""'),
    ("budget = 1", "budget", "a table", "a whole number, 1"),
    ("budget.rounds = 0", "budget.rounds", COUNT, "a whole number, 0"),
    ("budget.rounds = -5", "budget.rounds", COUNT, "a whole number, -5"),
    ("budget.rounds = 5.0", "budget.rounds", COUNT, "a number, 5.0"),
    ("budget.rounds = true", "budget.rounds", COUNT, "true or false"),
    (f"budget.rounds = 0x{'f' * 9999}", "budget.rounds", COUNT, "a whole number"),
    ('budget.tokens = "5"', "budget.tokens", COUNT, 'text "5"'),
    ("budget.seconds = 0.0", "budget.seconds", "a number above zero", "a number, 0.0"),
    ("budget.seconds = nan", "budget.seconds", "a number above zero", "a number, nan"),
    ("budget.seconds = inf", "budget.seconds", "a number above zero", "a number, inf"),
    (f"budget.seconds = 1{'0' * 400}", "budget.seconds", "a number above zero", "a whole number"),
    ("providers = []", "providers", "a table", "a list"),
    ("providers.demo = 1", "providers.demo", "a table", "a whole number"),
]


@pytest.mark.parametrize(("text", "key", "expected", "found"), WRONG)
def test_a_wrong_type_is_named_with_file_key_expected_and_found(
    place: Place, text: str, key: str, expected: str, found: str
) -> None:
    path = place.user(text)
    said = fails(place.load, InvalidInput)
    assert said.startswith(f"{path}: `{key}` should be {expected}")
    assert said.endswith(f", found {found}")


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("GNOMON_OUTPUT", "xml", 'text "xml"'),
        ("GNOMON_MODEL", " ", 'text " "'),
        ("GNOMON_MODEL", "caf\udce9", "text that is not UTF-8"),
        ("GNOMON_SYSTEM", "caf\udce9", "text that is not UTF-8"),
        ("GNOMON_TOOLS", "now,,then", 'a list of text "now", text "", text "then"'),
        ("GNOMON_BUDGET_ROUNDS", "many", 'text "many"'),
        ("GNOMON_BUDGET_ROUNDS", "0", 'text "0"'),
        ("GNOMON_BUDGET_ROUNDS", "9" * 5000, "text of 5000 characters"),
        ("GNOMON_BUDGET_TOKENS", "1.5", 'text "1.5"'),
        ("GNOMON_BUDGET_SECONDS", "nan", 'text "nan"'),
    ],
)
def test_a_bad_variable_is_named(place: Place, variable: str, value: str, found: str) -> None:
    said = fails(lambda: place.load(**{variable: value}), InvalidInput)
    assert said.startswith(f"{variable} should be ")
    assert said.endswith(f", found {found}")


def test_a_bad_flag_is_named(place: Place) -> None:
    said = fails(lambda: place.load(flags={"budget": {"rounds": 0}}), InvalidInput)
    assert said == "--budget-rounds should be a whole number above zero, found a whole number, 0"


def test_keys_nested_without_end_are_refused(place: Place) -> None:
    place.user(f"providers.demo.{'.'.join('a' * 900)} = 1")
    assert "`providers.demo.a` is nested too deep" in fails(place.load, InvalidInput)


# --- bad files --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'model = "a"\nsystem "b"', ", line 2, column 8: not valid TOML: Expected '='"),
        (b'model = "a"\n\n  tools = [', ", line 3, column 12: not valid TOML: "),
        (b'model = "a"\nmodel = "b"', ", line 2, column 12: not valid TOML: Cannot overwrite a value"),
        (b"[budget]\n[budget]", ", line 2, column 8: not valid TOML: Cannot declare ('budget',) twice"),
        (b'model = "a"\nsystem = "\xff"', ", line 2: not UTF-8 text"),
        ('model = "a"'.encode("utf-16"), ", line 1: not UTF-8 text"),
        (b'model = "a"\nsystem = "\0"', ", line 2: a NUL character, so this is not a text file"),
        (b"x = " + b"9" * 5000, " cannot be used: a number in it is too long"),
        (
            b"x = " + b"[" * 5000,
            " cannot be used: a number in it is too long, or its lists are nested too deep",
        ),
        (b"#" * (256 * 1024 + 1), " is too large: more than 262144 bytes"),
    ],
)
@pytest.mark.parametrize("layer", ["user", "project"])
def test_a_file_that_cannot_be_parsed_is_one_line_with_its_place(
    place: Place, content: bytes, complaint: str, layer: str
) -> None:
    path = place.user(content) if layer == "user" else place.set_project(content)
    assert fails(place.load, InvalidInput).startswith(f"{path}{complaint}")


def test_a_byte_order_mark_is_no_syntax_error(place: Place) -> None:
    place.user(b'\xef\xbb\xbfmodel = "a"')
    assert place.load().config.model == "a"


def a_folder(path: Path) -> None:
    path.mkdir(parents=True)


def a_loop(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(path)


def a_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def an_endless_device(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/zero")


UNREADABLE = [
    (a_folder, "is a folder, and a file was expected"),
    (a_loop, "cannot be read: Too many levels of symbolic links"),
    (a_pipe, "is a pipe or a device, and a file was expected"),
    (an_endless_device, "is a pipe or a device, and a file was expected"),
]


@pytest.mark.parametrize(("make", "complaint"), UNREADABLE)
def test_what_is_no_readable_file_is_one_clear_line(
    place: Place, make: Callable[[Path], None], complaint: str
) -> None:
    make(place.project_path)
    assert fails(place.load, InvalidInput) == f"{place.project_path} {complaint}"
    assert not place.trusted()
    assert complaint in fails(place.trust, InvalidInput)
    make(place.user_path)
    user = lambda: load(env=place.env, use_project=False)  # noqa: E731
    assert fails(user, InvalidInput) == f"{place.user_path} {complaint}"


@pytest.mark.parametrize("layer", ["user", "project"])
def test_a_file_without_permission_is_one_clear_line_and_not_passed_over(
    place: Place, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated, because the superuser may read everything."""
    path = place.user_path if layer == "user" else place.project_path

    def denying(then: Callable[..., object]) -> Callable[..., object]:
        def act(name: str, *rest: object) -> object:
            if str(name) == str(path):
                raise PermissionError(13, "Permission denied", name)
            return then(name, *rest)

        return act

    for name in ("lstat", "open"):
        monkeypatch.setattr(os, name, denying(getattr(os, name)))
    assert fails(place.load, InvalidInput) == f"{path} cannot be read: Permission denied"


def test_a_project_file_that_links_to_nothing_is_named(place: Place) -> None:
    place.project_path.parent.mkdir()
    place.project_path.symlink_to("nowhere")
    said = fails(place.load, InvalidInput)
    assert said == f"{place.project_path} is a link to a file that does not exist"


@pytest.mark.parametrize("where", ["GNOMON_CONFIG", "XDG_CONFIG_HOME"])
def test_a_nul_in_a_path_is_one_clear_line(place: Place, where: str) -> None:
    assert "null" in fails(lambda: place.load(**{where: "/a\0b"}), InvalidInput)
    assert "null" in fails(lambda: load(env=place.env, cwd="a\0b"), InvalidInput)


def test_a_path_with_a_line_break_or_broken_bytes_stays_on_one_line(place: Place) -> None:
    folder = place.home / "a\nb\udcff"
    write(folder / ".gnomon" / "config.toml", "model = 1")
    said = fails(lambda: load(env=place.env, cwd=folder), InvalidInput)
    assert "a\\nb\\udcff" in said
    write(folder / ".gnomon" / "config.toml", "[providers.demo]")
    assert "a\\nb\\udcff" in fails(lambda: load(env=place.env, cwd=folder), NotTrusted)
    assert "not UTF-8" in fails(lambda: place.trust(folder), InvalidInput)
    assert not place.trusted(folder)


# --- ${VAR} -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}", "value"),
        ("a ${NAME}${OTHER} b", "a value$${NAME} b"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$NAME $ {NAME} $$", "$NAME $ {NAME} $$"),
        ("${EMPTY}", ""),
    ],
)
def test_references_are_replaced_once_and_escapes_are_kept(place: Place, text: str, value: str) -> None:
    tables = f'[providers.demo]\nkey = "{text}"\nlist = ["{text}"]\n[providers.demo.headers]\na = "{text}"'
    place.user(f'system = "{text}"\n{tables}')
    found = place.load(NAME="value", OTHER="$${NAME}", EMPTY="").config
    assert found.system == value
    assert found.providers == {"demo": {"key": value, "list": [value], "headers": {"a": value}}}


def test_a_trusted_project_may_use_references(place: Place) -> None:
    place.set_project('[providers.demo]\nkey = "${NAME}"', trusted=True)
    assert place.load(NAME="value").config.providers == {"demo": {"key": "value"}}


@given(text=st.text(st.sampled_from("a${}$ "), max_size=12))
def test_an_escaped_text_comes_back_as_it_was(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.mktemp("user") / "config.toml", f'system = "{text.replace("${", "$${")}"')
    assert load(env={"GNOMON_CONFIG": str(path)}, use_project=False).config.system == text


def test_an_unset_variable_is_named_with_file_and_key(place: Place) -> None:
    path = place.user(f'[providers.demo]\nkey = "{SECRET}${{NAME}}"')
    assert fails(place.load, ConfigError) == f"{path}: `providers.demo.key` uses ${{NAME}}, which is not set"
    broken = lambda: place.load(NAME=f"{SECRET}\udcff")  # noqa: E731
    assert fails(broken) == f"{path}: `providers.demo.key` uses ${{NAME}}, which is not UTF-8 text"


@pytest.mark.parametrize("text", ["${", "${}", "${NAME", "${NAME:-x}", "${1}", "${A B}"])
def test_a_malformed_reference_says_how_to_write_it_plainly(place: Place, text: str) -> None:
    path = place.user(f'system = "{text}"')
    said = fails(lambda: place.load(NAME="x"), InvalidInput)
    assert f"{path}: `system`" in said
    assert "write `$${` for a plain `${`" in said


def test_a_filled_in_value_is_not_shown_where_a_written_one_would_be(place: Place) -> None:
    place.user('output = "${NAME}"')
    assert fails(lambda: place.load(NAME=UNSCRUBBED)).endswith('found text "${NAME}"')


# --- secrets ------------------------------------------------------------------------

LEAKY = [
    "key = {value}",
    "[providers]\nkey = {value}",
    "providers = {value}",
    "[providers.demo]\nkey = [{value}",
    "[providers.demo]\nkey = {value} {value}",
    "[providers.demo]\nkey {value}",
    "[providers.demo]\nkey = {value}\nkey = {value}",
    "[providers.demo]\nkey = {{ a = {value}, a = {value} }}",
    "[providers.demo]\nkey = {value}\n[providers.demo]",
    "[providers.demo]\nkey = '{value}",
    "[providers.demo]\nkey = {value}\n[providers.demo.key]",
    "[providers.demo]\nkey = {value}\n\0",
    "[hooks]\nkey = {value}",
    "[budget]\nkey = {value}",
    "system = [{value}]",
    "system = {{ key = {value} }}",
]


@pytest.mark.parametrize("text", LEAKY)
@pytest.mark.parametrize("layer", ["user", "project", "trusted project"])
def test_a_secret_in_a_bad_place_never_shows(place: Place, text: str, layer: str) -> None:
    for secret, quote in itertools.product((SECRET, UNSCRUBBED), ('"', "'", '"""', "")):
        content = text.format(value=f"{quote}{secret}{quote}")
        if layer == "user":
            place.user(content)
        else:
            place.set_project(content, trusted=layer.startswith("trusted"))
        fails(place.load)


@pytest.mark.parametrize(
    "content", [f'output = "{SECRET}"', f"budget.rounds = '{SECRET}'", f'"{SECRET}" = 1']
)
def test_what_may_be_shown_is_scrubbed(place: Place, content: str) -> None:
    place.user(content)
    assert "[redacted]" in fails(place.load)


def test_a_secret_is_taken_out_before_a_text_is_cut(place: Place) -> None:
    """Half a secret is not recognised as one."""
    place.user(f'output = "{"x" * 30} {SECRET}"')
    assert SECRET[:5] not in fails(place.load)


def test_a_config_does_not_print_the_values_of_providers(place: Place) -> None:
    place.user(f'model = "demo"\n[providers.demo]\nkey = "{SECRET}"\nbase_url = "{UNSCRUBBED}"')
    loaded = place.load()
    assert loaded.config.providers["demo"] == {"key": SECRET, "base_url": UNSCRUBBED}
    shown = repr(loaded) + str(loaded.config) + repr(loaded.config.__rich_repr__())
    assert SECRET not in shown
    assert UNSCRUBBED not in shown
    assert "model='demo'" in shown
    assert "providers={'demo': ['base_url', 'key']}" in shown


# --- trust --------------------------------------------------------------------------


def test_an_untrusted_project_may_set_what_is_harmless(place: Place) -> None:
    place.set_project('model = "a"\nsystem = "$${b}"\noutput = "json"\ntools = ["now"]\nbudget.rounds = 1')
    assert place.load().config == Config(
        model="a", system="${b}", output="json", tools=("now",), budget=BudgetSettings(rounds=1)
    )


FORBIDDEN = [
    ("[providers.demo]\ndelay_s = 1", "providers.demo.delay_s"),
    (f'[providers.openai]\nbase_url = "{UNSCRUBBED}"', "providers.openai.base_url"),
    (f'providers.openai.headers.a = "{UNSCRUBBED}"', "providers.openai.headers"),
    ("[providers]", "providers"),
    ("providers = 1", "providers"),
    (f'[hooks]\nstart = "{UNSCRUBBED}"', "hooks.start"),
    (f'commands = ["{UNSCRUBBED}"]', "commands"),
]


def test_a_slip_in_an_untrusted_project_is_called_one(place: Place) -> None:
    """Trust would not make it a key, so trust is not asked for."""
    path = place.set_project('modle = "a"')
    said = fails(place.load, ConfigError)
    assert said == f"{path}: `modle` is not a known key (did you mean `model`?)"


@pytest.mark.parametrize(("text", "key"), FORBIDDEN)
def test_an_untrusted_project_may_set_nothing_else(place: Place, text: str, key: str) -> None:
    path = place.set_project(f'model = "a"\n{text}')
    hint = f"run `gnomon trust` in {place.project} if you trust it, or pass --no-project"
    said = fails(place.load, NotTrusted)
    assert said == f"{path}: `{key}` may be set only in a trusted folder ({hint})"
    assert load(env=place.env, cwd=place.project, use_project=False).config == Config()


WEIGHTS = [
    *("local:evil.gguf", "local:./evil.gguf", "local/../evil", " local:~/w", "local:a\\\\b"),
    *("local:weights", "local/weights", "local :./evil.gguf", "local : weights", "local:smollm2-135m/x"),
]


@pytest.mark.parametrize("model", WEIGHTS)
def test_an_untrusted_project_may_name_no_file_of_weights(place: Place, model: str) -> None:
    place.set_project(f'model = "{model}"')
    assert "may name a file of weights only in a trusted folder" in fails(place.load, NotTrusted)


def test_the_one_local_model_a_stranger_may_name_is_the_installed_one() -> None:
    from gnomon.config import _NO_FILE
    from gnomon.providers._local_weights import BUNDLED

    assert {"", BUNDLED} == _NO_FILE


@pytest.mark.parametrize(
    "model",
    ["local", "local:", "local:smollm2-135m", "openrouter:meta/llama-4.1", "locally:a/b", "a:local/b"],
)
def test_an_untrusted_project_may_name_any_other_model(place: Place, model: str) -> None:
    place.set_project(f'model = "{model}"')
    assert place.load().config.model == model


@pytest.mark.parametrize(
    "text", ['system = "a ${HOME}"', 'tools = ["${HOME}"]', 'model = "${UNSET}"', 'output = "${"']
)
def test_an_untrusted_project_may_not_use_references(place: Place, text: str) -> None:
    place.set_project(text)
    said = fails(place.load, NotTrusted)
    assert "may use `${...}` only in a trusted folder" in said
    assert f"run `gnomon trust` in {place.project}" in said


def test_a_trusted_project_may_set_providers(place: Place) -> None:
    place.set_project("[providers.demo]\ndelay_s = 1")
    assert not place.trusted()
    assert place.trust() == place.project
    assert place.trusted()
    assert place.load().config.providers == {"demo": {"delay_s": 1}}
    assert place.untrust()
    assert not place.trusted()
    assert not place.untrust()
    fails(place.load, NotTrusted)


def test_a_changed_file_is_no_longer_trusted(place: Place) -> None:
    place.set_project("[providers.demo]\ndelay_s = 1", trusted=True)
    place.set_project("[providers.demo]\ndelay_s = 2")
    assert not place.trusted()
    fails(place.load, NotTrusted)
    place.trust()
    assert place.load().config.providers == {"demo": {"delay_s": 2}}


def test_trust_in_one_folder_is_not_trust_in_another(place: Place) -> None:
    content = place.set_project("[providers.demo]", trusted=True).read_bytes()
    other = place.home / "other"
    write(other / ".gnomon" / "config.toml", content)
    below = place.project / "below"
    write(below / ".gnomon" / "config.toml", content)
    assert not place.trusted(other)
    assert not place.trusted(below)


def test_the_record_maps_the_real_path_to_the_hash_of_the_file(place: Place) -> None:
    path = place.set_project("[providers.demo]", trusted=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert json.loads(place.state_path.read_bytes()) == {str(place.project): digest}


def test_the_record_is_found_by_variable_then_standard_then_home(place: Place, tmp_path: Path) -> None:
    place.set_project("[providers.demo]")
    own, standard = tmp_path / "own", tmp_path / "standard"
    for variables, path in (
        ({"GNOMON_HOME": str(own), "XDG_STATE_HOME": str(standard)}, own / "trusted.json"),
        ({"XDG_STATE_HOME": str(standard)}, standard / "gnomon" / "trusted.json"),
        ({"XDG_STATE_HOME": "relative"}, place.state_path),
    ):
        env = {**place.env, **variables}
        assert not config.trusted(place.project, env=env)
        config.trust(place.project, env=env)
        assert path.exists()
        assert config.trusted(place.project, env=env)


def test_a_project_cannot_bring_its_own_record(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative GNOMON_HOME would be looked up in whatever folder one stands in."""
    path = place.set_project("[providers.demo]")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    write(place.project / "state" / "trusted.json", json.dumps({str(place.project): digest}))
    monkeypatch.chdir(place.project)
    place.env["GNOMON_HOME"] = "state"
    assert not place.trusted()
    fails(place.load, NotTrusted)
    assert "GNOMON_HOME should be an absolute path" in fails(place.trust)


def test_the_record_is_private(place: Place) -> None:
    before = os.umask(0o022)
    try:
        place.set_project("", trusted=True)
    finally:
        os.umask(before)
    folder = place.state_path.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["trusted.json", "trusted.json.lock"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    place.state_path.chmod(0o644)
    place.trust()
    assert place.state_path.stat().st_mode & 0o777 == 0o600


def test_a_folder_without_a_file_cannot_be_trusted(place: Place) -> None:
    assert "has no .gnomon/config.toml" in fails(place.trust, InvalidInput)
    assert "has no .gnomon/config.toml" in fails(lambda: place.trust(place.home / "none"), InvalidInput)
    assert not place.trusted()
    assert not place.state_path.exists()


def test_a_folder_that_is_gone_can_be_untrusted(place: Place) -> None:
    path = place.set_project("", trusted=True)
    path.unlink()
    assert not place.trusted()
    assert place.untrust()
    assert json.loads(place.state_path.read_bytes()) == {}


BROKEN_RECORDS = [b"", b"{", b"[]", b'{"a": 1}', b'{"a": "\xff"}', b"\0", b"null"]


@pytest.mark.parametrize("content", BROKEN_RECORDS)
def test_a_corrupt_record_trusts_nothing_and_is_not_overwritten(place: Place, content: bytes) -> None:
    place.set_project("[providers.demo]", trusted=True)
    place.state_path.write_bytes(content)
    assert not place.trusted()
    fails(place.load, NotTrusted)
    for act in (place.trust, place.untrust):
        said = fails(act)
        assert str(place.state_path) in said
        assert "is not a list of trusted folders (delete it" in said
    assert place.state_path.read_bytes() == content


def test_an_unreadable_record_trusts_nothing(place: Place) -> None:
    place.set_project("[providers.demo]")
    place.state_path.mkdir(parents=True)
    assert not place.trusted()
    fails(place.load, NotTrusted)
    assert f"{place.state_path} is a folder" in fails(place.trust)


def test_a_record_that_cannot_be_written_is_one_clear_line(place: Place) -> None:
    place.set_project("")
    write(place.home / ".local", "a file where a folder is meant")
    said = fails(place.trust)
    assert said == f"{place.state_path} cannot be written: Not a directory"


def test_a_failed_write_leaves_the_old_record_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.set_project("", trusted=True)
    before = place.state_path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    place.set_project("[providers.demo]")
    assert fails(place.trust) == f"{place.state_path} cannot be written: No space left on device"
    monkeypatch.undo()
    assert place.state_path.read_bytes() == before
    place.trust()
    assert place.trusted()


def test_the_record_is_on_disk_before_it_replaces_the_old_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    synced, replaced = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("sync"), synced(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replaced(*paths)))
    place.set_project("", trusted=True)
    assert done == ["sync", "replace", "sync"]


# --- trust and links ------------------------------------------------------------------


def test_a_folder_is_known_by_its_real_path(place: Place) -> None:
    place.set_project("[providers.demo]\nx = 1")
    link = place.home / "link"
    link.symlink_to(place.project)
    assert place.trust(link) == place.project
    assert place.trusted()
    assert place.trusted(link)
    assert load(env=place.env, cwd=link).config.providers == {"demo": {"x": 1}}
    assert place.untrust(link)
    assert not place.trusted()


def test_a_link_to_a_trusted_file_makes_no_folder_trusted(place: Place) -> None:
    """Else a cloned project could choose among the settings that the user trusts elsewhere."""
    place.set_project("[providers.demo]\nx = 1", trusted=True)
    folder_link, file_link = place.home / "one", place.home / "two"
    folder_link.mkdir()
    (folder_link / ".gnomon").symlink_to(place.project_path.parent)
    (file_link / ".gnomon").mkdir(parents=True)
    (file_link / ".gnomon" / "config.toml").symlink_to(place.project_path)
    for folder in (folder_link, file_link):
        assert not place.trusted(folder)
        said = fails(lambda: load(env=place.env, cwd=folder), NotTrusted)  # noqa: B023
        assert f"run `gnomon trust` in {folder} " in said
        assert place.trust(folder) == folder
        assert load(env=place.env, cwd=folder).config.providers == {"demo": {"x": 1}}


@pytest.mark.parametrize("linked", [".gnomon", ".gnomon/config.toml"])
def test_a_trusted_folder_whose_file_becomes_a_link_is_judged_by_the_bytes_it_leads_to(
    place: Place, linked: str
) -> None:
    place.set_project("[providers.demo]\nx = 1", trusted=True)
    elsewhere = write(place.home / "elsewhere" / "config.toml", "[providers.demo]\nx = 2")
    place.project_path.unlink()
    if linked == ".gnomon":
        place.project_path.parent.rmdir()
        place.project_path.parent.symlink_to(elsewhere.parent)
    else:
        place.project_path.symlink_to(elsewhere)
    assert not place.trusted()
    fails(place.load, NotTrusted)
    place.trust()
    assert place.load().config.providers == {"demo": {"x": 2}}
    elsewhere.write_text("[providers.demo]\nx = 3")
    assert not place.trusted()
    fails(place.load, NotTrusted)


def test_the_bytes_that_are_judged_are_the_bytes_that_are_used(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is swapped as soon as it was opened once: whoever reads it again sees the other one."""
    path = place.set_project("[providers.demo]\nx = 1", trusted=True)
    opened: list[str] = []
    really_open = os.open

    def swap(name: str, *rest: int) -> int:
        handle = really_open(name, *rest)
        if str(name) == str(path):
            opened.append(name)
            fresh = write(path.with_name("fresh"), f"[providers.demo]\nx = {len(opened) + 1}")
            os.replace(fresh, path)
        return handle

    monkeypatch.setattr(os, "open", swap)
    assert place.load().config.providers == {"demo": {"x": 1}}
    assert len(opened) == 1
    fails(place.load, NotTrusted)


# --- trust from many processes -----------------------------------------------------------

TRUST_THEM = """
import os, sys, time
from gnomon.config import trust
# Slow down between reading and replacing: without a lock, writers are then sure to collide.
sync, os.fsync = os.fsync, lambda handle: (time.sleep(0.005), sync(handle))
print("ready", flush=True)
sys.stdin.readline()
for folder in sys.argv[1:]:
    trust(folder)
"""


def test_two_processes_that_trust_at_once_lose_nothing(place: Place) -> None:
    folders = [place.home / f"project{number}" for number in range(20)]
    for folder in folders:
        write(folder / ".gnomon" / "config.toml", "[providers.demo]")
    running = [trusting(folders[:10], place.env), trusting(folders[10:], place.env)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
    assert all(place.trusted(folder) for folder in folders)


def trusting(folders: list[Path], env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TRUST_THEM, *map(str, folders)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
    )


# --- weight --------------------------------------------------------------------------------

LOADED = """
import sys, gnomon.config
from gnomon.config import load
heavy = {"tomllib", "difflib", "json", "hashlib", "tempfile", "pathlib", "fcntl"}
print(sorted(heavy & set(sys.modules)))
load(env={}, cwd="/")
print(sorted(heavy & set(sys.modules)))
"""


def test_importing_and_loading_nothing_stays_light(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{LOADED}"],
        capture_output=True,
        text=True,
        env=place.env,
        check=True,
    )
    assert done.stdout == "[]\n[]\n"


def test_a_config_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Config().model = "x"  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(Config(tools=("a",))), type=Config) == Config(tools=("a",))
