"""Random shell commands, and real shells that run them where every program only writes down its arguments."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

RECORDERS = ("one", "two", "three", "fails")
WRAPPERS = ("env", "nice", "nohup", "timeout", "sh", "bash", "find")
SHELLS = tuple(
    {
        os.path.realpath(found): name for name in ("sh", "dash", "bash") if (found := shutil.which(name))
    }.values()
)

_RECORDER = """#!/bin/sh
printf '%s\\0' "$#" "${0##*/}" "$@" >> "$RECORD"
exit STATUS
"""


class Ran(NamedTuple):
    """What a shell did: the arguments of every program it ran, and the files that came to be."""

    commands: list[tuple[str, ...]]
    files: set[str]


class Stage:
    """A folder with nothing on its PATH but recorders, and programs that run others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._count = 0
        for name in RECORDERS:
            recorder = self._bin / name
            recorder.write_text(_RECORDER.replace("STATUS", "1" if name == "fails" else "0"))
            recorder.chmod(0o755)
        for name in WRAPPERS:
            if found := shutil.which(name):
                (self._bin / name).symlink_to(found)

    def run(self, shell: str, command: str) -> Ran:
        self._count += 1
        place = self._folder / f"run{self._count}"
        record = self._folder / f"record{self._count}"
        place.mkdir()
        # What runs in the background is waited for, too: this end of the pipe is nobody's redirection.
        ours, theirs = os.pipe()
        high = os.dup2(theirs, 200, inheritable=True)
        os.close(theirs)
        process = subprocess.Popen(
            [str(shutil.which(shell)), "-c", command],
            cwd=place,
            env={"PATH": str(self._bin), "HOME": str(place), "LANG": "C.UTF-8", "RECORD": str(record)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(high,),
            start_new_session=True,
        )
        os.close(high)
        try:
            process.wait(10)
            assert select.select([ours], [], [], 10)[0], f"{command!r} goes on in the background"
        finally:
            os.close(ours)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        commands = _read(record.read_bytes()) if record.exists() else []
        files = {each.relative_to(place).as_posix() for each in place.rglob("*")}
        shutil.rmtree(place)
        record.unlink(missing_ok=True)
        return Ran(commands, files)


def _read(record: bytes) -> list[tuple[str, ...]]:
    fields = record.decode("utf-8", "surrogateescape").split("\0")[:-1]
    commands: list[tuple[str, ...]] = []
    at = 0
    while at < len(fields):
        count = int(fields[at])
        commands.append(tuple(fields[at + 1 : at + 2 + count]))
        at += 2 + count
    return commands


# --- commands


def _each(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


_TEXTS = _each("a|b c|x=1|-n|é|日|\u0301|$x|*|#|a#b|~|it's|\"|\\|!|{}|a{b}|1||if|\n")
_BARE = _each("a|bc|x=1|-n|é|日本|a#b|HEAD~1|!|{}|a{b}|1|if|done|]|$|a^b|%1|+x|2|a:b|@|a,b")
_DOUBTFUL = _each("$x|*|?|[a]|~|{a,b}|a{1..2}|$(one)|`one`|${x}|$'a'|a=~|[|{|}|x{a}{b,c}")
_HOSTILE = " \t\n\n;;&&||<>()(){}'\"\\$`*?[]~!#=12ab-+é\u00a0%^,:@"
_PIECES = (*_HOSTILE, *_HOSTILE, *_BARE, *_each("one|two | three|&&|>a|<<E\n|\nE\n|fi|do"), "||")
_JOINTS = (";", " ; ", "\n", " & ", "&", " && ", "||", "&&\n", " # c\n", "; # c 'd\n")
_REDIRECTIONS = _each(" > f|>g| 2>f| 2>&1|>&2| >> f| 2>/dev/null| <>g| > 'h i'| &>f| <<< a| <&-| 3>f| 1>&3")
_RUNNERS = _each(
    "env|env A=b|env LANG=C|nice|nice -n 1|nohup|timeout 9|command|find . -prune -exec|time|exec|"
    "sh -c|bash -ec|eval"
)


class Writer:
    """Writes commands by chance; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.is_straight = True
        """Whether all that is written has to run, in whatever order."""

    def command(self) -> str:
        """A command that is well formed, for the most part."""
        self.is_straight = True
        return self._list(2)

    def spoilt(self) -> str:
        """A command into which a few signs fell, or out of which they did."""
        text = list(self._list(1))
        for _ in range(self._chance.randint(1, 4)):
            at = self._chance.randrange(len(text) + 1)
            if self._chance.random() < 0.6:
                text.insert(at, self._chance.choice(_HOSTILE))
            elif text:
                del text[min(at, len(text) - 1)]
        return "".join(text)

    def soup(self) -> str:
        """Signs and words in any order."""
        return "one " + "".join(self._chance.choice(_PIECES) for _ in range(self._chance.randint(1, 12)))

    def _list(self, depth: int) -> str:
        parts = [self._pipeline(depth) for _ in range(self._chance.choice((1, 1, 2, 3)))]
        text = parts[0]
        for part in parts[1:]:
            joint = self._chance.choice(_JOINTS)
            if "&&" in joint or "||" in joint:
                self.is_straight = False
            text += joint + part
        return text + self._chance.choice(("", "", ";", " &", "\n", " # end"))

    def _pipeline(self, depth: int) -> str:
        parts = [self._command(depth) for _ in range(self._chance.choice((1, 1, 1, 2)))]
        if self._chance.random() < 0.05:
            self.is_straight = False  # dash has no |&
            return " |& ".join(parts)
        start = "! " if self._chance.random() < 0.05 else ""
        return start + self._chance.choice((" | ", "|", "|\n")).join(parts)

    def _command(self, depth: int) -> str:
        kind = self._chance.random()
        if depth == 0 or kind < 0.7:
            return self._simple()
        if kind < 0.8:
            return self._wrapped(depth)
        if kind < 0.85:
            return f"({self._list(depth - 1)}\n)" + self._redirections(0.2)
        if kind < 0.9:
            return f"{{ {self._list(depth - 1)}\n}}" + self._redirections(0.2)
        self.is_straight = False
        if kind < 0.97:
            end = self._redirections(0.2)
            other = f"else {self._list(depth - 1)}\n" if self._chance.random() < 0.5 else ""
            return f"if {self._list(depth - 1)}\nthen {self._list(depth - 1)}\n{other}fi{end}"
        return f"while fails; do {self._list(depth - 1)}\ndone"

    def _wrapped(self, depth: int) -> str:
        wrapper = self._chance.choice(_RUNNERS)
        if wrapper in ("sh -c", "bash -ec", "eval"):
            if "e" in wrapper:
                self.is_straight = False
            return f"{wrapper} {_quoted(self._list(depth - 1))}"
        if wrapper in ("exec", "time"):
            self.is_straight = False  # nothing comes after the one, and the other is nothing to dash
        if wrapper.startswith("find"):
            return f"{wrapper} {self._chance.choice(RECORDERS)} {self._word()} \\;"
        return f"{wrapper} {self._simple()}"

    def _simple(self) -> str:
        name = self._chance.choice(RECORDERS)
        if self._chance.random() < 0.2:
            name = self._chance.choice((f"'{name}'", f'"{name}"', f"\\{name}", name[0] + f'"{name[1:]}"'))
        words = [name, *(self._word() for _ in range(self._chance.choice((0, 1, 2, 3))))]
        text = self._chance.choice((" ", " ", "  ", "\t", " \\\n ")).join(words)
        if self._chance.random() < 0.05:
            text = "LC_ALL=C " + text
        if self._chance.random() < 0.06:
            return text + self._document()
        return text + self._redirections(0.25)

    def _word(self) -> str:
        kind = self._chance.random()
        if kind < 0.4:
            return self._chance.choice(_BARE)
        if kind < 0.45:
            return self._chance.choice(_DOUBTFUL)
        text = self._chance.choice(_TEXTS)
        style = self._chance.random()
        if style < 0.4:
            return _quoted(text) + (self._chance.choice(_BARE[:6]) if self._chance.random() < 0.2 else "")
        if style < 0.8:
            return '"' + "".join("\\" + sign if sign in '"\\$`' else sign for sign in text) + '"'
        return "".join("\\" + sign for sign in text if sign != "\n") or "''"

    def _redirections(self, how_often: float) -> str:
        text = ""
        while self._chance.random() < how_often:
            text += self._chance.choice(_REDIRECTIONS)
        if "<" in text or "&3" in text:
            self.is_straight = False  # some are no such thing to dash, or to what is not open
        if "&>" in text:
            self.is_straight = False
        return text

    def _document(self) -> str:
        end = self._chance.choice(("E", "'E'", '"E"', "\\E"))
        dash = self._chance.choice(("", "-"))
        body = self._chance.choice(("one\n", "\tone 'a\n", "$x `one`\n", "E \n", "", "\\\n", "a)b}\n"))
        tab = "\t" if dash and self._chance.random() < 0.5 else ""
        return f" <<{dash}{end}\n{body}{tab}E\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
