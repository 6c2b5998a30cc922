"""The public names: one table, what type checkers read, and what is really there agree."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import gnomon
from gnomon import errors

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "src" / "gnomon" / "__init__.py").read_text("utf-8")
ERRORS_PAGE = ROOT / "docs" / "errors.md"


# --- what the file says, read without running it ----------------------------


def read_by_type_checkers(source: str) -> dict[str, str]:
    """Name → home, from the `if TYPE_CHECKING:` block."""
    homes: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom), f"line {line.lineno}: only imports belong here"
                homes |= {alias.asname or "": line.module or "" for alias in line.names}
    return homes


def read_at_run_time(source: str) -> dict[str, str]:
    """Name → home, from the table of lazy names and the list of modules."""
    table = {name: home for home, names in _assigned(source, "_HOMES").items() for name in names}
    return table | dict.fromkeys(_assigned(source, "_MODULES"), "gnomon")


def _assigned(source: str, wanted: str) -> dict[str, tuple[str, ...]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [ast.unparse(target) for target in targets] == [wanted]:
                return ast.literal_eval(node.value)
    raise AssertionError(f"{wanted} is not assigned")


def test_type_checkers_and_the_lazy_table_know_the_same_names() -> None:
    assert read_by_type_checkers(SOURCE) == read_at_run_time(SOURCE)


PLANTED = """
if TYPE_CHECKING:
    from gnomon import errors as errors
    from gnomon.agent import Agent as Agent
    from gnomon.stream import Stream as Stream

_HOMES: dict[str, tuple[str, ...]] = {"gnomon.agent": ("Agent",), "gnomon.streams": ("Stream",)}
_MODULES = ("errors", "sync")
"""


def test_a_name_with_two_homes_or_in_one_list_only_is_seen() -> None:
    checkers, table = read_by_type_checkers(PLANTED), read_at_run_time(PLANTED)
    assert checkers == {"errors": "gnomon", "Agent": "gnomon.agent", "Stream": "gnomon.stream"}
    assert dict(table.items() ^ checkers.items()).keys() == {"Stream", "sync"}


# --- what is really there ---------------------------------------------------


@pytest.mark.parametrize("name", gnomon.__all__)
def test_a_public_name_is_the_object_of_its_home(name: str) -> None:
    home = read_at_run_time(SOURCE)[name]
    wanted = import_module(f"gnomon.{name}") if home == "gnomon" else getattr(import_module(home), name)
    assert getattr(gnomon, name) is wanted


@pytest.mark.parametrize("name", gnomon.__all__)
def test_a_public_name_is_public_in_its_home_too(name: str) -> None:
    home = read_at_run_time(SOURCE)[name]
    assert home == "gnomon" or name in import_module(home).__all__


def test_the_list_of_names_is_the_table_without_repeats() -> None:
    assert sorted(gnomon.__all__) == sorted(read_at_run_time(SOURCE))


def test_dir_shows_every_name_before_it_is_loaded() -> None:
    assert set(gnomon.__all__) <= set(dir(gnomon))
    assert dir(gnomon) == sorted(dir(gnomon))


def test_an_unknown_name_is_an_attribute_error_that_says_it() -> None:
    with pytest.raises(AttributeError, match="'gnomon' has no attribute 'Agnet'"):
        _ = gnomon.Agnet  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        exec("from gnomon import Agnet")


def test_a_star_import_brings_exactly_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from gnomon import *", space)
    assert space.keys() - {"__builtins__"} == set(gnomon.__all__)


def test_the_version_is_the_one_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert gnomon.__version__ == project["version"]


# --- every module -----------------------------------------------------------


def every_module() -> list[str]:
    paths = sorted((ROOT / "src").glob("gnomon/**/*.py"))
    names = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def not_there(module: ModuleType | SimpleNamespace) -> list[str]:
    """What a module promises in `__all__` and does not have, or promises twice."""
    promised = list(getattr(module, "__all__", []))
    return [name for name in promised if not hasattr(module, name) or promised.count(name) > 1]


@pytest.mark.parametrize("name", every_module())
def test_a_module_has_what_its_list_promises(name: str) -> None:
    assert not_there(import_module(name)) == []


def test_a_promise_that_is_not_kept_is_seen() -> None:
    module = SimpleNamespace(__all__=["here", "gone", "twice", "twice"], here=1, twice=2)
    assert not_there(module) == ["gone", "twice", "twice"]


# --- errors -----------------------------------------------------------------


def every_error() -> list[type[errors.GnomonError]]:
    """Every error class of ours, wherever it is written."""
    for name in every_module():
        if not name.startswith("gnomon.testing"):
            import_module(name)
    found, left = [], [errors.GnomonError]
    while left:
        found.append(left.pop())
        left += [kind for kind in found[-1].__subclasses__() if kind.__module__.startswith("gnomon.")]
    return sorted(found, key=lambda error: error.__name__)


def undocumented(kinds: list[type[errors.GnomonError]], page: str) -> list[str]:
    """The errors that have no row of their own, with their code, on the page."""
    return [
        kind.__name__
        for kind in kinds
        if not re.search(rf"^\| `{kind.__name__}` \|.*`{kind.code}`", page, re.M)
    ]


def test_every_error_is_exported_by_its_module() -> None:
    public = [kind.__name__ for kind in every_error() if not kind.__name__.startswith("_")]
    assert set(public) <= set(errors.__all__)


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in every_error() if not kind.__name__.startswith("_")]
    assert len(codes) == len(set(codes))
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code)] == []


def test_every_error_is_documented() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    assert len(kinds) > 20
    assert undocumented(kinds, ERRORS_PAGE.read_text("utf-8")) == []


def test_an_error_that_is_not_on_the_page_is_seen() -> None:
    page = "| `NotFound` | `StorageError` | `not_found` | no | |\n| `Conflict` | | `another` | no | |"
    assert undocumented([errors.NotFound, errors.Conflict, errors.Refused], page) == ["Conflict", "Refused"]


def test_every_error_of_the_tree_is_drawn_where_it_stands() -> None:
    drawn = re.findall(r"^ {4}([│├└─ ]*)([A-Z]\w+)", errors.__doc__ or "", re.M)
    depths = {name: len(branch) // 4 for branch, name in drawn}
    for kind in every_error():
        if not kind.__name__.startswith("_"):
            assert depths.get(kind.__name__) == len(kind.__mro__) - len(errors.GnomonError.__mro__), kind
