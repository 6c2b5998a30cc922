"""Of a result that is too long for a model head and tail are shown, and every character can be read back."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import Image, Text, ToolContext, ToolResult
from gnomon.engine import capping
from gnomon.engine.capping import FULL_CHARS, READ_OUTPUT, ReadOutput, capped

NOTE = re.compile(r"\n\[… (\d+) of (\d+) characters left out.*?…\]\n", re.DOTALL)


def result(*texts: str) -> ToolResult:
    return ToolResult("call_7", "act", tuple(Text(text) for text in texts))


def parts(shown: ToolResult) -> tuple[str, int, int, str]:
    """Head, how much was left out of how much, and tail."""
    found = NOTE.search(shown.text)
    assert found is not None
    return shown.text[: found.start()], int(found[1]), int(found[2]), shown.text[found.end() :]


@given(st.lists(st.text(max_size=50), max_size=8), st.integers(1, 200))
def test_what_is_shown_is_head_and_tail_and_the_note_counts_the_rest(texts: list[str], limit: int) -> None:
    whole = "".join(texts)
    shown, full = capped(result(*texts), limit)
    if len(whole) <= limit:
        assert (shown, full) == (result(*texts), "")
        return
    # What a tool says may look like a note, so the note is found by its place.
    head, tail = whole[: limit * 2 // 3], whole[len(whole) - limit // 3 :] if limit >= 3 else ""
    assert shown.text.startswith(head)
    assert shown.text.endswith(tail)
    note = shown.text[len(head) : len(shown.text) - len(tail)]
    assert NOTE.fullmatch(note), note
    assert f"{len(whole) - len(head) - len(tail)} of {len(whole)} characters" in note
    assert (READ_OUTPUT in note, "'call_7'" in note) == (True, True)
    assert full == whole


def test_both_ends_are_worth_seeing() -> None:
    head, left_out, total, tail = parts(capped(result("a" * 5_000 + "b" * 5_000), 1_000)[0])
    assert (set(head), set(tail)) == ({"a"}, {"b"})
    assert (left_out + len(head) + len(tail), total) == (10_000, 10_000)
    assert min(len(head), len(tail)) >= 300
    assert len(head) + len(tail) <= 1_000


def test_status_name_and_pictures_stay() -> None:
    picture = Image(url="https://example.org/a.png")
    long = ToolResult("call_7", "act", (Text("x" * 100), picture, Text("y" * 100)), status="error")
    shown, full = capped(long, 50)
    assert (shown.call_id, shown.name, shown.status, shown.images) == ("call_7", "act", "error", (picture,))
    assert full == "x" * 100 + "y" * 100


def test_more_than_is_kept_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capping, "FULL_CHARS", 1_000)
    shown, full = capped(result("0123456789" * 200), 100)
    assert full == "0123456789" * 100
    assert "only the first 1000 characters are kept" in shown.text
    assert FULL_CHARS > 1_000


# --- reading -------------------------------------------------------------------------


async def read(text: str | None, **asked: object) -> str:
    async def find(call_id: str) -> str | None:
        assert call_id == "call_7"
        return text

    arguments = msgspec.json.encode({"call_id": "call_7", **asked}).decode()
    found = await ReadOutput(find).execute(arguments, ToolContext(call_id="call_8"))
    assert (found.call_id, found.name, found.status) == ("call_8", READ_OUTPUT, "ok")
    return found.text


async def test_pages_put_together_are_the_text() -> None:
    text = "".join(f"{number}, " for number in range(9_000))
    pages: list[str] = []
    for offset in range(0, len(text), 7_001):
        note, _, page = (await read(text, offset=offset, length=7_001)).partition("\n")
        assert f"{offset} to {offset + len(page)} of {len(text)}" in note
        pages.append(page)
    assert "".join(pages) == text


async def test_a_page_is_bounded_whatever_is_asked_for() -> None:
    text = "x" * 100_000
    assert len(await read(text, length=10**9)) < 21_000
    assert len(await read(text)) < 21_000


@pytest.mark.parametrize("asked", [{"offset": -5}, {"length": 0}, {"length": -7}, {"offset": 10**30}])
async def test_a_place_that_is_none_gives_what_is_nearest(asked: dict[str, object]) -> None:
    assert "of 26]" in await read("abcdefghijklmnopqrstuvwxyz", **asked)
