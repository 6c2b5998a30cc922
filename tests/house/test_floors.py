"""Imports point down: import-linter agrees with this tree, and does not agree with planted breaches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")

OUTSIDE_THE_FLOORS = {"testing", "pytest_plugin", "__init__", "__main__"}
"""What the test kit's own contract does not watch: the kit, its plugin, and the two doors."""


def lint(root: Path) -> tuple[int, str]:
    """The exit code and the words of import-linter about the tree in this folder."""
    env = dict(os.environ, PYTHONPATH=str(root / "src"), COLUMNS="200")
    command = [str(LINTER), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_imports_of_this_tree_point_down() -> None:
    code, said = lint(ROOT)
    assert code == 0, said


# --- planted breaches -------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree in which a test may break something."""
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(root: Path, file: str, line: str) -> None:
    """Add a line of code to a file of the package; a new one when there is none."""
    path = root / "src" / "gnomon" / file
    path.parent.mkdir(exist_ok=True)
    old = path.read_text("utf-8") if path.exists() else ""
    path.write_text(f"{old}\n{line}\n", "utf-8")


@pytest.mark.parametrize(
    ("file", "imported"),
    [
        ("types/events.py", "gnomon.agent"),
        ("providers/demo.py", "gnomon.engine.loop"),
        ("engine/loop.py", "gnomon.providers.demo"),
        ("stream.py", "gnomon.contracts.provider"),
    ],
)
def test_an_import_that_points_up_or_aside_is_caught(copy: Path, file: str, imported: str) -> None:
    plant(copy, file, f"import {imported}")
    code, said = lint(copy)
    importer = f"gnomon.{file.removesuffix('.py').replace('/', '.')}"
    assert code == 1
    assert "imports point down BROKEN" in said
    assert f"{importer} -> {imported}" in said


def test_an_import_inside_a_function_counts_too(copy: Path) -> None:
    plant(copy, "types/messages.py", "def planted():\n    from gnomon import agent")
    code, said = lint(copy)
    assert code == 1
    assert "gnomon.types.messages -> gnomon.agent" in said


def test_a_folder_without_a_floor_is_caught(copy: Path) -> None:
    plant(copy, "oddity/__init__.py", '"""Nobody said where this belongs."""')
    code, said = lint(copy)
    assert code == 1
    assert "oddity" in said


def test_a_module_that_imports_the_test_kit_is_caught(copy: Path) -> None:
    plant(copy, "tools/clock.py", "import gnomon.testing")
    code, said = lint(copy)
    assert code == 1
    assert "only tests import the test kit BROKEN" in said


def test_a_provider_that_imports_another_is_caught(copy: Path) -> None:
    plant(copy, "providers/demo.py", "import gnomon.providers.scripted")
    code, said = lint(copy)
    assert code == 1
    assert "back ends do not know one another BROKEN" in said


# --- the contracts name everything they should ------------------------------


def contract(name: str) -> dict[str, object]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (found,) = (it for it in settings["tool"]["importlinter"]["contracts"] if it["name"] == name)
    return found


def modules_in(folder: Path) -> set[str]:
    """What stands in a folder of the package: its modules and its packages."""
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return packages | {path.stem for path in folder.glob("*.py")}


def test_the_rule_about_the_test_kit_watches_every_module() -> None:
    named = contract("only tests import the test kit")["source_modules"]
    wanted = modules_in(ROOT / "src" / "gnomon") - OUTSIDE_THE_FLOORS
    assert set(named) == {f"gnomon.{name}" for name in wanted}


def test_the_rule_about_back_ends_names_every_provider() -> None:
    named = contract("back ends do not know one another")["modules"]
    wanted = {name for name in modules_in(ROOT / "src" / "gnomon" / "providers") if not name.startswith("_")}
    assert wanted
    assert {f"gnomon.providers.{name}" for name in wanted} <= set(named)


def test_the_modules_of_a_folder_are_its_files_and_its_packages(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "__init__.py").touch()
    (tmp_path / "no_package").mkdir()
    assert modules_in(tmp_path) == {"one", "two"}
