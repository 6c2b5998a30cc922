"""`gnomon db`: what may be typed to look after a store. Only click is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from gnomon.cli.command import CONTEXT, Command, Group

__all__ = ["db"]

_F = TypeVar("_F", bound=Callable[..., object])

_EXAMPLES = """\
gnomon db migrate sqlite:///gnomon.db
gnomon db copy sqlite:///gnomon.db postgresql://db.example/gnomon
GNOMON_STORE=sqlite:///gnomon.db gnomon db status"""


@click.group(cls=Group, context_settings=CONTEXT, epilog=_EXAMPLES, invoke_without_command=True)
@click.pass_context
def db(ctx: click.Context) -> int:
    """Look after a store: where sessions, events, memory and audit rows are kept.

    It is named by its URL, else by GNOMON_STORE, else by `store` in the config.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


# --- what several of them take ------------------------------------------------------

_store = click.argument("url", required=False)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
_tenants = click.option(
    "--tenant", "tenants", metavar="NAME", multiple=True, help="This tenant only; repeatable."
)


_DEBUG = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
_PROJECT = click.option("--no-project", is_flag=True, help="Do not read this folder's .gnomon/config.toml.")


def _common(command: _F) -> _F:
    """The options of all that may be told their store by the config."""
    return _PROJECT(_QUIET(_DEBUG(command)))


def _command(name: str, line: str, *examples: str) -> Callable[[Callable[..., int]], click.Command]:
    epilog = "\n".join(examples)
    return db.command(name, cls=Command, context_settings=CONTEXT, short_help=line, epilog=epilog)


# --- how it is ----------------------------------------------------------------------


@_command(
    "migrate",
    "Make its tables, or bring them up to date.",
    "gnomon db migrate sqlite:///gnomon.db",
    "GNOMON_STORE=sqlite:///gnomon.db gnomon db migrate",
)
@_store
@_common
def migrate(url: str | None, no_project: bool, quiet: bool) -> int:
    """Make the tables of a store, or bring them to what this gnomon knows.

    Any number of processes may do so at once. Tables that are newer are left alone.
    """
    from gnomon.cli.db_health import migrated
    from gnomon.cli.stores import chosen

    return migrated(chosen(url, "migrate URL", use_project=not no_project), quiet=quiet)


@_command(
    "status",
    "Show how it is and what it holds.",
    "gnomon db status sqlite:///gnomon.db --json",
    "gnomon db status",
)
@_store
@_json
@_common
def status(url: str | None, as_json: bool, no_project: bool, quiet: bool) -> int:
    """Show whether a store answers, its tables, how durable it is, and what it holds.

    Nothing is changed. It exits with 1 where the store is not ready to be used.
    """
    from gnomon.cli.db_health import shown_status
    from gnomon.cli.stores import chosen, told

    found = told(lambda: chosen(url, "status URL", use_project=not no_project), as_json=as_json)
    return shown_status(found, as_json=as_json, quiet=quiet)


@_command(
    "verify",
    "Look for gaps and damage.",
    "gnomon db verify sqlite:///gnomon.db",
    "gnomon db verify --tenant acme --json",
)
@_store
@_tenants
@_json
@_common
def verify(url: str | None, tenants: tuple[str, ...], as_json: bool, no_project: bool, quiet: bool) -> int:
    """Look for gaps in logs, what cannot be read, missing blobs and broken audit chains.

    Nothing is changed. It exits with 1 where something is wrong.
    """
    from gnomon.cli.db_health import verified
    from gnomon.cli.stores import chosen, told

    found = told(lambda: chosen(url, "verify URL", use_project=not no_project), as_json=as_json)
    return verified(found, tenants=tenants or None, as_json=as_json, quiet=quiet)


# --- moving it ----------------------------------------------------------------------


@_command(
    "copy",
    "Copy everything into another store.",
    "gnomon db copy sqlite:///gnomon.db postgresql://db.example/gnomon",
    "gnomon db copy --tenant acme sqlite:///gnomon.db sqlite:///acme.db",
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@_tenants
@_json
@_QUIET
@_DEBUG
def copy(source: str, target: str, tenants: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Copy everything of one store into another; tables are made where there are none.

    Each session is checked by its hash. Interrupted, it is run again and goes on.
    Where TO holds something else under the same id, it stops and nothing is written over.
    """
    from gnomon.cli.db_moving import copied

    return copied(source, target, tenants=tenants or None, as_json=as_json, quiet=quiet)


