"""`make run` shows a real agent: its answer is made from what the tool returned."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# The command itself, with one thing changed: what the registry gives for `calculate`.
WITH_ANOTHER_CALCULATOR = """
import sys
from gnomon import registry, tool

@tool(read_only=True)
def calculate(expression: str) -> str:
    "The value of an arithmetic expression."
    return {result!r}

load = registry.load
registry.load = lambda kind, name: calculate if (kind, name) == ("tools", "calculate") else load(kind, name)

from gnomon.cli import main
sys.exit(main())
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}


def _command() -> list[str]:
    """What `make run` runs, taken from the Makefile: the last line of the recipe."""
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    command = shlex.split(recipe[1].splitlines()[-1].strip().removeprefix("@"))
    assert command[0].endswith("/gnomon")
    return command


def _answer(program: list[str], tmp_path: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *program, *_command()[1:]],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_answer_has_the_result_of_the_tool(tmp_path: Path, env: dict[str, str]) -> None:
    assert re.search(r"\b84\b", _answer(["-m", "gnomon"], tmp_path, env))


def test_the_answer_changes_when_the_result_of_the_tool_changes(tmp_path: Path, env: dict[str, str]) -> None:
    nonce = str(10**9 + secrets.randbelow(10**9)).replace("84", "77")
    script = tmp_path / "changed.py"
    script.write_text(WITH_ANOTHER_CALCULATOR.format(result=nonce))
    answer = _answer([str(script)], tmp_path, env)
    assert nonce in answer
    assert "84" not in answer
