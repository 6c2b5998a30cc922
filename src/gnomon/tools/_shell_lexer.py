"""The words and signs of a shell command, read as every shell reads them, or not at all.

What `sh`, `dash` and `bash` would read in different ways raises `Unreadable`; a word of which only the
shell knows what becomes of it carries a doubt.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

__all__ = ["Lexer", "Token", "Unreadable"]

LONGEST = 100_000
"""Longer texts are not looked into."""

_OPERATORS = (
    *("&>>", "<<-", "<<<", ";;&"),
    *("&&", "||", ";;", ";&", "|&", "&>", "<<", "<&", "<>", "<(", ">>", ">&", ">|", ">(", "(("),
    *(";", "&", "|", "<", ">", "(", ")"),
)
_NOT_READ = {
    "<(": "a process substitution",
    ">(": "a process substitution",
    "((": "an arithmetic command",
    ";;": "a case command",
    ";&": "a case command",
    ";;&": "a case command",
}
_ENDS_WORD = " \t\n|&;<>()"
_BLANK = " \t"

_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""Signs that count as printable, and of which nothing is seen."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?!#@*$-]")
_PLAIN_BRACES = re.compile(r"\{[A-Za-z0-9_-]*\}")
_EXPANDED_TILDE = re.compile(r"(?<![A-Za-z0-9._-])~")
_DELIMITER = re.compile(r"[A-Za-z0-9_]+")


class Unreadable(Exception):
    """From here on it is not known what a shell would make of the text."""


class Token(NamedTuple):
    """A word, an operator, or an end.

    Of a word, `bare` is its text with a NUL for each sign that was quoted, and `next` the sign behind it.
    """

    kind: Literal["word", "operator", "newline", "end"]
    text: str = ""
    bare: str = ""
    quoted: bool = False
    doubt: str = ""
    next: str = ""

    def has_sign(self, sign: str) -> bool:
        return self.kind == "operator" and self.text == sign

    @property
    def is_end(self) -> bool:
        """Whether a list of commands goes on with the next one, or is over."""
        return self.kind != "word"


class _Document(NamedTuple):
    """A here-document that begins in the next line."""

    delimiter: str
    is_literal: bool
    may_be_indented: bool


class Lexer:
    """Gives one token after another."""

    def __init__(self, text: str) -> None:
        self._text = _checked(text)
        self._at = 0
        self._peeked: Token | None = None
        self._documents: list[_Document] = []
        self.doubt = ""
        """What is doubtful outside of the words: in here-documents."""

    def peek(self) -> Token:
        if self._peeked is None:
            self._peeked = self._read()
        return self._peeked

    def next(self) -> Token:
        token = self.peek()
        self._peeked = None
        return token

    def expect_document(self, delimiter: Token, *, may_be_indented: bool) -> None:
        """A here-document follows. Has to be said before the token after its delimiter is looked at."""
        if delimiter.kind != "word" or not _DELIMITER.fullmatch(delimiter.text):
            raise Unreadable("a here-document with a strange end")
        self._documents.append(_Document(delimiter.text, delimiter.quoted, may_be_indented))

    # --- tokens

    def _read(self) -> Token:
        self._skip()
        sign = self._sign()
        if sign == "":
            if self._documents:
                raise Unreadable("a here-document without an end")
            return Token("end")
        if sign == "\n":
            self._at += 1
            self._read_documents()
            return Token("newline")
        for operator in _OPERATORS if sign in "&|;<>()" else ():
            if self._text.startswith(operator, self._at):
                return self._operator(operator)
        return self._word()

    def _sign(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _skip(self) -> None:
        """Blanks, a comment, and line ends that a backslash takes away."""
        while True:
            if self._sign() and self._sign() in _BLANK:
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._continue_line()
            else:
                break
        if self._sign() == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end

    def _continue_line(self) -> None:
        before = self._text[self._at - 1 : self._at]
        if self._documents or (before and before not in " \t\n") or self._sign(2) == "#":
            raise Unreadable("a line that goes on in the midst of something")
        self._at += 2

    def _operator(self, text: str) -> Token:
        if text in _NOT_READ:
            raise Unreadable(_NOT_READ[text])
        self._at += len(text)
        return Token("operator", text, next=self._sign())

    # --- words

    def _word(self) -> Token:
        text: list[str] = []
        bare: list[str] = []
        quoted, doubt = False, ""
        while (sign := self._sign()) and sign not in _ENDS_WORD:
            if sign in "\\'\"":
                quoted = True
                inner, found = self._quoted(sign)
                doubt = doubt or found
                text.append(inner)
                bare.append("\0" * len(inner))
                continue
            if sign == "$":
                found = self._dollar(" \t\n|&;)")
                doubt = doubt or found
            elif sign == "`":
                raise Unreadable("a command substitution")
            else:
                self._at += 1
            text.append(sign)
            bare.append(sign)
        return self._finished("".join(text), "".join(bare), quoted, doubt)

    def _finished(self, text: str, bare: str, quoted: bool, doubt: str) -> Token:
        after = self._sign()
        if after and after in "<>":
            if bare.endswith("}"):
                raise Unreadable("a redirection of a variable's file")
            if text.isdigit() and (quoted or len(text) > 1):
                raise Unreadable("a redirection that shells read differently")
        return Token("word", text, bare, quoted, doubt or _expansion(bare), after)

    def _quoted(self, quote: str) -> tuple[str, str]:
        """What stands in quotes, and what is doubtful in it."""
        self._at += 1
        if quote == "\\":
            sign = self._sign()
            if sign in ("", "\n"):
                raise Unreadable("a backslash at the end" if not sign else "a word over two lines")
            self._at += 1
            return sign, ""
        if quote == '"':
            return self._double_quoted()
        end = self._text.find("'", self._at)
        if end < 0:
            raise Unreadable("a quotation mark without its other")
        inner = self._text[self._at : end]
        self._at = end + 1
        self._check_lines(inner)
        return inner, ""

    def _double_quoted(self) -> tuple[str, str]:
        inner: list[str] = []
        doubt = ""
        while (sign := self._sign()) != '"':
            if sign == "":
                raise Unreadable("a quotation mark without its other")
            if sign == "`":
                raise Unreadable("a command substitution")
            if sign == "$":
                found = self._dollar('" /|),.;')
                doubt = doubt or found
            elif sign == "\\" and (escaped := self._sign(1)) and escaped in '$`"\\\n':
                self._at += 2
                sign = "" if escaped == "\n" else escaped
                self._check_lines(escaped)
            else:
                self._at += 1
            inner.append(sign)
        self._at += 1
        self._check_lines("".join(inner))
        return "".join(inner), doubt

    def _check_lines(self, inner: str) -> None:
        if self._documents and "\n" in inner:
            raise Unreadable("a here-document that begins within a word")

    def _dollar(self, harmless: str) -> str:
        """Goes past a `$` and the name behind it; gives the doubt, if there is one."""
        after = self._sign(1)
        if after in ("{", "[", "'") or (after == '"' and '"' not in harmless):
            raise Unreadable("an expansion that begins with $" + after)
        if after == "(":
            raise Unreadable("a command substitution")
        self._at += 1
        if after == "" or after in harmless:
            return ""
        name = _VARIABLE.match(self._text, self._at)
        if name is None:
            return "a $ before something else than a name"
        self._at = name.end()
        return f"the variable ${name.group()[:40]}"

    # --- here-documents

    def _read_documents(self) -> None:
        for document in self._documents:
            self._read_document(document)
        self._documents.clear()

    def _read_document(self, document: _Document) -> None:
        while True:
            if self._at >= len(self._text):
                raise Unreadable("a here-document without an end")
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end]
            # The newline behind the delimiter is a token of its own, as behind every other line.
            if (line.lstrip("\t") if document.may_be_indented else line) == document.delimiter:
                self._at = end
                return
            if not document.is_literal:
                self._check_document_line(line)
            self._at = end + 1

    def _check_document_line(self, line: str) -> None:
        if "\\" in line:
            raise Unreadable("a backslash in a here-document")
        if "$" in line or "`" in line:
            self.doubt = self.doubt or "an expansion in a here-document"


def _checked(text: str) -> str:
    if len(text) > LONGEST:
        raise Unreadable("a text that is too long to look into")
    for sign in text:
        if not sign.isprintable() and sign not in "\n\t":
            raise Unreadable(f"a sign that cannot be seen, U+{ord(sign):04X}")
    found = _INVISIBLE.search(text)
    if found is not None:
        raise Unreadable(f"a sign that cannot be seen, U+{ord(found.group()):04X}")
    return text


def _expansion(bare: str) -> str:
    """What a shell would put something else for, in the part of a word that is not quoted."""
    if ("*" in bare or "?" in bare or "[" in bare) and bare != "[":
        return "a pattern for names of files"
    if "~" in bare and _EXPANDED_TILDE.search(bare):
        return "a home directory"
    # bash makes several words of {a,b} and {1..3}; what has neither in it stays as it is.
    if ("{" in bare or "}" in bare) and bare not in ("{", "}"):
        rest = _PLAIN_BRACES.sub("", bare)
        if "{" in rest or "}" in rest:
            return "an expansion of braces"
    return ""
