"""`gnomon sandbox run` and `show`: a command in a sandbox, and what a sandbox holds on this machine."""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TextIO, cast

import click
import msgspec

from gnomon.cli.problems import FAILED, printable
from gnomon.cli.screen import without_controls
from gnomon.contracts.sandbox import SupportsOutput
from gnomon.errors import InvalidInput
from gnomon.sandboxes._survey import Protection
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult, IsolationLevel

if TYPE_CHECKING:
    from gnomon.sandboxes.container import ContainerSandbox
    from gnomon.sandboxes.process import ProcessSandbox

__all__ = ["Trial", "shown", "tried"]

_MOST_INPUT = 64_000_000
_MB = 1 << 20
_MOST_SHOWN = 64 * _MB


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    command: tuple[str, ...]
    workspace: str | None = None
    image: str | None = None
    read: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    with_stdin: bool = False
    network: bool = False
    timeout: float = 60.0
    memory: int | None = None
    require: str = "process"
    without: tuple[str, ...] = ()
    quiet: bool = False


def tried(trial: Trial) -> int:
    """Run it, showing what it writes as it comes; the exit code is the command's."""
    stdin = _input() if trial.with_stdin else None
    result = asyncio.run(_ran(trial, stdin))
    if not trial.quiet:
        click.echo(_ending(result), err=True)
    return FAILED if result.exit_code is None else result.exit_code


async def _ran(trial: Trial, stdin: bytes | None) -> ExecResult:
    sandbox = await asyncio.to_thread(_made, trial)
    try:
        return await _shown_to_its_end(sandbox, trial, stdin)
    finally:
        await sandbox.close()


def _made(trial: Trial) -> ProcessSandbox | ContainerSandbox:
    require = cast(IsolationLevel, trial.require)
    if trial.image is None:
        from gnomon.sandboxes.process import ProcessSandbox

        without = cast("tuple[Protection, ...]", trial.without)
        return ProcessSandbox(trial.workspace, require=require, read=trial.read, without=without)
    from gnomon.sandboxes.container import ContainerSandbox

    for option, given in (("--read", trial.read), ("--without", trial.without)):
        if given:
            raise InvalidInput(f"{option} is not for containers", hint="leave it out, or leave --image out")
    return ContainerSandbox(trial.image, workspace=trial.workspace, require=require)


async def _shown_to_its_end(sandbox: SupportsOutput, trial: Trial, stdin: bytes | None) -> ExecResult:
    streams = {"stdout": _Printed(sys.stdout), "stderr": _Printed(sys.stderr)}
    memory = trial.memory * _MB if trial.memory else None
    command, *args = trial.command
    told: AsyncGenerator[ExecOutput | ExecResult, None] = sandbox.execute_stream(
        command,
        args,
        trial.timeout,
        stdin=stdin,
        env=_variables(trial.env),
        limits=ExecLimits(memory_bytes=memory, output_bytes=_MOST_SHOWN, network=trial.network),
    )
    async with aclosing(told):
        async for piece in told:
            if isinstance(piece, ExecResult):
                return piece
            streams[piece.stream].write(piece.data)
    raise AssertionError("a sandbox gave no result")


class _Printed:
    """One stream of a command. A terminal is shown text alone: no command that is not trusted may move its
    cursor or change its keys; a file or a pipe gets the bytes as they are.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if stream.isatty() else None

    def write(self, data: bytes) -> None:
        if self._decoder is not None:
            self._stream.write(without_controls(self._decoder.decode(data)))
        else:
            self._stream.buffer.write(data)
        self._stream.flush()


def _input() -> bytes:
    data = sys.stdin.buffer.read(_MOST_INPUT + 1)
    if len(data) > _MOST_INPUT:
        raise InvalidInput(
            f"more than {_MOST_INPUT >> 20} MB were piped in", hint="give it a file: --workspace"
        )
    return data


def _variables(given: Sequence[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise InvalidInput(f"{name or each!r} sets no variable", hint="write --env NAME=VALUE")
        made[name] = value
    return made


def _ending(result: ExecResult) -> str:
    parts = [f"level {result.level}", f"exit {result.exit_code}", f"{result.duration_s:.2f} s"]
    if result.note:
        parts.append(printable(result.note, 400))
    if result.truncated:
        parts.append(f"more was written than the {_MOST_SHOWN >> 20} MB that are shown")
    return f"gnomon: {' · '.join(parts)}"


# --- what there is ------------------------------------------------------------------


def shown(*, as_json: bool) -> int:
    """Show the levels."""
    from gnomon.cli.probes import levels

    found = asyncio.run(levels())
    if as_json:
        click.echo(msgspec.json.encode({"levels": found}).decode())
        return 0
    for level in found:
        click.echo(
            f"{level.level:<12}{'holds' if level.holds else 'does not hold'}: {printable(level.by, 400)}"
        )
        for name, why in level.missing.items():
            click.echo(f"{'':<12}not held: {name} ({printable(why, 400)})")
    return 0
