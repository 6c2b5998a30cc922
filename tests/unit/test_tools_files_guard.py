"""Every path of every file tool: none leads out of the workspace, and none to a secret that was not named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from gnomon import Agent
from gnomon.contracts.tool import SupportsTouches, ToolContext, Touches
from gnomon.engine.permissions import Rule
from gnomon.errors import ConfigError, InvalidArguments, ToolDenied, ToolError, ToolFailed
from gnomon.testing import ScriptedProvider
from gnomon.tools._path_patterns import PathPattern
from gnomon.tools._secret_files import secret_by_name, steers_git
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")

WRITING = {"write_file": {"content": "written"}, "edit_file": {"old": "inside", "new": "inside out"}}
SEARCHING = {"glob": {"pattern": "**"}, "grep": {"pattern": "."}}
TOUCHING = {"read_file": {}, "list_dir": {}, **SEARCHING, **WRITING}
"""The tools that take a path, and what else a call of each needs."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "file.txt").write_text("OUTSIDE")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    (made / "src" / "a.txt").write_text("inside")
    return made


async def call(workspace: Workspace | Path, name: str, path: str, **more: object) -> str:
    workspace = Workspace(workspace) if isinstance(workspace, Path) else workspace
    arguments = msgspec.json.encode({"path": path, **TOUCHING[name], **more}).decode()
    return (await workspace.tool(name).execute(arguments, ToolContext(call_id="call_1"))).text


async def told(workspace: Workspace | Path, name: str, path: str) -> str:
    """What the model is told of a call that comes to nothing."""
    with pytest.raises(ToolError) as caught:
        await call(workspace, name, path)
    return str(caught.value)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- out of the workspace -----------------------------------------------------------


@pytest.mark.parametrize("name", TOUCHING)
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("..", "it leads out of its folder"),
        ("../outside/file.txt", "it leads out of its folder"),
        ("src/../../outside/file.txt", "it leads out of its folder"),
        ("/etc/passwd", "it leads out of its folder"),
        ("//etc/passwd", "it leads out of its folder"),
        ("/proc/self/environ", "it leads out of its folder"),
        ("/proc/1/root", "it leads out of its folder"),
        ("link_to_file", "it leads out of its folder"),
        ("link_to_folder/file.txt", "it leads out of its folder"),
        ("link_to_link/file.txt", "it leads out of its folder"),
        ("link_to_proc", "it leads out of its folder"),
        ("round", "its links lead round in circles"),
        ("a\0b", "it has a NUL in it"),
        ("", "it is empty"),
        ("x" * 5000, "it is too long"),
        ("x/" * 300 + "y", "folders deep"),
    ],
)
async def test_a_path_that_leads_out_is_refused(
    name: str, path: str, why: str, root: Path, outside: Path
) -> None:
    (root / "link_to_file").symlink_to(outside / "file.txt")
    (root / "link_to_folder").symlink_to("../outside")
    (root / "link_to_link").symlink_to("link_to_folder")
    (root / "link_to_proc").symlink_to("/proc/self/environ")
    (root / "round").symlink_to("round")
    before = everything(outside)
    said = await told(root, name, path)
    assert why in said
    assert "OUTSIDE" not in said
    assert len(said) < 500
    assert everything(outside) == before


@pytest.mark.parametrize("name", TOUCHING)
async def test_a_name_that_no_file_can_have_is_told(name: str, root: Path) -> None:
    said = await told(root, name, "x" * 300)
    assert "file name too long" in said
    assert len(said) < 500


async def test_what_lies_inside_is_reached_by_every_kind_of_path(root: Path) -> None:
    (root / "link").symlink_to("src/a.txt")
    (root / "folder").symlink_to(root / "src")
    for path in (
        "src/a.txt",
        "./src//a.txt",
        "src/../src/a.txt",
        str(root / "src/a.txt"),
        "link",
        "folder/a.txt",
    ):
        assert await call(root, "read_file", path) == "1\tinside"


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc elsewhere")
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "proc/1/status", "dev/null", "/sys/kernel/uevent_seqnum"]
)
async def test_with_the_whole_machine_as_workspace_the_system_is_still_no_file(path: str) -> None:
    assert "it is a matter of the system" in await told(Workspace("/"), "read_file", path)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_what_is_no_regular_file_is_refused_at_once(kind: str, root: Path) -> None:
    """A pipe that nobody writes to would be waited for, and for ever."""
    import socket

    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.mkfifo(root / "pipe")
        os.chdir(root)  # a whole path may be too long for a socket
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        started = time.monotonic()
        for name in TOUCHING:
            assert "it is not a regular file" in await told(root, name, kind)
        assert time.monotonic() - started < 2


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """Somebody who changes a folder and a file for links that lead out, and back, as fast as they can."""
    code = f"""
import os
os.chdir({str(root)!r})
while True:
    for name, target in (("folder", {str(outside)!r}), ("file.txt", {str(outside / "file.txt")!r})):
        os.symlink(target, "new_link")
        os.rename(name, "aside_" + name)
        os.rename("new_link", name)
        os.unlink(name)
        os.rename("aside_" + name, name)
"""
    swapper = subprocess.Popen([sys.executable, "-S", "-c", code])
    try:
        yield
    finally:
        swapper.send_signal(signal.SIGKILL)
        swapper.wait()


