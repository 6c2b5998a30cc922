"""How a command of ours is declared: `-h` as well as `--help`, and a help that ends with examples."""

from __future__ import annotations

import click

__all__ = ["CONTEXT", "Command", "Group"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _write_examples(command: click.Command, formatter: click.HelpFormatter) -> None:
    with formatter.section("Examples"):
        for example in (command.epilog or "").splitlines():
            formatter.write_text(example)


class Command(click.Command):
    """A command whose epilog is a list of examples, one a line."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self, formatter)


class Group(click.Group):
    """Commands about one thing. Options that stand before the command belong to it as well."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = next((at for at, word in enumerate(args) if word in self.commands), 0)
        return super().parse_args(ctx, [*args[at : at + 1], *args[:at], *args[at + 1 :]])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            known = f"known: {', '.join(self.commands)}; to ask a model: gnomon -- PROMPT"
            raise click.UsageError(f"gnomon {self.name} has no command {args[0]!r} ({known})")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self, formatter)
