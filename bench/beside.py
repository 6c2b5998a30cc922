"""Another Python that measures something for us, as often as it is asked.

What a peer needs is not installed here: an environment variable names a Python that has it. The script
reads lines of numbers from its input, which say how much to do, and answers each with CPU seconds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import say

Ask = Callable[..., float]


@contextmanager
def peer(variable: str, script: str, what: str) -> Iterator[Ask | None]:
    """What asks the peer; nothing, with the reason said, where no Python has it."""
    python = os.environ.get(variable)
    if not python:
        say(f"{what}: no {variable}, so it is left out")
        yield None
        return
    command = [python, str(Path(__file__).with_name(script))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield lambda *numbers: _answer(process, numbers)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """By the end of its input, so that it puts away its files."""
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answer(process: subprocess.Popen[str], numbers: tuple[int, ...]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(" ".join(map(str, numbers)) + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())
