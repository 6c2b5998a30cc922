"""Cuts each wire of an agent and each protection of a sandbox, and runs the test that is to notice it:
`make wiring`.

A cut is made in a copy of `src`, from which the process that starts commands is taken too. The named test
must fail there, and by itself: one that stays green does not watch its wire, and one that fails since the
code or the sandbox no longer holds together shows nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from cuts import CUTS, ROOT, TESTS, Cut

__all__ = ["NotHere", "check_uncut", "judged", "misplaced", "tried"]

_LIMIT_S = "15"
"""How long a test may take that waits for what does not come."""
_PATIENCE_S = 180
_TORN = re.compile(
    r"^E\s+(?:\w+\.)*(NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError"
    r"|TypeError: .* (?:positional|required) .*argument"
    r"|SandboxLost|SandboxError: the sandbox could not be set up"
    r"|AssertionError: the attack \w+ was not made).*$",
    re.MULTILINE,
)
_SAID = re.compile(r"^E\s+(\S.*)$", re.MULTILINE)
_SKIPPED = re.compile(r"^ *\d+  (\S.*)$", re.MULTILINE)


class NotHere(Exception):
    """This machine lacks what the test needs, so that it is skipped with the cut or without."""


class Noticed(NamedTuple):
    """What is wrong with a cut or its test, nothing where the test has failed as it should; its own words."""

    wrong: str
    said: str = ""


def misplaced(cut: Cut) -> str:
    """Why the cut cannot be made, if it cannot."""
    source = (ROOT / "src" / "gnomon" / cut.path).read_text("utf-8")
    if (count := source.count(cut.old)) != 1:
        return f"{cut.path} has {count} times, and not once:\n{cut.old}"
    try:
        compile(source.replace(cut.old, cut.new), cut.path, "exec")
    except SyntaxError as error:
        return f"{cut.path} is torn by it: {error}"
    return "" if _is_there(cut.test) else f"there is no test {cut.test}"


def _is_there(test: str) -> bool:
    """Also a check that a class has from one of the suites in `gnomon.testing`."""
    file, _, names = test.partition("[")[0].partition("::")
    owner, _, name = names.rpartition("::")
    text = (TESTS / file).read_text("utf-8") if (TESTS / file).is_file() else ""
    if owner:
        kit = (ROOT / "src" / "gnomon" / "testing").glob("_*.py")
        text = (
            "".join([text, *(each.read_text("utf-8") for each in kit)]) if f"class {owner}(" in text else ""
        )
    return f"def {name}(" in text


def tried(cut: Cut) -> Noticed:
    """Whether the test fails where the cut is made."""
    if wrong := misplaced(cut):
        return Noticed(wrong)
    with tempfile.TemporaryDirectory() as folder:
        made = _copied(Path(folder)) / "gnomon" / cut.path
        made.write_text(made.read_text("utf-8").replace(cut.old, cut.new), "utf-8")
        try:
            return judged(_run(Path(folder), [cut.test], _PATIENCE_S))
        except subprocess.TimeoutExpired:
            return Noticed("the test did not end")


def judged(ended: subprocess.CompletedProcess[str]) -> Noticed:
    """What a run of the test with the cut shows."""
    if ended.returncode == 0 and " passed" not in ended.stdout:
        why = _SKIPPED.search(ended.stdout)
        raise NotHere(why[1] if why else "its test is skipped here")
    if ended.returncode == 0:
        return Noticed("the test stayed green")
    if ended.returncode != 1:
        return Noticed(f"the test could not be run:\n{ended.stdout[-2_000:]}{ended.stderr[-2_000:]}")
    if torn := _TORN.search(ended.stdout):
        return Noticed(f"the code was torn and not cut: {torn.group().strip()}")
    said = _SAID.search(ended.stdout)
    return Noticed("", said[1] if said else "")


def check_uncut(tests: Sequence[str]) -> str:
    """What the tests say of the code as it is; nothing, where they all pass."""
    named = sorted(set(tests))
    with tempfile.TemporaryDirectory() as folder:
        _copied(Path(folder))
        ended = _run(Path(folder), named, _PATIENCE_S * (1 + len(named) // 20))
    return "" if ended.returncode == 0 else ended.stdout[-4_000:] + ended.stderr[-2_000:]


def _copied(folder: Path) -> Path:
    """With what was compiled: a copy that keeps its times is not compiled anew."""
    return Path(shutil.copytree(ROOT / "src", folder / "src"))


def _run(folder: Path, tests: Sequence[str], patience_s: float) -> subprocess.CompletedProcess[str]:
    named = [str(TESTS / test) for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *named]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GNOMON_", "PYTEST_"))}
    env = kept | {"PYTHONPATH": str(folder / "src"), "GNOMON_TEST_LIMIT_S": _LIMIT_S}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=patience_s)


def _told(cut: Cut) -> tuple[str, str]:
    """How the cut went in a word, and in more."""
    try:
        noticed = tried(cut)
    except NotHere as missing:
        return "not here", str(missing)
    return ("NOT SEEN", noticed.wrong) if noticed.wrong else ("red", noticed.said)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Cut each wire and each protection; a named test must notice."
    )
    parser.add_argument("-k", default="", help="only cuts whose name, file, test or list contains this")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("-v", action="store_true", help="also what each test said")
    given = parser.parse_args(arguments)
    chosen = [cut for cut in CUTS if given.k in f"{cut.listed_in}: {cut.path}: {cut.name} {cut.test}"]
    if failed := check_uncut([cut.test for cut in chosen]):
        print(f"uncut, the tests do not pass:\n{failed}")
        return 1
    counts = Counter[str]()
    with ThreadPoolExecutor(given.j) as pool:
        for cut, (how, more) in zip(chosen, pool.map(_told, chosen), strict=True):
            counts[how] += 1
            print(f"{how:8}  {cut.path}: {cut.name}", flush=True)
            if how != "red" or given.v:
                print(f"          {cut.test}: {more}", flush=True)
    not_here = f", {counts['not here']} not tried on this machine" if counts["not here"] else ""
    print(f"{len(chosen)} cuts, {counts['red']} noticed by their test{not_here}")
    return 1 if counts["NOT SEEN"] else 0


if __name__ == "__main__":
    sys.exit(main())
