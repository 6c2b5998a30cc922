"""`gnomon sandbox`: what may be typed to try one. Only click is imported here."""

from __future__ import annotations

import click

from gnomon.cli.command import CONTEXT, Command, Group

__all__ = ["sandbox"]

_EXAMPLES = """\
gnomon sandbox run -- python3 -c "import os; print(os.listdir('/'))"
gnomon sandbox show"""


@click.group(cls=Group, context_settings=CONTEXT, epilog=_EXAMPLES, invoke_without_command=True)
@click.pass_context
def sandbox(ctx: click.Context) -> int:
    """Try a sandbox: a place for commands that are not trusted."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


_RUN_EXAMPLES = """\
cat data.csv | gnomon sandbox run -i -w . --timeout 60 -- sort -u
gnomon sandbox run --image python:3.12-slim -- python3 -V"""


@sandbox.command(
    "run",
    cls=Command,
    context_settings={**CONTEXT, "allow_interspersed_args": False},
    short_help="Run a command in one.",
    epilog=_RUN_EXAMPLES,
)
@click.argument("command", nargs=-1, required=True)
@click.option("-w", "--workspace", metavar="DIR", help="The folder it may change; else an empty one.")
@click.option("--image", metavar="IMAGE", help="In a container of this image, by Podman or Docker.")
@click.option("-r", "--read", metavar="PATH", multiple=True, help="Show it this as well; repeatable.")
@click.option("-e", "--env", metavar="NAME=VALUE", multiple=True, help="Set a variable; repeatable.")
@click.option("-i", "--stdin", "with_stdin", is_flag=True, help="Give it what is piped in.")
@click.option("--network", is_flag=True, help="Let it use the network.")
@click.option("--timeout", metavar="S", type=float, default=60.0, help="End it after S seconds (60).")
@click.option("--memory", metavar="MB", type=click.IntRange(1), help="How much memory it may use (1024).")
@click.option(
    "--require",
    metavar="LEVEL",
    default="process",
    help="The least that has to hold: none, process, namespaces.",
)
@click.option("--without", metavar="NAME", multiple=True, help="Leave a protection out, to see the rest.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but the command's own and errors.")
@click.option("--debug", is_flag=True, expose_value=False, hidden=True)  # an internal error names it
def run(**options: object) -> int:
    """Run COMMAND where it can do no harm; its exit code is the command's.

    137 is that of one that was ended for its time or memory; stderr says so.
    """
    from msgspec import convert

    from gnomon.cli.sandbox_run import Trial, tried

    return tried(convert(options, Trial))


@sandbox.command(
    "show",
    cls=Command,
    context_settings=CONTEXT,
    short_help="Show what each level holds here.",
    epilog="gnomon sandbox show\ngnomon sandbox show --json",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def show(as_json: bool) -> int:
    """Show which levels of isolation hold on this machine, and what is not held at each."""
    from gnomon.cli.sandbox_run import shown

    return shown(as_json=as_json)
