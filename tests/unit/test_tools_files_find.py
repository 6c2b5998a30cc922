"""`glob`: what is found by name, in which order, and what is left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import Agent, TurnUnfinished
from gnomon.contracts.tool import ToolContext
from gnomon.engine.permissions import Mode
from gnomon.errors import InvalidArguments, ToolError, ToolFailed
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.tools import _walk
from gnomon.tools import glob as glob_module
from gnomon.tools._path_patterns import PathPattern
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")

as_root = os.name == "posix" and os.geteuid() == 0


async def found(root: Path | Workspace, pattern: str, path: str = ".", **more: object) -> list[str]:
    workspace = Workspace(root) if isinstance(root, Path) else root
    arguments = msgspec.json.encode({"pattern": pattern, "path": path, **more}).decode()
    result = await workspace.tool("glob").execute(arguments, ToolContext(call_id="call_1"))
    return result.text.split("\n")


def planted(root: Path, *paths: str) -> Path:
    """Files, and folders where a path ends with a slash."""
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            place.mkdir(exist_ok=True)
        else:
            place.write_text(f"in {path}\n")
    return root


# --- names ------------------------------------------------------------------------


async def test_files_are_found_by_name_and_sorted_by_path(tmp_path: Path) -> None:
    planted(
        tmp_path, "b.py", "a.py", "a/z.py", "a-b/c.py", "a/deep/er/x.py", "a/x.txt", ".hidden/h.py", "A.py"
    )
    assert await found(tmp_path, "**/*.py") == [
        ".hidden/h.py", "A.py", "a-b/c.py", "a.py", "a/deep/er/x.py", "a/z.py", "b.py",
    ]  # fmt: skip
    assert await found(tmp_path, "*.py") == ["A.py", "a.py", "b.py"]
    assert await found(tmp_path, "a/**/*.{txt,py}") == ["a/deep/er/x.py", "a/x.txt", "a/z.py"]
    assert await found(tmp_path, "**/[xz].??") == ["a/deep/er/x.py", "a/z.py"]


async def test_paths_are_those_of_the_workspace_and_patterns_count_from_the_folder(tmp_path: Path) -> None:
    planted(tmp_path, "src/one/a.py", "src/a.py", "a.py")
    assert await found(tmp_path, "*.py", "src") == ["src/a.py"]
    assert await found(tmp_path, "one/*", "src") == ["src/one/a.py"]
    (tmp_path / "link").symlink_to("src")
    assert await found(tmp_path, "*.py", "link") == ["src/a.py"]
    assert await found(tmp_path, "**", "src/one") == ["src/one/a.py"]


async def test_a_whole_path_is_a_pattern_too_where_it_lies_in_the_folder(tmp_path: Path) -> None:
    planted(tmp_path, "src/a.py", "b.py")
    assert await found(tmp_path, f"{tmp_path}/**/*.py") == ["b.py", "src/a.py"]
    assert await found(tmp_path, f"{tmp_path}/src/*.py", "src") == ["src/a.py"]
    for pattern, path in (("/etc/*", "."), (f"{tmp_path}/b.py", "src")):
        with pytest.raises(InvalidArguments, match=r"pattern: .* cannot be used: it leads out of its folder"):
            await found(tmp_path, pattern, path)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("", "it is empty"), ("../*", r"it has '\.\.' in it"), ("{a,b}" * 9, "more than 100 patterns")],
)
async def test_a_pattern_that_cannot_be_used_is_told(pattern: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match=f"pattern: .*{why}"):
        await found(tmp_path, pattern)


async def test_folders_have_a_slash_and_links_say_where_they_lead_and_are_not_followed(
    tmp_path: Path,
) -> None:
    root = planted(tmp_path / "root", "src/a.py", "empty/")
    planted(tmp_path, "outside/secret.py")
    (root / "out").symlink_to("../outside")
    (root / "round").symlink_to(".")
    (root / "to_file.py").symlink_to("src/a.py")
    os.mkfifo(root / "pipe")
    assert await found(root, "**") == [
        "empty/", "out -> ../outside", "pipe  (no regular file)", "round -> .", "src/", "src/a.py",
        "to_file.py -> src/a.py",
    ]  # fmt: skip
    assert await found(root, "**/*.py") == ["src/a.py", "to_file.py -> src/a.py"]
    assert (await found(root, "out/*"))[0].startswith("Nothing fits 'out/*' in '.'")


async def test_a_name_cannot_look_like_two_or_like_another(tmp_path: Path) -> None:
    for name in ("a\nb.py", "\x1b[2Jx.py", os.fsdecode(b"caf\xe9.py"), "right\u202eyp.py"):
        (tmp_path / name).touch()
    assert await found(tmp_path, "*.py") == [
        "\\x1b[2Jx.py", "a\\nb.py", "caf\\udce9.py", "right\\u202eyp.py",
    ]  # fmt: skip


async def test_a_secret_is_found_by_its_name(tmp_path: Path) -> None:
    assert await found(planted(tmp_path, ".env", "key.pem"), "*") == [".env", "key.pem"]


async def test_what_is_found_by_nothing_says_what_was_perhaps_meant(tmp_path: Path) -> None:
    planted(tmp_path, "src/a.py")
    assert await found(tmp_path, "*.py") == [
        "Nothing fits '*.py' in '.'. **/*.py looks in the folders below it too."
    ]
    assert await found(tmp_path, "**/*.pyx", "src") == ["Nothing fits '**/*.pyx' in 'src'."]


async def test_a_file_and_what_is_not_there_are_no_folders(tmp_path: Path) -> None:
    planted(tmp_path, "src/a.py")
    with pytest.raises(ToolFailed, match=r"'src/a.py' is a file"):
        await found(tmp_path, "*", "src/a.py")
    with pytest.raises(ToolFailed, match=r"there is no 'scr'. There is 'src'"):
        await found(tmp_path, "*", "scr")


# --- what is left out ---------------------------------------------------------------

MADE = [
    ".git/config", ".hg/store", "pkg/__pycache__/a.pyc", "node_modules/x/index.js", ".venv/bin/python",
    "env/pyvenv.cfg", "env/lib/a.py", "target/CACHEDIR.TAG", "target/debug/a.o", "pkg/a.py",
]  # fmt: skip


async def test_what_programs_make_again_is_left_out_and_told(tmp_path: Path) -> None:
    planted(tmp_path, *MADE)
    lines = await found(tmp_path, "**/*.*")
    assert lines == [
        "pkg/a.py",
        "[left out as ignored: .venv/, env/, node_modules/ and target/; ignored=true looks there too]",
    ]
    everything = await found(tmp_path, "**/*.*", ignored=True)
    assert {"node_modules/x/index.js", "env/lib/a.py", "pkg/__pycache__/a.pyc"} < set(everything)
    assert not everything[-1].startswith("[")


async def test_what_a_pattern_or_a_path_names_is_looked_into(tmp_path: Path) -> None:
    planted(tmp_path, *MADE)
    assert await found(tmp_path, "node_modules/**/*.js") == ["node_modules/x/index.js"]
    assert (await found(tmp_path, "**/{.git,.hg}/*"))[:2] == [".git/config", ".hg/store"]
    assert await found(tmp_path, "*", "env") == ["env/lib/", "env/pyvenv.cfg"]
    assert await found(tmp_path, "target/**/*.o") == ["target/debug/a.o"]


async def test_what_gitignore_names_is_left_out_and_counted(tmp_path: Path) -> None:
    planted(tmp_path, "a.log", "deep/b.log", "deep/keep.log", "dist/x.js", "deep/dist/y.js", "a.py")
    (tmp_path / ".gitignore").write_text("# made\n*.log\n/dist/\n!keep.log\n")
    assert await found(tmp_path, "**/*.*") == [
        ".gitignore",
        "a.py",
        "deep/dist/y.js",
        "deep/keep.log",
        "[left out as ignored: dist/ and 2 files; ignored=true looks there too]",
    ]
    assert await found(tmp_path, "dist/*") == ["dist/x.js"]
    assert "a.log" in await found(tmp_path, "*.log", ignored=True)


async def test_the_rules_of_folders_above_count_in_a_folder_below(tmp_path: Path) -> None:
    planted(tmp_path, "web/src/a.js", "web/src/a.map", "web/b.map")
    (tmp_path / ".gitignore").write_text("*.map\n")
    (tmp_path / "web" / ".gitignore").write_text("!b.map\n")
    assert await found(tmp_path, "*", "web/src") == [
        "web/src/a.js",
        "[left out as ignored: 1 file; ignored=true looks there too]",
    ]
    assert await found(tmp_path, "*.map", "web") == ["web/b.map"]


async def test_only_what_may_fit_is_told_to_be_left_out(tmp_path: Path) -> None:
    planted(tmp_path, "node_modules/a.js", "src/a.js")
    assert await found(tmp_path, "src/*.js") == ["src/a.js"]


async def test_a_gitignore_that_is_no_file_or_far_too_large_is_none(tmp_path: Path) -> None:
    planted(tmp_path, "a/a.log", "b/b.log", "c/c.log", ".env")
    (tmp_path / "a" / ".gitignore").mkdir()
    (tmp_path / "b" / ".gitignore").write_text("*.log\n" * 50_000)
    os.mkfifo(tmp_path / "c" / ".gitignore")
    assert await found(tmp_path, "**/*.log") == ["a/a.log", "b/b.log", "c/c.log"]


# --- much of it ---------------------------------------------------------------------


async def test_what_is_too_much_is_counted(tmp_path: Path) -> None:
    planted(tmp_path, *(f"{number:04}.txt" for number in range(1234)))
    lines = await found(tmp_path, "*.txt")
    assert lines[:2] == ["0000.txt", "0001.txt"]
    assert lines[499:] == ["0499.txt", "[and 734 more: a pattern that says more leads to them]"]


async def test_long_names_take_up_the_room_earlier(tmp_path: Path) -> None:
    planted(tmp_path, *(f"{number:03}{'x' * 240}.txt" for number in range(300)))
    lines = await found(tmp_path, "*.txt")
    assert sum(map(len, lines)) < 41_000
    assert lines[-1].startswith("[and 1")


def many(root: Path, folders: int, files: int) -> None:
    for number in range(folders):
        (folder := root / f"{number:03}").mkdir()
        os.close(os.open(first := folder / "0000.txt", os.O_CREAT))
        for name in range(1, files):
            os.link(first, folder / f"{name:04}.txt")  # a name costs less than a file


@pytest.fixture(scope="module")
def large() -> Iterator[Path]:
    """A hundred thousand files, which nobody keeps afterwards."""
    with TemporaryDirectory() as folder:
        many(Path(folder), 100, 1000)
        yield Path(folder)


async def test_a_hundred_thousand_files_are_gone_through(large: Path) -> None:
    started = time.monotonic()
    assert len(await found(large, "**/0999.txt")) == 100
    assert time.monotonic() - started < 15


async def test_no_more_files_than_that_are_gone_through(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walk, "MOST_NAMES", 50_000)
    lines = await found(large, "**/*.txt")
    assert len(lines) == 502
    assert lines[-2:] == [
        "[ended after 50,000 names: look in a smaller folder, or for a pattern that begins with one]",
        "[and many more: a pattern that says more leads to them]",
    ]


async def test_one_folder_of_too_many_names_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(tmp_path, 1, 3000)
    monkeypatch.setattr(_walk, "MOST_NAMES", 1000)
    assert (await found(tmp_path, "**/nothing"))[-1].startswith("[ended after 1,000 names")


async def test_the_time_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many(tmp_path, 50, 10)
    monkeypatch.setattr(glob_module, "_TIME_S", 1e-6)
    lines = await found(tmp_path, "**/*.txt")
    assert lines[-1].startswith("[ended after 1e-06 s: look in a smaller folder")


@contextmanager
def deep(root: Path, folders: int) -> Iterator[None]:
    """So many in each other, with a file in each; no path is long enough for the last of them."""
    here = os.getcwd()
    os.chdir(root)
    try:
        for _ in range(folders):
            os.mkdir("d" * 50)
            os.chdir("d" * 50)
            os.close(os.open("file.txt", os.O_CREAT))
    finally:
        os.chdir(here)
    yield
    subprocess.run(["rm", "-rf", str(root)], check=True)


async def test_very_deep_folders_are_looked_into_as_far_as_a_path_goes(tmp_path: Path) -> None:
    with deep(tmp_path, 150):
        lines = await found(tmp_path, "**/file.txt")
    more = re.fullmatch(r"\[and (\d+) more: .*]", lines[-2])
    assert more is not None
    assert 75 < len(lines) - 2 + int(more[1]) < 85
    assert lines[-1].startswith("[1 folder not entered, cannot be opened: dddd")


@pytest.mark.skipif(as_root, reason="root may enter every folder")
async def test_a_folder_that_may_not_be_entered_is_told(tmp_path: Path) -> None:
    planted(tmp_path, "shut/a.py", "b.py")
    (tmp_path / "shut").chmod(0)
    try:
        assert await found(tmp_path, "**/*.py") == [
            "b.py",
            "[1 folder not entered, cannot be opened: shut/]",
        ]
    finally:
        (tmp_path / "shut").chmod(0o700)


async def test_an_error_of_one_folder_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, "shut/a.py", "b.py")
    workspace = Workspace(tmp_path)
    beneath = workspace.files("glob")
    really = beneath.open

    def failing(path: str, flags: int, mode: int = 0o644, *, links: bool = True) -> int:
        if path == "shut":
            raise PermissionError(13, "Permission denied")
        return really(path, flags, mode, links=links)

    monkeypatch.setattr(beneath, "open", failing)
    assert await found(workspace, "**/*.py") == [
        "b.py",
        "[1 folder not entered, cannot be opened: shut/]",
    ]


async def test_a_folder_that_changes_meanwhile_breaks_nothing(tmp_path: Path) -> None:
    planted(tmp_path, *(f"kept/{number}/a.py" for number in range(50)))
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            made = tmp_path / "kept" / f"new{number % 7}"
            planted(made, "x/y.py")
            (made / "x" / "y.py").unlink()
            (made / "x").rmdir()
            made.rmdir()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(40):
            lines = await found(tmp_path, "kept/**/a.py")
            assert lines == sorted(lines)
            assert len(lines) == 50
    finally:
        stop.set()
        changing.join()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc elsewhere")
async def test_with_the_whole_machine_as_workspace_the_system_is_not_walked_through() -> None:
    lines = await found(Workspace("/"), "{proc,sys,dev}/**", ignored=True)
    assert set(lines) <= {"dev/", "proc/", "sys/"}
    with pytest.raises(ToolError, match="a matter of the system"):
        await found(Workspace("/"), "*", "proc")


# --- patterns -------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", "a.py"])
PATTERNS = st.lists(
    st.sampled_from(["a", "b", "*", "?", "**", "a*", "{a,b}", "[ab]", "*.py", "{a/b,**/b}"]),
    min_size=1,
    max_size=4,
).map("/".join)


def folders_above(path: str) -> Iterator[str]:
    names = path.split("/")
    for depth in range(1, len(names)):
        yield "/".join(names[:depth])


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=5).map("/".join))
def test_a_folder_is_entered_when_what_fits_lies_in_it(pattern: str, path: str) -> None:
    found = PathPattern(pattern)
    if found.fits(path):
        assert all(found.may_fit_below(folder) for folder in folders_above(path))
        assert any(start == "." or f"{path}/".startswith(f"{start}/") for start in found.starts)


@pytest.mark.parametrize(
    ("pattern", "entered", "starts", "named"),
    [
        ("*.py", [], (".",), set[str]()),
        ("src/*.py", ["src"], ("src",), {"src"}),
        ("src/**/x", ["src", "src/a", "src/a/b"], ("src",), {"src", "x"}),
        ("**/*.py", ["src", "src/a", "src/a/b"], (".",), set[str]()),
        ("src/a/b", ["src", "src/a"], ("src/a",), {"src", "a", "b"}),
        ("{src,test}/*", ["src"], ("src", "test"), {"src", "test"}),
        ("{src,src/a}/*", ["src", "src/a"], ("src",), {"src", "a"}),
        ("{src/a,*}/*", ["src", "src/a"], (".",), {"src", "a"}),
        ("src/**", ["src", "src/a", "src/a/b"], ("src",), {"src"}),
        ("test/**", [], ("test",), {"test"}),
    ],
)
def test_a_pattern_leads_no_further_than_it_says(
    pattern: str, entered: list[str], starts: tuple[str, ...], named: set[str]
) -> None:
    found = PathPattern(pattern)
    assert [folder for folder in ("src", "src/a", "src/a/b") if found.may_fit_below(folder)] == entered
    assert found.starts == starts
    assert found.named == named


# --- through the front door -------------------------------------------------------------


def asking() -> ScriptedProvider:
    return ScriptedProvider(
        [
            calls("glob", pattern="**/*.txt").calling("grep", pattern="hunter2"),
            says("It is there."),
        ]
    )


def told_to(model: ScriptedProvider) -> str:
    """All that the model has read."""
    return repr([request.messages for request in model.requests])


async def test_an_agent_finds_files_and_lines(tmp_path: Path) -> None:
    planted(tmp_path, "src/a.txt", "b.py")
    (tmp_path / "src" / "c.txt").write_text("one\nhunter2\n")
    model = ScriptedProvider(
        [
            calls("glob", pattern="**/*.txt"),
            calls("grep", pattern="hunter2").expecting(result="src/a.txt\nsrc/c.txt"),
            says("It is in src.").expecting(result="src/c.txt\n2: hunter2"),
        ]
    )
    async with Agent(model, tools=["glob", "grep"], workspace=tmp_path, permissions="ask") as agent:
        assert (await agent.run("Where is hunter2?")).text == "It is in src."


@pytest.mark.parametrize("permissions", ["ask", "auto"])
async def test_no_search_shows_what_a_rule_denies(permissions: Mode, tmp_path: Path) -> None:
    """The rule is about what lies in the folder that is searched, and not about that folder."""
    planted(tmp_path, "private/named.txt", "b.txt")
    (tmp_path / "private" / "named.txt").write_text("hunter2 is private\n")
    for rules, is_shown in ([], True), (['deny *(@reads="private/**")'], False):
        model = asking()
        agent = Agent(
            model,
            tools=["glob", "grep"],
            workspace=tmp_path,
            permissions=permissions,
            rules=rules,
            storage=f"sqlite:///{tmp_path}/{is_shown}.db",
        )
        async with agent:
            with suppress(TurnUnfinished):  # somebody is asked, as far as the rule may be about it
                await agent.session("s").run("Where is hunter2?")
        assert ("hunter2 is private" in told_to(model)) is is_shown
        assert ("private/named.txt" in told_to(model)) is is_shown
