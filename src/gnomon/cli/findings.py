"""What the doctor found, as data and as lines to read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterable
from typing import TypeAlias, cast

import msgspec

from gnomon import config, registry
from gnomon._trust import parse_toml, read_file
from gnomon.cli import probes
from gnomon.cli.choice import chosen, settings_for
from gnomon.cli.keeping import place
from gnomon.cli.problems import clean
from gnomon.cli.servers import Server, servers
from gnomon.errors import GnomonError
from gnomon.facts.catalogue import Catalogue

__all__ = ["Chosen", "File", "Findings", "gather", "keys_in", "sections"]


class Chosen(msgspec.Struct, frozen=True):
    """The model that would answer, why this one, and why it could not."""

    name: str | None
    because: str
    problem: str | None = None


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A config file that was looked for, and the names of what it sets."""

    layer: str
    path: str
    found: bool
    trusted: bool
    sets: tuple[str, ...] = ()


class Config(msgspec.Struct, frozen=True):
    files: tuple[File, ...]
    problem: str | None = None


class NamedStore(msgspec.Struct, frozen=True):
    """The store that runs are kept in, without a password, and who named it."""

    where: str
    because: str


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    versions: probes.Versions
    model: Chosen
    config: Config
    keys: list[probes.Key]
    servers: list[Server]
    local: probes.Local
    levels: list[probes.LevelFound]
    sandboxes: list[probes.Program]
    stores: list[probes.Driver]
    store: NamedStore | None = None


def gather(*, model: str | None = None, use_project: bool = True) -> Findings:
    """Look at everything. What is broken is shown in its place, not raised."""
    chosen, problem = _choice(model, use_project=use_project)
    found, programs, levels = asyncio.run(_probe())
    return Findings(
        versions=probes.versions(),
        model=chosen,
        config=Config(tuple(_files(use_project=use_project)), problem),
        keys=probes.keys(os.environ),
        servers=found,
        local=probes.local(),
        levels=levels,
        sandboxes=programs,
        stores=probes.drivers(),
        store=_store(use_project=use_project),
    )


async def _probe() -> tuple[list[Server], list[probes.Program], list[probes.LevelFound]]:
    return await asyncio.gather(servers(os.environ), probes.programs(), probes.levels())


def _choice(model: str | None, *, use_project: bool) -> tuple[Chosen, str | None]:
    """The model, and what is wrong with the config if something is."""
    try:
        loaded = config.load(flags={"model": model}, use_project=use_project)
    except GnomonError as error:
        return Chosen(model, "the config cannot be read"), clean(str(error))
    name, problem = loaded.config.model, _unusable_models(loaded.config)
    if name is None:
        choice = chosen(loaded.config, os.environ)
        return Chosen(choice.model, choice.because, _obstacle(choice.model, loaded.config)), problem
    return Chosen(name, f"chosen by {loaded.sources['model']}", _obstacle(name, loaded.config)), problem


def _store(*, use_project: bool) -> NamedStore | None:
    """It is named here, and not asked: it may be far away."""
    from gnomon.storage._url import shown

    try:
        loaded = config.load(use_project=use_project)
        found = place(loaded.config, os.environ)
        if found is None:
            return None
        because = "where runs are kept" if found.file else f"named by {loaded.sources['store']}"
        return NamedStore(shown(found.url), because)
    except GnomonError as error:
        return NamedStore("not known", clean(str(error)))


def _unusable_models(settings: config.Config) -> str | None:
    """What is wrong with `[models]`, which is read when an agent is made."""
    try:
        Catalogue(settings.models)
    except GnomonError as error:
        return clean(str(error))
    return None


def _obstacle(name: str, settings: config.Config) -> str | None:
    """Why this model could not be used; making a provider asks nothing of it yet."""
    try:
        own = settings_for(registry.parse_model(name).provider, settings)
        if not registry.provider(name, own).model:
            return f"it has to be told its model: {name}:MODEL (`gnomon models {name}` lists them)"
    except GnomonError as error:
        return clean(str(error))
    except Exception as error:  # noqa: BLE001 - a provider from another package may raise anything
        return clean(f"{type(error).__name__}: {error}")
    return None


def _files(*, use_project: bool) -> Generator[File, None, None]:
    project = config.project_file() if use_project else None
    if project is not None:
        trusted = config.trusted(project.parent.parent)
        yield File(
            layer="project", path=_readable(project), found=True, trusted=trusted, sets=keys_in(str(project))
        )
    user = config.user_file()
    if user is not None:
        found = os.path.isfile(user)
        yield File(layer="user", path=_readable(user), found=found, trusted=True, sets=keys_in(str(user)))