async def test_links_that_are_swapped_meanwhile_lead_nobody_out(root: Path, outside: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file.txt").write_text("inside")
    (root / "file.txt").write_text("inside")
    before = everything(outside)
    seen: set[str] = set()
    workspace = Workspace(root)
    with swapping(root, outside):
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            for name in TOUCHING.keys() - WRITING.keys():
                for path in ("folder/file.txt", "file.txt", "folder"):
                    try:
                        seen.add(await call(workspace, name, path))
                    except ToolError as error:
                        seen.add(type(error).__name__)
    assert "1\tinside" in seen
    assert not [text for text in seen if "OUTSIDE" in text]
    assert {"InvalidArguments", "ToolFailed"} & seen  # some of them were caught in the middle
    assert everything(outside) == before


EXCHANGING = """
import ctypes, os, sys
root, outside = sys.argv[1:]
os.chdir(root)
os.symlink(outside, "other")
here, exchange = -100, 2
while True:
    if ctypes.CDLL(None).renameat2(here, b"folder", here, b"other", exchange) != 0:
        sys.exit("no two folders can change places here")
    os.symlink(outside + "/file.txt", "other.txt")
    os.replace("other.txt", "file.txt")
    with open("other.txt", "w") as file:
        file.write("inside")
    os.replace("other.txt", "file.txt")
"""


@contextmanager
def exchanging(root: Path, outside: Path) -> Iterator[None]:
    """Somebody who puts links out in the places of a folder and a file, and what was there back."""
    command = [sys.executable, "-S", "-c", EXCHANGING, str(root), str(outside)]
    exchanger = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert exchanger.stderr is not None
    try:
        yield
        if exchanger.poll() is not None:
            pytest.skip(exchanger.stderr.read().strip())
    finally:
        exchanger.kill()
        exchanger.wait()
        exchanger.stderr.close()


def says(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged by a call of Linux")
async def test_nothing_outside_is_written_while_links_are_swapped(root: Path, outside: Path) -> None:
    (root / "folder").mkdir()
    for path in ("folder/file.txt", "file.txt"):
        (root / path).write_text("inside")
    workspace, came, led_out = Workspace(root), {name: set[str]() for name in WRITING}, 0
    with exchanging(root, outside):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            for name in WRITING:
                for path in ("folder/file.txt", "file.txt", "folder/new/file.txt"):
                    led_out += says(root / path, "OUTSIDE")
                    try:
                        came[name].add((await call(workspace, name, path)).split()[1])
                    except ToolError as error:
                        came[name].add(type(error).__name__)
    assert everything(outside) == {"file.txt": b"OUTSIDE"}
    assert os.listdir(outside) == ["file.txt"]
    assert led_out > 10  # who has no guard
    assert {"was", "InvalidArguments", "ToolFailed"} <= came["write_file"]
    assert {"InvalidArguments", "ToolFailed"} <= came["edit_file"]


async def test_what_is_swapped_while_all_is_searched_leads_nobody_out(root: Path, outside: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file.txt").write_text("inside")
    (root / "file.txt").write_text("inside")
    seen: set[str] = set()
    workspace = Workspace(root)
    with swapping(root, outside):
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            seen.add(await call(workspace, "grep", ".", pattern="INSIDE|OUTSIDE", ignore_case=True))
            seen.add(await call(workspace, "glob", ".", pattern="**/*.txt"))
    assert any("folder/file.txt\n1: inside" in text for text in seen)
    assert len(seen) > 2  # it was caught in the middle too
    assert not [text for text in seen if "OUTSIDE" in text]


# --- secrets ------------------------------------------------------------------------

SECRET = [
    ".env", "src/.env", ".env.local", ".env.production", "prod.env", ".envrc", ".ENV", ".Env.Local", ".env~",
    ".env.bak", "server.pem", "server.KEY", "a.p12", "a.pfx", "a.kdbx", "id_rsa", "id_ed25519", "id_rsa.bak",
    "ID_RSA", "keys/id_ecdsa_work", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".aws/credentials",
    ".aws/credentials.old", "home/.ssh/config", ".ssh/known_hosts", ".gnupg/x/y.kbx", ".kube/config",
    ".docker/config.json", "infra/terraform.tfstate", "terraform.tfstate.backup", "prod.tfvars",
    "service-account.json", "my-service-account.json", "x-firebase-adminsdk-1.json", "client_secret_12.json",
    ".config/gcloud/x/y.db", ".git/config", "sub/.git/config", ".bash_history", ".env ", ".env.",
    ".\u200benv", "\uff0eenv", ".streamlit/secrets.toml", "server.key.old", ".cargo/credentials.toml",
    ".id_rsa.swp", ".secrets.yml.swn", ".env.swp", ".env-production", ".env_local",
    "etc/ssh/ssh_host_rsa_key", ".gnomon/config.toml", ".config/gnomon/config.toml",
    ".config/git/credentials",
]  # fmt: skip
NO_SECRET = [
    "a.txt", "environment.py", "env.py", ".env.example", ".env.sample", ".env.template", "src/.env.EXAMPLE",
    "id_rsa.pub", "keyboard.py", "monkey.txt", "pem.py", "config.json", "kube/config", "docker/config.json",
    "credentials.py", "aws/readme.md", ".github/workflows/ci.yml", ".gitignore", ".git/HEAD", "git/config",
    "a.key.py", "tfstate.py", "package.json", "accounts.json", "ssh.py", "history.txt", "src/.envelope",
    ".env-example", ".id_rsa.pub.swp", ".a.txt.swp", "ssh_host_rsa_key.pub", ".gnomon/agents.toml",
]  # fmt: skip


@pytest.mark.parametrize("path", SECRET)
def test_a_secret_is_known_by_its_name(path: str) -> None:
    assert secret_by_name(path)


@pytest.mark.parametrize("name", ["." * 100 + "a" + ".swp" * 38, "a" + ".bak" * 63, "#" * 250])
def test_whether_a_name_is_a_secret_is_known_at_once(name: str) -> None:
    started = time.monotonic()
    assert not secret_by_name(name)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("path", NO_SECRET)
def test_what_only_looks_like_a_secret_is_a_file(path: str) -> None:
    assert not secret_by_name(path)


@pytest.mark.parametrize(
    "path", [".git", ".git/hooks/pre-commit", "a/.GIT/config", ".hg/hgrc", "git~1/x", ".git./x"]
)
def test_what_steers_a_version_control_is_known(path: str) -> None:
    assert steers_git(path)
    assert not steers_git(".github/x")
    assert not steers_git(".gitignore")


@pytest.mark.parametrize("path", [".env", "notes.txt", "deep/notes.txt", "folder/key", "src/../.env", ".ENV"])
async def test_a_secret_is_not_read_whatever_it_is_called(path: str, root: Path) -> None:
    (root / ".env").write_text("KEY=hunter2")
    (root / ".ENV").write_text("KEY=hunter2")
    (root / "notes.txt").symlink_to(".env")
    (root / "deep").mkdir()
    (root / "deep" / "notes.txt").symlink_to("../notes.txt")
    (root / ".ssh").mkdir()
    (root / ".ssh" / "key").write_text("hunter2")
    (root / "folder").symlink_to(".ssh")
    said = await told(root, "read_file", path)
    assert "by its name it holds secrets" in said
    assert "hunter2" not in said


async def test_a_harmless_file_is_not_read_by_the_name_of_a_secret(root: Path) -> None:
    """What it leads to may be another file by the time it is read."""
    (root / ".env").symlink_to("src/a.txt")
    assert "by its name it holds secrets" in await told(root, "read_file", ".env")


async def test_a_secret_that_is_named_is_read_and_others_are_not(root: Path) -> None:
    for path in (".env", "src/.env", "src/.env.local", "src/deep.pem"):
        (root / path).write_text("read")
    (root / "link").symlink_to("src/.env")
    workspace = Workspace(root, secrets=["src/.env", "**/*.pem"])
    for path in ("src/.env", "link", str(root / "src" / ".env"), "src/deep.pem"):
        assert await call(workspace, "read_file", path) == "1\tread"
    for path in (".env", "src/.env.local"):
        assert "holds secrets" in await told(workspace, "read_file", path)


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".env", "by its name it holds secrets"),
        ("notes.txt", "by its name it holds secrets"),
        ("new/server.pem", "by its name it holds secrets"),
        (".ssh/new", "by its name it holds secrets"),
        (".git/config", "by its name it holds secrets"),
        (".git/hooks/pre-commit", "it steers a version control"),
        (".git/new/file", "it steers a version control"),
        (".GIT/hooks/x", "it steers a version control"),
        ("hooks/pre-commit", "it steers a version control"),
        ("sub/.git", "it steers a version control"),
    ],
)
async def test_neither_secrets_nor_what_steers_git_is_written(
    name: str, path: str, why: str, root: Path
) -> None:
    (root / ".env").write_text("inside")
    (root / "notes.txt").symlink_to(".env")
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "hooks" / "pre-commit").write_text("inside")
    (root / "hooks").symlink_to(".git/hooks")
    before = everything(root)
    for more in ({}, {"old": "", "new": "x"}) if name == "edit_file" else ({},):
        with pytest.raises(ToolDenied, match=why):
            await call(Workspace(root), name, path, **more)
    assert everything(root) == before
    assert not (root / "new").exists()


