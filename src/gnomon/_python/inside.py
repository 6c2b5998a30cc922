"""What runs in the sandbox: given to an interpreter as text, so it needs nothing but the standard library.

A process of ours starts the code in a child, hands on what the child prints, and says last what the code came
to, behind a mark that printed output does not have. So it does not matter what the code does to its own
output, how it ends, or what it leaves running. All of it is in reach of the code, and may be a lie: whoever
reads it checks it. It has to run on any Python from 3.8 on, whichever there is in a container.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import io
import json
import linecache
import math
import os
import reprlib
import select
import signal
import stat
import sys
import time
import traceback
import types
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Names = dict[str, Any]

NAME = "<code>"
"""What tracebacks call the code."""

LONGEST = 10_000
"""How many characters a value may have that is shown as it is."""

PIECE = 65536
LEFTOVERS = 4_000_000
"""How much of what was still in a pipe when the code had ended is handed on."""

SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")

# --- the process that watches -------------------------------------------------


class Relay:
    """What the code writes, handed on at once: the beginning, and at the end as much again."""

    def __init__(self, source: int, target: int, limit: int) -> None:
        self.source = source
        self.target = target
        self.room = limit // 2
        self.most = limit - limit // 2
        self.tail: bytearray = bytearray()
        self.lost: int = 0

    def take(self) -> int:
        """How much there was; 0 at the end, -1 for nothing yet."""
        try:
            data = os.read(self.source, PIECE)
        except BlockingIOError:
            return -1
        if self.room:
            write(self.target, data[: self.room])
            rest = data[self.room :]
            self.room = max(self.room - len(data), 0)
        else:
            rest = data
        self.keep(rest)
        return len(data)

    def keep(self, data: bytes) -> None:
        self.tail += data
        if len(self.tail) > 2 * self.most:
            self.cut()

    def cut(self) -> None:
        surplus = len(self.tail) - self.most
        if surplus > 0:
            del self.tail[:surplus]
            self.lost += surplus

    def finish(self) -> None:
        self.cut()
        if self.lost:
            write(self.target, f"\n[… {self.lost} bytes left out …]\n".encode())
        write(self.target, bytes(self.tail))


class Store(Relay):
    """What the code says of itself: kept to be said last, as much of it as is wanted."""

    def __init__(self, source: int, limit: int) -> None:
        super().__init__(source, -1, 0)
        self.most = limit

    def keep(self, data: bytes) -> None:
        room = self.most - len(self.tail)
        self.tail += data[:room]
        self.lost += max(len(data) - room, 0)


def write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def watch(pid: int, relays: Sequence[Relay], wake: int, deadline: float) -> tuple[int, bool]:
    """How the code ended, as a shell would say it; and whether that was because its time was up."""
    by_source = {relay.source: relay for relay in relays}
    poller = select.poll()
    for descriptor in (wake, *by_source):
        os.set_blocking(descriptor, False)
        poller.register(descriptor, select.POLLIN)
    is_late = False
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 and not is_late:
            is_late = True
            os.kill(pid, signal.SIGKILL)
        for descriptor, _ in poller.poll(max(left_s * 1000, 0) if not is_late else None):
            if descriptor == wake:
                os.read(wake, PIECE)
            elif by_source[descriptor].take() == 0:
                poller.unregister(descriptor)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            drain(relays)
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            return code, is_late


def drain(relays: Sequence[Relay]) -> None:
    """What was written before the end. What the code has started may go on writing: nobody waits for that."""
    for relay in relays:
        taken = 0
        while taken < LEFTOVERS:
            count = relay.take()
            if count <= 0:
                break
            taken += count


def main() -> int:
    request: Names = json.loads(sys.stdin.buffer.read())
    deadline = time.monotonic() + request["timeout_s"]
    pipes = [os.pipe() for _ in range(4)]
    wake, waker = pipes[3]
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, nothing)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    pid = os.fork()
    if pid == 0:
        return become(request, pipes)
    for _, end in pipes[:3]:
        os.close(end)
    answer = Store(pipes[2][0], request["answer_bytes"])
    relays = [Relay(pipes[0][0], 1, request["output_bytes"]), Relay(pipes[1][0], 2, request["output_bytes"])]
    code, is_late = watch(pid, [*relays, answer], wake, deadline)
    for relay in relays:
        relay.finish()
    end = {"is_late": is_late, "is_cut": any(relay.lost for relay in relays), "is_torn": bool(answer.lost)}
    last = json.dumps({"end": end}).encode()
    write(1, b"\x1e" + request["mark"].encode() + b"\n" + bytes(answer.tail) + b"\n" + last + b"\n")
    return code


def nothing(_number: int, _frame: object) -> None:
    """That there is a handler makes the signal end a wait."""


def become(request: Names, pipes: list[tuple[int, int]]) -> int:
    """The child: output goes to the pipes, and there is no input."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    empty = os.open(os.devnull, os.O_RDONLY)
    for target, descriptor in enumerate((empty, pipes[0][1], pipes[1][1])):
        os.dup2(descriptor, target)
    for descriptor in (empty, *pipes[0], *pipes[1], *pipes[3], pipes[2][0]):
        os.close(descriptor)
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # so that what was printed is not lost with a process that is ended
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)
    return evaluate(request, Answer(pipes[2][1], request))


