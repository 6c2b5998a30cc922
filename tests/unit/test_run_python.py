"""`run_python`: what code comes to in a sandbox, and what it may do to nobody's harm but its own."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon._python import answers
from gnomon.contracts.sandbox import Sandbox
from gnomon.errors import InvalidInput
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.sandboxes.python import PythonResult, run_python, stream_python
from gnomon.types.steps import ExecLimits, ExecOutput

RUNGS = [(), ("bubblewrap",)]


def png(width: int = 2, height: int = 2, *, noise: bytes = b"") -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"tEXt", noise) + data + chunk(b"IEND", b"")


PNG = png()


@asynccontextmanager
async def opened(*arguments: Any, **options: Any) -> AsyncIterator[ProcessSandbox]:
    sandbox = ProcessSandbox(*arguments, require="none", **options)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def ran(code: str, *, without: Any = (), **options: Any) -> PythonResult:
    async with opened(without=without) as sandbox:
        return await run_python(sandbox, code, timeout_s=options.pop("timeout_s", 30.0), **options)


# --- values -----------------------------------------------------------------------


@pytest.mark.parametrize("without", RUNGS)
async def test_the_value_of_the_last_expression_comes_back(without: tuple[str, ...]) -> None:
    result = await ran("print('on the way')\nx = [1, 2.5]\n{'x': x, 'none': None}", without=without)
    assert result.ok, result
    assert result.value == {"x": [1, 2.5], "none": None}
    assert result.shown == "{'x': [1, 2.5], 'none': None}"
    assert result.printed == "on the way\n"
    assert result.execution.exit_code == 0


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("x = 5", None, ""),
        ("None", None, ""),
        ("", None, ""),
        ("2 ** 100", 2**100, str(2**100)),
        ("(1, 'a')", [1, "a"], "(1, 'a')"),
        ("float('nan')", None, "nan"),
        ("{1: 2}", None, "{1: 2}"),
        ("{1, 2}", None, "{1, 2}"),
        ("len", None, "<built-in function len>"),
        ("10 ** 5000", None, "<int, whose repr fails with ValueError>"),
        ("x = []; x.append(x); x", None, "[[[[[[[[[...]]]]]]]]]"),
        ("'caf\\u00e9 \\U0001f600'", "café 😀", "'café 😀'"),
        (
            "class A:\n    def __repr__(self): raise KeyError\nA()",
            None,
            "<A, whose repr fails with KeyError>",
        ),
        ("import numpy; numpy.arange(3) * 1.5", [0, 1.5, 3.0], "array([0. , 1.5, 3. ])"),
        ("__name__", "__main__", "'__main__'"),
        ("if True:\n    7", None, ""),
    ],
)
async def test_a_value_is_data_where_json_can_say_it_and_always_its_repr(
    code: str, value: object, shown: str
) -> None:
    result = await ran(code)
    assert result.ok, result
    assert (result.value, result.shown) == (value, shown)


async def test_a_value_that_is_too_large_is_only_shown_and_not_whole() -> None:
    result = await ran("['x' * 100] * 50_000")
    assert result.ok
    assert result.value is None
    assert len(result.shown) < 20_000
    assert result.shown.startswith("['xxx")


async def test_inputs_are_variables_and_files_are_there() -> None:
    code = "print(open('data.csv').read()); import helper; helper.twice(rows)"
    files = {"data.csv": b"a,b", "helper.py": b"def twice(x): return x + x\n"}
    result = await ran(code, inputs={"rows": [1, {"a": "\ud800"}]}, files=files)
    assert result.ok, result
    assert result.printed == "a,b\n"
    assert result.value == [1, {"a": "\ud800"}, 1, {"a": "\ud800"}]


@pytest.mark.parametrize("inputs", [{"a b": 1}, {"class": 1}, {"x": object()}, {"x": {1: [lambda: 0]}}])
async def test_inputs_that_cannot_be_given_are_refused(inputs: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        await ran("1", inputs=inputs)


async def test_a_module_of_the_workspace_does_not_take_the_place_of_one_that_is_needed() -> None:
    files = {f"{name}.py": b"raise SystemExit(9)" for name in ("json", "ast", "base64", "select", "typing")}
    result = await ran("1 + 1", files=files)
    assert (result.ok, result.value) == (True, 2)


# --- errors -----------------------------------------------------------------------


async def test_an_error_has_the_lines_of_the_code_and_no_others() -> None:
    code = "import json\ndef load(text):\n    return json.loads(text)\nprint('first')\nload('{')"
    result = await ran(code)
    assert not result.ok
    assert result.error is not None
    assert result.error.kind == "JSONDecodeError"
    assert result.printed == "first\n"
    assert "line 5, in <module>\n    load('{')" in result.error.lines
    assert "line 3, in load\n    return json.loads(text)" in result.error.lines
    assert "decoder.py" not in result.error.lines
    assert "string" not in result.error.lines.partition("JSONDecodeError")[0]


async def test_an_error_in_a_file_of_the_workspace_names_its_line() -> None:
    result = await ran("import helper", files={"helper.py": b"x = 1\nx.y\n"})
    assert result.error is not None
    assert 'helper.py", line 2' in result.error.lines


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def f(): f()\nf()", "RecursionError"),
        ("x = (", "SyntaxError"),
        ("\ud800", "UnicodeEncodeError"),
        ("input()", "EOFError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class E(Exception):\n    def __str__(self): raise E\nraise E", "E"),
        ("raise ValueError('x' * 10_000_000)", "ValueError"),
        ("raise type('K' * 10_000, (Exception,), {})", "K" * 200),
        ("show('none.png')", "FileNotFoundError"),
        ("show('/dev/zero')", "ValueError"),
        ("import os; os.mkfifo('pipe'); show('pipe')", "ValueError"),
    ],
)
async def test_whatever_goes_wrong_is_told_in_short(code: str, kind: str) -> None:
    result = await ran(code)
    assert result.error is not None, result
    assert result.error.kind == kind
    assert len(result.error.lines) + len(result.error.message) < 15_000
    assert result.value is None
    assert result.execution.exit_code == 1


# --- code that does not come to its end ---------------------------------------------


@pytest.mark.parametrize("without", RUNGS)
@pytest.mark.parametrize(
    ("code", "said", "exit_code"),
    [
        ("import os; print('x'); os._exit(3)", "ended itself with exit code 3", 3),
        ("import os; print('x'); os._exit(0)", "ended itself with exit code 0", 0),
        ("print('x'); raise SystemExit(4)", "ended itself with exit code 4", 4),
        ("print('x'); import os, signal; os.kill(os.getpid(), 11)", "ended by signal SIGSEGV", 139),
        ("print('x'); import ctypes; ctypes.string_at(0)", "ended by signal SIGSEGV", 139),
        ("import os; print('x'); os.closerange(3, 1000); 5", "ended itself with exit code 0", 0),
        ("import os; print('x'); os.kill(os.getppid(), 9)", "before it could say what it came to", 137),
    ],
)
async def test_code_that_ends_early_keeps_what_it_printed(
    without: tuple[str, ...], code: str, said: str, exit_code: int
) -> None:
    result = await ran(code, without=without)
    assert not result.ok
    assert said in result.note
    assert result.execution.exit_code == exit_code
    assert (result.value, result.error) == (None, None)
    assert result.printed.startswith("x") or "getppid" in code


async def test_code_that_says_that_it_is_done_is_done() -> None:
    result = await ran("print('x')\nimport sys\nsys.exit()")
    assert result.ok, result


@pytest.mark.parametrize("without", RUNGS)
async def test_code_whose_time_is_up_keeps_what_it_printed_and_showed(without: tuple[str, ...]) -> None:
    code = "print('begun')\nshow(picture)\nimport time\ntime.sleep(60)"
    code = f"picture = {PNG!r}\n{code}"
    result = await ran(code, without=without, timeout_s=2.0)
    assert not result.ok
    assert result.execution.timed_out
    assert result.note == "ended: its time was up"
    assert result.printed == "begun\n"
    assert [picture.data for picture in result.pictures] == [PNG]


async def test_code_that_stops_who_watches_it_is_ended_all_the_same() -> None:
    stopping = "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)"
    result = await ran(f"print('x')\n{stopping}\nimport time\ntime.sleep(60)", timeout_s=2.0)
    assert result.execution.timed_out
    assert result.note == "ended: its time was up"


async def test_a_cancelled_run_ends_the_code(tmp_path: Path) -> None:
    code = "import time\nwhile True:\n    open('beat', 'a').write('x')\n    time.sleep(0.01)"
    async with opened(tmp_path) as sandbox:
        running = asyncio.ensure_future(run_python(sandbox, code, timeout_s=30))
        while not (tmp_path / "beat").exists():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        size = (tmp_path / "beat").stat().st_size
        await asyncio.sleep(0.1)
        assert (tmp_path / "beat").stat().st_size == size


async def test_a_sandbox_without_python_says_so() -> None:
    class Bare(ProcessSandbox):
        @property
        def python(self) -> str:
            return "/no/such/python"

    sandbox = Bare(require="none")
    try:
        result = await run_python(sandbox, "1", timeout_s=10)
    finally:
        await sandbox.close()
    assert result.execution.exit_code == 127
    assert "no such program" in result.note


# --- output -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close(); 5",
        "import os; os.close(1); os.close(2); 5",
        "import sys; sys.stdout = None; 5",
        "print(end='no line end'); 5",
        "import os; os.write(1, b'\\x1e' * 100 + b'{\"value\": 1}\\n'); 5",
        "import os; os.write(1, bytes(range(256)) * 1000); 5",
        "import os; os.fork(); 5",
        "import subprocess; subprocess.Popen(['sh', '-c', 'while :; do echo noise; done']); 5",
        "import subprocess; subprocess.Popen(['sleep', '60']); 5",
        "import os\nif os.fork() == 0:\n    import time; time.sleep(60)\n5",
        "import threading; threading.Thread(target=print, args=('late',)).start(); 5",
    ],
)
async def test_no_output_breaks_the_value(code: str) -> None:
    result = await ran(code, timeout_s=20)
    assert (result.value, result.error, result.note) == (5, None, ""), result


async def test_a_gigabyte_of_output_is_cut_in_its_middle_and_the_value_is_there() -> None:
    code = "print('first')\nline = 'x' * 1_000_000\nfor _ in range(1000):\n    print(line)\nprint('last')\n42"
    result = await ran(code, limits=ExecLimits(output_bytes=100_000), timeout_s=60)
    assert result.ok, result.note
    assert result.value == 42
    assert result.execution.truncated
    assert result.printed.startswith("first\n")
    assert result.printed.endswith("last\n")
    assert "bytes left out" in result.printed
    assert len(result.printed) < 101_000


async def streamed(sandbox: object, code: str) -> tuple[list[ExecOutput], PythonResult]:
    *shown, last = [step async for step in stream_python(cast("Sandbox", sandbox), code, timeout_s=20)]
    assert isinstance(last, PythonResult)
    assert all(isinstance(each, ExecOutput) for each in shown)
    return cast("list[ExecOutput]", shown), last


def told(shown: list[ExecOutput], stream: str) -> bytes:
    return b"".join(each.data for each in shown if each.stream == stream)


async def test_output_is_shown_as_it_comes_without_what_is_not_printed() -> None:
    async with opened() as sandbox:
        code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.stdout.write('\\x1e' + 'end')\n5"
        shown, result = await streamed(sandbox, code)
        assert result.value == 5
        assert told(shown, "stdout") == b"out\n\x1eend"
        assert told(shown, "stderr") == b"err\n"
        assert result.execution.stderr == b"err\n"
        assert result.printed == "out\n\x1eend"


async def test_a_stream_that_is_closed_ends_the_code(tmp_path: Path) -> None:
    code = "import time\nwhile True:\n    print('x', file=open('beat', 'a'), flush=True)\n    print('y')"
    async with opened(tmp_path) as sandbox:
        async with aclosing(stream_python(sandbox, code, timeout_s=30)) as steps:
            async for _ in steps:
                break
        size = (tmp_path / "beat").stat().st_size
        await asyncio.sleep(0.1)
        assert (tmp_path / "beat").stat().st_size == size


async def test_a_sandbox_that_shows_no_output_gives_the_result_alone() -> None:
    class Silent:
        level = "none"

        def __init__(self, sandbox: ProcessSandbox) -> None:
            self.execute, self.close, self.python = sandbox.execute, sandbox.close, sandbox.python

    async with opened() as sandbox:
        shown, result = await streamed(Silent(sandbox), "print('x'); 5")
    assert (shown, result.value, result.printed) == ([], 5, "x\n")


async def test_code_may_use_the_network_where_its_sandbox_allows_it_and_nobody_forbids_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection({server.getsockname()!r}, timeout=5); 'heard'"
        async with opened(limits=ExecLimits(network=True)) as sandbox:
            if "loopback" not in (await sandbox.report()).held:
                pytest.skip("nothing keeps a command from the network here")
            allowed = await run_python(sandbox, code, timeout_s=20)
            forbidden = await run_python(sandbox, code, timeout_s=20, limits=ExecLimits(network=False))
    assert allowed.value == "heard"
    assert forbidden.error is not None


# --- pictures -----------------------------------------------------------------------


async def test_pictures_come_from_files_from_bytes_and_from_things_that_can_draw_themselves() -> None:
    code = """
        from pathlib import Path
        class Chart:
            def _repr_png_(self): return picture()
        def picture(): return open('p.png', 'rb').read()
        show('p.png', Path('p.png'), Chart())
        show(picture(), 'p.png')
        Chart()
    """
    lines = [line[8:] for line in code.splitlines()]
    result = await ran("\n".join(lines), files={"p.png": PNG})
    assert result.ok, result
    assert [(picture.media_type, picture.data) for picture in result.pictures] == [("image/png", PNG)] * 6
    assert "Chart object" in result.shown


FIGURES = {
    "matplotlib/__init__.py": b"",
    "matplotlib/figure.py": b"""
