"""What a replay came to: how far it went, what differs, and what was taken as it was recorded."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["Difference", "DifferenceKind", "Replay", "Skipped", "short"]

DifferenceKind: TypeAlias = Literal[
    "agent",
    "model",
    "instructions",
    "tools",
    "parameters",
    "permissions",
    "definition",
    "messages",
    "answer",
    "call",
    "result",
    "question",
    "end",
]
"""What differs: the definition of the agent, what is sent, what is called and comes back, how a turn ends."""

_LONGEST = 400


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that would be otherwise now. `turn` and `round` count from 1, `seq` is its place."""

    turn: int
    turn_id: str
    round: int
    seq: int
    kind: DifferenceKind
    what: str
    expected: str = ""
    found: str = ""

    @property
    def place(self) -> str:
        """Where it is, and what."""
        return f"turn {self.turn}, round {self.round} (event {self.seq}): {self.what}"

    def __str__(self) -> str:
        lines = [self.place]
        if self.expected or self.found:
            lines += [
                f"  recorded: {self.expected or '(nothing)'}",
                f"  now:      {self.found or '(nothing)'}",
            ]
        return "\n".join(lines)


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was taken as it was recorded, and not done again; `turn` 0 is the whole session."""

    turn: int
    seq: int
    what: str

    def __str__(self) -> str:
        where = f"turn {self.turn} (event {self.seq})" if self.turn else "the session"
        return f"{where}: {self.what}"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """How a recorded session went again, with the agent as it is now.

    `rounds` are the answers of the model that were played. Ids, times and costs are not compared.
    `skipped` says what could not be done again.
    """

    session_id: str
    turns: int
    rounds: int
    differences: tuple[Difference, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def first(self) -> Difference | None:
        """The first difference; `None` when it went as before."""
        return self.differences[0] if self.differences else None

    def check(self, *, whole: bool = False) -> None:
        """`AssertionError` with the first difference. With `whole`, also where something was skipped."""
        if self.first is not None:
            raise AssertionError(f"session {self.session_id} goes otherwise now: {self.first}")
        if whole and self.skipped:
            raise AssertionError(f"session {self.session_id} was not replayed whole: {self.skipped[0]}")


def short(text: str, limit: int = _LONGEST) -> str:
    """The text, as long as a person may want to read it."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} … {text[head - limit :]}"
