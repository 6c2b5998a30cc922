"""`Workspace`: what it is made of, what it refuses, and who closes what."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gnomon import Agent, sync, tool
from gnomon._parts import workspace_from
from gnomon.agent_files import Made, WorkspaceSpec, read_agents
from gnomon.contracts.tool import Tool
from gnomon.errors import ConfigError, SandboxError, UnknownName
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.tools._places import Placed, SupportsWorkspace, placed
from gnomon.tools.workspace import Workspace
from gnomon.types.steps import ExecLimits, ExecResult

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="a process sandbox needs Linux")


class CountedSandbox:
    """A sandbox that does nothing but count how often it was closed."""

    def __init__(self, workspace: str | None = None) -> None:
        self.closed = 0
        if workspace is not None:
            self.workspace = workspace

    async def execute(
        self,
        command: str,
        args: Sequence[str],
        timeout_s: float,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: ExecLimits | None = None,
    ) -> ExecResult:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed += 1


@placed("where")
def where(workspace: Workspace) -> Tool:
    """Says where it works."""
    folder = workspace.files("where").path

    @tool(name="where", read_only=True)
    def say() -> str:
        """Where am I?"""
        return folder

    return say


def test_a_placed_tool_is_what_the_registry_may_hold() -> None:
    assert isinstance(where, Placed)
    assert isinstance(where, SupportsWorkspace)
    assert "Says where it works" in (where.__doc__ or "")


async def test_an_item_that_needs_a_place_gets_the_agents(tmp_path: Path) -> None:
    model = ScriptedProvider([calls("where"), says("there").expecting(result=str(tmp_path))])
    async with Agent(model, tools=[where], workspace=tmp_path) as agent:
        turn = await agent.run("where?")
    assert turn.text == "there"


def test_without_a_folder_a_tool_that_needs_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="tool 'where' needs a folder to work in"):
        Agent(ScriptedProvider(["Hello."]), tools=[where])


def test_the_sync_agent_takes_the_same(tmp_path: Path) -> None:
    with sync.Agent(ScriptedProvider(["Hello."]), tools=[where], workspace=str(tmp_path)):
        pass


def test_a_registered_name_becomes_a_tool_that_works_here(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.tool("now").name == "now"
    assert [each.name for each in workspace.tools("now", "calculate")] == ["now", "calculate"]
    with pytest.raises(UnknownName):
        workspace.tool("nothing_of_that_name")


def test_the_root_is_the_real_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert Workspace(tmp_path / "link").root == str((tmp_path / "real").resolve())
    assert Workspace().root is None


def test_a_root_that_is_no_folder_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="not a directory"):
        Workspace(tmp_path / "file")
    with pytest.raises(ConfigError, match="no such file"):
        Workspace(tmp_path / "nothing")


def test_a_single_text_is_no_list_of_hosts_or_secrets(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="hosts are given as a list"):
        Workspace(tmp_path, hosts="example.com")
    with pytest.raises(TypeError, match="secrets are given as a list"):
        Workspace(tmp_path, secrets=".env")


# --- the sandbox --------------------------------------------------------------


@needs_linux
async def test_the_sandbox_is_made_when_it_is_first_asked_for_and_works_in_the_folder(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        sandbox = workspace.sandbox
        assert isinstance(sandbox, ProcessSandbox)
        assert sandbox.workspace == workspace.root
        assert workspace.sandbox is sandbox
    with pytest.raises(SandboxError, match="closed"):
        _ = workspace.sandbox
    with pytest.raises(SandboxError, match="closed"):
        await sandbox.execute("true", [], 5)


@needs_linux
async def test_commands_of_a_workspace_that_is_read_only_change_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("as it was")
    async with Workspace(tmp_path, read_only=True) as workspace:
        script = f"cat {tmp_path}/kept.txt; echo new > {tmp_path}/kept.txt; echo more > {tmp_path}/more.txt"
        result = await workspace.sandbox.execute("sh", ["-c", script], 20)
    assert b"as it was" in result.stdout
    assert (tmp_path / "kept.txt").read_text() == "as it was"
    assert os.listdir(tmp_path) == ["kept.txt"]


async def test_a_sandbox_that_was_given_is_not_closed(tmp_path: Path) -> None:
    sandbox = CountedSandbox()
    async with Workspace(tmp_path, sandbox=sandbox) as workspace:
        assert workspace.sandbox is sandbox
    async with Agent(ScriptedProvider(["Hello."]), workspace=tmp_path, sandbox=sandbox):
        pass
    assert sandbox.closed == 0


async def test_a_workspace_that_was_given_is_not_closed_by_the_agent(tmp_path: Path) -> None:
    async with Workspace(tmp_path, sandbox=CountedSandbox()) as workspace:
        async with Agent(ScriptedProvider(["Hello."]), tools=[where], workspace=workspace):
            pass
        assert workspace.files("where").canonical("a") == "a"


def test_a_name_of_no_sandbox_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no sandbox called 'proces'"):
        Workspace(tmp_path, sandbox="proces")
    with pytest.raises(TypeError, match="a sandbox is a name"):
        Workspace(tmp_path, sandbox=5)  # pyright: ignore[reportArgumentType]


def test_a_sandbox_of_another_folder_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ConfigError, match="its sandbox works in"):
        Workspace(tmp_path, sandbox=CountedSandbox(str(other)))
    with pytest.raises(ConfigError, match="is read-only, and its sandbox may write there"):
        Workspace(other, sandbox=CountedSandbox(str(other)), read_only=True)
    assert Workspace(other, sandbox=CountedSandbox(str(other))).root == str(other)


def test_without_a_folder_files_are_where_the_sandbox_works(tmp_path: Path) -> None:
    assert Workspace(sandbox=CountedSandbox(str(tmp_path))).root == str(tmp_path)


def test_a_workspace_has_its_sandbox_and_an_agent_gives_it_no_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sandbox of its own"):
        Agent(ScriptedProvider(["Hello."]), workspace=Workspace(tmp_path), sandbox="process")


# --- agents in files ------------------------------------------------------------


def test_an_agent_file_says_where_tools_work(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    path = tmp_path / "agents.toml"
    path.write_text("""
