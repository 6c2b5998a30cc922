"""What a rule says of what a call touches: its paths, its commands and its hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from gnomon.engine._command_patterns import check_command, command_text, fits_command
from gnomon.engine._globs import check_pattern, fits, fits_all_below, may_fit_below
from gnomon.engine._host_patterns import check_host, fits_host
from gnomon.engine._matchers import Exact, Matcher, check_text
from gnomon.types.touches import Touches

__all__ = ["Part", "Truth", "covered_by", "is_touch_key", "parts_of", "settled_touch", "touched_by"]

Truth: TypeAlias = Literal["yes", "maybe", "no"]

_Kind: TypeAlias = Literal["command", "read", "write", "host"]

_KINDS: dict[str, tuple[_Kind, ...]] = {
    "@command": ("command",),
    "@host": ("host",),
    "@paths": ("read", "write"),
    "@reads": ("read",),
    "@writes": ("write",),
}


_TOLD = {"read": "read", "write": "write", "host": "reach"}


_PATHS = frozenset({"@paths", "@reads", "@writes"})


class Part(NamedTuple):
    """One thing that a call touches: a path, a host, or a command as its words."""

    kind: _Kind
    value: str | tuple[str, ...]

    def __str__(self) -> str:
        return (
            command_text(self.value)
            if isinstance(self.value, tuple)
            else f"to {_TOLD[self.kind]} {self.value!r}"
        )


def parts_of(touches: Touches) -> tuple[Part, ...]:
    """All that the call touches, as far as it is known."""
    return (
        *(Part("command", argv) for argv in touches.commands),
        *(Part("read", path) for path in touches.reads),
        *(Part("write", path) for path in touches.writes),
        *(Part("host", host) for host in touches.hosts),
    )


# --- what a rule may say


def is_touch_key(path: object) -> bool:
    """Whether it names what is touched, and no argument."""
    return isinstance(path, str) and path.startswith("@")


def settled_touch(key: str, matcher: object) -> Matcher:
    """A matcher as it is kept, where it can mean what it says."""
    if key not in _KINDS:
        raise ValueError(
            f"there is no {key!r}: what a call touches is {', '.join(_KINDS)}; "
            f"an argument of that name is written \\{key}"
        )
    if isinstance(matcher, Exact):
        return _settled_exact(key, matcher)
    if not isinstance(matcher, list | tuple):
        return _settled_pattern(key, matcher)
    several = tuple(_settled_pattern(key, one) for one in cast("list[object]", matcher))
    if not several:
        raise ValueError(f"the list for {key!r} is empty, so that nothing could match")
    return several


def _settled_exact(key: str, matcher: Exact) -> Exact:
    if key != "@command":
        raise ValueError(f"{key!r} is matched by patterns; with a backslash before it a star is a star")
    words = matcher.exact
    if not isinstance(words, list | tuple):
        raise ValueError(_NO_WORDS)
    if not words or not all(isinstance(each, str) for each in cast("Sequence[object]", words)):
        raise ValueError(_NO_WORDS)
    return matcher


_NO_WORDS = 'an exact \'@command\' is the list of its words, such as ["git","status"]'


def _settled_pattern(key: str, pattern: object) -> str:
    if not isinstance(pattern, str):
        raise ValueError(f"{key!r} is matched by text or a list of texts, not by a {type(pattern).__name__}")
    if not pattern:
        raise ValueError(f"the pattern for {key!r} is empty, so that nothing could match")
    check_text(pattern)
    if key == "@command":
        check_command(pattern)
    elif key == "@host":
        check_host(pattern)
    else:
        check_pattern(pattern)
    return pattern


# --- matching


def covered_by(where: Mapping[str, Matcher], parts: Sequence[Part]) -> frozenset[Part]:
    """What a rule allows of what is touched. One that names several kinds has to fit all there is of each."""
    found: set[Part] = set()
    for key, matcher in where.items():
        about = _about(key, parts)
        fitting = [part for part in about if _fits(matcher, part, widely=False)]
        if not fitting or (len(where) > 1 and len(fitting) < len(about)):
            return frozenset()
        found.update(fitting)
        if key == "@writes":  # to change a file is also to see what was there
            found.update(part._replace(kind="read") for part in fitting)
    return frozenset(found)


def touched_by(where: Mapping[str, Matcher], touches: Touches | None) -> Truth:
    """Whether a rule that asks or denies is about what is touched: any part of each kind is enough.

    `None` is a tool that does not say what it touches. A command may change and read any file by itself,
    whatever its words are.
    """
    if touches is None:
        return "maybe"
    parts, found = parts_of(touches), set[Truth]()
    for key, matcher in where.items():
        is_all = not touches.unknown and not (touches.commands and key in _PATHS)
        found.add(_truth(matcher, _about(key, parts), is_all=is_all))
    return "no" if "no" in found else "maybe" if "maybe" in found else "yes"


def _truth(matcher: Matcher, about: Sequence[Part], *, is_all: bool) -> Truth:
    if any(_fits(matcher, part, widely=True) for part in about):
        return "yes"
    if is_all and not any(_may_fit_below(matcher, part) for part in about):
        return "no"
    return "maybe"


def _about(key: str, parts: Sequence[Part]) -> list[Part]:
    kinds = _KINDS[key]
    return [part for part in parts if part.kind in kinds]


def _fits(matcher: Matcher, part: Part, *, widely: bool) -> bool:
    if isinstance(matcher, Exact):
        return _is_exactly(cast("Sequence[str]", matcher.exact), part.value)
    return any(_fits_pattern(pattern, part, widely=widely) for pattern in _patterns(matcher))


def _patterns(matcher: Matcher) -> Iterator[str]:
    for each in matcher if isinstance(matcher, tuple) else (matcher,):
        yield cast(str, each)


def _fits_pattern(pattern: str, part: Part, *, widely: bool) -> bool:
    if isinstance(part.value, tuple):
        return fits_command(pattern, part.value, widely=widely)
    if part.kind == "host":
        return fits_host(pattern, part.value, widely=widely)
    if not widely and part.value.endswith("/"):
        return fits_all_below(pattern, part.value)
    return fits(pattern, part.value, widely=widely)


def _is_exactly(words: Sequence[str], argv: str | tuple[str, ...]) -> bool:
    return tuple(words) == argv


def _may_fit_below(matcher: Matcher, part: Part) -> bool:
    """Whether something in a folder that is touched as a whole may be what is meant."""
    if isinstance(part.value, tuple) or part.kind == "host" or not part.value.endswith("/"):
        return False
    return any(may_fit_below(pattern, part.value) for pattern in _patterns(matcher))
