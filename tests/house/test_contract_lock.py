"""A stable contract does not change unseen: its signatures are compared with a file."""

from __future__ import annotations

import subprocess
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

import pytest

from gnomon import registry
from gnomon.contracts.provider import Provider
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.stream import PullStream, Stream, StreamFold
from gnomon.testing import lock
from gnomon.types.events import ProviderEvent
from gnomon.types.requests import Request

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "tests" / "house" / "contracts.lock"
CHANGELOG = ROOT / "CHANGELOG.md"

PROVIDER = "gnomon.contracts.provider.Provider"
TOOL = "gnomon.contracts.tool.Tool"


# --- the real thing ---------------------------------------------------------


def test_the_code_is_what_the_lock_says() -> None:
    told = lock.advice(lock.changes(LOCK.read_text(), lock.render()))
    assert not told, told


def test_the_lock_file_is_what_the_command_prints() -> None:
    command = [sys.executable, "-m", "gnomon.testing.lock"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == LOCK.read_text()


def test_what_calls_itself_stable_is_locked_and_the_other_way_round() -> None:
    stable = {lock.name_of(contract) for contract in lock.contract_classes() if lock.is_stable(contract)}
    ours = {lock.name_of(kind) for kind in (PullStream, Stream, StreamFold)}
    assert set(lock.read(LOCK.read_text())) == stable | ours
    assert PROVIDER in stable


def test_every_contract_that_the_registry_can_make_in_two_ways_is_locked() -> None:
    known = lock.implementations()
    assert lock.unlocked(known, LOCK.read_text()) == ()
    providers = {registry.load("providers", name) for name in registry.names("providers")}
    assert set(known[PROVIDER]) == providers
    assert len(providers) >= 2


def test_every_kind_of_the_registry_has_a_contract() -> None:
    contracts = {lock.name_of(contract) for contract in lock.contract_classes()}
    assert set(lock.implementations()) <= contracts
    assert len(lock.implementations()) == len(registry.KINDS)


@pytest.mark.parametrize("revision", ["HEAD", "HEAD^"])
def test_a_lock_that_changed_since_an_earlier_commit_has_its_migration(revision: str) -> None:
    before = committed(revision)
    if before is None:
        pytest.skip(f"no lock to compare with at {revision}")
    missing = lock.migration_missing(before, LOCK.read_text(), CHANGELOG.read_text())
    assert not missing, f"say under '### Migration' in CHANGELOG.md what changes for users of {missing}"


def committed(revision: str) -> str | None:
    command = ["git", "-C", str(ROOT), "show", f"{revision}:tests/house/contracts.lock"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return shown.stdout if shown.returncode == 0 else None


# --- planted breaches: each must be seen ------------------------------------


def planted(contract: type, *, without: str = "", **added: object) -> type:
    """A copy of a contract, under its name, with members taken out, put in or replaced."""
    kept = {name: value for name, value in vars(contract).items() if not name.startswith("_")}
    kept |= {name: getattr(contract, name) for name in ("__module__", "__qualname__", "__doc__")}
    kept["__annotations__"] = dict(contract.__annotations__)
    kept |= added
    kept.pop(without, None)
    base = Protocol if Protocol in contract.__mro__ else ABC
    return types.new_class(contract.__name__, (base,), {}, lambda body: body.update(kept))


def seen(contract: type, copy: type) -> tuple[str, ...]:
    """The lines by which a copy differs from the contract."""
    found = lock.changes(lock.render([contract]), lock.render([copy]))
    return found.get(lock.name_of(contract), ())


@pytest.mark.parametrize("contract", [Provider, Tool])
def test_a_copy_without_changes_is_no_breach(contract: type) -> None:
    assert seen(contract, planted(contract)) == ()


def test_a_changed_signature_is_seen() -> None:
    async def complete(self: Provider, request: Request, retries: int = 3) -> object: ...

    assert seen(Provider, planted(Provider, complete=complete)) == (
        "- async def complete(self, request: Request) -> Response",
        "+ async def complete(self: Provider, request: Request, retries: int = 3) -> object",
    )


def test_a_changed_default_is_seen() -> None:
    def execute(self, arguments: str = "{}") -> None: ...

    def other(self, arguments: str = "") -> None: ...

    changed = seen(planted(Tool, execute=execute), planted(Tool, execute=other))
    assert changed == (
        "- def execute(self, arguments: str = '{}') -> None",
        "+ def execute(self, arguments: str = '') -> None",
    )


def test_a_parameter_that_became_keyword_only_is_seen() -> None:
    async def execute(self, arguments: str, *, context: ToolContext) -> object: ...

    assert len(seen(Tool, planted(Tool, execute=execute))) == 2


def test_a_coroutine_that_became_a_plain_function_is_seen() -> None:
    def close(self) -> None: ...

    assert seen(Provider, planted(Provider, close=close)) == (
        "- async def close(self) -> None",
        "+ def close(self) -> None",
    )


def test_a_property_that_became_a_method_is_seen() -> None:
    def name(self) -> str: ...

    assert seen(Tool, planted(Tool, name=name)) == ("- property name: str", "+ def name(self) -> str")


def test_a_removed_method_is_seen() -> None:
    assert seen(Provider, planted(Provider, without="close")) == ("- async def close(self) -> None",)
    assert seen(Tool, planted(Tool, without="read_only")) == ("- property read_only: bool",)


def test_a_removed_attribute_is_seen() -> None:
    copy = planted(Provider)
    del copy.__annotations__["model"]
    assert seen(Provider, copy) == ("- attribute model: str",)


def test_an_added_abstract_method_is_seen() -> None:
    @abstractmethod
    def embed(self, text: str) -> AsyncGenerator[ProviderEvent, None]: ...

    assert seen(Provider, planted(Provider, embed=embed)) == (
        "+ abstract def embed(self, text: str) -> AsyncGenerator[ProviderEvent, None]",
    )


def test_a_method_that_became_abstract_is_seen() -> None:
    @abstractmethod
    async def close(self) -> None: ...

    assert "+ abstract async def close(self) -> None" in seen(Provider, planted(Provider, close=close))


def test_an_added_protocol_method_is_seen() -> None:
    async def cancel(self) -> None: ...

    assert seen(Tool, planted(Tool, cancel=cancel)) == ("+ async def cancel(self) -> None",)


def test_a_change_of_an_inherited_method_is_seen_in_the_heir() -> None:
    class Heir(planted(Tool)):  # type: ignore[misc]
        pass

    class Other(planted(Tool, without="execute")):  # type: ignore[misc]
        pass

    assert len(lock.surface(Heir)) == len(lock.surface(Other)) + 1


# --- what a surface is made of ----------------------------------------------


class Example:
    """One of each kind of member."""

    limit: int = 3
    _private: str = ""

    def __init__(self, source: str, *, check: object = print) -> None:
        self.source = source
        self.seen: list[str] = []
        self._check = check

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str) -> None: ...

    @classmethod
    def of(cls, *sources: str, **options: int) -> Example: ...

    @staticmethod
    def known(kind: type = dict, /) -> bool: ...

    async def events(self) -> AsyncGenerator[str, None]:
        yield ""

    def _hidden(self) -> None: ...


def test_a_surface_has_a_line_for_each_public_member() -> None:
    assert lock.surface(Example) == (
        "def __init__(self, source: str, *, check: object = <built-in function print>) -> None",
        "def events(self) -> AsyncGenerator[str, None]",
        "staticmethod def known(kind: type = builtins.dict, /) -> bool",
        "attribute limit: int = 3",
        "settable property name: str",
        "classmethod def of(cls, *sources: str, **options: int) -> Example",
        "attribute seen: list[str]",
        "attribute source",
    )


def test_the_surface_of_a_protocol_has_nothing_that_python_put_there() -> None:
    assert lock.surface(Tool) == (
        "property description: str",
        "async def execute(self, arguments: str, context: ToolContext) -> ToolResult",
        "property name: str",
        "property parameters: dict[str, object]",
        "property read_only: bool",
    )


def test_a_lock_reads_back_as_what_was_rendered() -> None:
    text = lock.render([Provider, Tool])
    assert lock.read(text) == {PROVIDER: lock.surface(Provider), TOOL: lock.surface(Tool)}


# --- a second implementation wants a lock -----------------------------------


def test_a_contract_with_two_implementations_that_is_not_locked_is_reported() -> None:
    one, other = type("One", (), {}), type("Other", (), {})
    open_yet = "gnomon.contracts.knowledge.Knowledge"
    found = {PROVIDER: (one, other), open_yet: (one, other), "gnomon.contracts.hook.Hook": (one,)}
    assert lock.unlocked(found) == (open_yet,)
    assert lock.unlocked(found, lock.render([Tool])) == (PROVIDER, open_yet)


def test_an_experimental_contract_is_not_locked_however_many_implement_it() -> None:
    one, other = type("One", (), {}), type("Other", (), {})
    compactor = "gnomon.contracts.compactor.Compactor"
    assert lock.unlocked({compactor: (one, other)}) == ()
    assert compactor not in lock.read(LOCK.read_text())


def test_two_names_for_one_class_are_one_implementation() -> None:
    one = type("One", (), {})
    assert lock.unlocked({TOOL: (one, one)}, lock.render([Provider])) == ()


# --- a change wants a migration ---------------------------------------------

BEFORE = lock.render([Provider])
AFTER = lock.render([planted(Provider, without="close")])

TOLD = f"""\
# Changelog

## Unreleased

### Added

- something

### Migration

- `{PROVIDER}` has no `close` any more: use something else.

### Fixed

- another

## 0.1.0

- first
"""


def test_a_change_that_is_told_under_migration_is_fine() -> None:
    assert lock.migration_missing(BEFORE, AFTER, TOLD) == ()


@pytest.mark.parametrize(
    "changelog",
    [
        "",
        "# Changelog\n",
        TOLD.replace("### Migration", "### Changed"),
        TOLD.replace(PROVIDER, "gnomon.stream.Stream"),
        TOLD.replace("## Unreleased", "## Unreleased\n\n- nothing yet\n\n## 0.2.0"),
        TOLD.replace(f"- `{PROVIDER}`", "- it").replace("- another", f"- {PROVIDER}"),
    ],
    ids=["empty", "bare", "other heading", "other class", "older section", "next heading"],
)
def test_a_change_that_is_not_told_under_migration_is_reported(changelog: str) -> None:
    assert lock.migration_missing(BEFORE, AFTER, changelog) == (PROVIDER,)


def test_a_class_that_leaves_the_lock_wants_a_migration() -> None:
    assert lock.migration_missing(BEFORE, lock.render([]), "") == (PROVIDER,)


def test_a_newly_locked_class_wants_none() -> None:
    assert lock.migration_missing(BEFORE, lock.render([Provider, Tool]), "") == ()
    assert TOOL in lock.changes(BEFORE, lock.render([Provider, Tool]))


def test_no_change_wants_nothing() -> None:
    assert lock.migration_missing(BEFORE, BEFORE, "") == ()
    assert lock.advice(lock.changes(BEFORE, BEFORE)) == ""


def test_the_message_says_what_changed_and_what_to_do() -> None:
    told = lock.advice(lock.changes(BEFORE, AFTER))
    for part in (PROVIDER, "- async def close(self) -> None", "### Migration", "CHANGELOG.md", lock.COMMAND):
        assert part in told
