"""`shell`: what a model is told of a command, what it is held to, and what it is said to touch."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gnomon import ToolContext, ToolFailed, ToolProgress
from gnomon.contracts.tool import SupportsTouches, Touches
from gnomon.errors import ConfigError, InvalidArguments, SandboxLost
from gnomon.tools.shell import ShellTool
from gnomon.tools.workspace import Recipe, Workspace
from gnomon.types.steps import ExecLimits, ExecResult
from sandboxed import left_of, mark, placed, result_of, steps_of

MB = 1 << 20
DASH = os.path.realpath("/bin/dash")


async def said(folder: Path | None, command: str, **settings: Any) -> tuple[str, str]:
    """The text and the status of the result."""
    async with placed(folder, **settings) as workspace:
        result = await result_of(workspace.tool("shell"), command=command)
        return result.text, result.status


# --- what it came to ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "text", "status"),
    [
        ("echo a; echo b", "a\nb", "ok"),
        ("echo out; echo err >&2", "out\n[stderr]\nerr", "ok"),
        ("echo err >&2", "[stderr]\nerr", "ok"),
        ("true", "[no output]", "ok"),
        ("echo no | grep yes", "[exit code 1]", "ok"),
        ("echo a; exit 3", "a\n[exit code 3]", "ok"),
        ("kill -SEGV $$", "[exit code 139: ended by SIGSEGV]", "error"),
        ("read -r line || echo end of input", "end of input", "ok"),
        ("printf 'caf\\303\\251 \\377'", "café �", "ok"),
        ("cat <<E\n$((6 * 7))\nE", "42", "ok"),
    ],
)
async def test_a_result_says_what_was_printed_and_how_it_ended(
    tmp_path: Path, command: str, text: str, status: str
) -> None:
    assert await said(tmp_path, command) == (text, status)


@pytest.mark.parametrize("without", [(), ("bubblewrap",)])
async def test_a_program_that_is_missing_is_a_result(tmp_path: Path, without: Any) -> None:
    text, status = await said(tmp_path, "no-such-program", without=without)
    assert "no-such-program: command not found" in text
    assert text.endswith("[exit code 127]")
    assert status == "error"


async def test_a_sandbox_without_any_shell_is_a_result(tmp_path: Path) -> None:
    text, status = await said(tmp_path, "echo a", env={"PATH": "/nowhere"})
    assert (text, status) == ("[not run: sh: there is no such program]", "error")


async def test_the_line_is_taken_by_bash_where_there_is_one_and_by_sh_elsewhere(tmp_path: Path) -> None:
    asks = 'echo "$0"; [[ a == a ]] && echo "knows brackets"'
    text, _ = await said(tmp_path, asks)
    assert text == "bash\nknows brackets"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(DASH)
    text, _ = await said(tmp_path, asks, env={"PATH": str(tmp_path / "bin")})
    assert text.startswith("sh\n[stderr]\n")


async def test_what_is_left_out_of_a_long_output_is_told_and_its_two_ends_are_kept(tmp_path: Path) -> None:
    limits = ExecLimits(output_bytes=4_000)
    async with placed(tmp_path, limits=limits) as workspace:
        result = await result_of(workspace.tool("shell"), command="seq 100000")
    assert result.text.startswith("1\n2\n3\n")
    assert "99999\n100000\n[some of the output was left out; a file can hold all of it]" in result.text
    assert "bytes left out" in result.text
    assert len(result.text) < 5_000
    assert result.meta == {"exit_code": 0, "level": "namespaces", "truncated": True}


async def test_how_it_ended_is_there_for_who_counts(tmp_path: Path) -> None:
    async with placed(tmp_path, without=("bubblewrap",)) as workspace:
        tool = ShellTool(workspace, timeout_s=0.3)
        assert (await result_of(tool, command="exit 4")).meta == {"exit_code": 4, "level": "process"}
        ended = (await result_of(tool, command="sleep 9")).meta
    assert ended == {"exit_code": 137, "level": "process", "timed_out": True}


async def test_commands_share_their_files_and_nothing_else(tmp_path: Path) -> None:
    marked = mark()
    for root in (tmp_path, None):
        async with placed(root) as workspace:
            tool = workspace.tool("shell")
            first = f"X=1; mkdir made; cd made; touch here /tmp/there; sleep {marked} >/dev/null &"
            assert (await result_of(tool, command=first)).status == "ok"
            found = await result_of(tool, command='ls . made; ls /tmp/there; echo "x$X"')
            assert found.text.startswith(".:\nmade\n\nmade:\nhere\nx\n[stderr]\n")
            assert "/tmp/there" in found.text
            assert left_of(marked) == []


# --- limits --------------------------------------------------------------------------


@pytest.mark.parametrize("without", [(), ("cgroups",), ("bubblewrap",)])
async def test_a_command_that_takes_too_long_or_too_much_is_a_result_that_says_so(
    tmp_path: Path, without: Any
) -> None:
    limits = ExecLimits(memory_bytes=200 * MB, processes=20)
    async with placed(tmp_path, without=without, limits=limits) as workspace:
        tool = ShellTool(workspace, timeout_s=20)
        late = await result_of(tool, command="echo begun; trap '' TERM; sleep 30", timeout_s=0.4)
        eats = "head -c 900M /dev/zero | tail"
        fat = await result_of(tool, command=eats)
        many = await result_of(tool, command="for i in $(seq 60); do sleep 5 & done; wait")
    assert (late.text, late.status) == ("begun\n[ended: its time of 0.4 s was up]", "error")
    assert "[ended: it used more than 200 MB of memory]" in fat.text or "memory exhausted" in fat.text
    assert fat.status == "error" or "[exit code 1]" in fat.text
    assert "it started more than 20 processes" in many.text or "Resource temporarily" in many.text


async def test_a_model_gets_no_more_time_than_there_is(tmp_path: Path) -> None:
    async with placed(tmp_path) as workspace:
        tool = ShellTool(workspace, timeout_s=0.2, longest_s=0.4)
        assert "ended after 0.2 seconds" in tool.description
        assert tool.timeout_s is not None
        assert 0.4 < tool.timeout_s < 60
        began = time.monotonic()
        asked = await result_of(tool, command="sleep 9", timeout_s=1e9)
        unasked = await result_of(tool, command="sleep 9")
        assert time.monotonic() - began < 5
    assert asked.text == "[ended: its time of 0.4 s was up]"
    assert unasked.text == "[ended: its time of 0.2 s was up]"


@pytest.mark.parametrize("seconds", [0, -1, "1", True])
def test_a_time_that_is_none_is_refused_when_the_tool_is_made(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="timeout_s is a number of seconds above 0"):
        ShellTool(Workspace(), timeout_s=seconds)
    with pytest.raises(ConfigError, match="timeout_s is 120, and the longest is 5"):
        ShellTool(Workspace(), longest_s=5)


async def test_arguments_that_no_command_can_have_are_a_result(tmp_path: Path) -> None:
    text, status = await said(tmp_path, "echo " + "x" * 3_000_000)
    assert text.startswith("[not run: ")
    assert status == "error"
    with pytest.raises(InvalidArguments, match="command: it has a NUL in it"):
        await said(tmp_path, "echo a\0b")


# --- the sandbox ----------------------------------------------------------------------


async def test_a_sandbox_that_cannot_be_made_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    recipe: Any = Recipe("process", {"require": "namespaces"})
    async with Workspace(tmp_path, sandbox=recipe) as workspace:
        with pytest.raises(ToolFailed, match=r"no sandbox to run it in: .*install bubblewrap"):
            await result_of(workspace.tool("shell"), command="touch made")
    assert os.listdir(tmp_path) == []


async def test_settings_that_make_no_sandbox_are_told_and_not_a_bug(tmp_path: Path) -> None:
    recipe: Any = Recipe("process", {"colour": "green"})
    async with Workspace(tmp_path, sandbox=recipe) as workspace:
        with pytest.raises(ToolFailed, match="colour"):
            await result_of(workspace.tool("shell"), command="echo a")


async def test_a_closed_workspace_runs_nothing(tmp_path: Path) -> None:
    async with placed(tmp_path) as workspace:
        tool = workspace.tool("shell")
    with pytest.raises(ToolFailed, match="the workspace is closed"):
        await result_of(tool, command="touch made")


class Plain:
    """A sandbox that shows nothing meanwhile."""

    def __init__(self, result: ExecResult | Exception) -> None:
        self.result = result
        self.asked: list[tuple[str, Sequence[str], float]] = []

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
        self.asked.append((command, args, timeout_s))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    async def close(self) -> None:
        pass


async def test_any_sandbox_will_do(tmp_path: Path) -> None:
    plain = Plain(ExecResult(exit_code=0, level="container", stdout=b"hi\n"))
    steps = await steps_of(Workspace(tmp_path, sandbox=plain).tool("shell"), command="echo hi", timeout_s=7)
    assert [step.text for step in steps if not isinstance(step, ToolProgress)] == ["hi"]
    (command, args, timeout_s), *more = plain.asked
    assert (command, args[-1], timeout_s, more) == ("sh", "echo hi", 7, [])


async def test_a_sandbox_that_was_lost_leaves_it_open_what_was_done(tmp_path: Path) -> None:
    lost = Plain(SandboxLost("its engine has stopped", hint="start it"))
    with pytest.raises(ToolFailed, match=r"not known what was done: its engine has stopped \(start it\)"):
        await result_of(Workspace(tmp_path, sandbox=lost).tool("shell"), command="echo hi")


async def test_a_read_only_workspace_is_read_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("as it was\n")
    async with Workspace(tmp_path, read_only=True) as workspace:
        tool = workspace.tool("shell")
        assert str(tmp_path) in tool.description
        read = await result_of(tool, command=f"cat {tmp_path}/there.txt; ls")
        changes = (
            f"echo x > {tmp_path}/there.txt; touch {tmp_path}/new; rm -f {tmp_path}/there.txt; echo > own"
        )
        changed = await result_of(tool, command=changes)
        own = await result_of(tool, command="ls")
    assert read.text == "as it was"
    assert changed.text.count("Read-only file system") >= 2 or "denied" in changed.text
    assert own.text == "own"
    assert os.listdir(tmp_path) == ["there.txt"]
    assert (tmp_path / "there.txt").read_text() == "as it was\n"


# --- while it runs --------------------------------------------------------------------


@pytest.mark.parametrize("without", [(), ("bubblewrap",)])
async def test_what_is_printed_is_shown_while_the_command_waits(tmp_path: Path, without: Any) -> None:
    waits = "echo begun; echo warned >&2; while [ ! -e go ]; do sleep 0.02; done; echo ended"
    async with placed(tmp_path, without=without) as workspace:
        tool: Any = workspace.tool("shell")
        shown = []
        async for step in tool.execute_stream(f'{{"command": "{waits}"}}', ToolContext(call_id="call_1")):
            if isinstance(step, ToolProgress):
                shown += [(part.text, part.meta.get("stream", "")) for part in step.content]  # type: ignore[union-attr]
                (tmp_path / "go").touch()
        assert step.text == "begun\nended\n[stderr]\nwarned"
    assert sorted(shown) == [("begun\n", ""), ("ended\n", ""), ("warned\n", "stderr")]


async def test_a_character_that_comes_in_two_pieces_is_shown_as_one(tmp_path: Path) -> None:
    async with placed(tmp_path) as workspace:
        halves = "printf 'caf\\303'; sleep 0.2; printf '\\251!'"
        steps = await steps_of(workspace.tool("shell"), command=halves)
    shown = "".join(part.text for step in steps[:-1] for part in step.content)  # type: ignore[union-attr]
    assert shown == "café!"


# --- what it touches -------------------------------------------------------------------


def touched(workspace: Workspace, arguments: str) -> Touches:
    tool = workspace.tool("shell")
    assert isinstance(tool, SupportsTouches)
    return tool.touches(arguments)


async def test_the_parts_of_a_command_and_its_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "out").symlink_to("/etc")
    async with Workspace(tmp_path) as workspace:
        found = touched(workspace, '{"command": "make all < link/in && rm -rf x > ./a/../b; tee < out/x"}')
        assert found.commands == (("make", "all"), ("rm", "-rf", "x"), ("tee",))
        assert found.reads == ("real/in", "/etc/x")
        assert found.writes == ("b",)
        assert found.unknown == ""
        found = touched(workspace, f'{{"command": "echo > {tmp_path}/c > /workspace/d > /e"}}')
        assert found.writes == ("c", "/workspace/d", "d", "/e")


async def test_behind_a_link_up_is_above_where_it_leads_in_a_container_too(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    async with Workspace(tmp_path) as workspace:
        found = touched(workspace, '{"command": "echo > /workspace/link/../key"}')
    assert found.writes == ("/workspace/key", "real/key")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there are no such files here")
@pytest.mark.parametrize(
    "redirection",
    ["> /proc/self/cwd/key", "> link/key", "< link/key", "< kept/a > /dev/stdin", "3< kept/a > /dev/fd/3"],
)
async def test_a_file_that_is_another_to_each_process_is_not_named_for_a_command(
    redirection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "link").symlink_to("/proc/self/cwd")
    monkeypatch.chdir(tmp_path / "open")  # where this program works is not where a command begins
    async with Workspace(tmp_path) as workspace:
        found = touched(workspace, f'{{"command": "echo {redirection}"}}')
    assert found.unknown == "a redirection to a file that is another to each process"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"command": "$X"}', r"\$X"),
        ('{"command": "echo \\"a"}', "."),
        ('{"argv": []}', "argv"),
        ("[", "object"),
    ],
)
async def test_what_cannot_be_known_of_a_call_is_said(tmp_path: Path, arguments: str, why: str) -> None:
    async with Workspace(tmp_path) as workspace:
        found = touched(workspace, arguments)
    assert found.unknown
    assert re.search(why, found.unknown)


async def test_its_flags_are_honest(tmp_path: Path) -> None:
    async with placed(tmp_path) as workspace:
        tool = workspace.tool("shell")
        assert isinstance(tool, ShellTool)
        assert (tool.read_only, tool.destructive, tool.idempotent, tool.on_unknown) == (
            False,
            True,
            False,
            "ask",
        )
        with pytest.raises(InvalidArguments, match="it is empty"):
            await result_of(tool, command="")
