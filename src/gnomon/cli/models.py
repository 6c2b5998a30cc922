"""`gnomon models`: which models a provider offers, or all providers that could answer now."""

from __future__ import annotations

import click

from gnomon.cli.command import CONTEXT, Command

__all__ = ["models"]

_EXAMPLES = """\
gnomon models
gnomon models openai
gnomon models --output json"""


@click.command(cls=Command, context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("provider", required=False)
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="text or one JSON object."
)
@click.option("--no-project", is_flag=True, help="Do not read this folder's .gnomon/config.toml.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def models(provider: str | None, output: str, no_project: bool, quiet: bool, debug: bool) -> int:
    """List the models of PROVIDER, as provider:model, one a line.

    Without a name, those of every provider that is ready: its key is set, its
    server answers on this machine, or it is installed here.
    """
    from gnomon.cli.listing import listing

    return listing(provider, as_json=output == "json", use_project=not no_project, quiet=quiet)
