"""What it costs to start: importing, making an agent, showing the help."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import Row, Samples, child_cpu, compared, in_turns, say

ROUNDS, QUICK_ROUNDS = 31, 15

BARE = "pass"
FLOOR = "import asyncio, msgspec"
IMPORT = "import gnomon"
AGENT = "from gnomon import Agent, tool; Agent('demo')"

CLICK_PROGRAM = '''\
#!{python}
import sys
import click

@click.command()
@click.option("--name", help="Who to greet.")
def main(name):
    """Greet somebody."""
    click.echo(f"Hello, {{name}}!")

if __name__ == "__main__":
    sys.exit(main())
'''


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with tempfile.TemporaryDirectory(prefix="gnomon-bench-") as folder:
        commands = _commands(Path(folder))
        timers = {name: partial(child_cpu, command, env=_env(folder)) for name, command in commands.items()}
        for timer in timers.values():
            timer()  # writes the byte code
        say(f"start-up: {rounds} rounds of {len(timers)} fresh processes")
        return _compare(in_turns(timers, rounds))


def _compare(took: Samples) -> list[Row]:
    bare = took["bare"]
    found = [
        compared("import gnomon / import asyncio, msgspec", took["import"], took["floor"], limit=1.5),
        compared("Agent('demo') / import asyncio, msgspec", took["agent"], took["floor"], limit=2.5),
        compared("gnomon --help / a click program's --help", took["help"], took["click"], limit=1.5),
    ]
    pairs = [("import", "floor"), ("agent", "floor"), ("help", "click")]
    return found + [
        compared(
            f"{row.what.split(' / ')[0]}, without the bare interpreter",
            _less(took[ours], bare),
            _less(took[floor], bare),
        )
        for row, (ours, floor) in zip(found, pairs, strict=True)
    ]


def _less(samples: list[float], bare: list[float]) -> list[float]:
    """What is left of each round without the interpreter's own start; never nothing at all."""
    return [max(sample - start, 1e-6) for sample, start in zip(samples, bare, strict=True)]


def _commands(folder: Path) -> dict[str, list[str]]:
    program = folder / "greet"
    program.write_text(CLICK_PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    code = {"bare": BARE, "floor": FLOOR, "import": IMPORT, "agent": AGENT}
    commands = {name: [sys.executable, "-c", text] for name, text in code.items()}
    return commands | {"click": [str(program), "--help"], "help": [_script(), "--help"]}


def _script() -> str:
    script = Path(sys.executable).with_name("gnomon")
    if not os.access(script, os.X_OK):
        raise FileNotFoundError(
            f"{script} is not there: run this through `make bench`, which installs gnomon"
        )
    return str(script)


def _env(home: str) -> dict[str, str]:
    """Nothing of the caller's: no settings, no keys, no switched-off byte code."""
    return {"HOME": home, "PATH": os.defpath, "LANG": "C.UTF-8"}
