"""ProcessSandbox: what is its own, beside what `SandboxContract` asks of every sandbox."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gnomon._beneath import Beneath
from gnomon.errors import ConfigError, InvalidInput, SandboxError, SandboxLost
from gnomon.sandboxes._starter import Starter, starter
from gnomon.sandboxes._workspace import put
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and Landlock are Linux's")

RUNGS = [(), ("cgroups",), ("bubblewrap",), ("bubblewrap", "cgroups"), ("bubblewrap", "landlock", "seccomp")]


@asynccontextmanager
async def opened(*arguments: Any, **options: Any) -> AsyncIterator[ProcessSandbox]:
    sandbox = ProcessSandbox(*arguments, **options)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def sh(sandbox: ProcessSandbox, script: str, **options: Any) -> ExecResult:
    return await sandbox.execute("sh", ["-c", script], options.pop("timeout_s", 20.0), **options)


async def _once(sandbox: ProcessSandbox, script: str) -> ExecResult:
    try:
        return await sh(sandbox, script)
    finally:
        await sandbox.close()


# --- how it is made -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"require": "vault"}, ConfigError, "the levels are none, process, namespaces, container"),
        ({"without": ("luck",)}, ConfigError, "there is no protection called 'luck'"),
        ({"without": "luck"}, ConfigError, "there is no protection called 'luck'"),
        ({"limits": ExecLimits(memory_bytes=0)}, ConfigError, "the limit memory_bytes is 0"),
        ({"workspace": "/"}, ConfigError, "cannot be the whole machine"),
        ({"workspace": "/no/such/folder"}, InvalidInput, "is no folder"),
        ({"workspace": 5}, InvalidInput, "the workspace is the path of a folder as a text, not 5"),
        ({"workspace": ""}, InvalidInput, "the workspace is the path of a folder as a text, not ''"),
        ({"workspace": b"/tmp"}, InvalidInput, "as a text, not b'/tmp'"),
        ({"workspace": "/tmp\0"}, InvalidInput, "the workspace is the path of a folder"),
        ({"read": ["/no/such/file"]}, InvalidInput, "it is not there"),
        ({"read": "/etc"}, InvalidInput, "read is a list of paths, not '/etc'"),
        ({"write": None}, InvalidInput, "write is a list of paths, not None"),
        ({"read": [5]}, InvalidInput, "what a sandbox shows is the path of a folder as a text, not 5"),
        ({"env": ["A"]}, InvalidInput, "the variables of a command are texts by name, not list"),
        ({"limits": {"cpu_s": 1}}, ConfigError, "limits are ExecLimits, not dict"),
        ({"limits": ExecLimits(cpu_s=float("nan"))}, ConfigError, "the limit cpu_s is nan"),
        ({"limits": ExecLimits(processes="3")}, ConfigError, "the limit processes is '3'"),  # type: ignore[arg-type]
        ({"without": None}, ConfigError, "without is a list of protections, not None"),
        ({"env": {"A=B": "x"}}, InvalidInput, "cannot be the name of a variable"),
        ({"env": {"A": "x\0y"}}, InvalidInput, "the value of the variable A cannot be used"),
    ],
)
def test_what_cannot_be_made_is_said(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ProcessSandbox(**options)


def test_a_value_that_cannot_be_used_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as raised:
        ProcessSandbox(env={"TOKEN": "very-secret\0"})
    assert "very-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("without", "require", "missing"),
    [
        (("bubblewrap",), "namespaces", "bubblewrap"),
        (("bubblewrap", "landlock"), "process", "landlock"),
        (("bubblewrap", "seccomp"), "process", "seccomp"),
        ((), "container", "ContainerSandbox"),
    ],
)
def test_a_machine_that_holds_less_than_is_required_is_refused(
    without: tuple[Any, ...], require: Any, missing: str
) -> None:
    with pytest.raises(SandboxError, match=missing):
        ProcessSandbox(without=without, require=require)


def test_without_bubblewrap_on_the_path_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="install bubblewrap"):
        ProcessSandbox(require="namespaces")


def test_a_bubblewrap_that_can_make_no_namespaces_is_told_apart_from_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match="lets it make no namespaces: bwrap: No permissions"):
        ProcessSandbox(require="namespaces")


# --- what a command sees ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"stdin": "text"}, "the input of a command is bytes, not str"),
        ({"cwd": Path("folder")}, "the folder to start in is a text, not PosixPath"),
        ({"files": ["a"]}, "the files of a command are bytes by path, not list"),
        ({"files": {"a": "text"}}, "the file 'a' is bytes, not str"),
        ({"files": {b"a": b""}}, "the path of a file is a text, not bytes"),
        ({"env": ["A"]}, "the variables of a command are texts by name, not list"),
        ({"args": None}, "the arguments of a command are a list, not NoneType"),
        ({"args": iter("ab")}, "the arguments of a command are a list, not str"),
    ],
)
async def test_what_a_command_cannot_be_given_is_said_before_it_begins(
    asked: dict[str, Any], said: str
) -> None:
    async with opened() as sandbox:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(InvalidInput, match=said):
            await sandbox.execute("touch", asked.pop("args", ["begun"]), 20.0, **asked)
        assert len(os.listdir("/proc/self/fd")) == before
        assert await sandbox.list_files() == []


@pytest.mark.parametrize(
    ("without", "by"),
    [(("cgroups",), "RLIMIT_NPROC and a watch"), (("bubblewrap", "cgroups"), "a watch")],
)
async def test_the_report_names_what_holds_processes_on_each_rung(without: tuple[Any, ...], by: str) -> None:
    async with opened(without=without) as sandbox:
        assert (await sandbox.report()).held["processes"] == by


@pytest.mark.parametrize("without", RUNGS)
async def test_a_limit_larger_than_the_machine_is_none(without: tuple[Any, ...]) -> None:
    numbers = {"memory_bytes": 2**70, "disk_bytes": 2**64, "output_bytes": 2**70, "processes": 2**40}
    async with opened(without=without, require="none") as sandbox:
        for limits in (*({name: number} for name, number in numbers.items()), {"cpu_s": 1e300}):
            result = await sandbox.execute("echo", ["hello"], 20.0, limits=ExecLimits(**limits))
            assert result.text == "hello\n", limits
        for timeout_s in (3e6, 1e300, 10**400):
            result = await sandbox.execute("echo", ["hello"], timeout_s)
            assert result.text == "hello\n", timeout_s


@pytest.mark.parametrize("without", RUNGS)
async def test_a_command_comes_to_its_end_on_every_rung(without: tuple[Any, ...]) -> None:
    async with opened(without=without, require="none") as sandbox:
        result = await sh(sandbox, "echo out; echo err >&2; cat; exit 3", stdin=b"in")
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\nin", b"err\n")
        assert result.level == sandbox.level
        assert (result.timed_out, result.truncated, result.oom, result.note) == (False, False, False, "")
        report = await sandbox.report()
        assert report.level == sandbox.level


@pytest.mark.parametrize("without", RUNGS)
async def test_the_python_of_this_program_runs_on_every_rung(without: tuple[Any, ...]) -> None:
    async with opened(without=without, require="none") as sandbox:
        result = await sandbox.execute(sandbox.python, ["-c", "import ssl, json; print(6 * 7)"], 20.0)
        assert (result.text, result.error_text) == ("42\n", "")


async def test_a_workspace_is_changed_in_place_and_stays(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("before")
    async with opened(tmp_path) as sandbox:
        assert sandbox.workspace == str(tmp_path)
        await sh(sandbox, "cat given > seen; echo more >> given; mkdir -p a/b; echo deep > a/b/c")
        assert await sandbox.list_files() == ["a/b/c", "given", "seen"]
        assert await sandbox.read_file("a/b/c") == b"deep\n"
        assert await sandbox.read_file("missing") is None
    assert (tmp_path / "seen").read_text() == "before"
    assert (tmp_path / "given").read_text() == "beforemore\n"


def test_an_own_workspace_goes_when_it_is_closed() -> None:
    sandbox = ProcessSandbox()
    folder = Path(sandbox.workspace)
    result = asyncio.run(
        _once(sandbox, "mkdir -p locked/in; echo x > locked/in/file; chmod 000 locked/in locked")
    )
    assert result.exit_code == 0
    assert not folder.parent.exists()


@pytest.mark.parametrize("without", [(), ("bubblewrap",)])
async def test_what_is_named_can_be_read_or_written(without: tuple[Any, ...], tmp_path: Path) -> None:
    for name in ("work", "shown", "open"):
        (tmp_path / name).mkdir()
    (tmp_path / "shown" / "fact").write_text("a fact")
    script = f"cat {tmp_path}/shown/fact; echo x > {tmp_path}/shown/new; echo y > {tmp_path}/open/new"
    shown, writable = [str(tmp_path / "shown")], [str(tmp_path / "open")]
    async with opened(tmp_path / "work", read=shown, write=writable, without=without) as sandbox:
        result = await sh(sandbox, script)
    assert result.text == "a fact"
    assert not (tmp_path / "shown" / "new").exists()
    assert (tmp_path / "open" / "new").read_text() == "y\n"


async def test_variables_of_the_sandbox_and_of_the_command() -> None:
    async with opened(env={"A": "sandbox", "B": "sandbox"}) as sandbox:
        result = await sh(sandbox, "echo $A $B $HOME", env={"B": "command"})
        assert result.text == "sandbox command /tmp\n"


async def test_a_folder_to_start_in(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    async with opened(tmp_path) as sandbox:
        result = await sh(sandbox, "pwd; cat put", cwd="in", files={"put": b"there"})
        assert result.text == f"{tmp_path}/in\nthere"
        for cwd, said in (("..", "leads out"), ("/etc", "leads out"), ("missing", "there is no folder")):
            with pytest.raises(InvalidInput, match=r"cannot be used|there is no folder") as raised:
                await sh(sandbox, "pwd", cwd=cwd)
            assert cwd in str(raised.value), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize("without", RUNGS)
async def test_root_keeps_none_of_its_rights(without: tuple[Any, ...]) -> None:
    async with opened(without=without, require="none") as sandbox:
        asked = ["-E", "^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)", "/proc/self/status"]
        result = await sandbox.execute("grep", asked, 20.0)
    told = dict(line.split(":\t") for line in result.text.splitlines())
    assert told.pop("NoNewPrivs") == "1"
    assert set(told.values()) == {"0" * 16}, told
    assert len(told) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to somebody else")
@pytest.mark.parametrize("without", [(), ("bubblewrap",)])
async def test_root_runs_commands_as_whoever_owns_the_workspace(
    without: tuple[Any, ...], tmp_path: Path
) -> None:
    work = _somebodys(tmp_path)
    async with opened(work, without=without) as sandbox:
        result = await sh(sandbox, "cat in; echo out > made; echo $?", files={"in": b"given "})
    assert result.text == "given 0\n", result.error_text
    assert (work / "made").stat().st_uid == 4321
    assert (work / "in").stat().st_uid == 4321


def test_a_file_that_another_command_takes_away_at_once_is_no_bug(tmp_path: Path) -> None:
    class Fleeting(Beneath):
        def write(self, path: str, data: bytes, **options: Any) -> None:
            super().write(path, data, **options)
            os.remove(tmp_path / path)

    with pytest.raises(InvalidInput, match="'in' went away while it was put there: No such file"):
        put(Fleeting(str(tmp_path)), ".", {"in": b"given"}, (os.geteuid(), os.getegid()))


# --- its end ----------------------------------------------------------------------------


@pytest.mark.parametrize("without", RUNGS)
async def test_cancelling_ends_the_command(without: tuple[Any, ...], tmp_path: Path) -> None:
    async with opened(tmp_path, without=without, require="none") as sandbox:
        run = asyncio.ensure_future(sh(sandbox, _BEATING))
        await _beats(tmp_path)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await _is_still(tmp_path)


@pytest.mark.parametrize("without", RUNGS)
async def test_closing_ends_what_runs(without: tuple[Any, ...], tmp_path: Path) -> None:
    async with opened(tmp_path, without=without, require="none") as sandbox:
        run = asyncio.ensure_future(sh(sandbox, _BEATING))
        await _beats(tmp_path)
        await asyncio.gather(sandbox.close(), sandbox.close())
        result = await run
        assert result.exit_code == 137
        assert result.note == "ended: the sandbox was closed"
        assert not result.timed_out
        await _is_still(tmp_path)
        with pytest.raises(SandboxError, match="closed"):
            await sh(sandbox, "true")


@pytest.mark.parametrize("without", RUNGS)
async def test_a_deadline_is_kept_while_the_program_is_busy(without: tuple[Any, ...], tmp_path: Path) -> None:
    """It is another process that looks at the clock."""
    async with opened(tmp_path, without=without, require="none") as sandbox:
        run = asyncio.ensure_future(sh(sandbox, _BEATING, timeout_s=1.0))
        await _beats(tmp_path)
        time.sleep(1.5)  # noqa: ASYNC251 - nothing runs on the loop meanwhile
        (tmp_path / "beat").unlink(missing_ok=True)
        time.sleep(0.3)  # noqa: ASYNC251
        assert not (tmp_path / "beat").exists()
        assert (await run).timed_out


async def test_closing_a_stream_ends_the_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        stream = sandbox.execute_stream("sh", ["-c", "echo first; " + _BEATING], 20.0)
        assert await anext(stream) == ExecOutput("stdout", b"first\n")
        await _beats(tmp_path)
        await stream.aclose()
        await _is_still(tmp_path)


async def test_many_commands_at_once_each_with_its_own_tmp() -> None:
    async with opened() as sandbox:
        script = "test -e /tmp/x && echo seen; echo $0 > /tmp/x; sleep 0.2; cat /tmp/x"
        runs = [sandbox.execute("sh", ["-c", script, str(n)], 20.0) for n in range(12)]
        results = await asyncio.gather(*runs)
        assert [result.text for result in results] == [f"{n}\n" for n in range(12)]


async def test_a_command_goes_by_its_own_sandbox_when_the_program_has_two() -> None:
    async with opened() as one, opened() as other:
        await sh(one, "echo one > file")
        assert await other.read_file("file") is None


# Not for ever: where nothing ends it, the machine is none the worse.
_BEATING = (
    'trap "" INT TERM HUP; n=0; while [ $n -lt 1500 ]; do echo beat > beat; sleep 0.02; n=$((n + 1)); done'
)


async def _beats(folder: Path) -> None:
    async with asyncio.timeout(10):
        while not (folder / "beat").exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


async def _is_still(folder: Path) -> None:
    """When the result is there, nothing runs any more."""
    (folder / "beat").unlink(missing_ok=True)
    await asyncio.sleep(0.3)
    assert not (folder / "beat").exists()


# --- output ------------------------------------------------------------------------------


async def test_what_is_shown_is_what_the_result_has() -> None:
    async with opened() as sandbox:
        shown: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        script = "for n in 1 2 3; do echo $n; echo e$n >&2; sleep 0.05; done"
        last: object = None
        async for piece in sandbox.execute_stream("sh", ["-c", script], 20.0):
            assert not isinstance(last, ExecResult)
            last = piece
            if isinstance(piece, ExecOutput):
                shown[piece.stream] += piece.data
        assert isinstance(last, ExecResult)
        assert (
            (last.stdout, last.stderr)
            == (shown["stdout"], shown["stderr"])
            == (b"1\n2\n3\n", b"e1\ne2\ne3\n")
        )


async def test_words_of_bubblewrap_are_not_shown_as_the_commands() -> None:
    async with opened() as sandbox:
        pieces = [piece async for piece in sandbox.execute_stream("no-such-program", [], 20.0)]
        assert [type(piece) for piece in pieces] == [ExecResult]
        own = [
            piece async for piece in sandbox.execute_stream("sh", ["-c", "printf 'bwrap: mine' >&2"], 20.0)
        ]
        assert own[0] == ExecOutput("stderr", b"bwrap: mine")
        short = [piece async for piece in sandbox.execute_stream("sh", ["-c", "printf bw >&2"], 20.0)]
        assert short[0] == ExecOutput("stderr", b"bw")


async def test_a_flood_is_cut_in_its_middle_and_memory_stays() -> None:
    limits = ExecLimits(output_bytes=100_000)
    async with opened(limits=limits) as sandbox:
        script = "echo begin; head -c 30000000 /dev/zero; echo end; head -c 30000000 /dev/zero >&2"
        result = await sh(sandbox, script)
        assert result.truncated
        assert result.stdout.startswith(b"begin\n")
        assert b"bytes left out" in result.stdout + result.stderr
        assert len(result.stdout) + len(result.stderr) <= 100_000


async def test_a_slow_reader_of_single_bytes_keeps_little_waiting() -> None:
    async with opened(limits=ExecLimits(output_bytes=50_000)) as sandbox:
        code = "import os\nfor n in range(60_000): os.write(1, b'x')"
        stream = sandbox.execute_stream(sandbox.python, ["-c", code], 20.0)
        first = await anext(stream)
        await asyncio.sleep(1.0)
        rest = [piece async for piece in stream]
        shown = [piece for piece in (first, *rest) if isinstance(piece, ExecOutput)]
        assert sum(len(piece.data) for piece in shown) == 50_000
        assert len(shown) < 10, "small pieces are joined while nobody takes them"


# --- limits -------------------------------------------------------------------------------

_EACH_ALONE = [("cgroups",), ("bubblewrap", "cgroups"), ("bubblewrap", "landlock", "seccomp", "cgroups")]
"""Where there is a watch, and what the kernel holds of a process by itself."""


@pytest.mark.parametrize("without", _EACH_ALONE)
async def test_memory_is_refused_before_it_is_used(without: tuple[Any, ...]) -> None:
    """A watch sees what is used, and no earlier."""
    code = """
