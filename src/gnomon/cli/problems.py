"""What can go wrong in a command: one line on stderr, and an exit code.

0    done                      (also when the reader of stdout has left)
1    the model, its service or a back end failed, or there is no key for it
2    wrong usage or configuration: the person who typed it acts
3    the run waits for a person: `gnomon resume` goes on with it
4    a budget was reached; the answer so far was printed
130  interrupted
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedWriter, RawIOBase, TextIOWrapper
from typing import TextIO

import click

from gnomon.errors import ConfigError, GnomonError, MissingKey, ModelNotFound, TurnUnfinished, scrub

__all__ = [
    "BUDGET",
    "FAILED",
    "INTERRUPTED",
    "USAGE",
    "WAITING",
    "clean",
    "guarded",
    "one_line",
    "printable",
    "report",
    "usage_message",
]

FAILED, USAGE, WAITING, BUDGET, INTERRUPTED = 1, 2, 3, 4, 130

_LONGEST = 1_000
_SLASHED = re.compile(
    r"(\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/:@]{0,999}:[^\s/]{0,999}/\S{0,999}@[^\s)']{0,999}"
)
"""A URL as it was typed, whose password has a bare slash in it: it reads like a port and a path."""
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "_PASS", "_PAT")


def guarded(work: Callable[[], int], arguments: Sequence[str]) -> int:
    """The exit code of the work. No exception leaves this function."""
    _use_utf8()
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:  # `| head -1`: the reader has what it wanted
        code = 0
    except KeyboardInterrupt:
        report("interrupted", kind="")
        code = INTERRUPTED
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except Exception as error:  # noqa: BLE001 - the last line of defence: a person reads this, not a traceback
        code = _told(error, debug=_wants_debug(arguments))
    _let_go()
    return code


def report(message: str, *, kind: str = "error: ") -> None:
    """One line on stderr, whatever the message holds."""
    with suppress(OSError):  # nobody is left to read it
        sys.stderr.write(f"gnomon: {kind}{one_line(message, _LONGEST)}\n")
        sys.stderr.flush()


def one_line(text: str, longest: int) -> str:
    """The text without secrets, as one short line."""
    return printable(clean(text), longest)


def printable(text: str, longest: int) -> str:
    """The text as one line without control characters, shortened."""
    line = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def clean(text: str) -> str:
    """The text without anything that looks like a key, or is one of this environment."""
    for name, value in os.environ.items():
        if len(value) >= 8 and name.upper().endswith(_SECRET_NAMES):
            text = text.replace(value, "[redacted]")
    return scrub(_SLASHED.sub(r"\1…", text))


def _told(error: Exception, *, debug: bool) -> int:
    """Say what went wrong in one line; the traceback is for those who ask."""
    if debug:
        import traceback

        with suppress(OSError):
            sys.stderr.write(clean("".join(traceback.format_exception(error))))
    report(_message(error))
    return _exit_code(error)


def _message(error: Exception) -> str:
    if isinstance(error, GnomonError):
        return str(error)
    if isinstance(error, click.ClickException):
        return usage_message(error)
    if isinstance(error, OSError) and error.strerror:
        where = error.filename or "cannot read or write"
        return f"{where}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return f"internal error: {type(error).__name__}: {error} (run with --debug to see where)"


def usage_message(error: click.ClickException) -> str:
    said = error.format_message().strip()
    text = said[:1].lower() + said[1:].rstrip(".")
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
    if isinstance(error, click.NoSuchOption):
        options = f"{command or 'gnomon'} --help"
        return f"{text} (a prompt that begins with a dash: gnomon -- PROMPT; all options: {options})"
    if command and command != "gnomon" and "extra argument" in text:
        return f"{command}: {text} (to ask a model: gnomon -- PROMPT)"
    if command and isinstance(error, click.MissingParameter):
        return f"{command}: {text} (see {command} --help)"
    return text


def _exit_code(error: Exception) -> int:
    if isinstance(error, TurnUnfinished):
        return WAITING
    if isinstance(error, MissingKey) or (isinstance(error, ModelNotFound) and error.status):
        return FAILED  # it is between the caller and the service
    return USAGE if isinstance(error, ConfigError | ModelNotFound | click.UsageError) else FAILED


def _wants_debug(arguments: Sequence[str]) -> bool:
    before_words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--debug" in before_words or os.environ.get("GNOMON_DEBUG", "") not in ("", "0")


def _use_utf8() -> None:
    """JSON and models speak UTF-8, whatever the locale says."""
    sys.stdout = _as_utf8(sys.stdout or open(os.devnull, "w"))  # noqa: SIM115 - closed by `>&-`
    sys.stderr = _as_utf8(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115


def _as_utf8(stream: TextIO) -> TextIO:
    made: TextIO = stream
    buffer: object = getattr(stream, "buffer", None)
    if isinstance(buffer, RawIOBase):
        # PYTHONUNBUFFERED: without a buffer, Python takes a write that was cut short for a whole one.
        made = TextIOWrapper(BufferedWriter(buffer), encoding="utf-8", errors="replace", write_through=True)
    elif isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="replace")
    return made


def _let_go() -> None:
    """Python flushes what is left at its end, and would complain then of a pipe that is closed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
