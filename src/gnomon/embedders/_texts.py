"""What is asked: the texts of a request or of a list, and the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gnomon.errors import BadRequest
from gnomon.types.documents import EmbeddingRequest

__all__ = ["asked", "expect_no_empty_text"]


def asked(request: EmbeddingRequest | Sequence[str], *, vendor: str, model: str) -> EmbeddingRequest:
    """The request, with the model that it means. A bare string is one text, not its characters."""
    if isinstance(request, EmbeddingRequest):
        given, named = cast("Sequence[str]", request.texts), request.model or model
    else:
        given, named = request, model
    texts = (given,) if isinstance(given, str) else tuple(given)
    for at, text in enumerate(cast("Sequence[object]", texts)):
        if not isinstance(text, str):
            raise BadRequest(f"text {at} is no text but {type(text).__name__}", vendor=vendor)
    return EmbeddingRequest(texts, named)


def expect_no_empty_text(texts: Sequence[str], vendor: str) -> None:
    """An empty text has no meaning that a vector could stand for, and services refuse it, or make one up."""
    if "" in texts:
        raise BadRequest(
            f"text {texts.index('')} is empty, and an empty text is not embedded",
            vendor=vendor,
            hint="leave it out",
        )
