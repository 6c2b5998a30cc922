"""`make bench`: what Gnomon costs, beside what it would cost without Gnomon.

    python bench/run.py [--quick] [--only PART …] [--no-install] [--json FILE]

The table goes to stdout, what is going on to stderr; the exit code is 1 when a limit is broken.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import agents
import around
import counting
import growing
import guarding
import install
import limiting
import msgspec
import resuming
import sandboxing
import sharing
import startup
import streaming
from measure import Row

import storing
import wire

_PARTS = (
    startup,
    streaming,
    wire,
    counting,
    limiting,
    around,
    guarding,
    storing,
    sharing,
    growing,
    agents,
    resuming,
    sandboxing,
)
PARTS = {part.__name__: part for part in _PARTS}
HEADINGS = ("what", "ours", "floor", "ratio", "min–max", "best", "limit", "ok?")


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    rows = [row for name in options.only or PARTS for row in PARTS[name].rows(quick=options.quick)]
    if not options.no_install and not options.only:
        rows += install.rows()
    print(table(rows))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(_report(rows))) + b"\n")
    broken = [row.what for row in rows if not row.ok]
    print(f"{len(broken)} limit(s) broken: {'; '.join(broken)}" if broken else "every limit is kept")
    return 1 if broken else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="What Gnomon costs, as ratios to a floor."
    )
    parser.add_argument("--quick", action="store_true", help="the fewest rounds that still mean something")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--no-install", action="store_true", help="leave out the install, which needs a package index"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the numbers too")
    return parser.parse_args(arguments)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown; lines without a limit are there for information."""
    lines = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADINGS))]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    padded.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(padded)


def _cells(row: Row) -> tuple[str, ...]:
    limit = f"{row.limit:g}{row.unit}" if row.limit is not None else ""
    verdict = "" if row.limit is None else "yes" if row.ok else "NO"
    if row.spread is None or row.best is None:
        return (row.what, f"{row.value:.4g}{row.unit}", "", "", "", "", limit, verdict)
    spread = f"{row.spread[0]:.2f}–{row.spread[1]:.2f}"
    return (row.what, row.ours, row.floor, f"{row.value:.2f}", spread, f"{row.best:.2f}", limit, verdict)


def _report(rows: Sequence[Row]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rows": [msgspec.to_builtins(row) | {"ok": row.ok} for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
