"""Commands that do not want to end: they are back by their deadline, and nothing of them is left (X1, X6)."""

from __future__ import annotations

import asyncio
import secrets

from gnomon.contracts.sandbox import Sandbox
from gnomon.errors import SandboxError
from gnomon.testing import _sandbox_programs as attack
from gnomon.testing._sandbox_host import alive, end_all
from gnomon.testing._sandbox_suite import (
    MB,
    SandboxSuite,
    attempts,
    by_deadline,
    expect_nothing,
    expect_ok,
    program,
    raised,
    run,
    sh,
)
from gnomon.testing._suite import expect
from gnomon.types.steps import ExecResult

__all__ = ["SandboxTime"]

_DEADLINE_S = 0.6
_SOON_S = 10.0
"""How long the end of a command may take on a loaded machine. None of them ends by itself in that time."""
_LOOKS = 200
_ROUNDS = (0, 1, 2, 3, 5, 8, 13)

_STUBBORN = {
    "it sleeps": "echo first; sleep 20",
    "it ignores what is meant to end it": "trap '' TERM INT HUP QUIT; echo first; sleep 20; sleep 20",
    "it is busy": "echo first; at=0; while [ $at -lt 20000000 ]; do at=$((at + 1)); done",
    "it has stopped": "echo first; kill -STOP $$; sleep 20",
    "it writes": "echo first; sleep 20 & yes | head -c 500000000; wait",
    "a child of a child holds its output": "echo first; (sleep 20 & ) ; sleep 20",
    "its output is held after its end": "echo first; (trap '' HUP; sleep 20) & exit 0",
    "it never reads": "echo first; exec 3<&0; sleep 20",
}

# It beats until nobody lets it any more, and then only for a while.
_BEAT = "at=0; while [ $at -lt 400 ]; do echo >> beat; sleep 0.05; at=$((at + 1)); done"


class SandboxTime(SandboxSuite):
    """The part of the suite about ends."""

    async def test_every_command_is_back_by_its_deadline(self) -> None:
        """X1: whatever it does, with what it has written so far."""
        async with self.open() as sandbox:
            for what, result in zip(_STUBBORN, await _a_few_at_a_time(sandbox), strict=True):
                expect(f"{what}: what it wrote first", b"first\n", result.stdout[:6])
                if "after its end" not in what:
                    expect(f"{what}: timed_out", True, result.timed_out)
            unread = await by_deadline(sandbox, _STUBBORN["it never reads"], _DEADLINE_S, stdin=b"x" * 4 * MB)
            expect("with input that it does not read: timed_out", True, unread.timed_out)
            expect_ok("the next command", await sh(sandbox, "exit 0"))

    async def test_nothing_outlives_a_command(self) -> None:
        """X1: neither after its end nor after its deadline, whatever sessions and parents it has chosen."""
        self.needs("descendants")
        word = f"gnomon-{secrets.token_hex(8)}"
        try:
            async with self.open() as sandbox:
                await attempts(self, sandbox, attack.descend, word)
                expect_nothing("left after its end", alive(word))
                given = program(attack.descend, word)
                given[3] += "\nimport time; time.sleep(20)"
                result = await run(sandbox, self.needs_python(), *given, timeout_s=1)
                expect("timed_out", True, result.timed_out)
                expect_nothing("left after its deadline", alive(word))
        finally:
            end_all(word)

    async def test_nothing_of_a_command_works_on(self) -> None:
        """X1: the same, seen from inside, and with a shell alone."""
        self.needs("descendants")
        script = f"({_BEAT}) & (trap '' TERM HUP; {_BEAT}) & ( ({_BEAT}) & ) ; sleep 0.2; exit 0"
        async with self.open() as sandbox:
            expect_ok("a command that leaves others behind", await sh(sandbox, script))
            await _expect_silence(sandbox, "after its end")

    async def test_cancelling_ends_the_command(self) -> None:
        """X1: as a timeout does; the sandbox goes on, whenever it was."""
        async with self.open() as sandbox:
            running = asyncio.ensure_future(sh(sandbox, _BEAT))
            await _until_it_beats(sandbox)
            running.cancel()
            await _ended(running, "a command that was cancelled")
            expect("how it ended", True, running.cancelled())
            await _expect_silence(sandbox, "after it was cancelled")
            for rounds in _ROUNDS:
                running = asyncio.ensure_future(sh(sandbox, "sleep 20"))
                for _ in range(rounds):
                    await asyncio.sleep(0)
                running.cancel()
                await _ended(running, f"a command that was cancelled after {rounds} rounds")
            expect_ok("the next command", await sh(sandbox, "exit 0"))

    async def test_close_ends_what_runs(self) -> None:
        """X6: it comes to a result or to a SandboxError, and nothing is left of it."""
        word = f"gnomon-{secrets.token_hex(8)}"
        try:
            async with self.open() as sandbox:
                running = [asyncio.ensure_future(raised(sh(sandbox, _BEAT, word))) for _ in range(2)]
                await _until_it_beats(sandbox)
                await asyncio.gather(sandbox.close(), sandbox.close())
                for each in running:
                    await _ended(each, "a command whose sandbox was closed")
                    found = each.result()
                    expect("what it came to", True, isinstance(found, ExecResult | SandboxError))
                expect_nothing("left after close", alive(word))
                await sandbox.close()
        finally:
            end_all(word)


async def _a_few_at_a_time(sandbox: Sandbox) -> list[ExecResult]:
    """What the stubborn ones come to, four of them at once."""
    room = asyncio.Semaphore(4)

    async def one(script: str) -> ExecResult:
        async with room:
            return await by_deadline(sandbox, script, _DEADLINE_S)

    return await asyncio.gather(*map(one, _STUBBORN.values()))


async def _ended(running: asyncio.Future[object] | asyncio.Task[ExecResult], what: str) -> None:
    await asyncio.wait({running}, timeout=_SOON_S)
    if not running.done():
        running.cancel()
        raise AssertionError(f"{what}: not back after {_SOON_S:g} s")


async def _until_it_beats(sandbox: Sandbox) -> None:
    for _ in range(_LOOKS):
        if (await sh(sandbox, "wc -c < beat")).text.strip() not in ("", "0"):
            return
    raise AssertionError("a command that runs beside another is not seen in their workspace")


async def _expect_silence(sandbox: Sandbox, when: str) -> None:
    """Nobody beats any more."""
    seen = [(await sh(sandbox, f"sleep {pause}; wc -c < beat")).text for pause in (0, 0.3)]
    expect(f"what is still written {when}", seen[0], seen[1])
