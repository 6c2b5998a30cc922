"""`grep`: what a model is shown of lines that fit, and of what was not searched."""

from __future__ import annotations

import asyncio
import json
import os
import re
import string
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gnomon.contracts.tool import ToolContext
from gnomon.errors import InvalidArguments, ToolDenied, ToolFailed
from gnomon.tools import _grepping
from gnomon.tools._line_search import serve
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")


async def grep(root: Path | Workspace, pattern: str, path: str = ".", **more: object) -> str:
    workspace = Workspace(root) if isinstance(root, Path) else root
    arguments = msgspec.json.encode({"pattern": pattern, "path": path, **more}).decode()
    return (await workspace.tool("grep").execute(arguments, ToolContext(call_id="call_1"))).text


def planted(root: Path, **files: str | bytes) -> Path:
    """Files by their names, where __ is a slash and _ a dot."""
    for name, content in files.items():
        place = root / name.replace("__", "/").replace("_", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


# --- lines ------------------------------------------------------------------------


async def test_lines_come_below_the_path_of_their_file(tmp_path: Path) -> None:
    planted(tmp_path, b_py="two\nthree\n", a__x_py="one two\n\nno\ntwo", c_txt="nothing")
    assert await grep(tmp_path, "two|three") == "a/x.py\n1: one two\n4: two\n\nb.py\n1: two\n2: three"
    assert await grep(tmp_path, "^two$") == "a/x.py\n4: two\n\nb.py\n1: two"
    assert await grep(tmp_path, "TWO$", ignore_case=True, path="b.py") == "b.py\n1: two"


async def test_a_pattern_may_be_plain_text(tmp_path: Path) -> None:
    planted(tmp_path, a_py="f(x)\nfx\nF(X)\na.b")
    assert await grep(tmp_path, "f(x)", literal=True) == "a.py\n1: f(x)"
    assert await grep(tmp_path, "f(x)", literal=True, ignore_case=True) == "a.py\n1: f(x)\n3: F(X)"
    assert await grep(tmp_path, "f(x)") == "a.py\n2: fx"
    assert await grep(tmp_path, "(", literal=True) == "a.py\n1: f(x)\n3: F(X)"


async def test_lines_around_are_shown_once_and_gaps_are_marked(tmp_path: Path) -> None:
    planted(tmp_path, a_txt="".join(f"{'hit' if n in (2, 4, 9) else ''}\n" for n in range(1, 13)))
    assert (await grep(tmp_path, "hit", context=1)).split("\n") == [
        "a.txt", "1-", "2: hit", "3-", "4: hit", "5-", "--", "8-", "9: hit", "10-",
    ]  # fmt: skip
    assert (await grep(tmp_path, "hit", context=99)).count("\n") == 12
    with pytest.raises(InvalidArguments, match="context: it is at least 0"):
        await grep(tmp_path, "hit", context=-1)


async def test_files_alone_come_with_how_many_lines_fit(tmp_path: Path) -> None:
    planted(tmp_path, a_txt="x\nx x\ny", b_txt="y", c_txt="x\n" * 1234)
    assert await grep(tmp_path, "x", files_only=True) == "a.txt: 2\nc.txt: 1,234"


async def test_a_glob_says_which_files(tmp_path: Path) -> None:
    planted(tmp_path, a_py="x", src__b_py="x", src__deep__c_py="x", src__d_js="x", test__e_py="x")
    for glob, names in {
        "*.py": ["a.py", "src/b.py", "src/deep/c.py", "test/e.py"],
        "src/*.py": ["src/b.py"],
        "src/**/*.{py,js}": ["src/b.py", "src/d.js", "src/deep/c.py"],
        "src/": ["src/b.py", "src/d.js", "src/deep/c.py"],
        f"{tmp_path}/test/*": ["test/e.py"],
        "none.py": [],
    }.items():
        text = await grep(tmp_path, "x", glob=glob, files_only=True)
        assert re.findall(r"^(.*): 1$", text, re.M) == names
    assert await grep(tmp_path, "x", glob="*.py", path="src/deep", files_only=True) == "src/deep/c.py: 1"
    with pytest.raises(InvalidArguments, match="glob: '!a' cannot be used: it says what to search"):
        await grep(tmp_path, "x", glob="!a")
    with pytest.raises(InvalidArguments, match=r"glob: .* it has '\.\.' in it"):
        await grep(tmp_path, "x", glob="../*")


async def test_a_long_line_is_cut_around_what_was_found(tmp_path: Path) -> None:
    planted(
        tmp_path, a_txt="a" * 5000 + "needle" + "b" * 5000 + "\n" + "needle" + "c" * 500 + "\n" + "d" * 400
    )
    one, two, three = (await grep(tmp_path, "needle", context=1)).split("\n")[1:]
    assert re.fullmatch(r"1: …a{75}needleb{219}…", one)
    assert re.fullmatch(r"2: needlec{294}…", two)
    assert re.fullmatch(r"3- d{300}…", three)


@pytest.mark.parametrize(
    ("data", "pattern", "shown"),
    [
        ("é ü 漢\n".encode(), "ü", "1: é ü 漢"),
        ("é ü 漢\n".encode(), r"\w \w \w$", "1: é ü 漢"),
        (b"\xef\xbb\xbfmarked\n", "^marked$", "1: marked"),
        ("a\né 漢\n".encode("utf-16"), "^é", "2: é 漢"),
        (b"\xfe\xff" + "a\né".encode("utf-16-be"), "é", "2: é"),
        ("naïve – “so”\n".encode("cp1252"), "“", "1: naïve – “so”"),
        (b"caf\xe9 \x81\n", "é", "1: café \x81"),
        (b"one\r\ntwo\r\nthree\rfour\r", r"(one|four|\r)$", "1: one\n3: three\rfour"),
        (b"\n\n\n", "^$", "1:\n2:\n3:"),
        (b"x  \n", r"\s+$", "1: x  "),
    ],
)
async def test_text_is_searched_in_its_charset(data: bytes, pattern: str, shown: str, tmp_path: Path) -> None:
    assert await grep(planted(tmp_path, a_txt=data), pattern) == f"a.txt\n{shown}"


async def test_a_name_cannot_look_like_a_line(tmp_path: Path) -> None:
    (tmp_path / "a\n1: x").write_text("x")
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    assert await grep(tmp_path, "x") == "a\\n1: x\n1: x\n\ncaf\\udce9\n1: x"
    assert await grep(tmp_path, "x", files_only=True) == "a\\n1: x: 1\ncaf\\udce9: 1"


# --- nothing ------------------------------------------------------------------------


async def test_nothing_found_says_how_much_was_searched_and_what_was_perhaps_meant(tmp_path: Path) -> None:
    planted(tmp_path, a_txt="foo", b__c_txt="bar")
    assert await grep(tmp_path, "x") == "Nothing found in '.': 2 files searched."
    assert await grep(tmp_path, "x", path="b") == "Nothing found in 'b': 1 file searched."
    assert await grep(tmp_path, "x", glob="*.py") == "Nothing found in '.': 0 files searched."
    assert (await grep(tmp_path, r"foo\|bar")).endswith("is taken as it stands: write it without.")
    assert (await grep(tmp_path, r"foo\nbar")).endswith("without the line break at its end.")
    assert (await grep(tmp_path, r"foo\|bar", literal=True)).endswith("2 files searched.")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "it is no regular expression: missing ), unterminated subpattern at character 1"),
        ("a**", "it is no regular expression: multiple repeat at character 3"),
        ("x(?<y>z)", "it is no regular expression: unknown extension ?<y at character 3"),
        ("(" * 4000 + ")" * 4000, "it is no regular expression: it is too large"),
        ("", "it is empty"),
        ("a\nb", "there is a line break in it, and each line is compared by itself"),
        ("[[:space:]]x", r"[:space:] at character 2 is not known here: write \s, \d, \w or [A-Za-z]"),
        ("[^a[:^alpha:]]", "[:^alpha:] at character 4 is not known here"),
        ("a" * 10_001, "it is longer than 10,000 characters"),
    ],
)
async def test_an_expression_that_is_none_is_told_with_the_place(
    pattern: str, why: str, tmp_path: Path
) -> None:
    planted(tmp_path, a_txt="x")
    with pytest.raises(InvalidArguments, match=re.escape(f"pattern: {why}")):
        await grep(tmp_path, pattern)


