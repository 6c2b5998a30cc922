"""What an agent file says of one agent: checked, filled in, and nothing but plain data."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gnomon.types.requests import Reasoning

__all__ = ["AgentSpec", "Made", "OnChange", "Permissions", "WorkspaceSpec"]

Permissions: TypeAlias = Literal["ask", "accept_edits", "auto", "plan", "deny", "bypass"]
OnChange: TypeAlias = Literal["continue", "pause", "refuse"]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is made from its name in the registry, with settings."""

    name: str
    settings: dict[str, object] = {}

    def __repr__(self) -> str:
        """Settings by name only: a value may be a key."""
        return f"Made({self.name!r}, settings={sorted(self.settings)})"


class WorkspaceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where built-in tools work: a folder, by its real path, and what holds there."""

    root: str | None = None
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One agent of a file; `None` is not set. What the names of tools stand for is up to who uses it."""

    name: str
    title: str | None = None
    """What people call it, where that is not its name."""
    description: str | None = None
    model: str
    """`provider:model`, or the provider alone."""
    settings: dict[str, object] = {}
    """What the provider is made with: an address, a key, limits."""
    instructions: str | None = None
    tools: tuple[str, ...] = ()
    workspace: WorkspaceSpec | None = None
    sandbox: Made | None = None
    """Where the commands of tools run."""
    budget: dict[str, int | float] = {}
    """`rounds`, `tokens`, `cost` (US dollars) and `seconds` of a turn, those that are set."""
    temperature: float | None = None
    max_tokens: int | None = None
    thinking: Reasoning | None = None
    storage: str | None = None
    """The URL of a store; none is memory."""
    permissions: Permissions | None = None
    rules: tuple[str, ...] = ()
    """What is allowed, asked about or denied, each as a line such as `ask pay(amount=…)`."""
    approval_timeout_s: float | None = None
    guardrails: tuple[Made, ...] = ()
    hooks: tuple[Made, ...] = ()
    compactor: Made | None = None
    context_tokens: int | None = None
    subagents: tuple[str, ...] = ()
    """The names of other agents of the file."""
    skills: tuple[str, ...] = ()
    """Folders."""
    memory: bool = False
    on_change: OnChange | None = None
    output_schema: dict[str, object] | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"AgentSpec({shown})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Settings by name only, and of a store what kind it is: a value may be a key."""
        hidden = {
            "settings": sorted(self.settings),
            "storage": self.storage and self.storage.partition("://")[0],
        }
        fields = [(name, getattr(self, name)) for name in self.__struct_fields__]
        unset: tuple[object, ...] = (None, {}, ())
        return [
            (name, hidden.get(name, value))
            for name, value in fields
            if value is not False and value not in unset
        ]
