"""`make shape`: our sizes beside the ones of houses that are pleasant to live in. A thermometer, not a gate.

python bench/shape.py [ROOT]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BANDS = (10, 20, 35, 50)
"""The last line of each band; what is longer comes in one of its own."""

HEADINGS = ("what", "ours", "typical", "look twice", "seldom right")


class Function(NamedTuple):
    name: str
    lines: int


class Tree(NamedTuple):
    """A folder of Python files: the lines of each, and the functions in all of them."""

    files: dict[str, int]
    functions: list[Function]

    @property
    def lines(self) -> int:
        return sum(self.files.values())


def read(folder: Path) -> Tree:
    files: dict[str, int] = {}
    functions: list[Function] = []
    for path in sorted(folder.rglob("*.py")):
        text, name = path.read_text("utf-8"), path.relative_to(folder).as_posix()
        files[name] = text.count("\n")
        functions += functions_in(text, name)
    return Tree(files, functions)


def functions_in(text: str, name: str) -> Iterator[Function]:
    """Every function and method, its decorators and docstring not counted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(f"{name}:{node.name}", (node.end_lineno or 0) - node.lineno + 1 - _docstring(node))


def _docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node, clean=False) is None or len(node.body) == 1:
        return 0
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1


def rows(src: Tree, engine: Tree, tests: Tree) -> list[tuple[str, ...]]:
    lengths = [function.lines for function in src.functions] or [0]
    share = 100 * sum(length > BANDS[-1] for length in lengths) / len(lengths)
    return [
        ("files in src", f"{len(src.files)}, {src.lines:,} lines", "", "", ""),
        ("file: median", f"{median(src.files.values() or [0]):.0f} lines", "150–250", "400", "600"),
        ("file: longest", _longest(src.files.items()), "150–250", "400", "600"),
        ("function: median", f"{median(lengths):.0f} lines", "5–10", "35", "50"),
        ("function: longest", _longest(src.functions), "5–10", "35", "50"),
        ("functions over 50 lines", f"{share:.1f}%", "2–3%", "5%", "8%"),
        ("the whole of engine/", f"{engine.lines:,} lines", "1,500–2,000", "", ""),
        ("tests against source", f"{tests.lines / max(src.lines, 1):.2f}x", "1–1.5x", "2x", "2.5x"),
    ]


def _longest(named: Iterable[tuple[str, int]]) -> str:
    name, lines = max(named, key=lambda item: item[1], default=("none", 0))
    return f"{lines} lines ({name})"


def bands(functions: Sequence[Function]) -> list[tuple[str, ...]]:
    """How many functions of which length."""
    edges = [0, *BANDS, sys.maxsize]
    counted: list[tuple[str, ...]] = [("functions of", "count", "share")]
    for low, high in pairwise(edges):
        count = sum(low < function.lines <= high for function in functions)
        name = f"{low + 1}–{high} lines" if high < sys.maxsize else f"over {low} lines"
        counted.append((name, str(count), f"{100 * count / max(len(functions), 1):.1f}%"))
    return counted


def looked_at_twice(tree: Tree) -> list[tuple[str, ...]]:
    """What passes a "look twice" mark, longest first."""
    long = [(name, lines) for name, lines in tree.files.items() if lines > 400]
    long += [function for function in tree.functions if function.lines > 35]
    return [
        ("look twice at", "lines"),
        *((name, str(lines)) for name, lines in sorted(long, key=lambda x: -x[1])),
    ]


def table(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main(arguments: Sequence[str]) -> int:
    root = Path(arguments[0]) if arguments else ROOT
    package = root / "src" / "gnomon"
    src = read(package)
    print(table([HEADINGS, *rows(src, read(package / "engine"), read(root / "tests"))]), end="\n\n")
    print(table(bands(src.functions)), end="\n\n")
    print(table(looked_at_twice(src)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
