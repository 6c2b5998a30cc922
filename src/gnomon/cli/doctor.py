"""`gnomon doctor`: what was found on this machine, and what would be used."""

from __future__ import annotations

from collections.abc import Iterable

import click

from gnomon.cli.command import CONTEXT, Command

__all__ = ["doctor"]

_EXAMPLES = """\
gnomon doctor
gnomon doctor -m demo --output json"""


@click.command(cls=Command, context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option("-m", "--model", metavar="NAME", help="Look at this model instead of the chosen one.")
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="text or one JSON object."
)
@click.option("--no-project", is_flag=True, help="Do not read this folder's .gnomon/config.toml.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def doctor(model: str | None, output: str, no_project: bool, debug: bool) -> int:
    """Show what was found: versions, the model, config files, keys, servers, sandboxes, stores.

    Keys are shown by the name of their variable, never by value. Nothing is
    asked of the network but the usual ports of this machine.
    """
    from gnomon.cli.findings import gather

    found = gather(model=model, use_project=not no_project)
    if output == "json":
        from msgspec.json import encode

        click.echo(encode(found).decode())
    else:
        from gnomon.cli.findings import sections

        click.echo("\n\n".join(_section(title, lines) for title, lines in sections(found)))
    return 0


def _section(title: str, lines: Iterable[tuple[str, str]]) -> str:
    from gnomon.cli.problems import printable

    rows = list(lines)
    width = min(24, max((len(name) for name, _ in rows), default=0))
    shown = [f"  {name:<{width}}  {printable(text, 400)}".rstrip() for name, text in rows]
    return "\n".join((title, *shown))
