"""`edit_file`: one place is found, exactly or loosely, and nothing else of the file is another afterwards."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gnomon import Agent
from gnomon.contracts.tool import ToolContext
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.tools import _edit_match as matching
from gnomon.tools._edit_match import find
from gnomon.tools._edit_near import nearest
from gnomon.tools._file_change import LARGEST, FileChange
from gnomon.tools._file_diff import Change, applied, difference
from gnomon.tools._file_text import text_of
from gnomon.tools.function import TouchingTool
from gnomon.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")


async def edit(root: Path, old: str, new: str, *, path: str = "a.txt", replace_all: bool = False) -> str:
    arguments = {"path": path, "old": old, "new": new, "replace_all": replace_all}
    tool = Workspace(root).tool("edit_file")
    done = await tool.execute(msgspec.json.encode(arguments).decode(), ToolContext(call_id="call_1"))
    return done.text


def everything(root: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


async def refused(root: Path, old: str, new: str, *, path: str = "a.txt", replace_all: bool = False) -> str:
    """What the model is told of an edit that comes to nothing; every file is as it was."""
    before = everything(root)
    with pytest.raises((ToolFailed, InvalidArguments)) as caught:
        await edit(root, old, new, path=path, replace_all=replace_all)
    assert everything(root) == before
    return str(caught.value)


def edited(text: str, old: str, new: str) -> str:
    """The text after an edit, and how loosely the place was found."""
    found = find(text, old, new)
    assert found is not None
    assert found.total == 1
    return applied(text, found.changes)


PYTHON = """\
def first():
    return 1


class Second:
    def first(self):
        if self.ready:
            return 1
        return 2