# --- the code -------------------------------------------------------------------


class Answer:
    """What is said of the code, a line at a time, as it comes about."""

    def __init__(self, descriptor: int, request: Names) -> None:
        self.descriptor = descriptor
        self.owner = os.getpid()
        self.pictures: int = request["pictures"]
        self.picture_bytes: int = request["picture_bytes"]
        self.left_out = 0

    def say(self, **told: object) -> None:
        if os.getpid() != self.owner:  # a fork of the code comes here as well
            return
        with suppress(OSError):  # the code has closed it
            write(self.descriptor, json.dumps(told).encode() + b"\n")

    def picture(self, data: bytes) -> None:
        if self.pictures <= 0 or len(data) > self.picture_bytes:
            self.left_out += 1
            self.say(left_out=self.left_out)
            return
        self.pictures -= 1
        self.say(picture=base64.b64encode(data).decode())


def evaluate(request: Names, answer: Answer) -> int:
    """Run the code; gives the exit code."""
    source: str = request["code"]
    folder = os.getcwd()
    linecache.cache[NAME] = (len(source), None, source.splitlines(True), NAME)
    names = module_of_the_code(request["inputs"], answer)
    code = 0
    try:
        body, last = compiled(source)
        exec(body, names)  # noqa: S102 - that is what this is for
        if last is not None:
            tell_value(eval(last, names), answer, request["value_bytes"])  # noqa: S307
    except SystemExit as ended:
        code = exit_code(ended.code)
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is told
        answer.say(error=described(error, folder))
        code = 1
    show_figures(answer)
    answer.say(is_done=True)
    return code


def module_of_the_code(inputs: Names, answer: Answer) -> Names:
    """A module of its own, in which it finds what it was given."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [""]
    sys.path[:0] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ.setdefault("MPLBACKEND", "agg")  # there is no screen
    watched: Any = Imported(answer)
    sys.meta_path.insert(0, watched)
    names = vars(module)
    names["show"] = partial(show, answer)
    names.update(inputs)
    return names


def compiled(source: str) -> tuple[types.CodeType, types.CodeType | None]:
    """All but the last expression, and that."""
    tree = ast.parse(source, NAME)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        expression = ast.Expression(tree.body[-1].value)
        del tree.body[-1]
        last = compile(expression, NAME, "eval", dont_inherit=True)
    return compile(tree, NAME, "exec", dont_inherit=True), last


def exit_code(given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, int):
        return given & 0xFF
    sys.stderr.write(f"{given}\n")  # as Python does
    return 1


def described(error: BaseException, folder: str) -> Names:
    """What went wrong, and on which of the code's own lines."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == NAME or frame.filename.startswith(folder.rstrip("/") + "/")
    ]
    lines = traceback.format_list(frames)
    if len(lines) > 12:
        lines[4:-6] = [f"  [… {len(lines) - 10} more calls …]\n"]
    try:
        said = traceback.format_exception_only(type(error), error)
    except Exception:  # noqa: BLE001 - its own text may be what fails
        said = [type(error).__name__ + "\n"]
    try:
        message = str(error)
    except Exception:  # noqa: BLE001
        message = ""
    shown = "".join([*lines, *said]).rstrip()
    return {"kind": type(error).__name__[:200], "message": short(message, 4000), "lines": short(shown, 8000)}


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most // 2] + " … " + text[-(most // 2) :]


# --- its value --------------------------------------------------------------------


class Unfit(Exception):
    """It is nothing that JSON can say, or too much."""


def tell_value(value: object, answer: Answer, most: int) -> None:
    if value is None:
        return
    picture = picture_of(value)
    if picture is not None:
        answer.picture(picture)
    try:
        text = json.dumps(Plain().of(value, 0), allow_nan=False)
    except Exception:  # noqa: BLE001 - whatever a stranger's object does when it is looked at
        text = ""
    shown = short(repr(value), LONGEST) if 0 < len(text) <= LONGEST else repr_of(value)
    if 0 < len(text) <= most:
        answer.say(value=text, shown=shown)
    else:
        answer.say(shown=shown)


