"""Three judges of a conversation that one provider made and another one sent.

- `invalid`: the request is one that the service takes.
- `lost`: all that was said is in the body, in its place, or a warning names it.
- `leaked`: what a model signed or encrypted goes back to it byte for byte, and to nobody else.

A warning *names* a thing by its code: `NAMED_BY` says which codes stand for what. One about media also
has to say of which kind: an image, audio or a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from pydantic import ValidationError
from switch_ends import End
from switch_histories import History
from switch_reading import Called, Seen, hash_of, seen
from switch_rules import broken_rules
from switch_secrets import Secret, secrets_in
from switch_stage import Asked

from gnomon.facts.replay import replay_of
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)

__all__ = ["NAMED_BY", "judged"]

_Media: TypeAlias = Image | Audio | File

NAMED_BY: Mapping[str, tuple[str, ...]] = {
    "thinking": ("thinking_dropped",),
    "media": ("media_left_out", "part_dropped", "dropped"),
    "unknown": ("unknown_part", "part_dropped"),
    "place": ("moved", "system_moved", "part_moved", "rewritten"),
    "calls": ("rewritten",),
    "arguments": ("arguments_rewritten",),
}
"""What is not there as it was → the codes of the warnings that say so."""


# fmt: off
_TAKE_THOUGHTS = frozenset({
    "deepseek", "fireworks", "gemini", "groq", "llamacpp", "local", "mistral", "ollama", "openrouter", "vllm",
})
# fmt: on
"""Who gets back what it thought also where that is not signed; others have no place for it."""


def judged(asked: Asked, history: History, source: End, target: End) -> list[str]:
    """What is wrong with what was sent, in sentences; nothing is as it should be."""
    if asked.received is None:
        return [f"nothing was sent: {asked.error!r}"]
    found = seen(target.form, asked.received.body)
    judge = _Judge(asked, history, source, target, found)
    return [*judge.invalid(), *judge.lost(), *judge.leaked()]


class _Judge:
    def __init__(self, asked: Asked, history: History, source: End, target: End, found: Seen) -> None:
        self._asked = asked
        self._messages = history.messages
        self._system = history.request.system
        self._source = source
        self._target = target
        self._seen = found

    def _warned(self, what: str, word: str = "") -> bool:
        """Whether a warning names it, and says the word."""
        codes = NAMED_BY[what]
        return any(
            warning.code in codes and word.lower() in warning.message.lower()
            for warning in self._asked.warnings
        )

    # --- what the service takes

    def invalid(self) -> Iterator[str]:
        assert self._asked.received is not None
        if self._asked.error is not None:
            yield f"it ended with {self._asked.error!r}"
        try:
            self._target.check(self._asked.received)
        except (AssertionError, ValidationError, msgspec.ValidationError) as error:
            yield f"not valid by the vendor's types: {error}"
        yield from broken_rules(self._seen, self._target)

    # --- what was said

    def lost(self) -> Iterator[str]:
        yield from self._lost_texts()
        yield from self._lost_media()
        yield from self._lost_thinking()
        yield from self._lost_unknown()
        if self._are_in_words():
            yield from self._lost_words_of_calls()
        else:
            yield from self._lost_calls()
            yield from self._lost_results()

    def _lost_texts(self) -> Iterator[str]:
        """Each with the one who said it, and in the order in which they spoke."""
        if self._system:
            yield from self._misplaced("system", self._system, 0)
        place = 0
        for message in self._messages:
            if message.role == "tool":
                continue
            for text in filter(str.strip, _texts_in(message.content)):
                found = self._turn_with(message.role, text, place)
                if found is None:
                    yield from self._misplaced(message.role, text, place)
                elif message.role != "system":
                    place = found

    def _misplaced(self, role: str, text: str, start: int) -> Iterator[str]:
        """Instructions may stand elsewhere, if a warning says so."""
        if self._turn_with(role, text, start) is not None:
            return
        if not any(text in one for one in self._seen.strings):
            yield f"the {role}'s text {text!r} is lost"
        elif role != "system" or not self._warned("place"):
            yield f"the {role}'s text {text!r} stands in another place, and no warning says so"

    def _turn_with(self, role: str, text: str, start: int) -> int | None:
        """Where it stands; it may be in pieces, as it came."""
        for place, turn in enumerate(self._seen.turns[start:], start):
            if turn.role == role and text in "".join(turn.texts):
                return place
        return None

    def _lost_media(self) -> Iterator[str]:
        """A warning stands for all that are alike: whoever takes one of them takes the others too."""
        found = [(kind, part, self._is_there(part)) for kind, part in _media_in(self._messages)]
        taken = {kind for kind, _, there in found if there}
        for kind, part, there in found:
            if not there and (kind in taken or not self._warned("media", type(part).__name__)):
                yield f"{type(part).__name__} {part.url or hash_of(part.data or b'')} is lost"

    def _is_there(self, part: _Media) -> bool:
        return hash_of(part.data) in self._seen.hashes if part.data else part.url in self._seen.strings

    def _lost_thinking(self) -> Iterator[str]:
        for part in _parts_of(self._messages):
            if isinstance(part, Thinking) and not self._warned("thinking") and self._is_missing(part):
                yield f"the thought {part.text!r} is lost"

    def _is_missing(self, part: Thinking) -> bool:
        """To the one who thought it, plain thinking returns only where the service has a place for it."""
        signed = any(True for _ in secrets_in([part]))
        if self._is_own() and not signed and self._target.provider not in _TAKE_THOUGHTS:
            return False
        if not part.text:  # what is encrypted returns, or goes to nobody: `leaked` looks at that
            return signed and not self._is_own()
        thoughts = [thought for turn in self._seen.turns for thought in turn.thoughts]
        said = "\n".join((*self._seen.strings, *thoughts, "".join(self._seen.strings)))
        return not all(piece in said for piece in part.text.split("\n\n"))  # as the summaries came

    def _lost_unknown(self) -> Iterator[str]:
        kinds = [part.kind for part in _parts_of(self._messages) if isinstance(part, UnknownPart)]
        if kinds and not self._warned("unknown") and self._target.provider != self._source.provider:
            yield f"parts of {sorted(set(kinds))} are lost"

    # --- calls and results

    def _lost_calls(self) -> Iterator[str]:
        calls = [part for part in _parts_of(self._messages) if isinstance(part, ToolCall)]
        sent = self._seen.calls
        if len(calls) != len(sent):
            yield f"{len(calls)} calls were made, and {len(sent)} are sent"
            return
        ids = {call.id: made.id for call, made in zip(calls, sent, strict=True)}
        if len(set(ids.values())) < len(calls):
            yield f"calls share their ids: {ids}"
        for call, made in zip(calls, sent, strict=True):
            yield from self._changed_call(call, made)

    def _changed_call(self, call: ToolCall, made: Called) -> Iterator[str]:
        if made.name != call.name and not _is_odd(call.name):
            yield f"the call of {call.name!r} is sent as one of {made.name!r}"
        if _value(made.arguments) == _value(call.arguments):
            return
        if _is_object(call.arguments) or not _holds(made.arguments, call.arguments):
            yield f"the arguments {call.arguments!r} are sent as {made.arguments!r}"
        elif call.arguments not in str(made.arguments) and not self._warned("arguments"):
            yield f"the arguments {call.arguments!r} are rewritten, and no warning says so"

    def _lost_results(self) -> Iterator[str]:
        """Each stands under the id of its call, with its texts."""
        calls = [part for part in _parts_of(self._messages) if isinstance(part, ToolCall)]
        ids = {call.id: made.id for call, made in zip(calls, self._seen.calls, strict=False)}
        sent = {result.id: result for result in self._seen.results}
        for result in _results_in(self._messages):
            found = sent.get(ids.get(result.call_id, ""))
            if found is None:
                yield f"the result of {result.call_id!r} is lost"
            elif not all(text in "\n".join(found.texts) for text in _texts_in(result.content)):
                yield f"the result of {result.call_id!r} is sent as {found.texts}"

    def _are_in_words(self) -> bool:
        return self._warned("calls") and not self._seen.calls

    def _lost_words_of_calls(self) -> Iterator[str]:
        """For a model without tools they are told in words."""
        said = "\n".join(text for turn in self._seen.turns for text in turn.texts)
        for part in _parts_of(self._messages):
            if isinstance(part, ToolCall) and (part.name not in said or part.arguments not in said):
                yield f"the call {part.name}({part.arguments}) is lost"
        for result in _results_in(self._messages):
            if not all(text in said for text in _texts_in(result.content)):
                yield f"the result of {result.call_id!r} is lost"

    # --- what was signed

    def leaked(self) -> Iterator[str]:
        for secret in secrets_in(_parts_of(self._messages)):
            there = any(secret.value in one for one in self._seen.strings)
            if there and not self._may_have(secret):
                yield f"{secret.name} {secret.value[:40]!r} went to another"
            if not there and self._must_have(secret):
                yield f"{secret.name} {secret.value[:40]!r} did not return"

    def _is_own(self) -> bool:
        """Whether the one who made it is the one who is asked."""
        same = (self._source.provider, self._source.model) == (self._target.provider, self._target.model)
        return same and self._source.form == self._target.form

    def _may_have(self, secret: Secret) -> bool:
        if secret.of_thinking and replay_of(self._target.provider) == "same_model":
            return self._is_own()
        return self._source.provider == self._target.provider

    def _must_have(self, secret: Secret) -> bool:
        if not self._is_own() or not secret.of_thinking:
            return False
        return not (self._are_in_words() and secret.value in self._signed_calls())

    def _signed_calls(self) -> set[str]:
        calls = [part for part in _parts_of(self._messages) if isinstance(part, ToolCall)]
        return {secret.value for secret in secrets_in(calls)}


# --- what a conversation holds --------------------------------------------------------


def _parts_of(messages: tuple[Message, ...]) -> list[Part]:
    return [part for message in messages for part in message.content]


def _results_in(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


def _texts_in(parts: tuple[Part, ...]) -> list[str]:
    return [part.text for part in parts if isinstance(part, Text)]


def _media_in(messages: tuple[Message, ...]) -> Iterator[tuple[str, _Media]]:
    """Each with what it is alike: what it is, how it is given, and by whom."""
    for message in messages:
        inner = [part for result in message.tool_results for part in result.content]
        for part in (*message.content, *inner):
            if isinstance(part, _Media):
                given = "value" if part.data else "address"
                yield f"{type(part).__name__} of {message.role} by {given}", part


# --- arguments ------------------------------------------------------------------------


def _value(arguments: object) -> object:
    """What the text stands for. An empty one is an empty object (S16)."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments) if arguments.strip() else {}
    except msgspec.DecodeError:
        return arguments


def _is_object(arguments: str) -> bool:
    return bool(arguments.strip()) and isinstance(_value(arguments), dict)


def _holds(sent: object, arguments: str) -> bool:
    """Whether what is no object stands, letter for letter, inside of one."""
    value = _value(sent)
    return isinstance(value, dict) and arguments in value.values()


def _is_odd(name: str) -> bool:
    """A name that no vendor would take back as it is."""
    return not name.replace("_", "").replace("-", "").isalnum() or not name.isascii() or len(name) > 64
