"""The lines of `gnomon traces`, for spans of all kinds, and for those that others have made."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from traced import START, after

from gnomon.cli.keeping import Place
from gnomon.cli.trace_tree import shown
from gnomon.errors import NotFound
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import SessionRecord, Trace


def span(name: str, kind: str = "tool", parent: str | None = None, **fields: object) -> Trace:
    made = Trace(id=name, session_id="s", name=name, kind=kind, started_at=START, ended_at=after(1.5))
    return msgspec.structs.replace(made, parent_id=parent, **fields)


async def kept(path: Path, *traces: Trace) -> Place:
    url = f"sqlite:///{path}/t.db"
    store = SQLiteStorage(url)
    await store.migrate()
    await store.create_session(SessionRecord(id="s", created_at=START, updated_at=START))
    for trace in traces:
        await store.insert_trace(trace)
    await store.close()
    return Place(url=url)


def lines(path: Path, capsys: pytest.CaptureFixture[str], *traces: Trace) -> list[str]:
    place = asyncio.run(kept(path, *traces))
    assert shown(place, "s", anew=False, as_json=False, quiet=False) == 0
    return capsys.readouterr().out.splitlines()


def test_a_line_says_what_it_took_and_cost_and_how_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines(
        tmp_path,
        capsys,
        span("a", "turn", attributes={"status": "cancelled", "input_tokens": 5, "cost": 0.00125}),
        span("b", parent="a", error="timeout", attributes={"status": "timeout", "output_tokens": 0}),
        span("c", "wait", parent="b", attributes={"decision": "denied"}),
        span("d", parent="a", ended_at=None, attributes={"status": "ok", "cost": 0.0}),
    )
    assert found == [
        "   1.500 s  turn a · 5 in tokens · $0.001250 · cancelled",
        "   1.500 s    tool b · 0 out tokens · error: timeout",
        "   1.500 s      wait c · denied",
        "      open    tool d",
    ]


def test_a_span_whose_parent_is_not_there_stands_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(tmp_path, capsys, span("a", parent="gone")) == ["   1.500 s  tool a"]


def test_names_move_no_cursor_and_a_deep_tree_stays_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = [span(f"{at:04}", parent=f"{at - 1:04}" if at else None) for at in range(1_100)]
    found = lines(tmp_path, capsys, *deep, span("z\x1b[31m\nnext", error="x\x1b[2J"))
    assert len(found) == 1_101
    assert max(map(len, found)) < 120
    assert "\x1b" not in "".join(found)


def test_without_spans_it_is_said_how_to_make_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = asyncio.run(kept(tmp_path))
    assert shown(place, "s", anew=True, as_json=False, quiet=False) == 0
    told = capsys.readouterr()
    assert (told.out, "--rebuild" in told.err) == ("", True)
    assert shown(place, "s", anew=True, as_json=True, quiet=False) == 0
    assert json.loads(capsys.readouterr().out) == {"session_id": "s", "traces": [], "rebuilt": 0}


def test_to_look_for_a_session_makes_no_file(tmp_path: Path) -> None:
    place = Place(url=f"sqlite:///{tmp_path}/none.db", file=f"{tmp_path}/none.db")
    with pytest.raises(NotFound, match="ses_1"):
        shown(place, "ses_1", anew=True, as_json=False, quiet=False)
    assert list(tmp_path.iterdir()) == []
