"""One shot: a prompt in, an answer out."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from gnomon import config, registry
from gnomon.agent import Agent
from gnomon.cli.choice import DEMO, Choice, chosen, settings_for
from gnomon.cli.problems import BUDGET, report
from gnomon.cli.prompt import compose, piped_text, spoken
from gnomon.cli.render import renderer
from gnomon.cli.screen import Screen
from gnomon.engine.budget import Budget
from gnomon.types.messages import attachment

if TYPE_CHECKING:
    from gnomon.cli.render import Renderer
    from gnomon.types.messages import Content
    from gnomon.types.steps import Turn

__all__ = ["Question", "ask", "flags"]

_DEMO_TOOLS = ("calculate", "now")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed; `None` was not."""

    words: tuple[str, ...]
    model: str | None = None
    system: str | None = None
    attach: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    output: config.Output | None = None
    max_rounds: int | None = None
    no_project: bool = False
    quiet: bool = False
    debug: bool = False


def ask(question: Question) -> int:
    """Show the answer to a question, in the form it was asked for; the exit code."""
    screen = Screen(quiet=question.quiet)
    show = renderer(question.output or "text", screen)
    try:
        loaded = config.load(flags=flags(question), use_project=not question.no_project).config
        show = renderer(loaded.output or "text", screen)
        choice = Choice(loaded.model, "named") if loaded.model else chosen(loaded, os.environ)
        agent, prompt = _agent(loaded, choice), _prompt(question)
        if agent.provider.name == "fallback":
            screen.hold_answer()
        if loaded.model is None:
            screen.aside(f"gnomon: {choice.model} answers: {choice.because} (choose with -m or GNOMON_MODEL)")
        turn = asyncio.run(_answer(agent, prompt, show))
        show.finish(turn, agent.provider)  # after everything is closed, which may fail as well
    except BaseException as error:
        with suppress(OSError):  # the output itself may be what failed
            show.fail(error)
        raise
    return _verdict(turn)


def flags(question: Question) -> dict[str, object]:
    """The options in the shape of a config file, which they stand above."""
    return {
        "model": question.model,
        "system": None if question.system is None else spoken([question.system]),
        "output": question.output,
        "tools": list(question.tool) or None,
        "budget": {"rounds": question.max_rounds},
    }


def _prompt(question: Question) -> str | list[Content]:
    words = spoken(question.words)
    attachments = [attachment(path) for path in question.attach]
    return compose(words, piped_text(quiet=question.quiet), attachments)


def _agent(settings: config.Config, choice: Choice) -> Agent:
    provider = registry.parse_model(choice.model).provider
    tools = settings.tools
    if tools is None:
        tools = _DEMO_TOOLS if provider == DEMO else ()
    limits = {
        name: limit for name, limit in msgspec.structs.asdict(settings.budget).items() if limit is not None
    }
    return Agent(
        choice.model,
        name="gnomon",
        instructions=settings.system,
        tools=tools,
        budget=Budget(**limits),
        settings={**settings_for(provider, settings), **choice.settings},
        models=settings.models,
    )


async def _answer(agent: Agent, prompt: str | list[Content], show: Renderer) -> Turn:
    async with agent, agent.stream(prompt) as run:
        async for event in run:
            show.show(event)
        return run.turn


def _verdict(turn: Turn) -> int:
    if turn.stop not in ("rounds", "tokens", "seconds", "cost"):
        return 0
    report(f"the budget of {turn.stop} was reached, so the answer may not be complete", kind="stopped: ")
    return BUDGET
