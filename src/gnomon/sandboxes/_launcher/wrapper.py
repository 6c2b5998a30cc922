"""What bubblewrap is given, which stands outside of what it holds."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["complete", "set_apart"]

_NAMES = ("STATUS", "BLOCK", "FILTER")
_OF_THE_LOADER = ("LD_", "GLIBC_", "GCONV_PATH", "LOCPATH", "MALLOC_", "NLSPATH")
"""How variables begin that have a program load code or write files before it has begun."""


def complete(argv: list[str], kept: tuple[int, ...], inside: dict[str, str]) -> None:
    """Puts descriptors in the places of their names, and variables to be set for the command alone."""
    descriptors: dict[str, int] = dict(zip(_NAMES, kept, strict=False))  # there may be no filter
    end = argv.index("--")
    for at in range(end):
        if argv[at].startswith("@"):
            argv[at] = str(descriptors[argv[at][1:]])
    argv[end:end] = [word for name, value in inside.items() for word in ("--setenv", name, value)]


def set_apart(env: dict[str, str]) -> dict[str, str]:
    """Takes out what would change bubblewrap itself: what it loads then may be a file of the command's."""
    return {name: env.pop(name) for name in list(_changing(env))}


def _changing(env: dict[str, str]) -> Iterator[str]:
    return (name for name in env if name.startswith(_OF_THE_LOADER))