async def test_what_is_no_expression_may_be_plain_text(tmp_path: Path) -> None:
    planted(tmp_path, a_txt="(a\n[[:space:]]")
    assert await grep(tmp_path, "(a", literal=True) == "a.txt\n1: (a"
    assert await grep(tmp_path, "[:space:]", literal=True) == "a.txt\n2: [[:space:]]"


async def test_a_path_that_is_not_there_is_told_with_what_is_near(tmp_path: Path) -> None:
    planted(tmp_path, src__a_txt="x")
    with pytest.raises(ToolFailed, match=r"there is no 'scr'. There is 'src'$"):
        await grep(tmp_path, "x", path="scr")


# --- what is not searched -------------------------------------------------------------


async def test_a_secret_is_not_searched_and_is_told(tmp_path: Path) -> None:
    planted(
        tmp_path, _env="KEY=hunter2", deep__server_pem="hunter2", _ssh__key="hunter2", a_txt="hunter2 here"
    )
    (tmp_path / "link.txt").symlink_to(".env")
    text = await grep(tmp_path, "hunter2")
    assert text.split("\n") == [
        "a.txt",
        "1: hunter2 here",
        "[3 files not searched, secret by name: .env, .ssh/key and deep/server.pem]",
    ]
    for path in (".env", "link.txt", "deep/server.pem"):
        with pytest.raises(ToolDenied, match="by its name it holds secrets"):
            await grep(tmp_path, "hunter2", path=path)
    assert "deep/server.pem: 1" in await grep(Workspace(tmp_path, secrets=["**/*.pem"]), "h", files_only=True)


