"""What may be typed about leave for calls, and to shorten a view. Only click is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from gnomon.cli.session_commands import COMMON, ID, JSON, session_command

__all__ = ["approvals", "approve", "compact", "deny"]

_F = TypeVar("_F", bound=Callable[..., object])

_ID = click.argument("session_id", metavar="[ID]", required=False)
_APPROVAL = click.argument("approval_id", metavar="[APPROVAL]", required=False)
_BY = click.option("--by", metavar="NAME", help="Who answers; your user name if not said.")
_MODEL = click.option("-m", "--model", metavar="NAME", help="Go on with another model.")
_OUTPUT = click.option(
    "--output",
    metavar="FORM",
    type=click.Choice(["text", "json", "stream-json"]),
    help="text, json (one object) or stream-json (an event a line).",
)


def _answer(command: _F) -> _F:
    return _ID(_APPROVAL(_BY(_MODEL(_OUTPUT(COMMON(command))))))


@session_command("approvals", "gnomon approvals", "gnomon approvals ses_019a --output json")
@_ID
@JSON
@COMMON
def approvals(session_id: str | None, output: str, store: str | None, no_project: bool, quiet: bool) -> int:
    """Show the calls that wait for leave: in session ID, or in all."""
    from gnomon.cli.approvals import listed
    from gnomon.cli.keeping import place_named
    from gnomon.cli.stores import told

    as_json = output == "json"
    return told(
        lambda: listed(
            place_named(store, use_project=not no_project), session_id, as_json=as_json, quiet=quiet
        ),
        as_json=as_json,
    )


@session_command("approve", "gnomon approve ses_019a", "gnomon approve ses_019a apr_019b --always")
@click.option("--always", is_flag=True, help="Also save the rule that is shown, for this session.")
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the answer.")
@_answer
def approve(
    session_id: str | None, approval_id: str | None, always: bool, reason: str | None, **options: object
) -> int:
    """Give leave for a call in session ID, and go on with the turn.

    Neither need be said where only one call waits. It is given once, for the arguments that
    gnomon approvals shows. A session of another program's agent goes on there.
    """
    return _decide(session_id, approval_id, "always" if always else "approve", reason, options)


@session_command("deny", "gnomon deny ses_019a", 'gnomon deny ses_019a --reason "too dear"')
@click.option("--reason", metavar="TEXT", help="Why; the model is told.")
@_answer
def deny(session_id: str | None, approval_id: str | None, reason: str | None, **options: object) -> int:
    """Refuse leave for a call in session ID; the model is told, and the turn goes on.

    Neither need be said where only one call waits.
    """
    return _decide(session_id, approval_id, "deny", reason, options)


def _decide(
    session_id: str | None,
    approval_id: str | None,
    decision: str,
    reason: str | None,
    options: dict[str, object],
) -> int:
    from msgspec import convert

    from gnomon.cli.approvals import Deciding, decided_on
    from gnomon.cli.ask import Question

    by, store = options.pop("by"), options.pop("store")
    act = {"leave": (decision, reason), "approval_id": approval_id, "by": by, "store": store}
    return decided_on(convert({"session": session_id, **options}, Question), convert(act, Deciding))


@session_command("compact", "gnomon compact ses_019a", "gnomon compact ses_019a --summarize")
@ID
@click.option("--summarize", is_flag=True, help="Have the model sum up what is left out.")
@JSON
@COMMON
def compact(
    session_id: str, summarize: bool, output: str, store: str | None, no_project: bool, quiet: bool
) -> int:
    """Show the model of session ID less of what was said, from now on.

    The session keeps every message: gnomon events ID shows them all.
    """
    from gnomon.cli.ask import Question
    from gnomon.cli.keeping import place_named
    from gnomon.cli.session_acts import compacted
    from gnomon.cli.stores import told

    as_json = output == "json"
    question = Question(session=session_id, no_project=no_project, quiet=quiet)
    return told(
        lambda: compacted(
            question, place_named(store, use_project=not no_project), summarize=summarize, as_json=as_json
        ),
        as_json=as_json,
    )
