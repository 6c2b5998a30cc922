"""What an agent learns of counting: from what was reported, of who answered, and not too often."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gnomon.engine.accounts import Accounts
from gnomon.facts.catalogue import Catalogue
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request, Response, Usage


class Learner:
    """A counter that remembers which requests it was to learn from."""

    def __init__(self) -> None:
        self.learned: list[str] = []

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        return len(messages)

    def count_text(self, text: str) -> int:
        return len(text)

    def for_model(self, model: str) -> Learner:
        return self

    def count_request(self, request: Request) -> int:
        return len(request.messages)

    def observe(self, request: Request, response: Response) -> None:
        self.learned.append(request.model)


REQUEST = Request(messages=(Message.user("go"),), model="large")


def answer(provider: str = "acme", model: str = "large", **usage: object) -> Response:
    reported = Usage(**{"input_tokens": 3, "output_tokens": 2, **usage})
    return Response(
        message=Message.assistant("so"),
        stop_reason="end_turn",
        provider=provider,
        model=model,
        usage=reported,
    )


@pytest.fixture
def learner() -> Learner:
    return Learner()


@pytest.fixture
def accounts(learner: Learner) -> Accounts:
    return Accounts(lambda: learner, Catalogue(None))


def test_of_answers_that_come_thick_and_fast_one_in_a_tenth_of_a_second_is_learned_from(
    accounts: Accounts, learner: Learner
) -> None:
    """Learning costs more than an answer from a cache; what is left out comes again soon."""
    books = accounts.open("acme:large")
    for now, known in ((50.0, 1), (50.05, 1), (50.09, 1), (50.1, 2), (50.15, 2), (60.0, 3)):
        books.settled(REQUEST, answer(), now)
        assert len(learner.learned) == known, f"at {now}"


def test_the_pace_is_that_of_the_agent_and_not_of_each_turn(accounts: Accounts, learner: Learner) -> None:
    for _ in range(5):
        accounts.open("acme:large").settled(REQUEST, answer(), 50.0)
    assert len(learner.learned) == 1


def test_an_answer_that_teaches_nothing_does_not_hold_up_the_next(
    accounts: Accounts, learner: Learner
) -> None:
    books = accounts.open("acme:large")
    guess = answer(estimated=True)
    assert books.settled(REQUEST, guess, 50.0) is guess
    assert learner.learned == [], "what was only estimated is no report"
    books.settled(REQUEST, answer(), 50.0)
    assert learner.learned == ["large"]


def test_what_another_answered_is_learned_of_that_other(accounts: Accounts, learner: Learner) -> None:
    accounts.open("acme:large").settled(REQUEST, answer("other", "small"), 50.0)
    assert learner.learned == ["small"]


def test_a_counter_that_does_not_learn_is_not_asked_to(learner: Learner) -> None:
    class Plain:
        def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
            return 7 * len(messages)

        def count_text(self, text: str) -> int:
            return len(text)

    books = Accounts(lambda: Plain(), Catalogue(None)).open("acme:large")
    reported = answer()
    assert books.settled(REQUEST, reported, 50.0) is reported
    filled = books.settled(REQUEST, answer(input_tokens=None), 50.0).usage
    assert (filled.input_tokens, filled.output_tokens, filled.estimated) == (7, 2, True)