def _readable(path: os.PathLike[str]) -> str:
    """The path as text; a name on disk need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def keys_in(path: str) -> tuple[str, ...]:
    """The dotted names of what a file sets; none when it cannot be read, which the config's problem says."""
    try:
        return tuple(_dotted(parse_toml(path, read_file(path) or b"")))
    except GnomonError:
        return ()


_DEEPEST = 8  # deeper tables are named, and not taken apart


def _dotted(table: dict[str, object], above: str = "") -> Generator[str, None, None]:
    for name, value in table.items():
        if isinstance(value, dict) and value and above.count(".") < _DEEPEST:
            yield from _dotted(cast("dict[str, object]", value), f"{above}{name}.")
        else:
            yield f"{above}{name}"


# --- as lines to read ----------------------------------------------------------

_Line: TypeAlias = tuple[str, str]


def sections(found: Findings) -> Generator[tuple[str, Iterable[_Line]], None, None]:
    yield "Versions", _version_lines(found.versions)
    yield "Model", _model_lines(found.model)
    yield "Config", _config_lines(found.config)
    yield "API keys", _key_lines(found.keys)
    yield "Local model", _local_lines(found.local)
    yield "Local model servers", [_server_line(server) for server in found.servers]
    yield "Sandboxes", [*map(_level_line, found.levels), *map(_program_line, found.sandboxes)]
    yield "Stores", [*_store_lines(found.store), *(_driver_line(driver) for driver in found.stores)]


def _version_lines(versions: probes.Versions) -> Generator[_Line, None, None]:
    yield "gnomon", versions.gnomon
    yield "Python", versions.python
    yield "platform", versions.platform
    for name, version in versions.dependencies.items():
        yield name, version or "not installed"


def _model_lines(chosen: Chosen) -> Generator[_Line, None, None]:
    yield chosen.name or "not known", chosen.because
    if chosen.problem:
        yield "problem", chosen.problem


def _config_lines(found: Config) -> Generator[_Line, None, None]:
    if not any(file.layer == "project" for file in found.files):
        yield "project", "no .gnomon/config.toml here or above"
    for file in found.files:
        yield file.layer, f"{file.path}: {_file_state(file)}"
    if found.problem:
        yield "problem", found.problem


def _file_state(file: File) -> str:
    if not file.found:
        return "not there"
    trust = "" if file.trusted else " (not trusted: gnomon trust)"
    return f"found{trust}, sets {', '.join(file.sets) or 'nothing that could be read'}"


def _key_lines(keys: list[probes.Key]) -> Generator[_Line, None, None]:
    for key in keys:
        if key.set:
            yield key.variable, "set" if key.provider_available else _not_yet(f"provider {key.provider!r}")
    missing = [key.variable for key in keys if not key.set]
    if missing:
        yield "not set", ", ".join(missing)


def _local_lines(local: probes.Local) -> Generator[_Line, None, None]:
    from gnomon.providers._local_weights import BUNDLED, INSTALL

    yield "xllamacpp", local.engine or "not installed (pip install 'gnomon[local]')"
    yield BUNDLED, "weights found" if local.weights else f"no weights ({INSTALL})"


def _server_line(server: Server) -> _Line:
    if server.port is None:
        return server.usual_name, "not on this machine by its settings, so not asked"
    if not server.answers:
        return server.usual_name, f"nothing answers on port {server.port}"
    kind = f", with {_named(server.models)}" if server.models else ", but not with a list of models"
    return server.usual_name, f"a server answers on port {server.port}{kind}"


def _named(models: tuple[str, ...]) -> str:
    first, *others = models
    return f"{first} and {len(others)} more" if others else first


def _level_line(found: probes.LevelFound) -> _Line:
    if not found.holds:
        return found.level, f"does not hold: {found.by}"
    missing = f"; not held: {', '.join(found.missing)} (see gnomon sandbox show)" if found.missing else ""
    return found.level, f"holds: {found.by}{missing}"


def _program_line(program: probes.Program) -> _Line:
    if program.version is None:
        return program.name, "not found"
    return program.name, program.version if program.sandbox_available else f"{program.version}; {_NOT_USED}"


def _store_lines(store: NamedStore | None) -> Generator[_Line, None, None]:
    if store is not None:
        yield "store", f"{store.where}, {store.because}"
    else:
        yield "store", "none, so that runs are not kept (set HOME, or GNOMON_STORE=sqlite:///gnomon.db)"


def _driver_line(driver: probes.Driver) -> _Line:
    if driver.version is None:
        return driver.name, "not installed"
    return driver.name, driver.version if driver.storage_available else f"{driver.version}; {_NOT_USED}"


_NOT_USED = "this version of gnomon does not use it yet"


def _not_yet(what: str) -> str:
    return f"set, but this version of gnomon has no {what} yet"
