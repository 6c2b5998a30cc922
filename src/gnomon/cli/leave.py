"""Leave for a call: how a request for it is shown, and the answer of a person at the terminal."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Literal, NamedTuple, TypeAlias

from gnomon.cli.problems import clean, one_line
from gnomon.cli.screen import Screen
from gnomon.types.events import ApprovalRequested
from gnomon.types.messages import ToolCall

__all__ = ["Decision", "Leave", "as_shown", "ask_leave", "by_whom", "can_ask", "request_lines"]

Decision: TypeAlias = Literal["approve", "deny", "always"]

_LONGEST = 4_000
_LINE_BYTES = 4_096
_ANSWERS: dict[str, Decision] = {
    "y": "approve",
    "yes": "approve",
    "n": "deny",
    "no": "deny",
    "a": "always",
    "always": "always",
}


class Leave(NamedTuple):
    """What somebody answered, and why."""

    decision: Decision
    reason: str | None = None


def as_shown(call: ToolCall) -> str:
    """The whole call as it would be made: nothing in it is left out, and what cannot be seen is spelt out."""
    text = clean(re.sub(r"[\r\n\t]", " ", call.arguments))
    spelt = "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)
    if len(spelt) > _LONGEST:
        spelt = f"{spelt[:_LONGEST]}… ({len(spelt):,} characters in all)"
    return f"{one_line(call.name, 64)}({spelt})"


def request_lines(asked: ApprovalRequested) -> list[str]:
    """The call, who wants to make it, and why that is asked about."""
    whose = " of a sub-agent" if asked.path else ""
    lines = [as_shown(asked.call), f"  needs leave{whose}: {one_line(asked.reason, 300)}"]
    if asked.rule:
        lines.append(f"  always means: {one_line(asked.rule, 400)}")
    if asked.expires_at is not None:
        lines.append(f"  until {asked.expires_at.astimezone():%Y-%m-%d %H:%M:%S}")
    return lines


def by_whom() -> str:
    """Who answers, as the machine knows them."""
    from getpass import getuser

    try:
        return getuser()
    except (OSError, KeyError):  # a user without a name
        return ""


def can_ask() -> bool:
    """Whether there is a person who sees a question and can answer it."""
    streams = (sys.stdin, sys.stderr)
    return os.name == "posix" and all(
        stream is not None and not stream.closed and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `<&-`
        for stream in streams
    )


async def ask_leave(asked: ApprovalRequested, screen: Screen) -> Leave | None:
    """The answer to the request; `None` where there is none, as after Ctrl-D."""
    choices = "[y]es, [n]o, [a]lways" if asked.rule else "[y]es, [n]o"
    screen.question("\n".join([*request_lines(asked), f"{choices}? "]))
    while (line := await _line(sys.stdin.fileno())) is not None:
        leave = _read(line, may_always=bool(asked.rule))
        if leave is not None:
            return leave
        screen.question(f"{choices} (no may have a reason: n TEXT)? ")
    return None


def _read(line: str, *, may_always: bool) -> Leave | None:
    word, _, rest = line.strip().partition(" ")
    decision = _ANSWERS.get(word.strip(",.:;").lower())
    if decision is None or (rest and decision != "deny") or (decision == "always" and not may_always):
        return None
    return Leave(decision, rest.strip() or None)


async def _line(fd: int) -> str | None:
    """A line that is typed; what runs goes on meanwhile, and Ctrl-C ends the wait."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        loop.remove_reader(fd)
        if not typed.done():
            typed.set_result(os.read(fd, _LINE_BYTES))

    loop.add_reader(fd, read)
    try:
        line = await typed
    finally:
        loop.remove_reader(fd)
    return line.decode(errors="replace") if line else None
