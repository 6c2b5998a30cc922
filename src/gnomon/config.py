"""Settings: flags over environment over the project's file over the user's file over defaults.

    flags                   a mapping shaped like the file; `None` is not set
    environment             GNOMON_MODEL, GNOMON_SYSTEM, GNOMON_OUTPUT, GNOMON_TOOLS (a,b,c), GNOMON_STORE,
                            GNOMON_BUDGET_ROUNDS, GNOMON_BUDGET_TOKENS, GNOMON_BUDGET_SECONDS
    project                 .gnomon/config.toml, in this folder or the nearest one above
    user                    $GNOMON_CONFIG, else ~/.config/gnomon/config.toml

Tables merge key by key; anything else is replaced whole. In the files `${VAR}`
stands for a variable of the environment and `$${` for a plain `${`. A project
file may set only what cannot send anything anywhere until its folder is
trusted. Messages name the key and what kind of value was found: a value under
`providers` and the URL of a store may hold a secret, so they are never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias, TypeGuard

import msgspec

from gnomon._trust import (
    PROJECT_FILE,
    home_folder,
    is_recorded,
    is_utf8,
    kind_of,
    named_folder,
    one_line,
    parse_toml,
    read_file,
    real_path,
    trust,
    trusted,
    untrust,
)
from gnomon.errors import ConfigError, InvalidInput, NotTrusted

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "BudgetSettings",
    "Config",
    "ConfigFile",
    "Loaded",
    "Output",
    "load",
    "project_file",
    "trust",
    "trusted",
    "untrust",
    "user_file",
]

Output: TypeAlias = Literal["text", "json", "stream-json"]


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How far a turn may go; `None` is not set."""

    rounds: int | None = None
    tokens: int | None = None
    seconds: float | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What was set, by whatever layer; `None` is not set."""

    model: str | None = None
    system: str | None = None
    output: Output | None = None
    tools: tuple[str, ...] | None = None
    store: str | None = None
    """Where sessions are kept: `sqlite:///gnomon.db`, `postgresql://…`."""
    budget: BudgetSettings = BudgetSettings()
    providers: dict[str, dict[str, object]] = {}
    models: dict[str, dict[str, object]] = {}
    """What is known better here than in the snapshot of facts: `[models."openai:gpt-5"]`."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Config({shown})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Settings of providers by name only, and of a store what kind it is: a value may be a key."""
        providers = {name: sorted(settings) for name, settings in self.providers.items()}
        shown = (*sorted(_HARMLESS), "models")
        store = self.store and self.store.partition("://")[0]
        return [(name, getattr(self, name)) for name in shown] + [("store", store), ("providers", providers)]


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was looked for."""

    path: str
    layer: Literal["project", "user"]
    found: bool
    trusted: bool


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, and where they came from.

    `sources` names the file, variable or flag that set each key (`budget.rounds`);
    `files` are those looked for, the strongest first.
    """

    config: Config
    sources: dict[str, str]
    files: tuple[ConfigFile, ...]


def load(
    *,
    flags: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    use_project: bool = True,
) -> Loaded:
    """Reads every layer, checks each by itself, and lays the stronger over the weaker."""
    env = os.environ if env is None else env
    user, user_layer = _user_layer(env)
    project, project_layer = _project_layer(env, cwd) if use_project else ([], None)
    layers = (user_layer, project_layer, _environment_layer(env), _Layer("flags", flags or {}))
    merged: _Table = {}
    sources: dict[str, str] = {}
    for layer in layers:
        if layer is not None:
            _merge(_checked(layer), layer, merged, sources)
    return Loaded(config=msgspec.convert(merged, Config), sources=sources, files=(*project, *user))


# --- where the files are ------------------------------------------------------


def user_file(env: Mapping[str, str] | None = None) -> Path | None:
    """The user's file, there or not; None without a home folder."""
    from pathlib import Path

    path = _user_path(os.environ if env is None else env)
    return Path(path) if path else None


