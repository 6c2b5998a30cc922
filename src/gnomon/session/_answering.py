"""Questions to a person: which one an answer is for, whether it fits, and that only the first counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gnomon.engine.fold import Fold
from gnomon.engine.journal import TRIES, crowded
from gnomon.engine.ledger import Ledger
from gnomon.errors import ApprovalRefused, InvalidInput, NotFound
from gnomon.session._input import as_answer
from gnomon.types.codec import encodable
from gnomon.types.events import QuestionAnswered, QuestionAsked
from gnomon.types.messages import Part, Text

__all__ = ["Reply", "questions"]


def questions(fold: Fold) -> tuple[QuestionAsked, ...]:
    """What a person is asked: by the calls of the session, and by its sub-agents."""
    turn = fold.open_turn
    return (*turn.open_questions, *turn.told_questions) if turn is not None else ()


class Reply:
    """What somebody answers to a question, which may be the only one."""

    def __init__(
        self, content: object, *, call_id: str | None, question_id: str | None, run_again: bool, by: str
    ) -> None:
        for name, given in {"call_id": call_id, "question_id": question_id, "by": by}.items():
            if not isinstance(given, str) and (given is not None or name == "by"):
                raise InvalidInput(f"{name} is a text, not {type(given).__name__}")
        self._parts = as_answer(content)
        if not self._parts and not run_again:
            raise InvalidInput("an answer is empty", hint="say what became of the call, or run_again=True")
        self._call_id = call_id
        self._question_id = question_id
        self._run_again = run_again
        self._by = encodable(by)

    def asked(self, session_id: str, fold: Fold) -> QuestionAsked:
        """The question that this answers, also where it is a sub-agent's."""
        waiting = questions(fold)
        found = [each for each in waiting if self._is_for(each)]
        if len(found) == 1:
            self.answered(found[0])
            return found[0]
        self._check_first(fold)
        raise self._not_found(session_id, waiting, found)

    def _is_for(self, asked: QuestionAsked) -> bool:
        by_question = self._question_id in (None, asked.question_id)
        return by_question and self._call_id in (None, asked.call_id)

    def answered(self, asked: QuestionAsked) -> QuestionAnswered:
        """The answer as it is written down, if it fits the question."""
        if self._run_again and not asked.unknown:
            raise InvalidInput(
                "the call asks something, and would only ask again", hint="answer what it asks"
            )
        content = _fitting(asked, self._parts)
        return QuestionAnswered(asked.call_id, content, self._run_again, self._by, asked.question_id)

    async def write(self, ledger: Ledger, asked: QuestionAsked, now: Callable[[], datetime]) -> None:
        """Write it down where the question was asked; one that comes too late ends the wait all the same."""
        self._call_id, self._question_id = asked.call_id, asked.question_id or None
        for _ in range(TRIES):
            turn = ledger.fold.open_turn
            own = [each for each in turn.open_questions if self._is_for(each)] if turn is not None else []
            if not own:
                self._check_first(ledger.fold)
                raise self._not_found(ledger.session_id, (), ())
            entry, expires_at = self.answered(own[0]), own[0].expires_at
            is_late = expires_at is not None and expires_at <= now()
            if is_late:
                entry = QuestionAnswered(asked.call_id, question_id=asked.question_id, expired=True)
            if await ledger.try_receive((entry,), ledger.fold.seq):
                if is_late:
                    raise _refused(f"it could be given until {expires_at:%Y-%m-%d %H:%M:%S} UTC")
                return
        raise crowded(ledger.session_id)

    def _check_first(self, fold: Fold) -> None:
        """A question is answered once, and whoever comes second is told who came first."""
        turn = fold.turn
        named = self._call_id or self._question_id
        if turn is None or named is None:
            return
        for given in (*turn.answers.values(), *turn.answered.values()):
            if named in (given.call_id, given.question_id):
                who = f" by {given.by}" if given.by else ""
                raise _refused(
                    "nobody had answered in time" if given.expired else f"it was answered{who} before"
                )

    def _not_found(
        self, session_id: str, waiting: Sequence[QuestionAsked], found: Sequence[QuestionAsked]
    ) -> NotFound:
        named, several = self._question_id or self._call_id, len(found or waiting)
        what = "no open question"
        if named is not None and not found:
            what = (
                f"no open question {named!r}" if self._question_id else f"no open question of call {named!r}"
            )
        elif several:
            what = f"{several} open questions, and which of them is answered was not said"
        names = ", ".join(_name(each) for each in waiting)
        hint = f"waiting: {names}" if names else "nothing waits for an answer"
        return NotFound(f"session {session_id!r} has {what}", hint=hint)


def _name(asked: QuestionAsked) -> str:
    return f"{asked.question_id} (call {asked.call_id})" if asked.question_id else asked.call_id


def _refused(why: str) -> ApprovalRefused:
    hint = "session.status.questions tells what is asked now"
    return ApprovalRefused(f"the answer does not count: {why}", hint=hint)


# --- one of several answers


def _fitting(asked: QuestionAsked, given: tuple[Part, ...]) -> tuple[Part, ...]:
    """What was given; where there are options it is of these, in their own words."""
    if not asked.options or not given:
        return given
    chosen = [_option(asked.options, part) for part in given]
    if len(chosen) > 1 and not asked.multiple:
        raise InvalidInput(
            f"one answer is to be chosen, and {len(chosen)} were given", hint=_known(asked.options)
        )
    # One line an option: a reader of texts would run several parts together.
    return (Text("\n".join(dict.fromkeys(chosen))),)


def _option(options: Sequence[str], part: Part) -> str:
    if not isinstance(part, Text):
        raise InvalidInput(f"a part of kind {type(part).__name__} is no answer here", hint=_known(options))
    wanted = part.text.strip()
    exact = [option for option in options if option.strip() == wanted]
    close = [option for option in options if option.strip().casefold() == wanted.casefold()]
    if len(found := exact[:1] or close) != 1:
        shown = wanted if len(wanted) <= 80 else f"{wanted[:80]}…"
        raise InvalidInput(f"{shown!r} is not one of the answers to choose from", hint=_known(options))
    return found[0]


def _known(options: Sequence[str]) -> str:
    return f"they are: {', '.join(map(repr, options))}"
