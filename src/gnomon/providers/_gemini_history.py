"""A conversation as the contents of Google's Gemini API.

The vendor wants turns: the user's first, the results of functions right after their calls,
nothing empty. A part with a thought signature returns as it came, and is put together with
no other. The same conversation always gives the same bytes, and one that has grown begins
with those it had before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from gnomon.errors import BadRequest
from gnomon.facts.replay import returns
from gnomon.providers._gemini import MODEL_META, SIGNATURE_META, SIGNED_META
from gnomon.providers._gemini_models import Family
from gnomon.providers._gemini_parts import (
    Block,
    Remarks,
    call_part,
    fits_in_result,
    is_source,
    media_part,
    own_part,
    tool_name,
)
from gnomon.providers._history import after_last_answer
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

__all__ = ["History"]

# https://ai.google.dev/gemini-api/docs/thought-signatures#faqs: for calls that the model did not make
# itself. It names two such words; https://cloud.google.com/vertex-ai/…/thought-signatures knows this one.
_UNSIGNED = "skip_thought_signature_validator"


class History:
    """Takes messages in, one after the other; `contents` and `system` are what to send."""

    def __init__(self, provider: str, model: str, family: Family, remarks: Remarks) -> None:
        self.contents: list[Block] = []
        self.system: list[str] = []
        self._provider = provider
        self._model = model
        self._family = family
        self._remarks = remarks
        self._turn = ""  # whose turn it is: "user", "model", or "results"
        self._names: dict[str, str] = {}  # of the functions that were called, by the id of the call
        self._new = False  # whether the model has not answered this yet

    def take(self, messages: tuple[Message, ...]) -> None:
        contents = self.contents
        first_new = after_last_answer(messages)
        for number, message in enumerate(messages):
            # Most messages are one plain text; this way is for them.
            content, role = message.content, message.role
            if len(content) == 1 and (role == "user" or role == "assistant"):
                part = content[0]
                if type(part) is Text and not part.meta and part.text and message.name is None:
                    turn = "model" if role == "assistant" else "user"
                    if turn != self._turn:
                        self._turn = turn
                        contents.append({"role": turn, "parts": [{"text": part.text}]})
                        continue
            self._new = number >= first_new
            self._add(message)
        self._end()

    def _add(self, message: Message) -> None:
        if message.name is not None:
            self._remarks.add("name_dropped", "gemini knows no names of speakers: they are not sent")
        if message.role == "system":
            self._instruct(message)
        elif message.role == "assistant":
            self._answer(message.content)
        else:
            self._input(message.content)

    def _put(self, turn: str, parts: list[Block]) -> None:
        if not parts:
            return
        if turn != self._turn:
            self._turn = turn
            self.contents.append({"role": "model" if turn == "model" else "user", "parts": []})
        cast("list[Block]", self.contents[-1]["parts"]).extend(parts)

    def _put_results(self, parts: list[Block]) -> None:
        """Right after the calls, also when somebody has spoken in between."""
        contents = self.contents
        if self._turn == "user" and len(contents) > 1 and _is_about_calls(contents[-2]):
            if contents[-2]["role"] == "model":
                contents.insert(-1, {"role": "user", "parts": []})
            cast("list[Block]", contents[-2]["parts"]).extend(parts)
        else:
            self._put("results", parts)

    def _end(self) -> None:
        if not self.contents:
            raise BadRequest(
                "there is nothing to send: no message says anything", vendor="gemini", hint="ask something"
            )
        if self.contents[0]["role"] == "model":
            self._remarks.add(
                "turn_added", "gemini wants the user to speak first: a turn was put before the answer"
            )
            self.contents.insert(0, _user("(The beginning is left out.)"))
        if self._names and self._family.signed_calls:
            self._sign_calls()
        if self._turn == "model" and not self._family.prefill:
            self._remarks.add(
                "turn_added", f"{self._model} does not continue an answer: a turn was added that asks it to"
            )
            self.contents.append(_user("Continue from where you stopped."))

    def _sign_calls(self) -> None:
        """The first call of a step must be signed, or say that it cannot be."""
        for content in self.contents:
            if content["role"] == "model":
                calls = (part for part in cast("list[Block]", content["parts"]) if "functionCall" in part)
                if (first := next(calls, None)) is not None:
                    first.setdefault("thoughtSignature", _UNSIGNED)

    # --- instructions

    def _instruct(self, message: Message) -> None:
        texts = [part.text for part in message.content if type(part) is Text and part.text]
        if any(type(part) is not Text for part in message.content):
            self._remarks.add("part_dropped", "gemini takes text as instructions: the rest is not sent")
        if texts and self.contents:
            self._remarks.add(
                "system_moved",
                "gemini takes no instructions in this place: they stand before the conversation instead",
            )
        self.system += texts

    # --- what the user's turn holds

    def _input(self, parts: Iterable[Part]) -> None:
        said: list[Block] = []
        show = self._shown if self._new else self._returned
        for part in parts:
            if type(part) is ToolResult:
                self._result(part, said)
            elif (block := show(part)) is not None:
                said.append(block)
        self._put("user", said)

    def _shown(self, part: Part) -> Block | None:
        """What a user, or a tool, shows to the model."""
        match part:
            case Text():
                return {"text": part.text} if part.text else None
            case Image() | Audio() | File():
                return media_part(part)
            case _:
                return self._left_out(part, "user")

    def _returned(self, part: Part) -> Block | None:
        """What a tool gave, or was answered once, must not end the conversation: the model is told of it."""
        try:
            return self._shown(part)
        except BadRequest as refused:
            what = f"{type(part).__name__} left out: {refused.message}"
            self._remarks.add("part_dropped", what)
            return {"text": f"({what})"}

    def _result(self, result: ToolResult, said: list[Block]) -> None:
        blocks = [block for part in result.content if (block := self._returned(part)) is not None]
        name = self._names.get(result.call_id)
        if name is None:
            self._remarks.add("result_moved", "a result without its call is sent to gemini as plain content")
            said += blocks
            return
        text = "\n".join(str(block["text"]) for block in blocks if "text" in block)
        media = [block for block in blocks if "text" not in block]
        fits = fits_in_result if self._family.media_in_results else _never
        inside = [block for block in media if fits(block)]
        outside = [block for block in media if not fits(block)]
        key, told = ("output", text) if result.status == "ok" else ("error", text or result.status)
        response: Block = {"id": result.call_id, "name": name, "response": {key: told}}
        if inside:
            response["parts"] = inside
        if outside:
            self._remarks.add(
                "part_moved", f"{self._model} takes no such media in a result: they stand behind it"
            )
        self._put_results([{"functionResponse": response}, *outside])

    # --- what the model said

    def _answer(self, parts: Iterable[Part]) -> None:
        self._put("model", [block for part in parts for block in self._pieces(part)])

    def _pieces(self, part: Part) -> list[Block]:
        """A part that was signed at its end goes back as the two that it came as."""
        block = self._said(part)
        if block is None:
            return []
        start = part.meta.get(SIGNED_META) if isinstance(part, Text | Thinking) else None
        if "thoughtSignature" not in block or not isinstance(start, int) or start <= 0:
            return [block]
        text = str(block["text"])
        before = {key: value for key, value in block.items() if key != "thoughtSignature"}
        return [{**before, "text": text[:start]}, {**block, "text": text[start:]}]

    def _said(self, part: Part) -> Block | None:
        match part:
            case Text():
                block = self._signed({"text": part.text}, part.meta)
                return block if part.text or "thoughtSignature" in block else None
            case ToolCall():
                self._names[part.id] = tool_name(part.name)
                return self._signed(self._call(part), part.meta)
            case Thinking():
                return self._thought(part)
            case Image() | Audio() | File():
                block = self._returned(part)
                return None if block is None else self._signed(block, part.meta)
            case UnknownPart():
                return self._own(part)
            case _:
                return self._left_out(part, "model")

    def _call(self, call: ToolCall) -> Block:
        block, rewritten = call_part(call)
        if rewritten:
            self._remarks.add(
                "arguments_rewritten", "arguments that are no JSON object were sent as a text inside of one"
            )
        return block

    def _signed(self, block: Block, meta: Meta) -> Block:
        """With the signature that came with it, for the model that gave it."""
        signature = meta.get(SIGNATURE_META)
        if signature is None:
            return block
        if meta.get(MODEL_META) == self._model:
            block["thoughtSignature"] = signature
        else:
            self._drop_signature()
        return block

    def _thought(self, part: Thinking) -> Block | None:
        """Thinking goes back to who made it, and to nobody else."""
        if not returns(part, self._provider, self._model):
            self._remarks.add(
                "thinking_dropped", f"thinking that is not {self._model}'s own is not sent to it"
            )
            return None
        block: Block = {"text": part.text, "thought": True}
        if part.signature is not None:
            block["thoughtSignature"] = part.signature
        return block if part.text or part.signature else None

    def _own(self, part: UnknownPart) -> Block | None:
        found = own_part(part, self._model)
        if found is None:
            return self._left_out(part, "model")
        if is_source(part):
            return None
        block, unsigned = found
        if unsigned:
            self._drop_signature()
        return block or None

    def _drop_signature(self) -> None:
        self._remarks.add(
            "thinking_dropped", f"thought signatures that are not {self._model}'s own are not sent to it"
        )

    def _left_out(self, part: Part, role: str) -> None:
        kind = part.kind if isinstance(part, UnknownPart) else type(part).__name__
        self._remarks.add("part_dropped", f"gemini takes no {kind} in the {role}'s turn: it is not sent")


def _user(text: str) -> Block:
    return {"role": "user", "parts": [{"text": text}]}


def _is_about_calls(content: Block) -> bool:
    parts = cast("list[Block]", content["parts"])
    return any("functionCall" in part or "functionResponse" in part for part in parts)


def _never(block: Block) -> bool:
    return False
