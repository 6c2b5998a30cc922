"""The `gnomon` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; what comes back is the exit code."""
    try:
        from gnomon.cli.app import run
        from gnomon.cli.problems import guarded

        arguments = sys.argv[1:]
        return guarded(lambda: run(arguments), arguments)
    except KeyboardInterrupt:  # pressed before the command had begun
        return 130
