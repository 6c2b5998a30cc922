"""Two streams that may be one terminal: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
from typing import TextIO

__all__ = ["Screen", "without_controls"]

# What could move the cursor, ring or reprogram a terminal; a model's text is not to be trusted with that.
_CONTROLS: dict[int, None] = dict.fromkeys(
    code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
)


def without_controls(text: str) -> str:
    """The text as a terminal may be shown it."""
    return text.translate(_CONTROLS)


class Screen:
    """Writes the answer and the notes beside it so that neither breaks into the other's line."""

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._quiet = quiet
        self._one_place = _same_file(self._out, self._err)
        self._out_is_terminal = self._out.isatty()
        self._dim = _may_style(self._err)
        self._in_answer = False  # the last line of the answer has no end yet
        self._in_thought = False
        self._held: list[str] | None = None

    def hold_answer(self) -> None:
        """From now on the answer may have to be taken back.

        A terminal shows it as it comes. Out of a file or a pipe nothing can be taken back: there it waits
        for its end.
        """
        if not self._out_is_terminal:
            self._held = []

    def answer(self, text: str) -> None:
        """More of the answer, shown at once unless it is held."""
        self._end_thought()
        if self._held is not None:
            self._held.append(text)
        else:
            self._write_answer(text)

    def _write_answer(self, text: str) -> None:
        # Into a file or a pipe it goes exactly as it came.
        self._out.write(without_controls(text) if self._out_is_terminal else text)
        self._out.flush()
        self._in_answer = not text.endswith("\n")

    def end_answer(self) -> None:
        """The answer stops here: what comes next starts on a line of its own."""
        self._end_thought()
        if self._held:
            held, self._held = self._held, []
            self._write_answer("".join(held))
        if self._in_answer:
            self._out.write("\n")
            self._out.flush()
            self._in_answer = False

    def take_back_answer(self) -> None:
        """The answer so far does not count. What was held is dropped; the next has lines of its own."""
        if self._held is not None:
            self._held = []
        self.end_answer()

    def thought(self, text: str) -> None:
        """More of what the model thinks."""
        if self._quiet:
            return
        if not self._in_thought:
            self._leave_answer()
        self._write_note(without_controls(text))
        self._in_thought = not text.endswith("\n")

    def note(self, line: str) -> None:
        """One line beside the answer."""
        if self._quiet:
            return
        self._end_thought()
        self._leave_answer()
        self._write_note(line, end="\n")

    def question(self, text: str) -> None:
        """What a person has to answer, also where nothing else is to be said; the answer stands behind it."""
        self._end_thought()
        self._leave_answer()
        self._err.write(text)
        self._err.flush()

    def aside(self, line: str) -> None:
        """One line for a person who looks on; a script that keeps stderr does not need it."""
        if self._err.isatty():
            self.note(line)

    def _write_note(self, text: str, end: str = "") -> None:
        if self._dim and text:
            from click import style

            text = style(text, dim=True)
        try:
            self._err.write(text + end)
            self._err.flush()
        except OSError:  # a full disk, or nobody reads them: the answer is worth more than its notes
            self._quiet = True

    def _end_thought(self) -> None:
        if self._in_thought:
            self._in_thought = False
            self._write_note("", end="\n")

    def _leave_answer(self) -> None:
        """Where both streams end in one place, a note must not stand behind half a line."""
        if self._in_answer and self._one_place:
            self.end_answer()


def _may_style(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _same_file(one: TextIO, other: TextIO) -> bool:
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # not a file at all, or closed
        return False
