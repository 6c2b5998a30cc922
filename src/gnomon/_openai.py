"""Where OpenAI is, and who pays: the same for its models and for its embeddings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

__all__ = ["billing_headers", "is_home", "openai_address"]

_BASE_URL = "https://api.openai.com/v1"
_HOME = re.compile(r"https://([\w-]+\.)*openai\.com(:\d+)?(/|$)", re.IGNORECASE)


def openai_address(given: str | None) -> str:
    return given or os.environ.get("OPENAI_BASE_URL") or _BASE_URL


def is_home(address: str) -> bool:
    """Whether it is the vendor itself, or somebody who speaks like it."""
    return _HOME.match(address) is not None


def billing_headers(address: str, organization: str | None, project: str | None) -> dict[str, str]:
    """Who pays. What the environment says of it is meant for the vendor, and for no other address."""
    env: Mapping[str, str] = os.environ if is_home(address) else {}
    given = {
        "openai-organization": organization or env.get("OPENAI_ORG_ID"),
        "openai-project": project or env.get("OPENAI_PROJECT_ID"),
    }
    return {name: value for name, value in given.items() if value}
