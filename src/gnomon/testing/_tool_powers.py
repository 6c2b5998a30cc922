"""What a tool says of itself: its effects, its limits, and what is to become of an unknown outcome (T3)."""

from __future__ import annotations

from math import isfinite

from gnomon.contracts.tool import (
    SupportsEffects,
    SupportsOutputCap,
    SupportsTimeout,
    SupportsUnknown,
)
from gnomon.testing._suite import expect, skip
from gnomon.testing._tool_suite import ToolSuite, call

__all__ = ["ToolPowers"]


class ToolPowers(ToolSuite):
    """The part of the suite about what a tool says of itself."""

    async def test_effects_are_said_and_do_not_contradict_one_another(self) -> None:
        """What only reads deletes nothing."""
        async with self.open() as tool:
            expect("what read_only is", "bool", type(tool.read_only).__name__)
            if not isinstance(tool, SupportsEffects):
                skip(self, "SupportsEffects")
            said = (tool.destructive, tool.idempotent)
            expect("what they are", ["bool", "bool"], [type(value).__name__ for value in said])
            expect("read-only and destructive", False, tool.read_only and tool.destructive)
            await call(self, tool)
            expect("what is said after a call", said, (tool.destructive, tool.idempotent))

    async def test_a_time_limit_is_one(self) -> None:
        """T3: some seconds, or `None` for the caller's own; never unlimited."""
        async with self.open() as tool:
            if not isinstance(tool, SupportsTimeout):
                skip(self, "SupportsTimeout")
            limit = tool.timeout_s
        if limit is not None and not (limit > 0 and isfinite(limit)):
            raise AssertionError(f"timeout_s: expected a number of seconds or None, found {limit!r}")

    async def test_an_output_cap_is_one(self) -> None:
        """T3: some characters, or `None` for the caller's own; never unlimited."""
        async with self.open() as tool:
            if not isinstance(tool, SupportsOutputCap):
                skip(self, "SupportsOutputCap")
            cap = tool.max_output_chars
        if cap is not None and (type(cap) is not int or cap < 1):
            raise AssertionError(f"max_output_chars: expected a number of characters or None, found {cap!r}")

    async def test_what_is_to_become_of_an_unknown_outcome_is_said(self) -> None:
        """A person is asked, or the model is told."""
        async with self.open() as tool:
            if not isinstance(tool, SupportsUnknown):
                skip(self, "SupportsUnknown")
            if tool.on_unknown not in ("ask", "tell"):
                raise AssertionError(f"on_unknown: expected 'ask' or 'tell', found {tool.on_unknown!r}")
