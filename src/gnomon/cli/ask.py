"""One shot: a prompt in, an answer out. It is a session, which `-c` and `-r` go on with."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from gnomon import config, registry
from gnomon.agent import Agent
from gnomon.cli.choice import DEMO, Choice, chosen, discovered, settings_for
from gnomon.cli.conversing import Shows, shown_turn
from gnomon.cli.keeping import Place, place, prepare
from gnomon.cli.kept import AGENT, Kept, here
from gnomon.cli.problems import BUDGET, FAILED, report
from gnomon.cli.prompt import compose, piped_text, spoken
from gnomon.cli.render import renderer
from gnomon.cli.screen import Screen
from gnomon.contracts.session import WhenBusy
from gnomon.engine.budget import Budget
from gnomon.errors import InvalidInput, StorageError
from gnomon.types.events import RunEvent
from gnomon.types.messages import attachment

if TYPE_CHECKING:
    from gnomon.cli.render import Renderer
    from gnomon.types.messages import Content
    from gnomon.types.records import SessionRecord
    from gnomon.types.steps import Turn

__all__ = ["Question", "as_it_began", "ask", "command_agent", "flags", "going_on", "show_turn"]

_DEMO_TOOLS = ("calculate", "now")
_RUNNER_LOGS = ("gnomon.driver", "gnomon.session")
"""What they would say on stderr is the command's own error, or no news to whoever typed it."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed; `None` was not."""

    words: tuple[str, ...] = ()
    model: str | None = None
    system: str | None = None
    attach: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    goes_on: bool = False
    session: str | None = None
    when_busy: WhenBusy | None = None
    output: config.Output | None = None
    max_rounds: int | None = None
    no_store: bool = False
    no_project: bool = False
    quiet: bool = False
    debug: bool = False

    @property
    def is_next(self) -> bool:
        """Whether it is asked in a session that is there."""
        return self.goes_on or self.session is not None


def ask(question: Question) -> int:
    """Show the answer to a question, in the form it was asked for; the exit code."""
    return show_turn(question, _asked)


def show_turn(
    question: Question, work: Callable[[Question, config.Config, Renderer, Screen], Turn | None]
) -> int:
    """Do what ends with a turn, if any; whoever asked for JSON is told of failures in it. The exit code."""
    screen = Screen(quiet=question.quiet)
    show = renderer(question.output or "text", screen)
    try:
        loaded = config.load(flags=flags(question), use_project=not question.no_project).config
        show = renderer(loaded.output or "text", screen)
        turn = work(question, loaded, show, screen)
    except BaseException as error:
        with suppress(OSError):  # the output itself may be what failed
            show.fail(error)
        raise
    return _verdict(turn) if turn is not None else 0


def flags(question: Question) -> dict[str, object]:
    """The options in the shape of a config file, which they stand above."""
    return {
        "model": question.model,
        "system": None if question.system is None else spoken([question.system]),
        "output": question.output,
        "tools": list(question.tool) or None,
        "budget": {"rounds": question.max_rounds},
    }


def _asked(question: Question, loaded: config.Config, show: Renderer, screen: Screen) -> Turn:
    _check(question)
    where = None if question.no_store else place(loaded, os.environ)
    if question.is_next:
        return _next_turn(question, loaded, where, show, screen)
    choice = Choice(loaded.model, "named") if loaded.model else chosen(loaded, os.environ)
    if loaded.model is None:
        screen.aside(f"gnomon: {choice.model} answers: {choice.because} (choose with -m or GNOMON_MODEL)")
    agent, prompt = command_agent(loaded, choice, where), _prompt(question)
    kept = _kept(loaded, choice)
    _hold(agent, screen)
    if where is None and not question.no_store:
        _warn(screen, "there is no home folder to keep it in (set HOME, or GNOMON_STORE)")
    turn, agent = asyncio.run(
        _once(agent, where, kept, lambda: command_agent(loaded, choice, None), prompt, show, screen)
    )
    show.finish(turn, agent.provider)  # after everything is closed, which may fail as well
    return turn


def _check(question: Question) -> None:
    if question.goes_on and question.session is not None:
        raise InvalidInput(
            "-c and -r were both given", hint="-c is the latest session of this folder, -r ID any"
        )
    if question.is_next and question.no_store:
        raise InvalidInput("--no-store keeps nothing, so there is nothing to go on with", hint="leave it out")
    if question.when_busy is not None and not question.is_next:
        raise InvalidInput("--when-busy is for a session that is there", hint="give -c or -r ID as well")


def _prompt(question: Question) -> str | list[Content]:
    words = spoken(question.words)
    attachments = [attachment(path) for path in question.attach]
    return compose(words, piped_text(quiet=question.quiet), attachments)


def _hold(agent: Agent, screen: Screen) -> None:
    if agent.provider.name == "fallback":
        screen.hold_answer()


