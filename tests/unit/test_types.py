from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import struct_types, type_modules, usages, values_of

from gnomon.errors import InvalidInput
from gnomon.types._media import media_type_of
from gnomon.types.events import MessageCompleted, ToolCallEnd
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    as_parts,
)
from gnomon.types.records import Page, SessionRecord, utc_now
from gnomon.types.requests import Request, Response, Usage, add_usage
from gnomon.types.steps import Turn

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 16
JPEG = b"\xff\xd8\xff\xe0" + b"\x00" * 16
GIF = b"GIF89a" + b"\x00" * 16
WEBP = b"RIFF\x24\x00\x00\x00WEBPVP8 "
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
MP3 = b"ID3\x04\x00\x00\x00\x00\x00\x00"
PDF = b"%PDF-1.7\n"

STRUCTS = struct_types()


def name_of(kind: object) -> str:
    return str(kind).rpartition(".")[2].strip("'>[]")


every_struct = pytest.mark.parametrize("kind", STRUCTS, ids=name_of)

# --- exact round trips ------------------------------------------------------


def test_every_module_of_types_is_looked_at() -> None:
    found = {module.__name__.rpartition(".")[2] for module in type_modules()}
    assert {"codec", "documents", "events", "messages", "records", "requests", "steps"} <= found
    assert len(STRUCTS) >= 64


@every_struct
@given(data=st.data())
def test_json_and_messagepack_give_back_the_same_value_and_the_same_bytes(
    kind: type, data: st.DataObject
) -> None:
    value = data.draw(values_of(kind))
    for code in (msgspec.json, msgspec.msgpack):
        encoded = code.encode(value)
        again = code.decode(encoded, type=kind)
        assert again == value
        assert type(again) is type(value)
        assert code.encode(again) == encoded


@pytest.mark.parametrize("code", [msgspec.json, msgspec.msgpack], ids=["json", "msgpack"])
def test_an_image_inside_a_result_inside_a_message_keeps_its_bytes(code: object) -> None:
    picture = Image(data=bytes(range(256)), media_type="image/png", meta={"vendor": {"n": 2**63 - 1}})
    inner = ToolResult("inner", content=(picture, Text("")), status="truncated")
    message = Message.tool(ToolResult("outer", content=(Text("seen \U0010ffff"), inner)))
    again = code.decode(code.encode(message), type=Message)  # type: ignore[attr-defined]
    assert again == message
    assert again.tool_results[0].content[1].images[0].data == bytes(range(256))


@pytest.mark.parametrize("code", [msgspec.json, msgspec.msgpack], ids=["json", "msgpack"])
def test_a_time_keeps_its_microseconds_and_its_zone(code: object) -> None:
    moment = datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)
    row = SessionRecord(id="s", created_at=moment, updated_at=moment + timedelta(microseconds=1))
    again = code.decode(code.encode(row), type=SessionRecord)  # type: ignore[attr-defined]
    assert again == row
    assert again.updated_at - again.created_at == timedelta(microseconds=1)
    assert again.created_at.utcoffset() == timedelta(0)


def test_the_clock_is_in_utc() -> None:
    assert utc_now().utcoffset() == timedelta(0)


def _times(info: msgspec.inspect.Type) -> Iterator[msgspec.inspect.DateTimeType]:
    if isinstance(info, msgspec.inspect.DateTimeType):
        yield info
    elif isinstance(info, msgspec.inspect.UnionType):
        for one in info.types:
            yield from _times(one)


