"""An agent whose tools leave their effects in a file, and whose model leaves its requests there: what really
happened is counted outside the ledger, line by line, and survives whoever is killed."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gnomon import Agent, ToolContext, tool
from gnomon.contracts.storage import Storage
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.types.requests import Request

__all__ = [
    "KINDS",
    "STEPS",
    "Effects",
    "Noted",
    "effects_agent",
    "held_script",
    "held_tools",
    "ten_steps",
    "tools_of",
]

KINDS = ("look", "pay", "mail", "store", "book")
"""A tool that only reads; one to be asked about; one of which the model is told; an idempotent one; one that
can look its calls up."""

STEPS = (*KINDS, *KINDS)


class Noted(msgspec.Struct, omit_defaults=True):
    """A line of the file: `asked` the model, `ran` a tool, or had an `effect`."""

    what: str
    name: str = ""
    key: str = ""
    attempt: int = 0
    pid: int = 0


_noted = msgspec.json.Decoder(Noted).decode


class Effects:
    """The file. A line is there whole, and on the disk, before whoever wrote it goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, what: str, name: str = "", key: str = "", attempt: int = 0) -> None:
        line = msgspec.json.encode(Noted(what, name, key, attempt, os.getpid())) + b"\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)

    def all(self, what: str | None = None) -> list[Noted]:
        if not self._path.exists():
            return []
        lines = map(_noted, self._path.read_bytes().splitlines())
        return [line for line in lines if what in (None, line.what)]

    def has(self, key: str) -> bool:
        return any(line.key == key for line in self.all("effect"))

    def is_open(self) -> bool:
        return self._path.with_suffix(".gate").exists()

    def open(self) -> None:
        """Let whatever waits go on."""
        self._path.with_suffix(".gate").touch()

    async def gate(self) -> None:
        while not self.is_open():  # noqa: ASYNC110 - it is another process that says when
            await asyncio.sleep(0.01)

    def by_key(self, what: str) -> Counter[str]:
        return Counter(line.key for line in self.all(what))


def tools_of(effects: Effects) -> list[Any]:
    """One tool of each kind."""

    @tool(read_only=True)
    async def look(ctx: ToolContext, step: int) -> str:
        effects.note("ran", "look", ctx.idempotency_key, ctx.attempt)
        return f"seen {step}"

    @tool
    async def pay(ctx: ToolContext, step: int) -> str:
        return _acted(effects, "pay", ctx, step)

    @tool(on_unknown="tell")
    def mail(ctx: ToolContext, step: int) -> str:
        return _acted(effects, "mail", ctx, step)

    @tool(idempotent=True)
    async def store(ctx: ToolContext, step: int) -> str:
        effects.note("ran", "store", ctx.idempotency_key, ctx.attempt)
        if not effects.has(ctx.idempotency_key):
            effects.note("effect", "store", ctx.idempotency_key, ctx.attempt)
        return f"store {step}"

    def found(key: str) -> str | None:
        return "book, as was found" if effects.has(key) else None

    @tool(lookup=found)
    def book(ctx: ToolContext, step: int) -> str:
        return _acted(effects, "book", ctx, step)

    return [look, pay, mail, store, book]


def _acted(effects: Effects, name: str, ctx: ToolContext, step: int) -> str:
    effects.note("ran", name, ctx.idempotency_key, ctx.attempt)
    effects.note("effect", name, ctx.idempotency_key, ctx.attempt)
    return f"{name} {step}"


def ten_steps(effects: Effects, steps: Sequence[str] = STEPS) -> Callable[[Request], Line]:
    """A model that makes its ten calls one after another; where it stands it sees from what it is shown."""

    def answer(request: Request) -> Line:
        effects.note("asked")
        at = max(at for at, message in enumerate(request.messages) if message.role == "user")
        done = sum(message.role == "assistant" for message in request.messages[at:])
        if done == len(steps):
            return says("Done.")
        return calls(steps[done], step=done)

    return answer


def effects_agent(effects: Effects, storage: str | Storage, **options: Any) -> Agent[str]:
    provider = ScriptedProvider(options.pop("script", None) or ten_steps(effects))
    return Agent(provider, name="effects", tools=tools_of(effects), storage=storage, **options)


# --- an agent that can be held in the middle of things ----------------------------------------------------


def held_tools(effects: Effects) -> list[Any]:
    """The tools above, and two that wait in the middle of their work: on the event loop, and in a thread."""

    @tool(timeout_s=600)
    async def hold(ctx: ToolContext) -> str:
        effects.note("ran", "hold", ctx.idempotency_key, ctx.attempt)
        effects.note("effect", "hold", ctx.idempotency_key, ctx.attempt)
        await effects.gate()
        return "held"

    @tool(timeout_s=600)
    def block(ctx: ToolContext) -> str:
        effects.note("ran", "block", ctx.idempotency_key, ctx.attempt)
        effects.note("effect", "block", ctx.idempotency_key, ctx.attempt)
        while not effects.is_open() and not ctx.cancelled:
            time.sleep(0.01)
        return "blocked"

    return [*tools_of(effects), hold, block]


def held_script(effects: Effects) -> Callable[[Request], Awaitable[Line]]:
    """What the user says decides: ten steps, a wait in the model, a wait in a tool, a long text, an echo."""
    steps = ten_steps(effects)

    async def answer(request: Request) -> Line:
        last = request.messages[-1]
        user = next(message for message in reversed(request.messages) if message.role == "user")
        match user.text.split():
            case ["Go."]:
                return steps(request)
            case ["hold", "model"]:
                effects.note("asked")
                await effects.gate()
                return says("Held.")
            case ["hold" | "block" as name, "tool"]:
                effects.note("asked")
                return says("Held.") if last.role == "tool" else calls(name).calling("pay", step=1)
            case ["say", words]:
                effects.note("asked")
                return says(" ".join(f"word{at}" for at in range(int(words))))
            case _:
                effects.note("asked")
                return says(f"re: {user.text}")

    return answer