@pytest.mark.parametrize("name", WRITING)
async def test_what_is_named_is_written(name: str, root: Path) -> None:
    for path in (".env", ".git/hooks/pre-commit"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("inside")
    workspace = Workspace(root, secrets=[".env", ".git/hooks/**"])
    for path in (".env", ".git/hooks/pre-commit"):
        await call(workspace, name, path)
        assert (root / path).read_text() in ("written", "inside out")


@pytest.mark.parametrize("name", WRITING)
def test_in_a_workspace_that_is_read_only_nothing_that_writes_is_made(name: str, root: Path) -> None:
    with pytest.raises(ConfigError, match=f"tool '{name}' changes files, and the workspace is read-only"):
        Workspace(root, read_only=True).tool(name)
    with pytest.raises(ConfigError, match="the workspace is read-only"):
        Agent(ScriptedProvider([]), tools=[name], workspace=Workspace(root, read_only=True))


async def test_a_secret_is_listed_and_not_read(root: Path) -> None:
    (root / ".env").write_text("KEY=1")
    assert ".env  5 bytes" in await call(root, "list_dir", ".")


async def test_in_a_workspace_that_is_itself_a_place_of_keys_they_are_secrets_too(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "work").write_text("hunter2")
    assert "holds secrets" in await told(tmp_path / ".ssh", "read_file", "work")


def test_a_secret_that_cannot_be_named_so_is_said_at_once(root: Path) -> None:
    workspace = Workspace(root, secrets=["../.env"])
    with pytest.raises(
        ConfigError, match=r"secrets of the workspace: '../.env' cannot be used: it has '..' in it"
    ):
        workspace.tool("read_file")


# --- what a call touches --------------------------------------------------------------


def touched(workspace: Workspace, name: str, path: str) -> Touches:
    tool = workspace.tool(name)
    assert isinstance(tool, SupportsTouches)
    return tool.touches(msgspec.json.encode({"path": path, **TOUCHING[name]}).decode())


@pytest.mark.parametrize("name", ["read_file", "list_dir"])
def test_a_call_touches_the_file_by_its_real_name(name: str, root: Path) -> None:
    (root / "link").symlink_to("src")
    workspace = Workspace(root)
    assert touched(workspace, name, "link/a.txt") == Touches(reads=("src/a.txt",))
    assert touched(workspace, name, str(root / "src/../src/a.txt")) == Touches(reads=("src/a.txt",))
    assert "leads out" in touched(workspace, name, "../x").unknown


@pytest.mark.parametrize("name", WRITING)
def test_a_call_that_changes_a_file_reads_and_writes_it(name: str, root: Path) -> None:
    """It shows some of what was there: a rule about reading holds for it as well."""
    (root / "link").symlink_to("src")
    workspace = Workspace(root)
    for path in ("link/a.txt", str(root / "src/../src/a.txt")):
        assert touched(workspace, name, path) == Touches(reads=("src/a.txt",), writes=("src/a.txt",))
    assert touched(workspace, name, "link/new/b.txt").writes == ("src/new/b.txt",)
    assert "leads out" in touched(workspace, name, "../x").unknown
    assert not (root / "src" / "new").exists()


SEARCHED = [
    ({}, ("./",)),
    ({"path": "src"}, ("src/",)),
    ({"path": "link"}, ("src/",)),
    ({"path": "src/a.txt"}, ("src/a.txt",)),
    ({"path": "link/a.txt"}, ("src/a.txt",)),
    ({"path": "not_there"}, ("not_there/",)),
    ({"glob": "*.py"}, ("./",)),
    ({"glob": "src/**/*.py"}, ("src/",)),
    ({"glob": "{src,test}/*.py"}, ("src/", "test/")),
    ({"glob": "lib/x/*.py", "path": "src"}, ("src/lib/x/",)),
    ({"glob": "{src,*}/*.py"}, ("./",)),
]


@pytest.mark.parametrize(("given", "touches"), SEARCHED)
def test_a_search_touches_all_that_lies_where_it_looks(
    given: dict[str, str], touches: tuple[str, ...], root: Path
) -> None:
    (root / "link").symlink_to("src")
    workspace = Workspace(root)
    grep, glob = workspace.tool("grep"), workspace.tool("glob")
    assert isinstance(grep, SupportsTouches)
    assert isinstance(glob, SupportsTouches)
    asked = msgspec.json.encode({"pattern": "x", **given}).decode()
    assert grep.touches(asked) == Touches(reads=touches)
    if "glob" in given and "/" in given["glob"]:
        found = msgspec.json.encode({"pattern": given["glob"], "path": given.get("path", ".")}).decode()
        assert glob.touches(found) == Touches(reads=touches)


def test_a_search_of_which_it_is_not_known_what_it_touches_says_so(root: Path) -> None:
    workspace = Workspace(root)
    grep = workspace.tool("grep")
    assert isinstance(grep, SupportsTouches)
    for given, why in ({"path": "../x"}, "leads out"), ({"glob": "../*"}, "has '..' in it"):
        assert why in grep.touches(msgspec.json.encode({"pattern": "x", **given}).decode()).unknown


@pytest.mark.parametrize("name", ["glob", "grep"])
@pytest.mark.parametrize(
    ("path", "is_about"),
    [
        (".", True),
        ("private", True),
        ("private/deep", True),
        ("link", True),
        ("src", False),
        ("src/a.txt", False),
    ],
)
def test_a_rule_about_a_folder_is_about_a_search_that_comes_into_it(
    name: str, path: str, is_about: bool, root: Path
) -> None:
    """A search over all would show what may not be read."""
    (root / "private" / "deep").mkdir(parents=True)
    (root / "link").symlink_to("private")
    tool = Workspace(root).tool(name)
    assert isinstance(tool, SupportsTouches)
    arguments = msgspec.json.encode({"path": path, "pattern": "**"}).decode()
    touches = tool.touches(arguments)
    for rule in (
        'deny *(@reads="private/**")',
        'ask *(@reads="private/deep/*.key")',
        'deny *(@paths="**/private/**")',
    ):
        about = is_about or (rule.startswith("deny *(@paths") and path == "src")
        assert Rule.parse(rule).matches(name, arguments, tool.parameters, touches) is about
    allowing = Rule.parse('allow *(@reads="src/**")')
    assert allowing.matches(name, arguments, tool.parameters, touches) is path.startswith("src")


# --- patterns -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.pyc"]),
        ("src/**", ["src/a", "src/a/b", "src"], ["srcs/a", "a"]),
        ("src/**/test_?.py", ["src/test_a.py", "src/a/b/test_b.py"], ["src/test_ab.py", "test_a.py"]),
        ("*.{py,md}", ["a.py", "a.md"], ["a.txt", "a.{py,md}"]),
        ("{a,b{1,2}}/x", ["a/x", "b1/x", "b2/x"], ["b/x"]),
        ("[ab].txt", ["a.txt", "b.txt"], ["c.txt"]),
        ("[!ab].txt", ["c.txt"], ["a.txt"]),
        ("./a//b", ["a/b"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
        ("**", ["a", "a/b"], []),
    ],
)
def test_a_pattern_fits_paths(pattern: str, fitting: list[str], others: list[str]) -> None:
    found = PathPattern(pattern)
    assert [path for path in [*fitting, *others] if found.fits(path)] == fitting


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 60 + "b", "a" * 250),
        ("**/" * 49 + "x", "a/" * 150 + "y"),
        ("**/a*" * 40, "aa/" * 150 + "y"),
        ("[" * 200, "[" * 200 + "x"),
        ("{" * 2000 + "}" * 2000, "x"),
        ("[" * 4000, "x"),
        ("{" + "," * 3999, "x"),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    started = time.monotonic()
    assert not PathPattern(pattern).fits(path)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "pattern", ["{a,b}" * 20, "../x", "", "/", "a/" * 200, "{" + "," * 100_000, "[!" * 100_000]
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        PathPattern(pattern)


def test_the_errors_of_a_path_are_those_that_a_model_reads() -> None:
    assert issubclass(InvalidArguments, ToolError)
    assert issubclass(ToolDenied, ToolError)
    assert issubclass(ToolFailed, ToolError)
