"""Tools that run things in a sandbox: where they are tried, and what is left of what they have run."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gnomon import Tool, ToolContext, ToolProgress, ToolResult
from gnomon.contracts.tool import SupportsProgress
from gnomon.sandboxes._survey import Protection
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.testing import SandboxContract
from gnomon.tools.workspace import Workspace

RUNGS: list[tuple[Protection, ...]] = [(), ("cgroups",), ("bubblewrap",)]
"""What is left out of a sandbox that still keeps a command from the host."""

_SOAK = os.environ.get("GNOMON_SOAK") == "1"
_SEED = int(os.environ.get("GNOMON_TEST_SEED") or "1")
_CHECKS = sorted(name for name in dir(SandboxContract) if name.startswith("test_"))
_SAMPLED = _CHECKS if _SOAK else random.Random(_SEED).sample(_CHECKS, 8)


def sample(request: pytest.FixtureRequest, why: str) -> None:
    """Skips a check of the suite unless it is one of a few, which are others with another seed."""
    if request.node.name not in _SAMPLED:
        pytest.skip(f"{why}: `make soak` runs the whole suite")


@asynccontextmanager
async def placed(
    folder: Path | None, *, without: Sequence[Protection] = (), **settings: Any
) -> AsyncIterator[Workspace]:
    """A workspace whose sandbox is on that rung."""
    sandbox = ProcessSandbox(folder, without=without, **settings)
    try:
        async with Workspace(folder, sandbox=sandbox) as workspace:
            yield workspace
    finally:
        await sandbox.close()


async def steps_of(tool: Tool, **arguments: object) -> list[ToolProgress | ToolResult]:
    """What it shows, and the result."""
    assert isinstance(tool, SupportsProgress)
    stream = tool.execute_stream(json.dumps(arguments), ToolContext(call_id="call_1"))
    return [step async for step in stream]


async def result_of(tool: Tool, **arguments: object) -> ToolResult:
    return await tool.execute(json.dumps(arguments), ToolContext(call_id="call_1"))


# --- processes ------------------------------------------------------------------


def mark() -> str:
    """Some seconds that nobody else sleeps, so that a process that does is known by them."""
    return f"3{random.randint(10, 99)}.{random.randrange(10**9):09}"


def processes(marked: str) -> list[int]:
    """Those that have the mark among their arguments, whoever they belong to."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and marked.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                found.append(int(entry))
    return found


async def until_running(marked: str) -> None:
    async with asyncio.timeout(20):
        while not processes(marked):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def left_of(marked: str, *, within_s: float = 5.0) -> list[int]:
    """The processes that are still there after a while; none as soon as there is none."""
    until = time.monotonic() + within_s
    while (found := processes(marked)) and time.monotonic() < until:
        time.sleep(0.01)
    return found
