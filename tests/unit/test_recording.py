"""What is recorded is what came, without the key, and it can be played again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import recording
from gnomon.providers.openai import OpenAIProvider
from gnomon.testing import FaultServer, ReceivedRequest, ServerReply, Wire

KEY = "sk-a-key-that-nobody-may-see-0123456789"
SAID = Wire(Path(__file__).parent.parent / "wire" / "openai_chat")


def echoing(request: ReceivedRequest) -> ServerReply:
    """A service that repeats the key and the account in its answer, as some do."""
    assert request.headers["authorization"] == f"Bearer {KEY}"
    fixture = SAID["text"]
    body = fixture.body.replace(b"fp_", f"{KEY}_org-abcdefgh1234_fp_".encode())
    headers = (*fixture.headers, ("set-cookie", f"secret={KEY}"), ("openai-organization", "org-abcdefgh1234"))
    return ServerReply(headers=headers, body=body)


async def test_a_recording_holds_the_bytes_and_no_secret_and_is_a_fixture(
    tmp_path: Path,
) -> None:
    async with FaultServer(echoing) as server:
        provider = OpenAIProvider(api="chat", key=KEY, base_url=server.url)
        written = await recording.record(provider, provider._http, tmp_path, (KEY,))
    assert [path.name for path in written][:2] == ["recorded_text.http", "recorded_text.json"]
    for path in written:
        text = path.read_text()
        assert KEY not in text
        assert "org-abcdefgh" not in text
    fixture = Wire(tmp_path)["recorded_text"]
    assert fixture.answer is not None
    assert fixture.answer.parts == SAID["text"].answer.parts  # type: ignore[union-attr]
    assert fixture.body.count(b"data: ") == SAID["text"].body.count(b"data: ")


def test_without_a_key_nothing_is_recorded(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert asyncio.run(recording.main("openai")) == 1
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    assert asyncio.run(recording.main("demo")) == 2
