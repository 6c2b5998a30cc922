"""The command line: what may be typed, and which function does it.

Only click is imported here, so that `gnomon --help` is there at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import cast

import click

from gnomon.cli.command import CONTEXT, Command

__all__ = ["COMMANDS", "prompt_command", "run"]

_SESSIONS = "gnomon.cli.session_commands"
_APPROVALS = "gnomon.cli.approval_commands"

COMMANDS = {
    "sessions": f"{_SESSIONS}:sessions",
    "events": f"{_SESSIONS}:events",
    "audit": f"{_SESSIONS}:audit",
    "traces": f"{_SESSIONS}:traces",
    "resume": f"{_SESSIONS}:resume",
    "cancel": f"{_SESSIONS}:cancel",
    "fork": f"{_SESSIONS}:fork",
    "replay": f"{_SESSIONS}:replay",
    "approvals": f"{_APPROVALS}:approvals",
    "approve": f"{_APPROVALS}:approve",
    "deny": f"{_APPROVALS}:deny",
    "compact": f"{_APPROVALS}:compact",
    "models": "gnomon.cli.models:models",
    "doctor": "gnomon.cli.doctor:doctor",
    "db": "gnomon.cli.db:db",
    "sandbox": "gnomon.cli.sandbox:sandbox",
    "trust": "gnomon.cli.trust:trust",
}
"""Name → the click command."""

_LINES = [
    ("sessions, events, audit, traces, replay, fork", "What was run, what happened."),
    ("approvals, approve, deny, resume, cancel", "What waits: go on, or end it."),
    ("compact, models, doctor, db, sandbox, trust", "Shorten, set up, try out."),
]
"""The commands in the help. It fits a screen of 24 lines."""

_EXAMPLES = """\
cat build.log | gnomon "why did it fail?"
gnomon -c "and how do I fix it?" -a photo.png"""


def run(arguments: Sequence[str]) -> int:
    """The exit code of what was typed."""
    name, rest = _split(list(arguments) or _nothing_typed())
    command = prompt_command if name is None else _load(name)
    called = "gnomon" if name is None else f"gnomon {name}"
    # Not `main()`, which has its own way with Ctrl-C.
    try:
        context = command.make_context(called, list(rest))  # which it uses up
    except click.UsageError as error:
        if name is None:
            _answer_in_form(error, rest)
        raise
    with context:
        return cast(int, command.invoke(context))


def _answer_in_form(error: click.UsageError, arguments: list[str]) -> None:
    """Who asked for JSON gets JSON, also when the other options are wrong."""
    from gnomon.cli.problems import usage_message
    from gnomon.cli.render import renderer
    from gnomon.cli.screen import Screen
    from gnomon.errors import InvalidInput

    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for form in ("json", "stream-json"):
        if f"--output={form}" in options or ("--output", form) in pairwise(options):
            with suppress(OSError):
                renderer(form, Screen(quiet=True)).fail(InvalidInput(usage_message(error)))
            return


def _nothing_typed() -> list[str]:
    """A bare `gnomon` at a terminal shows its help; in a pipe, the prompt comes from there."""
    at_terminal = sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `<&-`
    return ["--help"] if at_terminal else []


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
    module, _, attribute = COMMANDS[name].partition(":")
    return cast(click.Command, getattr(import_module(module), attribute))


_MORE = ("and", "--permissions, --when-busy, --max-rounds, --no-store, …")
"""What is seldom needed stands in one line."""


class _PromptCommand(Command):
    """The prompt form. Its help also names the commands, and fits a screen of 24 lines."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage("gnomon", "[OPTIONS] PROMPT...  or  gnomon COMMAND --help")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        shown = (option.get_help_record(ctx) for option in options)
        with formatter.section("Options"):
            formatter.write_dl([*(record for record in shown if record), _MORE])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(_LINES, col_max=46)
        super().format_epilog(ctx, formatter)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from gnomon import __version__

        click.echo(f"gnomon {__version__}")
        ctx.exit()


@click.command(cls=_PromptCommand, context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("words", metavar="PROMPT", nargs=-1)
@click.option("-m", "--model", metavar="NAME", help="Which model answers, as provider:model.")
@click.option("-s", "--system", metavar="TEXT", help="Instructions for the model.")
@click.option(
    "-a", "--attach", metavar="PATH", multiple=True, help="Attach an image, audio or file; repeatable."
)
@click.option("-t", "--tool", metavar="NAME", multiple=True, help="Give the model a tool; repeatable.")
@click.option("-c", "--continue", "goes_on", is_flag=True, help="Go on with this folder's latest session.")
@click.option("-r", "--resume", "session", metavar="ID", help="Go on with that session (see: sessions).")
@click.option(
    "--when-busy",
    metavar="HOW",
    type=click.Choice(["queue", "reject", "interrupt", "steer"]),
    hidden=True,
    help="A message to a session that is busy: queue, reject, interrupt or steer.",
)
@click.option(
    "--output",
    metavar="FORM",
    type=click.Choice(["text", "json", "stream-json"]),
    help="text, json (one object) or stream-json (an event a line).",
)
@click.option(
    "--permissions",
    metavar="MODE",
    type=click.Choice(["ask", "accept_edits", "auto", "plan", "deny", "bypass"]),
    hidden=True,
    help="What tools may do unasked: ask, accept_edits, auto, plan, deny or bypass.",
)
@click.option(
    "--max-rounds",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    hidden=True,
    help="Stop after N calls of the model.",
)
@click.option("--no-store", is_flag=True, hidden=True, help="Keep nothing of this run.")
@click.option(
    "--no-project", is_flag=True, hidden=True, help="Do not read this folder's .gnomon/config.toml."
)
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@click.option("--debug", is_flag=True, hidden=True)  # an internal error names it
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    hidden=True,  # everybody tries it
    callback=_show_version,
    help="Show the version.",
)
@click.help_option("-h", "--help", hidden=True)  # whoever reads the help has found it
def prompt_command(**options: object) -> int:
    """Ask a model: the answer goes to stdout; what is piped in joins the prompt."""
    from msgspec import convert

    from gnomon.cli.ask import Question, ask

    return ask(convert(options, Question))


_VALUED = {
    name
    for option in prompt_command.params
    if isinstance(option, click.Option) and not option.is_flag
    for name in option.opts
}
