"""What the parts of the suite of `Sandbox` share: what its owner fills in, and how commands are run."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import ClassVar, TypeAlias, TypeVar

import msgspec

from gnomon.contracts.sandbox import Sandbox, SupportsFiles, SupportsOutput
from gnomon.errors import GnomonError
from gnomon.testing._suite import Contract, expect, skip
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult, IsolationLevel

__all__ = [
    "MB",
    "PROTECTIONS",
    "SandboxSuite",
    "attempts",
    "by_deadline",
    "expect_nothing",
    "expect_ok",
    "files_of",
    "raised",
    "run",
    "sh",
    "shown",
    "streams_of",
]

MB = 1 << 20

PROTECTIONS: tuple[str, ...] = (
    *("time", "descendants", "network", "loopback", "unix_sockets", "files_read", "files_write", "home"),
    *("environment", "proc", "ptrace", "signals", "memory", "memory_total", "processes", "cpu", "output"),
    *("disk", "tmp", "devices", "kernel", "privileges"),
)
"""What a sandbox may hold a command from or to. docs/security.md says what each is."""

_T = TypeVar("_T")
_Attack: TypeAlias = Callable[..., list[str]]

_PATIENCE_S = 30.0
"""How long a command may take that is no attack: a loaded machine is no defect of a sandbox."""

_LATE_S = 3.0
"""How much later than its deadline a command may come back, on a loaded machine."""


class SandboxSuite(Contract[Sandbox]):
    """What a sandbox's owner tells of it. `open` or `open_with` must be filled in, and `holds`."""

    level: ClassVar[IsolationLevel] = "none"
    """What it says of its results."""

    holds: ClassVar[Collection[str]] = ()
    """The protections that it promises. The others are not attacked, and have to be reported missing."""

    python: ClassVar[str | None] = None
    """A Python that commands can run, by path or by name. Without one, half of the attacks cannot be made."""

    can_network: ClassVar[bool] = False
    """Whether a command whose limits allow the network gets to a server on this machine."""

    limit_s = 120.0

    def open(self) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox with an empty workspace."""
        if type(self).open_with is SandboxSuite.open_with:
            return super().open()
        return self.open_with()

    def open_with(
        self,
        *,
        workspace: str | None = None,
        limits: ExecLimits | None = None,
        require: IsolationLevel = "none",
    ) -> AbstractAsyncContextManager[Sandbox]:
        """The same, made to measure: on a folder of this machine, with limits, with a minimum."""
        skip(self, "a sandbox that is made to measure (open_with)")

    def needs(self, *names: str) -> None:
        """Skip the check unless these are promised."""
        for name in names:
            if name not in self.holds:
                skip(self, f"to hold: {name}")

    def needs_python(self) -> str:
        return self.python or skip(self, "a Python inside")


# --- running commands -------------------------------------------------------------


async def run(
    sandbox: Sandbox,
    command: str,
    *args: str,
    timeout_s: float = _PATIENCE_S,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    files: Mapping[str, bytes] | None = None,
    limits: ExecLimits | None = None,
) -> ExecResult:
    return await sandbox.execute(
        command, args, timeout_s, stdin=stdin, env=env, cwd=cwd, files=files, limits=limits
    )


async def sh(
    sandbox: Sandbox,
    script: str,
    *args: str,
    timeout_s: float = _PATIENCE_S,
    stdin: bytes | None = None,
    cwd: str | None = None,
    files: Mapping[str, bytes] | None = None,
    limits: ExecLimits | None = None,
) -> ExecResult:
    """A script of the shell; its arguments are `$1` and so on."""
    return await sandbox.execute(
        "sh", ["-c", script, "sh", *args], timeout_s, stdin=stdin, cwd=cwd, files=files, limits=limits
    )


def program(attack: _Attack, *given: object) -> list[str]:
    """The arguments for a Python that does what a function of `_sandbox_programs` says, and tells of it."""
    lines = ["from __future__ import annotations", inspect.getsource(attack)]
    lines += ["import json, sys", f"print(json.dumps({attack.__name__}(*json.loads(sys.argv[1]))))"]
    return ["-I", "-S", "-c", "\n".join(lines), json.dumps(given)]


async def attempts(
    suite: SandboxSuite,
    sandbox: Sandbox,
    attack: _Attack,
    *given: object,
    timeout_s: float = _PATIENCE_S,
    limits: ExecLimits | None = None,
) -> list[str]:
    """What an attack got through with, in its own words. An attack that cannot be made fails the check."""
    result = await run(
        sandbox, suite.needs_python(), *program(attack, *given), timeout_s=timeout_s, limits=limits
    )
    try:
        return msgspec.json.decode(result.stdout, type=list[str])
    except msgspec.DecodeError:
        raise AssertionError(f"the attack {attack.__name__} was not made: {shown(result)}") from None


async def by_deadline(sandbox: Sandbox, script: str, timeout_s: float, **more: bytes) -> ExecResult:
    """What a script comes to that has to be back by its deadline; none that is late passes."""
    running = asyncio.ensure_future(sh(sandbox, script, timeout_s=timeout_s, stdin=more.get("stdin")))
    await asyncio.wait({running}, timeout=timeout_s + _LATE_S)
    if not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=_PATIENCE_S)
        raise AssertionError(f"not back {_LATE_S:g} s after a deadline of {timeout_s:g} s: {script!r}")
    return running.result()


def files_of(suite: SandboxSuite, sandbox: Sandbox) -> SupportsFiles:
    return sandbox if isinstance(sandbox, SupportsFiles) else skip(suite, "SupportsFiles")


def streams_of(suite: SandboxSuite, sandbox: Sandbox) -> SupportsOutput:
    return sandbox if isinstance(sandbox, SupportsOutput) else skip(suite, "SupportsOutput")


async def streamed(
    stream: AsyncGenerator[ExecOutput | ExecResult, None],
) -> tuple[list[ExecOutput], ExecResult]:
    """All that is shown, and the one result that comes last."""
    pieces: list[ExecOutput] = []
    results: list[ExecResult] = []
    async with aclosing(stream):
        async for each in stream:
            if isinstance(each, ExecOutput):
                expect("output after the result", [], results)
                pieces.append(each)
            else:
                results.append(each)
    expect("results at the end of the output", 1, len(results))
    return pieces, results[0]


# --- what is expected --------------------------------------------------------------


def expect_ok(what: str, result: ExecResult) -> None:
    """It ended by itself and well."""
    __tracebackhide__ = True
    if result.exit_code != 0 or result.timed_out or result.oom:
        raise AssertionError(f"{what}: expected exit code 0, found {shown(result)}")


def expect_nothing(what: str, found: list[str]) -> None:
    """No attempt got through."""
    __tracebackhide__ = True
    if found:
        raise AssertionError(f"{what}: expected nothing, found {'; '.join(found)}")


async def raised(running: Awaitable[object]) -> object:
    """The error of Gnomon that it ends with; its result where there is none."""
    try:
        return await running
    except GnomonError as error:
        return error


def shown(result: ExecResult) -> str:
    """A result in short."""
    told = [f"exit code {result.exit_code}"]
    told += [name for name in ("timed_out", "truncated", "oom") if getattr(result, name)]
    told += [f"note {result.note!r}"] if result.note else []
    told += [f"stdout {_short(result.stdout)}", f"stderr {_short(result.stderr)}"]
    return ", ".join(told)


def _short(data: bytes) -> str:
    return repr(data if len(data) <= 400 else data[:200] + b" ... " + data[-200:])