"""


# --- exactly ----------------------------------------------------------------------


async def test_a_place_is_replaced_and_the_difference_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(PYTHON)
    assert await edit(tmp_path, "        return 2", "        return 3\n        # never") == (
        "'a.txt' was changed at line 9.\n"
        "@@ -6,4 +6,5 @@\n"
        "     def first(self):\n         if self.ready:\n             return 1\n"
        "-        return 2\n+        return 3\n+        # never"
    )
    assert (tmp_path / "a.txt").read_text() == PYTHON.replace("return 2\n", "return 3\n        # never\n")


async def test_a_text_that_stands_in_several_places_is_refused_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(PYTHON)
    assert await refused(tmp_path, "return 1", "return 0") == (
        "old: it stands 2 times in 'a.txt': lines 2 and 8. "
        "Give more lines around the one you mean, or replace_all"
    )
    (tmp_path / "a.txt").write_text("x\n" * 2_000)
    said = await refused(tmp_path, "x", "y")
    assert "it stands 2,000 times in 'a.txt': lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more." in said


@pytest.mark.parametrize(("text", "old"), [("aaa", "aa"), ("ababa", "aba"), ("\n\n\n", "\n\n")])
async def test_places_that_overlap_are_several(text: str, old: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert "it stands 2 times" in await refused(tmp_path, old, "x")
    await edit(tmp_path, old, "x", replace_all=True)
    assert (tmp_path / "a.txt").read_text() == text.replace(old, "x")


async def test_every_place_is_replaced_where_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{'old' * (n % 30 == 5)} {n}\n" for n in range(90)))
    assert await edit(tmp_path, "old", "new", replace_all=True) == (
        "'a.txt' was changed in 3 places: lines 6, 36 and 66.\n"
        "@@ -3,7 +3,7 @@\n  2\n  3\n  4\n-old 5\n+new 5\n  6\n  7\n  8\n"
        "@@ -33,7 +33,7 @@\n  32\n  33\n  34\n-old 35\n+new 35\n  36\n  37\n  38\n"
        "@@ -63,7 +63,7 @@\n  62\n  63\n  64\n-old 65\n+new 65\n  66\n  67\n  68"
    )
    assert await edit(tmp_path, "new", "newer", replace_all=True)
    assert (tmp_path / "a.txt").read_text().count("newer") == 3


async def test_of_many_places_some_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n\n\n\n\n\n\n\n\n" * 400)
    said = await edit(tmp_path, "old", "new", replace_all=True)
    assert said.count("+new") == 50
    assert said.endswith("\n[and 350 more places]")
    assert (tmp_path / "a.txt").read_text().count("new") == 400


pieces = st.text(st.sampled_from("ab \n"), max_size=6)


@given(text=st.text(st.sampled_from("ab \n"), min_size=1, max_size=40), data=st.data(), new=pieces)
def test_an_exact_edit_is_what_replacing_text_is(text: str, data: st.DataObject, new: str) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    old = text[start : data.draw(st.integers(start + 1, len(text)))]
    assume(old != new)
    every = find(text, old, new, every=True)
    assert every is not None
    assert (every.total, every.how) == (text.count(old), "")
    assert applied(text, every.changes) == text.replace(old, new)
    one = find(text, old, new)
    assert one is not None
    places = sum(text.startswith(old, at) for at in range(len(text)))
    assert (one.total == 1) == (places == 1)
    if places == 1:
        assert applied(text, one.changes) == text.replace(old, new)


# --- loosely ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "old", "new", "after", "how"),
    [
        # line ends
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n", b"a\r\nx\r\ny\r\nc\r\n", "with other line ends"),
        (b"a\nb\nc\n", "a\r\nb\r\n", "x\r\ny\r\n", b"x\ny\nc\n", "with other line ends"),
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n", "with other line ends"),
        (b"a\r\nb\nc\r\n", "c", "c\nd", b"a\r\nb\nc\r\nd\r\n", ""),
        (b"a\r\nb\nc\r\n", "b", "b\nd", b"a\r\nb\nd\nc\r\n", ""),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc", ""),
        (b"a\r\nb\r\n", "a\nb", "a\r\nb\r\nc", b"a\r\nb\r\nc\r\n", "with other line ends"),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n", ""),
        (b"a\nb\n", "b", "b\r\nc", b"a\nb\r\nc\n", ""),
        (b"a\r\n\r\nb\r\n", "\n\nb", "\nb", b"a\r\nb\r\n", "with other line ends"),
        # blanks at the ends of lines
        (b"a  \nb\t\nc\n", "a\nb\n", "x\ny\n", b"x\ny\nc\n", "with other blanks at the ends of lines"),
        (b"a\nb\nc\n", "a \nb  ", "a \nx", b"a\nx\nc\n", "with other blanks at the ends of lines"),
        (b"a  \nb\nc \n", "a\nb\nc", "a\nx\nc", b"a  \nx\nc \n", "with other blanks at the ends of lines"),
        (b"a \r\nb\r\nc", "a\nb\n", "x\n", b"x\r\nc", "with other blanks at the ends of lines"),
        (b"a\nb", "a\nb\n", "a\nx\n", b"a\nx", "with other blanks at the ends of lines"),
        (b"a\nb", "b\n", "", b"a\n", "with other blanks at the ends of lines"),
        (b"a \nb\n", "a\nb", "a\nb\n\n", b"a \nb\n\n\n", "with other blanks at the ends of lines"),
        (b"a \nb\nc\n", "a\nb\n", "", b"c\n", "with other blanks at the ends of lines"),
        # indentation
        (
            b"if a:\n    if b:\n        c\n",
            "if b:\n    c\n",
            "if b:\n    c\n    d\n\nelse:\n    e\n",
            b"if a:\n    if b:\n        c\n        d\n\n    else:\n        e\n",
            "indented differently",
        ),
        (
            b"if b:\n\tc\nd\n",
            "\t\tif b:\n\t\t\tc\n",
            "\t\tif x:\n\t\t\ty\n",
            b"if x:\n\ty\nd\n",
            "indented differently",
        ),
        (
            b"  a\n\n  b\nc\n",
            "a\n   \nb",
            "a\n\nB",
            b"  a\n\n  B\nc\n",
            "indented differently",
        ),
        # letters
        (
            "say “hi” – it’s me\n".encode(),
            '"hi" - it\'s',
            '"bye" - it\'s',
            "say “bye” – it’s me\n".encode(),
            "with other quotes, dashes or blanks",
        ),
        (b"it's - a\n", "it’s — a", "it’s — b", b"it's - b\n", "with other quotes, dashes or blanks"),
        (
            "a\u00a0b\r\nc\r\n".encode(),
            "a b\nc",
            "a b\nd",
            "a\u00a0b\r\nd\r\n".encode(),
            "with other quotes, dashes or blanks",
        ),
        (
            "  “a”  \n  b\n".encode(),
            '"a"\nb',
            '"a"\nc',
            "  “a”  \n  c\n".encode(),
            "indented differently, with other quotes, dashes or blanks",
        ),
        # the numbers of read_file
        (
            b"a\nb\nc\n",
            "2\tb\n3\tc",
            "2\tb\n3\tx\n4\ty",
            b"a\nb\nx\ny\n",
            "without the line numbers that read_file shows",
        ),
        (b"a\nb\n", "2\tb", "", b"a\n\n", "without the line numbers that read_file shows"),
        (
            b"  a\n  b\n",
            "    1\ta\n    2\tb\n",
            "a\nc\n",
            b"  a\n  c\n",
            "without the line numbers that read_file shows, indented differently",
        ),
    ],
)
async def test_a_place_that_differs_in_one_way_is_found_and_that_is_told(
    text: bytes, old: str, new: str, after: bytes, how: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(text)
    said = await edit(tmp_path, old, new)
    assert (tmp_path / "a.txt").read_bytes() == after
    told = re.search(r"\n\[what is old was not there to the letter: it was found (.*)\]\n", said)
    assert (told[1] if told else "") == how


@pytest.mark.parametrize(
    ("text", "old", "lines"),
    [
        ("a \nb\na  \nb\n", "a\nb\n", "lines 1 and 3"),
        ("  a\nb\n    a\n", "a   ", "lines 1 and 3"),
        ("“x”\n‘y’\n”x“\n", '"x"', "lines 1 and 3"),
        ("  a\r\n  b\r\n\r\n a\r\n b\r\n", "a\nb", "lines 1 and 4"),
    ],
)
@pytest.mark.parametrize("replace_all", [False, True])
async def test_of_two_places_that_are_like_it_none_is_guessed(
    text: str, old: str, lines: str, replace_all: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode())
    said = await refused(tmp_path, old, "new", replace_all=replace_all)
    assert said.startswith("old: it is not in 'a.txt' to the letter, and ")
    assert f"it stands at {lines}. Give it exactly" in said


async def test_of_very_many_places_that_are_like_it_some_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a \n" * 200_000)
    said = await refused(tmp_path, "a\n", "b\n")
    assert "it stands at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more. Give it exactly" in said


async def test_a_text_over_line_ends_of_two_kinds_is_in_two_places_if_it_looks_so(tmp_path: Path) -> None:
    """A model is not shown which of them a line has."""
    (tmp_path / "a.txt").write_bytes(b"a\nb\n\r\na\r\nb\r\n")
    assert "it stands 2 times in 'a.txt': lines 1 and 4" in await refused(tmp_path, "a\nb", "x")
    await edit(tmp_path, "a\nb", "c\nb", replace_all=True)
    assert (tmp_path / "a.txt").read_bytes() == b"c\nb\n\r\nc\r\nb\r\n"
    await edit(tmp_path, "c\r\nb", "d")
    assert (tmp_path / "a.txt").read_bytes() == b"c\nb\n\r\nd\r\n"


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("    a\n  b\n", "a\nb\n"),  # not all lines are as much further in
        ("    a\n", "\ta  \n"),
        ("a b\n", "a  b"),  # blanks within a line mean something
        ("ab\n", "AB"),
        ("a\n\n\nb\n", "a\n\nb"),
        ("one\ntwo\n", "5\tone\n9\ttwo"),  # no copy of two lines that follow one another
        ("one\n", "1\t"),
        ("one\ntwo\n", "\n\n\n"),
    ],
)
async def test_what_differs_in_more_is_not_found(text: str, old: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert "'a.txt' does not have it" in await refused(tmp_path, old, "new")


async def test_what_cannot_be_moved_out_as_far_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("if a:\n    b\n")
    assert "does not have it" in await refused(tmp_path, "    if a:\n        b\n", "  if c:\n        b\n")


async def test_a_loose_match_that_changes_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("say “hi”  \n")
    said = await refused(tmp_path, "1\tsay “hi”  ", "say “hi”  ")
    assert "'a.txt' says that already, without the line numbers that read_file shows: line 1" in said


# --- nothing else changes ---------------------------------------------------------------

odd_lines = st.lists(
    st.sampled_from(
        [b"abc", b"\xff", "é“".encode(), b"\xe9", b"  ", b"\t", b"\x0c", b"\r", "\u2028".encode()]
    ),
    max_size=4,
).map(b"".join)
ends = st.sampled_from([b"\n", b"\r\n"])
odd_files = st.lists(st.tuples(odd_lines, ends).map(b"".join), max_size=6).map(b"".join)
marks = st.sampled_from([b"", b"\xef\xbb\xbf"])
LOOSENESS = {
    "exact": ("target one", "target"),
    "blanks": ("    target one \n    target two", "    x\n    target two"),
    "indented": ("target one\ntarget two", "x\ntarget two"),
    "letters": ("“quoted” one", "“quoted” x"),
    "numbers": ("7\t    target one\n8\t    target two", "    x\n    target two"),
}


@given(
    head=odd_files, tail=odd_files, last=odd_lines, end=ends, mark=marks, how=st.sampled_from([*LOOSENESS])
)
@example(head=b"\xff\r\n", tail=b"", last=b"\xe9", end=b"\r\n", mark=b"\xef\xbb\xbf", how="indented")
def test_every_byte_around_an_edit_stays(
    head: bytes, tail: bytes, last: bytes, end: bytes, mark: bytes, how: str
) -> None:
    """Whatever charset they are in, or none."""
    target = end.join([b'    "quoted" one', b"    target one", b"    target two", b""])
    data = mark + head + target + tail + last
    if text_of(data) is None:
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_bytes(data)
        tool = Workspace(folder).tool("edit_file")
        assert isinstance(tool, TouchingTool)
        result = tool("a.txt", *LOOSENESS[how], ctx=ToolContext(call_id="call_1"))
        after = path.read_bytes()
    result.text.encode()
    assert after.startswith(mark + head)
    assert after.endswith(tail + last)
    middle = after[len(mark + head) : len(after) - len(tail + last)]
    wanted = {
        "exact": target.replace(b"target one", b"target"),
        "letters": target.replace(b'"quoted" one', b'"quoted" x'),
    }
    assert middle == wanted.get(how, target.replace(b"target one", b"x"))


blocks = st.lists(st.sampled_from(["if a:", "    b()", "", "  # c", "        d = 1"]), min_size=1, max_size=5)


@given(before=blocks, block=blocks, new=blocks, depth=st.integers(0, 3), taken=st.integers(-3, 3))
def test_a_block_is_replaced_at_the_depth_that_it_has(
    before: list[str], block: list[str], new: list[str], depth: int, taken: int
) -> None:
    """However far in or out the model has moved it."""

    def at(depth: int, lines: list[str]) -> str:
        return "".join(f"{'    ' * depth * bool(line)}{line}\n" for line in lines)

    block = ["start = 0", *block, "end = 0"]
    new = ["start = 1", *new, "end = 1"]
    head, tail = at(1, before), at(0, before)
    assume(depth + taken >= 0)
    text = head + at(depth, block) + tail
    assert edited(text, at(depth + taken, block), at(depth + taken, new)) == head + at(depth, new) + tail


# --- the difference ---------------------------------------------------------------------


def patched(before: str, diff: str) -> str:
    """The text with a diff put to it as programs do it: what it says of lines and numbers has to hold."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", before)
    after: list[str] = []
    at = 0
    hunks = re.split(r"^(@@ .*)\n", diff + "\n", flags=re.MULTILINE)[1:]
    for head, body in zip(hunks[::2], hunks[1::2], strict=True):
        start, count, new_start, new_count = _numbers(head)
        first = start - 1 if count else start
        after += lines[at:first]
        at = first
        assert len(after) == (new_start - 1 if new_count else new_start)
        old, new = [*_side(body, " -")], [*_side(body, " +")]
        assert (len(old), len(new)) == (count, new_count)
        assert lines[at : at + count] == old
        after += new
        at += count
    return "".join(after + lines[at:])