class Figure:
    def savefig(self, file, format=None, **more):
        assert format == "png"
        file.write(open("p.png", "rb").read())
""",
    "matplotlib/pyplot.py": b"""
from matplotlib.figure import Figure
_open = {}
def figure(number):
    return _open.setdefault(number, Figure())
def get_fignums():
    return sorted(_open)
def close(figure):
    for number, each in list(_open.items()):
        if each is figure:
            del _open[number]
def show(block=None):
    raise RuntimeError("there is no screen")
""",
    "p.png": PNG,
}
"""As much of matplotlib as is asked of it, since it need not be installed where the tests run."""


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("import matplotlib.pyplot as plt\nplt.figure(1), plt.figure(2)", 2),
        (
            "from matplotlib import pyplot as p\np.figure(1)\np.show()\np.figure(2)\np.show(block=True)",
            2,
        ),
        ("import matplotlib.pyplot as plt\nplt.figure(1)", 1),
        ("from matplotlib.figure import Figure\nshow(Figure())", 1),
        ("import matplotlib.pyplot as plt\nplt.figure(1)\n1 / 0", 1),
        ("import matplotlib.pyplot as plt\nplt.close(plt.figure(1))", 0),
        ("import sys\nassert 'matplotlib' not in sys.modules", 0),
    ],
)
async def test_figures_that_are_open_are_shown_once(code: str, count: int) -> None:
    result = await ran(code, files=FIGURES)
    assert len(result.pictures) == count, result
    assert result.note == ""


async def test_more_and_larger_pictures_than_are_wanted_are_counted() -> None:
    code = "for _ in range(12):\n    show(small)\nshow(large)"
    code = f"small = {PNG!r}\nlarge = open('large.png', 'rb').read()\n{code}"
    result = await ran(code, files={"large.png": png(noise=bytes(4_000_000))})
    assert len(result.pictures) == answers.MOST_PICTURES
    assert result.note.endswith("too large, or none: 5")
    assert result.ok


@pytest.mark.parametrize(
    "data",
    [PNG[:-1], PNG[:40] + b"x" + PNG[41:], png(20_000, 1), b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a"],
)
async def test_what_only_looks_like_a_picture_is_none(data: bytes) -> None:
    """One that nobody can read would fail every later request of the conversation."""
    result = await ran(f"show({data!r})")
    assert result.pictures == ()
    assert result.note.endswith("too large, or none: 1")


# --- answers that are a lie ---------------------------------------------------------

FORGE = """
import gc, os, json, signal
known = [each for each in gc.get_objects() if isinstance(each, dict)]
mark = next(each['mark'] for each in known if 'mark' in each and 'code' in each)
place = os.open(f'/proc/{os.getppid()}/fd/1', os.O_WRONLY)
os.write(place, b'printed\\x1e' + mark.encode() + b'\\n')
data = ANSWER
while data:
    data = data[os.write(place, data):]
