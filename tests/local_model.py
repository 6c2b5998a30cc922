"""Whether the local model is here. Where `CI=true` its tests run all the same, and fail without it."""

from __future__ import annotations

import os

import pytest

from gnomon.providers._local_weights import INSTALL, bundled_path, engine_installed

INSTALLED = engine_installed() and bundled_path() is not None

needs_local = pytest.mark.skipif(
    not INSTALLED and os.environ.get("CI") != "true", reason=f"needs gnomon[local] and: {INSTALL}"
)
