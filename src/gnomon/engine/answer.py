"""The output an agent is to give: how a model is asked for it, and when it has been given.

A vendor that can be held to a schema is; another gets a tool whose arguments are
the output. What does not fit is told to the model, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gnomon.engine.output import OutputType, partial_of
from gnomon.errors import InvalidOutput
from gnomon.types.messages import Message, Meta, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import ToolChoice

__all__ = ["OUTPUT_TOOL", "Answer"]

OUTPUT_TOOL = "final_output"


class Answer:
    """What is asked for, and whether a message holds it."""

    def __init__(self, output: OutputType, mode: Literal["native", "tool"], repairs: int = 2) -> None:
        self.mode: Literal["native", "tool"] = mode
        self.repairs = repairs
        self._output = output

    @property
    def schema(self) -> Meta:
        return self._output.schema

    @property
    def opening(self) -> str:
        """The signs with which it may begin."""
        return self._output.opening

    @property
    def native_schema(self) -> Meta | None:
        return self._output.schema if self.mode == "native" else None

    @property
    def tools(self) -> tuple[ToolDef, ...]:
        if self.mode == "native":
            return ()
        text = "Give the final answer: call this once, alone, when everything else is done."
        if self._output.description:
            text = f"{text} {self._output.description}"
        return (ToolDef(name=OUTPUT_TOOL, description=text, schema=self.schema, read_only=True),)

    @property
    def tool_choice(self) -> ToolChoice | None:
        return "required" if self.mode == "tool" else None

    def value(self, messages: Sequence[Message]) -> object:
        """The output in the last message of a turn; `InvalidOutput` when there is none."""
        for message in reversed(messages):
            if message.role == "assistant":
                return self._output.parse(self.given(message))
        raise InvalidOutput("the model has said nothing")

    def given(self, message: Message) -> str:
        """The output as the message has it: what the output tool was called with, or the text."""
        calls = message.tool_calls if self.mode == "tool" else ()
        return next((call.arguments for call in calls if call.name == OUTPUT_TOOL), message.text)

    def partial(self, value: object) -> object:
        """As much of the output as there is."""
        return partial_of(self._output, value)

    def result(self, call: ToolCall) -> ToolResult:
        """What a call of the output tool comes to."""
        try:
            self._output.parse(call.arguments)
        except InvalidOutput as error:
            return ToolResult.of(call, f"not accepted: {error.message}", status="error")
        return ToolResult.of(call, "accepted")

    def complaint(self, error: InvalidOutput) -> Message:
        """What the model is told of an output that does not fit."""
        text = f"The answer does not have the form that was asked for: {error.message}"
        again = f"call {OUTPUT_TOOL}" if self.mode == "tool" else "answer again, with the JSON alone"
        return Message.user(f"{text}\nPlease {again}.")
