"""To whom thinking may be sent back: signed or encrypted, it is of use to those who made it and nobody else.

Where the rules come from, as read in November 2026:

- https://platform.claude.com/docs/en/build-with-claude/extended-thinking (unchanged, to the same model)
- https://platform.openai.com/docs/guides/reasoning (encrypted items, to the same model)
- https://ai.google.dev/gemini-api/docs/thought-signatures (parts with their signatures, as they came)
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from gnomon.types.messages import Thinking

__all__ = ["Replay", "replay_of", "returns"]

Replay: TypeAlias = Literal["same_model", "same_provider", "never"]

# A provider that is not here gets its thinking back for the same model, which is right wherever it is
# signed. Plain thinking that a vendor insists on goes to any of its models:
# https://api-docs.deepseek.com/guides/thinking_mode
_RULES: dict[str, Replay] = {"deepseek": "same_provider", "demo": "never"}


def replay_of(provider: str) -> Replay:
    return _RULES.get(provider, "same_model")


def returns(part: Thinking, provider: str, model: str) -> bool:
    """Whether this thinking goes back to that provider for that model (S9)."""
    rule = replay_of(provider)
    if rule == "never" or part.provider != provider:
        return False
    return rule == "same_provider" or part.model == model
