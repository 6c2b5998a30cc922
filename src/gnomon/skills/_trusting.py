"""Whose word counts: folders that the user trusts, and those that are the user's own.

What is read here is told to a model, so whoever can write it can steer the agent. A folder is trusted as its
settings are (`gnomon trust`): the nearest `.gnomon/config.toml` above it is on record, with the bytes it has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gnomon._trust import PROJECT_FILE, home_folder, named_folder, one_line, real_path, trusted
from gnomon.config import project_file
from gnomon.errors import NotTrusted

__all__ = ["is_inside", "is_trusted", "not_trusted"]


def is_trusted(folder: str, env: Mapping[str, str] | None = None) -> bool:
    """Whether the user stands for what is in this folder."""
    env = os.environ if env is None else env
    real = real_path(folder)
    if any(is_inside(real, own) for own in _own_folders(env)):
        return True
    settings = project_file(real, env)
    return settings is not None and trusted(settings.parent.parent, env=env)


def _own_folders(env: Mapping[str, str]) -> list[str]:
    """`~/.config/gnomon`, and `~/.agents`, where skills of all agents are kept."""
    home, settings = home_folder(env), named_folder(env, "XDG_CONFIG_HOME", ".config")
    own = [os.path.join(home, ".agents")] if home else []
    own += [os.path.join(settings, "gnomon")] if settings else []
    return own


def is_inside(path: str, folder: str) -> bool:
    """Whether a real path is the folder, or below it."""
    real = real_path(folder)
    return path == real or path.startswith(real.rstrip(os.sep) + os.sep)


def not_trusted(path: str) -> NotTrusted:
    """What to say of a folder, and what to do about it."""
    hint = f"run `gnomon trust` in its project if you trust it (an empty {PROJECT_FILE} will do), "
    hint += "or stand for it in code with trusted=True"
    return NotTrusted(f"{one_line(path)} is not trusted, so that no model is told what it says", hint=hint)
