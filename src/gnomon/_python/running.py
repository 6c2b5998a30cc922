"""Python code in any sandbox: the value of its last expression, what it printed, pictures, and its error."""

from __future__ import annotations

import json
import keyword
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from gnomon._python import answers
from gnomon._python.answers import Answer, Failure
from gnomon.contracts.sandbox import Sandbox, SupportsOutput
from gnomon.errors import InvalidInput
from gnomon.types.messages import Image
from gnomon.types.steps import ExecLimits, ExecOutput, ExecResult

__all__ = ["Failure", "PythonResult", "run_python", "stream_python"]

_OUTPUT_BYTES = 1 << 20
_INPUT_BYTES = 64 << 20
_NOT_FOUND = 127


class PythonResult(msgspec.Struct, frozen=True, kw_only=True):
    """What code came to.

    `value` is that of the last expression, where JSON can say it; `shown` is its repr, in any case, cut where
    it is long. `pictures` are what the code showed. `note` says in words what is amiss. `execution` is what
    the sandbox says, with what the code printed. All but that is what the code says of itself: where the code
    is not to be believed, neither is that.
    """

    value: object = None
    shown: str = ""
    pictures: tuple[Image, ...] = ()
    error: Failure | None = None
    execution: ExecResult
    note: str = ""
    ok: bool = False
    """Whether the code ran to its end."""

    @property
    def printed(self) -> str:
        """What the code printed."""
        return self.execution.text


async def run_python(
    sandbox: Sandbox,
    code: str,
    *,
    timeout_s: float,
    inputs: Mapping[str, object] | None = None,
    files: Mapping[str, bytes] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    limits: ExecLimits | None = None,
) -> PythonResult:
    """Run Python code in a sandbox; what becomes of it is a result, whatever it is.

    `inputs` are there as variables, `files` in its folder. A picture is shown by `show(path or figure or
    image)`, by the last expression, and by figures of matplotlib that are open at the end.
    """
    mark, asked = _asked(code, inputs, timeout_s, limits)
    program, args = _command(sandbox)
    execution = await sandbox.execute(
        program, args, timeout_s, stdin=asked.stdin, env=env, cwd=cwd, files=files, limits=asked.limits
    )
    return _result(execution, mark)


async def stream_python(
    sandbox: Sandbox,
    code: str,
    *,
    timeout_s: float,
    inputs: Mapping[str, object] | None = None,
    files: Mapping[str, bytes] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    limits: ExecLimits | None = None,
) -> AsyncGenerator[ExecOutput | PythonResult, None]:
    """What the code prints as it comes, where the sandbox can do that, then what `run_python` gives.

    Closing this ends the code.
    """
    mark, asked = _asked(code, inputs, timeout_s, limits)
    program, args = _command(sandbox)
    if not isinstance(sandbox, SupportsOutput):
        execution = await sandbox.execute(
            program, args, timeout_s, stdin=asked.stdin, env=env, cwd=cwd, files=files, limits=asked.limits
        )
        yield _result(execution, mark)
        return
    printed = _Printed(mark)
    stream = sandbox.execute_stream(
        program, args, timeout_s, stdin=asked.stdin, env=env, cwd=cwd, files=files, limits=asked.limits
    )
    async with aclosing(stream) as pieces:
        async for piece in pieces:
            if isinstance(piece, ExecResult):
                yield _result(piece, mark)
            elif shown := printed.of(piece):
                yield shown


# --- what is asked ----------------------------------------------------------------


class _Asked(NamedTuple):
    stdin: bytes
    limits: ExecLimits


def _asked(
    code: str, inputs: Mapping[str, object] | None, timeout_s: float, limits: ExecLimits | None
) -> tuple[bytes, _Asked]:
    """The mark behind which the answer comes, and what the sandbox is given."""
    limits = limits or ExecLimits()
    output_bytes = limits.output_bytes or _OUTPUT_BYTES
    mark = secrets.token_hex(16)
    stdin = _request(code, _checked(inputs), mark, timeout_s, output_bytes)
    # The output is cut where it comes from, so that of what comes here, the answer too, nothing is.
    room = msgspec.structs.replace(limits, output_bytes=2 * (output_bytes + answers.ANSWER_BYTES))
    return f"\x1e{mark}\n".encode(), _Asked(stdin, room)