def project_file(cwd: Path | str | None = None, env: Mapping[str, str] | None = None) -> Path | None:
    """The nearest `.gnomon/config.toml`, going up from the folder; None when there is none."""
    from pathlib import Path

    found = next(filter(_is_there, _project_paths(cwd, os.environ if env is None else env)), None)
    return Path(found) if found else None


def _user_path(env: Mapping[str, str]) -> str | None:
    if named := env.get("GNOMON_CONFIG"):
        return named
    base = named_folder(env, "XDG_CONFIG_HOME", ".config")
    return os.path.join(base, "gnomon", "config.toml") if base else None


def _project_paths(cwd: Path | str | None, env: Mapping[str, str]) -> Generator[str]:
    """Where a project file may be: up to the repository's root, short of the home folder."""
    folder, home = _folder(cwd), home_folder(env)
    stop = real_path(home) if home else None
    while folder is not None and folder != stop:
        yield os.path.join(folder, PROJECT_FILE)
        above = os.path.dirname(folder)
        if above == folder or os.path.lexists(os.path.join(folder, ".git")):
            return
        folder = above


def _folder(cwd: Path | str | None) -> str | None:
    """The real folder to start from; None when one stands in a folder that was deleted."""
    if cwd is not None:
        return real_path(cwd)
    try:
        return os.getcwd()
    except OSError:
        return None


