"""`gnomon trust`: let a folder's config set what could send data elsewhere."""

from __future__ import annotations

import os

import click

from gnomon.cli.command import CONTEXT, Command

__all__ = ["trust"]

_EXAMPLES = """\
gnomon trust
gnomon trust --undo path/to/project"""


@click.command(cls=Command, context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("folder", required=False)
@click.option("--undo", is_flag=True, help="Trust the folder no longer.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def trust(folder: str | None, undo: bool, debug: bool) -> int:
    """Trust the .gnomon/config.toml of FOLDER (this one, if none is named) as it is now.

    Until then it may not set base URLs, keys, hooks or commands. Look at it
    first; when it changes it has to be trusted again.
    """
    from gnomon import config

    chosen = folder or _project_folder()
    if undo:
        known = config.untrust(chosen)
        click.echo(f"{os.path.abspath(chosen)} is {'no longer' if known else 'not'} trusted")
    else:
        _refuse_unreadable(os.path.join(chosen, ".gnomon", "config.toml"))
        _report_trust(str(config.trust(chosen)))
    return 0


def _refuse_unreadable(path: str) -> None:
    """What cannot be read cannot be vouched for."""
    from gnomon._trust import parse_toml, read_file

    parse_toml(path, read_file(path) or b"")


def _report_trust(folder: str) -> None:
    from gnomon._trust import one_line
    from gnomon.cli.findings import keys_in

    # Its names are not ours: they must not move the cursor over what they say.
    sets = (one_line(key) for key in keys_in(os.path.join(folder, ".gnomon", "config.toml")))
    click.echo(f"{one_line(folder)} is trusted, until its config.toml changes")
    click.echo(f"it sets {', '.join(sets) or 'nothing'}")


def _project_folder() -> str:
    """The folder of the project one stands in, wherever in it."""
    from gnomon import config

    found = config.project_file()
    return os.path.dirname(os.path.dirname(found)) if found else os.curdir
