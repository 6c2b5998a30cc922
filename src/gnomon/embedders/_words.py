"""Text taken apart for `hashed`: words, or pieces of text where a script has no spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import normalize

from gnomon.embedders._frequent import FREQUENT

__all__ = ["LONGEST_WORD", "grams_of", "prior", "tokens_of"]

# Thai, Lao, Burmese, Khmer, kana, Han and Hangul: words are not set apart, or are short and carry endings.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_BETWEEN = (
    r"\s\x00-/:-@\[-`{-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u2000-\u206f\u3000-\u3004\u3008-\u303f"
)
_RUN = re.compile(f"([{_DENSE}]+)|([^{_DENSE}{_BETWEEN}]+)")
_DENSE_RUN = re.compile(f"[{_DENSE}]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_HIRAGANA = re.compile("[\u3040-\u309f]+")
LONGEST_WORD = 64

# Marks are put in order by moving each past all that stand before it, in Python too: a run of a million
# would take a quarter of an hour. So in pieces, which end before a space where there is one.
_NORMALIZED = re.compile(r".{1,2000}(?=\s|\Z)|.{1,2000}", re.DOTALL)


def tokens_of(text: str) -> Iterator[str]:
    """Its words, and the pairs and triples of its characters where words are not set apart."""
    plain = _folded(text)
    found = False
    for dense, word in _RUN.findall(plain):
        found = True
        if word:
            yield word
        else:
            yield from _pieces(dense)
    if not found:  # signs alone are better than nothing
        yield from plain.split()


def _folded(text: str) -> str:
    """Without case, accents and the many forms of one character."""
    if text.isascii():
        return text.casefold()
    return "".join(map(_normalized, _NORMALIZED.findall(text)))


def _normalized(text: str) -> str:
    return normalize("NFC", _ACCENTS.sub("", normalize("NFKD", text).casefold()))


def _pieces(run: str) -> Iterator[str]:
    for size in (1, 2, 3):
        for start in range(len(run) - size + 1):
            yield run[start : start + size]


def grams_of(token: str) -> list[str]:
    """The pieces that a word shares with its relatives: `walk` with `walked` and `walking`."""
    if len(token) < 3 or _DENSE_RUN.fullmatch(token):
        return []
    held = f"<{token[:LONGEST_WORD]}>"
    return [held[start : start + size] for size in (3, 4, 5) for start in range(len(held) - size + 1)]


def prior(token: str) -> float:
    """How much a token tells when no corpus says so: frequent words are known, and others are short."""
    if token in FREQUENT:
        return 0.08
    if not _DENSE_RUN.fullmatch(token):
        return {1: 0.3, 2: 0.45, 3: 0.65, 4: 0.85}.get(len(token), 1.0)
    weight = {1: 0.35, 2: 0.9}.get(len(token), 0.8)
    return weight * 0.3 if _HIRAGANA.fullmatch(token) else weight  # which writes endings and particles