import mmap
try:
    print(len(mmap.mmap(-1, 512 << 20, mmap.MAP_PRIVATE)))
except OSError:
    print("refused")
"""
    async with opened(without=without, require="none") as sandbox:
        result = await sandbox.execute(
            sandbox.python, ["-c", code], 20.0, limits=ExecLimits(memory_bytes=128 << 20)
        )
    assert (result.text, result.note) == ("refused\n", ""), result


@pytest.mark.parametrize("without", RUNGS)
async def test_a_file_is_no_larger_than_the_limit_also_where_it_takes_no_room(
    without: tuple[Any, ...], tmp_path: Path
) -> None:
    async with opened(tmp_path, without=without, require="none") as sandbox:
        result = await sh(sandbox, "exec truncate -s 64M file", limits=ExecLimits(disk_bytes=16 << 20))
    assert result.exit_code != 0
    assert (tmp_path / "file").stat().st_size <= 16 << 20


async def test_in_namespaces_a_process_too_many_is_refused_and_nobody_is_ended_for_it(tmp_path: Path) -> None:
    workspace = _somebodys(tmp_path)  # the kernel counts no processes of root's
    script = "n=0; while [ $n -lt 100 ]; do sleep 5 & echo >> count; n=$((n + 1)); done; sleep 1"
    async with opened(workspace, without=("cgroups",), require="namespaces") as sandbox:
        result = await sh(sandbox, script, limits=ExecLimits(processes=24))
    assert (result.note, result.timed_out) == ("", False), result
    assert 20 <= len((workspace / "count").read_text()) <= 24


def _somebodys(folder: Path) -> Path:
    """A workspace whose owner is not root, as whom commands then run."""
    made = folder / "somebodys"
    made.mkdir()
    if os.geteuid() == 0:
        for each in (folder, *folder.parents):
            if Path(tempfile.gettempdir()) in each.parents:
                each.chmod(0o755)
        os.chown(made, 4321, 4321)
    return made


# --- what can go wrong around it -----------------------------------------------------------


async def test_a_launcher_that_was_ended_is_started_again() -> None:
    async with opened() as sandbox:
        await sh(sandbox, "true")
        for _ in range(10):
            os.kill(starter.pid, signal.SIGKILL)
            assert (await sh(sandbox, "echo again")).text == "again\n"


async def test_the_launcher_has_no_variable_and_no_file_of_the_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOST_SECRET", "s3cret")
    left_open = os.open(tmp_path, os.O_RDONLY)
    try:
        os.set_inheritable(left_open, True)
        async with opened() as sandbox:
            await sh(sandbox, "true")
            earlier = starter.pid
            os.kill(earlier, signal.SIGKILL)
            while starter.pid == earlier:  # the supervisor that it had waiting still serves
                await sh(sandbox, "true")
            await _the_one_that_waits()
            process = Path(f"/proc/{starter.pid}")
            assert (process / "environ").read_bytes() == b"LC_ALL=C.UTF-8\0"
            files = sorted(os.readlink(each).partition(":")[0] for each in (process / "fd").iterdir())
    finally:
        os.close(left_open)
    assert files == ["/dev/null"] * 3 + ["pipe", "socket"]  # it hears by the one, and is asked by the other


async def test_a_supervisor_that_was_ended_is_a_lost_sandbox_and_nothing_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        run = asyncio.ensure_future(sh(sandbox, _BEATING))
        await _beats(tmp_path)
        os.kill(await _the_one_at_work(), signal.SIGKILL)
        with pytest.raises(SandboxLost, match="nobody knows what became of it"):
            await run
        await asyncio.sleep(0.2)
        await _is_still(tmp_path)


async def test_a_supervisor_that_has_stopped_holds_nobody_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        run = asyncio.ensure_future(sh(sandbox, _BEATING, timeout_s=1.0))
        await _beats(tmp_path)
        supervisor = await _the_one_at_work()
        os.kill(supervisor, signal.SIGSTOP)
        done, _ = await asyncio.wait({run}, timeout=5)
        os.kill(supervisor, signal.SIGKILL)
        assert done
        assert run.result().timed_out


async def test_a_supervisor_that_was_ended_before_its_command_is_missed_by_nobody() -> None:
    async with opened() as sandbox:
        await sh(sandbox, "true")
        for _ in range(3):
            os.kill(await _the_one_that_waits(), signal.SIGKILL)
            assert (await sh(sandbox, "echo again")).text == "again\n"


@pytest.mark.parametrize("without", RUNGS)
async def test_who_stood_by_for_a_command_and_was_ended_is_missed_by_nobody(without: tuple[Any, ...]) -> None:
    async with opened(without=without, require="none") as sandbox:
        await sh(sandbox, "true")
        for _ in range(3):
            (child,) = _children(await _the_one_that_waits())
            os.kill(child, signal.SIGKILL)
            async with asyncio.timeout(5):
                while " Z " not in Path(f"/proc/{child}/stat").read_text():  # noqa: ASYNC110, ASYNC240
                    await asyncio.sleep(0.01)
            result = await sh(sandbox, "echo again; exit 3")
            assert (result.text, result.exit_code) == ("again\n", 3)


def test_nothing_waits_for_commands_of_a_program_that_has_ended() -> None:
    code = """
