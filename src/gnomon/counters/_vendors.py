"""What vendors publish of how they count: families of models, where learning starts, and images.

Data, and no more than a start: what a service reports corrects it. An unknown model is one of
the `general` family.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil, sqrt
from typing import Literal, TypeAlias

import msgspec

from gnomon.counters._pixels import Size

__all__ = ["FAMILIES", "GENERAL", "Family", "Worth", "family_of", "image_tokens"]

_Rule: TypeAlias = Literal["tiles", "patches", "area", "crops", "fixed"]


class ImageRule(msgspec.Struct, frozen=True, kw_only=True):
    """`tiles` of 512 pixels after scaling, `patches` of 32, `area` by pixels, `crops`, or `fixed`."""

    rule: _Rule
    base: float = 0.0
    each: float = 1.0
    most: float = 100_000.0


Worth: TypeAlias = tuple[float, float]
"""In tokens: what something is worth, and how far off that may well be."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Models that count alike, and what a thing in a prompt is worth to them before anything was learned.

    Of texts, media and schemas: a factor on what one would guess without a model. Of the others:
    the tokens that each of them adds.
    """

    name: str
    starts: tuple[str, ...] = ()
    text: Worth = (1.0, 0.12)
    other_text: Worth = (1.0, 0.35)
    media: Worth = (1.0, 1.0)
    schema: Worth = (0.9, 0.4)
    output_schema: Worth = (0.7, 0.5)
    message: Worth = (3.0, 3.0)
    exchange: Worth = (6.0, 10.0)
    tool: Worth = (10.0, 10.0)
    any_tools: Worth = (50.0, 100.0)
    any_output: Worth = (10.0, 40.0)
    request: Worth = (3.0, 6.0)

    @property
    def worths(self) -> tuple[Worth, ...]:
        """In the order of their fields."""
        return tuple(getattr(self, name) for name in self.__struct_fields__[2:])


GENERAL = Family(name="general")

_FAMILIES: tuple[Family, ...] = (
    # The vendor's cookbook: three tokens a message and three for the reply. Schemas of tools become
    # lines of TypeScript, which are shorter than the JSON they were.
    Family(
        name="openai",
        starts=("gpt", "o1", "o3", "o4", "chatgpt", "codex"),
        media=(1.0, 0.5),
        schema=(0.6, 0.3),
        output_schema=(1.0, 0.4),
        any_tools=(20.0, 40.0),
    ),
    # The page on tool use: a prompt of 159 to 530 tokens as soon as there is a tool, and blocks
    # with their ids around calls and results.
    Family(
        name="claude-3",
        starts=("claude-3",),
        text=(1.05, 0.12),
        media=(1.0, 0.3),
        schema=(1.0, 0.4),
        exchange=(25.0, 12.0),
        tool=(15.0, 15.0),
        any_tools=(290.0, 80.0),
    ),
    Family(
        name="claude",
        starts=("claude",),
        text=(1.1, 0.15),
        media=(1.0, 0.3),
        schema=(1.0, 0.4),
        output_schema=(1.0, 0.5),
        exchange=(25.0, 12.0),
        tool=(25.0, 20.0),
        any_tools=(430.0, 120.0),
        any_output=(100.0, 100.0),
    ),
    Family(
        name="google",
        starts=("gemini", "gemma"),
        schema=(0.8, 0.5),
        output_schema=(0.1, 0.4),
        message=(0.5, 2.0),
        any_tools=(5.0, 20.0),
        request=(0.5, 3.0),
    ),
    Family(name="mistral", starts=("mistral", "ministral", "magistral", "codestral", "devstral", "pixtral")),
    Family(name="deepseek", starts=("deepseek",)),
    Family(name="llama", starts=("llama", "meta-llama")),
    Family(name="qwen", starts=("qwen", "qwq")),
    Family(name="xai", starts=("grok",)),
)

_IMAGES: tuple[tuple[str, ImageRule], ...] = (
    ("gpt-4o-mini", ImageRule(rule="tiles", base=2833, each=5667)),
    ("gpt-4.1-mini", ImageRule(rule="patches", each=1.62, most=1536)),
    ("gpt-4.1-nano", ImageRule(rule="patches", each=2.46, most=1536)),
    ("o4-mini", ImageRule(rule="patches", each=1.72, most=1536)),
    ("gpt-5.", ImageRule(rule="patches", each=1.2, most=2500)),
    ("gpt-5-mini", ImageRule(rule="patches", each=1.62, most=1536)),
    ("gpt-5-nano", ImageRule(rule="patches", each=2.46, most=1536)),
    ("gpt-5", ImageRule(rule="tiles", base=70, each=140)),
    ("o1", ImageRule(rule="tiles", base=75, each=150)),
    ("o3", ImageRule(rule="tiles", base=75, each=150)),
    ("gpt", ImageRule(rule="tiles", base=85, each=170)),
    ("claude", ImageRule(rule="area", each=1 / 750, most=1600)),
    ("gemini-1", ImageRule(rule="crops", each=258)),
    ("gemini-2.0", ImageRule(rule="crops", each=258)),
    ("gemini-2", ImageRule(rule="fixed", base=258)),
    ("gemini", ImageRule(rule="fixed", base=1120)),
)
"""The first that the model's name begins with."""

