"""Containers: which engine, what an engine is asked for, what is left between two commands."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import ConfigError, InvalidInput, SandboxError, SandboxLost
from gnomon.sandboxes.container import ContainerSandbox
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult
from servers import containers

MB = 1 << 20
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def image() -> str:
    return containers.image()


@pytest.fixture(scope="module")
def shared(image: str) -> Iterator[ContainerSandbox]:
    """One for all tests that leave it as it was; each has an event loop of its own."""
    sandbox = ContainerSandbox(image, engine="podman")
    yield sandbox
    asyncio.run(sandbox.close())
    assert containers.left_of(os.getpid()) == []


@asynccontextmanager
async def opened(image: str, **settings: Any) -> AsyncGenerator[ContainerSandbox, None]:
    sandbox = ContainerSandbox(image, **{"engine": "podman", **settings})
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def sh(sandbox: ContainerSandbox, script: str, **given: Any) -> ExecResult:
    return await sandbox.execute("sh", ["-c", script], given.pop("timeout_s", PATIENCE_S), **given)


def here() -> set[str]:
    """The containers of this process."""
    return set(containers.left_of(os.getpid()))


def remove(some: set[str]) -> None:
    subprocess.run(["podman", "rm", "-f", "-t", "0", *some], capture_output=True, check=True)


async def until_there(sandbox: ContainerSandbox, path: str) -> None:
    while not await sandbox.read_file(path):  # noqa: ASYNC110 - what is waited for is in a container
        await asyncio.sleep(0.02)


# --- what a command is given ------------------------------------------------


async def test_a_command_is_nobody_in_a_world_that_it_cannot_change(shared: ContainerSandbox) -> None:
    result = await sh(
        shared, "id -u; grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; touch /x; ls /sys/class/net"
    )
    assert result.text.split() == ["1000", "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2", "lo"]
    assert b"Read-only file system" in result.stderr
    assert result.level == "container"


async def test_a_command_sees_its_variables_and_none_of_the_host(
    shared: ContainerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "s3cret")
    result = await shared.execute("env", [], PATIENCE_S, env={"GIVEN": "a b=c\nd", "PATH": "/usr/bin"})
    assert "GIVEN=a b=c\nd\n" in result.text
    assert "PATH=/usr/bin\n" in result.text
    assert "s3cret" not in result.text


async def test_the_machine_s_names_of_hosts_are_not_shown(shared: ContainerSandbox) -> None:
    assert (await sh(shared, "cat /etc/hosts")).text == "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"


async def test_files_and_folders_for_a_command_are_its_own(shared: ContainerSandbox) -> None:
    result = await sh(shared, "cat b/c && echo more > b/d && pwd", files={"b/c": b"content\n"})
    assert result.text == "content\n/workspace\n"
    assert await shared.read_file("b/d") == b"more\n"
    assert (await sh(shared, "pwd", cwd="b")).text == "/workspace/b\n"


async def test_input_reaches_a_command_whole_and_may_be_left_unread(shared: ContainerSandbox) -> None:
    big = b"x" * 5_000_000
    assert (await shared.execute("wc", ["-c"], PATIENCE_S, stdin=big)).text == "5000000\n"
    unread = await shared.execute("true", [], PATIENCE_S, stdin=big)
    assert (unread.exit_code, unread.stdout, unread.stderr) == (0, b"", b"")


async def test_a_link_that_leads_out_is_not_followed_on_the_host(shared: ContainerSandbox) -> None:
    await sh(shared, "ln -s /etc/passwd link; ln -s / root")
    with pytest.raises(InvalidInput):
        await shared.read_file("link")
    with pytest.raises(InvalidInput):
        await sh(shared, "true", files={"root/tmp/slipped": b""})
    with pytest.raises(InvalidInput):
        await sh(shared, "true", cwd="root/tmp")
    await sh(shared, "rm link root")


# --- what it comes to --------------------------------------------------------


@pytest.mark.parametrize("code", [1, 3, 125, 126, 127, 255])
async def test_a_code_is_the_command_s_own_whatever_engines_mean_by_it(
    shared: ContainerSandbox, code: int
) -> None:
    result = await sh(shared, f"echo out; echo 'Error: mine' >&2; exit {code}")
    assert (result.exit_code, result.stdout, result.stderr) == (code, b"out\n", b"Error: mine\n")
    assert result.note == ""


@pytest.mark.parametrize(
    ("command", "code", "note"),
    [
        ("no-such-program", 127, "there is no such program"),
        ("/workspace/none", 127, "there is no such program"),
        ("/etc/passwd", 126, "it cannot be executed"),
        ("/etc", 126, "it cannot be executed"),
    ],
)
async def test_a_program_that_cannot_be_run_is_a_result(
    shared: ContainerSandbox, command: str, code: int, note: str
) -> None:
    result = await shared.execute(command, [], PATIENCE_S)
    assert (result.exit_code, result.stdout, result.stderr) == (code, b"", b"")
    assert note in result.note


async def test_arguments_that_no_program_can_be_given_are_a_result(shared: ContainerSandbox) -> None:
    for words in (["x" * 200_000], ["x" * 1000] * 3000, ["a\0b"]):
        result = await shared.execute("true", words, PATIENCE_S)
        assert (result.exit_code, bool(result.note)) == (126, True)


async def test_what_was_written_before_the_deadline_is_kept(shared: ContainerSandbox) -> None:
    began = time.monotonic()
    result = await sh(shared, "trap '' TERM INT HUP; echo before; sleep 60", timeout_s=2)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, 137, b"before\n")
    assert time.monotonic() - began < 20


async def test_too_much_memory_is_a_result(shared: ContainerSandbox) -> None:
    result = await shared.execute(
        "python3", ["-c", "x = bytearray(300 << 20)"], PATIENCE_S, limits=ExecLimits(memory_bytes=64 * MB)
    )
    assert (result.oom, result.exit_code) == (True, 137)
    assert "64 MB" in result.note


async def test_processor_time_and_disk_end(shared: ContainerSandbox) -> None:
    busy = await shared.execute(
        "python3", ["-c", "while True: pass"], PATIENCE_S, limits=ExecLimits(cpu_s=0.5)
    )
    assert "processor time" in busy.note
    assert busy.exit_code
    script = "for n in 1 2 3 4 5 6 7 8; do head -c 20000000 /dev/zero > big$n; done; echo all; sleep 3"
    full = await sh(shared, script, limits=ExecLimits(disk_bytes=40 * MB))
    assert (full.exit_code, "more than 40 MB" in full.note) == (137, True)
    await sh(shared, "rm big*")


async def test_output_is_capped_while_it_is_read(shared: ContainerSandbox) -> None:
    result = await sh(
        shared, "echo first; head -c 50000000 /dev/zero; echo last", limits=ExecLimits(output_bytes=100_000)
    )
    assert result.truncated
    assert len(result.stdout) <= 100_000
    assert result.stdout.startswith(b"first\n")
    assert result.stdout.endswith(b"last\n")


async def test_output_is_shown_as_it_comes(shared: ContainerSandbox) -> None:
    seen: list[bytes] = []
    stream = shared.execute_stream("sh", ["-c", "echo one; read x; echo $x"], PATIENCE_S, stdin=b"two\n")
    async for piece in stream:
        if isinstance(piece, ExecOutput):
            seen.append(piece.data)
        else:
            assert piece.exit_code == 0
    assert b"".join(seen) == b"one\ntwo\n"


# --- between two commands ----------------------------------------------------


async def test_a_container_in_which_nothing_is_left_serves_again(image: str) -> None:
    async with opened(image) as sandbox:
        await sh(sandbox, "true")
        before = here()
        for _ in range(3):
            await sh(sandbox, "echo x > /workspace/kept")
        assert here() == before


@pytest.mark.parametrize(
    "leaves",
    [
        "setsid sleep 1000 > /dev/null 2>&1 &",
        "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &) &",
        "echo x > /tmp/left",
        "mkdir -m 0 /tmp/locked",
        "echo x > /dev/shm/left",
        "echo x > /var/tmp/left",
        "ln -s / /tmp/link",
        "sleep 1000 & kill -9 -1",
    ],
)
async def test_nothing_is_left_for_the_next_command(shared: ContainerSandbox, leaves: str) -> None:
    left = (await sh(shared, f"ls -A /tmp /var/tmp /dev/shm; {leaves}\necho done")).text
    assert left == "/dev/shm:\n\n/tmp:\n\n/var/tmp:\ndone\n"
    processes = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -A /tmp /var/tmp /dev/shm"
    left = (await sh(shared, processes)).text
    assert "sleep 1" not in left
    assert left.endswith("/dev/shm:\n\n/tmp:\n\n/var/tmp:\n")


async def test_old_kinds_of_shared_memory_keep_nothing(shared: ContainerSandbox) -> None:
    make = "import ctypes; c = ctypes.CDLL(None); print(c.msgget(7, 0o1600), c.semget(7, 1, 0o1600))"
    assert (await shared.execute("python3", ["-c", make], PATIENCE_S)).text == "-1 -1\n"
    keep = "import ctypes; c = ctypes.CDLL(None); print(c.shmget(7, 4096, {}))"
    await shared.execute("python3", ["-c", keep.format("0o1600")], PATIENCE_S)
    assert (await shared.execute("python3", ["-c", keep.format("0o600")], PATIENCE_S)).text == "-1\n"


async def test_commands_at_the_same_time_do_not_see_one_another(image: str) -> None:
    async with opened(image) as sandbox:
        named = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep '^me' | sort -u"
        script = f"echo $0 > /tmp/mine-$0; sleep 1; ls /tmp; {named}"
        results = await asyncio.gather(
            *(sandbox.execute("sh", ["-c", script, f"me{n}"], PATIENCE_S) for n in range(3))
        )
        assert [each.text.split() for each in results] == [[f"mine-me{n}", f"me{n}"] for n in range(3)]


async def test_cold_containers_serve_one_command_each(image: str) -> None:
    async with opened(image, warm=False) as sandbox:
        assert (await sh(sandbox, "cat /proc/1/stat")).text != (await sh(sandbox, "cat /proc/1/stat")).text


# --- the end ------------------------------------------------------------------


async def test_closing_ends_what_runs_and_removes_it(image: str) -> None:
    others = here()
    sandbox = ContainerSandbox(image, engine="podman")
    work = asyncio.ensure_future(sh(sandbox, "echo up > up; sleep 1000"))
    await until_there(sandbox, "up")
    assert here() - others
    await sandbox.close()
    result = await work
    assert (result.exit_code, result.note) == (137, "ended: the sandbox was closed")
    await sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        await sh(sandbox, "true")
    assert here() <= others


async def test_cancelling_ends_the_command(shared: ContainerSandbox) -> None:
    work = asyncio.ensure_future(sh(shared, "echo up > up; while sleep 0.02; do date +%N > ticks; done"))
    await until_there(shared, "ticks")
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    last = await shared.read_file("ticks")
    await asyncio.sleep(0.2)
    assert await shared.read_file("ticks") == last
    await sh(shared, "rm up ticks")


async def test_a_container_that_somebody_removes_under_a_command_is_lost(image: str) -> None:
    async with opened(image) as sandbox:
        others = here()
        work = asyncio.ensure_future(sh(sandbox, "echo up > up; sleep 1000"))
        await until_there(sandbox, "up")
        await asyncio.to_thread(remove, here() - others)
        with pytest.raises(SandboxLost):
            await work
        assert (await sh(sandbox, "echo again")).text == "again\n"


async def test_a_container_that_was_removed_while_it_waited_is_replaced(image: str) -> None:
    async with opened(image) as sandbox:
        others = here()
        await sh(sandbox, "true")
        await asyncio.to_thread(remove, here() - others)
        assert (await sh(sandbox, "echo again")).text == "again\n"


# --- what cannot be set up -----------------------------------------------------


def test_without_an_engine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("CONTAINER_HOST", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    if any(os.path.exists(path) for path in ("/run/podman/podman.sock", "/var/run/docker.sock")):
        pytest.skip("this machine has an engine on a socket that cannot be hidden")
    with pytest.raises(SandboxError, match="no program in PATH, and no socket") as caught:
        ContainerSandbox("some:image")
    assert caught.value.hint is not None
    assert "install podman" in caught.value.hint


def test_a_socket_where_nobody_answers_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=f"{tmp_path}/none.sock does not answer"):
        ContainerSandbox("some:image", engine=f"{tmp_path}/none.sock")


def test_an_image_that_is_missing_is_named_and_how_to_get_it(image: str) -> None:
    with pytest.raises(SandboxError, match="has no image 'localhost/none:1'") as caught:
        ContainerSandbox("localhost/none:1", engine="podman")
    assert caught.value.hint is not None
    assert "podman pull localhost/none:1" in caught.value.hint


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": "kvm"},
        {"user": "root"},
        {"require": "vault"},
        {"cpus": 0.0},
        {"limits": ExecLimits(processes=0)},
    ],
)
def test_settings_that_mean_nothing_are_refused(image: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ContainerSandbox(image, **{"engine": "podman", **settings})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders of root's")
def test_nobody_becomes_root_for_a_workspace_without_being_told_to(image: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="belongs to root"):
        ContainerSandbox(image, engine="podman", workspace=tmp_path)


async def test_a_workspace_is_shared_with_the_host(image: str, tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    (tmp_path / "in").write_text("from the host\n")
    async with opened(image, workspace=tmp_path) as sandbox:
        assert (await sh(sandbox, "cat in; id -u; echo back > out")).text == "from the host\n1234\n"
    assert (tmp_path / "out").read_text() == "back\n"
