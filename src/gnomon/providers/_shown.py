"""What a scripted model was shown: the checks on it, each with a message that shows what was there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gnomon.types.codec import encode_message
from gnomon.types.messages import Image, Message, Part, ToolCall, ToolResult
from gnomon.types.requests import Request

__all__ = [
    "Memory",
    "check_calls",
    "check_messages",
    "images_are",
    "in_instructions",
    "in_prompt",
    "in_results",
    "last_of",
    "model_is",
    "passes",
    "tools_are",
]

_SHORT = 300


# --- always ------------------------------------------------------------------


def check_messages(messages: Sequence[Message], start: int = 0) -> None:
    """Every call has exactly one result, in order, right after it; no part is out of place."""
    if not messages:
        raise AssertionError("the request has no messages")
    for at in range(start, len(messages)):
        message = messages[at]
        _check_parts(at, message)
        if message.tool_calls:
            _check_results(message.tool_calls, list(_results_after(messages, at)))
        elif message.role == "tool" and not _follows_calls(messages, at):
            raise AssertionError(f"message {at + 1} holds tool results, and no calls stand before it")


def check_calls(names: Iterable[str], request: Request) -> None:
    """A model calls what it is offered, and nothing when it is told not to."""
    offered = [tool.name for tool in request.tools]
    for name in names:
        if name not in offered:
            raise AssertionError(f"it calls {name!r}, which is not offered; the tools are {_names(offered)}")
        if request.tool_choice == "none":
            raise AssertionError(f"it calls {name!r}, and the request has tool_choice 'none'")


class Memory:
    """What the model said, and after which messages: it must come back word for word."""

    def __init__(self) -> None:
        self._said: list[tuple[tuple[Message, ...], Message]] = []
        self._latest: tuple[Message, ...] = ()

    def add(self, before: tuple[Message, ...], message: Message) -> None:
        self._said.append((before, message))
        self._latest = (*before, message)

    def known(self, messages: tuple[Message, ...]) -> int:
        """How many messages are just as the model left them, its own last word among them."""
        count = len(self._latest)
        return count if messages[:count] == self._latest else 0

    def check(self, messages: tuple[Message, ...]) -> None:
        """Wherever a conversation goes on that the model was in, its word must stand next."""
        for before, said in self._said:
            at = len(before)
            if len(messages) > at and messages[at - 1] == before[-1] and messages[:at] == before:
                self._check_one(messages, at, said)

    def _check_one(self, messages: tuple[Message, ...], at: int, said: Message) -> None:
        answers = [message for before, message in self._said if before == messages[:at]]
        if messages[at] not in answers:
            raise AssertionError(
                f"message {at + 1} is not what the model said:\n  said:  {_told(said)}\n"
                f"  shown: {_told(messages[at])}"
            )


def _check_parts(at: int, message: Message) -> None:
    for kind, role in ((ToolCall, "assistant"), (ToolResult, "tool")):
        if message.role != role and any(isinstance(part, kind) for part in message.content):
            raise AssertionError(f"message {at + 1} has a {kind.__name__} under role {message.role!r}")
    if message.role == "tool" and not message.tool_results:
        raise AssertionError(f"message {at + 1} has role 'tool' and no results")


def _check_results(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
    wanted, found = [call.id for call in calls], [result.call_id for result in results]
    for call in calls:
        count = found.count(call.id)
        if count != 1:
            many = f"{count} results" if count else "no result"
            raise AssertionError(f"call {call.id!r} of {call.name!r} has {many}; {_results_told(results)}")
    for result in results:
        if result.call_id not in wanted:
            raise AssertionError(f"there is a result for {result.call_id!r}, which was not called here")
    if wanted != found:
        raise AssertionError(f"the results are not in the order of the calls: {found}, not {wanted}")
    for call, result in zip(calls, results, strict=True):
        if result.name not in ("", call.name):
            raise AssertionError(f"the result of {call.id!r} is from {result.name!r}, not {call.name!r}")


def _results_after(messages: Sequence[Message], at: int) -> Iterator[ToolResult]:
    at += 1
    while at < len(messages) and messages[at].role == "tool":
        yield from messages[at].tool_results
        at += 1


def _follows_calls(messages: Sequence[Message], at: int) -> bool:
    while at > 0 and messages[at].role == "tool":
        at -= 1
    return bool(messages[at].tool_calls)


# --- when asked for ------------------------------------------------------------


def in_prompt(text: str) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        prompt = next((m.text for m in reversed(request.messages) if m.role == "user"), None)
        _contains(prompt, text, "the last user message")

    return check


def in_results(text: str) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        results = [result for message in _since_user(request) for result in message.tool_results]
        shown = "\n".join(result.text for result in results) if results else None
        _contains(shown, text, "the tool results")

    return check


def in_instructions(text: str) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        said = [request.system, *(m.text for m in request.messages if m.role == "system")]
        shown = [part for part in said if part]
        _contains("\n".join(shown) if shown else None, text, "the instructions")

    return check


def tools_are(names: Iterable[str]) -> Callable[[Request], None]:
    wanted = sorted([names] if isinstance(names, str) else names)

    def check(request: Request) -> None:
        offered = sorted(tool.name for tool in request.tools)
        if offered != wanted:
            raise AssertionError(f"the tools should be {_names(wanted)}; they are {_names(offered)}")

    return check


def images_are(count: int) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        shown = sum(_images(message.content) for message in _since_user(request))
        if shown != count:
            raise AssertionError(f"it should be shown {count} images, and was shown {shown}")

    return check


def model_is(model: str) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        if request.model != model:
            raise AssertionError(f"the model should be {model!r}; it is {request.model!r}")

    return check


def passes(given: Callable[[Request], object]) -> Callable[[Request], None]:
    def check(request: Request) -> None:
        try:
            verdict = given(request)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"its check raised {type(error).__name__}: {error}") from error
        if verdict is False:
            name = getattr(given, "__name__", "check")
            raise AssertionError(f"its check {name} returned False; {last_of(request)}")

    return check


def last_of(request: Request) -> str:
    """The end of the conversation, for a message."""
    return f"the last message shown is {_told(request.messages[-1])}"


def _since_user(request: Request) -> Sequence[Message]:
    """The last user message and all that came after it."""
    at = max((i for i, message in enumerate(request.messages) if message.role == "user"), default=0)
    return request.messages[at:]


def _images(parts: Iterable[Part]) -> int:
    inner = sum(_images(part.content) for part in parts if isinstance(part, ToolResult))
    return inner + sum(isinstance(part, Image) for part in parts)


def _contains(shown: str | None, wanted: str, where: str) -> None:
    if shown is None:
        raise AssertionError(f"{wanted!r} should be in {where}, and there is nothing of the kind")
    if wanted not in shown:
        raise AssertionError(f"{wanted!r} should be in {where}; there is {_short(shown)!r}")


def _results_told(results: Sequence[ToolResult]) -> str:
    if not results:
        return "no results stand after the calls"
    return "the results are " + ", ".join(f"{r.call_id}: {_short(r.text)!r}" for r in results)


def _told(message: Message) -> str:
    return _short(encode_message(message).decode())


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _short(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 20]} … ({len(text):,} characters)"
