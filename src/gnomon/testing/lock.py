"""The signatures of the stable contracts, as plain text that a test compares.

    python -m gnomon.testing.lock > tests/house/contracts.lock

A contract says in its docstring that it is stable; from then on a change of its
signatures shows in this file, and needs an entry under Migration in the changelog.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import sys
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from textwrap import dedent
from types import FunctionType
from typing import TypeGuard, cast

import gnomon.contracts
from gnomon import registry
from gnomon.errors import MissingExtra
from gnomon.stream import PullStream, Stream, StreamFold

__all__ = [
    "advice",
    "changes",
    "contract_classes",
    "implementations",
    "is_stable",
    "locked_classes",
    "migration_missing",
    "name_of",
    "read",
    "render",
    "surface",
    "unlocked",
]

COMMAND = "python -m gnomon.testing.lock > tests/house/contracts.lock"

_HEAD = f"""\
# The public signatures of the stable contracts. Made by
#   {COMMAND}
# A changed line needs an entry under "### Migration" in CHANGELOG.md.
"""

_OURS: tuple[type, ...] = (PullStream, Stream, StreamFold)
"""Not implemented by others, and relied on by everybody."""

_CONTRACTS = {
    "providers": "gnomon.contracts.provider.Provider",
    "embedders": "gnomon.contracts.embedder.Embedder",
    "counters": "gnomon.contracts.counter.TokenCounter",
    "storage": "gnomon.contracts.storage.Storage",
    "vector_stores": "gnomon.contracts.vector_store.VectorStore",
    "knowledge": "gnomon.contracts.knowledge.Knowledge",
    "guardrails": "gnomon.contracts.guardrail.Guardrail",
    "hooks": "gnomon.contracts.hook.Hook",
    "sandboxes": "gnomon.contracts.sandbox.Sandbox",
    "tools": "gnomon.contracts.tool.Tool",
    "compactors": "gnomon.contracts.compactor.Compactor",
    "drivers": "gnomon.contracts.driver.Driver",
}
"""What each kind of the registry promises to be."""


# --- which classes ----------------------------------------------------------


def contract_classes() -> tuple[type, ...]:
    """Every promise in `gnomon.contracts`, the small optional ones too."""
    found: list[type] = []
    for module in pkgutil.iter_modules(gnomon.contracts.__path__, "gnomon.contracts."):
        members = vars(import_module(module.name))
        named = (members[name] for name in members["__all__"])
        found += [thing for thing in named if isinstance(thing, ABCMeta)]
    return tuple(found)


def is_stable(contract: type) -> bool:
    return "Stable since" in (contract.__doc__ or "")


def locked_classes() -> tuple[type, ...]:
    return (*filter(is_stable, contract_classes()), *_OURS)


def name_of(contract: type) -> str:
    return f"{contract.__module__}.{contract.__qualname__}"


def implementations() -> dict[str, tuple[type, ...]]:
    """The classes that the registry knows for each contract and that are installed here."""
    return {_CONTRACTS[kind]: tuple(_registered(kind)) for kind in registry.KINDS}


def unlocked(implementations: Mapping[str, Sequence[type]], lock: str | None = None) -> tuple[str, ...]:
    """The contracts that two classes implement and that are not in the lock, but for experimental ones."""
    settled = {*read(render() if lock is None else lock), *_experimental()}
    return tuple(
        contract
        for contract, kinds in implementations.items()
        if len(set(kinds)) > 1 and contract not in settled
    )


def _experimental() -> Iterator[str]:
    """Those that may still change, however many implement them."""
    return (
        name_of(contract) for contract in contract_classes() if "Experimental." in (contract.__doc__ or "")
    )


def _registered(kind: str) -> Iterator[type]:
    for name in registry.names(kind):
        try:
            thing = registry.load(kind, name)
        except MissingExtra:
            continue
        yield thing if isinstance(thing, type) else type(thing)


# --- what they look like ----------------------------------------------------


def render(classes: Iterable[type] | None = None) -> str:
    """The text of the lock: each class and, under it, a line a member."""
    chosen = locked_classes() if classes is None else classes
    sections = (
        "\n".join([name_of(contract), *(f"    {line}" for line in surface(contract))]) for contract in chosen
    )
    return _HEAD + "".join(f"\n{section}\n" for section in sections)


def surface(contract: type) -> tuple[str, ...]:
    """A line for each public member, inherited or not, ordered by name."""
    lines: dict[str, str] = {}
    for owner in reversed(contract.__mro__):
        if owner.__module__ not in ("builtins", "typing", "abc"):
            lines |= {name: f"attribute {name}{kind}" for name, kind in _attributes(owner)}
            lines |= {name: _member(name, value) for name, value in vars(owner).items() if _is_member(value)}
    return tuple(line for name, line in sorted(lines.items()) if _is_public(name))


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name.endswith("__")


def _is_member(value: object) -> bool:
    """Methods and properties; not what `typing` puts into a protocol."""
    function = getattr(value, "__func__", value)
    own = isinstance(function, FunctionType) and function.__module__ != "typing"
    return own or isinstance(value, property)


def _member(name: str, value: object) -> str:
    if isinstance(value, property):
        returned = inspect.signature(cast(FunctionType, value.fget)).return_annotation
        return f"{_property(value)} {name}: {_shown(returned)}"
    if isinstance(value, classmethod | staticmethod):
        bound = cast("classmethod[object, ..., object] | staticmethod[..., object]", value)
        return f"{type(bound).__name__} {_function(name, cast(FunctionType, bound.__func__))}"
    return _function(name, cast(FunctionType, value))


def _property(value: property) -> str:
    words = ("abstract " if _is_abstract(value) else "", "settable " if value.fset else "", "property")
    return "".join(words)


def _function(name: str, function: FunctionType) -> str:
    # A generator is called like any function that gives one, so only coroutines are `async`.
    words = ("abstract " if _is_abstract(function) else "", "async " if _is_coroutine(function) else "")
    return f"{''.join(words)}def {name}{_signature(function)}"


def _is_abstract(value: object) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))


def _is_coroutine(function: FunctionType) -> bool:
    return inspect.iscoroutinefunction(function)


class _Text:
    """Stands in for an annotation or a default, and shows as this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _signature(function: FunctionType) -> str:
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=_annotation(each.annotation), default=_default(each.default))
        for each in signature.parameters.values()
    ]
    returned = _annotation(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _annotation(given: object) -> object:
    return _Text(given) if isinstance(given, str) else given


def _default(given: object) -> object:
    """Functions by name: their own text has an address in it."""
    if given is inspect.Parameter.empty or not isinstance(given, FunctionType | type):
        return given
    return _Text(f"{given.__module__}.{given.__qualname__}")


def _shown(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _attributes(owner: type) -> Iterator[tuple[str, str]]:
    """What instances have besides methods: declared in the class, or set when one is made."""
    yield from _set_by_init(owner)
    for name, kind in inspect.get_annotations(owner).items():
        default = f" = {vars(owner)[name]!r}" if name in vars(owner) else ""
        yield name, f": {_shown(kind)}{default}"


def _set_by_init(owner: type) -> Iterator[tuple[str, str]]:
    init = vars(owner).get("__init__")
    if not isinstance(init, FunctionType) or init.__module__ == "typing":
        return
    for node in ast.walk(ast.parse(dedent(inspect.getsource(init)))):
        if isinstance(node, ast.AnnAssign) and _is_own(node.target):
            yield node.target.attr, f": {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.Assign):
            yield from ((target.attr, "") for target in node.targets if _is_own(target))


def _is_own(target: ast.expr) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    )


# --- what changed, and what that asks for -----------------------------------


def read(lock: str) -> dict[str, tuple[str, ...]]:
    """The text of a lock, taken apart: the lines of each class under its name."""
    sections: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in lock.splitlines():
        if line.startswith(" "):
            sections[name] += (line.strip(),)
        elif line and not line.startswith("#"):
            name = line
            sections[name] = ()
    return sections


def changes(before: str, after: str) -> dict[str, tuple[str, ...]]:
    """For each class that is not the same in both: its lines that went (-) and that came (+)."""
    old, new = read(before), read(after)
    names = [*old, *(name for name in new if name not in old)]
    return {name: _moved(old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _moved(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> tuple[str, ...]:
    if old is None or new is None:
        return ("+ the whole class",) if old is None else ("- the whole class",)
    went = (f"- {line}" for line in old if line not in new)
    came = (f"+ {line}" for line in new if line not in old)
    return (*went, *came)


def advice(changed: Mapping[str, Sequence[str]]) -> str:
    """What a developer reads who changed a stable contract; empty when nothing changed."""
    if not changed:
        return ""
    shown = "\n".join(f"{name}\n    " + "\n    ".join(lines) for name, lines in changed.items())
    return (
        f"stable contracts are not what tests/house/contracts.lock says:\n{shown}\n"
        "A stable contract does not gain, lose or change a method; a new power is a Supports… protocol.\n"
        "If it must change, say under '### Migration' in the newest section of CHANGELOG.md what users\n"
        f"of each class named above have to do, then run: {COMMAND}"
    )


def migration_missing(before: str, after: str, changelog: str) -> tuple[str, ...]:
    """The classes that changed or went, and are not named under Migration in the newest section.

    A class that is new in the lock breaks nobody, and needs no entry.
    """
    told = _migration(changelog)
    known = read(before)
    return tuple(name for name in changes(before, after) if name in known and name not in told)


def _migration(changelog: str) -> str:
    """What stands under Migration in the newest section, the first one in the file."""
    newest = f"\n{changelog}".partition("\n## ")[2].partition("\n## ")[0]
    return newest.partition("\n### Migration\n")[2].partition("\n### ")[0]


if __name__ == "__main__":
    sys.stdout.write(render())
