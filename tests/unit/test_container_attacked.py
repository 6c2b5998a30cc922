"""Ways out of `ContainerSandbox` and its limits that were there once, and what engines make of odd cases."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import ConfigError, InvalidInput, SandboxError
from gnomon.sandboxes._engines import engine_for
from gnomon.sandboxes.container import ContainerSandbox
from gnomon.types.steps import ExecLimits, ExecResult
from servers import containers, images

MB = 1 << 20
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def image() -> str:
    return containers.image()


@asynccontextmanager
async def opened(image: str, **settings: Any) -> AsyncGenerator[ContainerSandbox, None]:
    sandbox = ContainerSandbox(image, **{"engine": "podman", **settings})
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def sh(sandbox: ContainerSandbox, script: str, **given: Any) -> ExecResult:
    return await sandbox.execute("sh", ["-c", script], given.pop("timeout_s", PATIENCE_S), **given)


@pytest.fixture
def image_with_volumes(image: str) -> Iterator[str]:
    name = f"localhost/gnomon-test-volume:{os.getpid()}"
    asks = ["--change", "VOLUME /var/lib/data", "--change", "VOLUME /workspace"]
    subprocess.run(["podman", "import", *asks, images.archive(), name], capture_output=True, check=True)
    yield name
    subprocess.run(["podman", "rmi", name], capture_output=True, check=True)


async def test_a_volume_that_an_image_asks_for_is_a_folder_of_the_command_s_own(
    image_with_volumes: str,
) -> None:
    async with opened(image_with_volumes, limits=ExecLimits(disk_bytes=30 * MB)) as sandbox:
        fill = "cd /var/lib/data && for n in 1 2 3; do head -c 20000000 /dev/zero > $n; done; ls | wc -l"
        full = await sh(sandbox, fill)
        assert full.text.split() == ["3"]
        assert b"No space left" in full.stderr
        assert (await sh(sandbox, "ls /var/lib/data; touch kept")).text == ""
        assert await sandbox.list_files() == ["kept"]


async def test_tmp_that_fills_the_memory_is_a_result(image: str) -> None:
    async with opened(image, limits=ExecLimits(memory_bytes=64 * MB)) as sandbox:
        fill = "; ".join(
            f"head -c 100000000 /dev/zero > {each}/x" for each in ("/tmp", "/var/tmp", "/dev/shm")
        )
        for _ in range(3):
            result = await sh(sandbox, f"{fill}; ls -l /tmp; df")
            assert (result.exit_code, result.oom) == (137, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may spare a process")
async def test_for_want_of_memory_the_kernel_ends_commands_and_not_their_container(image: str) -> None:
    async with opened(image) as sandbox:
        assert (await sh(sandbox, "cat /proc/1/oom_score_adj /proc/self/oom_score_adj")).text == "0\n500\n"


async def test_a_timeout_after_a_want_of_memory_is_no_want_of_memory(image: str) -> None:
    async with opened(image, limits=ExecLimits(memory_bytes=64 * MB)) as sandbox:
        assert (await sh(sandbox, "python3 -c 'x = bytearray(300 << 20)'; true")).oom
        late = await sh(sandbox, "sleep 60", timeout_s=1.0)
        assert (late.timed_out, late.oom) == (True, False)


@pytest.mark.parametrize(
    "limits",
    [
        ExecLimits(cpu_s=float("nan")),
        ExecLimits(cpu_s=float("inf")),
        ExecLimits(memory_bytes=-1),
    ],
)
async def test_limits_that_are_no_numbers_are_refused(image: str, limits: ExecLimits) -> None:
    async with opened(image) as sandbox:
        with pytest.raises(ConfigError, match="is a number of more than 0"):
            await sh(sandbox, "true", limits=limits)


async def test_limits_beyond_all_that_there_is_are_taken(image: str) -> None:
    most = ExecLimits(memory_bytes=2**70, disk_bytes=2**70, processes=10**12, cpu_s=1e30)
    async with opened(image) as sandbox:
        assert (await sh(sandbox, "echo ran", limits=most)).text == "ran\n"


async def test_a_part_of_a_byte_of_memory_is_not_all_of_it(image: str) -> None:
    async with opened(image) as sandbox:
        half: Any = 0.5
        with pytest.raises(SandboxError, match="give memory_bytes more"):
            await sh(sandbox, "true", limits=ExecLimits(memory_bytes=half))


# --- what a command writes, and is given -----------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "in the log: OCI runtime error, no such file or directory",
        "in the log: OCI runtime error",
        "unable to start container process",
        "line one\\nError: runc: exec failed: OCI permission denied",
    ],
)
async def test_a_command_may_write_of_engines(image: str, said: str) -> None:
    async with opened(image) as sandbox:
        for code in (1, 127):
            result = await sh(sandbox, f"printf '{said}'; exit {code}")
            assert (result.exit_code, result.note) == (code, "")
            assert result.text == said.replace("\\n", "\n")


async def test_words_that_engines_cannot_be_told_are_a_result(image: str) -> None:
    async with opened(image) as sandbox:
        no_text = "\udcff"
        for command, args, env in (
            (no_text, [], {}),
            ("true", [no_text], {}),
            ("true", [], {"NAME": no_text}),
        ):
            result = await sandbox.execute(command, args, PATIENCE_S, env=env)
            assert (result.exit_code, "UTF-8" in result.note) == (126, True)


async def test_input_and_times_that_are_none_are_refused(image: str) -> None:
    text: Any = "text"
    async with opened(image) as sandbox:
        with pytest.raises(InvalidInput, match="is bytes, not str"):
            await sh(sandbox, "cat", stdin=text)
        with pytest.raises(InvalidInput, match="time limit in seconds"):
            await sh(sandbox, "true", timeout_s=float("inf"))


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\nb", "a\udcffb"])
async def test_a_workspace_that_engines_cannot_be_told_is_refused(
    image: str, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigError, match="cannot show a command the folder"):
        ContainerSandbox(image, engine="podman", workspace=tmp_path / name, user="1000")


def test_processors_without_end_are_refused(image: str) -> None:
    for cpus in (float("inf"), float("nan"), -1.0):
        with pytest.raises(ConfigError, match="processors"):
            ContainerSandbox(image, engine="podman", cpus=cpus)


# --- between two commands -----------------------------------------------------------

_BEGAN = "awk '{print $22}' /proc/1/stat"
"""When the container was started."""


@pytest.mark.parametrize(
    ("leaves", "looks"),
    [
        ("rm /dev/zero", "ls /dev"),
        ("chmod 0 /dev/null", "ls -l /dev/null"),
        ("chmod 700 /tmp", "ls -ld /tmp"),
        ("""python3 -c 'import os; os.setxattr("/tmp", "user.a", b"left")' 2>&1""", "ls /dev"),
    ],
)
async def test_root_in_a_container_leaves_nothing_to_the_next(image: str, leaves: str, looks: str) -> None:
    async with opened(image, user="0:0") as sandbox:
        before = await sh(sandbox, f"{looks} | sed 's/ [A-Z].*//'; {_BEGAN}")
        left = await sh(sandbox, leaves)
        after = await sh(sandbox, f"{looks} | sed 's/ [A-Z].*//'; {_BEGAN}")
        *looked, keeper = after.text.splitlines()
        assert looked == before.text.splitlines()[:-1]
        assert left.exit_code or keeper != before.text.splitlines()[-1]  # kernels may refuse it


async def test_a_container_that_was_used_and_left_as_it_was_serves_again(image: str) -> None:
    async with opened(image) as sandbox:
        uses = f"echo x > /tmp/x; rm /tmp/x; echo x > /dev/null; head -c 9 /dev/urandom > y; {_BEGAN}"
        assert (await sh(sandbox, uses)).text == (await sh(sandbox, uses)).text


# --- its life ---------------------------------------------------------------------


async def test_a_service_that_was_killed_between_two_commands_is_started_again(image: str) -> None:
    async with opened(image) as sandbox:
        for _ in range(4):
            assert (await sh(sandbox, "echo up")).text == "up\n"
            engine = sandbox._engine
            assert engine._service is not None
            os.kill(engine._service.pid, signal.SIGKILL)
            await asyncio.sleep(0.3)


def test_an_engine_that_was_closed_starts_no_service(image: str) -> None:
    engine = engine_for("podman")
    service = engine._service
    assert service is not None
    engine.close()
    if not service.is_up():  # nobody else has it
        with pytest.raises(SandboxError, match="does not answer"):
            engine.call("GET", "/version")
        assert not service.is_up()


def test_closing_on_another_event_loop_ends_what_runs_at_once(image: str) -> None:
    sandbox = ContainerSandbox(image, engine="podman")
    results: list[ExecResult] = []
    work = threading.Thread(target=lambda: results.append(asyncio.run(sh(sandbox, "echo > up; sleep 1000"))))
    work.start()
    while asyncio.run(sandbox.read_file("up")) is None:
        time.sleep(0.05)
    began = time.monotonic()
    asyncio.run(sandbox.close())
    assert time.monotonic() - began < 4
    work.join()
    assert results[0].note == "ended: the sandbox was closed"


_FORKS = """
import asyncio, os, sys
from gnomon.sandboxes.container import ContainerSandbox
sandbox = ContainerSandbox(sys.argv[1], engine="podman")
asyncio.run(sandbox.execute("touch", ["kept"], 60))
if (child := os.fork()) == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(asyncio.run(sandbox.execute("ls", [], 60)).text, end="")
asyncio.run(sandbox.close())
print(os.path.exists(sandbox.workspace))
"""


def test_the_end_of_a_fork_takes_nothing_from_the_program(image: str) -> None:
    words = [sys.executable, "-c", _FORKS, image]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == ("kept\nFalse\n", "")


# --- which engine ------------------------------------------------------------------


def test_an_engine_elsewhere_that_is_named_is_said_to_be_of_no_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PATH", "HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    if os.path.exists("/var/run/docker.sock"):
        pytest.skip("this machine has Docker on a socket that cannot be hidden")
    with pytest.raises(SandboxError, match="DOCKER_HOST must begin with unix://"):
        engine_for("docker")
