"""What a command runs beside itself, such as `timeout 5 make`, and which commands change what others mean."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["MOVES", "Inner", "assignment_doubt", "inner_of"]

MOVES = frozenset({"cd", "chdir", "pushd", "popd"})
"""After these a relative path is another one."""


class Inner(NamedTuple):
    """What a command runs: another one, a text that a shell reads, or something that is not known."""

    argv: Sequence[str] = ()
    by_shell: bool = False
    """Whether the shell itself looks it up, so that it may be one of its own commands."""
    text: str | None = None
    doubt: str = ""


_NOTHING = Inner()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SYSTEM_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")

_CHANGES_THE_SHELL = _names(
    ". source alias unalias bind builtin compgen complete compopt declare enable export fc getopts hash "
    "history let local mapfile read readarray readonly shopt trap typeset unset"
)
"""Commands of a shell after which, or in which, words mean something else than they say."""

_BY_SHELL_ONLY = _CHANGES_THE_SHELL | MOVES | {"command", "eval", "exec", "set", "exit", "return"}

_RUNS_OTHERS = _names(
    "ash bash busybox bwrap capsh choom chroot chrt csh dash dbus-run-session debconf doas dumb-init "
    "eatmydata fakechroot fakeroot fakeroot-sysv fakeroot-tcp faketime fish flock fstab-decode gchroot "
    "gdb genv gfind gnice gnohup gosu gstdbuf gtimeout gxargs heaptrack hyperfine i386 ionice ksh ld.so "
    "linux32 linux64 logsave ltrace memusage mksh newgrp npx nsenter numactl parallel perf pkexec prlimit "
    "proot proxychains proxychains4 rbash rksh rlwrap run-parts runcon runuser rush script setarch "
    "setpriv setsid sg sh sotruss ssh ssh-agent start-stop-daemon stdbuf strace su su-exec systemd-run "
    "taskset tcsh tini torsocks toybox tsocks uclampset uname26 unbuffer unshare valgrind watch x86_64 "
    "xvfb-run yash zsh"
)
"""Programs whose arguments are a command, and through which nobody looks here."""

_LOADERS = ("ld-linux", "ld-musl")


def inner_of(argv: Sequence[str], *, by_shell: bool) -> Inner:
    """What the command runs beside itself, as far as that is known from its arguments."""
    name = argv[0]
    if not name or name.startswith("%"):
        return Inner(doubt="a command without a name")
    if "/" in name:
        folder, name = posixpath.split(name)
        by_shell = False
        if folder not in _SYSTEM_FOLDERS:
            is_odd = name in _LOOKED_THROUGH or _may_run_another(name)
            return Inner(doubt=f"another {name} than the usual one") if is_odd else _NOTHING
    if by_shell and name in _BUILTINS:
        return _BUILTINS[name](argv[1:])
    if name in _BY_SHELL_ONLY:
        if by_shell:
            return (
                Inner(doubt=f"{name} changes what other words mean")
                if name in _CHANGES_THE_SHELL
                else _NOTHING
            )
        return Inner(doubt=f"{name} outside of a shell")
    look = _LOOKED_THROUGH.get(name)
    if look is not None:
        return look(argv[1:])
    return Inner(doubt=f"{name} may run another command") if _may_run_another(name) else _NOTHING


def _may_run_another(name: str) -> bool:
    return name in _RUNS_OTHERS or name.startswith(_LOADERS)


# --- assignments

_HARMLESS = _names(
    "CI CLICOLOR COLUMNS DEBIAN_FRONTEND FORCE_COLOR LINES NO_COLOR PYTHONDONTWRITEBYTECODE PYTHONHASHSEED "
    "PYTHONUNBUFFERED RUST_BACKTRACE TERM TZ"
)
_LOCALES = _names("LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_+-]+)*")
_LOCALE = re.compile(r"C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-8|utf8)")


def assignment_doubt(name: str, value: str) -> str:
    """What may come of a variable that is set: any that is not known to be harmless may name a program."""
    if name in _LOCALES and _LOCALE.fullmatch(value):
        return ""
    if name in _HARMLESS and _PLAIN_VALUE.fullmatch(value) and ".." not in value:
        return ""
    return f"it sets {name[:40]}"


def _assigned(words: Sequence[str]) -> tuple[int, str]:
    """How many words at the front set a variable, and what is doubtful about that."""
    count, doubt = 0, ""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            break
        count += 1
        doubt = doubt or assignment_doubt(name, value)
    return count, doubt


# --- commands of the shell


def _eval(rest: Sequence[str]) -> Inner:
    if rest and rest[0].startswith("-"):
        return Inner(doubt="options of eval")
    return Inner(text=" ".join(rest))


def _command(rest: Sequence[str]) -> Inner:
    if rest and rest[0] in ("-v", "-V"):
        return _NOTHING
    return _after_options("command", rest, by_shell=True)


def _exec(rest: Sequence[str]) -> Inner:
    return _after_options("exec", rest)


def _set(rest: Sequence[str]) -> Inner:
    """`set -euo pipefail`, as scripts begin; anything else may change the words that follow."""
    words = list(rest)
    while words:
        word = words.pop(0)
        if re.fullmatch(r"[-+][eux]*o", word) and words and words[0] in ("pipefail", "errexit", "nounset"):
            words.pop(0)
        elif not re.fullmatch(r"[-+][eux]+", word):
            return Inner(doubt="set changes what other words mean")
    return _NOTHING


def _test(rest: Sequence[str]) -> Inner:
    """bash computes what stands in the brackets of the name that -v asks about."""
    return Inner(doubt="a test for a variable") if "-v" in rest or "-R" in rest else _NOTHING


def _without(option: str, name: str) -> Callable[[Sequence[str]], Inner]:
    """An option with which it computes a name or runs a command."""

    def look(rest: Sequence[str]) -> Inner:
        found = any(word.startswith("-") and option in word for word in rest)
        return Inner(doubt=f"{name} with -{option}") if found else _NOTHING

    return look


_BUILTINS: dict[str, Callable[[Sequence[str]], Inner]] = {
    "command": _command,
    "eval": _eval,
    "exec": _exec,
    "jobs": _without("x", "jobs"),
    "printf": _without("v", "printf"),
    "set": _set,
    "test": _test,
    "[": _test,
    "wait": _without("p", "wait"),
}


# --- programs


def _after_options(
    name: str, rest: Sequence[str], flags: str = "", valued: str = "", *, by_shell: bool = False
) -> Inner:
    """The command behind the options, of which those that match are known, and no others are."""
    at = 0
    while at < len(rest) and rest[at].startswith("-"):
        if rest[at] == "--":
            at += 1
            break
        if flags and re.fullmatch(flags, rest[at]):
            at += 1
        elif valued and re.fullmatch(valued, rest[at]):
            at += 2
        else:
            return Inner(doubt=f"options of {name}")
    return Inner(rest[at:], by_shell)


def _env(rest: Sequence[str]) -> Inner:
    inner = _after_options("env", rest, "-i|-")
    count, doubt = _assigned(inner.argv)
    return Inner(inner.argv[count:], doubt=inner.doubt or doubt)


def _sudo(rest: Sequence[str]) -> Inner:
    inner = _after_options("sudo", rest, "-n", "-[ug]")
    count, doubt = _assigned(inner.argv)
    return Inner(inner.argv[count:], doubt=inner.doubt or doubt)


def _nohup(rest: Sequence[str]) -> Inner:
    return _after_options("nohup", rest)


def _nice(rest: Sequence[str]) -> Inner:
    return _after_options("nice", rest, r"-n-?\d+|--adjustment=-?\d+", "-n")


def _time(rest: Sequence[str]) -> Inner:
    """A word of the language in bash, and a program elsewhere: what both take for a command."""
    if rest and (rest[0].startswith("-") or "=" in rest[0] or rest[0] in _NOT_TIMED):
        return Inner(doubt="time before something else than a command")
    return Inner(rest, by_shell=True)


_NOT_TIMED = _BY_SHELL_ONLY | {"!", "[[", "coproc", "function", "time"}


def _timeout(rest: Sequence[str]) -> Inner:
    flags = r"--foreground|--preserve-status|-v|--verbose|--signal=\w+|--kill-after=[\d.]+[smhd]?"
    inner = _after_options("timeout", rest, flags, "-[sk]")
    if inner.argv and not re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", inner.argv[0]):
        return Inner(doubt="options of timeout")
    return inner._replace(argv=inner.argv[1:])


def _xargs(rest: Sequence[str]) -> Inner:
    flags = r"-[0rt]+|-[nPLIds].+|--null|--no-run-if-empty"
    inner = _after_options("xargs", rest, flags, "-[nPLIds]")
    return inner._replace(doubt=inner.doubt or "arguments that xargs reads")


def _find(rest: Sequence[str]) -> Inner:
    """What `-exec` runs; the first, where there are several: `inner_of` goes on from there."""
    runs = [at for at, word in enumerate(rest) if word in ("-exec", "-execdir", "-ok", "-okdir")]
    if not runs:
        return _NOTHING
    words = list(rest[runs[0] + 1 :])
    ends = [
        at for at, word in enumerate(words) if word == ";" or (word == "+" and at and words[at - 1] == "{}")
    ]
    if not ends or len(runs) > 1:
        return Inner(_until_braces(words), doubt="several commands that find runs")
    inner = words[: ends[0]]
    known = _until_braces(inner)
    return Inner(known, doubt="names that find puts in" if len(known) < len(inner) else "")


def _until_braces(words: Sequence[str]) -> Sequence[str]:
    braces = next((at for at, word in enumerate(words) if "{}" in word), len(words))
    return words[:braces]


def _shell(rest: Sequence[str]) -> Inner:
    """`sh -c text`, or a script; without either it reads commands from where nobody looks here."""
    at, is_text = 0, False
    while at < len(rest) and re.fullmatch(r"-[cuex]+", rest[at]):
        is_text = is_text or "c" in rest[at]
        at += 1
    if at >= len(rest):
        return Inner(doubt="a shell that reads commands")
    if rest[at].startswith(("-", "+")):
        return Inner(doubt="options of a shell")
    return Inner(text=rest[at]) if is_text else _NOTHING


_LOOKED_THROUGH: dict[str, Callable[[Sequence[str]], Inner]] = {
    "bash": _shell,
    "dash": _shell,
    "env": _env,
    "find": _find,
    "nice": _nice,
    "nohup": _nohup,
    "sh": _shell,
    "sudo": _sudo,
    "time": _time,
    "timeout": _timeout,
    "xargs": _xargs,
}