import asyncio
from pathlib import Path
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.sandboxes._starter import starter

async def once():
    sandbox = ProcessSandbox()
    await sandbox.execute("true", [], 20.0)
    await sandbox.close()
    while not (waiting := Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text()):
        await asyncio.sleep(0.01)
    print(starter.pid, waiting)

asyncio.run(once())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    left = [Path("/proc", word) for word in done.stdout.decode().split()]
    assert len(left) == 2
    until = time.monotonic() + 5
    while any(each.exists() for each in left) and time.monotonic() < until:
        time.sleep(0.01)
    assert [each for each in left if each.exists()] == []


async def _the_one_at_work() -> int:
    """The one whose child runs another program by now. That of the one that waits is still what it is."""
    async with asyncio.timeout(5):
        while len(found := [pid for pid in _children(starter.pid) if _has_begun(pid)]) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # what is left of another test is still ending
        return found[0]


def _has_begun(supervisor: int) -> bool:
    with suppress(OSError):
        own = os.readlink(f"/proc/{supervisor}/exe")
        return any(os.readlink(f"/proc/{pid}/exe") != own for pid in _children(supervisor))
    return False


async def _the_one_that_waits() -> int:
    """A supervisor is there before its command. Those of the commands before it tell of the end, then end."""
    async with asyncio.timeout(5):
        while True:
            before = _children(starter.pid)
            await asyncio.sleep(0.05)
            if len(before) == 1 and before == _children(starter.pid):
                return before[0]


