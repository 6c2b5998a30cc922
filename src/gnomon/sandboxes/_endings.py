"""What the end of a command means: a result in all cases but those in which there was no sandbox."""

from __future__ import annotations

import errno

from gnomon.errors import SandboxError, SandboxLost
from gnomon.sandboxes._limits import Limits
from gnomon.sandboxes._output import Kept
from gnomon.sandboxes._run import Ending
from gnomon.types.steps import ExecResult, IsolationLevel

__all__ = ["NOT_FOUND", "NOT_RUN", "SAYS_WRAPPER", "refused", "result_of"]

NOT_FOUND, NOT_RUN, _KILLED = 127, 126, 137
_BY_SIGNAL = 128
_SIGXCPU, _SIGXFSZ = 24, 25
SAYS_WRAPPER = b"bwrap: "
"""How what bubblewrap itself says of a failure begins."""
_SAYS_NOT_STARTED = b"bwrap: execvp "
_HINT = "gnomon doctor shows what this machine can hold, and what to install"


def refused(level: IsolationLevel, why: str) -> ExecResult:
    """A command that no system could be given."""
    return ExecResult(exit_code=NOT_RUN, level=level, note=f"not run: {why}")


def result_of(
    ending: Ending,
    kept: Kept,
    limits: Limits,
    *,
    level: IsolationLevel,
    duration_s: float,
    kills: int,
    command: str,
) -> ExecResult:
    """`kills`: how often the kernel has ended a part of it for want of memory."""
    if ending.broken:
        raise SandboxLost(f"what held the command broke: {ending.broken}", hint=_HINT)
    if ending.is_lost and not ending.why:
        raise SandboxLost(
            "what held the command has ended, so that nobody knows what became of it", hint=_HINT
        )
    stdout, stderr = kept.of("stdout"), kept.of("stderr")
    if (code := _not_started(ending, stderr)) is not None:
        return ExecResult(
            exit_code=code, level=level, duration_s=duration_s, note=_not_run(code, command, ending)
        )
    oom = bool(kills) or ending.why == "memory"
    exit_code = _KILLED if ending.why or ending.exit_code is None else ending.exit_code
    return ExecResult(
        exit_code=exit_code,
        level=level,
        stdout=stdout,
        stderr=stderr,
        timed_out=ending.why == "timeout",
        truncated=kept.truncated,
        oom=oom,
        duration_s=duration_s,
        note=_note(ending.why or _by_kernel(exit_code, oom), limits),
    )


def _not_started(ending: Ending, stderr: bytes) -> int | None:
    """The exit code of a command that never ran; raises where it was the sandbox that could not be set up."""
    if ending.failed is not None:
        step, number, text = ending.failed
        if step == "program" and number == errno.E2BIG:
            return NOT_RUN
        if step == "program" and ending.is_up:
            return NOT_FOUND if number == errno.ENOENT else NOT_RUN
        raise SandboxError(f"the sandbox could not be set up: {step}: {text}", hint=_HINT)
    if ending.is_up or not stderr.startswith(SAYS_WRAPPER):
        return None
    if stderr.startswith(_SAYS_NOT_STARTED):
        return NOT_FOUND if b": No such file or directory" in stderr else NOT_RUN
    said = stderr.decode(errors="replace").strip().splitlines()[0]
    raise SandboxError(f"the sandbox could not be set up: {said}", hint=_HINT)


def _not_run(code: int, command: str, ending: Ending) -> str:
    shown = command if len(command) <= 200 else f"{command[:200]}…"
    if ending.failed is not None and ending.failed.number == errno.E2BIG:
        return "not run: its arguments and variables are longer than the system takes"
    why = "there is no such program" if code == NOT_FOUND else "it cannot be executed"
    return f"not run: {shown}: {why}"


def _by_kernel(exit_code: int, oom: bool) -> str:
    if oom:
        return "memory"
    return {_BY_SIGNAL + _SIGXCPU: "cpu", _BY_SIGNAL + _SIGXFSZ: "disk"}.get(exit_code, "")


def _note(why: str, limits: Limits) -> str:
    """In words, for whoever reads the result."""
    match why:
        case "timeout":
            return "ended: its time was up"
        case "memory":
            return f"ended: it used more than {_size(limits.memory_bytes)} of memory"
        case "processes":
            return f"ended: it started more than {limits.processes} processes"
        case "cpu":
            return f"ended: it used more than {limits.cpu_s:g} s of processor time"
        case "disk":
            return f"ended: it wrote more than {_size(limits.disk_bytes)}"
        case "":
            return ""
        case _:
            return f"ended: {why}"


def _size(count: int) -> str:
    return f"{count >> 20} MB" if count >= 1 << 20 else f"{count} bytes"
