"""What the suite of wires is made of: the files, the forms, the player and the server."""

from __future__ import annotations

import asyncio
import gzip
import re
import shutil
from base64 import b64encode
from pathlib import Path
from unittest import SkipTest

import msgspec
import pytest
from reference_http import EventReader
from reference_suite import FOLDER, ReferenceSuite

from gnomon.errors import InvalidInput
from gnomon.testing import Contract, FaultServer, ReceivedRequest, ServerReply, Wire
from gnomon.testing._faults import (
    Cut,
    Dripping,
    Fault,
    Flood,
    Garbled,
    Gzipped,
    Held,
    Split,
    Stalled,
    Written,
)
from gnomon.testing._fixtures import ANSWERS, FAILURES
from gnomon.testing._forms import FORMS, LONG_FORMS
from gnomon.testing._histories import HISTORIES, MEDIA, Sent
from gnomon.testing._player import Player, Told, strings_in, told
from gnomon.testing._server import Close, Pause, Reset, Send, Stall

RULES = Contract.__gnomon_contract__

# --- the files ----------------------------------------------------------------------

TEXT = (
    "HTTP/1.1 200 OK\ncontent-type: text/event-stream\nX-Request-Id: r1\nx-fixture-source: here\n\n"
    "data: {}\n\n"
)
EXPECTED = '{"parts": [], "stop_reason": "end_turn"}'


def _wire(folder: Path, http: str = TEXT, expected: str = EXPECTED) -> Wire:
    (folder / "text.http").write_text(http, "utf-8")
    (folder / "text.json").write_text(expected, "utf-8")
    return Wire(folder)


def test_a_reply_is_read_without_the_headers_that_speak_of_the_file(tmp_path: Path) -> None:
    fixture = _wire(tmp_path)["text"]
    assert (fixture.status, fixture.reason, fixture.body) == (200, "OK", b"data: {}\n\n")
    assert fixture.headers == (("content-type", "text/event-stream"), ("x-request-id", "r1"))
    assert fixture.is_event_stream
    assert fixture.boundaries == [10]


@pytest.mark.parametrize(
    ("http", "expected", "says"),
    [
        ("200 OK\n\n", EXPECTED, "begins with '200 OK'; HTTP/1.1 and a status are expected"),
        (TEXT[:-1], EXPECTED, "does not end with a blank line"),
        ("HTTP/1.1 200 OK\n", EXPECTED, "does not end with a blank line"),
        (TEXT, '{"parts": []}', "missing required field `stop_reason`"),
        (TEXT, '{"parts": [], "stop_reason": "end_turn", "sotp": 1}', "unknown field `sotp`"),
        (TEXT, '{"error": "overloaded", "code": 1}', "unknown field `code`"),
        (TEXT, "{", "truncated"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, http: str, expected: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=rf"text\.(http|json).*{says}"):
        _ = _wire(tmp_path, http, expected).fixtures


def test_a_reply_without_its_expectation_is_named(tmp_path: Path) -> None:
    wire = _wire(tmp_path)
    (tmp_path / "text.json").unlink()
    with pytest.raises(InvalidInput, match=r"text\.json' is missing"):
        _ = wire.fixtures


def test_a_folder_without_replies_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no replies in .*nowhere"):
        _ = Wire(tmp_path / "nowhere").fixtures


def test_the_name_of_a_reply_can_stand_in_the_name_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "two words.http").write_text(TEXT, "utf-8")
    with pytest.raises(InvalidInput, match="letters, digits and _"):
        _ = Wire(tmp_path).fixtures


def _copy_without(folder: Path, *names: str) -> Path:
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    for name in names:
        (folder / f"{name}.http").unlink()
    return folder


def test_a_missing_reply_needs_a_reason_with_a_link(tmp_path: Path) -> None:
    folder = _copy_without(tmp_path, "thinking", "forbidden", "too_large")
    absent = {
        "forbidden": "https://example.org/errors has none",
        "too_large": "no",
        "text": "",
        "tool_x": "a://",
    }
    (folder / "absent.json").write_bytes(msgspec.json.encode(absent))
    assert Wire(folder).gaps() == [
        "thinking is missing",
        "too_large is in absent.json without a link to the reason",
        "text is there and also in absent.json",
        "tool_x is in absent.json and nobody asks for it",
    ]


def test_gaps_turn_their_check_red(tmp_path: Path) -> None:
    class Poor(ReferenceSuite):
        wire = Wire(_copy_without(tmp_path, "thinking"))

    suite = Poor()
    with pytest.raises(AssertionError, match=r"expected \[\], found \['thinking is missing'\]"):
        RULES.run(suite.test_every_required_reply_is_there_or_said_to_be_impossible, 10)
    assert suite.request("thinking") is None
    with pytest.raises(SkipTest, match="Poor does not offer 'thinking'"):
        RULES.run(suite.test_thinking_is_streamed_and_says_who_thought, 10)


def test_the_reference_has_every_reply() -> None:
    assert {*ANSWERS, *FAILURES} <= {*Wire(FOLDER).fixtures}
    assert Wire(FOLDER).gaps() == []


# --- the forms ------------------------------------------------------------------------


def _events(body: bytes) -> list[object]:
    events = EventReader().feed(body)
    return [msgspec.json.decode(event) if event.startswith(b"{") else event for event in events]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["text", "unicode_split", "tools_in_one_chunk", "error_in_stream"])
