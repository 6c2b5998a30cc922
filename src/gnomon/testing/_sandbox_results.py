"""What a command is given and what comes back: whatever goes wrong with it is a result."""

from __future__ import annotations

import asyncio
import math

from gnomon.contracts.sandbox import Sandbox
from gnomon.errors import InvalidInput, SandboxError
from gnomon.testing._sandbox_suite import MB, SandboxSuite, expect_ok, raised, run, sh, shown
from gnomon.testing._suite import expect, expect_some
from gnomon.types.steps import ExecLimits, ExecResult

__all__ = ["SandboxResults"]

_NOT_FOUND, _NOT_RUN = 127, 126
_LONGEST_ARGUMENT = 200_000
"""More than the 128 kB that Linux takes as one argument."""
_MANY_ARGUMENTS = 80
"""Of 120 kB each: more than it takes in all, whatever the limit of the stack."""


class SandboxResults(SandboxSuite):
    """The part of the suite about results."""

    async def test_a_command_gives_its_output_and_its_exit_code(self) -> None:
        """Both streams as they are, byte by byte, and nothing else."""
        async with self.open() as sandbox:
            result = await sh(sandbox, "printf out; printf err >&2; exit 3")
            expect("the result", (3, b"out", b"err"), (result.exit_code, result.stdout, result.stderr))
            expect("the level", self.level, result.level)
            flags = (result.timed_out, result.truncated, result.oom, result.note)
            expect("timed_out, truncated, oom and note", (False, False, False, ""), flags)
            expect("whether it took any time", True, result.duration_s > 0)
            data = bytes(range(256)) * 40
            expect("what cat gives", data, (await run(sandbox, "cat", stdin=data)).stdout)

    async def test_arguments_arrive_as_they_are(self) -> None:
        """No shell is between: nothing in them is expanded, split or dropped."""
        words = ["", " ", "a b", "$HOME", "*", "'\"\\", "-n", "--", "a\nb", "crème 🦀", ";true", "\udc80"]
        async with self.open() as sandbox:
            result = await sh(sandbox, 'for word; do printf "%s\\0" "$word"; done', *words)
            found = result.stdout.decode(errors="surrogateescape").split("\0")[:-1]
            expect("the arguments of a command", words, found)

    async def test_a_command_ended_by_a_signal_says_which(self) -> None:
        """128 and the number of the signal."""
        async with self.open() as sandbox:
            for number in (9, 15, 6, 11):
                result = await sh(sandbox, f"kill -{number} $$; sleep 5")
                expect(f"the exit code after signal {number}", 128 + number, result.exit_code)
                expect("timed_out", False, result.timed_out)

    async def test_a_command_that_cannot_be_started_is_a_result(self) -> None:
        """127 where there is none, 126 where it is no program."""
        async with self.open() as sandbox:
            for missing in ("no-such-program-here", "/no/such/program", "./missing"):
                result = await run(sandbox, missing)
                expect(f"the exit code of {missing!r}", _NOT_FOUND, result.exit_code)
                expect("the level", self.level, result.level)
            await sh(sandbox, "mkdir folder; chmod 644 plain", files={"plain": b"#!/bin/sh\nexit 0\n"})
            for path in ("./plain", "./folder", "/"):
                result = await run(sandbox, path)
                expect(f"the exit code of {path!r}", _NOT_RUN, result.exit_code)
            expect_ok("the next command", await sh(sandbox, "exit 0"))

    async def test_arguments_that_no_command_can_have_are_a_result(self) -> None:
        """Too long, too many, with a NUL: not run, and said so."""
        long, piece = "x" * _LONGEST_ARGUMENT, "x" * 120_000
        async with self.open() as sandbox:
            cases = {
                "an argument that is too long": await run(sandbox, "true", long),
                "arguments that are too long together": await run(
                    sandbox, "true", *[piece] * _MANY_ARGUMENTS
                ),
                "an argument with a NUL": await run(sandbox, "true", "a\0b"),
                "a command with a NUL": await run(sandbox, "tr\0ue"),
                "a command that is too long": await run(sandbox, long),
                "no command": await run(sandbox, ""),
                "a variable that is too long": await run(sandbox, "true", env={"LONG": long}),
            }
            for what, result in cases.items():
                if result.exit_code not in (_NOT_RUN, _NOT_FOUND):
                    raise AssertionError(f"{what}: expected exit code 126, found {shown(result)}")
                expect_some(f"the note on {what}", result.note)
            expect_ok("the next command", await sh(sandbox, "exit 0"))

    async def test_what_is_no_text_is_refused_or_not_run(self) -> None:
        """Half a surrogate, a NUL in a variable: never an error of Python's own."""
        async with self.open() as sandbox:
            for what, running in {
                "an argument": run(sandbox, "true", "\ud800"),
                "a variable with a NUL": run(sandbox, "true", env={"A": "b\0c"}),
                "a name with a NUL": run(sandbox, "true", env={"A\0": "b"}),
                "a name that is none": run(sandbox, "true", env={"A=B": "c"}),
            }.items():
                found = await raised(running)
                is_refused = isinstance(found, ExecResult) and found.exit_code == _NOT_RUN
                expect(f"whether {what} is refused", True, is_refused or isinstance(found, InvalidInput))

    async def test_a_timeout_that_is_none_is_refused(self) -> None:
        """Before anything is run."""
        async with self.open() as sandbox:
            for timeout_s in (0.0, -1.0, math.nan):
                found = await raised(sh(sandbox, "echo x > run", timeout_s=timeout_s))
                expect(f"the error for a timeout of {timeout_s}", InvalidInput, type(found))
            expect("what was run", "", (await sh(sandbox, "ls")).text)

    # --- input

    async def test_input_is_read_to_its_end(self) -> None:
        """All of it, NULs too; without any it ends at once."""
        data = (b"0123456789abcde\0" * 65_536)[:MB]
        async with self.open() as sandbox:
            result = await run(sandbox, "cat", stdin=data, limits=ExecLimits(output_bytes=4 * MB))
            expect("whether a megabyte of input is given back", True, result.stdout == data)
            for nothing in (None, b""):
                result = await run(sandbox, "cat", stdin=nothing, timeout_s=10)
                expect("what cat gives without input", (0, b""), (result.exit_code, result.stdout))

    async def test_input_that_nobody_reads_is_no_matter(self) -> None:
        """Whoever ends without reading it has ended; whoever does not end is ended."""
        async with self.open() as sandbox:
            for script in ("exit 4", "exec <&-; exit 4", "head -c 1 > /dev/null; exit 4"):
                result = await sh(sandbox, script, stdin=b"x" * 8 * MB)
                expect(f"the exit code of {script!r}", 4, result.exit_code)
            result = await sh(sandbox, "sleep 20", stdin=b"x" * 8 * MB, timeout_s=0.5)
            expect("timed_out", True, result.timed_out)

    async def test_a_command_that_closes_its_streams_is_waited_for(self) -> None:
        """Its end is its end, and not that of its output."""
        script = "exec <&- >&- 2>&-; sleep 0.2; : > done; exit 5"
        async with self.open() as sandbox:
            expect("the exit code", 5, (await sh(sandbox, script)).exit_code)
            expect("what it did after that", "done\n", (await sh(sandbox, "ls")).text)

    # --- one after another, and side by side

    async def test_a_workspace_is_shared(self) -> None:
        """By all commands of a sandbox, and by those of no other. It is where they start."""
        async with self.open() as sandbox, self.open() as other:
            expect_ok("writing", await sh(sandbox, "mkdir -p a/b; echo one > a/b/c"))
            expect("reading", "one\n", (await sh(sandbox, "cat a/b/c")).text)
            expect("the workspace of another sandbox", "", (await sh(other, "ls")).text)

    async def test_nothing_private_is_left_for_the_next_command(self) -> None:
        """Whatever is written to where everybody may write, and memory that is shared by name."""
        self.needs("tmp")
        async with self.open() as sandbox:
            await sh(sandbox, _LEAVE)
            result = await sh(sandbox, _FIND)
            expect("what a command finds of the one before", "", result.text)
            if self.python:
                key = ["-I", "-S", "-c", _SHARED_MEMORY]
                expect("shared memory", "made", (await run(sandbox, self.python, *key, "make")).text.strip())
                found = (await run(sandbox, self.python, *key, "find")).text.strip()
                expect("shared memory of the command before", "none", found)

    async def test_two_commands_at_a_time_do_not_meet(self) -> None:
        """Each has its own place for what is temporary, its own output and its own end."""
        self.needs("tmp")
        async with self.open() as sandbox:
            one, other = await _both(sandbox, "one", "other")
            expect("what each of them finds of its own", ("one", "other"), (one.text, other.text))
            expect("how they end", (0, 0), (one.exit_code, other.exit_code))

    async def test_a_command_may_spoil_its_workspace(self) -> None:
        """It can fill it with oddities, or remove it; the next one runs."""
        async with self.open() as sandbox:
            for script in (
                _ODDITIES,
                'rm -rf "$PWD" 2> /dev/null',
                "rm -rf ./*; mv . elsewhere 2> /dev/null",
            ):
                await sh(sandbox, script)
                expect(f"the command after {script!r}", 0, (await run(sandbox, "true")).exit_code)

    async def test_a_sandbox_that_is_closed_runs_nothing(self) -> None:
        """It may be closed twice, also at the same time, and without ever having run anything."""
        async with self.open() as sandbox:
            await sandbox.close()
            await sandbox.close()
            expect("the error", True, isinstance(await raised(run(sandbox, "true")), SandboxError))


