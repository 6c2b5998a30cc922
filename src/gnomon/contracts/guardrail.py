"""A check on what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from gnomon.types.steps import GuardrailResult

__all__ = ["Guardrail", "Position", "Sentence", "SupportsView", "View", "Whole", "Window"]

Position: TypeAlias = Literal["input", "output", "tool_arguments", "tool_results"]


class Window(msgspec.Struct, frozen=True, tag="window"):
    """Every passage of `size` characters is seen in one piece, so that many are held back."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a window has at least 1 character, not {self.size}")


class Sentence(msgspec.Struct, frozen=True, tag="sentence"):
    """Whole sentences are seen; the one that is not finished is held back."""


class Whole(msgspec.Struct, frozen=True, tag="whole"):
    """The whole text is seen, once; all of it is held back until then."""


View: TypeAlias = Window | Sentence | Whole


@runtime_checkable
class Guardrail(Protocol):
    """A check that lets a text pass, replaces it, or stops the turn.

    Stable since 0.1.

    - `name` must say which guardrail it is to whoever reads that it tripped, and
      `positions` where it is to stand.
    - `check` must judge the content by itself: the same content must give the
      same result, and two checks may run at the same time.
    - a result that has not passed must have a reason. One that has a replacement
      lets the turn go on with it; without one, the turn stops with
      `GuardrailTripped`.
    - on an output the guardrail may be shown the text piece by piece, as
      `SupportsView` says. Events of every kind, thinking and arguments too, must be
      held in order and released only as far as all guardrails have passed; the
      ledger and `Done` must carry what was released. An input that tripped must
      stay in the ledger, and out of every later view (G1).
    - what a tool reports while it works must be judged like its result before
      anybody is shown it. What is stopped must not be shown, and the turn stops
      when the call has ended: it is not cut off in the middle of its effect (G1).
    - a tripped input must stop the turn before a token is paid for, or, when the
      check runs beside the model, before anything is released (G2).
    - a list of words must match whole words, case-folded and Unicode-normalised,
      thousands of them in one pass (G3).
    - a limit of length must say whether it counts characters or tokens (G4).
    - an exception must stop the turn, and must name the guardrail; what could not
      be checked may not pass.
    """

    @property
    def name(self) -> str: ...

    @property
    def positions(self) -> AbstractSet[Position]: ...

    async def check(self, content: str) -> GuardrailResult: ...


@runtime_checkable
class SupportsView(Protocol):
    """A guardrail that need not see a whole answer to judge it.

    - a guardrail without this must be shown the answer whole (G1).
    - one with `Window(n)` must find whatever it looks for in n characters. What is
      shown to it must overlap, so that nothing hides where two pieces meet (G1).
    """

    @property
    def view(self) -> View: ...
