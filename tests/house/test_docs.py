"""What the documents show is true: code runs, commands print what is shown, links lead somewhere.

A block of Python or of commands is left out only by a comment right before it, with the reason:
`<!-- not run: it needs a key -->`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import generate
import msgspec
import pytest
from pages import PYTHON, SHELL, Block, Shown, blocks, commands, complaint, dead_links, missing, to_run

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("examples/*.md")})
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

PATIENCE_S = 60


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- reading Markdown -------------------------------------------------------


PLANTED = """\
Words.

```python
a = 1
```

<!-- not run: it needs a key -->
```python
b = 2
```

<!-- not run: too slow -->

```console
$ gnomon never
```

<!-- not run -->
```py
c = 3
```

- in a list

  ```python
  if a:
      d = 4
  ```

````markdown
```python
e = 5
```
````
"""


def test_the_blocks_of_a_page_are_found_with_their_place() -> None:
    found = list(blocks(PLANTED))
    assert [block.language for block in found] == ["python", "python", "console", "py", "python", "markdown"]
    assert [block.line for block in found] == [4, 9, 15, 20, 26, 31]
    assert found[4].text == "if a:\n    d = 4"


def test_a_block_is_left_out_only_with_a_reason() -> None:
    assert [block.excuse for block in blocks(PLANTED)] == ["", "it needs a key", "too slow", "", "", ""]
    assert [block.text for block in to_run(PLANTED, PYTHON)] == ["a = 1", "c = 3", "if a:\n    d = 4"]


# --- a place to run things --------------------------------------------------


def clean_env(home: Path) -> dict[str, str]:
    """A machine without keys and settings, on which Gnomon is installed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}