def _children(pid: int) -> list[int]:
    with suppress(OSError):  # it has just ended
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def test_a_fork_of_the_program_has_a_launcher_of_its_own() -> None:
    code = """
import asyncio, os
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.sandboxes._starter import starter

async def once():
    sandbox = ProcessSandbox()
    result = await sandbox.execute("echo", ["hello"], 20.0)
    await sandbox.close()
    return result.text.strip(), starter.pid

print(*asyncio.run(once()))
if os.fork() == 0:
    print(*asyncio.run(once()), flush=True)
    os._exit(0)
os.wait()
print(*asyncio.run(once()))
"""
    done = subprocess.run([sys.executable, "-u", "-c", code], capture_output=True, timeout=60, check=True)
    first, forked, again = (line.split() for line in done.stdout.decode().splitlines())
    assert (first[0], forked[0], again[0]) == ("hello", "hello", "hello")
    assert first[1] == again[1] != forked[1]


async def test_loops_one_after_the_other_and_in_threads() -> None:
    def in_a_thread() -> str:
        async def once() -> str:
            async with opened() as sandbox:
                return (await sh(sandbox, "echo hello")).text

        return asyncio.run(once())

    assert await asyncio.gather(*(asyncio.to_thread(in_a_thread) for _ in range(4))) == ["hello\n"] * 4


