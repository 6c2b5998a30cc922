"""What an agent file may be written in, and what no file may do to whoever reads it."""

from __future__ import annotations

import builtins
import contextlib
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.agent_files import read_agent
from gnomon.agent_files._yaml import DEEPEST, MOST_VALUES, parse_yaml
from gnomon.errors import GnomonError, InvalidInput, MissingExtra


def parsed(text: str) -> object:
    return parse_yaml("a.yaml", textwrap.dedent(text))


def refused(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        parsed(text)
    return str(caught.value)


def read_as(tmp_path: Path, name: str, content: str | bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GnomonError) as caught:
        read_agent(path, env={})
    return str(caught.value)


# --- YAML -------------------------------------------------------------------------


def test_plain_words_mean_what_yaml_1_2_says() -> None:
    text = (
        "[1, -2, 1.5, 1e3, .5, true, False, null, ~, '', no, on, 2024-10-21, 1:30, 0x10, .inf, 'true', \"1\"]"
    )
    assert parsed(text) == [
        *(1, -2, 1.5, 1000.0, 0.5, True, False, None, None, ""),
        *("no", "on", "2024-10-21", "1:30", "0x10", ".inf", "true", "1"),
    ]


def test_an_empty_value_is_nothing_and_a_block_is_text() -> None:
    assert parsed("a:\nb: |\n  one\n  two\nc: !!str 5\nd: ! 5\n") == {
        "a": None,
        "b": "one\ntwo\n",
        "c": "5",
        "d": "5",
    }


def test_what_is_named_once_can_be_repeated_and_merged() -> None:
    text = """\
    base: &base {model: demo, tools: &tools [now]}
    more: &more {model: other, title: x}
    one: {<<: *base, model: mine}
    two: {<<: [*base, *more]}
    three: *tools
    """
    found = parsed(text)
    assert isinstance(found, dict)
    assert found["one"] == {"model": "mine", "tools": ["now"]}
    assert found["two"] == {"model": "demo", "tools": ["now"], "title": "x"}
    assert found["three"] == ["now"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "a.yaml, line 3: the key `a` stands twice in one table"),
        ("a: {b: 1, 'b': 2}", "the key `b` stands twice"),
        ("a: 1\n1: b\n", "a.yaml, line 2: a key that is not text (write it in quotes)"),
        ("[a]: b", "a key that is not text"),
        ("a: 1\n---\nb: 2\n", "a.yaml, line 2: a second document begins here"),
        ("a: &x [*x]", "`*x` repeats what is not there yet"),
        ("a: *gone", "`*gone` repeats what is not there yet"),
        ("a: 1\n<<: 3", "`<<` takes a table"),
        (
            "a: !!python/object/apply:os.system ['true']",
            "the tag `!!python/object/apply:os.system` is not read",
        ),
        ("a: !!python/name:os.system x", "is not read"),
        ("a: !own {b: 1}", "the tag `!own` is not read"),
        ("a: !!binary aGk=", "the tag `!!binary` is not read"),
        ("a: !!set {b}", "the tag `!!set` is not read"),
        ("a: !!map [1]", "the tag `!!map` is not read"),
        ("a:\n\t- b", "a.yaml, line 2: not valid YAML: found character"),
        ("a: [1, 2", "a.yaml, line 1: not valid YAML"),
        ("a: b: c", "a.yaml, line 1: not valid YAML: mapping values are not allowed here"),
        ("a: \x07", "holds a character that YAML does not allow"),
        ('a: "\\UFFFFFFFF"', "YAML"),
    ],
)
def test_yaml_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    assert said in refused(text)


def test_a_nest_without_end_is_refused_where_it_begins() -> None:
    parsed("[" * DEEPEST + "]" * DEEPEST)
    started = time.monotonic()
    assert f"nested more than {DEEPEST} deep" in refused("[" * 200_000)
    assert f"nested more than {DEEPEST} deep" in refused("- " * (DEEPEST + 1) + "a")
    assert time.monotonic() - started < 10


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_a_file_that_repeats_itself_without_end_is_refused() -> None:
    assert "more than 20000 values, counting what `*name` repeats" in refused(bomb(20))
    parsed(bomb(3))