def run(command: list[str], home: Path, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=home,
        env=clean_env(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **({"input": ""} | options),
    )


# What a child does before anything else: it may not leave the machine.
_OFFLINE = """
import ipaddress, socket

def guarded(connect):
    def local_only(self, address):
        if isinstance(address, tuple) and not ipaddress.ip_address(address[0]).is_loopback:
            raise PermissionError(f"the documents run offline, and this asked for {address}")
        return connect(self, address)
    return local_only

def no_names(host, *rest, **options):
    if host not in (None, "localhost", "127.0.0.1", "::1"):
        raise PermissionError(f"the documents run offline, and this asked for {host}")
    return look_up(host, *rest, **options)

socket.socket.connect = guarded(socket.socket.connect)
socket.socket.connect_ex = guarded(socket.socket.connect_ex)
look_up, socket.getaddrinfo = socket.getaddrinfo, no_names
"""

# One namespace and one event loop for all blocks of a page. Each is compiled under the name and the
# line of the page, so that a traceback points into it.
_RUN_BLOCKS = (
    _OFFLINE
    + """
import ast, asyncio, inspect, json, sys

path, *blocks = json.loads(sys.stdin.read())
space = sys.modules["__main__"].__dict__
with asyncio.Runner() as runner:
    for line, text in blocks:
        code = compile("\\n" * (line - 1) + text, path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(code, space))
        else:
            exec(code, space)
    print("ran", len(blocks), "blocks")
"""
)

_RUN_FILE = _OFFLINE + "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


def run_blocks(page: Path, found: list[Block], home: Path) -> subprocess.CompletedProcess[str]:
    told = msgspec.json.encode([str(page), *((block.line, block.text) for block in found)]).decode()
    return run([sys.executable, "-W", "error", "-c", _RUN_BLOCKS], home, input=told)


# --- Python -----------------------------------------------------------------


def with_blocks(languages: set[str]) -> list[Path]:
    return [page for page in PAGES if page.exists() and to_run(page.read_text("utf-8"), languages)]


@pytest.mark.parametrize("page", with_blocks(PYTHON), ids=named)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    found = to_run(page.read_text("utf-8"), PYTHON)
    done = run_blocks(page, found, tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith(f"ran {len(found)} blocks\n")


def test_the_readme_shows_code_that_runs() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(to_run(readme, PYTHON)) >= 2
    assert ROOT / "README.md" in with_blocks(PYTHON)


def _page(tmp_path: Path, *texts: str) -> tuple[Path, list[Block]]:
    page = tmp_path / "page.md"
    page.write_text("# Planted\n\n" + "\n".join(f"```python\n{text}\n```\n" for text in texts), "utf-8")
    return page, to_run(page.read_text("utf-8"), PYTHON)


def test_blocks_share_names_and_one_event_loop(tmp_path: Path) -> None:
    first = "import asyncio\nloop = asyncio.get_running_loop()\nawait asyncio.sleep(0)"
    page, found = _page(
        tmp_path, first, "n = 1", "assert asyncio.get_running_loop() is loop\nawait asyncio.sleep(n * 0)"
    )
    done = run_blocks(page, found, tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_block_may_start_a_loop_of_its_own(tmp_path: Path) -> None:
    page, found = _page(
        tmp_path, "import asyncio\nasync def main(): ...\nif __name__ == '__main__':\n    asyncio.run(main())"
    )
    assert run_blocks(page, found, tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("n = 1\nassert n == 2", "page.md"),
        ("import warnings\nwarnings.warn('old')", "UserWarning: old"),
        ("from gnomon import Agnet", "Agnet"),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)", "run offline"),
        ("import socket\nsocket.create_connection(('example.org', 80), timeout=1)", "run offline"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_block_that_is_wrong_is_caught(text: str, complaint: str, tmp_path: Path) -> None:
    page, found = _page(tmp_path, "a = 1", text)
    done = run_blocks(page, found, tmp_path)
    assert done.returncode != 0
    assert complaint in done.stdout


def test_a_traceback_points_into_the_page(tmp_path: Path) -> None:
    page, found = _page(tmp_path, "a = 1", "b = 2\nassert a == b")
    assert f'page.md", line {found[1].line + 1}' in run_blocks(page, found, tmp_path).stdout


def test_a_block_sees_nothing_of_who_runs_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_MODEL", "other:model")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    keys = "[name for name in os.environ if name.startswith('GNOMON_') or name.endswith('_KEY')]"
    home = f"pathlib.Path.home() == pathlib.Path.cwd() == pathlib.Path({str(tmp_path)!r})"
    page, found = _page(tmp_path, f"import os, pathlib\nassert not {keys}", f"assert {home}")
    done = run_blocks(page, found, tmp_path)
    assert done.returncode == 0, done.stdout


# --- commands ---------------------------------------------------------------


@pytest.mark.parametrize("page", with_blocks(SHELL), ids=named)
def test_the_commands_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    for block in to_run(page.read_text("utf-8"), SHELL):
        for shown in commands(block.text):
            # For a reader who has installed no local model and runs no server.
            command = f"export GNOMON_MODEL=demo\n{shown.command}"
            done = run(["bash", "-o", "pipefail", "-c", command], tmp_path)
            wrong = complaint(shown, done.returncode, done.stdout)
            assert wrong is None, f"$ {shown.command}\n{done.stdout}\n{wrong}"


def test_commands_are_told_from_their_output() -> None:
    text = '$ cd there\n$ gnomon "a" \\\n  --quiet\nan answer\n...\n$ echo b | gnomon\n$ make run\n'
    assert commands(text) == [
        Shown('gnomon "a"    --quiet', ["an answer", "..."]),
        Shown("echo b | gnomon", []),
    ]
    assert commands("pip install gnomon\ngnomon doctor\n") == [Shown("gnomon doctor", [])]
    assert commands("pip install gnomon\nmake test\n") == []


@pytest.mark.parametrize(
    ("expected", "absent"),
    [
        (["one", "three"], None),
        (["one", "...", "four"], None),
        (["o...e", "", "thr..."], None),
        (["...two...four"], None),
        (["three", "one"], "one"),
        (["on"], "on"),
        (["tw...x"], "tw...x"),
        (["five"], "five"),
    ],
)
def test_lines_are_looked_for_whole_and_in_order(expected: list[str], absent: str | None) -> None:
    assert missing("one\ntwo\nthree  \nfour\n", expected) == absent


def test_a_command_that_fails_or_says_something_else_is_caught() -> None:
    assert complaint(Shown("gnomon", []), 0, "hello\n") is None
    assert complaint(Shown("gnomon", []), 2, "hello\n") == "it ended with 2, and the page does not show why"
    assert complaint(Shown("gnomon", ["no such model"]), 2, "no such model\n") is None
    assert complaint(Shown("gnomon", ["bye"]), 0, "hello\n") == "it did not print 'bye'"
    assert (
        complaint(Shown("gnomon", ["..."]), 0, "Traceback (most recent call last):\n")
        == "it printed a traceback"
    )


# --- examples ---------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    done = run([sys.executable, "-W", "error", "-c", _RUN_FILE, str(example)], tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.strip(), "an example shows something"


def test_there_are_examples_of_a_screen_or_less() -> None:
    assert EXAMPLES
    assert [named(path) for path in EXAMPLES if len(path.read_text("utf-8").splitlines()) > 60] == []


def test_an_example_that_fails_is_caught(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import socket\nsocket.create_connection(('192.0.2.1', 9))\n", "utf-8")
    done = run([sys.executable, "-W", "error", "-c", _RUN_FILE, str(broken)], tmp_path)
    assert done.returncode != 0
    assert "run offline" in done.stdout


# --- links ------------------------------------------------------------------


@pytest.mark.parametrize("page", LINKING, ids=named)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert dead_links(page, ROOT) == []


LINKS = """\
# Planted

[a](docs/other.md) [b](docs/other.md#where-then) [c](https://example.org/x) [d](#planted) ![e](page.md)
[f](docs/gone.md) [`g`](docs/other.md#now) [h](#nowhere) [i](../outside.md)
`[j](gone.md)`

```md
[k](gone.md)
```
"""


def test_a_link_that_leads_nowhere_is_caught(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "other.md").write_text("# Where, `then`?\n", "utf-8")
    (root / "page.md").write_text(LINKS, "utf-8")
    (tmp_path / "outside.md").touch()
    dead = ["docs/gone.md", "docs/other.md#now", "#nowhere", "../outside.md"]
    assert dead_links(root / "page.md", root) == dead


# --- pages that are made from code ------------------------------------------


def test_the_pages_made_from_code_are_up_to_date() -> None:
    old = generate.stale(ROOT)
    assert not old, f"{', '.join(old)}: out of date, run `make docs`"


def test_a_page_that_differs_or_is_missing_is_caught(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for path, page in generate.PAGES.items():
        (tmp_path / path).write_text(page(), "utf-8")
    assert generate.stale(tmp_path) == []
    errors = tmp_path / "docs" / "errors.md"
    errors.write_text(errors.read_text("utf-8").replace("`stream_cut` | yes", "`stream_cut` | no"), "utf-8")
    (tmp_path / "docs" / "events.md").unlink()
    assert generate.stale(tmp_path) == ["docs/errors.md", "docs/events.md"]


def test_every_event_and_every_provider_has_its_place_on_a_page() -> None:
    from gnomon import registry
    from gnomon.types import events

    page = generate.events_page()
    structs = [name for name in events.__all__ if isinstance(getattr(events, name), type)]
    assert len(structs) > 20
    assert [name for name in structs if f"\n### {name}\n" not in page] == []
    listed = generate.providers_page()
    assert [name for name in registry.names("providers") if f"\n## {name}\n" not in listed] == []


def test_a_remark_in_the_tree_of_errors_is_read_without_its_facts() -> None:
    lines = ["Root    .code is a slug", "├── One   retryable, .retry_after"]
    lines += ["│   └── Two    retryable: it was cut", "└── Three"]
    assert generate.remarks("\n".join(lines)) == {"Root": "is a slug", "One": "", "Two": "it was cut"}
