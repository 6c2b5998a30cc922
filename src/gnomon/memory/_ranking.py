"""Which memories fit a question best: by words (BM25), and among equals the newest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import msgspec

from gnomon.embedders._words import tokens_of
from gnomon.types.records import MemoryRecord

__all__ = ["LONGEST_QUERY", "newest_first", "ranked", "text_of"]

LONGEST_QUERY = 2_000
"""In characters; the rest of a longer one is not looked at."""

# How soon more of the same word counts for less, and how much a long text is held against it: the usual ones.
_SATURATION = 1.2
_LENGTH = 0.75


def ranked(records: Sequence[MemoryRecord], query: str) -> list[MemoryRecord]:
    """Those that share a word with the question, the best first; all of them when it has no words."""
    order = newest_first(records)
    wanted = set(tokens_of(query[:LONGEST_QUERY]))
    if not wanted:
        return order
    texts = [Counter(tokens_of(f"{record.key} {text_of(record)}")) for record in order]
    scored = [(score, record) for score, record in zip(_scores(texts, wanted), order, strict=True) if score]
    scored.sort(key=lambda pair: pair[0], reverse=True)  # it keeps the order of equals
    return [record for _, record in scored]


def _scores(texts: Sequence[Counter[str]], wanted: set[str]) -> list[float]:
    lengths = [text.total() for text in texts]
    average = sum(lengths) / len(texts) if texts else 0.0
    holding = Counter(word for text in texts for word in wanted & text.keys())
    rarity = {word: log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
    words = sorted(rarity)  # sums of floats depend on their order
    return [
        sum(
            rarity[word] * text[word] * (_SATURATION + 1) / (text[word] + _bar(length, average))
            for word in words
            if word in text
        )
        for text, length in zip(texts, lengths, strict=True)
    ]


def _bar(length: int, average: float) -> float:
    return _SATURATION * (1 - _LENGTH + _LENGTH * length / average)


def newest_first(records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    """By when they were last changed, then by key: the same list every time, whatever the store's order."""
    by_name = sorted(records, key=lambda record: (record.key, record.id))
    return sorted(by_name, key=lambda record: record.updated_at, reverse=True)


def text_of(record: MemoryRecord) -> str:
    """What is remembered, in words; a value that others have stored as JSON."""
    value = record.value
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