def test_what_is_repeated_counts_as_often_as_it_stands_there() -> None:
    """A list of 100 values and itself is 101, the text of the key is one: the sum is met exactly."""
    one = f"a: &a [{', '.join('x' * 99)}]\n"  # 2 keys and values besides, 99 in it
    repeats = (MOST_VALUES - 103) // 100
    within = one + f"b: [{', '.join(['*a'] * repeats)}]"
    parsed(within)
    assert "more than" in refused(one + f"b: [{', '.join(['*a'] * (repeats + 1))}]")


def test_a_file_of_very_many_values_is_refused(tmp_path: Path) -> None:
    assert "more than 20000 values" in refused("\n".join(f"k{n}: 1" for n in range(MOST_VALUES)))
    many = "[" + ",".join("1" * MOST_VALUES) + "]"
    assert "of more than 20000 values" in read_as(tmp_path, "a.json", f'{{"a": {many}}}')
    assert "of more than 20000 values" in read_as(tmp_path, "a.toml", f"a = {many}")


def test_without_pyyaml_the_install_line_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: demo")
    real = builtins.__import__

    def without(name: str, *rest: object, **options: object) -> object:
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")
        return real(name, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'gnomon\[yaml\]'"):
        read_agent(path, env={})


def test_pyyaml_is_loaded_for_yaml_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('model = "demo"')
    code = (
        "import sys, gnomon.agent_files as files; files.read_agent(sys.argv[1]); print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@given(st.text(alphabet="ab:-[]{}&*!|>#'\"\\ \n\t<?%@0.~", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(parse_yaml("a.yaml", text), dict | list | str | int | float | None)


# --- all three ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '{"model": "demo",\n "model": "demo"}', "the key `model` stands twice in one object"),
        ("a.json", '{"a": 1,\n}', "a.json, line 2, column 1: not valid JSON"),
        ("a.json", '{"model": NaN}', "`model` should be a model"),
        ("a.json", '{"a": ' + "1" * 5000 + "}", "a number in it is too long"),
        ("a.json", "[" * 100_000, "nested too deep"),
        ("a.json", '{"a": ' + "[" * 40 + "]" * 40 + "}", "a.json is nested more than 32 deep"),
        ("a.json", '{"model": "demo", "system": "\\ud800"}', "`system` should be text that can be sent"),
        ("a.json", "3", "should hold a table, found a whole number"),
        ("a.toml", 'model = "demo"\nmodel = "x"', "a.toml, line 2, column 12: not valid TOML"),
        ("a.toml", "a = [" + "[" * 40 + "]" * 41, "nested more than 32 deep"),
        ("a.yml", b"model: demo\nname: \xff\n", "a.yml, line 2: not UTF-8 text"),
        ("a.json", b'{"a":\n "\xff"}', "a.json, line 2: not UTF-8 text"),
        ("a.yaml", b"model: \0", "a NUL character, so this is not a text file"),
        ("a.yaml", "#" * (1024 * 1024 + 1), "is too large: more than 1048576 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    name: str, content: str | bytes, said: str, tmp_path: Path
) -> None:
    assert said in read_as(tmp_path, name, content)


def test_a_mark_at_the_beginning_is_no_part_of_the_text(tmp_path: Path) -> None:
    for name, text in (
        ("a.yaml", "model: demo"),
        ("a.toml", 'model = "demo"'),
        ("a.json", '{"model": "demo"}'),
    ):
        (tmp_path / name).write_text(text, "utf-8-sig")
        assert read_agent(tmp_path / name, env={}).model == "demo"


def test_a_folder_or_a_pipe_is_no_agent_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    os.mkfifo(tmp_path / "b.yaml")
    for name in ("a.yaml", "b.yaml"):
        with pytest.raises(InvalidInput, match="and a file was expected"):
            read_agent(tmp_path / name, env={})


def test_a_large_text_is_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: demo\nsystem: |\n" + "  words and words and words\n" * 35_000)
    started = time.monotonic()
    assert len(read_agent(path, env={}).instructions or "") > 800_000
    assert time.monotonic() - started < 20