def _command(sandbox: Sandbox) -> tuple[str, list[str]]:
    python = getattr(sandbox, "python", None)
    return python if isinstance(python, str) else "python3", ["-I", "-c", _program()]


@cache
def _program() -> str:
    return Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


def _checked(inputs: Mapping[str, object] | None) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in (inputs or {}).items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidInput(f"{name!r} cannot be the name of a variable")
        try:
            made[name] = msgspec.to_builtins(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"the input {name!r} cannot be said in JSON: {error}") from None
    return made


def _request(
    code: str, inputs: Mapping[str, object], mark: str, timeout_s: float, output_bytes: int
) -> bytes:
    told = {
        "code": code,
        "inputs": inputs,
        "mark": mark,
        # It ends the code itself a little earlier, so that there is time to say what it printed last.
        "timeout_s": timeout_s - min(0.5, timeout_s / 5),
        "output_bytes": output_bytes,
        "answer_bytes": answers.ANSWER_BYTES,
        "value_bytes": answers.VALUE_BYTES,
        "pictures": answers.MOST_PICTURES,
        "picture_bytes": answers.PICTURE_BYTES,
    }
    try:
        data = json.dumps(told).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the inputs of the code cannot be said in JSON: {error}") from None
    if len(data) > _INPUT_BYTES:
        raise InvalidInput(f"the code and its inputs have {len(data):,} bytes", hint="give the data as files")
    return data


# --- what comes back ----------------------------------------------------------------


class _Printed:
    """Output as it comes, up to the mark."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._held: bytes = b""
        self._is_over = False

    def of(self, piece: ExecOutput) -> ExecOutput | None:
        if piece.stream == "stdout":
            piece = ExecOutput("stdout", self._before_mark(piece.data))
        return piece if piece.data else None

    def _before_mark(self, data: bytes) -> bytes:
        if self._is_over:
            return b""
        data = self._held + data
        before, found, _ = data.partition(self._mark)
        self._is_over = bool(found)
        if found:
            return before
        sizes = range(min(len(self._mark) - 1, len(data)), 0, -1)
        begun = next((size for size in sizes if data.endswith(self._mark[:size])), 0)
        shown = len(data) - begun
        self._held = data[shown:]
        return data[:shown]


def _result(execution: ExecResult, mark: bytes) -> PythonResult:
    printed, found, rest = execution.stdout.partition(mark)
    answer = answers.read(rest) if found else Answer()
    execution = msgspec.structs.replace(
        execution,
        stdout=printed,
        timed_out=execution.timed_out or answer.is_late,
        truncated=execution.truncated or answer.is_cut,
    )
    problem = _problem(execution, answer, is_there=bool(found))
    return PythonResult(
        value=answer.value,
        shown=answer.shown,
        pictures=tuple(answer.pictures),
        error=answer.error,
        execution=execution,
        note=problem or _left_out(answer.left_out),
        ok=not problem and answer.error is None,
    )


def _problem(execution: ExecResult, answer: Answer, *, is_there: bool) -> str:
    """Why the code did not come to its end; empty when it did, or when its own error says it."""
    if execution.timed_out:
        return "ended: its time was up"
    if execution.note:
        return execution.note
    if execution.exit_code == _NOT_FOUND and not is_there:
        return "there is no Python in this sandbox"
    if answer.problem:
        return f"what the code came to cannot be read: {answer.problem}"
    if not is_there:
        return f"ended with exit code {execution.exit_code} before it could say what it came to"
    if answer.error is None and (execution.exit_code or not answer.is_done):
        return _ended(execution.exit_code or 0)
    return ""


def _left_out(count: int) -> str:
    return f"pictures left out, which were too many, too large, or none: {count}" if count else ""


def _ended(code: int) -> str:
    import signal

    if code <= 128:
        return f"the code ended itself with exit code {code}"
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        name = str(code - 128)
    return f"the code was ended by signal {name}"
