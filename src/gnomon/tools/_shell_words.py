"""What a shell command would touch, read from its text.

The rule is never to name a command that a shell would not run. What cannot be known from the text, as
it depends on variables, on files or on which shell it is, is not guessed at: `unknown` says what it was.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from gnomon.contracts.tool import Touches
from gnomon.tools._shell_lexer import Lexer, Token, Unreadable
from gnomon.tools._shell_programs import MOVES, assignment_doubt, inner_of

__all__ = ["touches_of"]

_DEEPEST = 30

_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", "<>", "<&", ">&", "<<", "<<-", "<<<", "&>", "&>>"})
_ENDS_LIST = frozenset({"}", "do", "done", "elif", "else", "fi", "then"})
_NOT_READ = frozenset({"[[", "]]", "case", "coproc", "function", "select"})
_RESERVED = _ENDS_LIST | _NOT_READ | {"!", "{", "esac", "for", "if", "in", "until", "while"}
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def touches_of(command: str, cwd: str = "") -> Touches:
    """What a POSIX shell or bash would run, read and write for this command line.

    `commands` has the arguments of each part of a compound command in the order of the text, and those of
    what a part runs in its turn (`timeout 5 make`, `sh -c '…'`) behind it. A part may also not run, as behind
    `&&`; no other part runs. `reads` and `writes` are the files of redirections, except `/dev/null` and the
    usual streams, as they are written there, in the folder `cwd` where they are relative. What a program
    does itself, with the paths among its arguments too, is not said here: a sandbox holds that.

    Where `unknown` is set, `commands` has what is known of the parts: perhaps only the first words of one.
    """
    found = _Found(cwd)
    found.read(command)
    return found.touches()


class _Found:
    """What was found so far, in a text and in those within it."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._commands: list[tuple[str, ...]] = []
        self._reads: list[str] = []
        self._writes: list[str] = []
        self._doubt = ""
        self._is_moved = False
        self._has_relative = False
        self._opens_again = False
        self._depth = 0

    def touches(self) -> Touches:
        if self._is_moved and self._has_relative:
            self.doubt("a redirection to a relative path in a command that changes its folder")
        if self._opens_again and self._reads:
            self.doubt("a redirection to a stream, which may be a file that is read")
        return Touches(
            reads=tuple(dict.fromkeys(self._reads)),
            writes=tuple(dict.fromkeys(self._writes)),
            commands=tuple(self._commands),
            unknown=self._doubt,
        )

    def doubt(self, why: str) -> None:
        self._doubt = self._doubt or why

    def read(self, text: str) -> None:
        """Reads a text as a shell does that is given it."""
        if self._depth >= _DEEPEST:
            self.doubt("commands within commands, too deep to look into")
            return
        self._depth += 1
        try:
            _Parser(text, self).read()
        except Unreadable as error:
            self.doubt(str(error))
        self._depth -= 1

    def runs(self, argv: Sequence[str], *, by_shell: bool = True) -> None:
        """A command runs, and perhaps another one by it."""
        while argv:
            self._commands.append(tuple(argv))
            if by_shell and argv[0] in MOVES:
                self._is_moved = True
            inner = inner_of(argv, by_shell=by_shell)
            if inner.doubt:
                self.doubt(inner.doubt)
            if inner.text is not None:
                self.read(inner.text)
            argv, by_shell = inner.argv, inner.by_shell

    def began(self, argv: Sequence[str]) -> None:
        """A command of which only the first words are known."""
        if argv:
            self._commands.append(tuple(argv))

    def opens(self, path: str, *, reads: bool, writes: bool) -> None:
        if path == "/dev/null" or (path == "/dev/stdin" and not writes):
            return
        if path in ("/dev/stdout", "/dev/stderr") and not reads:
            self._opens_again = True
            return
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            self.doubt("a connection that bash opens")
        if not path:
            self.doubt("a redirection to a path without a name")
        if not path.startswith("/"):
            self._has_relative = True
            path = posixpath.join(self._cwd, path)
        path = _tidied(path)
        if reads:
            self._reads.append(path)
        if writes:
            self._writes.append(path)