def test_what_a_killed_program_left_is_removed_by_the_next(tmp_path: Path) -> None:
    code = """
import asyncio, os, signal
from gnomon.sandboxes.process import ProcessSandbox

async def once():
    sandbox = ProcessSandbox()
    await sandbox.execute("touch", ["file"], 20.0)
    print(sandbox.workspace, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(once())
"""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False, env=env)
    left = Path(done.stdout.decode().strip())
    assert left.is_dir()
    again = "from gnomon.sandboxes.process import ProcessSandbox; ProcessSandbox()"
    subprocess.run([sys.executable, "-c", again], timeout=60, check=True, env=env)
    assert not left.exists()


async def test_no_room_for_its_folders_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(SandboxError, match="no room for a sandbox"):
        ProcessSandbox()


def test_a_machine_without_any_folder_for_this_or_with_a_full_one_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as nowhere:
        nowhere.setattr(tempfile, "tempdir", None)
        nowhere.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
        with pytest.raises(SandboxError, match="no room for a sandbox"):
            ProcessSandbox()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(SandboxError, match="no room for a sandbox: No space left"):
        ProcessSandbox()
    gc.collect()
    assert os.listdir(tmp_path) == []


async def test_nothing_is_left_open_or_running_behind_many_commands() -> None:
    async with opened() as sandbox:
        await sh(sandbox, "true")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            await sh(sandbox, "sleep 100 & true")
        assert len(os.listdir("/proc/self/fd")) == before
        await _the_one_that_waits()


def test_a_starter_whose_process_cannot_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    order = os.memfd_create("order")
    pipes = os.pipe()
    try:
        with pytest.raises(SandboxError, match="cannot be started"):
            Starter().start(order, *pipes, pipes[1])
    finally:
        for descriptor in (order, *pipes):
            os.close(descriptor)


# --- by hand, to be sure that the tests mean what they say -----------------------------------


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_time_is_that_of_the_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        began = time.monotonic()
        result = await sandbox.execute("sleep", ["30"], 0.4)
        assert result.timed_out
        assert 0.35 < result.duration_s <= time.monotonic() - began < 5
