"""The command line: what may be typed, and which function does it.

Only click is imported here, so that `gnomon --help` is there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

import click

__all__ = ["COMMANDS", "prompt_command", "run"]

COMMANDS = {
    "doctor": ("gnomon.cli.doctor:doctor", "Show what was found: models, keys, servers, stores."),
    "trust": ("gnomon.cli.trust:trust", "Let this folder's config set addresses, keys and commands."),
}
"""Name → the click command, and its line in the help."""

_EXAMPLES = (
    'gnomon "what is 12*(3+4)?"',
    'cat build.log | gnomon -m PROVIDER:MODEL "why did it fail?"',
    'gnomon "describe this" -a photo.png --output json',
)


def run(arguments: Sequence[str]) -> int:
    """The exit code of what was typed."""
    name, rest = _split(list(arguments))
    command = prompt_command if name is None else _load(name)
    called = "gnomon" if name is None else f"gnomon {name}"
    return cast(int, command.main(rest, prog_name=called, standalone_mode=False)) or 0


def _split(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The subcommand, when the first word is one, and the other arguments in their order."""
    at = _first_word(arguments)
    if at is None or arguments[at] not in COMMANDS:
        return None, arguments
    return arguments[at], arguments[:at] + arguments[at + 1 :]


def _first_word(arguments: list[str]) -> int | None:
    """Where the first argument stands that is no option and no option's value."""
    skip = False
    for at, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument == "--":
            return None
        elif argument.startswith("-") and argument != "-":
            skip = argument in _VALUED
        else:
            return at
    return None


def _load(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name][0].partition(":")
    return cast(click.Command, getattr(import_module(module), attribute))


class _PromptCommand(click.Command):
    """The help of the prompt form also names the commands, and ends with examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])
        with formatter.section("Examples"):
            for example in _EXAMPLES:
                formatter.write_text(example)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from gnomon import __version__

        click.echo(f"gnomon {__version__}")
        ctx.exit()


@click.command(
    cls=_PromptCommand,
    options_metavar="[OPTIONS]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("words", metavar="PROMPT", nargs=-1)
@click.option("-m", "--model", metavar="NAME", help="Which model answers, as provider:model.")
@click.option("-s", "--system", metavar="TEXT", help="Instructions for the model.")
@click.option("-a", "--attach", metavar="PATH", multiple=True, help="Attach an image, audio or file. Repeatable.")
@click.option("-t", "--tool", metavar="NAME", multiple=True, help="Give the model a built-in tool. Repeatable.")
@click.option(
    "--output",
    type=click.Choice(["text", "json", "stream-json"]),
    help="text (the default), one JSON object, or one event a line.",
)
@click.option("--max-rounds", metavar="N", type=click.IntRange(min=1), help="Stop after N calls of the model.")
@click.option("--no-project", is_flag=True, help="Do not read this folder's .gnomon/config.toml.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version.")
def prompt_command(**options: object) -> int:
    """Ask a model once: the answer goes to stdout, everything else to stderr.

    What is piped in is added to the prompt; a pipe alone is the prompt.
    """
    from gnomon.cli.ask import Question, ask

    return ask(Question(**options))


_VALUED = {
    name
    for option in prompt_command.params
    if isinstance(option, click.Option) and not option.is_flag
    for name in option.opts
}
