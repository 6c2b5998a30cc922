"""`make run` shows a real agent, whose answer is made from what the tool returned, and then a real model."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from local_model import needs_local

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


def _commands() -> list[list[str]]:
    """What `make run` runs, taken from the Makefile: the arguments of each `gnomon` in its recipe."""
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    found = re.findall(r"\$\(BIN\)/gnomon (.+)", recipe[1])
    return [shlex.split(arguments) for arguments in found]


def _answer(program: list[str], tmp_path: Path, env: dict[str, str], *, at: int = 0) -> str:
    done = _ran(_commands()[at], tmp_path, env, program)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def _ran(
    arguments: list[str], tmp_path: Path, env: dict[str, str], program: Sequence[str] = ("-m", "gnomon")
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_the_answer_has_the_result_of_the_tool(tmp_path: Path, env: dict[str, str]) -> None:
    assert re.search(r"\b84\b", _answer(["-m", "gnomon"], tmp_path, env))


def test_the_answer_changes_when_the_result_of_the_tool_changes(tmp_path: Path, env: dict[str, str]) -> None:
    nonce = str(10**9 + secrets.randbelow(10**9)).replace("84", "77")
    script = tmp_path / "changed.py"
    script.write_text(WITH_ANOTHER_CALCULATOR.format(result=nonce))
    answer = _answer([str(script)], tmp_path, env)
    assert nonce in answer
    assert "84" not in answer


def test_a_helper_answers_and_what_has_a_side_effect_waits_for_leave(
    tmp_path: Path, env: dict[str, str]
) -> None:
    _, helped, saved, approved = _commands()[:4]
    assert re.search(r"spawn\(.*\b84\b", _ran(helped, tmp_path, env).stdout.decode(), re.DOTALL)
    asked = _ran(saved[: saved.index("<")], tmp_path, env)
    assert asked.returncode == 3
    assert b"waits for leave to call save_note" in asked.stderr
    notes = tmp_path / ".local" / "share" / "gnomon" / "notes.txt"
    assert not notes.exists()
    assert b"saved in" in _ran(approved, tmp_path, env).stdout
    assert notes.read_text() == "gnomon is here\n"


@needs_local
def test_it_ends_with_an_answer_of_a_real_model(tmp_path: Path, env: dict[str, str]) -> None:
    arguments = _commands()[-1]
    assert arguments[:2] == ["-m", "local"]
    assert len(_answer(["-m", "gnomon"], tmp_path, env, at=-1).split()) > 3


# --- the recipe itself, in a tree of its own --------------------------------------


def _tree(tmp_path: Path, *, installs: bool) -> Path:
    """The Makefile with a `.venv` whose programs only say how they were called."""
    tree = tmp_path / "tree"
    programs = tree / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tree / "Makefile").write_text((REPOSITORY / "Makefile").read_text())
    for name in ("requirements.lock", "requirements-local.lock", "pyproject.toml"):
        (tree / name).write_text("")
    for stamp in (".created", ".runtime"):
        (tree / ".venv" / stamp).write_text("")
    for name, code in (("gnomon", 0), ("python", 0 if installs else 1)):
        said = 'echo "$0 $@"' if name == "gnomon" else "echo no space left on device >&2"
        (programs / name).write_text(f"#!/bin/sh\n{said}\nexit {code}\n")
        (programs / name).chmod(0o755)
    return tree


def _make_run(tree: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "run"], cwd=tree, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_local_model_is_installed_once_and_asked_last(tmp_path: Path, env: dict[str, str]) -> None:
    tree = _tree(tmp_path, installs=True)
    first, second = _make_run(tree, env), _make_run(tree, env)
    assert first.returncode == second.returncode == 0, first.stderr
    for done in (first, second):
        assert "gnomon -m demo " in done.stdout
        assert "/gnomon -m local " in done.stdout.splitlines()[-1]
    assert "installing a small model" in first.stdout
    assert "installing" not in second.stdout


def test_without_room_or_network_it_says_so_in_one_line_and_goes_on(
    tmp_path: Path, env: dict[str, str]
) -> None:
    done = _make_run(_tree(tmp_path, installs=False), env)
    assert done.returncode == 0
    assert "/gnomon -m demo " in done.stdout
    assert "-m local" not in done.stdout
    assert re.search(r"not installed, so there is no local model: see \S+local\.log$", done.stdout.strip())
    assert done.stderr == ""