async def test_no_link_is_followed(tmp_path: Path) -> None:
    root = planted(tmp_path / "root", src__a_txt="x")
    planted(tmp_path, outside__b_txt="x outside")
    for name, target in {"out": "../outside", "b.txt": "../outside/b.txt", "in": "src", "up": "."}.items():
        (root / name).symlink_to(target)
    assert await grep(root, "x") == "src/a.txt\n1: x"
    assert await grep(root, "x", path="in") == "src/a.txt\n1: x"
    with pytest.raises(InvalidArguments, match="leads out"):
        await grep(root, "x", path="out")


async def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    planted(tmp_path, a_png=b"\x89PNG\0x", b_txt="x", c_bin=bytes(range(1, 255)) * 9)
    assert await grep(tmp_path, "x") == "b.txt\n1: x\n[2 files not searched, no text: a.png and c.bin]"
    assert (await grep(tmp_path, "x", path="a.png")).startswith("Nothing found in 'a.png': 0 files searched.")


async def test_what_is_no_file_is_passed_by(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with suppress(PermissionError):
        os.mknod(tmp_path / "device", 0o020666, os.makedev(1, 5))
    planted(tmp_path, a_txt="x")
    assert await grep(tmp_path, "x") == "a.txt\n1: x"
    with pytest.raises(ToolFailed, match="it is not a regular file"):
        await grep(tmp_path, "x", path="pipe")


async def test_what_is_ignored_is_not_searched_unless_it_is_named(tmp_path: Path) -> None:
    planted(tmp_path, a_js="x", node_modules="")
    (tmp_path / "node.modules").unlink()
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "b.js").write_text("x")
    assert await grep(tmp_path, "x", files_only=True) == (
        "a.js: 1\n[left out as ignored: node_modules/; ignored=true looks there too]"
    )
    for more in ({"ignored": True}, {"glob": "{.,node_modules}/*.js"}):
        assert await grep(tmp_path, "x", files_only=True, **more) == "a.js: 1\nnode_modules/b.js: 1"
    assert await grep(tmp_path, "x", path="node_modules") == "node_modules/b.js\n1: x"


async def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(planted(tmp_path, shut_txt="x", gone_txt="x", open_txt="x"))
    beneath = workspace.files("grep")
    really = beneath.open

    def failing(path: str, flags: int, mode: int = 0o644, *, links: bool = True) -> int:
        if path in ("shut.txt", "gone.txt"):
            raise PermissionError(13, "no") if path == "shut.txt" else FileNotFoundError(2, "gone")
        return really(path, flags, mode, links=links)

    monkeypatch.setattr(beneath, "open", failing)
    assert await grep(workspace, "x") == ("open.txt\n1: x\n[1 file not searched, cannot be opened: shut.txt]")


