"""The messages of a request, as Ollama's chat API takes them.

A message is one text, beside it images and calls. A message that is one plain text, as most are,
takes a short way.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gnomon.errors import BadRequest
from gnomon.providers._history import after_last_answer
from gnomon.providers._media import Media, base64_text, media_bytes, media_type
from gnomon.providers._notes import Notes
from gnomon.providers._thinking import is_own
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Meta,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from gnomon.types.requests import Request

__all__ = ["Messages"]


class _Said(msgspec.Struct, gc=False):
    """A message that is one plain text. Not a dict: a long conversation has thousands."""

    role: str
    content: str


class _Gathered(msgspec.Struct):
    """What goes into one message: texts, and what is shown beside them as base64."""

    texts: list[str] = []
    shown: list[str] = []

    def message(self, role: str) -> Meta:
        made: Meta = {"role": role, "content": "\n\n".join(self.texts)}
        if self.shown:
            made["images"] = self.shown
        return made


_Made: TypeAlias = Meta | _Said


class Messages:
    """The list of messages, in the making."""

    def __init__(self, vendor: str, model: str, notes: Notes) -> None:
        self._vendor = vendor
        self._model = model
        self._notes = notes
        self._made: list[_Made] = []
        self._system: list[str] = []
        self._names: dict[str, str] = {}
        """The tool that each call was for: a result may not say."""
        self._aside = _Gathered()
        """Parts that cannot stand where they were: a user message takes them, after the tool results."""
        self._answered = False
        """Whether the model has already answered what is being added: it must not be refused any more."""

    def of(self, request: Request) -> list[_Made]:
        """One system message at the beginning: the templates of many models refuse it anywhere else."""
        if request.system:
            self._system.append(request.system)
        self._add_all(request.messages)
        whole = "\n\n".join(self._system)
        return [_Said("system", whole), *self._made] if whole else self._made

    def _add_all(self, messages: tuple[Message, ...]) -> None:
        new = after_last_answer(messages)
        if new:
            self._answered = True
            self._add_each(messages[:new])
            self._answered = False
        self._add_each(messages[new:])
        self._flush()

    def _add_each(self, messages: tuple[Message, ...]) -> None:
        made = self._made
        for message in messages:
            content = message.content
            # One plain text; nearly every message of a long conversation is.
            if len(content) == 1 and message.name is None and message.role in _PLAIN:
                part = content[0]
                if type(part) is Text and part.text:
                    if self._aside.texts:
                        self._flush()
                    made.append(_Said(message.role, part.text))
                    continue
            self._add(message)

    def _add(self, message: Message) -> None:
        if message.name is not None:
            self._notes.add("unsupported_parameter", "{vendor} takes no names of speakers", key="name")
        self._add_results(message)
        match message.role:
            case "system":
                self._add_system(message)
            case "assistant":
                self._flush()
                self._add_assistant(message)
            case "user":
                self._flush()
                self._add_user(message)
            case "tool":  # results of the same round may still follow
                self._put_aside(message.content, "a message of a tool", texts=True)

    # --- what a user says, instructions, and what the model said ---

    def _add_user(self, message: Message) -> None:
        found = _Gathered()
        put = self._put_if_possible if self._answered else self._put
        for part in message.content:
            put(part, found)
        if found.texts or found.shown or not message.tool_results:
            self._made.append(found.message("user"))

    def _add_system(self, message: Message) -> None:
        if self._made:
            self._notes.add(
                "moved", "models on {vendor} take system messages at the beginning: one was moved there"
            )
        self._put_aside(message.content, "a system message")
        self._system += [part.text for part in message.content if isinstance(part, Text) and part.text]

    def _add_assistant(self, message: Message) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[Meta] = []
        for part in message.content:
            if isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, Thinking) and self._is_own(part):
                thoughts.append(part.text)
            elif isinstance(part, ToolCall):
                calls.append(self._call(part, len(calls)))
        made: Meta = {"role": "assistant", "content": "".join(texts)}
        if thought := "".join(thoughts):
            made["thinking"] = thought
        if calls:
            made["tool_calls"] = calls
        if len(made) > 2 or made["content"]:
            self._made.append(made)
        self._put_aside(message.content, "a message of the model's")

    def _is_own(self, part: Thinking) -> bool:
        return is_own(part, self._vendor, self._model, self._notes)

    def _call(self, call: ToolCall, index: int) -> Meta:
        self._names[call.id] = call.name
        function = {"index": index, "name": call.name, "arguments": self._arguments(call.arguments)}
        return {"id": call.id, "function": function}

    def _arguments(self, text: str) -> object:
        """The text as it is, for it is an object; what is none is shown to the model inside of one."""
        if not text.strip():
            return {}
        try:
            _object(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            self._notes.add(
                "arguments_rewritten", "arguments that are no JSON object were sent as a text inside of one"
            )
            return {"cut_off": text}
        return msgspec.Raw(text.encode())

    # --- what tools answered ---

    def _add_results(self, message: Message) -> None:
        for part in message.content:
            if not isinstance(part, ToolResult):
                continue
            text = "\n".join(inner.text for inner in part.content if isinstance(inner, Text))
            name = part.name or self._names.get(part.call_id, "")
            moved = self._put_aside(part.content, f"the result of {name or 'a tool'}")
            if moved and not text:
                text = "The result is shown in the next message."
            made: Meta = {"role": "tool", "content": text or ("" if part.status == "ok" else part.status)}
            if name:
                made["tool_name"] = name
            self._made.append({**made, "tool_call_id": part.call_id})

    def _put_aside(self, content: tuple[Part, ...], where: str, *, texts: bool = False) -> bool:
        """What cannot stand here goes into a user message; the model is told where it is from."""
        found = _Gathered()
        for part in content:
            if texts or not isinstance(part, Text):
                self._put_if_possible(part, found)
        if not (found.texts or found.shown):
            return False
        self._notes.add(
            "moved", f"{{vendor}} takes text only in {where}: what else was in it went into a user message"
        )
        self._aside.texts += [f"From {where}:", *found.texts]
        self._aside.shown += found.shown
        return True

    def _put_if_possible(self, part: Part, into: _Gathered) -> None:
        """What nobody asked to send, a tool's image say, must not end the conversation: the model is told."""
        try:
            self._put(part, into)
        except BadRequest as refused:
            what = f"{type(part).__name__} left out: {refused.message}"
            self._notes.add("media_left_out", what, key=what)
            into.texts.append(f"({what})")

    def _flush(self) -> None:
        if self._aside.texts:
            self._made.append(self._aside.message("user"))
            self._aside = _Gathered()

    # --- parts ---

    def _put(self, part: Part, into: _Gathered) -> None:
        match part:
            case Text():
                into.texts.append(part.text)
            case Image():
                into.shown.append(self._by_value(part))
            case Audio():
                into.shown.append(self._audio(part))
            case File():
                self._put_file(part, into)
            case UnknownPart():
                self._notes.add(
                    "unknown_part", f"a part of the unknown kind {part.kind!r} was not sent", key=part.kind
                )
            case _:
                pass  # calls, results and thinking have places of their own

    def _by_value(self, part: Media) -> str:
        if media_bytes(part) is None:
            what = type(part).__name__.lower()
            raise self._refused(f"takes no {what} by its address", f"give the {what} by its bytes")
        return base64_text(part)

    def _audio(self, part: Audio | File) -> str:
        """Beside the images: the server tells them apart by their first bytes, and knows WAV."""
        sent = self._by_value(part)
        if (media_bytes(part) or b"")[8:12] != b"WAVE":
            kind = media_type(part) or "an unknown kind"
            raise self._refused(f"takes no audio of {kind}", "give it as WAV, of one channel at 16 kHz")
        return sent

    def _put_file(self, part: File, into: _Gathered) -> None:
        """An image as an image, and whatever is text as text: there is no place for others."""
        kind = media_type(part) or ""
        match kind.partition("/")[0]:
            case "image":
                into.shown.append(self._by_value(part))
            case "audio":
                into.shown.append(self._audio(part))
            case _:
                text = self._text_of(part, kind)
                into.texts.append(f"{part.name}:\n\n{text}" if part.name else text)

    def _text_of(self, part: File, kind: str) -> str:
        data = media_bytes(part)
        if data is None:
            raise self._refused("takes no file by its address", "give its text")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text or kind == "application/pdf":
            raise self._refused(
                f"takes images and text, and no {kind or 'file of its kind'}", "give its text"
            )
        return text

    def _refused(self, what: str, hint: str) -> BadRequest:
        return BadRequest(f"{self._vendor} {what}", vendor=self._vendor, hint=hint)


_PLAIN = frozenset({"user", "assistant"})
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
