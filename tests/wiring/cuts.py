"""The wires of an agent, as the `.cuts` files beside this one list them.

    # agent.py: hooks are closed
    -            await self._chain.close()
    +            pass
    ! hooks::test_hooks_are_closed_with_their_agent

Whole lines of a file in `src/gnomon`, which stand there once, what comes in their place, and the test
that misses them: `hooks::` is `tests/flows/test_wired_hooks.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["CUTS", "FLOWS", "ROOT", "Cut"]

ROOT = Path(__file__).parents[2]
FLOWS = ROOT / "tests" / "flows"


class Cut(NamedTuple):
    """One wire, and the test that is to notice that it is gone."""

    name: str
    path: str
    old: str
    new: str
    test: str


def _read(file: Path) -> list[Cut]:
    cuts: list[Cut] = []
    path = name = old = new = ""
    for line in file.read_text("utf-8").splitlines():
        match line[:1]:
            case "#":
                path, _, name = line[1:].strip().partition(": ")
                old = new = ""
            case "-":
                old += line[1:] + "\n"
            case "+":
                new += line[1:] + "\n"
            case "!":
                stem, _, test = line[1:].strip().partition("::")
                cuts.append(Cut(name, path, old, new, f"test_wired_{stem}.py::{test}"))
            case "":
                pass
            case other:
                raise ValueError(f"{file.name}: a line begins with '#', '-', '+' or '!', not with {other!r}")
    return cuts


CUTS = [cut for file in sorted(Path(__file__).parent.glob("*.cuts")) for cut in _read(file)]
