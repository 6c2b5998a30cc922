"""Settings: flags over environment over the project's file over the user's file over defaults.

    flags                   a mapping shaped like the file; `None` is not set
    environment             GNOMON_MODEL, GNOMON_SYSTEM, GNOMON_OUTPUT, GNOMON_TOOLS (a,b,c),
                            GNOMON_BUDGET_ROUNDS, GNOMON_BUDGET_TOKENS, GNOMON_BUDGET_SECONDS
    project                 .gnomon/config.toml, in this folder or the nearest one above
    user                    $GNOMON_CONFIG, else ~/.config/gnomon/config.toml

Tables merge key by key; anything else is replaced whole. In the files `${VAR}`
stands for a variable of the environment and `$${` for a plain `${`. A project
file may set only what cannot send anything anywhere until its folder is
trusted. Messages name the key and what kind of value was found: a value under
`providers` may be a secret, so it is never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeGuard, get_args

import msgspec

from gnomon._trust import (
    PROJECT_FILE,
    home_folder,
    is_recorded,
    is_utf8,
    named_folder,
    one_line,
    read_file,
    real_path,
    trust,
    trusted,
    untrust,
)
from gnomon.errors import ConfigError, InvalidInput, NotTrusted, scrub

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
    budget: BudgetSettings = BudgetSettings()
    providers: dict[str, dict[str, object]] = {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Config({shown})"

    def __rich_repr__(self) -> Generator[tuple[str, object]]:
        """Settings of providers by name only: a value may be a key."""
        for name in ("model", "system", "output", "tools", "budget"):
            yield name, getattr(self, name)
        yield "providers", {name: sorted(settings) for name, settings in self.providers.items()}


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was looked for."""

    path: str
    layer: Literal["project", "user"]
    found: bool
    trusted: bool


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings; where each one that is set came from (`budget.rounds` → a file, variable or flag); the files."""

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
        return named if os.path.isabs(named) else os.path.join(_folder(None) or "", named)
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
        match self.kind:
            case "file":
                return one_line(self.path)
            case "environment":
                return "GNOMON_" + "_".join(key).upper()
            case "flags":
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
    return seen, None if content is None else _Layer("file", _parsed(path, content), path, env)


def _project_layer(
    env: Mapping[str, str], cwd: Path | str | None
) -> tuple[list[ConfigFile], _Layer | None]:
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
        return seen, _Layer("file", _parsed(path, content), path, env, known)
    return seen, None


def _project_folder(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


def _environment_layer(env: Mapping[str, str]) -> _Layer:
    """What the variables set; an empty one sets nothing."""
    table: _Table = {}
    for key, field in _FIELDS.items():
        text = env.get("GNOMON_" + "_".join(key).upper())
        if text:
            at = table
            for part in key[:-1]:
                at = at.setdefault(part, {})  # pyright: ignore
            at[key[-1]] = field.parse(text)
    return _Layer("environment", table)