@every_struct
def test_every_time_demands_a_zone(kind: type) -> None:
    """A time without a zone is a different moment on another machine."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    for one in info.fields:
        assert all(time.tz is True for time in _times(one.type)), f"{name_of(kind)}.{one.name}"


def test_a_temperature_of_zero_is_a_value_and_not_left_out() -> None:
    line = msgspec.json.encode(Request(messages=(), temperature=0, max_tokens=0))
    again = msgspec.json.decode(line, type=Request)
    assert (again.temperature, again.max_tokens, again.top_p) == (0.0, 0, None)


def test_a_page_holds_rows_of_its_own_kind() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"items": [{"id": 5}]}', type=Page[SessionRecord])


def test_the_old_reader_ignores_a_field_it_does_not_know() -> None:
    assert msgspec.json.decode(b'{"type": "text", "text": "a", "colour": [1]}', type=Text) == Text("a")


# --- frozen, and never shared -----------------------------------------------


@every_struct
@settings(max_examples=1)
@given(data=st.data())
def test_a_value_cannot_be_changed(kind: type, data: st.DataObject) -> None:
    value = data.draw(values_of(kind))
    for name in type(value).__struct_fields__:  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_two_values_do_not_share_their_meta() -> None:
    one, other = Text("a"), Text("a")
    one.meta["seen"] = True
    assert other.meta == {}
    assert Message.user().meta == {}


@pytest.mark.parametrize("module", type_modules(), ids=name_of)
def test_every_public_struct_is_exported(module: object) -> None:
    ours = {kind.__name__ for kind in STRUCTS if kind.__module__ == module.__name__}  # type: ignore[attr-defined]
    exported = set(module.__all__)  # type: ignore[attr-defined]
    assert ours <= exported
    assert all(hasattr(module, name) for name in exported)


# --- messages, as people write them -----------------------------------------


def test_a_message_takes_text_and_an_image_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "view.png"
    path.write_bytes(PNG)
    message = Message.user("look at this", Image.from_path(path))
    assert message.role == "user"
    assert message.content == (Text("look at this"), Image(data=PNG, media_type="image/png"))


def test_a_message_may_be_empty() -> None:
    assert Message.user() == Message("user", ())
    assert Message.user().text == ""
    assert Message("assistant").content == ()


def test_each_role_has_its_constructor() -> None:
    result = ToolResult("c")
    assert Message.system("be short") == Message("system", (Text("be short"),))
    assert Message.assistant("a", Thinking("b")).role == "assistant"
    assert Message.tool(result, result) == Message("tool", (result, result))
    assert Message.user("hi", name="ada").name == "ada"


@pytest.mark.parametrize(
    "content",
    ["hello", ["hello"], ("hello",), [Text("hello")], (Text("hello"),), iter(["hello"])],
    ids=["str", "list of str", "tuple of str", "list of parts", "tuple of parts", "iterator"],
)
def test_content_is_always_kept_as_a_tuple_of_parts(content: object) -> None:
    expected = (Text("hello"),)
    assert Message("user", content).content == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("content", ["done", ["done"], ("done",)], ids=["str", "list", "tuple"])
def test_the_content_of_a_result_is_always_kept_as_a_tuple_of_parts(content: object) -> None:
    assert ToolResult("c", content=content).content == (Text("done"),)  # type: ignore[arg-type]


def test_an_empty_string_is_a_part_of_its_own() -> None:
    assert Message("user", "").content == (Text(""),)  # type: ignore[arg-type]


WRONG = [b"bytes", 5, None, {"type": "text", "text": "a"}, ["nested"], Message.user("a"), object()]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
def test_wrong_content_is_a_type_error_that_names_what_was_found(wrong: object) -> None:
    name = type(wrong).__name__
    for make in (Message.user, Message.system, Message.assistant):
        with pytest.raises(TypeError, match=rf"content is text or parts.*not {name}"):
            make("fine", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=rf"content is text or parts.*not {name}"):
        ToolResult.of(ToolCall("c", "f"), wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=rf"content is text or parts.*not {name}"):
        Message("user", [wrong])  # type: ignore[list-item]


def test_wrong_content_in_a_tuple_is_found_too() -> None:
    with pytest.raises(TypeError, match=r"content is text or parts.*not int"):
        Message("user", (Text("fine"), 5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [b"ab", 5, None, {"text": "a"}, object()], ids=lambda one: type(one).__name__
)
def test_content_that_is_no_list_at_all_is_a_type_error_that_speaks_of_content(wrong: object) -> None:
    with pytest.raises(TypeError, match="content"):
        Message("user", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["text", Text("text"), b"bytes"], ids=lambda one: type(one).__name__)
def test_a_tool_message_takes_results_only(wrong: object) -> None:
    with pytest.raises(TypeError, match="ToolResult"):
        Message.tool(wrong)  # type: ignore[arg-type]


def test_as_parts_leaves_parts_as_they_are() -> None:
    image = Image(url="https://example.com/a.png")
    assert as_parts(["a", image]) == (Text("a"), image)
    assert as_parts(["a", image])[1] is image
    assert as_parts([]) == ()


def test_a_result_is_made_from_its_call() -> None:
    call = ToolCall("c1", "weather", '{"city": "Oslo"}')
    result = ToolResult.of(call, "rain", Image(data=PNG), status="error")
    assert (result.call_id, result.name, result.status) == ("c1", "weather", "error")
    assert result.text == "rain"
    assert result.images == (Image(data=PNG),)
    assert call.parsed() == {"city": "Oslo"}


def test_arguments_that_are_not_json_say_so_when_they_are_parsed() -> None:
    with pytest.raises(msgspec.DecodeError):
        ToolCall("c1", "weather", '{"city": "Os', truncated=True).parsed()


# --- views ------------------------------------------------------------------


def test_views_pick_their_own_parts_in_order() -> None:
    images = Image(url="a"), Image(url="b")
    sound, call, result = Audio(url="s"), ToolCall("c", "f"), ToolResult("c", content=(Text("not mine"),))
    message = Message(
        "assistant",
        (
            Thinking("hm "),
            Text("one"),
            images[0],
            sound,
            Text("two"),
            call,
            images[1],
            Thinking("so"),
            result,
        ),
    )
    assert message.text == "onetwo"
    assert message.thinking == "hm so"
    assert message.images == images
    assert message.audio == (sound,)
    assert message.tool_calls == (call,)
    assert message.tool_results == (result,)


def test_views_of_a_message_without_such_parts_are_empty() -> None:
    message = Message.user(File(url="f"), UnknownPart("hologram"))
    assert (message.text, message.thinking) == ("", "")
    assert (message.images, message.audio, message.tool_calls, message.tool_results) == ((), (), (), ())


def test_responses_turns_and_events_show_what_they_carry() -> None:
    call = ToolCall("c", "f", truncated=True)
    response = Response(message=Message.assistant("hi", call), stop_reason="max_tokens")
    assert (response.text, response.tool_calls) == ("hi", (call,))
    assert ToolCallEnd(0, call).truncated
    assert MessageCompleted("t", "m", response).message is response.message
    said = (Message.user("q"), Message.assistant("first"), Message.tool(), Message.assistant("last"))
    now = utc_now()
    turn = Turn(id="t", messages=said, stop="end_turn", started_at=now, ended_at=now)
    assert turn.text == "last"
    assert Turn(id="t", messages=said[:1], stop="rounds", started_at=now, ended_at=now).text == ""


# --- attachments ------------------------------------------------------------


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_media_takes_exactly_one_of_url_and_data(kind: type[Image | Audio | File]) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} takes either a url or data"):
        kind()
    with pytest.raises(ValueError, match="exactly one"):
        kind(url="https://example.com", data=b"x")
    assert kind(data=b"").data == b""
    assert kind(url="").url == ""


@pytest.mark.parametrize("line", [b'{"type": "image"}', b'{"type": "image", "url": "a", "data": "YQ=="}'])
def test_media_from_a_wire_takes_exactly_one_of_url_and_data(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match="exactly one"):
        msgspec.json.decode(line, type=Image)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
        (WAV, "audio/wav"),
        (MP3, "audio/mpeg"),
        (b"OggS\x00\x02", "audio/ogg"),
        (b"fLaC\x00\x00", "audio/flac"),
        (PDF, "application/pdf"),
    ],
)
def test_the_bytes_beat_a_lying_extension(data: bytes, media_type: str) -> None:
    assert media_type_of(data, "lie.html") == media_type
    assert media_type_of(data, "") == media_type


def test_without_a_known_mark_the_name_decides_and_else_nothing() -> None:
    assert media_type_of(b"words", "a.txt") == "text/plain"
    assert media_type_of(b"words", "a.no_such_kind") is None
    assert media_type_of(b"") is None


@pytest.mark.parametrize("text", [b"note on WEBP and others", b"FOUR WAYWAVE goodbye"])
def test_words_in_the_middle_of_a_text_are_no_mark(text: bytes) -> None:
    """A WebP and a WAV begin with RIFF; the word at the ninth byte alone says nothing."""
    assert media_type_of(text, "notes.txt") == "text/plain"


def test_a_jpeg_called_png_is_attached_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(JPEG)
    assert Image.from_path(path) == Image(data=JPEG, media_type="image/jpeg")
    assert Image.from_path(str(path)).media_type == "image/jpeg"


def test_sound_is_attached_as_audio_and_not_as_an_image(tmp_path: Path) -> None:
    path = tmp_path / "voice.png"
    path.write_bytes(WAV)
    assert Audio.from_path(path) == Audio(data=WAV, media_type="audio/wav")
    with pytest.raises(InvalidInput, match="audio/wav, not image"):
        Image.from_path(path)


def test_any_file_is_attached_as_a_file_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "data.no_such_kind"
    path.write_bytes(b"\x00\x01")
    expected = File(data=b"\x00\x01", media_type="application/octet-stream", name="data.no_such_kind")
    assert File.from_path(path) == expected
    path.write_bytes(PDF)
    assert File.from_path(str(path)).media_type == "application/pdf"


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_a_missing_file_is_named(tmp_path: Path, kind: type[Image | Audio | File]) -> None:
    with pytest.raises(InvalidInput, match=r"gone\.png.*no such file"):
        kind.from_path(tmp_path / "gone.png")


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_a_folder_is_no_attachment(tmp_path: Path, kind: type[Image | Audio | File]) -> None:
    with pytest.raises(InvalidInput, match="it is a folder") as caught:
        kind.from_path(tmp_path)
    assert caught.value.hint == "name a file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "secret.png"
    path.write_bytes(PNG)
    path.chmod(0)
    with pytest.raises(InvalidInput, match="permission denied"):
        Image.from_path(path)


def test_a_text_file_is_no_image_and_the_way_out_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(InvalidInput, match=r"notes\.txt' is text/plain, not image") as caught:
        Image.from_path(path)
    assert "File" in str(caught.value.hint)
    with pytest.raises(InvalidInput, match="of no known kind, not audio"):
        Audio.from_path(path.rename(tmp_path / "notes"))


@pytest.mark.parametrize("name", ["a\x00b.png", "a\ud800.png", "a/" * 3000, "x" * 300], ids=ascii)
def test_a_path_that_no_file_can_have_is_invalid_input(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot attach"):
        Image.from_path(os.path.join(tmp_path, name))


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_a_pipe_is_no_attachment_and_is_not_waited_for(
    tmp_path: Path, kind: type[Image | Audio | File]
) -> None:
    path = tmp_path / "pipe.png"
    os.mkfifo(path)
    with pytest.raises(InvalidInput, match="a pipe or a device"):
        kind.from_path(path)


def test_a_path_through_a_file_is_invalid_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(PNG)
    with pytest.raises(InvalidInput, match="not a directory"):
        Image.from_path(tmp_path / "file" / "a.png")


# --- usage ------------------------------------------------------------------


def test_the_total_counts_every_class_once() -> None:
    usage = Usage(
        input_tokens=1, output_tokens=10, cache_read_tokens=100, cache_write_tokens=1000, reasoning_tokens=7
    )
    assert usage.total_tokens == 1111, "thinking is a part of the output, not beside it"


def test_what_nobody_reported_is_none_and_not_zero() -> None:
    assert Usage().total_tokens is None
    assert Usage(reasoning_tokens=5).total_tokens is None
    assert Usage(input_tokens=0).total_tokens == 0
    assert Usage(output_tokens=3).total_tokens == 3


def test_sums_leave_none_where_nobody_reported() -> None:
    total = add_usage([Usage(input_tokens=1), Usage(input_tokens=2, output_tokens=0), Usage()])
    assert total == Usage(input_tokens=3, output_tokens=0)
    assert add_usage([]) == Usage()


def test_a_sum_with_an_estimate_in_it_is_an_estimate() -> None:
    assert add_usage([Usage(input_tokens=1), Usage(input_tokens=1, estimated=True)]).estimated
    assert not add_usage([Usage(input_tokens=1)]).estimated


@given(st.lists(usages, max_size=5))
def test_the_total_of_a_sum_is_the_sum_of_the_totals(several: list[Usage]) -> None:
    totals = [one.total_tokens for one in several if one.total_tokens is not None]
    assert add_usage(several).total_tokens == (sum(totals) if totals else None)
    assert add_usage(iter(several)) == add_usage(reversed(several))


def test_an_empty_file_is_no_attachment(tmp_path: Path) -> None:
    path = tmp_path / "empty.png"
    path.touch()
    with pytest.raises(InvalidInput, match="it is empty"):
        Image.from_path(path)
