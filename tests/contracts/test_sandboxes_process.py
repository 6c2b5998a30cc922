"""The suite of sandboxes on every rung of `ProcessSandbox`, each against the table of what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

import sandboxed
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.testing import SandboxContract
from gnomon.types.steps import ExecLimits, IsolationLevel

ALWAYS = {"time", "environment", "output", "cpu", "memory", "processes", "privileges"}
CALLS = {"network", "loopback", "unix_sockets", "kernel"}
FILES = {"disk", "files_read", "files_write", "home", "proc", "tmp", "devices"}
OTHERS = {"descendants", "signals", "ptrace"}
ALL = {*ALWAYS, *CALLS, *FILES, *OTHERS, "memory_total"}


def setup_module() -> None:
    """The process that starts commands is one for the whole program: no check is told that it has left it."""
    asyncio.run(_begin())


async def _begin() -> None:
    sandbox = ProcessSandbox(require="none")
    await sandbox.execute("true", [], 30)
    await sandbox.close()


class OnARung(SandboxContract):
    """One with all that this machine has, less what is left out."""

    __test__ = False
    without: ClassVar[Collection[str]] = ()
    can_network = True
    python = ProcessSandbox.python.fget(None)  # type: ignore[attr-defined]

    @asynccontextmanager
    async def open_with(
        self,
        *,
        workspace: str | None = None,
        limits: ExecLimits | None = None,
        require: IsolationLevel = "none",
    ) -> AsyncIterator[ProcessSandbox]:
        sandbox = ProcessSandbox(workspace, limits=limits, require=require, without=self.without)
        try:
            yield sandbox
        finally:
            await sandbox.close()


class TestWithAll(OnARung):
    __test__ = True
    level = "namespaces"
    holds = ALL


class TestWithoutCgroups(OnARung):
    __test__ = True
    without = {"cgroups"}
    level = "namespaces"
    holds = ALL


class TestWithoutLandlock(OnARung):
    """Beside bubblewrap it is not used: some of the checks, by GNOMON_TEST_SEED."""

    __test__ = True
    without = {"landlock"}
    level = "namespaces"
    holds = ALL

    @pytest.fixture(autouse=True)
    def _sample(self, request: pytest.FixtureRequest) -> None:
        sandboxed.sample(request, "bubblewrap does not use Landlock")


class TestWithoutBubblewrap(OnARung):
    __test__ = True
    without = {"bubblewrap"}
    level = "process"
    holds = ALL


class TestWithoutBubblewrapAndCgroups(OnARung):
    __test__ = True
    without = {"bubblewrap", "cgroups"}
    level = "process"
    holds = ALL


class TestWithoutBubblewrapAndLandlock(OnARung):
    __test__ = True
    without = {"bubblewrap", "landlock"}
    level = "none"
    holds = {*ALWAYS, *CALLS, "memory_total"}


class TestWithoutAnything(OnARung):
    __test__ = True
    without = {"bubblewrap", "landlock", "seccomp", "cgroups"}
    level = "none"
    holds = ALWAYS
