"""What holds for conversations whoever is asked."""

from __future__ import annotations

from gnomon.types.messages import Message

__all__ = ["after_last_answer"]


def after_last_answer(messages: tuple[Message, ...]) -> int:
    """Where that begins which the model has not answered yet.

    What stands before it was taken once, by this model or by another: it is no reason to refuse.
    """
    answers = (number for number in range(len(messages), 0, -1) if messages[number - 1].role == "assistant")
    return next(answers, 0)
