"""The suite of sandboxes on `ContainerSandbox`, in containers of Podman and of Docker."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

import sandboxed
import servers
from gnomon.sandboxes._engines import Engine, engine_for
from gnomon.sandboxes.container import ContainerSandbox
from gnomon.testing import SandboxContract
from gnomon.testing._sandbox_suite import PROTECTIONS
from gnomon.types.steps import ExecLimits, IsolationLevel
from servers import containers


class InContainers(SandboxContract):
    """One that holds all that there is to be held."""

    __test__ = False
    level = "container"
    holds = set(PROTECTIONS)
    python = "python3"
    warm: ClassVar[bool] = True
    engine: ClassVar[str] = "podman"
    image: ClassVar[str]
    _held: ClassVar[Engine]
    """While somebody has the engine, its service runs: it is not started anew for each check."""

    @classmethod
    def setup_class(cls) -> None:
        cls.image = cls.fetch()
        cls._held = engine_for(cls.engine)

    @classmethod
    def teardown_class(cls) -> None:
        cls._held.close()

    @classmethod
    def fetch(cls) -> str:
        return containers.image()

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
            self.image,
            engine=self.engine,
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


class TestOnDocker(InContainers):
    """Docker's own daemon, some of the checks by GNOMON_TEST_SEED."""

    __test__ = True

    @classmethod
    def fetch(cls) -> str:
        server = servers.shared("docker")
        assert isinstance(server, servers.DockerServer)
        cls.engine = server.url
        return server.image()

    @pytest.fixture(autouse=True)
    def _sample(self, request: pytest.FixtureRequest) -> None:
        sandboxed.sample(request, "Docker's daemon")