_ELSE = ImageRule(rule="area", each=1 / 750, most=1600)
_UNSEEN: Size = (1024, 1024)
"""An image that is not here, or cannot be read, is taken to be of this size."""


FAMILIES = frozenset({GENERAL.name, *(family.name for family in _FAMILIES)})
"""Their names."""

_STARTS = {start: family for family in _FAMILIES for start in family.starts}
_NAME = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(sorted(_STARTS, key=len, reverse=True))})")


@lru_cache(maxsize=256)
def family_of(model: str) -> Family:
    """By the name of the model, wherever it is served from: `openrouter/openai/gpt-5` is OpenAI's."""
    found = _NAME.search(model.lower())
    return _STARTS[found[0]] if found else GENERAL


def image_tokens(model: str, size: Size | None, *, low: bool = False) -> int:
    """`low` is the coarse look that one may ask of a vendor that cuts images into tiles."""
    name = _bare(model)
    rule = next((rule for start, rule in _IMAGES if name.startswith(start)), _ELSE)
    width, height = size or _UNSEEN
    match rule.rule:
        case "tiles":
            return ceil(rule.base + (0 if low else rule.each * _tiles(width, height)))
        case "patches":
            return ceil(rule.each * _patches(width, height, rule.most))
        case "crops":
            return ceil(rule.each * _crops(width, height))
        case "area":
            return ceil(min(rule.most, max(1.0, width * height * rule.each)))
        case "fixed":
            return ceil(rule.base)


def _bare(model: str) -> str:
    """Without who serves it, in front of the vendor's own name."""
    name = model.lower()
    found = _NAME.search(name)
    return name[found.start() :] if found else name


def _tiles(width: int, height: int) -> int:
    """Squares of 512 pixels, after it was made to fit 2048 pixels and its short side 768."""
    shrink = min(1.0, 2048 / max(width, height))
    shrink *= min(1.0, 768 / (min(width, height) * shrink))
    return ceil(width * shrink / 512) * ceil(height * shrink / 512)


def _patches(width: int, height: int, most: float) -> float:
    count = ceil(width / 32) * ceil(height / 32)
    if count <= most:
        return count
    shrink = sqrt(most * 32 * 32 / (width * height))
    return min(most, ceil(width * shrink / 32) * ceil(height * shrink / 32))


def _crops(width: int, height: int) -> int:
    """Small images once; others in pieces of two thirds of their short side, and once as a whole.

    Larger ones are first made to fit 3072 pixels.
    """
    if width <= 384 and height <= 384:
        return 1
    shrink = min(1.0, 3072 / max(width, height))
    width, height = max(1, round(width * shrink)), max(1, round(height * shrink))
    side = min(768.0, max(256.0, min(width, height) / 1.5))
    return ceil(width / side) * ceil(height / side) + 1