_PLACES = '/tmp /var/tmp /dev/shm /run /run/lock "$HOME" "$TMPDIR"'  # noqa: S108 - of the sandbox
_LEAVE = f"""
for place in {_PLACES}; do echo x > "$place/left-behind"; mkdir -m 000 "$place/left-locked"; done 2> /dev/null
"""
_FIND = f'for place in {_PLACES}; do ls -d "$place"/left-*; done 2> /dev/null; exit 0'
_SHARED_MEMORY = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1] == "make":
    libc.shmget(0x676E6F6D, 4096, 0o1600)
    print("made")
else:
    found = libc.shmget(0x676E6F6D, 4096, 0o600)
    print("none" if found < 0 else "some")
    if found >= 0:
        libc.shmctl(found, 0, None)
"""

_ODDITIES = "mkdir locked; echo x > locked/x; chmod 000 locked; mkfifo pipe; ln -s loop loop"

_MEET = """
echo $1 >> /tmp/met 2> /dev/null || echo $1 >> "$TMPDIR/met"
: > $1
at=0; while [ ! -e $2 ] && [ $at -lt 200 ]; do sleep 0.05; at=$((at + 1)); done
[ -e $2 ] || exit 9
sleep 0.1
if [ -e /tmp/met ]; then printf %s "$(cat /tmp/met)"; else printf %s "$(cat "$TMPDIR/met")"; fi
"""


async def _both(sandbox: Sandbox, one: str, other: str) -> tuple[ExecResult, ExecResult]:
    """Two commands that wait for each other, so that both run at one time."""
    first, second = sh(sandbox, _MEET, one, other), sh(sandbox, _MEET, other, one)
    return await asyncio.gather(first, second)
