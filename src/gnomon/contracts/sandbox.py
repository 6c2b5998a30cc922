"""A place for commands that are not trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from gnomon.types.steps import ExecLimits, ExecResult

__all__ = ["Sandbox"]


@runtime_checkable
class Sandbox(Protocol):
    """A place where untrusted commands run without reaching the host.

    Stable once two back ends keep it.

    - `execute` must return within `timeout_s`, whatever the command does:
      grandchildren, ignored signals, held pipes, fork bombs. A command cut short
      must come back with `timed_out` set, not as an error (X1).
    - there must be no network unless `limits` allow it. The host's files must not
      be readable except what is mounted, and writable only where allowed (X2).
    - memory, processes, CPU, output and disk must be bounded; a limit that is
      `None` must be the sandbox's own. Output past its limit must be dropped from
      its middle, with `truncated` set (X3).
    - `level` must say honestly what held. A caller may demand a minimum when the
      sandbox is made; one that cannot hold it must refuse with `SandboxError` (X4).
    - the command must see `env` and nothing of the host's environment (X5).
    - `files` must be there, by path relative to `cwd`, before the command starts; a
      path that leads out must be refused with `InvalidInput` (X2).
    - a command that does not exist, a kill and an out-of-memory are results; only
      a sandbox that could not be set up, or was lost, may raise.
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
