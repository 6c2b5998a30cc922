"""`Workspace`: the place where built-in tools work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, cast

import msgspec

from gnomon import registry
from gnomon._beneath import Beneath
from gnomon.contracts.sandbox import Sandbox
from gnomon.contracts.tool import Tool
from gnomon.errors import ConfigError, SandboxError
from gnomon.tools._places import SupportsWorkspace
from gnomon.tools.function import as_tool
from gnomon.types.steps import ExecLimits

__all__ = ["Recipe", "SupportsWorkspace", "Workspace", "tool_in"]


class Workspace:
    """A folder that tools read and change, a sandbox for what they run, and the hosts that they may ask.

    ```python
    workspace = Workspace("project", hosts=["api.example.com"])
    agent = Agent("demo", tools=["read_file", "edit_file", "shell"], workspace=workspace)
    ```

    Nothing that a file tool reaches lies outside `root`, whatever links there are. With `read_only` nothing
    in it is changed, by a command neither. Without a `root` there are no file tools, and commands share an
    empty folder.

    `sandbox` is where commands run: the name of one, or a `Sandbox`, which then is yours to close. The
    default is a `ProcessSandbox` of this folder, made when a command is first run.

    `secrets` are files, by path in the folder, that may be read although they look like secrets: keys, `.env`
    and the like are refused to every file tool otherwise.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        sandbox: Sandbox | str | None = None,
        hosts: Sequence[str] = (),
        secrets: Sequence[str] = (),
    ) -> None:
        self._sandbox, self._recipe = _sandbox_from(sandbox)
        self._owns_sandbox = self._sandbox is None
        root = root if root is not None else _folder_of(self._sandbox)
        self._beneath = Beneath(os.path.expanduser(os.fspath(root))) if root is not None else None
        self.read_only = read_only
        self.hosts = _texts("hosts", hosts)
        self.secrets = _texts("secrets", secrets)
        self._lock = threading.Lock()
        self._is_closed = False
        _check_same_folder(self, self._sandbox)

    @property
    def root(self) -> str | None:
        """The folder, by its real path."""
        return self._beneath.path if self._beneath is not None else None

    def files(self, needed_by: str) -> Beneath:
        """What files are reached through; `ConfigError` where there is no folder."""
        if self._beneath is None:
            raise ConfigError(
                f"tool {needed_by!r} needs a folder to work in",
                hint='give the agent one: Agent(…, workspace="project")',
            )
        return self._beneath

    @property
    def sandbox(self) -> Sandbox:
        """Where commands run. Made at the first use, which may take a moment: ask for it in a thread."""
        with self._lock:
            if self._is_closed:
                raise SandboxError("the workspace is closed", hint="make another one")
            if self._sandbox is None:
                self._sandbox = self._recipe.made(self.root, self.read_only)
            return self._sandbox

    def tool(self, name: str) -> Tool:
        """The registered tool of that name, at work here."""
        return tool_in(self, name)

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """Several of them."""
        return tuple(map(self.tool, names))

    async def close(self) -> None:
        """End what runs in its own sandbox, and let go of the folder. May be called twice."""
        with self._lock:
            self._is_closed = True
            sandbox = self._sandbox if self._owns_sandbox else None
        if sandbox is not None:
            await sandbox.close()
        if self._beneath is not None:
            self._beneath.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Workspace({self.root!r}{', read_only=True' if self.read_only else ''})"


def tool_in(workspace: Workspace, item: object) -> Tool:
    """A name, a function or a tool, as a tool that works here."""
    if isinstance(item, str):
        item = registry.load("tools", item)
    if isinstance(item, SupportsWorkspace):
        item = item.in_workspace(workspace)
    if isinstance(item, Tool) and not isinstance(item, type):
        return item
    if callable(item):
        return as_tool(item)
    raise TypeError(f"a tool is a function, a Tool or a name, not {type(item).__name__}")


# --- the sandbox ------------------------------------------------------------


class Recipe(NamedTuple):
    """The name of a sandbox, and what else it is made with."""

    name: str = "process"
    settings: Mapping[str, object] = {}

    def made(self, root: str | None, read_only: bool) -> Sandbox:
        settings = {**self.settings}
        if "limits" in settings:  # a table, in a file
            settings["limits"] = msgspec.convert(settings["limits"], ExecLimits)
        if read_only and root is not None:
            # What may not be changed is only shown: commands then begin in an empty folder.
            settings["read"] = [root, *cast("Sequence[str]", settings.get("read", ()))]
        else:
            settings["workspace"] = root
        kind = cast("Callable[..., object]", registry.load("sandboxes", self.name))
        try:
            made = kind(**settings)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"sandbox {self.name!r} cannot be made with these settings: {error}") from None
        if not isinstance(made, Sandbox):
            raise ConfigError(f"sandbox {self.name!r} gave {type(made).__name__}, not a Sandbox")
        return made


def _sandbox_from(given: object) -> tuple[Sandbox | None, Recipe]:
    """One that is there, or how one is made: a name that is wrong is said at once."""
    if isinstance(given, Sandbox) and not isinstance(given, type):
        return given, Recipe()
    if given is None:
        return None, Recipe()
    recipe = Recipe(given) if isinstance(given, str) else given
    if not isinstance(recipe, Recipe):
        raise TypeError(f"a sandbox is a name such as 'process' or a Sandbox, not {type(given).__name__}")
    registry.load("sandboxes", recipe.name)
    return None, recipe


def _folder_of(sandbox: object) -> str | None:
    """The folder of the host that its commands share, where it says so."""
    folder = getattr(sandbox, "workspace", None)
    return folder if isinstance(folder, str) else None


def _check_same_folder(workspace: Workspace, sandbox: Sandbox | None) -> None:
    """File tools and commands that do not see the same files would be a riddle to every model."""
    folder, root = _folder_of(sandbox), workspace.root
    if folder is None or root is None:
        return
    if workspace.read_only and os.path.realpath(folder) == root:
        raise ConfigError(
            f"the workspace {root!r} is read-only, and its sandbox may write there",
            hint="leave the sandbox out, or give it as ProcessSandbox(read=[…])",
        )
    if not workspace.read_only and os.path.realpath(folder) != root:
        raise ConfigError(
            f"the files of the workspace are in {root!r}, and its sandbox works in {folder!r}",
            hint="make the sandbox with workspace=… of the same folder",
        )


def _texts(what: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str | bytes):
        raise TypeError(f"{what} are given as a list, not as one text: write [{given!r}]")
    texts = tuple(given)
    for each in cast("tuple[object, ...]", texts):
        if not isinstance(each, str) or not each:
            raise TypeError(f"{what} are texts, not {each!r}")
    return texts
