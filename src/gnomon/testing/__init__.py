"""The test kit: suites that any back end can run, a scripted model, and small things for tests.

Each name is loaded when it is first touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.providers.scripted import (
        Call,
        Line,
        Reply,
        ScriptedProvider,
        calls,
        fails,
        hallucinates,
        says,
    )
    from gnomon.replay import Replay, ReplayProvider, replay
    from gnomon.testing._fixtures import Wire
    from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
    from gnomon.testing._suite import Contract
    from gnomon.testing._wire_suite import WireLimits
    from gnomon.testing.clock import FakeClock
    from gnomon.testing.compactor import CompactorContract
    from gnomon.testing.counter import TokenCounterContract
    from gnomon.testing.driver import DriverContract
    from gnomon.testing.embedder import EmbedderContract
    from gnomon.testing.guardrail import GuardrailContract
    from gnomon.testing.hook import HookContract
    from gnomon.testing.hook_kinds import (
        CacheHookContract,
        CostHookContract,
        RateLimitHookContract,
        RetryHookContract,
    )
    from gnomon.testing.provider import ProviderContract
    from gnomon.testing.sandbox import SandboxContract
    from gnomon.testing.session import SessionContract
    from gnomon.testing.storage import StorageContract
    from gnomon.testing.streams import chop, stream_of
    from gnomon.testing.subagent import SubagentContract
    from gnomon.testing.tool import ToolContract
    from gnomon.testing.wire import WireContract

__all__ = [
    # suites
    "CacheHookContract",
    "CompactorContract",
    "Contract",
    "CostHookContract",
    "DriverContract",
    "EmbedderContract",
    "GuardrailContract",
    "HookContract",
    "ProviderContract",
    "RateLimitHookContract",
    "RetryHookContract",
    "SandboxContract",
    "SessionContract",
    "StorageContract",
    "SubagentContract",
    "TokenCounterContract",
    "ToolContract",
    "Wire",
    "WireContract",
    "WireLimits",
    # a scripted model
    "Call",
    "Line",
    "Reply",
    "ScriptedProvider",
    "calls",
    "fails",
    "hallucinates",
    "says",
    # a recorded session
    "Replay",
    "ReplayProvider",
    "replay",
    # a server that answers as it is told
    "FaultServer",
    "ReceivedRequest",
    "ServerReply",
    # small things
    "FakeClock",
    "chop",
    "stream_of",
]

_HOMES = {
    "CompactorContract": "gnomon.testing.compactor",
    "Contract": "gnomon.testing._suite",
    "DriverContract": "gnomon.testing.driver",
    "EmbedderContract": "gnomon.testing.embedder",
    "GuardrailContract": "gnomon.testing.guardrail",
    "HookContract": "gnomon.testing.hook",
    "CacheHookContract": "gnomon.testing.hook_kinds",
    "CostHookContract": "gnomon.testing.hook_kinds",
    "RateLimitHookContract": "gnomon.testing.hook_kinds",
    "RetryHookContract": "gnomon.testing.hook_kinds",
    "ProviderContract": "gnomon.testing.provider",
    "SandboxContract": "gnomon.testing.sandbox",
    "SessionContract": "gnomon.testing.session",
    "StorageContract": "gnomon.testing.storage",
    "SubagentContract": "gnomon.testing.subagent",
    "TokenCounterContract": "gnomon.testing.counter",
    "ToolContract": "gnomon.testing.tool",
    "Call": "gnomon.providers.scripted",
    "Line": "gnomon.providers.scripted",
    "Reply": "gnomon.providers.scripted",
    "ScriptedProvider": "gnomon.providers.scripted",
    "calls": "gnomon.providers.scripted",
    "fails": "gnomon.providers.scripted",
    "hallucinates": "gnomon.providers.scripted",
    "says": "gnomon.providers.scripted",
    "Replay": "gnomon.replay",
    "ReplayProvider": "gnomon.replay",
    "replay": "gnomon.replay",
    "Wire": "gnomon.testing._fixtures",
    "WireContract": "gnomon.testing.wire",
    "WireLimits": "gnomon.testing._wire_suite",
    "FaultServer": "gnomon.testing._server",
    "ReceivedRequest": "gnomon.testing._server",
    "ServerReply": "gnomon.testing._server",
    "FakeClock": "gnomon.testing.clock",
    "chop": "gnomon.testing.streams",
    "stream_of": "gnomon.testing.streams",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
