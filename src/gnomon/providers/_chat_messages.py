"""The messages of a request, in the words of Chat Completions.

One small function a kind of part. A message that is one plain text, as most are,
takes a short way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias, cast

import msgspec

from gnomon.errors import BadRequest
from gnomon.providers._calls import is_complete_json
from gnomon.providers._chat_quirks import ChatQuirks
from gnomon.providers._history import after_last_answer
from gnomon.providers._media import base64_text, data_url, media_bytes, media_type
from gnomon.providers._notes import Notes
from gnomon.providers._runs import SENT
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

__all__ = ["Made", "Messages", "Said"]


class Said(msgspec.Struct, gc=False):
    """A message that is one plain text. Not a dict: a long conversation has thousands."""

    role: str
    content: str


Made: TypeAlias = Meta | Said

_encode = msgspec.json.Encoder().encode


class Messages:
    """The list of messages, in the making."""

    def __init__(self, vendor: str, model: str, quirks: ChatQuirks, notes: Notes) -> None:
        self._vendor = vendor
        self._model = model
        self._quirks = quirks
        self._notes = notes
        self._made: list[Made] = []
        self._aside: list[Meta] = []
        """Parts that cannot stand where they were: a user message takes them, after the tool results."""
        self._answered = False
        """Whether the model has already answered what is being added: it must not be refused any more."""
        self._tools: frozenset[str] = frozenset()

    def of(self, request: Request, instructions: str | None = None) -> list[Made]:
        self._tools = frozenset(tool.name for tool in request.tools)
        system = [text for text in (request.system, instructions) if text]
        if self._quirks.system_first:
            return self._with_one_system(request, system)
        for text in system:
            self._made.append({"role": self._quirks.system_role, "content": text})
        self._add_all(request.messages)
        return self._made

    def _with_one_system(self, request: Request, system: list[str]) -> list[Made]:
        rest: list[Message] = []
        for message in request.messages:
            if message.role != "system":
                rest.append(message)
                continue
            if rest:
                self._notes.add(
                    "moved", "{vendor} takes system messages at the beginning only: one was moved there"
                )
            if message.name is not None:
                self._notes.add(
                    "unsupported_parameter", "the name of a system message was not sent", key="name"
                )
            system.append(self._system_text(message))
        self._flush()
        self._add_all(tuple(rest))
        whole = "\n\n".join(text for text in system if text)
        first: list[Made] = [{"role": self._quirks.system_role, "content": whole}] if whole else []
        return first + self._made

    def _add_all(self, messages: tuple[Message, ...]) -> None:
        new, roles = after_last_answer(messages), self._plain_roles()
        if new:
            self._answered = True
            self._add_answered(messages[:new], roles)
            self._answered = False
        self._add_each(messages[new:], roles)
        self._flush()

    def _add_answered(self, messages: tuple[Message, ...], roles: dict[str, str]) -> None:
        """What is in every request that follows is encoded once, as far as it stands for itself."""
        if type(self) is not Messages:  # others look again at what was made
            self._add_each(messages, roles)
            return
        rules = (Messages, self._vendor, self._model, self._quirks, self._tools)
        for run in SENT.of(messages, rules, lambda messages: self._alone(messages, roles)):
            if run.words is None or self._aside:
                self._add_each(run.messages, roles)
            else:
                self._made.append(cast(Made, run.words))  # several, with the commas between them

    def _alone(self, messages: tuple[Message, ...], roles: dict[str, str]) -> bytes | None:
        """The messages in words, if there is nothing to be noted of them, and nothing left to be added."""
        notes = Notes(self._vendor)
        made = Messages(self._vendor, self._model, self._quirks, notes)
        made._answered, made._tools = True, self._tools
        made._add_each(messages, roles)
        return _encode(made._made)[1:-1] if not made._aside and not notes.warnings() else None

    def _add_each(self, messages: tuple[Message, ...], roles: dict[str, str]) -> None:
        made = self._made
        for message in messages:
            content = message.content
            role = roles.get(message.role)
            # One plain text; nearly every message of a long conversation is.
            if role is not None and len(content) == 1 and message.name is None:
                part = content[0]
                if type(part) is Text and part.text and not part.meta:
                    if self._aside:
                        self._flush()
                    made.append(Said(role, part.text))
                    continue
            self._add(message)

    def _plain_roles(self) -> dict[str, str]:
        """The roles whose messages have nothing beside one plain text."""
        beside: Meta = {}
        self._add_thoughts(beside, [])
        roles = {"user": "user", "system": self._quirks.system_role}
        return roles if beside else {**roles, "assistant": "assistant"}

    def _add(self, message: Message) -> None:
        self._add_results(message)
        match message.role:
            case "system":
                self._flush()
                if text := self._system_text(message):
                    self._made.append(self._named(message, self._quirks.system_role, text))
            case "assistant":
                self._flush()
                self._add_assistant(message)
            case _:
                self._add_user(message)

    # --- what a user says, and the instructions ---

    def _add_user(self, message: Message) -> None:
        is_asked = message.role == "user" and not self._answered
        parts = self._content(message.content, self._part if is_asked else self._moved)
        if message.role == "tool":
            self._aside += parts  # results of the same message may still follow
            return
        self._flush()
        self._made.append(self._named(message, "user", self._shortest(parts)))

    def _system_text(self, message: Message) -> str:
        self._put_aside(message.content, "a system message")
        return "\n\n".join(part.text for part in message.content if isinstance(part, Text))

    def _content(self, content: tuple[Part, ...], make: Callable[[Part], Meta | None]) -> list[Meta]:
        return [made for part in content if (made := make(part)) is not None]

    def _shortest(self, parts: list[Meta]) -> str | list[Meta]:
        """A string where texts are all there is to send, as every server takes it."""
        if not parts:
            return ""
        texts = [part["text"] for part in parts if part["type"] == "text"]
        if len(texts) < len(parts):
            return parts
        if len(texts) > 1 and self._quirks.part_lists:
            return parts
        return "\n\n".join(str(text) for text in texts)

    def _named(self, message: Message, role: str, content: object) -> Meta:
        made: Meta = {"role": role, "content": content}
        if message.name is not None:
            if self._quirks.names:
                made["name"] = message.name
            else:
                self._notes.add("unsupported_parameter", "{vendor} takes no names of speakers", key="name")
        return made

    # --- what the model said ---

    def _add_assistant(self, message: Message) -> None:
        texts: list[str] = []
        refusals: list[str] = []
        calls: list[Meta] = []
        thoughts: list[Thinking] = []
        for part in message.content:
            if isinstance(part, Text):
                (refusals if part.meta.get("refusal") and self._quirks.refusals else texts).append(part.text)
            elif isinstance(part, ToolCall):
                calls.append(self._call(part))
            elif isinstance(part, Thinking) and self._is_own(part) and self._is_readable(part):
                thoughts.append(part)
        self._put_aside(message.content, "a message of the model's")
        made = self._named(message, "assistant", _said("".join(texts), refusals))
        if calls:
            made["tool_calls"] = calls
        self._add_thoughts(made, thoughts)
        if made["content"] is not None or calls or "reasoning_details" in made:
            self._made.append(made)

    def _is_own(self, part: Thinking) -> bool:
        return is_own(part, self._vendor, self._model, self._notes)

    def _is_readable(self, part: Thinking) -> bool:
        """What another API of the vendor signed or encrypted has no place in this one."""
        if (part.signature is None and part.redacted is None) or "reasoning_details" in part.meta:
            return True
        self._notes.add(
            "thinking_dropped", "thinking that another API of {vendor} gave was not sent: this one takes none"
        )
        return False

    def _add_thoughts(self, made: Meta, thoughts: list[Thinking]) -> None:
        details = [kept for part in thoughts if isinstance(kept := part.meta.get("reasoning_details"), str)]
        if details:
            made["reasoning_details"] = msgspec.Raw(_joined(details).encode())
            if not self._quirks.replay_empty:
                return
        text = "".join(part.text for part in thoughts)
        if self._quirks.replay is not None and (text or self._quirks.replay_empty):
            made[self._quirks.replay] = text

    def _call(self, call: ToolCall) -> Meta:
        made: Meta = {
            "id": self._id(call.id),
            "type": "function",
            "function": {"name": self._called(call.name), "arguments": self._arguments(call)},
        }
        kept = call.meta.get("extra_content")
        made_by = (call.meta.get("provider"), call.meta.get("model"))
        if isinstance(kept, str) and made_by == (self._vendor, self._model):
            made["extra_content"] = msgspec.Raw(kept.encode())
        return made

    def _called(self, name: str) -> str:
        """A name that models make up may hold what services refuse to read back; that of a tool they know."""
        return name if name in self._tools else _NOT_IN_NAMES.sub("_", name)[:64] or "_"

    def _id(self, call_id: str) -> str:
        """The id, or a short one that is always the same for it: a call and its result must agree."""
        longest = self._quirks.longest_id
        if longest is None or len(call_id) <= longest:
            return call_id
        return (
            "call_" + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[: longest - len("call_")]
        )

    def _arguments(self, call: ToolCall) -> str:
        """As they came, but for a server that reads them again and stumbles over half of them."""
        if self._quirks.broken_arguments or is_complete_json(call.arguments):
            return call.arguments
        self._notes.add(
            "arguments_rewritten", "arguments that a limit had cut off were sent as a text inside JSON"
        )
        return msgspec.json.encode({"cut_off": call.arguments}).decode()

    # --- what tools answered ---

    def _add_results(self, message: Message) -> None:
        for part in message.content:
            if isinstance(part, ToolResult):
                text = "\n".join(inner.text for inner in part.content if isinstance(inner, Text))
                moved = self._put_aside(part.content, f"the result of {part.name or 'a tool'}")
                if moved and not text:
                    text = "The result is shown in the next message."
                self._made.append(
                    {
                        "role": "tool",
                        "tool_call_id": self._id(part.call_id),
                        "content": text or ("" if part.status == "ok" else part.status),
                    }
                )

    def _put_aside(self, content: tuple[Part, ...], where: str) -> bool:
        """Media that cannot stand here go into a user message; the model is told where they are from."""
        parts = [made for part in content if not isinstance(part, Text) and (made := self._moved(part))]
        if parts:
            self._notes.add(
                "moved",
                f"{{vendor}} takes text only in {where}: what else was in it went into a user message",
                key=where,
            )
            self._aside.append({"type": "text", "text": f"From {where}:"})
            self._aside += parts
        return bool(parts)

    def _moved(self, part: Part) -> Meta | None:
        """What nobody asked to send, a tool's image say, must not end the conversation: the model is told."""
        try:
            return self._part(part)
        except BadRequest as refused:
            what = f"{type(part).__name__} left out: {refused.args[0]}"
            self._notes.add("media_left_out", what, key=what)
            return {"type": "text", "text": f"({what})"}

    def _flush(self) -> None:
        if self._aside:
            self._made.append({"role": "user", "content": self._shortest(self._aside)})
            self._aside = []

    # --- parts ---

    def _part(self, part: Part) -> Meta | None:
        match part:
            case Text():
                return {"type": "text", "text": part.text}
            case Image():
                return self._image(part)
            case Audio():
                return self._audio(part)
            case File():
                return self._file(part)
            case UnknownPart():
                self._notes.add(
                    "unknown_part", f"a part of the unknown kind {part.kind!r} was not sent", key=part.kind
                )
            case _:
                pass  # calls, results and thinking have places of their own
        return None

    def _image(self, part: Image) -> Meta:
        self._expect("image")
        if media_bytes(part) is not None:
            return {"type": "image_url", "image_url": {"url": data_url(part)}}
        if not self._quirks.image_urls:
            raise self._refused("images by address", "give the image by its bytes")
        return {"type": "image_url", "image_url": {"url": part.url}}

    def _audio(self, part: Audio) -> Meta:
        self._expect("audio")
        if media_bytes(part) is None:
            raise self._refused("audio by address", "give the audio by its bytes")
        kind = _AUDIO_FORMATS.get(media_type(part) or "")
        if kind is None or kind not in self._quirks.audio_formats:
            known = " and ".join(sorted(self._quirks.audio_formats))
            raise self._refused(f"audio of type {media_type(part)}", f"it takes {known}")
        return {"type": "input_audio", "input_audio": {"data": base64_text(part), "format": kind}}

    def _file(self, part: File) -> Meta:
        self._expect("file")
        name = part.name or "file"
        if media_bytes(part) is not None:
            return {"type": "file", "file": {"filename": name, "file_data": data_url(part)}}
        if not self._quirks.file_urls:
            raise self._refused("files by address", "give the file by its bytes")
        return {"type": "file", "file": {"filename": name, "file_data": part.url}}

    def _expect(self, kind: str) -> None:
        if kind not in self._quirks.media:
            raise self._refused(_PLURALS[kind], "leave it out, or ask another provider")

    def _refused(self, what: str, hint: str) -> BadRequest:
        return BadRequest(f"{what} cannot be sent", vendor=self._vendor, hint=hint)


_PLURALS = {"image": "images", "audio": "audio", "file": "files"}
_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/ogg": "ogg",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
    "audio/aiff": "aiff",
    "audio/x-aiff": "aiff",
}


_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def _said(text: str, refusals: list[str]) -> str | list[Meta] | None:
    if refusals:
        parts: list[Meta] = [{"type": "text", "text": text}] if text else []
        return parts + [{"type": "refusal", "refusal": refusal} for refusal in refusals]
    return text or None


def _joined(lists: list[str]) -> str:
    """Several JSON lists as one, without reading what is in them."""
    inner = [text.strip()[1:-1] for text in lists]
    return "[" + ",".join(text for text in inner if text.strip()) + "]"