def test_every_form_says_the_same(form: str, name: str) -> None:
    body = Wire(FOLDER)[name].body
    written = FORMS[form](body)
    assert written != body
    assert _events(written) == _events(body)


def test_long_forms_are_long_and_hold_the_same() -> None:
    body = Wire(FOLDER)["text"].body
    for form in LONG_FORMS.values():
        written = form(body)
        assert len(written) > 10 * 2**20
        found = [
            event for event in _events(written) if not isinstance(event, dict) or event.pop("x_padding", 1)
        ]
        assert found == _events(body)


def test_mixed_line_ends_are_of_all_three_kinds() -> None:
    written = FORMS["mixed line ends"](Wire(FOLDER)["usage_every_chunk"].body)
    rest = written.replace(b"\r\n", b"")
    assert b"\r\n" in written
    assert b"\r" in rest
    assert b"\n" in rest


# --- the faults -----------------------------------------------------------------------

REPLY = ServerReply(
    headers=(("content-type", "text/event-stream"),), body=b'data: {"a": 1}\n\ndata: {"b": 2}\n\n'
)


@pytest.mark.parametrize(
    ("fault", "steps"),
    [
        (Split((3,)), [Send(b"dat"), Send(REPLY.body[3:])]),
        (Cut(3, "ended"), [Send(b"dat")]),
        (Cut(3, "closed"), [Send(b"dat"), Close()]),
        (Cut(3, "reset"), [Send(b"dat"), Reset()]),
        (Stalled(3), [Send(b"dat"), Stall()]),
        (Held(), [Send(REPLY.body), Stall()]),
    ],
)
def test_a_fault_is_a_plan_of_steps(fault: Fault, steps: list[object]) -> None:
    assert list(fault.applied(REPLY).steps or ()) == steps
    assert fault.applied(REPLY).framing == "chunked"


def test_an_unframed_cut_ends_with_the_connection_alone() -> None:
    assert Cut(3, "closed unframed").applied(REPLY).framing == "close"


def test_nothing_at_all_comes_of_a_reply_that_stalls_before_its_head() -> None:
    reply = Stalled(None).applied(REPLY)
    assert (reply.head(), reply.steps) == (b"", (Stall(),))


def test_an_event_is_garbled_in_its_place() -> None:
    assert Garbled(0, 16).applied(REPLY).body == b'data: {"broken": \n\ndata: {"b": 2}\n\n'


def test_a_packed_body_is_the_body() -> None:
    reply = Gzipped((0.5,)).applied(REPLY)
    assert ("content-encoding", "gzip") in reply.headers
    pieces = [step.data for step in reply.steps or () if isinstance(step, Send)]
    assert len(pieces) == 2
    assert gzip.decompress(b"".join(pieces)) == REPLY.body


def test_a_flood_has_its_size() -> None:
    steps = Flood(16, 2**20).applied(REPLY).steps or ()
    assert 2**20 <= sum(len(step.data) for step in steps if isinstance(step, Send)) < 2**20 + 2**14