async def test_an_error_while_reading_is_told_and_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, a_txt="x\n" * 100, b_txt="x")
    monkeypatch.setattr(_grepping, "_PIECE", 64)
    really = os.read
    broken = os.stat(tmp_path / "a.txt").st_ino

    def failing(file: int, size: int) -> bytes:
        if os.fstat(file).st_ino == broken and os.lseek(file, 0, os.SEEK_CUR) > 100:
            raise OSError(5, "Input/output error")
        return really(file, size)

    monkeypatch.setattr(os, "read", failing)
    assert await grep(tmp_path, "x", files_only=True) == (
        "a.txt: 64\nb.txt: 1\n[1 file not searched, cannot be opened: a.txt]"
    )


# --- much of it -----------------------------------------------------------------------


async def test_no_more_lines_are_shown_than_can_be_read(tmp_path: Path) -> None:
    planted(tmp_path, a_txt="x\n" * 150, b_txt="x\n" * 150, c_txt="x\n")
    lines = (await grep(tmp_path, "x")).split("\n")
    assert sum(line.endswith(": x") for line in lines) == 200
    assert lines[-1] == (
        "[there may be more: a longer pattern, a path or a glob leads to it, files_only=true counts it]"
    )
    assert await grep(tmp_path, "x", files_only=True) == "a.txt: 150\nb.txt: 150\nc.txt: 1"


async def test_no_more_is_shown_than_can_be_read_with_what_stands_around(tmp_path: Path) -> None:
    planted(tmp_path, a_txt=("y" * 250 + "\n") * 10_000 + "x" * 250)
    text = await grep(tmp_path, "y" * 200, context=10)
    assert 39_000 < len(text) < 42_000
    assert "[there may be more" in text


async def test_no_more_files_are_told_than_can_be_read(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number:03}.txt").write_text("x\n" * 3)
    lines = (await grep(tmp_path, "x", files_only=True)).split("\n")
    assert len(lines) == 501
    assert lines[499:] == [
        "499.txt: 3",
        "[there may be more: a longer pattern, a path or a glob leads to it]",
    ]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("MOST_FILES", 20, "ended after 20 files"), ("MOST_BYTES", 40 << 10, "ended after 0 MB")],
)
async def test_files_and_bytes_are_bounded(
    name: str, value: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_text("x" * 1999 + "\n")
    monkeypatch.setattr(_grepping, name, value)
    text = await grep(tmp_path, "x", files_only=True)
    assert f"[{told}: name a smaller folder in path, or fewer files with glob]" in text
    assert 15 < text.count(".txt: 1") < 25


async def test_a_line_without_an_end_is_searched_in_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_grepping, "_PIECE", 100)
    monkeypatch.setattr(_grepping, "LONGEST_LINE", 250)
    planted(tmp_path, a_txt="a" * 200 + "needle" + "b" * 900 + "needle\nneedle\n" + "c" * 249 + "needle")
    text = await grep(tmp_path, "needle")
    assert re.findall(r"^\d+:", text, re.M) == ["1:", "2:"]
    assert text.endswith("[1 file searched in part, a line is longer than 250 characters: a.txt]")
    assert "Nothing found" in await grep(tmp_path, "bneedle|cneedle")


async def test_a_file_of_many_pieces_is_searched_to_its_end(tmp_path: Path) -> None:
    lines = [f"{n} {'漢' * (n * 31 % 90)} end{n}" for n in range(40_000)]
    planted(tmp_path, a_txt="\r\n".join(lines))
    text = await grep(tmp_path, r"^(7|19999|39999) .*end\d+$")
    assert [line.split(" ")[0] for line in text.split("\n")[1:]] == ["8:", "20000:", "40000:"]


async def test_a_folder_that_changes_meanwhile_breaks_nothing(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02}.txt").write_text("x\n")
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            (tmp_path / "new.txt").write_text("x\n" * 1000)
            (tmp_path / "new.txt").unlink(missing_ok=True)
            (tmp_path / "new.txt").mkdir()
            (tmp_path / "new.txt").rmdir()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(15):
            found = await grep(tmp_path, "x", files_only=True, glob="[0-9]*.txt")
            assert found.split("\n") == [f"{number:02}.txt: 1" for number in range(40)]
            await grep(tmp_path, "x", files_only=True)
    finally:
        stop.set()
        changing.join()