class Plain:
    """A value as JSON has it, without losing anything."""

    def __init__(self) -> None:
        self.left = 100_000

    def of(self, value: Any, depth: int) -> object:
        self.left -= 1
        if self.left < 0 or depth > 40:
            raise Unfit
        if value is None or isinstance(value, (bool, str)):
            return value if value is None or isinstance(value, bool) else str(value)
        if isinstance(value, int):
            if value.bit_length() > 10_000:
                raise Unfit
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Unfit
            return float(value)
        kind = type_of(value)
        if issubclass(kind, (list, tuple)):
            return [self.of(item, depth + 1) for item in value]
        if issubclass(kind, dict):
            return {self.key(key): self.of(item, depth + 1) for key, item in value.items()}
        if kind.__module__.partition(".")[0] == "numpy" and getattr(value, "size", 0) <= self.left:
            return self.of(value.tolist(), depth + 1)
        raise Unfit

    def key(self, key: object) -> str:
        if not isinstance(key, str):
            raise Unfit
        return str(key)


def type_of(thing: object) -> Any:
    return type(thing)


def repr_of(value: Any) -> str:
    brief = reprlib.Repr()
    brief.maxlevel = 8
    brief.maxlist = brief.maxtuple = brief.maxdict = brief.maxset = brief.maxfrozenset = 200
    brief.maxarray = brief.maxdeque = 200
    brief.maxstring = brief.maxlong = 4000
    brief.maxother = LONGEST
    try:
        known = issubclass(type(value), (list, tuple, dict, set, frozenset, str, int))
        return short(brief.repr(value) if known else repr(value), LONGEST)
    except BaseException as error:  # noqa: BLE001 - of a stranger's object
        return f"<{type(value).__name__}, whose repr fails with {type(error).__name__}>"


# --- pictures ---------------------------------------------------------------------


def is_picture(data: object) -> bool:
    return isinstance(data, bytes) and (
        data.startswith(SIGNATURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    )


def picture_of(value: Any) -> bytes | None:
    """The picture that a thing is, or shows itself as."""
    if is_picture(value):
        return bytes(value)
    kind = type_of(value)
    try:
        if hasattr(kind, "_repr_png_"):
            drawn: object = value._repr_png_()
        elif hasattr(kind, "savefig") and kind.__module__.startswith("matplotlib"):
            drawn = drawn_by_matplotlib(value)
        else:
            return None
    except Exception:  # noqa: BLE001 - then it is not drawn
        return None
    return drawn if isinstance(drawn, bytes) and is_picture(drawn) else None


def show(answer: Answer, *things: Any) -> None:
    """Show pictures: paths of image files, figures, images. All else is printed."""
    for thing in things:
        kind = type_of(thing)
        is_path = issubclass(kind, str) or hasattr(kind, "__fspath__")
        picture = read_picture(thing) if is_path else picture_of(thing)
        if picture is None:
            sys.stdout.write(f"{thing}\n")
        else:
            answer.picture(picture)


def read_picture(path: Any) -> bytes:
    place = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe that nobody writes to would keep it waiting
    with open(place, "rb") as file:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise ValueError(f"{path!r} is not a file")
        data = file.read(64_000_000)
    if not is_picture(data):
        raise ValueError(f"{path!r} is not a PNG, JPEG, GIF or WebP picture")
    return data


def drawn_by_matplotlib(figure: Any) -> bytes:
    made = io.BytesIO()
    figure.savefig(made, format="png", bbox_inches="tight")
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)  # it has been shown
    return made.getvalue()


def show_figures(answer: Answer) -> None:
    """Those of pyplot that are open."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    try:
        for number in list(pyplot.get_fignums()):
            answer.picture(drawn_by_matplotlib(pyplot.figure(number)))
    except Exception:  # noqa: BLE001 - a figure that cannot be drawn is not shown
        traceback.print_exc(limit=0)


class Imported:
    """Waits for modules that have something to show, and has them show it here. None is imported by this."""

    def __init__(self, answer: Answer) -> None:
        def show_them(*_args: object, **_options: object) -> None:
            show_figures(answer)

        def show_it(image: object, *_args: object, **_options: object) -> None:
            show(answer, image)

        self.changes: dict[str, Callable[[Any], None]] = {
            "matplotlib.pyplot": lambda module: setattr(module, "show", show_them),
            "PIL.Image": lambda module: setattr(module.Image, "show", show_it),
        }

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        change = self.changes.pop(name, None)
        if change is None:
            return None
        spec: Any = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            with suppress(Exception):  # it is another module of that name
                change(module)

        spec.loader.exec_module = exec_module
        return spec


if __name__ == "__main__":
    sys.exit(main())
