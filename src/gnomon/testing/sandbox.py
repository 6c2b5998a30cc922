"""What a sandbox promises, as attacks that anybody's sandbox can be put to."""

from __future__ import annotations

from gnomon.testing._sandbox_level import SandboxLevel
from gnomon.testing._sandbox_limits import SandboxLimits
from gnomon.testing._sandbox_output import SandboxOutput
from gnomon.testing._sandbox_paths import SandboxPaths
from gnomon.testing._sandbox_reach import SandboxReach
from gnomon.testing._sandbox_results import SandboxResults
from gnomon.testing._sandbox_secrets import SandboxSecrets
from gnomon.testing._sandbox_time import SandboxTime

__all__ = ["SandboxContract"]


class SandboxContract(
    SandboxResults,
    SandboxTime,
    SandboxReach,
    SandboxSecrets,
    SandboxLimits,
    SandboxPaths,
    SandboxOutput,
    SandboxLevel,
):
    """The suite of `Sandbox` and of what it may offer beside: X1 to X6.

        class TestMine(SandboxContract):
            level = "namespaces"
            holds = {"time", "network", "loopback", "files_read", "memory"}
            python = "/usr/bin/python3"

            @asynccontextmanager
            async def open_with(self, *, workspace=None, limits=None, require="none"):
                sandbox = MySandbox(workspace, limits=limits, require=require)
                yield sandbox
                await sandbox.close()

    `open_with` gives a fresh sandbox; one that is not made to measure fills in
    `open` instead. `holds` are the protections that it promises, by the names of the
    table in docs/security.md: each is attacked, and one that is not in it is
    skipped, and has to be reported as missing. `python` is an interpreter inside;
    without it only what a shell can do is tried. `can_network` says that limits
    may allow the network here.

    The attacks are real, and bounded: a fork bomb counts to 255, a memory bomb to
    1 GB in ten processes, a disk bomb to 160 MB, whether anything holds them or not. What cannot be
    bounded, such as a signal to all processes, comes after a harmless one of its kind.
    """