@pytest.mark.parametrize(
    "fault", [Split(), Cut(3, "ended"), Stalled(None), Dripping(4), Written("CR line ends")]
)
def test_a_fault_says_what_it_is(fault: Fault) -> None:
    assert str(fault) != str(Fault())
    assert "(" not in str(fault) or str(fault).endswith("(ended)")


# --- the player -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"tools": [{"name": "a"}, {"function": {"name": "b"}}]}, Told(("a", "b"))),
        ({"tools": [{"functionDeclarations": [{"name": "a"}]}]}, Told(("a",))),
        ({"tools": [{"name": "a"}], "tool_choice": "none"}, Told(("a",), "none")),
        ({"tools": [{"name": "a"}], "tool_choice": {"type": "none"}}, Told(("a",), "none")),
        ({"tools": [{"name": "a"}], "tool_choice": "required"}, Told(("a",))),
        (
            {"tools": [{"name": "a"}], "tool_choice": {"type": "function", "function": {"name": "a"}}},
            Told(("a",), "a"),
        ),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}, "tools": [{"name": "a"}]},
            Told(("a",), "none"),
        ),
        ({"tools": [{"name": "a", "schema": {"properties": {"name": {"name": "x"}}}}]}, Told(("a",))),
        ({"messages": [{"tools": [{"name": "a"}]}]}, Told()),
        ([1], Told()),
    ],
)
def test_what_a_request_says_of_tools_is_seen_whoever_it_is_for(sent: object, expected: Told) -> None:
    assert told(msgspec.json.encode(sent)) == expected


def test_what_is_no_json_says_nothing_of_tools() -> None:
    assert told(b"\xff{") == Told()


def _player(*, obedient: bool = False) -> Player:
    return Player(Wire(FOLDER), "the-key", lambda request: None, obedient=obedient)


def _asking(model: str, **fields: object) -> ReceivedRequest:
    body = msgspec.json.encode({"model": model, **fields})
    return ReceivedRequest(method="POST", path="/answers", headers={}, body=body)


def test_the_model_names_the_reply_in_the_body_or_in_the_address() -> None:
    in_body = _player()(_asking("fixture-text"))
    in_path = _player()(ReceivedRequest(method="POST", path="/models/fixture-text:ask", headers={}))
    assert in_body == in_path
    assert in_body.body == Wire(FOLDER)["text"].body


@pytest.mark.parametrize("model", ["gpt", "fixture-none", "fixture-text fixture-tool"])
def test_a_request_for_no_reply_is_a_problem(model: str) -> None:
    with pytest.raises(AssertionError, match="is to be sent as it is"):
        _player()(_asking(model))


def test_the_key_is_sent_back_where_the_file_says_so() -> None:
    assert b"No such key: the-key." in _player()(_asking("fixture-unauthorized")).body


def test_a_call_gets_no_id_that_the_conversation_has() -> None:
    ids = ["call_b1"]
    for _ in range(3):
        body = _player()(_asking("fixture-tools", messages=ids)).body
        _, made, _ = re.findall(rb'"id": ?"([^"]+)"', body)[:3]
        assert b'"call_b1"' not in body
        assert b'"call_b2"' in body
        ids.append(made.decode())
    assert len(set(ids)) == 4
    assert {len(made) for made in ids} == {7}, "some vendors take ids of one length only"


@pytest.mark.parametrize(
    ("fields", "inside", "outside"),
    [
        ({"tools": [{"name": "weather"}, {"name": "calculate"}]}, b'"weather"', b"ping"),
        ({"tools": [{"name": "weather"}, {"name": "calculate"}], "tool_choice": "none"}, b"good", b"weather"),
        ({"tools": [{"name": "weather"}], "tool_choice": {"name": "weather"}}, b'"weather"', b'"calculate"'),
        ({"tools": [{"name": "ping"}]}, b'"ping"', b'"weather"'),
        ({}, b"good", b"weather"),
    ],
)
def test_an_obedient_player_calls_what_it_may(
    fields: dict[str, object], inside: bytes, outside: bytes
) -> None:
    body = _player(obedient=True)(_asking("fixture-tools", **fields)).body
    assert inside in body
    assert outside not in body
    assert _player()(_asking("fixture-tools", **fields)).body == Wire(FOLDER)["tools"].body


