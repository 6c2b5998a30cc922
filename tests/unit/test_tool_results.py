"""What a model gets to see of what a function returned."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import threading
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from gnomon import Audio, File, Image, Text, ToolContext, ToolFailed, ToolResult, tool
from gnomon.types.messages import Part

PNG = b"\x89PNG\r\n\x1a\n and so on"
PIXEL = Image(data=PNG, media_type="image/png")


async def shown(value: object) -> ToolResult:
    return await tool(name="give")(lambda: value).execute("{}", ToolContext(call_id="call_1"))


async def failure(value: object) -> str:
    with pytest.raises(ToolFailed) as caught:
        await shown(value)
    return str(caught.value)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    item: str
    count: int = 1


class Model(BaseModel):
    when: datetime.date
    size: float = 1.5


DAY = datetime.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "done"),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ({"a": "null", "b": (1.5, None)}, '{"a":"null","b":[1.5,null]}'),
        ([1, "b"], '[1,"b"]'),
        (["a", "b"], '["a","b"]'),
        ([], "[]"),
        ((), "[]"),
        (("a", 1), '["a",1]'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Order("tea"), '{"item":"tea","count":1}'),
        (Model(when=DAY), '{"when":"2026-01-02","size":1.5}'),
        ({"all": [Model(when=DAY)]}, '{"all":[{"when":"2026-01-02","size":1.5}]}'),
        (Colour.RED, '"red"'),
        ("čaj 🍵", "čaj 🍵"),
        ({"čaj": "🍵"}, '{"čaj":"🍵"}'),
        (10**30, str(10**30)),
        (PurePosixPath("/srv/a"), "/srv/a"),
        ({"to": PurePosixPath("/srv/a")}, '{"to":"/srv/a"}'),
        ({"data": b"hello"}, '{"data":"aGVsbG8="}'),
        (b"", "0 bytes"),
        ({"name": "\udcff"}, '{"name": "\\udcff"}'),
    ],
)
async def test_a_result_is_shown_as_text(value: object, text: str) -> None:
    assert await shown(value) == ToolResult("call_1", "give", (Text(text),), "ok")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (PIXEL, (PIXEL,)),
        (["look", PIXEL], (Text("look"), PIXEL)),
        ((PIXEL, File(url="https://example.org/a.pdf")), (PIXEL, File(url="https://example.org/a.pdf"))),
        (PNG, (PIXEL,)),
        (bytearray(PNG), (PIXEL,)),
        (memoryview(PNG), (PIXEL,)),
        (["look", PNG, b"%PDF-1"], (Text("look"), PIXEL, File(data=b"%PDF-1", media_type="application/pdf"))),
        (b"OggS..", (Audio(data=b"OggS..", media_type="audio/ogg"),)),
        (b"plain words", (File(data=b"plain words", media_type="text/plain"),)),
        (b"\xff\x00", (File(data=b"\xff\x00", media_type="application/octet-stream"),)),
        (b"a\x00", (File(data=b"a\x00", media_type="application/octet-stream"),)),
    ],
)
async def test_pictures_and_files_stay_what_they_are(value: object, content: tuple[Part, ...]) -> None:
    assert (await shown(value)).content == content


async def test_a_file_is_not_read_because_its_path_was_returned(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush")
    assert (await shown(tmp_path / "secret")).text == str(tmp_path / "secret")


async def test_a_result_made_by_hand_gets_the_right_call_id_and_name() -> None:
    by_hand = ToolResult("somebody elses", "other", [Text("no")], status="error", meta={"k": 1})  # type: ignore[arg-type]
    assert await shown(by_hand) == ToolResult("call_1", "give", (Text("no"),), "error", {"k": 1})


@pytest.mark.parametrize(
    "value", [object(), threading.Lock(), {(1, 2): 3}, iter([1]), [object()], [10**5000], [PIXEL, object()]]
)
async def test_what_cannot_be_shown_is_told_by_its_type_alone(value: object) -> None:
    assert await failure(value) == f"give returned {type(value).__name__}, which cannot be shown to a model"


class Unsure(BaseModel):
    share: float


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        {"a": [1, -math.inf]},
        Point(math.nan),
        ({"b": (math.nan,)},),
        Unsure(share=math.nan),
    ],  # type: ignore[arg-type]
)
async def test_a_number_that_json_does_not_have_is_said_and_not_turned_into_nothing(value: object) -> None:
    assert await failure(value) == "give returned a number that JSON does not have: NaN, or an infinite one"


async def test_a_value_that_holds_itself_is_told_shortly() -> None:
    ring: list[Any] = []
    ring.append({"ring": ring})
    assert await failure(ring) == "give returned list that holds itself, or is nested too deep"


async def test_half_a_character_is_written_out_so_that_the_result_can_be_stored() -> None:
    text = (await shown({"files": ["a", "\udcff"]})).text
    text.encode()
    assert json.loads(text) == {"files": ["a", "\udcff"]}
    assert "cannot be shown" in await failure({"files": ["\udcff", math.nan]})
