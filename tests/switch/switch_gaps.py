"""What a pair of providers cannot do, and why: the list that is to be empty."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KNOWN_GAPS"]

KNOWN_GAPS: Mapping[tuple[str, str], str] = {}
"""(who made the conversation, or `*` for anybody; who sends it) → the reason, with a link if there is one."""
