"""What a caller asks a sandbox to run, looked at before anything is done."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from gnomon.errors import InvalidInput

__all__ = ["checked_env", "checked_input", "checked_timeout", "unusable"]


def checked_timeout(timeout_s: object) -> float:
    seconds = math.nan
    if isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool):
        with suppress(OverflowError):
            seconds = float(timeout_s)
    if not math.isfinite(seconds):
        raise InvalidInput(f"a command has a time limit in seconds, not {timeout_s!r}")
    if seconds <= 0:
        raise InvalidInput(f"the time limit of a command is more than 0 seconds, not {seconds:g}")
    return seconds


def checked_env(*layers: Mapping[str, str] | None) -> dict[str, str]:
    """Variables in one, the later over the earlier. Their values are told to nobody: they may be keys."""
    env: dict[str, str] = {}
    for layer in layers:
        env |= layer or {}
    for name, value in cast("dict[object, object]", env).items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InvalidInput(f"{name!r} cannot be the name of a variable")
        if not isinstance(value, str) or "\0" in value or not _encodes(name + value):
            raise InvalidInput(
                f"the value of the variable {name} cannot be used: it is no text, or has a NUL"
            )
    return env


def checked_input(stdin: object) -> None:
    if stdin is not None and not isinstance(stdin, bytes | bytearray | memoryview):
        raise InvalidInput(f"the input of a command is bytes, not {type(stdin).__name__}")


def unusable(command: object, args: Sequence[object]) -> str:
    """What is wrong with a command, so that no system could be given it; empty when nothing is."""
    if isinstance(args, str | bytes):
        raise InvalidInput("the arguments of a command are a list, not one text")
    for at, word in enumerate([command, *args]):
        what = f"argument {at}" if at else "the command"
        if not isinstance(word, str):
            raise InvalidInput(f"{what} is a text, not {type(word).__name__}")
        if "\0" in word:
            return f"{what} has a NUL in it"
        if not _encodes(word):
            return f"{what} has half a surrogate pair in it"
    return "" if command else "the command is empty"


def _encodes(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
