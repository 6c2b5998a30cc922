"""Tools that work in a place: a folder, a sandbox, the hosts that may be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gnomon.contracts.tool import Tool

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["Placed", "SupportsWorkspace", "placed"]


@runtime_checkable
class SupportsWorkspace(Protocol):
    """What becomes a tool in a workspace. A name of the registry may stand for one, and so may an item of
    `Agent(tools=[…])`.

    - `in_workspace` must raise `ConfigError` when the workspace lacks what the tool needs, such as a folder.
    - it must not start anything: what is slow, such as a sandbox, is made by the first call.
    """

    def in_workspace(self, workspace: Workspace) -> Tool: ...


class Placed:
    """A built-in tool before it has its place, as the registry knows it."""

    def __init__(self, name: str, make: Callable[[Workspace], Tool], description: str) -> None:
        self.name = name
        self.__doc__ = description
        self._make = make

    def in_workspace(self, workspace: Workspace) -> Tool:
        return self._make(workspace)

    def __repr__(self) -> str:
        return f"<tool {self.name}, which needs a workspace>"


def placed(name: str) -> Callable[[Callable[[Workspace], Tool]], Placed]:
    """A function of a workspace as what the registry knows: its docstring says what the tool is for."""
    return lambda make: Placed(name, make, make.__doc__ or "")
