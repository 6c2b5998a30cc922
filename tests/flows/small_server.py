"""A server on this machine that answers as a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """What is sent back for a path."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = {}
    after_s: float = 0.0


class Asked(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes


class SmallServer:
    """Its address, and every request that came."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/v1"
        self.asked: list[Asked] = []


@contextmanager
def answering(answers: Mapping[str, Answer]) -> Iterator[SmallServer]:
    """A server that knows these paths; any other is 404 in plain text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            small.asked.append(Asked(self.path, dict(self.headers), self.rfile.read(size)))
            answer = answers.get(self.path, Answer(b"not here", 404, "text/plain"))
            time.sleep(answer.after_s)
            self.send_response(answer.status)
            headers = {"content-type": answer.kind, "content-length": str(len(answer.body)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_POST = do_GET

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        small = SmallServer(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield small
        finally:
            server.shutdown()
            thread.join()


def models(*names: str, after_s: float = 0.0) -> Answer:
    """The list of models, as OpenAI has it."""
    data = [{"id": name, "object": "model", "created": 1, "owned_by": "me"} for name in names]
    return Answer(json.dumps({"object": "list", "data": data}).encode(), after_s=after_s)


def says(text: str) -> Answer:
    """A whole streamed answer in Chat Completions."""
    chunks = [
        {
            "id": "c1",
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
        },
        {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return Answer("".join([*lines, "data: [DONE]\n\n"]).encode(), kind="text/event-stream")
