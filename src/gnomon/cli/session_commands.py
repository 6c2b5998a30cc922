"""What may be typed to see sessions and to act on one. Only click is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from gnomon.cli.command import CONTEXT, Command

__all__ = [
    "COMMON",
    "ID",
    "JSON",
    "audit",
    "cancel",
    "events",
    "fork",
    "replay",
    "resume",
    "session_command",
    "sessions",
    "traces",
]

_F = TypeVar("_F", bound=Callable[..., object])

_DEBUG = click.option("--debug", is_flag=True, expose_value=False, hidden=True)
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
_PROJECT = click.option("--no-project", is_flag=True, help="Do not read this folder's .gnomon/config.toml.")
_STORE = click.option("--store", metavar="URL", help="Look into this store, not the usual one.")
JSON = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="text or one JSON object."
)
ID = click.argument("session_id", metavar="ID")


def COMMON(command: _F) -> _F:
    return _STORE(_PROJECT(_QUIET(_DEBUG(command))))


def session_command(name: str, *examples: str) -> Callable[[Callable[..., int]], click.Command]:
    return click.command(name, cls=Command, context_settings=CONTEXT, epilog="\n".join(examples))


@session_command("sessions", "gnomon sessions", "gnomon sessions --limit 100 --output json")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=20, help="How many; 20 if not said."
)
@click.option("--after", metavar="PLACE", help="Go on after a page, from the `next` of its JSON.")
@JSON
@COMMON
def sessions(
    limit: int, after: str | None, output: str, store: str | None, no_project: bool, quiet: bool
) -> int:
    """List what was run, the newest first: id, age, state and first words.

    The beginning of an id is enough wherever an ID is asked for.
    """
    from gnomon.cli.keeping import place_named
    from gnomon.cli.session_list import listed
    from gnomon.cli.stores import told

    as_json = output == "json"
    return told(
        lambda: listed(
            place_named(store, use_project=not no_project), limit, after, as_json=as_json, quiet=quiet
        ),
        as_json=as_json,
    )


@session_command("events", "gnomon events ses_019a", "gnomon events -f ses_019a --output stream-json")
@ID
@click.option("--after", metavar="N", type=click.IntRange(0), default=0, help="Only what stands after N.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, and show it as it is said.")
@click.option(
    "--output",
    metavar="FORM",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="text, json (one object) or stream-json (an event a line).",
)
@COMMON
def events(
    session_id: str,
    after: int,
    follow: bool,
    output: str,
    store: str | None,
    no_project: bool,
    quiet: bool,
) -> int:
    """Show what happened in session ID, one event a line.

    With -f also what happens, in whichever process it is run; Ctrl-C ends that.
    """
    from gnomon.cli.event_log import shown
    from gnomon.cli.keeping import place_named
    from gnomon.cli.stores import told

    if follow and output == "json":
        raise click.UsageError(
            "--follow has no end, so it cannot be one JSON object (use --output stream-json)"
        )
    return told(
        lambda: shown(
            place_named(store, use_project=not no_project), session_id, after, output, follow=follow
        ),
        as_json=output != "text",
    )


@session_command("traces", "gnomon traces ses_019a", "gnomon traces ses_019a --rebuild --output json")
@ID
@click.option("--rebuild", is_flag=True, help="First make what is missing, from the session's events.")
@JSON
@COMMON
def traces(
    session_id: str, rebuild: bool, output: str, store: str | None, no_project: bool, quiet: bool
) -> int:
    """Show what session ID spent its time on, as a tree: turns, model calls, tools.

    Each line has its duration, tokens and cost, as far as they are known.
    """
    from gnomon.cli.keeping import place_named
    from gnomon.cli.stores import told
    from gnomon.cli.trace_tree import shown

    as_json = output == "json"
    return told(
        lambda: shown(
            place_named(store, use_project=not no_project),
            session_id,
            anew=rebuild,
            as_json=as_json,
            quiet=quiet,
        ),
        as_json=as_json,
    )


@session_command("audit", "gnomon audit ses_019a", "gnomon audit ses_019a --verify")
@ID
@click.option("--verify", is_flag=True, help="Say whether a row was changed or removed; exit 1 if so.")
@JSON
@COMMON
def audit(
    session_id: str, verify: bool, output: str, store: str | None, no_project: bool, quiet: bool
) -> int:
    """Show who asked, who decided and what ran in session ID, one row a line.

    Nothing of what was said is in it: gnomon events ID shows that.
    """
    from gnomon.cli.audit_log import shown
    from gnomon.cli.keeping import place_named
    from gnomon.cli.stores import told

    as_json = output == "json"
    return told(
        lambda: shown(
            place_named(store, use_project=not no_project),
            session_id,
            verify=verify,
            as_json=as_json,
            quiet=quiet,
        ),
        as_json=as_json,
    )


@session_command(
    "resume",
    "gnomon resume ses_019a",
    'gnomon resume ses_019a --answer "yes, refund it"',
    "gnomon resume ses_019a --run-again",
)
@ID
@click.option("--answer", metavar="TEXT", help="Answer the question that a tool asked.")
@click.option("--run-again", is_flag=True, help="Run the call again whose outcome is unknown.")
@click.option("--call", "call_id", metavar="ID", help="Which call that is for, where several wait.")
@click.option("--take-over", is_flag=True, help="Also from a process that seems to run it.")
@click.option("-m", "--model", metavar="NAME", help="Go on with another model.")
@click.option(
    "--output",
    metavar="FORM",
    type=click.Choice(["text", "json", "stream-json"]),
    help="text, json (one object) or stream-json (an event a line).",
)
@COMMON
def resume(
    session_id: str,
    answer: str | None,
    run_again: bool,
    call_id: str | None,
    take_over: bool,
    model: str | None,
    output: str | None,
    store: str | None,
    no_project: bool,
    quiet: bool,
) -> int:
    """Go on with what is open in session ID: after a crash, or a question.

    To say something new: gnomon -r ID PROMPT.
    """
    from msgspec import convert

    from gnomon.cli.ask import Question
    from gnomon.cli.session_acts import Resumption, resumed

    typed = {
        "session": session_id,
        "model": model,
        "output": output,
        "no_project": no_project,
        "quiet": quiet,
    }
    act = Resumption(answer=answer, run_again=run_again, call_id=call_id, take_over=take_over, store=store)
    return resumed(convert(typed, Question), act)


@session_command("cancel", "gnomon cancel ses_019a", "gnomon cancel ses_019a --after-step")
@ID
@click.option("--after-step", is_flag=True, help="When the step under way is done, not at once.")
@JSON
@COMMON
def cancel(
    session_id: str, after_step: bool, output: str, store: str | None, no_project: bool, quiet: bool
) -> int:
    """End the turn that is open in session ID, in whichever process it is run.

    The session stays, and takes the next prompt.
    """
    from gnomon.cli.keeping import place_named
    from gnomon.cli.session_acts import cancelled
    from gnomon.cli.stores import told

    as_json = output == "json"
    return told(
        lambda: cancelled(
            place_named(store, use_project=not no_project),
            session_id,
            "after_step" if after_step else "now",
            as_json=as_json,
        ),
        as_json=as_json,
    )


@session_command("fork", "gnomon fork ses_019a", "gnomon fork ses_019a --at 12")
@ID
@click.option("--at", "at", metavar="N", type=click.IntRange(1), help="Up to event N, not to the end.")
@JSON
@COMMON
def fork(
    session_id: str, at: int | None, output: str, store: str | None, no_project: bool, quiet: bool
) -> int:
    """Begin a new session with the same events as session ID; its id is printed.

    gnomon events ID shows the numbers.
    """
    from gnomon.cli.keeping import place_named
    from gnomon.cli.session_acts import forked
    from gnomon.cli.stores import told

    as_json = output == "json"
    return told(
        lambda: forked(place_named(store, use_project=not no_project), session_id, at, as_json=as_json),
        as_json=as_json,
    )


@session_command("replay", "gnomon replay ses_019a", "gnomon replay ses_019a --agent agents.yaml")
@ID
@click.option("-m", "--model", metavar="NAME", help="With another model.")
@click.option("-s", "--system", metavar="TEXT", help="With other instructions.")
@click.option("-t", "--tool", metavar="NAME", multiple=True, help="With these tools; repeatable.")
@click.option("--agent", "agent_file", metavar="FILE", help="With the agent that this file describes.")
@click.option("--archive", metavar="FILE", help="Look into a file of gnomon db export, not a store.")
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@JSON
@COMMON
def replay(
    session_id: str,
    model: str | None,
    system: str | None,
    tool: tuple[str, ...],
    agent_file: str | None,
    archive: str | None,
    as_json: bool,
    output: str,
    store: str | None,
    no_project: bool,
    quiet: bool,
) -> int:
    """Run session ID again on its recorded answers, and say the first difference.

    No model is asked and no tool is run. It exits with 1 when something is otherwise now.
    """
    from gnomon.cli.ask import Question
    from gnomon.cli.keeping import place_named
    from gnomon.cli.session_replay import Asked, shown
    from gnomon.cli.stores import told

    question = Question(
        session=session_id, model=model, system=system, tool=tool, no_project=no_project, quiet=quiet
    )
    asked = Asked(question=question, agent_file=agent_file, archive=archive)
    as_json = as_json or output == "json"
    return told(
        lambda: shown(asked, place_named(store, use_project=not no_project), as_json=as_json), as_json=as_json
    )