# --- the histories --------------------------------------------------------------------


@pytest.mark.parametrize("sent", [*HISTORIES, *MEDIA], ids=lambda sent: sent.what)
def test_what_is_looked_for_is_in_the_request(sent: Sent) -> None:
    plain = msgspec.to_builtins(sent.request, builtin_types=(bytes,))
    held = "".join(strings_in(msgspec.json.decode(msgspec.json.encode(plain))))
    assert [text for text in sent.texts if text not in held] == []
    assert [data for data in sent.media if b64encode(data).decode() not in held] == []


# --- the server -----------------------------------------------------------------------


async def _say(server: FaultServer, *messages: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        for message in messages:
            writer.write(message)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_a_server_answers_several_requests_on_one_connection() -> None:
    async with FaultServer(
        lambda request: ServerReply(body=request.path.encode(), framing="length")
    ) as server:
        heard = await _say(server, GET, GET.replace(b"/a", b"/bc"))
        assert heard.count(b"HTTP/1.1 200") == 2
        assert heard.endswith(b"content-length: 3\r\n\r\n/bc")
        assert [request.path for request in server.requests] == ["/a", "/bc"]
        assert await server.until_alone()
        assert (server.opened, server.closed, server.alive) == (1, 1, 0)


async def test_a_server_reads_bodies_of_both_kinds() -> None:
    async with FaultServer(lambda request: ServerReply(framing="length")) as server:
        plain = b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"
        chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
        heard = await _say(server, plain, chunked)
        assert heard.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
        assert [request.body for request in server.requests] == [b"hello", b"hello"]
        assert server.requests[0].headers == {"content-length": "5", "expect": "100-continue"}


async def test_a_body_leaves_in_chunks_as_its_steps_say() -> None:
    reply = ServerReply(steps=(Send(b"ab"), Pause(0.01), Send(b""), Send(b"c")))
    async with FaultServer(lambda request: reply) as server:
        heard = await _say(server, GET)
        assert heard.endswith(b"\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        assert server.sent_bytes == len(heard)


async def test_pieces_arrive_one_by_one() -> None:
    reply = ServerReply(steps=tuple(Send(b"x") for _ in range(50)), framing="close")
    async with FaultServer(lambda request: reply) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\n")
        pieces = await _pieces(reader)
        assert sum(map(len, pieces)) == 50
        assert len(pieces) >= 45
        writer.close()
        await writer.wait_closed()


async def _pieces(reader: asyncio.StreamReader) -> list[bytes]:
    pieces: list[bytes] = []
    while piece := await reader.read(1000):
        pieces.append(piece)
    return pieces


async def test_a_reset_breaks_the_connection() -> None:
    async with FaultServer(lambda request: ServerReply(steps=(Send(b"ab"), Reset()))) as server:
        with pytest.raises(ConnectionResetError):
            await _say(server, GET)


async def test_a_problem_is_kept_and_answered() -> None:
    def wrong(request: ReceivedRequest) -> ServerReply:
        raise ValueError("not like that")

    async with FaultServer(wrong) as server:
        assert (await _say(server, GET)).startswith(b"HTTP/1.1 500 ")
        assert server.problems == ["ValueError: not like that"]


async def test_waiting_for_a_server_has_an_end() -> None:
    async with FaultServer(lambda request: ServerReply()) as server:
        assert not await server.until_asked(1, 0.01)
        _, writer = await asyncio.open_connection(*server.address)
        await asyncio.sleep(0.01)
        assert not await server.until_alone(0.01)
        writer.close()
        await writer.wait_closed()


# --- the hook --------------------------------------------------------------------------


def test_a_request_that_the_service_would_not_take_turns_any_check_red() -> None:
    class Strict(ReferenceSuite):
        def check_request(self, request: ReceivedRequest) -> None:
            assert request.headers.get("x-version") == "1", "x-version is missing"

    with pytest.raises(AssertionError, match="AssertionError: x-version is missing"):
        RULES.run(Strict().test_text_is_answered_with_text, 10)
