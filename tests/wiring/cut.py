"""Cuts each wire of an agent in turn, and runs the test that is to notice it: `make wiring`.

A cut is made in a copy of `src`. The named test must fail there, and by itself: one that stays green
does not watch its wire, and one that fails since the code no longer holds together shows nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuts import CUTS, FLOWS, ROOT, Cut

__all__ = ["check_uncut", "misplaced", "tried"]

_LIMIT_S = "15"
"""How long a test may take that waits for what does not come."""
_PATIENCE_S = 120
_TORN = re.compile(
    r"^E\s+(?:\w+\.)*(NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError"
    r"|TypeError: .* (?:positional|required) .*argument).*$",
    re.MULTILINE,
)


def misplaced(cut: Cut) -> str:
    """Why the cut cannot be made, if it cannot."""
    source = (ROOT / "src" / "gnomon" / cut.path).read_text("utf-8")
    if (count := source.count(cut.old)) != 1:
        return f"{cut.path} has {count} times, and not once:\n{cut.old}"
    try:
        compile(source.replace(cut.old, cut.new), cut.path, "exec")
    except SyntaxError as error:
        return f"{cut.path} is torn by it: {error}"
    file, _, name = cut.test.partition("::")
    if f"def {name}(" not in (FLOWS / file).read_text("utf-8"):
        return f"there is no test {cut.test}"
    return ""


def tried(cut: Cut) -> str:
    """What is wrong with the cut or its test; nothing, where the test has failed as it should."""
    if wrong := misplaced(cut):
        return wrong
    with tempfile.TemporaryDirectory() as folder:
        made = _copied(Path(folder)) / "gnomon" / cut.path
        made.write_text(made.read_text("utf-8").replace(cut.old, cut.new), "utf-8")
        try:
            ended = _run(Path(folder), [cut.test])
        except subprocess.TimeoutExpired:
            return "the test did not end"
    if ended.returncode == 0:
        return "the test stayed green"
    if ended.returncode != 1:
        return f"the test could not be run:\n{ended.stdout[-2_000:]}{ended.stderr[-2_000:]}"
    torn = _TORN.search(ended.stdout)
    return f"the code was torn and not cut: {torn.group().strip()}" if torn else ""


def check_uncut(tests: Sequence[str]) -> str:
    """What the tests say of the code as it is; nothing, where they all pass."""
    with tempfile.TemporaryDirectory() as folder:
        _copied(Path(folder))
        ended = _run(Path(folder), sorted(set(tests)))
    return "" if ended.returncode == 0 else ended.stdout[-4_000:] + ended.stderr[-2_000:]


def _copied(folder: Path) -> Path:
    """With what was compiled: a copy that keeps its times is not compiled anew."""
    return Path(shutil.copytree(ROOT / "src", folder / "src"))


def _run(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    named = [str(FLOWS / test) for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *named]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GNOMON_", "PYTEST_"))}
    env = kept | {"PYTHONPATH": str(folder / "src"), "GNOMON_TEST_LIMIT_S": _LIMIT_S}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=_PATIENCE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cut each wire in turn; a named test must notice.")
    parser.add_argument("-k", default="", help="only cuts whose name, file or test contains this")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="how many at a time")
    given = parser.parse_args(arguments)
    chosen = [cut for cut in CUTS if given.k in f"{cut.path}: {cut.name} {cut.test}"]
    if failed := check_uncut([cut.test for cut in chosen]):
        print(f"uncut, the tests do not pass:\n{failed}")
        return 1
    wrong = 0
    with ThreadPoolExecutor(given.j) as pool:
        for cut, why in zip(chosen, pool.map(tried, chosen), strict=True):
            print(f"{'NOT SEEN' if why else 'red':8}  {cut.path}: {cut.name}", flush=True)
            if why:
                wrong += 1
                print(f"          {cut.test}: {why}", flush=True)
    print(f"{len(chosen)} wires cut, {len(chosen) - wrong} noticed by their test")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