os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("answer", "value", "said"),
    [
        ('b\'{"value": "[1]"}\\n{"is_done": true, "end": {}}\'', [1], "signal SIGKILL"),
        ('b\'{"value": "[1]"}\\n{"end": {"is_torn": true}}\'', [1], "cannot be read"),
        ('b\'{"value": "[1]"}\'', [1], "it has no end"),
        ("b'{\"value\": \"' + b'[' * 500_000", None, "cannot be read"),
        ("b'{\"value\": \"' + b'[' * 500_000 + b'\"}'", None, "cannot be read"),
        ("b'{\"value\": \"' + b'[' * 150 + b']' * 150 + b'\"}'", None, "nested too deep"),
        ("b'{\"value\": \"[' + b'0,' * 400_000 + b'0]\"}'", None, "too many parts"),
        ('b\'{"value": "NaN"}\'', None, "JSON has no NaN"),
        ("b'{\"value\": \"' + b'9' * 50_000 + b'\"}'", None, "cannot be read"),
        ("b'{\"value\": 5}'", None, "Expected"),
        ("b'[' * 1_000_000", None, "cannot be read"),
        ('b\'{"error": {"kind": []}}\'', None, "cannot be read"),
        ("b'\\xff\\n' * 1000", None, "cannot be read"),
        ("b'{}\\n' * 1000", None, "too many lines"),
        ("b''", None, "it has no end"),
        ("b'x' * 33_000_000", None, ""),
    ],
)
async def test_an_answer_that_the_code_has_forged_is_data_at_the_most(
    answer: str, value: object, said: str
) -> None:
    result = await ran(FORGE.replace("ANSWER", answer))
    if result.error is not None and result.error.kind == "PermissionError":
        pytest.skip("here the code cannot reach what watches it")
    assert not result.ok
    assert said in result.note
    assert result.value == value
    assert result.printed.startswith("printed")


def lines(*told: dict[str, object]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in told)


def test_pictures_of_a_forged_answer_are_looked_at() -> None:
    html, good = base64.b64encode(b"<html>").decode(), base64.b64encode(PNG).decode()
    told: Iterator[dict[str, object]] = ({"picture": good} for _ in range(20))
    answer = answers.read(lines({"picture": html}, {"picture": "no base64"}))
    assert (answer.pictures, answer.left_out) == ([], 1)
    assert "base64" in answer.problem.lower()
    answer = answers.read(lines(*told, {"left_out": -5}, {"end": {}}))
    assert len(answer.pictures) == answers.MOST_PICTURES
    assert answer.left_out == 0


@given(
    st.binary()
    | st.lists(
        st.sampled_from([b'{"value": "', b"[", b'"}', b"\n", b"{}", b'"', b"\\", b"\xff", b"1e999"])
    ).map(b"".join)
)
def test_no_bytes_are_too_odd_to_be_read(data: bytes) -> None:
    answer = answers.read(data)
    assert answer.is_whole is False
    assert answer.problem
