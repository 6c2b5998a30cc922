"""What the row of a session keeps of the command that began it, so that it goes on as it began."""

from __future__ import annotations

import os

import msgspec

from gnomon.engine.permissions import Mode
from gnomon.types.messages import Meta

__all__ = ["AGENT", "Kept", "here"]

AGENT = "gnomon"
"""The name under which the command's own sessions stand in a store."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """No key and no address: whoever can write to a store must not learn the one or set the other."""

    cwd: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    system: str | None = None
    permissions: Mode | None = None
    has_helper: bool = False
    """Whether it has a sub-agent to hand work to."""
    is_discovered: bool = False
    """Whether the model was found on a port of this machine, where it is looked for again."""

    def as_metadata(self) -> Meta:
        return msgspec.to_builtins(self)

    @classmethod
    def of(cls, metadata: Meta) -> Kept:
        """What can be read of it: the row may be of a session that another program began."""
        try:
            return msgspec.convert(metadata, cls)
        except msgspec.ValidationError:
            return cls()


def here() -> str:
    """This folder, as text that can be stored; empty when it was deleted."""
    try:
        return os.fsencode(os.path.realpath(os.getcwd())).decode(errors="backslashreplace")
    except OSError:
        return ""
