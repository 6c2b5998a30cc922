"""Gnomon: a durable agent runtime. Each public name is loaded when first touched.

```python
from gnomon import Agent, tool
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon import errors as errors
    from gnomon import sync as sync
    from gnomon.agent import Agent as Agent
    from gnomon.contracts.compactor import Compactor as Compactor
    from gnomon.contracts.guardrail import Guardrail as Guardrail
    from gnomon.contracts.hook import Hook as Hook
    from gnomon.contracts.provider import Provider as Provider
    from gnomon.contracts.session import Session as Session
    from gnomon.contracts.session import SessionReader as SessionReader
    from gnomon.contracts.storage import Storage as Storage
    from gnomon.contracts.tool import Context as Context
    from gnomon.contracts.tool import Tool as Tool
    from gnomon.contracts.tool import ToolContext as ToolContext
    from gnomon.engine.budget import Budget as Budget
    from gnomon.engine.permissions import Rule as Rule
    from gnomon.engine.run import Run as Run
    from gnomon.errors import ApprovalRefused as ApprovalRefused
    from gnomon.errors import AskUser as AskUser
    from gnomon.errors import BudgetExceeded as BudgetExceeded
    from gnomon.errors import Conflict as Conflict
    from gnomon.errors import GnomonError as GnomonError
    from gnomon.errors import GuardrailTripped as GuardrailTripped
    from gnomon.errors import InvalidOutput as InvalidOutput
    from gnomon.errors import ToolFailed as ToolFailed
    from gnomon.errors import TurnUnfinished as TurnUnfinished
    from gnomon.facts.catalogue import Catalogue as Catalogue
    from gnomon.facts.catalogue import ModelFacts as ModelFacts
    from gnomon.facts.catalogue import cost as cost
    from gnomon.facts.catalogue import model_facts as model_facts
    from gnomon.facts.prices import Cost as Cost
    from gnomon.memory.memory import Memory as Memory
    from gnomon.session.local import LocalSession as LocalSession
    from gnomon.skills.project import ProjectInstructions as ProjectInstructions
    from gnomon.skills.skills import Skills as Skills
    from gnomon.stream import Stream as Stream
    from gnomon.stream import StreamFold as StreamFold
    from gnomon.tools.function import tool as tool
    from gnomon.tools.http_get import HTTPGet as HTTPGet
    from gnomon.tools.workspace import Workspace as Workspace
    from gnomon.types.codec import decode_event as decode_event
    from gnomon.types.codec import encode_event as encode_event
    from gnomon.types.events import ApprovalDecided as ApprovalDecided
    from gnomon.types.events import ApprovalRequested as ApprovalRequested
    from gnomon.types.events import AttemptDiscarded as AttemptDiscarded
    from gnomon.types.events import BudgetWarning as BudgetWarning
    from gnomon.types.events import CancelRequested as CancelRequested
    from gnomon.types.events import Compacted as Compacted
    from gnomon.types.events import Done as Done
    from gnomon.types.events import Finish as Finish
    from gnomon.types.events import Guarded as Guarded
    from gnomon.types.events import Live as Live
    from gnomon.types.events import MessageCompleted as MessageCompleted
    from gnomon.types.events import MessageReceived as MessageReceived
    from gnomon.types.events import ModelStarted as ModelStarted
    from gnomon.types.events import PartEnd as PartEnd
    from gnomon.types.events import QuestionAnswered as QuestionAnswered
    from gnomon.types.events import QuestionAsked as QuestionAsked
    from gnomon.types.events import StreamWarning as StreamWarning
    from gnomon.types.events import SubagentFinished as SubagentFinished
    from gnomon.types.events import SubagentStarted as SubagentStarted
    from gnomon.types.events import TextDelta as TextDelta
    from gnomon.types.events import ThinkingDelta as ThinkingDelta
    from gnomon.types.events import ToolCallDelta as ToolCallDelta
    from gnomon.types.events import ToolCallEnd as ToolCallEnd
    from gnomon.types.events import ToolCallStart as ToolCallStart
    from gnomon.types.events import ToolFinished as ToolFinished
    from gnomon.types.events import ToolIntent as ToolIntent
    from gnomon.types.events import ToolProgress as ToolProgress
    from gnomon.types.events import TurnCancelled as TurnCancelled
    from gnomon.types.events import TurnFailed as TurnFailed
    from gnomon.types.events import TurnFinished as TurnFinished
    from gnomon.types.events import TurnPaused as TurnPaused
    from gnomon.types.events import TurnResumed as TurnResumed
    from gnomon.types.events import TurnStarted as TurnStarted
    from gnomon.types.events import UsageUpdate as UsageUpdate
    from gnomon.types.messages import Audio as Audio
    from gnomon.types.messages import File as File
    from gnomon.types.messages import Image as Image
    from gnomon.types.messages import Message as Message
    from gnomon.types.messages import Text as Text
    from gnomon.types.messages import Thinking as Thinking
    from gnomon.types.messages import ToolCall as ToolCall
    from gnomon.types.messages import ToolDef as ToolDef
    from gnomon.types.messages import ToolResult as ToolResult
    from gnomon.types.requests import Reasoning as Reasoning
    from gnomon.types.requests import Request as Request
    from gnomon.types.requests import Response as Response
    from gnomon.types.requests import Spent as Spent
    from gnomon.types.requests import Usage as Usage
    from gnomon.types.steps import GuardrailResult as GuardrailResult
    from gnomon.types.steps import HookEvent as HookEvent
    from gnomon.types.steps import SessionStatus as SessionStatus
    from gnomon.types.steps import Turn as Turn

__version__ = "0.1.0"

_HOMES: dict[str, tuple[str, ...]] = {
    "gnomon.agent": ("Agent",),
    "gnomon.contracts.compactor": ("Compactor",),
    "gnomon.contracts.guardrail": ("Guardrail",),
    "gnomon.contracts.hook": ("Hook",),
    "gnomon.contracts.provider": ("Provider",),
    "gnomon.contracts.session": ("Session", "SessionReader"),
    "gnomon.contracts.storage": ("Storage",),
    "gnomon.contracts.tool": ("Context", "Tool", "ToolContext"),
    "gnomon.engine.budget": ("Budget",),
    "gnomon.engine.permissions": ("Rule",),
    "gnomon.engine.run": ("Run",),
    "gnomon.errors": (
        "ApprovalRefused",
        "AskUser",
        "BudgetExceeded",
        "Conflict",
        "GnomonError",
        "GuardrailTripped",
        "InvalidOutput",
        "ToolFailed",
        "TurnUnfinished",
    ),
    "gnomon.facts.catalogue": ("Catalogue", "ModelFacts", "cost", "model_facts"),
    "gnomon.facts.prices": ("Cost",),
    "gnomon.memory.memory": ("Memory",),
    "gnomon.session.local": ("LocalSession",),
    "gnomon.skills.project": ("ProjectInstructions",),
    "gnomon.skills.skills": ("Skills",),
    "gnomon.stream": ("Stream", "StreamFold"),
    "gnomon.tools.function": ("tool",),
    "gnomon.tools.http_get": ("HTTPGet",),
    "gnomon.tools.workspace": ("Workspace",),
    "gnomon.types.codec": ("decode_event", "encode_event"),
    "gnomon.types.events": (
        "ApprovalDecided",
        "ApprovalRequested",
        "AttemptDiscarded",
        "BudgetWarning",
        "CancelRequested",
        "Compacted",
        "Done",
        "Finish",
        "Guarded",
        "Live",
        "MessageCompleted",
        "MessageReceived",
        "ModelStarted",
        "PartEnd",
        "QuestionAnswered",
        "QuestionAsked",
        "StreamWarning",
        "SubagentFinished",
        "SubagentStarted",
        "TextDelta",
        "ThinkingDelta",
        "ToolCallDelta",
        "ToolCallEnd",
        "ToolCallStart",
        "ToolFinished",
        "ToolIntent",
        "ToolProgress",
        "TurnCancelled",
        "TurnFailed",
        "TurnFinished",
        "TurnPaused",
        "TurnResumed",
        "TurnStarted",
        "UsageUpdate",
    ),
    "gnomon.types.messages": (
        "Audio",
        "File",
        "Image",
        "Message",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolDef",
        "ToolResult",
    ),
    "gnomon.types.requests": ("Reasoning", "Request", "Response", "Spent", "Usage"),
    "gnomon.types.steps": ("GuardrailResult", "HookEvent", "SessionStatus", "Turn"),
}
_MODULES = ("errors", "sync")

_home_of = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*sorted(_home_of), *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll] - names load lazily


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"gnomon.{name}")
    if name not in _home_of:
        raise AttributeError(f"module 'gnomon' has no attribute {name!r}")
    value: object = getattr(import_module(_home_of[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
