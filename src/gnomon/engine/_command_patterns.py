"""What a command is compared with: a pattern for each of its words."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import lru_cache

from gnomon.engine._globs import escaped, fits_word

__all__ = ["check_command", "command_text", "fits_command"]

_ANY = "*"
_BLANKS = " \t"
_SIGNS = ";|&<>()$`\n"
"""What a shell does not take for a part of a word: a pattern that has it was meant for a text."""


def check_command(pattern: str) -> None:
    """Raises `ValueError` for a pattern that no command could fit, or not as it was meant."""
    _words(pattern)


def command_text(argv: Sequence[str]) -> str:
    """The words as one text that can be read again; as a pattern only this command fits it."""
    from shlex import join

    return join(argv)


def fits_command(pattern: str, argv: Sequence[str], *, widely: bool) -> bool:
    """Whether it is one of the commands that are meant; `widely` also with whatever words behind."""
    words = _words(pattern)
    is_open = widely or words[-1] == _ANY
    if words[-1] == _ANY:
        words = words[:-1]
    if len(argv) < len(words) or (len(argv) > len(words) and not is_open):
        return False
    pairs = zip(words, argv, strict=False)
    return all(_fits(word, text, widely=widely, is_name=not at) for at, (word, text) in enumerate(pairs))


def _fits(word: str, text: str, *, widely: bool, is_name: bool) -> bool:
    # /bin/rm may be another rm than the usual one, so that it is not allowed with it; denied it is.
    texts = {text, posixpath.basename(text)} if widely and is_name else {text}
    return any(fits_word(word, each, widely=widely) for each in texts)


@lru_cache(maxsize=512)
def _words(pattern: str) -> tuple[str, ...]:
    """The pattern of each word. Quotes and backslashes take a sign as it is, as in a shell."""
    reader = _Reader(pattern)
    while reader.reads_word():
        pass
    if not reader.words:
        raise ValueError("a pattern for a command is empty: write '*' for any command")
    return tuple(reader.words)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self.words: list[str] = []

    def reads_word(self) -> bool:
        """Reads the next word, if there is one."""
        while self._sign() and self._sign() in _BLANKS:
            self._at += 1
        if not self._sign():
            return False
        word = ""
        while self._sign() and self._sign() not in _BLANKS:
            word += self._piece()
        self.words.append(word)
        return True

    def _sign(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _piece(self) -> str:
        sign = self._sign()
        self._at += 1
        if sign in ("'", '"'):
            return self._quoted(sign)
        if sign == "\\":
            return self._escaped()
        if sign in _SIGNS:
            raise ValueError(
                f"the pattern {self._pattern!r} has {sign!r}, which is no part of a word: each command is "
                "compared by itself, so write a pattern for each, or put the sign in quotes"
            )
        return sign

    def _escaped(self) -> str:
        sign = self._sign()
        if not sign:
            raise ValueError(f"the pattern {self._pattern!r} ends in a backslash")
        self._at += 1
        return escaped(sign)

    def _quoted(self, quote: str) -> str:
        start, inner = self._at, ""
        while (sign := self._sign()) != quote:
            if not sign:
                raise ValueError(f"in the pattern {self._pattern!r} the quote at {start - 1} does not end")
            self._at += 1
            if sign == "\\" and quote == '"' and self._sign() in ('"', "\\"):
                sign = self._sign()
                self._at += 1
            inner += sign
        self._at += 1
        return escaped(inner)