# --- the same as the plainest way to do it -----------------------------------------------

PATTERNS = [
    "a", "ab", "^a", "b$", "a|b", "[^a]", r"\w\W", r"\s", r"\b", "^$", "a*", "(a)(b)?", r"(?<!\s)b",
    r"(?!b).b", "é", r"a\Z", "(?i)A", r"\Aa", "a b", ".", r"[\r]", "\u2028",
]  # fmt: skip
TEXTS = st.text(alphabet="ab é\n\n\r\t\u2028\x0c", max_size=60)


def plainly_searched(text: str, pattern: str, *, ignore_case: bool, context: int) -> dict[int, bool]:
    """The numbers of the lines that are shown, and whether they fit."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = lines[:-1] if text.endswith("\n") or not text else lines
    hits = [at for at, line in enumerate(lines) if re.search(pattern, line, re.I if ignore_case else 0)]
    near = {n for hit in hits for n in range(hit - context, hit + context + 1) if 0 <= n < len(lines)}
    return {n + 1: n in hits for n in sorted(near)}


def in_pieces(text: str, sizes: Iterable[int]) -> list[bytes]:
    data, pieces = text.encode(), list[bytes]()
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(
    TEXTS,
    st.sampled_from(PATTERNS),
    st.booleans(),
    st.integers(0, 3),
    st.lists(st.integers(0, 9), max_size=9),
)
@example("b\nb\na\nb\nb", "a", False, 2, [3])
def test_lines_are_found_as_by_asking_each_wherever_pieces_end(
    text: str, pattern: str, ignore_case: bool, context: int, sizes: list[int]
) -> None:
    order = {"pattern": pattern, "literal": False, "ignore_case": ignore_case, "context": context}
    order |= {"counts_only": False, "most": 10**6, "width": 100, "longest": 10**6}
    pieces = in_pieces(text, sizes)
    given = [json.dumps(order).encode(), *(part for n, piece in enumerate(pieces) for part in (
        f"utf-8 {len(piece)} {'last' if n == len(pieces) - 1 else 'part'}".encode(), piece
    ))]  # fmt: skip
    answers: list[dict[str, object]] = []

    def next_of(_: int = 0) -> bytes:
        return given.pop(0) if given else b""

    serve(next_of, next_of, lambda answer: answers.append(answer))  # type: ignore[arg-type]
    told = [line for answer in answers for line in answer["lines"]]  # type: ignore[attr-defined]
    expected = plainly_searched(text, pattern, ignore_case=ignore_case, context=context)
    assert {n: is_hit for n, is_hit, _ in told} == expected
    assert len(told) == len(expected)
    lines = text.split("\n")
    assert all(shown == lines[n - 1].removesuffix("\r") for n, _, shown in told)
    assert answers[-1]["found"] == sum(expected.values())
    assert len(answers) == len(pieces)


FOLDERS = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "a-b", ".c"]), min_size=1, max_size=3).map("/".join),
    st.text(alphabet=string.ascii_lowercase[:3] + "\n", max_size=20),
    max_size=6,
)


@settings(max_examples=25, deadline=None)
@given(FOLDERS, st.sampled_from(["a", "b+c", "^a", "[^b]$"]))
def test_a_folder_is_searched_as_by_reading_every_file(files: dict[str, str], pattern: str) -> None:
    with TemporaryDirectory() as folder:
        for path, text in files.items():
            with suppress(OSError):  # a file where a folder would have to be
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
        blocks: list[str] = []
        searched = sorted(
            str(place.relative_to(folder)) for place in Path(folder).rglob("*") if place.is_file()
        )
        for path in searched:
            text = (Path(folder) / path).read_text()
            found = plainly_searched(text, pattern, ignore_case=False, context=0)
            if found:
                blocks.append("\n".join([path, *(f"{n}: {text.split(chr(10))[n - 1]}" for n in found)]))
        counted = "1 file" if len(searched) == 1 else f"{len(searched)} files"
        expected = "\n\n".join(blocks) or f"Nothing found in '.': {counted} searched."
        assert asyncio.run(grep(Path(folder), pattern)) == expected
