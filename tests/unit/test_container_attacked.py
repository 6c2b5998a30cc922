"""Ways out of `ContainerSandbox` and its limits that were there once, and what engines make of odd cases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gnomon.sandboxes.container import ContainerSandbox
from gnomon.types.steps import ExecResult
from servers import containers

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
