"""Commands that do not end, and those who wait beside them: pains of others, each with what avoids it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from commanded import LOCAL, agent_on, sandbox_on
from faced import PATIENCE_S, WAYS, Faced, faced, longest_gap_s, until

from gnomon import Agent, Workspace
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.tools import _running
from gnomon.tools.shell import ShellTool
from gnomon.types.events import TextDelta
from gnomon.types.requests import Request
from gnomon.types.steps import ExecLimits, ExecResult
from sandboxed import left_of, mark, until_running

SOON_S = 4.0
"""By when a command whose time is up is over on a machine that is busy with other things."""


# --- 34 ---------------------------------------------------------------------------

STUBBORN = {
    "it sleeps": "sleep {0}",
    "it ignores what is meant to end it": "trap '' TERM INT HUP; sleep {0}; sleep {0}",
    "it waits for what ignores it": "(trap '' TERM INT HUP; sleep {0}) & wait",
    "a child of a child holds its output": "(sleep {0} &); sleep {0}",
    "in a session of its own": "setsid sleep {0} & setsid sleep {0} & sleep {0}",
    "it has stopped": "sleep {0} & kill -STOP $$",
    "it writes": "sleep {0} & yes",
    "it is busy": "sleep {0} & while :; do :; done",
    "it is no shell": "python3 -c 'import os, signal; signal.signal(15, 1); os.system(\"sleep {0}\")'",
}


async def commanded(way: str, rung: str, folder: Path, command: str, timeout_s: float) -> Faced:
    sandbox = sandbox_on(rung, folder, limits=ExecLimits(output_bytes=10_000))
    first = calls("shell", command=command, timeout_s=timeout_s)
    try:
        return await faced(way, "shell", first=first, workspace=folder, sandbox=sandbox)
    finally:
        await sandbox.close()


@pytest.mark.parametrize("command", STUBBORN)
@pytest.mark.parametrize("rung", LOCAL)
async def test_pain_34_a_timeout_that_does_not_time_out_is_none_whatever_a_command_does(
    rung: str, command: str, tmp_path: Path
) -> None:
    """The caller goes on at the deadline with what was written so far, and nothing of it is left."""
    marked = mark()
    line = "echo first; " + STUBBORN[command].format(marked)
    found = await commanded("run", rung, tmp_path, line, timeout_s=0.5)
    assert found.result.status == "error"
    assert found.result.text.startswith("first\n")
    assert found.result.text.endswith("[ended: its time of 0.5 s was up]")
    assert found.result.meta["timed_out"] is True
    assert found.took_s < SOON_S
    assert left_of(marked, within_s=0) == []


@pytest.mark.parametrize("way", WAYS)
async def test_pain_34_a_timeout_that_does_not_time_out_is_none_whoever_asks(
    way: str, tmp_path: Path
) -> None:
    marked = mark()
    command = f"trap '' TERM; (sleep {marked} &); sleep {marked}"
    found = await commanded(way, "bubblewrap", tmp_path, command, timeout_s=0.5)
    assert (found.result.meta["timed_out"], found.took_s < SOON_S) == (True, True)
    assert left_of(marked, within_s=0) == []


@pytest.mark.parametrize("rung", LOCAL)
async def test_pain_34_a_timeout_that_does_not_time_out_nor_is_an_output_waited_for_that_somebody_holds(
    rung: str, tmp_path: Path
) -> None:
    """The end of a command is its end, whoever has its pipe."""
    marked = mark()
    command = f"echo done; (trap '' TERM HUP; sleep {marked}) & exit 0"
    found = await commanded("run", rung, tmp_path, command, timeout_s=30)
    assert (found.result.text, found.result.status) == ("done", "ok")
    assert found.took_s < SOON_S
    assert left_of(marked, within_s=0) == []


@pytest.mark.parametrize("rung", LOCAL)
async def test_pain_34_a_timeout_that_does_not_time_out_nor_a_cancel_that_does_not_cancel_a_command(
    rung: str, tmp_path: Path
) -> None:
    marked = mark()
    command = f"trap '' TERM INT HUP; (sleep {marked} &); sleep {marked}"
    provider = ScriptedProvider(
        [calls("shell", command=command), says("Still here.").expecting(text="And now?")]
    )
    async with agent_on(rung, tmp_path, provider) as agent, asyncio.timeout(PATIENCE_S):
        session = agent.session("one")
        await session.send("Go.")
        await until_running(marked)
        started = time.monotonic()
        await session.cancel("now")
        assert time.monotonic() - started < SOON_S
        assert (await session.turn_result()).stop == "cancelled"
        assert left_of(marked) == []
        assert (await session.run("And now?")).text == "Still here."


class Hanging:
    """A sandbox of somebody else's that never comes back."""

    def __init__(self) -> None:
        self.running = 0

    async def execute(self, *_: object, **__: object) -> ExecResult:
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1
        raise AssertionError

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("way", WAYS)
async def test_pain_34_a_timeout_that_does_not_time_out_is_not_that_of_a_sandbox_either(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a limit around it that asks nobody."""
    monkeypatch.setattr(_running, "_AROUND_S", 0.3)
    sandbox: Any = Hanging()
    workspace = Workspace(tmp_path, sandbox=sandbox)
    made = ShellTool(workspace, timeout_s=0.1, longest_s=0.1)
    found = await faced(way, made, first=calls("shell", command="true"))
    assert (found.result.status, found.took_s < SOON_S) == ("timeout", True)
    await until(lambda: not sandbox.running)


# --- 36 ---------------------------------------------------------------------------

_WAITS = "echo begun >> begun; until [ -e go ]; do sleep 0.2; done; echo released"
_FLOODS = "echo begun >> begun; until [ -e go ]; do head -c 5000000 /dev/zero; done; echo released"


@pytest.mark.parametrize("rung", LOCAL)
@pytest.mark.parametrize(("command", "count"), [(_WAITS, 1), (_WAITS, 20), (_FLOODS, 2)])
async def test_pain_36_async_in_name_only_a_command_does_not_hold_up_the_streams_of_others(
    rung: str, command: str, count: int, tmp_path: Path
) -> None:
    """While one session waits for its command, or twenty do, or some are flooded, all others go on."""

    def script(request: Request) -> Line:
        last = request.messages[-1]
        if last.role == "tool":
            return says("Done.") if "released" in last.tool_results[0].text else says("Hm.")
        return calls("shell", command=command) if last.text == "work" else says("word " * 40)

    stop = asyncio.Event()
    provider = ScriptedProvider(script, delay_s=0.005)
    async with agent_on(rung, tmp_path, provider) as agent, asyncio.timeout(2 * PATIENCE_S):
        working = [asyncio.create_task(agent.run("work")) for _ in range(count)]
        watching = asyncio.create_task(longest_gap_s(stop))
        await until(lambda: _lines(tmp_path / "begun") == count, limit_s=PATIENCE_S)
        streams = await asyncio.gather(*(_words(agent) for _ in range(5)))
        assert not any(task.done() for task in working), "they ran all the time"
        stop.set()
        (tmp_path / "go").touch()
        assert [turn.text for turn in await asyncio.gather(*working)] == ["Done."] * count
    assert await watching < 0.4
    assert all(words > 1 for words in streams)


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


async def _words(agent: Agent) -> int:
    """How many pieces a text came in."""
    async with agent.stream("talk") as run:
        return len([event async for event in run if isinstance(event, TextDelta)])