def _is_there(path: str) -> bool:
    """Also for what cannot be looked at: reading it says why, and passing it over would hide it."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


# --- the layers ---------------------------------------------------------------

_Table: TypeAlias = dict[str, object]
_Key: TypeAlias = tuple[str, ...]


class _Layer(NamedTuple):
    """What one place sets, before it is checked."""

    kind: Literal["file", "environment", "flags"]
    table: Mapping[str, object]
    path: str = ""
    env: Mapping[str, str] = {}
    trusted: bool = True

    def source(self, key: _Key) -> str:
        """What set the key: a file, a variable or a flag."""
        if self.kind == "file":
            return one_line(self.path)
        if self.kind == "environment":
            return _variable(key)
        if key == ("tools",):
            return "--tool"
        return "--" + "-".join(one_line(part, most=60) for part in key)

    def name(self, key: _Key) -> str:
        """How a message begins."""
        return f"{self.source(key)}: `{_dotted(key)}`" if self.kind == "file" else self.source(key)


def _user_layer(env: Mapping[str, str]) -> tuple[list[ConfigFile], _Layer | None]:
    path = _user_path(env)
    if path is None:
        return [], None
    content = read_file(path)
    if content is None and env.get("GNOMON_CONFIG"):
        raise InvalidInput(f"GNOMON_CONFIG names {one_line(path)}, which does not exist")
    seen = [ConfigFile(path=path, layer="user", found=content is not None, trusted=True)]
    return seen, None if content is None else _Layer("file", parse_toml(path, content), path, env)


def _project_layer(env: Mapping[str, str], cwd: Path | str | None) -> tuple[list[ConfigFile], _Layer | None]:
    seen: list[ConfigFile] = []
    for path in _project_paths(cwd, env):
        if not _is_there(path):
            seen.append(ConfigFile(path=path, layer="project", found=False, trusted=False))
            continue
        content = read_file(path)
        if content is None:
            raise InvalidInput(f"{one_line(path)} is a link to a file that does not exist")
        # The bytes that are judged are the bytes that are parsed: the file is not read again.
        known = is_recorded(_project_folder(path), content, env)
        seen.append(ConfigFile(path=path, layer="project", found=True, trusted=known))
        return seen, _Layer("file", parse_toml(path, content), path, env, known)
    return seen, None


def _project_folder(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


def _environment_layer(env: Mapping[str, str]) -> _Layer:
    """What the variables set; an empty one sets nothing."""
    table: _Table = {}
    budget: _Table = {}
    for key in _FIELDS:
        if text := env.get(_variable(key)):
            value = [part.strip() for part in text.split(",")] if key == ("tools",) else text
            (budget if key[0] == "budget" else table)[key[-1]] = value
    return _Layer("environment", {**table, "budget": budget})


def _variable(key: _Key) -> str:
    return "GNOMON_" + "_".join(key).upper()


def _merge(table: _Table, layer: _Layer, into: _Table, sources: dict[str, str], above: _Key = ()) -> None:
    """Lays a checked layer over the weaker ones, and notes what came from it."""
    for name, value in table.items():
        key = (*above, name)
        under = into.get(name)
        if not (_is_table(value) and _is_table(under)):
            _forget(sources, _dotted(key))
            under = into[name] = {} if _is_table(value) else value
        if _is_table(value) and _is_table(under):
            _merge(value, layer, under, sources, key)
        else:
            sources[_dotted(key)] = layer.source(key)


def _forget(sources: dict[str, str], dotted: str) -> None:
    for known in [known for known in sources if known == dotted or known.startswith(f"{dotted}.")]:
        del sources[known]


# --- what may be set ------------------------------------------------------------


class _Field(NamedTuple):
    expected: str
    type: object


# No half characters, which cannot be sent, and in names nothing that moves a terminal's cursor.
_Text = Annotated[str, msgspec.Meta(pattern=r"\A[^\ud800-\udfff]*\Z")]
_Name = Annotated[str, msgspec.Meta(pattern=r"\A(?! )[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+(?<! )\Z")]
_Count = Annotated[int, msgspec.Meta(gt=0, le=2**63 - 1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]  # infinity and nan are out as well

_FIELDS: dict[_Key, _Field] = {
    ("model",): _Field('a model such as "openai:gpt-5"', _Name),
    ("system",): _Field("text", _Text),
    ("output",): _Field('"text", "json" or "stream-json"', Output),
    ("tools",): _Field("a list of tool names", tuple[_Name, ...]),
    ("store",): _Field('the URL of a store such as "sqlite:///gnomon.db"', _Name),
    ("budget", "rounds"): _Field("a whole number above zero", _Count),
    ("budget", "tokens"): _Field("a whole number above zero", _Count),
    ("budget", "seconds"): _Field("a number above zero", _Seconds),
}
# What a project may set before it is trusted.
_HARMLESS = frozenset({"model", "system", "output", "tools", "budget"})
# The names after `local:` that stand for an installed package, whatever lies in the folder.
_NO_FILE = frozenset({"", "smollm2-135m"})
_DEEPEST = 32


def _is_table(value: object) -> TypeGuard[_Table]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


def _checked(layer: _Layer) -> _Table:
    """The layer's table, every value of the right kind and every `${VAR}` filled in."""
    table: _Table = {}
    for name, value in layer.table.items():
        if value is None:
            continue
        if not layer.trusted and name not in _HARMLESS:
            if _is_slip(name):
                raise _unknown((name,), layer)  # trust would not make it a key
            raise _not_trusted(layer, _first_under((name,), value), "may be set")
        if not layer.trusted and name == "model" and _names_weights(value):
            raise _not_trusted(layer, (name,), "may name a file of weights")
        match name:
            case "budget":
                table[name] = {
                    part: _value((name, part), item, layer) for part, item in _items((name,), value, layer)
                }
            case "providers" | "models":
                table[name] = {
                    part: _settings((name, part), item, layer) for part, item in _items((name,), value, layer)
                }
            case _:
                table[name] = _value((name,), value, layer)
    return table


def _names_weights(model: object) -> bool:
    """Whether it is `local` and anything but its own model: a file of this folder would meet a native parser.

    Any word can be the name of a file, so what is let through is named, not what is refused.
    """
    names = [model] if isinstance(model, str) else []
    while names:  # not by recursion: how deep it goes is up to whoever wrote the file
        provider, _, weights = names.pop().strip().replace("/", ":", 1).partition(":")
        if provider.strip() == "fallback":
            names += weights.split(",")
        elif provider.strip() == "local" and weights.strip().lower() not in _NO_FILE:
            return True
    return False


def _items(key: _Key, value: object, layer: _Layer) -> Iterable[tuple[str, object]]:
    if not _is_table(value):
        raise _wrong(key, "a table", value, layer)
    return [(name, item) for name, item in value.items() if item is not None]


