"""What a caller asks a sandbox to run, looked at before anything is done."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import cast

from gnomon.errors import InvalidInput

__all__ = ["checked_cwd", "checked_env", "checked_files", "checked_stdin", "checked_timeout", "unusable"]

_LONGEST_S = 1e9
"""Thirty years: what is more, no clock of the system's takes."""


def checked_timeout(timeout_s: object) -> float:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or timeout_s != timeout_s:
        raise InvalidInput(f"a command has a time limit in seconds, not {timeout_s!r}")
    if timeout_s <= 0:
        raise InvalidInput(
            f"the time limit of a command is more than 0 seconds, not {max(timeout_s, -_LONGEST_S):g}"
        )
    if timeout_s == math.inf:
        raise InvalidInput("a command has a time limit in seconds, not inf")
    return float(min(timeout_s, _LONGEST_S))


def checked_cwd(cwd: object) -> str:
    if cwd is not None and not isinstance(cwd, str):
        raise InvalidInput(f"the folder to start in is a text, not {type(cwd).__name__}")
    return cwd or ""


def checked_stdin(stdin: object) -> bytes | None:
    if stdin is not None and not isinstance(stdin, bytes | bytearray | memoryview):
        raise InvalidInput(f"the input of a command is bytes, not {type(stdin).__name__}")
    return cast("bytes | None", stdin)


def checked_files(files: object) -> Mapping[str, bytes]:
    if files is not None and not isinstance(files, Mapping):
        raise InvalidInput(f"the files of a command are bytes by path, not {type(files).__name__}")
    given = cast("Mapping[object, object]", files or {})
    for path, content in given.items():
        if not isinstance(path, str):
            raise InvalidInput(f"the path of a file is a text, not {type(path).__name__}")
        if not isinstance(content, bytes | bytearray | memoryview):
            raise InvalidInput(f"the file {path!r} is bytes, not {type(content).__name__}")
    return cast("Mapping[str, bytes]", given)


def checked_env(*layers: Mapping[str, str] | None) -> dict[str, str]:
    """Variables in one, the later over the earlier. Their values are told to nobody: they may be keys."""
    env: dict[str, str] = {}
    for layer in cast("Sequence[object]", layers):
        if layer is not None and not isinstance(layer, Mapping):
            raise InvalidInput(f"the variables of a command are texts by name, not {type(layer).__name__}")
        env |= cast("Mapping[str, str]", layer or {})
    for name, value in cast("dict[object, object]", env).items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InvalidInput(f"{name!r} cannot be the name of a variable")
        if not isinstance(value, str) or "\0" in value or not _encodes(name + value):
            raise InvalidInput(
                f"the value of the variable {name} cannot be used: it is no text, or has a NUL"
            )
    return env


def unusable(command: object, args: Sequence[object]) -> str:
    """What is wrong with a command, so that no system could be given it; empty when nothing is."""
    if isinstance(args, str | bytes):
        raise InvalidInput("the arguments of a command are a list, not one text")
    if not isinstance(cast("object", args), Sequence):
        raise InvalidInput(f"the arguments of a command are a list, not {type(args).__name__}")
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
