"""`.gitignore` is read as git reads it: the same files are left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gnomon.tools._files import Files
from gnomon.tools._ignored import Ignored
from gnomon.tools._searches import Span
from gnomon.tools._walk import Walk
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")

FILES = [
    f"{folder}{name}"
    for folder in ("", "a/", "a/c/", "c/", "c/a/d/", "{a,b}/", "a b/", "a.d/")
    for name in ("a.py", "b", "ab.log", "#x", "!x", "x ", "[x]", "a*", "b.py.log")
]

NAMES = st.sampled_from(
    [
        "a", "b", "c", "*", "?", "a*", "*.py", "*.log", "**", "[ab]", "[!a]", "[^a]*", "a.d", "a b", "#x",
        "!x", "x ", "x\\ ", "{a,b}", "\\#x", "\\!x", "a\\*", "\\[x]", "[[]x]", "b*g", "*b", ".",
    ]
)  # fmt: skip
RULES = st.builds(
    lambda taken_back, root, names, folders_only, end: (
        f"{taken_back}{root}{'/'.join(names)}{folders_only}{end}"
    ),
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
    st.sampled_from(["", "", " ", "\r"]),
)
TEXTS = st.lists(st.one_of(RULES, st.sampled_from(["", "# a", "  "])), max_size=5).map("\n".join)


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    if shutil.which("git") is None:
        pytest.skip("there is no git to compare with")
    with TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        for path in FILES:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        yield root


def told_by_git(root: Path) -> set[str]:
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    without = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(command, cwd=root, env=without, capture_output=True, text=True, check=True)
    return set(done.stdout.split("\0")) - {"", ".gitignore", "a/.gitignore"}


def walked(root: Path, folder: str = ".") -> set[str]:
    files = Files(Workspace(root), "glob")
    walk = Walk(files, folder, Span(60), pattern=None, ignored=False)
    return {entry.place for entry in walk if entry.kind == "file"} - {".gitignore", "a/.gitignore"}


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
@example("*\n!*/\n!*.py", "")
@example("a/**\n!a/b", "")
@example("a/**/b\n**/a.d/", "/b\n!a.py")
@example("*.py\n*.log", "!*.py\n!*.log")
@example("{a,b}\n\\{a,b}/", "")
def test_what_git_leaves_out_is_left_out(repository: Path, above: str, below: str) -> None:
    (repository / ".gitignore").write_text(above)
    (repository / "a" / ".gitignore").write_text(below)
    assert walked(repository) == told_by_git(repository)
    in_a = {path for path in told_by_git(repository) if path.startswith("a/")}
    if in_a:  # else git does not enter it, and whoever names it does
        assert walked(repository, "a") == in_a


def test_a_rule_that_cannot_be_read_is_none() -> None:
    rules = Ignored().also(".", "../x\n/\n!\n\\\n[\na\n" + "b/" * 200)
    assert rules.names("a", is_folder=False)
    assert not rules.names("x", is_folder=False)


@pytest.mark.parametrize(
    "text",
    ["*a" * 60 + "b", "**/" * 90 + "x", "\n".join(["*a*b*c*"] * 3000), "[!" * 20_000, "x/" + "[!" * 20_000],
)
def test_no_rule_takes_long(text: str) -> None:
    started = time.monotonic()
    rules = Ignored().also(".", text)
    for _ in range(20):
        assert not rules.names("a/" * 100 + "a" * 250, is_folder=False)
    assert time.monotonic() - started < 5