def _settings(key: _Key, value: object, layer: _Layer) -> _Table:
    """A provider's settings: free, because only the provider knows them. A model's are checked where used."""
    return {name: _filled((*key, name), item, layer) for name, item in _items(key, value, layer)}


def _value(key: _Key, raw: object, layer: _Layer) -> object:
    field = _FIELDS.get(key)
    if field is None:
        raise _unknown(key, layer)
    value = _filled(key, raw, layer)
    try:
        return msgspec.convert(value, field.type, strict=layer.kind != "environment")
    except msgspec.ValidationError:
        raise _wrong(key, field.expected, raw, layer) from None


_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?")


def _filled(key: _Key, value: object, layer: _Layer) -> object:
    """The value, with each `${VAR}` in its texts replaced."""
    if len(key) > _DEEPEST:
        raise InvalidInput(f"{layer.source(key)}: `{_dotted(key[:3])}` is nested too deep")
    if isinstance(value, str) and layer.kind == "file":  # the others have been through a shell
        return _REFERENCE.sub(lambda found: _replacement(key, found, layer), value)
    if _is_list(value):
        return [_filled((*key, str(number)), item, layer) for number, item in enumerate(value)]
    if _is_table(value):
        return {name: _filled((*key, name), item, layer) for name, item in value.items()}
    return value


def _replacement(key: _Key, found: re.Match[str], layer: _Layer) -> str:
    if found.group() == "$${":
        return "${"
    if not layer.trusted:
        raise _not_trusted(layer, key, "may use `${...}`")
    variable = found.group(1)
    if variable is None:
        hint = "write `$${` for a plain `${`"
        raise InvalidInput(f"{layer.name(key)} has `${{` without a variable's name and `}}`", hint=hint)
    value = layer.env.get(variable)
    if value is None or not is_utf8(value):
        what = "is not set" if value is None else "is not UTF-8 text"
        raise InvalidInput(f"{layer.name(key)} uses ${{{one_line(variable, most=60)}}}, which {what}")
    return value


# --- what went wrong --------------------------------------------------------------


def _not_trusted(layer: _Layer, key: _Key, what: str) -> NotTrusted:
    folder = one_line(_project_folder(layer.path))
    hint = f"run `gnomon trust` in {folder} if you trust it, or pass --no-project"
    return NotTrusted(f"{layer.name(key)} {what} only in a trusted folder", hint=hint)


def _first_under(key: _Key, value: object) -> _Key:
    """The first setting in a table: `providers.demo.key` tells more than `providers`."""
    while _is_table(value) and value and len(key) < 3:
        name, value = next(iter(value.items()))
        key = (*key, name)
    return key


def _is_slip(name: str) -> bool:
    """Whether one of the harmless keys was meant."""
    import difflib

    return name not in ("providers", "models", "store") and bool(
        difflib.get_close_matches(name.lower(), _HARMLESS, cutoff=0.65)
    )


def _unknown(key: _Key, layer: _Layer) -> ConfigError:
    import difflib

    known = {field[-1]: _dotted(field) for field in (*_FIELDS, ("budget",), ("providers",), ("models",))}
    near = difflib.get_close_matches(key[-1].lower(), known, n=1, cutoff=0.65)
    hint = f"did you mean `{known[near[0]]}`?" if near else f"known are {', '.join(sorted(known.values()))}"
    return ConfigError(f"{layer.name(key)} is not a known key", hint=hint)


def _wrong(key: _Key, expected: str, raw: object, layer: _Layer) -> InvalidInput:
    shown = key[0] in ("model", "output", "tools", "budget")
    found = kind_of(raw, shown=shown)
    if _is_list(raw) and shown:
        found += " of " + (", ".join(kind_of(item, shown=True) for item in raw[:5]) or "nothing")
    return InvalidInput(f"{layer.name(key)} should be {expected}, found {found}")


def _dotted(key: _Key) -> str:
    """The key as TOML writes it."""
    return ".".join(_bare(part) for part in key)


def _bare(part: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", part)
    return one_line(part if plain else f'"{part}"', most=60)