[defaults]
model = "demo"
workspace = "project"

[agents.plain]

[agents.told]
sandbox = {name = "process", limits = {memory_bytes = 100000000}}
workspace = {root = "project", read_only = true, hosts = ["example.com"], secrets = ["config/.env"]}
""")
    plain, told = read_agents(path)
    root = str((tmp_path / "project").resolve())
    assert plain.workspace == WorkspaceSpec(root=root)
    assert plain.sandbox is None
    assert told.workspace == WorkspaceSpec(
        root=root, read_only=True, hosts=("example.com",), secrets=("config/.env",)
    )
    assert told.sandbox == Made(name="process", settings={"limits": {"memory_bytes": 100_000_000}})


@needs_linux
async def test_the_workspace_of_an_agent_file_is_made_and_closed_with_its_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        'model = "demo"\nworkspace = "."\nsandbox = {name = "process", env = {COLOUR = "blue"}}\n'
    )
    seen: list[Workspace] = []

    class Watching:
        def in_workspace(self, workspace: Workspace) -> Tool:
            seen.append(workspace)
            return where.in_workspace(workspace)

    async with Agent.from_file(path, tools=[Watching()]):
        result = await seen[0].sandbox.execute("sh", ["-c", "echo $COLOUR; pwd"], 20)
        assert result.text.split() == ["blue", str(tmp_path)]
    with pytest.raises(SandboxError, match="closed"):
        _ = seen[0].sandbox


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("workspace = 5", "`workspace` should be a folder, or a table with `root`"),
        ("workspace = {folder = 'x'}", "`workspace.folder` is not a known key"),
        ("workspace = {root = '.', hosts = 'example.com'}", "`workspace.hosts` should be a list of texts"),
        ("sandbox = {require = 'process'}", "`sandbox.name` should be a registered name"),
    ],
)
def test_a_file_that_says_it_wrongly_is_told_where(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'model = "demo"\n{line}\n')
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_agents(path)


@needs_linux
def test_settings_that_no_sandbox_takes_are_said_when_it_is_made(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('model = "demo"\nworkspace = "."\nsandbox = {name = "process", colour = "blue"}\n')
    workspace = workspace_from(read_agents(path)[0])
    assert workspace is not None
    with pytest.raises(ConfigError, match=r"cannot be made with these settings: .*colour"):
        _ = workspace.sandbox
