"""An agent that runs commands, and what they run in."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gnomon import Agent
from gnomon.sandboxes.container import ContainerSandbox
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.testing import ScriptedProvider
from servers import containers

__all__ = ["LEVELS", "LOCAL", "agent_on", "sandbox_on"]

LEVELS = {"container": "container", "bubblewrap": "namespaces", "no bubblewrap": "process"}
"""What a command runs in, and what a result has to say of it."""

LOCAL = ("bubblewrap", "no bubblewrap")

_LEFT_OUT: dict[str, Sequence[Any]] = {
    "no bubblewrap": ("bubblewrap",),
    "nothing": ("bubblewrap", "landlock", "seccomp", "cgroups"),
}


def sandbox_on(rung: str, folder: Path, **settings: Any) -> ContainerSandbox | ProcessSandbox:
    if rung == "container":
        user = "1000:1000" if os.geteuid() == 0 else None
        folder.chmod(0o777)
        return ContainerSandbox(containers.image(), engine="podman", workspace=folder, user=user, **settings)
    return ProcessSandbox(folder, without=_LEFT_OUT.get(rung, ()), **settings)


@asynccontextmanager
async def agent_on(
    rung: str, folder: Path, provider: ScriptedProvider, **settings: Any
) -> AsyncIterator[Agent]:
    """An agent whose commands run there, in that folder."""
    sandbox = sandbox_on(rung, folder, **settings)
    try:
        async with Agent(provider, tools=["python", "shell"], workspace=folder, sandbox=sandbox) as agent:
            yield agent
    finally:
        await sandbox.close()