def command_agent(settings: config.Config, choice: Choice, where: Place | None) -> Agent:
    """An agent that runs what was asked for and no other session: that would be paid for by nobody's wish."""
    for name in _RUNNER_LOGS:
        logging.getLogger(name).addHandler(logging.NullHandler())
    provider = registry.parse_model(choice.model).provider
    limits = {
        name: limit for name, limit in msgspec.structs.asdict(settings.budget).items() if limit is not None
    }
    return Agent(
        choice.model,
        name=AGENT,
        instructions=settings.system,
        tools=_tools(settings, choice),
        storage=where.url if where is not None else None,
        budget=Budget(**limits),
        adopt=False,
        settings={**settings_for(provider, settings), **choice.settings},
        models=settings.models,
    )


def _tools(settings: config.Config, choice: Choice) -> tuple[str, ...]:
    if settings.tools is not None:
        return tuple(settings.tools)
    return _DEMO_TOOLS if registry.parse_model(choice.model).provider == DEMO else ()


def _kept(settings: config.Config, choice: Choice) -> Kept:
    return Kept(
        cwd=here(),
        model=choice.model,
        tools=_tools(settings, choice),
        system=settings.system,
        is_discovered=bool(choice.settings),
    )


# --- a session of its own -----------------------------------------------------------


async def _once(
    agent: Agent,
    where: Place | None,
    kept: Kept,
    unkept: Callable[[], Agent],
    prompt: str | list[Content],
    show: Renderer,
    screen: Screen,
) -> tuple[Turn, Agent]:
    """An answer is worth more than its record: where nothing can be stored, it is given all the same."""
    shown = _Counted(show)
    try:
        if where is not None:
            prepare(where)
        return await _answer(agent, prompt, shown, kept if where is not None else None), agent
    except StorageError as error:
        if shown.count or where is None:
            raise
        _warn(screen, str(error))
    agent = unkept()
    return await _answer(agent, prompt, show, None), agent


class _Counted:
    """Shows events, and knows whether there were any: after the first, nothing is done over."""

    def __init__(self, show: Renderer) -> None:
        self._show = show
        self.count = 0

    def show(self, event: RunEvent) -> None:
        self.count += 1
        self._show.show(event)


async def _answer(agent: Agent, prompt: str | list[Content], show: Shows, kept: Kept | None) -> Turn:
    metadata = kept.as_metadata() if kept is not None else None
    async with agent, agent.stream(prompt, metadata=metadata) as run:
        turn = await shown_turn(agent, run, show)
        return turn if kept is not None else msgspec.structs.replace(turn, session_id="")


def _warn(screen: Screen, why: str) -> None:
    from gnomon.cli.problems import one_line

    screen.note(f"gnomon: warning: this run is not kept: {one_line(why, 400)}")


# --- the next turn of a session -----------------------------------------------------


def _next_turn(
    question: Question, loaded: config.Config, where: Place | None, show: Renderer, screen: Screen
) -> Turn:
    from gnomon.cli.asking import asked_in

    row = _meant(question, where)
    assert where is not None
    agent = going_on(question, loaded, row, where)
    _hold(agent, screen)
    prompt = _prompt(question)
    turn = asyncio.run(asked_in(agent, row.id, prompt, show, screen, when_busy=question.when_busy or "queue"))
    show.finish(turn, agent.provider)
    return turn


def _meant(question: Question, where: Place | None) -> SessionRecord:
    from gnomon.cli.finding import by_id, in_store, latest_here, nothing_here

    if where is None:
        raise InvalidInput("there is no home folder to keep sessions in", hint="set HOME or GNOMON_STORE")
    if not where.is_there:
        raise nothing_here()
    typed = question.session
    return in_store(where, latest_here if typed is None else lambda store: by_id(store, typed))


def going_on(question: Question, loaded: config.Config, row: SessionRecord, where: Place) -> Agent:
    """The agent that the session began with, but for what was typed now."""
    if row.agent_id != AGENT:
        raise InvalidInput(
            f"session {row.id!r} is of the agent {row.agent_id!r}, which this command does not know",
            hint="go on with it in the program that has this agent",
        )
    settings = as_it_began(question, loaded, row)
    return command_agent(settings, _choice(question, settings, Kept.of(row.metadata)), where)


def as_it_began(question: Question, loaded: config.Config, row: SessionRecord) -> config.Config:
    """The settings that the session began with, but for what was typed now."""
    kept = Kept.of(row.metadata)
    return msgspec.structs.replace(
        loaded,
        model=question.model or kept.model or loaded.model,
        system=loaded.system if question.system is not None or kept.model is None else kept.system,
        tools=loaded.tools if question.tool or kept.tools is None else kept.tools,
    )


def _choice(question: Question, settings: config.Config, kept: Kept) -> Choice:
    if settings.model is None:
        return chosen(settings, os.environ)
    if kept.is_discovered and question.model is None:
        return discovered(settings.model, settings, os.environ)
    return Choice(settings.model, "as before")


def _verdict(turn: Turn) -> int:
    if turn.stop == "cancelled":
        report("the turn was cancelled elsewhere", kind="stopped: ")
        return FAILED
    if turn.stop not in ("rounds", "tokens", "seconds", "cost"):
        return 0
    report(f"the budget of {turn.stop} was reached, so the answer may not be complete", kind="stopped: ")
    return BUDGET
