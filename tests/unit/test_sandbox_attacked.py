"""Ways out of `ProcessSandbox` that were there once, each tried on every rung that promises to hold it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import ConfigError, SandboxError
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.types.steps import ExecLimits, ExecResult

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and Landlock are Linux's")

HOLDING: list[tuple[Any, ...]] = [(), ("bubblewrap",)]


@asynccontextmanager
async def opened(*arguments: Any, **options: Any) -> AsyncIterator[ProcessSandbox]:
    sandbox = ProcessSandbox(*arguments, **options)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def sh(sandbox: ProcessSandbox, script: str, **options: Any) -> ExecResult:
    return await sandbox.execute("sh", ["-c", script], options.pop("timeout_s", 20.0), **options)


async def python(sandbox: ProcessSandbox, code: str, **options: Any) -> ExecResult:
    return await sandbox.execute(sandbox.python, ["-c", code], options.pop("timeout_s", 20.0), **options)


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder of the host that is in no folder of any test's, with a secret in it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "key").write_text("a secret of the host")
        Path(folder).chmod(0o755)
        yield Path(folder)


# --- sockets ----------------------------------------------------------------------------


@pytest.mark.parametrize("without", [*HOLDING, ("bubblewrap", "landlock")])
@pytest.mark.parametrize("network", [False, True])
async def test_no_daemon_is_reached_by_a_name_that_is_no_file(
    without: tuple[Any, ...], network: bool
) -> None:
    name = f"gnomon-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(f"\0{name}")
        daemon.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('reached')"
        async with opened(without=without, require="none") as sandbox:
            result = await python(sandbox, code, limits=ExecLimits(network=network))
            assert b"refused" in result.stderr or b"not supported" in result.stderr
            pair = "import socket; a, b = socket.socketpair(); a.send(b'one'); print(b.recv(9))"
            assert (await python(sandbox, pair, limits=ExecLimits(network=network))).text == "b'one'\n"


@pytest.mark.parametrize("without", [*HOLDING, ("bubblewrap", "landlock")])
async def test_no_daemon_is_sent_a_datagram_by_one_of_a_pair_of_sockets(
    without: tuple[Any, ...], outside: Path
) -> None:
    code = (
        "import socket\n"
        "for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC):\n"
        "    try:\n"
        f"        socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b'out', {str(outside / 'daemon')!r})\n"
        "    except OSError: pass\n"
        "one, other = socket.socketpair()\n"
        "one.send(b'pairs still work')\n"
        "print(other.recv(99).decode())\n"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(outside / "daemon"))
        (outside / "daemon").chmod(0o777)
        daemon.setblocking(False)
        async with opened(without=without, require="none") as sandbox:
            result = await python(sandbox, code)
        with pytest.raises(BlockingIOError):
            daemon.recv(99)
    assert result.text == "pairs still work\n", result


# --- what stands outside of the command ----------------------------------------------------


@pytest.mark.parametrize("without", HOLDING)
async def test_a_library_that_a_command_left_is_loaded_by_nothing_outside(
    without: tuple[Any, ...], tmp_path: Path, outside: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("it takes a C compiler")
    source = tmp_path / "left.c"
    source.write_text(
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void go(void) {{ open("{outside}/written", O_CREAT, 0600); }}\n'
    )
    library = tmp_path / "left.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)  # noqa: ASYNC221
    async with opened(tmp_path, without=without, env={"LD_PRELOAD": str(library)}) as sandbox:
        result = await sh(sandbox, 'echo "$LD_PRELOAD"', env={"LD_X": "@STATUS", "GLIBC_TUNABLES": "--"})
    assert result.text == f"{library}\n"
    assert not (outside / "written").exists()


@pytest.mark.parametrize("without", HOLDING)
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_folder_that_is_shown_and_lies_in_the_workspace_is_not_led_out_by_a_link(
    without: tuple[Any, ...], kind: str, tmp_path: Path, outside: Path
) -> None:
    shown = tmp_path / "above" / "shown"
    shown.mkdir(parents=True)
    async with opened(tmp_path, without=without, **{kind: [str(shown)]}) as sandbox:
        await sh(sandbox, f"mv above moved && mkdir above && ln -s {outside} above/shown")
        result = await sh(sandbox, f"cat above/shown/key {outside}/key; echo changed > above/shown/key")
    assert result.text == ""
    assert (outside / "key").read_text() == "a secret of the host"


@pytest.mark.parametrize("without", HOLDING)
async def test_a_workspace_that_lies_in_a_folder_to_be_written_is_not_led_out_by_a_link(
    without: tuple[Any, ...], tmp_path: Path, outside: Path
) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    async with opened(workspace, without=without, write=[str(tmp_path)]) as sandbox:
        await sh(sandbox, f"cd .. && mv project moved && ln -s {outside} project")
        try:
            told = (await sh(sandbox, f"cat key {outside}/key; echo changed > {workspace}/key")).text
        except SandboxError:  # there is no such folder any more for it to start in
            told = ""
    assert told == ""
    assert (outside / "key").read_text() == "a secret of the host"


@pytest.mark.parametrize("without", HOLDING)
async def test_a_command_does_not_get_at_what_its_sandbox_is_made_of(
    without: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with opened(tmp_path, without=without) as sandbox:
        await sh(sandbox, "for one in gnomon-sandbox-*/etc; do mv $one $one.old; ln -s /etc $one; done")
        result = await sh(sandbox, "cat /etc/shadow")
    assert result.text == ""
    assert os.listdir(tmp_path) == []


def test_where_nothing_is_left_to_keep_it_apart_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigError, match="set TMPDIR"):
        ProcessSandbox(write=[str(tmp_path)], require="none")


# --- what is shown ---------------------------------------------------------------------------


@pytest.mark.parametrize("without", HOLDING)
async def test_what_lies_in_var_tmp_can_be_shown(without: tuple[Any, ...], outside: Path) -> None:
    async with opened(read=[str(outside)], without=without) as sandbox:
        result = await sh(sandbox, f"cat {outside}/key; echo changed > {outside}/key")
    assert result.text == "a secret of the host"
