"""The suite of sandboxes on `ContainerSandbox`, in containers of Podman: kept warm, or new each time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

import sandboxed
from gnomon.sandboxes._engines import Engine, engine_for
from gnomon.sandboxes.container import ContainerSandbox
from gnomon.testing import SandboxContract
from gnomon.testing._sandbox_suite import PROTECTIONS
from gnomon.types.steps import ExecLimits, IsolationLevel
from servers import containers

IMAGE = ""
_HELD: Engine | None = None
"""While somebody has the engine, its service runs: it is not started anew for each check."""


def setup_module() -> None:
    global IMAGE, _HELD
    IMAGE = containers.image()
    _HELD = engine_for("podman")


def teardown_module() -> None:
    if _HELD is not None:
        _HELD.close()


class InContainers(SandboxContract):
    """One that holds all that there is to be held."""

    __test__ = False
    level = "container"
    holds = set(PROTECTIONS)
    python = "python3"
    warm: ClassVar[bool] = True
    known_gaps = {
        "test_arguments_arrive_as_they_are": "the engine is not told arguments that are no UTF-8",
        "test_streamed_output_comes_to_the_same_result": "what the engine says of a start is shown",
    }

    @asynccontextmanager
    async def open_with(
        self,
        *,
        workspace: str | None = None,
        limits: ExecLimits | None = None,
        require: IsolationLevel = "none",
    ) -> AsyncIterator[ContainerSandbox]:
        # A folder of root's would have commands run as root, which has to be said.
        user = "1000:1000" if workspace is not None and os.geteuid() == 0 else None
        sandbox = ContainerSandbox(
            IMAGE,
            engine="podman",
            workspace=workspace,
            limits=limits,
            require=require,
            warm=self.warm,
            user=user,
        )
        try:
            yield sandbox
        finally:
            await sandbox.close()


class TestKeptWarm(InContainers):
    """One container for the commands of a check, made as new between them."""

    __test__ = True


class TestNewEachTime(InContainers):
    """A container for each command, some of the checks by GNOMON_TEST_SEED."""

    __test__ = True
    warm = False

    @pytest.fixture(autouse=True)
    def _sample(self, request: pytest.FixtureRequest) -> None:
        sandboxed.sample(request, "a new container for each command")
