"""Output as it comes: the same as at the end, bounded, and the command's end when nobody reads it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing

from gnomon.errors import InvalidInput
from gnomon.testing._sandbox_host import alive, end_all
from gnomon.testing._sandbox_limits import memory_growth
from gnomon.testing._sandbox_suite import (
    MB,
    SandboxSuite,
    expect_nothing,
    expect_ok,
    raised,
    run,
    sh,
    streamed,
    streams_of,
)
from gnomon.testing._suite import expect
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult

__all__ = ["SandboxOutput"]

_SOON_S = 20.0
_OUTPUT = 64 * 1024
_GROWTH = 24 * MB
_SCRIPTS = (
    "printf out; printf err >&2; exit 3",
    "head -c 30000 /dev/zero; head -c 30000 /dev/zero >&2",
    "exit 0",
    "kill -9 $$",
    "head -c 500000 /dev/zero",
)
_FLOOD = "yes | head -c 64000000; sleep 20"
_WAITING = (
    "echo first; at=0; while [ ! -e go ] && [ $at -lt 400 ]; do sleep 0.05; at=$((at + 1)); done; echo last"
)


class SandboxOutput(SandboxSuite):
    """The part of the suite about `SupportsOutput`."""

    async def test_streamed_output_comes_to_the_same_result(self) -> None:
        """Every piece in order, then the one result, which is the one that `execute` gives."""
        limits = ExecLimits(output_bytes=_OUTPUT)
        async with self.open() as sandbox:
            streams = streams_of(self, sandbox)
            for script in _SCRIPTS:
                asked = "sh", ["-c", script]
                pieces, result = await streamed(streams.execute_stream(*asked, 20, limits=limits))
                plain = await sandbox.execute(*asked, 20, limits=limits)
                expect(f"the result of {script!r}", _facts(plain), _facts(result))
                for name, whole in (("stdout", result.stdout), ("stderr", result.stderr)):
                    shown = b"".join(piece.data for piece in pieces if piece.stream == name)
                    if result.truncated:
                        expect(f"whether what is shown of {name} is bounded", True, len(shown) <= _OUTPUT)
                    else:
                        expect(f"what is shown of {name}", whole, shown)
            pieces, result = await streamed(streams.execute_stream("no-such-program-here", [], 20))
            expect(
                "what is shown of a command that does not exist",
                b"",
                b"".join(piece.data for piece in pieces),
            )
            expect("its exit code", 127, result.exit_code)
            found = await raised(streamed(streams.execute_stream("true", [], -1)))
            expect("the error for a timeout of -1", InvalidInput, type(found))

    async def test_output_is_shown_while_the_command_runs(self) -> None:
        """It waits for somebody who has read its first line."""
        async with self.open() as sandbox:
            stream = streams_of(self, sandbox).execute_stream("sh", ["-c", _WAITING], 20)
            async with aclosing(stream):
                first = await asyncio.wait_for(anext(stream), _SOON_S)
                expect("the first piece", ExecOutput("stdout", b"first\n"), first)
                await sh(sandbox, ": > go")
                pieces, result = await streamed(stream)
                expect("the second", [b"last\n"], [piece.data for piece in pieces])
                expect_ok("the command", result)

    async def test_a_slow_reader_costs_no_memory(self) -> None:
        """What nobody reads is not kept; what is shown ends at the limit of output."""
        async with self.open() as sandbox:
            streams = streams_of(self, sandbox)

            async def slowly() -> ExecResult:
                asked = "sh", ["-c", _FLOOD]
                stream = streams.execute_stream(*asked, 1.5, limits=ExecLimits(output_bytes=_OUTPUT))
                async with aclosing(stream):
                    first = await anext(stream)
                    await asyncio.sleep(1)
                    pieces, result = await streamed(stream)
                assert isinstance(first, ExecOutput)
                size = len(first.data) + sum(len(piece.data) for piece in pieces)
                expect("whether what is shown is bounded", True, size <= _OUTPUT)
                return result

            result, grown = await memory_growth(slowly)
            expect("truncated", True, result.truncated)
            expect("whether the memory of the host grew", False, grown > _GROWTH)

    async def test_closing_the_stream_ends_the_command(self) -> None:
        """Whether it has begun or not; the sandbox goes on."""
        word = f"gnomon-{secrets.token_hex(8)}"
        try:
            async with self.open() as sandbox:
                streams = streams_of(self, sandbox)
                await streams.execute_stream("sh", ["-c", "echo > run"], 20).aclose()
                stream = streams.execute_stream("sh", ["-c", "echo first; sleep 20; exit 0", "sh", word], 20)
                await asyncio.wait_for(anext(stream), _SOON_S)
                await asyncio.wait_for(stream.aclose(), _SOON_S)
                expect_nothing("left after it was closed", alive(word))
                expect("what was run before it was read", "", (await run(sandbox, "ls")).text)
        finally:
            end_all(word)


def _facts(result: ExecResult) -> dict[str, object]:
    """All but how long it took."""
    names = ("exit_code", "level", "stdout", "stderr", "timed_out", "truncated", "oom", "note")
    return {name: getattr(result, name) for name in names}
