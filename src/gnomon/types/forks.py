"""What a fork of a session would keep, end and not know of."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gnomon.types.messages import ToolStatus

__all__ = ["ForkPlan", "ForkedCall", "ForkedTurn", "TurnFate"]

TurnFate: TypeAlias = Literal["kept", "cancelled", "left out"]
"""What becomes of a turn in the fork: it stands as it is, it ends there, or the fork knows nothing of it."""


class ForkedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of the session, and what becomes of it. `first` and `last` are its places in the ledger."""

    id: str
    fate: TurnFate
    first: int
    last: int


class ForkedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that was begun. `status` is its result at the place of the fork, or after it; `None`: none.

    `acts` says whether its tool has side effects.
    """

    turn_id: str
    call_id: str
    name: str
    acts: bool
    status: ToolStatus | None = None


class ForkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What `fork` would do at that place. Nothing runs by itself in a fork: it takes the next message."""

    session_id: str
    at: int
    turns: tuple[ForkedTurn, ...] = ()
    messages: int = 0
    """How many messages a model is shown next time, before the next one of the user."""
    open_calls: tuple[ForkedCall, ...] = ()
    """Open at that place. They end as cancelled there; the effect of one that acts may stand."""
    waiting: tuple[str, ...] = ()
    """The ids of messages that wait at that place: the fork keeps them, and does not answer them."""
    ran: tuple[ForkedCall, ...] = ()
    """Had their result before that place: they are not repeated, and the fork knows their results."""
    unknown_to_fork: tuple[ForkedCall, ...] = ()
    """Had their result after that place: what they did stands, and the fork does not know of it."""
    last_message_id: str | None = None
    """The last message of the user that the fork keeps."""
    is_last_answered: bool = False
    """Whether that message has its whole answer there. The fork does not answer it again by itself."""
