"""What a vendor sends, in files: `NAME.http` is a reply, `NAME.json` what a provider must make of it.

`NAME.http` is a status line, headers, a blank line and the body as it comes, with
plain line ends. Headers that begin with `x-fixture-` say where the reply was taken
from and are not sent. `{{key}}` in the body stands for the API key that was sent.
`absent.json` says of each required reply that a vendor cannot give why it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from gnomon.errors import InvalidInput
from gnomon.types.requests import StopReason

__all__ = ["ANSWERS", "FAILURES", "Answer", "Failure", "Fixture", "Wire"]

ANSWERS = (
    "text",
    "thinking",
    "tool",
    "tools",
    "tools_interleaved",
    "tools_without_ids",
    "tools_reused_index",
    "tools_in_one_chunk",
    "tool_empty_arguments",
    "unicode_split",
    "refusal",
    "content_filter",
    "limit",
    "limit_in_arguments",
    "stop_sequence",
    "stop_with_calls",
    "usage_absent",
    "usage_every_chunk",
    "usage_at_end",
    "unknown_events",
    "tool_answer",
)
FAILURES = (
    "error_in_stream",
    "overloaded_in_stream",
    "unauthorized",
    "forbidden",
    "model_not_found",
    "bad_request",
    "too_long",
    "too_large",
    "rate_limited",
    "rate_limited_after",
    "out_of_quota",
    "server_error",
    "overloaded",
)

_T = TypeVar("_T")

_STATUS_LINE = re.compile(r"HTTP/1\.1 (\d{3}) ?(.*)")
_NAME = re.compile(r"[A-Za-z0-9_]+")


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must come of a reply that ends well; what is left out here is not compared."""

    parts: list[dict[str, object]]
    stop_reason: StopReason
    raw_stop_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    id: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    usage: dict[str, int] = {}
    """Compared whole: a class that is left out was not reported."""
    optional_tail: int = 0
    """How many events at the end of the body may be missing."""
    note: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The error that must come of a reply; what is left out here is not compared."""

    error: str
    """The `code` of the error class."""
    status: int | msgspec.UnsetType | None = msgspec.UNSET
    vendor_code: str | msgspec.UnsetType | None = msgspec.UNSET
    request_id: str | msgspec.UnsetType | None = msgspec.UNSET
    retry_after: float | msgspec.UnsetType | None = msgspec.UNSET
    retryable: bool | msgspec.UnsetType = msgspec.UNSET
    says: str = ""
    note: str = ""


Expected: TypeAlias = Answer | Failure


class Fixture(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, and what is expected of a provider that gets it."""

    name: str
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    expected: Expected

    @property
    def answer(self) -> Answer | None:
        return self.expected if isinstance(self.expected, Answer) else None

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name == "content-type"), "")

    @property
    def is_event_stream(self) -> bool:
        return self.content_type.startswith("text/event-stream")

    @property
    def is_stream(self) -> bool:
        """Whether the body comes event by event: as server-sent events, or as lines of JSON."""
        return self.is_event_stream or "ndjson" in self.content_type or "jsonl" in self.content_type

    @property
    def boundaries(self) -> list[int]:
        """The offset after each event of the body."""
        end = rb"\n\n" if self.is_event_stream else rb"\n"
        return [found.end() for found in re.finditer(end, self.body)]

    @property
    def end(self) -> int:
        """The offset at which the answer is complete."""
        return self.boundaries[-1 - (self.answer.optional_tail if self.answer else 0)]

    @property
    def inner_boundaries(self) -> list[int]:
        """The offset after each event that another one has to follow."""
        return [boundary for boundary in self.boundaries if boundary < self.end]

    @property
    def called(self) -> list[dict[str, object]]:
        """The tool calls that are expected."""
        parts = self.answer.parts if self.answer else []
        return [part for part in parts if part.get("type") == "tool_call"]


class Wire:
    """A folder of replies; it is read when it is first needed."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def __contains__(self, name: object) -> bool:
        return name in self.fixtures

    def __getitem__(self, name: str) -> Fixture:
        return self.fixtures[name]

    @cached_property
    def fixtures(self) -> Mapping[str, Fixture]:
        """Every reply of the folder, by name."""
        paths = sorted(self.folder.glob("*.http"))
        if not paths:
            raise InvalidInput(
                f"no replies in {str(self.folder)!r}",
                hint="a wire is a folder of NAME.http and NAME.json; a relative path begins at the place "
                "where pytest was started",
            )
        return {path.stem: _fixture(path) for path in paths}

    @cached_property
    def absent(self) -> Mapping[str, str]:
        """Why the vendor cannot give some of the required replies."""
        path = self.folder / "absent.json"
        return _decoded(path, dict[str, str]) if path.exists() else {}

    def answers(self) -> list[Fixture]:
        return [fixture for fixture in self.fixtures.values() if fixture.answer]

    def failures(self) -> list[Fixture]:
        return [fixture for fixture in self.fixtures.values() if not fixture.answer]

    def gaps(self) -> list[str]:
        """What is missing from the folder, or said of it in vain, in words."""
        names = (*ANSWERS, *FAILURES)
        missing = [f"{name} is missing" for name in names if name not in self and name not in self.absent]
        return [*missing, *(gap for name, why in self.absent.items() for gap in self._excuse(name, why))]

    def _excuse(self, name: str, why: str) -> list[str]:
        if name in self:
            return [f"{name} is there and also in absent.json"]
        if name not in ANSWERS and name not in FAILURES:
            return [f"{name} is in absent.json and nobody asks for it"]
        return [] if "://" in why else [f"{name} is in absent.json without a link to the reason"]


def _fixture(path: Path) -> Fixture:
    if not _NAME.fullmatch(path.stem):
        raise InvalidInput(f"{str(path)!r}: the name of a reply is made of letters, digits and _")
    head, blank, body = path.read_bytes().partition(b"\n\n")
    status, headers = _head(path, head.decode())
    fixture = Fixture(
        name=path.stem,
        status=int(status[1]),
        reason=status[2],
        headers=headers,
        body=body,
        expected=_expected(path.with_suffix(".json")),
    )
    if not blank or (fixture.is_event_stream and body and not body.endswith(b"\n\n")):
        raise InvalidInput(f"{str(path)!r} does not end with a blank line, so its last event is not complete")
    return fixture


def _head(path: Path, text: str) -> tuple[re.Match[str], tuple[tuple[str, str], ...]]:
    first, *lines = text.split("\n")
    status = _STATUS_LINE.fullmatch(first)
    if status is None:
        raise InvalidInput(f"{str(path)!r} begins with {first!r}; HTTP/1.1 and a status are expected")
    pairs = [line.partition(":") for line in lines]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    return status, tuple(pair for pair in headers if not pair[0].startswith("x-fixture-"))


def _expected(path: Path) -> Expected:
    if not path.exists():
        raise InvalidInput(f"{str(path)!r} is missing: it says what a provider must make of the reply")
    fields = _decoded(path, dict[str, object])
    kind = Failure if "error" in fields else Answer
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{str(path)!r}: {error}") from error


def _decoded(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{str(path)!r}: {error}") from error
