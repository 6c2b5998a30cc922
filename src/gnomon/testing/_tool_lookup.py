"""Tools that can find out what became of a call (T5)."""

from __future__ import annotations

import asyncio

from gnomon.contracts.tool import SupportsLookup, Tool
from gnomon.testing._suite import expect, skip
from gnomon.testing._tool_suite import ROUNDS, ToolSuite, call, cut_off
from gnomon.types.messages import ToolResult

__all__ = ["ToolLookup"]


class ToolLookup(ToolSuite):
    """The part of the suite about `SupportsLookup`."""

    async def test_lookup_finds_nothing_where_nothing_was_done(self) -> None:
        """Then it is safe to call."""
        async with self.open() as tool:
            expect("a key that was never used", None, await _looked_up(self, tool, "never"))
            await call(self, tool, key="one")
            expect("a key beside one that was used", None, await _looked_up(self, tool, "never"))

    async def test_lookup_finds_the_result_of_a_call_that_was_done(self) -> None:
        """As the caller would have had it, as often as it is asked for."""
        async with self.open() as tool:
            _searchable(self, tool)
            done = await call(self, tool, key="one")
            for _ in range(2):
                found = await _looked_up(self, tool, "one")
                if not isinstance(found, ToolResult):
                    raise AssertionError(
                        f"lookup of a call that was done: expected its result, found {found!r}"
                    )
                expect(
                    "the result that was found", (done.status, done.content), (found.status, found.content)
                )

    async def test_lookup_changes_nothing(self) -> None:
        """Neither before the call nor after it."""
        async with self.open() as tool:
            _searchable(self, tool)
            self.counted()
            for key in ("one", "never"):
                await _looked_up(self, tool, key)
            expect("effects of looking", 0, self.counted())
            await call(self, tool, key="one")
            before = self.counted()
            for key in ("one", "never"):
                await _looked_up(self, tool, key)
            expect("effects of looking after a call", before, self.counted())

    async def test_lookup_after_a_call_that_was_cut_off_tells_the_truth(self) -> None:
        """Nothing found must mean that nothing was done and nothing will be; if it cannot tell, it raises."""
        for rounds in ROUNDS:
            async with self.open() as tool:
                _searchable(self, tool)
                self.counted()
                await cut_off(self, tool, rounds)
                try:
                    found = await _looked_up(self, tool, "one")
                except Exception:  # noqa: BLE001, S112 - it cannot tell: that is an answer
                    continue
                await asyncio.sleep(0.05)
                wanted = 0 if found is None else 1
                expect(f"cut off after {rounds} turns, {found!r} found, effects", wanted, self.counted())

    async def test_lookup_that_cannot_tell_raises(self) -> None:
        """`None` is leave to call again, and must not stand for not knowing."""
        async with self.open() as tool:
            _searchable(self, tool)
            await call(self, tool, key="one")
            if not self.blind():
                skip(self, "a way to keep it from finding out")
            for key in ("one", "never"):
                try:
                    found = await _looked_up(self, tool, key)
                except Exception:  # noqa: BLE001, S112 - whichever it is
                    continue
                raise AssertionError(f"lookup that cannot tell: expected an error, found {found!r}")


def _searchable(suite: ToolSuite, tool: Tool) -> SupportsLookup:
    return tool if isinstance(tool, SupportsLookup) else skip(suite, "SupportsLookup")


async def _looked_up(suite: ToolSuite, tool: Tool, key: str) -> ToolResult | None:
    return await _searchable(suite, tool).lookup(key, suite.arguments)
