"""What holds an agent together and a command in, as the `.cuts` files beside this one list it.

    # agent.py: hooks are closed
    -            await self._chain.close()
    +            pass
    ! hooks::test_hooks_are_closed_with_their_agent

Whole lines of a file in `src/gnomon`, which stand there once, what comes in their place, and the test
that misses them: `hooks::` is `tests/flows/test_wired_hooks.py`, and what has a `/` is a path in `tests`:

    ! contracts/test_sandboxes_process.py::TestWithAll::test_no_file_of_the_host_is_read

A line that begins with `;` is for who reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["CUTS", "ROOT", "TESTS", "Cut"]

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


class Cut(NamedTuple):
    """One wire or one protection, and the test that is to notice that it is gone."""

    name: str
    path: str
    old: str
    new: str
    test: str
    """By its path in `tests`."""
    listed_in: str = ""
    """The name of the `.cuts` file."""


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
                cuts.append(Cut(name, path, old, new, _test(line[1:].strip()), file.stem))
            case "" | ";":
                pass
            case other:
                raise ValueError(
                    f"{file.name}: a line begins with '#', '-', '+', '!' or ';', not with {other!r}"
                )
    return cuts


def _test(given: str) -> str:
    file, _, name = given.partition("::")
    return given if "/" in file else f"flows/test_wired_{file}.py::{name}"


CUTS = [cut for file in sorted(Path(__file__).parent.glob("*.cuts")) for cut in _read(file)]
