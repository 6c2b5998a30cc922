"""A place for commands that are not trusted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult, SandboxReport

__all__ = ["Sandbox", "SupportsFiles", "SupportsOutput", "SupportsReport"]


@runtime_checkable
class Sandbox(Protocol):
    """A place where untrusted commands run without reaching the host.

    Stable since 0.1.

    - `execute` must return within `timeout_s`, whatever the command does:
      grandchildren, ignored signals, held pipes, fork bombs. A command cut short
      must come back with `timed_out` set, not as an error. When it returns, nothing
      that the command started may still run (X1).
    - there must be no network unless `limits` allow it. The host's files must not
      be readable except what is mounted, and writable only where allowed (X2).
    - memory, processes, CPU, output and disk must be bounded; a limit that is
      `None` must be the sandbox's own. Output past its limit must be dropped from
      its middle, with `truncated` set (X3).
    - `level` must say honestly what held. A caller may demand a minimum when the
      sandbox is made; one that cannot hold it must refuse with `SandboxError` (X4).
    - the command must see `env` and nothing of the host's environment (X5).
    - all commands of a sandbox share one workspace, which is where they start; `cwd`
      is a folder in it. Whatever else a command leaves (processes, files in /tmp)
      must be gone before the next.
    - `files` must be there, by path relative to `cwd`, before the command starts; a
      path that leads out, also through a link, must be refused with `InvalidInput`,
      and so must a `cwd` that leads out (X2).
    - a timeout, a kill, an out-of-memory, a command that does not exist, and
      arguments that no command can be given (too long, with a NUL), are results;
      only a sandbox that could not be set up, or was lost, may raise.
    - cancelling `execute` must end the command, as a timeout does.
    - `close` may be called twice and during a run, which it must end (X6).
    """

    async def execute(
        self,
        command: str,
        args: Sequence[str],
        timeout_s: float,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: ExecLimits | None = None,
    ) -> ExecResult:
        """What the command came to; it is not passed through a shell."""
        ...

    async def close(self) -> None:
        """End what runs, and remove what is left of it."""
        ...


@runtime_checkable
class SupportsOutput(Protocol):
    """A sandbox that shows output while the command runs.

    - `execute_stream` must yield any number of `ExecOutput`, then one `ExecResult`,
      then nothing. The result must be the one that `execute` would give.
    - what is yielded must stop at the limit of output; a reader that is slow must
      not make memory grow.
    - closing the generator must end the command.
    """

    def execute_stream(
        self,
        command: str,
        args: Sequence[str],
        timeout_s: float,
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        limits: ExecLimits | None = None,
    ) -> AsyncGenerator[ExecOutput | ExecResult, None]: ...


@runtime_checkable
class SupportsFiles(Protocol):
    """A sandbox whose workspace can be looked into from outside.

    - paths are relative to the workspace. One that leads out, also through a link
      that a command has left there, must be refused with `InvalidInput`.
    - `read_file` must give `None` where there is no such file, and must refuse one
      of more than `limit_bytes` with `InvalidInput`, without reading it.
    - `list_files` must give the paths of files, sorted, no links followed, at most
      `limit` of them.
    """

    async def read_file(self, path: str, *, limit_bytes: int = 16_000_000) -> bytes | None: ...

    async def list_files(self, *, limit: int = 10_000) -> Sequence[str]: ...


@runtime_checkable
class SupportsReport(Protocol):
    """A sandbox that says what it holds on this machine, before anything is run in it.

    - what is not held must be named, with the reason.
    """

    async def report(self) -> SandboxReport: ...
