"""Which tools the demo model takes for a prompt: the words they share, and a few plain signs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gnomon.providers._demo.arguments import computes
from gnomon.providers._demo.prompt import Asked, all_words, stem, words
from gnomon.providers._demo.schema import SchemaReader, purpose
from gnomon.types.messages import ToolDef

__all__ = ["Choice", "chosen", "harmless_first"]

_ENOUGH = 2.0
_ENOUGH_TO_DESTROY = 5.0
_SURE = 10.0

_NAME, _DESCRIPTION, _PARAMETER, _HELP = 3.0, 2.0, 1.5, 1.0
_INPUT = 2.0
_COMMON_SHARE = 1 / 3
_SHORTEST_BEGINNING = 4

# Words that say little of what a tool is for, and words that say it computes.
_COMMON_WORDS = """
    answer ask call change check create current data find get give given item know list look make name need
    new number result return run see set show string take tell text tool use value word work
"""
_ARITHMETIC_WORDS = "arithmetic calculate compute equation evaluate expression math mathematics"
_MEANING = {"today": "date", "day": "date", "weekday": "date", "clock": "time", "hour": "time"}
_MEANT = {stem(word): stem(meant) for word, meant in _MEANING.items()}


class Choice(NamedTuple):
    """A tool, and why it fits."""

    tool: ToolDef
    because: str


class _Score(NamedTuple):
    points: float
    because: str = ""
    matched: frozenset[str] = frozenset()


def chosen(tools: Sequence[ToolDef], asked: Asked) -> Iterator[Choice]:
    """The tools that fit a prompt, the best first.

    What spoke for one tool does not speak for the next: two tools that are both
    about the weather are not both called for one question about it.
    """
    takers = [tool for tool in tools if _takes_a_task(tool)] if asked.handed_on else []
    left = takers or list(tools)
    unexplained = dict.fromkeys((*asked.words, *asked.expressions))
    while left:
        scores = [_score(tool, asked, unexplained) for tool in left]
        best = max(range(len(left)), key=lambda at: scores[at].points)
        tool, score = left.pop(best), scores[best]
        if score.points >= (_ENOUGH_TO_DESTROY if tool.destructive else _ENOUGH):
            yield Choice(tool, score.because)
            unexplained = {word: None for word in unexplained if word not in score.matched}
        elif score.points < _ENOUGH:
            return


def harmless_first(tools: Sequence[ToolDef]) -> list[ToolDef]:
    """Those that delete nothing before the others, those that need nothing before both."""
    return sorted(tools, key=lambda tool: (tool.destructive, len(SchemaReader(tool.schema).required())))


def _score(tool: ToolDef, asked: Asked, unexplained: Iterable[str]) -> _Score:
    if asked.handed_on and _takes_a_task(tool):
        return _Score(_SURE, "the prompt hands the work on", frozenset(unexplained))
    arithmetic = frozenset(asked.expressions).intersection(unexplained)
    if arithmetic and _is_calculator(tool):
        return _Score(_SURE, f"the prompt holds arithmetic, {' and '.join(asked.expressions)}", arithmetic)
    gains = _gains(tool, unexplained)
    if asked.mentions(tool.name) or tool.name.replace("_", "").lower() in asked.pairs:
        return _Score(_SURE, "the prompt names it", frozenset(gains))
    shared = ", ".join(asked.words.get(word, word) for word in gains)
    points = sum(gains.values()) + (_input(tool, asked) if gains else 0.0)
    return _Score(points, f"the prompt speaks of {shared}", frozenset(gains))


def _input(tool: ToolDef, asked: Asked) -> float:
    """Points for a tool that needs a path, an address or arithmetic: more when there is one, else fewer."""
    required = SchemaReader(tool.schema).required()
    found = [
        asked.found(purpose(name, schema))
        for name, schema in SchemaReader(tool.schema).properties()
        if name in required and purpose(name, schema) in Asked.FINDABLE
    ]
    return sum(_INPUT if values else -_INPUT for values in found)


def _takes_a_task(tool: ToolDef) -> bool:
    """Whether somebody else does what the tool is told."""
    return any(purpose(name, schema) == "task" for name, schema in SchemaReader(tool.schema).properties())


def _is_calculator(tool: ToolDef) -> bool:
    if computes(tool):
        return True
    strings = [name for name, part in SchemaReader(tool.schema).properties() if part.get("type") == "string"]
    told = set(words(f"{tool.name} {tool.description}"))
    return bool(strings) and not told.isdisjoint(words(_ARITHMETIC_WORDS))


def _gains(tool: ToolDef, spoken: Iterable[str]) -> dict[str, float]:
    """How much each word of the prompt speaks for the tool."""
    weighted = _weighted_words(tool)
    common = frozenset(all_words(_COMMON_WORDS))
    gains: dict[str, float] = {}
    for word in spoken:
        meant = _MEANT.get(word)
        near = (weight for other, weight in weighted.items() if _alike(word, other) or other == meant)
        gain = max(near, default=0.0)
        if gain:
            gains[word] = gain * (_COMMON_SHARE if word in common else 1.0)
    return gains


def _weighted_words(tool: ToolDef) -> dict[str, float]:
    """The words that tell of a tool; the surest place a word stands in counts."""
    weighted: dict[str, float] = {}
    properties = SchemaReader(tool.schema).properties()
    places = [(tool.name, _NAME), (tool.description, _DESCRIPTION)]
    places += [(name, _PARAMETER) for name, _ in properties]
    places += [(str(schema.get("description", "")), _HELP) for _, schema in properties]
    for text, weight in places:
        for word in words(text):
            weighted[word] = max(weight, weighted.get(word, 0.0))
    return weighted


def _alike(one: str, other: str) -> bool:
    """Equal, or one the beginning of the other: `look` and `lookup`, `temp` and `temperature`."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _SHORTEST_BEGINNING and long.startswith(short))