def _numbers(head: str) -> list[int]:
    found = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", head)
    assert found is not None
    return [int(each) if each is not None else 1 for each in found.groups()]


def _side(body: str, signs: str) -> Iterator[str]:
    lines = body.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line[0] in signs:
            yield line[1:] + ("" if below.startswith("\\") else "\n")


few_lines = st.lists(st.sampled_from(["", "a", "b", "c d"]), max_size=30).map("\n".join)


@given(text=few_lines, data=st.data())
def test_a_difference_can_be_put_to_the_old_file(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8, unique=True).map(sorted))
    news = st.text(st.sampled_from("abx\n"), max_size=6)
    changes = [Change(start, end, data.draw(news)) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    assert patched(text, difference(text, changes)) == applied(text, changes)


def test_after_a_difference_that_moves_lines_the_next_has_other_numbers() -> None:
    text = "a\n" + "\n" * 20 + "b\n" + "\n" * 20 + "c\n"
    changes = [Change(0, 0, "x\ny\n"), Change(text.index("b"), text.index("b") + 2, "")]
    said = difference(text, [*changes, Change(len(text), len(text), "end")])
    assert re.findall(r"@@ .*", said) == ["@@ -1,3 +1,5 @@", "@@ -19,7 +21,6 @@", "@@ -41,3 +42,4 @@"]
    assert patched(text, said) == applied(text, changes) + "end"


def test_a_difference_of_many_lines_can_be_put_to_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are compared one by one."""
    text = "".join(f"{n}\n" for n in range(1_500))
    for start, end, new in ((10, 3_000, "x"), (0, 4_500, ""), (2_000, len(text), "y\n" * 40)):
        said = difference(text, [Change(start, end, new)])
        assert "more lines with -]" in said
        monkeypatch.setattr("gnomon.tools._file_diff._MOST_IN_A_ROW", 10_000)
        monkeypatch.setattr("gnomon.tools._file_diff._MOST_CHARS", 1_000_000)
        change = [Change(start, end, new)]
        assert patched(text, difference(text, change)) == applied(text, change)
        monkeypatch.undo()


@pytest.mark.parametrize("after", ["x\ny\n" * 500, "y\nx\nx\n" * 333])
def test_a_difference_of_the_same_lines_again_and_again_takes_a_moment(after: str) -> None:
    before = "x\n" * 1_000
    started = time.process_time()
    assert difference(before, [Change(0, len(before), after)])
    assert time.process_time() - started < 2


# --- not found -------------------------------------------------------------------------


async def test_what_is_not_found_is_told_with_what_is_most_like_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"value_{n} = compute({n})\n" for n in range(500)))
    old = "value_199 = compute(199)\nvalue_200 = compute(20)\nvalue_201 = compute(201)\n"
    assert await refused(tmp_path, old, "x") == (
        "old: 'a.txt' does not have it, nor anything that differs in indentation, "
        "blanks at the ends of lines or quotes alone. Most like it is:\n200\tvalue_199 = compute(199)\n"
        "201\tvalue_200 = compute(200)\n202\tvalue_201 = compute(201)"
    )


async def test_of_a_long_block_the_first_line_that_differs_is_shown(tmp_path: Path) -> None:
    lines = [f"step_{n}(argument_{n})" for n in range(80)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    wrong = [*lines[:50], "step_50(argument_x)", *lines[51:]]
    said = await refused(tmp_path, "\n".join(wrong), "x")
    shown = said.split("\n")[1:]
    assert shown[:4] == [
        "48\tstep_47(argument_47)",
        "49\tstep_48(argument_48)",
        "50\tstep_49(argument_49)",
        "51\tstep_50(argument_50)",
    ]
    assert len(shown) == 12


async def test_where_nothing_is_like_it_nothing_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(PYTHON)
    for old in ("wholly unrelated words", "+++", "the king's return, and what became of the other hobbits"):
        assert (await refused(tmp_path, old, "x")).endswith("Nothing in it is like it: read it first.")


async def test_an_edit_that_was_made_before_is_told_so(tmp_path: Path) -> None:
    """As after a crash, when nobody knows whether the call had its effect."""
    (tmp_path / "a.txt").write_text(PYTHON)
    await edit(tmp_path, "        return 2", "        return 3000")
    said = await refused(tmp_path, "        return 2", "        return 3000")
    assert "It has what is new, at line 9: perhaps it is done already." in said


def test_what_is_told_is_short_whatever_is_in_the_file() -> None:
    wanted = "alpha beta gamma\n" * 50
    text = ("alpha beta gamma delta " + "x" * 5_000 + "\ud800\n") * 50
    assert len(nearest(text, wanted)) < 5_000
    nearest(text, wanted).encode()


# --- files that are empty, not there, no text -------------------------------------------


async def test_an_empty_old_text_fills_a_file_that_is_empty_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbf")
    assert await edit(tmp_path, "", "one\n", path="empty.txt") == (
        "'empty.txt' was empty, and is filled.\n@@ -0,0 +1 @@\n+one"
    )
    await edit(tmp_path, "", "\ufeffone\n", path="marked.txt")
    assert (await edit(tmp_path, "", "one\n", path="new/a.py")).startswith("'new/a.py' was made.\n")
    assert (tmp_path / "empty.txt").read_bytes() == (tmp_path / "new" / "a.py").read_bytes() == b"one\n"
    assert (tmp_path / "marked.txt").read_bytes() == b"\xef\xbb\xbfone\n"
    assert "old: it is empty, and 'empty.txt' is not" in await refused(tmp_path, "", "two", path="empty.txt")
    assert "the same text" in await refused(tmp_path, "", "", path="new.txt")


async def test_what_is_not_there_or_empty_has_nothing_to_replace(tmp_path: Path) -> None:
    (tmp_path / "parser.py").touch()
    assert (
        await refused(tmp_path, "a", "b", path="parsr.py") == "there is no 'parsr.py'. There is 'parser.py'"
    )
    assert "'parser.py' is empty: leave old empty to fill it" in await refused(
        tmp_path, "a", "b", path="parser.py"
    )


async def test_what_cannot_be_edited_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2old")
    (tmp_path / "odd.txt").write_bytes("old".encode("utf-16") + b"x")
    with (tmp_path / "large.txt").open("wb") as file:
        file.write(b"old\n")
        file.truncate(LARGEST + 1)
    (tmp_path / "folder").mkdir()
    for path, why in {
        "a.bin": "'a.bin' is no text: 6 bytes of something else",
        "odd.txt": "'odd.txt' is no text: 9 bytes",
        "large.txt": "'large.txt' has 16,777,217 bytes, and up to 16,777,216 can be edited",
        "folder": "'folder' is a folder",
    }.items():
        with pytest.raises(ToolFailed, match=re.escape(why)):
            await edit(tmp_path, "old", "new", path=path)


async def test_a_letter_that_the_charset_of_the_file_lacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é – old\n".encode("cp1252"))
    assert "new: 'a.txt' is in Windows-1252, which has no '漢'" in await refused(tmp_path, "old", "漢")
    await edit(tmp_path, "é – old", "è – new")
    assert (tmp_path / "a.txt").read_bytes() == "è – new\n".encode("cp1252")


@pytest.mark.parametrize("codec", ["utf-16", "utf-32", "utf-8-sig"])
async def test_a_file_in_another_charset_stays_in_it(codec: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é old\r\nend".encode(codec))
    await edit(tmp_path, "old\n", "漢\nnew\n")
    assert (tmp_path / "a.txt").read_bytes() == "é 漢\r\nnew\r\nend".encode(codec)


async def test_half_a_character_that_is_there_stays(tmp_path: Path) -> None:
    """As names of files on some systems have them."""
    data = b"\xff\xfe\x00\xd8" + "\nold\n".encode("utf-16-le")
    (tmp_path / "a.txt").write_bytes(data)
    assert " \ufffd\n-old\n+new" in await edit(tmp_path, "old", "new")
    assert (tmp_path / "a.txt").read_bytes() == data.replace(*(w.encode("utf-16-le") for w in ("old", "new")))


async def test_an_edit_that_would_make_too_much_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 5_000)
    said = await refused(tmp_path, "a", "b" * 5_000, replace_all=True)
    assert said == "it would have 25,000,000 characters, and up to 16,777,216 are written"


async def test_there_is_an_end_to_how_many_places_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("edit_file", "_edit_match"):
        monkeypatch.setattr(f"gnomon.tools.{module}.MOST_REPLACED", 100)
    (tmp_path / "a.txt").write_text("a\n" * 101)
    said = await refused(tmp_path, "a", "b", replace_all=True)
    assert "it stands 101 times in 'a.txt'" in said
    assert said.endswith("Up to 100 places are replaced at once")
    await edit(tmp_path, "a\na\n", "b\n", replace_all=True)
    assert (tmp_path / "a.txt").read_text() == "b\n" * 50 + "a\n"


# --- others who write --------------------------------------------------------------------


async def test_what_somebody_else_did_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    put = FileChange.put

    def late(file: FileChange, data: bytes) -> None:
        (tmp_path / "a.txt").write_text("one\ntheirs\n")
        put(file, data)

    monkeypatch.setattr(FileChange, "put", late)
    with pytest.raises(ToolFailed, match=r"it was changed meanwhile\. Nothing was written"):
        await edit(tmp_path, "one", "1")
    assert (tmp_path / "a.txt").read_text() == "one\ntheirs\n"


def test_calls_of_one_program_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """As those of several sub-agents: each counts in its own line."""
    names, times, failed = [f"counter_{n}" for n in range(6)], 30, list[BaseException]()
    (tmp_path / "a.txt").write_text("".join(f"{name}: 0\n" for name in names))
    (tmp_path / "link").symlink_to("a.txt")

    def count(name: str) -> None:
        tool = Workspace(tmp_path).tool("edit_file")
        assert isinstance(tool, TouchingTool)
        try:
            for n in range(times):
                path = "link" if n % 2 else "a.txt"
                tool(path, f"{name}: {n}\n", f"{name}: {n + 1}\n", ctx=ToolContext(call_id="call_1"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=count, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (tmp_path / "a.txt").read_text() == "".join(f"{name}: {times}\n" for name in names)


# --- how long it takes -------------------------------------------------------------------

LINE = "a line with some words in it, and a letter that is none of ASCII: é\n"
HARD = {
    "a place near the end": ("<MARK>", "x"),
    "lines near the end, indented": ("<MARK>\n  <MARK>\n", "x\n  y\n"),
    "nothing like it": ("no such thing\nnowhere\n", "x"),
    "something like it": (LINE + LINE.replace("words", "wards") + LINE, "x"),
    "the same line again and again": (LINE * 2_000 + "x\n", "x"),
    "indented, again and again": (f"  {LINE}" * 2_000 + LINE, "x"),
    "blanks alone": (" \n" * 2_000, "x"),
    "a letter alone": ("é", "e"),
}


@pytest.mark.parametrize("name", HARD)
def test_in_a_file_of_ten_megabytes_it_takes_a_moment(name: str) -> None:
    text = LINE * 150_000 + "    <MARK>\n      <MARK>\n"
    old, new = HARD[name]
    started = time.process_time()
    found = find(text, old, new)
    if found is None:
        nearest(text, old)
    else:
        difference(text, found.changes)
    assert time.process_time() - started < 5


def test_lines_that_are_compared_in_vain_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the file may be the first of a block whose last line alone is not as far in."""
    text, old = "  a\n" * 3_000, "a\n" * 500 + " a\n"
    compared = 0
    shift = matching._shift

    def counting(old: list[str], lines: list[str]) -> tuple[str, str] | None:
        nonlocal compared
        compared += len(old)
        return shift(old, lines)

    monkeypatch.setattr(matching, "_shift", counting)
    assert find(text, old, "x\n") is None
    assert 100_000 <= compared < 102_000


def test_a_text_of_very_many_lines_is_looked_for_as_it_is_only() -> None:
    text = "".join(f"{n:x}\n" for n in range(1_200_000))
    assert find(text, text.replace("\n", " \n"), "x") is None
    assert find(text, text, "x") is not None


# --- through the front door ------------------------------------------------------------


async def test_an_agent_reads_edits_and_sees_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('helo')\n")
    model = ScriptedProvider(
        [
            calls("read_file", path="hello.py"),
            calls("edit_file", path="hello.py", old="1\tprint('halo')", new="x").expecting(result="helo"),
            calls("edit_file", path="hello.py", old="1\tprint('helo')", new="1\tprint('hello')").expecting(
                result="Most like it is:\n1\tprint('helo')"
            ),
            says("Done.").expecting(result="+print('hello')"),
        ]
    )
    async with Agent(
        model, tools=["read_file", "edit_file"], workspace=tmp_path, permissions="accept_edits"
    ) as agent:
        await agent.run("Mend the greeting.")
    assert (tmp_path / "hello.py").read_text() == "print('hello')\n"
    model.assert_finished()
