"""What the tests have counted, for the end of the run: how much was asked of real servers, and replayed."""

from __future__ import annotations

from collections import Counter

exchanges: Counter[str] = Counter()
"""With real servers, by who asked."""

notes: dict[str, str] = {}
"""Anything else, by its name."""

kills: dict[str, Counter[str]] = {}
"""What came of runners that were killed, by their scene and store."""
