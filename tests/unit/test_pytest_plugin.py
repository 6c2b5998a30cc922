"""The plugin, in runs of its own: what it runs, what it refuses, what it reports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gnomon.pytest_plugin

HEAD = """
import asyncio
from contextlib import asynccontextmanager
from unittest import SkipTest
import pytest
from gnomon.testing import Contract

class NumberContract(Contract[int]):
    async def test_it_is_one(self):
        async with self.open() as number:
            await asyncio.sleep(0)
            assert number == 1

    async def test_it_is_small(self):
        async with self.open() as number:
            assert number < 10

    async def test_it_is_even(self):
        raise SkipTest("numbers need not be even")

class Opens:
    @asynccontextmanager
    async def open(self):
        yield 1
"""

REFUSED = {
    "direct": """
class TestDirect(Opens, NumberContract):
    async def test_it_is_one(self):
        pass
""",
    "mixin": """
class Mixin:
    async def test_it_is_one(self):
        pass
class TestMixin(Mixin, Opens, NumberContract):
    pass
""",
    "none": """
class TestNone(Opens, NumberContract):
    test_it_is_one = None
""",
    "guard": """
class TestGuard(Opens, NumberContract):
    __gnomon_contract__ = None
    test_it_is_one = None
    test_no_check_is_overridden = None
""",
    "unknown_gap": """
class TestUnknownGap(Opens, NumberContract):
    known_gaps = {"test_it_is_won": "why"}
""",
    "empty_gap": """
class TestEmptyGap(Opens, NumberContract):
    known_gaps = {"test_it_is_one": ""}
""",
    "marked": """
@pytest.mark.xfail
class TestMarked(Opens, NumberContract):
    pass
""",
}

SAYS = {
    "direct": "TestDirect overrides the check NumberContract.test_it_is_one:",
    "mixin": "TestMixin overrides the check NumberContract.test_it_is_one through Mixin:",
    "none": "TestNone overrides the check NumberContract.test_it_is_one:",
    "guard": "TestGuard overrides the check Contract.test_no_check_is_overridden:",
    "unknown_gap": "TestUnknownGap.known_gaps['test_it_is_won']: there is no such check",
    "empty_gap": "TestEmptyGap.known_gaps['test_it_is_one']: a reason is needed",
    "marked": "TestMarked is marked xfail",
}

GAPS = """
class TestTwo(NumberContract):
    known_gaps = {
        "test_it_is_one": "it is two",
        "test_it_is_small": "it was large once",
        "test_it_is_even": "nobody knows",
    }

    @asynccontextmanager
    async def open(self):
        yield 2

    async def test_of_its_own(self, tmp_path):
        await asyncio.sleep(0)
        assert tmp_path.is_dir()
"""

# Others that want every coroutine: a conftest with a hook of its own, and a plugin
# that, as pytest-asyncio does in its auto mode, puts a plain function in the place of each.
GREEDY = """
import inspect
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pytest.fail("the conftest took the test")

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name != "test_of_its_own":
            item.obj = lambda: pytest.fail("the plugin's wrapper was run")
"""


def _pytest(folder: Path, *options: str) -> tuple[int, str]:
    """The exit code and the output of a run that loads no other plugin than it is told to."""
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-q"]
    command += ["-p", "gnomon.pytest_plugin", "-p", "no:cacheprovider", *options, str(folder)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=alone, timeout=120)
    return run.returncode, run.stdout + run.stderr


def test_a_suite_that_was_tampered_with_is_refused_before_anything_of_it_runs(tmp_path: Path) -> None:
    for name, source in REFUSED.items():
        (tmp_path / f"test_{name}.py").write_text(HEAD + source)
    code, output = _pytest(tmp_path)
    assert code == pytest.ExitCode.INTERRUPTED, output
    assert f"{len(REFUSED)} errors" in output
    assert "passed" not in output
    assert not [says for says in SAYS.values() if says not in output], output
    assert 'known_gaps = {"test_it_is_one": "why"}' in output


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_known_gaps_run_and_are_listed_and_fail_when_stale(workers: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "test_gaps.py").write_text(HEAD + GAPS)
    (tmp_path / "conftest.py").write_text(GREEDY)
    code, output = _pytest(tmp_path, *workers)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "1 failed, 2 passed, 1 skipped, 1 xfailed" in output
    listed = output.partition("known gaps in contract suites")[2]
    assert "test_gaps.py::TestTwo::test_it_is_one: it is two" in listed
    assert "stale gap: TestTwo.test_it_is_small passes now. Take it out of known_gaps" in output
    assert "its reason was: it was large once" in output


def test_the_plugin_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(gnomon.pytest_plugin.__file__).read_text())
    plain = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    others = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in (*plain, *others) if name.split(".")[0] == "gnomon"]