def _tidied(path: str) -> str:
    """Without '.' and '//'. A '..' stays: behind a link it leads elsewhere than it seems."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


class _Parser:
    """Reads commands as the grammar of a shell has them, as far as all shells agree."""

    def __init__(self, text: str, found: _Found) -> None:
        self._lexer = Lexer(text)
        self._found = found
        self._depth = 0

    def read(self) -> None:
        try:
            self._skip_lines()
            if self._lexer.peek().kind != "end":
                self._list()
            if self._lexer.peek().kind != "end":
                raise _misplaced(self._lexer.peek())
        finally:
            if self._lexer.doubt:
                self._found.doubt(self._lexer.doubt)

    # --- lists and pipelines

    def _list(self) -> None:
        """Commands up to a word or a sign that no command begins with."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable("groups within groups, too deep to look into")
        while True:
            self._and_or()
            token = self._lexer.peek()
            if token.has_sign(";") or token.has_sign("&") or token.kind == "newline":
                self._lexer.next()
                self._skip_lines()
            else:
                break
            if self._is_over():
                break
        self._depth -= 1

    def _is_over(self) -> bool:
        token = self._lexer.peek()
        if token.kind == "word":
            return token.bare in _ENDS_LIST
        return token.kind == "end" or token.has_sign(")")

    def _and_or(self) -> None:
        self._pipeline()
        while self._takes_sign("&&") or self._takes_sign("||"):
            self._skip_lines()
            self._pipeline()

    def _pipeline(self) -> None:
        if self._lexer.peek().bare == "!":
            self._lexer.next()
        self._command()
        while self._takes_sign("|") or self._takes_sign("|&"):
            self._skip_lines()
            self._command()

    def _skip_lines(self) -> None:
        while self._lexer.peek().kind == "newline":
            self._lexer.next()

    def _takes_sign(self, sign: str) -> bool:
        if self._lexer.peek().has_sign(sign):
            self._lexer.next()
            return True
        return False

    # --- commands

    def _command(self) -> None:
        token = self._lexer.peek()
        if token.has_sign("("):
            self._group(")")
        elif token.kind == "word" and token.bare in _RESERVED:
            self._compound(token.bare)
        else:
            self._simple()
            return
        while self._sees_redirection():
            self._redirection()
        if not self._lexer.peek().is_end:
            raise _misplaced(self._lexer.peek())

    def _compound(self, word: str) -> None:
        if word == "{":
            self._group("}")
        elif word == "if":
            self._if()
        elif word in ("while", "until"):
            self._lexer.next()
            self._body("do")
            self._body("done")
        elif word == "for":
            self._for()
        elif word in _NOT_READ:
            raise Unreadable(f"a command that begins with {word}")
        else:
            raise _misplaced(self._lexer.peek())

    def _group(self, end: str) -> None:
        self._lexer.next()
        if end == "}":
            self._body("}")
            return
        self._skip_lines()
        self._list()
        if not self._takes_sign(")"):
            raise _misplaced(self._lexer.peek())

    def _body(self, *ends: str) -> str:
        """Commands, and the word behind them, which has to be one of these."""
        self._skip_lines()
        self._list()
        token = self._lexer.next()
        if token.kind != "word" or token.bare not in ends:
            raise _misplaced(token)
        return token.bare

    def _if(self) -> None:
        self._lexer.next()
        self._body("then")
        while (end := self._body("elif", "else", "fi")) == "elif":
            self._body("then")
        if end == "else":
            self._body("fi")

    def _for(self) -> None:
        self._lexer.next()
        name = self._lexer.next()
        if not _NAME.fullmatch(name.bare) or self._lexer.next().bare != "in":
            raise Unreadable("a for without its list")
        # What is done with the variable cannot be known, and a loop without it is not worth the trouble.
        self._found.doubt(f"the loop over {name.text[:40]}")
        while self._lexer.peek().kind == "word":
            self._lexer.next()
        if not self._takes_sign(";") and self._lexer.peek().kind != "newline":
            raise _misplaced(self._lexer.peek())
        self._skip_lines()
        if self._lexer.next().bare != "do":
            raise Unreadable("a for without its list")
        self._body("done")

    # --- simple commands

    def _simple(self) -> None:
        words: list[Token] = []
        try:
            self._read_simple(words)
        except Unreadable:
            self._found.began(_known(words))
            raise
        known = _known(words)
        if len(known) < len(words):
            self._found.doubt(words[len(known)].doubt)
            self._found.began(known)
        else:
            self._found.runs(known)

    def _read_simple(self, words: list[Token]) -> None:
        has_begun = is_closed = False
        while True:
            token = self._lexer.peek()
            if self._sees_redirection():
                # What follows `&>` in the same command is another one where & and > are two signs.
                is_closed = self._redirection() or is_closed
            elif token.kind != "word":
                break
            elif is_closed:
                raise Unreadable("words behind &>, which shells read differently")
            else:
                self._lexer.next()
                self._take(token, words, has_begun)
            has_begun = True
        if not has_begun or self._lexer.peek().has_sign("("):
            raise _misplaced(self._lexer.peek())

    def _take(self, token: Token, words: list[Token], has_begun: bool) -> None:
        if not words:
            if has_begun and token.bare in _RESERVED:
                raise _misplaced(token)
            assigned = _ASSIGNMENT.match(token.bare)
            if assigned is not None:
                self._assign(token, assigned)
                return
        if token.bare in ("{", "}"):
            token = token._replace(doubt="a brace that stands alone")
        if not words and "=" in token.text and token.quoted:
            token = token._replace(doubt="a command with = in its name")
        words.append(token)

    def _assign(self, token: Token, assigned: re.Match[str]) -> None:
        name, equals = assigned.groups()
        if equals == "+=":
            raise Unreadable("a += that shells read differently")
        self._found.doubt(token.doubt or assignment_doubt(name, token.text[assigned.end() :]))

    # --- redirections

    def _sees_redirection(self) -> bool:
        token = self._lexer.peek()
        if token.kind == "operator":
            return token.text in _REDIRECTIONS
        return _is_descriptor(token)

    def _redirection(self) -> bool:
        """Reads one; whether it was one that other shells end the command at."""
        token = self._lexer.next()
        sign = self._lexer.next().text if token.kind == "word" else token.text
        target = self._lexer.next()
        if target.kind != "word" or _is_descriptor(target):
            raise _misplaced(target)
        if sign in ("<<", "<<-"):
            self._lexer.expect_document(target, may_be_indented=sign == "<<-")
        elif sign in ("<&", ">&"):
            if not re.fullmatch(r"[0-9]|-", target.bare):
                raise Unreadable(f"a {sign} that shells read differently")
        elif target.doubt:
            self._found.doubt(target.doubt)
        elif sign != "<<<":
            reads = sign in ("<", "<>")
            self._found.opens(target.text, reads=reads, writes=sign != "<")
        return sign in ("&>", "&>>")


def _is_descriptor(token: Token) -> bool:
    """Whether it is the digit of `2>`."""
    return token.kind == "word" and token.next in ("<", ">") and re.fullmatch("[0-9]", token.bare) is not None


def _known(words: Sequence[Token]) -> tuple[str, ...]:
    """The words before the first one that is doubtful."""
    known: list[str] = []
    for word in words:
        if word.doubt:
            break
        known.append(word.text)
    return tuple(known)


def _misplaced(token: Token) -> Unreadable:
    what = repr(token.text[:20]) if token.text else "its end" if token.kind == "end" else "a line end"
    return Unreadable(f"{what} in a place where no shell has it")
