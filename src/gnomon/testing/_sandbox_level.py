"""What a sandbox says of itself is what it is (X4)."""

from __future__ import annotations

from typing import get_args

from gnomon.contracts.sandbox import SupportsReport
from gnomon.errors import SandboxError
from gnomon.testing._sandbox_host import Folder
from gnomon.testing._sandbox_suite import PROTECTIONS, SandboxSuite, raised, run, sh
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.types.steps import ExecLimits, IsolationLevel, SandboxReport

__all__ = ["SandboxLevel"]

LEVELS: tuple[IsolationLevel, ...] = get_args(IsolationLevel)


class SandboxLevel(SandboxSuite):
    """The part of the suite about levels and reports."""

    async def test_the_report_says_what_is_held_and_what_is_not(self) -> None:
        """X4: each protection is in one of both, with a reason; what is held is what is attacked here."""
        async with self.open() as sandbox:
            if not isinstance(sandbox, SupportsReport):
                skip(self, "SupportsReport")
            report: SandboxReport = await sandbox.report()
        expect("the level of the report", self.level, report.level)
        expect("protections that the suite does not know", [], sorted(set(self.holds) - set(PROTECTIONS)))
        expect("what is held", sorted(self.holds), sorted(report.held))
        expect("what is missing", sorted(set(PROTECTIONS) - set(self.holds)), sorted(report.missing))
        for name, why in {**report.held, **report.missing}.items():
            expect_some(f"how {name} is held, or why not", why.strip())

    async def test_every_result_has_the_level(self) -> None:
        """X4: also that of a command that was cut short, or never ran."""
        async with self.open() as sandbox:
            results = {
                "that went well": await sh(sandbox, "exit 0"),
                "that was cut short": await sh(sandbox, "sleep 20", timeout_s=0.3),
                "that does not exist": await run(sandbox, "no-such-program-here"),
                "that cannot be run": await run(sandbox, "tr\0ue"),
            }
            for what, result in results.items():
                expect(f"the level of a command {what}", self.level, result.level)

    async def test_a_minimum_that_is_not_held_is_refused(self) -> None:
        """X4: clearly, before anything runs; what is held is enough."""
        for level in LEVELS:
            if LEVELS.index(level) <= LEVELS.index(self.level):
                async with self.open_with(require=level) as sandbox:
                    expect("the level", self.level, (await sh(sandbox, "exit 0")).level)
            else:
                found = await raised(_opened(self, level))
                expect(f"the error where {level!r} is asked for", True, isinstance(found, SandboxError))
                expect_some("what it says", str(found))

    async def test_a_folder_of_this_machine_can_be_the_workspace(self) -> None:
        """What is in it is seen, what is made in it stays."""
        with Folder() as host:
            async with self.open_with(workspace=host.path) as sandbox:
                result = await sh(sandbox, "cat secret; echo from inside > after")
                expect("a file of the host", host.secret, result.text)
            expect("a file of a command", "from inside\n", host.text_of("after"))

    async def test_limits_of_a_sandbox_are_those_of_its_commands(self) -> None:
        """X3: where a command has none of its own."""
        async with self.open_with(limits=ExecLimits(output_bytes=1000)) as sandbox:
            script = "head -c 5000 /dev/zero"
            expect("truncated", True, (await sh(sandbox, script)).truncated)
            more = ExecLimits(output_bytes=10_000)
            expect("truncated", False, (await sh(sandbox, script, limits=more)).truncated)


async def _opened(suite: SandboxSuite, level: IsolationLevel) -> None:
    async with suite.open_with(require=level) as sandbox:
        await sh(sandbox, "exit 0")
