"""A program that forgets to close its agent ends at once and in silence, and its sessions are at rest."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon import registry

PROGRAM = """
import asyncio, sys
from gnomon import Agent
from gnomon.testing import ScriptedProvider

async def main():
    agent = Agent(ScriptedProvider(lambda request: "done"), storage=sys.argv[1])
    print({ask})

asyncio.run(main())
"""

WAYS = {
    "run": '(await agent.run("hello")).text',
    "session": '(await agent.session("chat").run("hello")).text',
    "detached": '[type(event).__name__ async for event in agent.stream("hello", on_leave="detach")][-1]',
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_does_not_close_its_agent_ends_in_silence(way: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    program = PROGRAM.replace("{ask}", WAYS[way])
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::ResourceWarning", "-c", program, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = [line for line in ended.stderr.splitlines() if not line.startswith("Executing <")]
    assert (ended.returncode, told) == (0, [])
    assert ended.stdout.strip() in ("done", "TurnFinished")
    assert asyncio.run(states(url)) == [("idle", False)]


async def states(url: str) -> list[tuple[str, bool]]:
    store = registry.storage(url)
    try:
        return [(row.status, row.runnable) for row in (await store.list_sessions()).items]
    finally:
        await store.close()
