"""How a command of ours is declared: `-h` as well as `--help`, and a help that ends with examples."""

from __future__ import annotations

import click

__all__ = ["CONTEXT", "Command"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(click.Command):
    """A command whose epilog is a list of examples, one a line."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for example in (self.epilog or "").splitlines():
                formatter.write_text(example)