@_command(
    "export",
    "Write it to a file as JSON lines.",
    "gnomon db export sqlite:///gnomon.db backup.jsonl",
    "gnomon db export - | gzip > backup.jsonl.gz",
)
@click.argument("places", metavar="[URL] FILE", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@_tenants
@_common
def export(
    places: tuple[str, ...], force: bool, tenants: tuple[str, ...], no_project: bool, quiet: bool
) -> int:
    """Write a store to FILE as JSON lines; - is stdout. The file is there when it is whole."""
    from gnomon.cli.db_moving import check_file, exported
    from gnomon.cli.stores import chosen

    url, file = _two(places, "export [URL] FILE")
    check_file(file, "export URL FILE")
    found = chosen(url, "export URL FILE", use_project=not no_project)
    return exported(found, file, tenants=tenants or None, force=force, quiet=quiet)


@_command(
    "import",
    "Bring such a file into it.",
    "gnomon db import backup.jsonl sqlite:///gnomon.db",
    "zcat backup.jsonl.gz | gnomon db import -",
)
@click.argument("file")
@_store
@_common
def import_(file: str, url: str | None, no_project: bool, quiet: bool) -> int:
    """Bring FILE, which `gnomon db export` made, into a store; - is stdin.

    Interrupted, it is run again and goes on. Nothing that differs is written over.
    """
    from gnomon.cli.db_moving import check_file, imported
    from gnomon.cli.stores import chosen

    check_file(file, "import FILE URL")
    return imported(chosen(url, "import FILE URL", use_project=not no_project), file, quiet=quiet)


# --- forgetting ---------------------------------------------------------------------


@_command(
    "prune",
    "Remove what is old.",
    "gnomon db prune --older-than 30d --kind traces,checkpoints --blobs",
    "gnomon db prune sqlite:///gnomon.db --older-than 2w --kind sessions",
)
@_store
@click.option("--older-than", metavar="AGE", help="90s, 15m, 12h, 30d or 2w.")
@click.option(
    "--kind", "kinds", metavar="KINDS", help="traces, checkpoints, events, audit, memory, sessions."
)
@click.option("--blobs", is_flag=True, help="Then remove blobs that no event names.")
@click.option("--grace", metavar="AGE", help="Keep blobs that were put within AGE; 24h if not said.")
@click.option("--nobody-writes", is_flag=True, help="Allow a grace of less than an hour.")
@_tenants
@_common
def prune(
    url: str | None,
    older_than: str | None,
    kinds: str | None,
    blobs: bool,
    grace: str | None,
    nobody_writes: bool,
    tenants: tuple[str, ...],
    no_project: bool,
    quiet: bool,
) -> int:
    """Remove rows of some kinds that were not touched for a while.

    What a session needs to go on always stays, and so does all of one that is running.
    """
    from gnomon.cli.db_forgetting import Pruning, pruned
    from gnomon.cli.stores import chosen

    wanted = Pruning(
        older_than=older_than,
        kinds=kinds,
        blobs=blobs,
        grace=grace,
        nobody_writes=nobody_writes,
        tenants=tenants or None,
    )
    wanted.check()
    return pruned(chosen(url, "prune URL …", use_project=not no_project), wanted, quiet=quiet)


@_command(
    "delete",
    "Delete a session, or all of a user.",
    "gnomon db delete --session 3f2a --yes",
    "gnomon db delete --user ana --tenant acme",
)
@_store
@click.option("--session", metavar="ID", help="Delete this session.")
@click.option("--user", metavar="ID", help="Delete all sessions and all memory of this user.")
@click.option("--tenant", metavar="NAME", default="default", help="Of this tenant.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_common
def delete(
    url: str | None,
    session: str | None,
    user: str | None,
    tenant: str,
    yes: bool,
    no_project: bool,
    quiet: bool,
) -> int:
    """Delete a session, or all that is kept of a user. It cannot be undone.

    A session that is running is not deleted.
    """
    from gnomon.cli.db_forgetting import Doomed, deleted
    from gnomon.cli.stores import chosen

    doomed = Doomed(session=session, user=user, tenant=tenant)
    doomed.check()
    return deleted(chosen(url, "delete URL …", use_project=not no_project), doomed, sure=yes, quiet=quiet)


def _two(places: tuple[str, ...], usage: str) -> tuple[str | None, str]:
    """The last word is the file; a word before it is the store."""
    if not 1 <= len(places) <= 2:
        raise click.UsageError(f"one or two arguments are taken: gnomon db {usage}")
    return (places[0] if len(places) == 2 else None), places[len(places) - 1]
