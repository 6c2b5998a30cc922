"""YAML, as far as a file of settings needs it: tables, lists, text, numbers, true, false and nothing.

The tree is made from the parser's events, one after another: nothing is constructed that a tag names, and
a file that nests or repeats itself without end is refused where it begins to, before there is a tree of it.
Plain words mean what YAML 1.2 says: `no` and `2024-10-21` are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from gnomon._trust import one_line
from gnomon.agent_files._place import Place, Table
from gnomon.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    import yaml

__all__ = ["DEEPEST", "MOST_VALUES", "parse_yaml"]

DEEPEST = 32
MOST_VALUES = 20_000
"""Values in a file, counted as often as they are repeated by `*name`."""

_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]{1,40}|[0-9]{1,40}(?:\.[0-9]{0,40})?)(?:[eE][-+]?[0-9]{1,4})?")
_WHOLE = re.compile(r"[-+]?[0-9]{1,40}")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def parse_yaml(path: str, text: str) -> object:
    """What the one document of the file holds."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        hint = "install it: pip install 'gnomon[yaml]', or write the file as TOML or JSON"
        raise MissingExtra(f"{one_line(path)} is YAML, which needs PyYAML", hint=hint) from error
    parse = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]
    tree = _Tree(path)
    try:
        for event in parse(text, Loader=yaml.SafeLoader):
            tree.add(event)
    except yaml.MarkedYAMLError as error:
        raise _broken(path, error) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise InvalidInput(f"{one_line(path)} holds a character that YAML does not allow") from None
    return tree.root


def _broken(path: str, error: yaml.MarkedYAMLError) -> InvalidInput:
    """In the parser's words, without the lines of the file that it shows: they may hold keys."""
    mark = error.problem_mark or error.context_mark
    place = Place(path, line=mark.line + 1 if mark else None)
    return InvalidInput(f"{place}: not valid YAML: {one_line(error.problem or 'it ends too soon', most=120)}")


class _Repeated(NamedTuple):
    value: object
    size: int


class _Open:
    """A table or a list whose end has not come yet."""

    def __init__(self, value: Table | list[object], line: int, anchor: str | None, before: int) -> None:
        self.value = value
        self.line = line
        self.anchor = anchor
        self.before = before
        self.key: str | None = None
        self.merged: list[object] = []


class _Tree:
    """The values of a file, as its events come in."""

    def __init__(self, path: str) -> None:
        self.root: object = None
        self._path = path
        self._open: list[_Open] = []
        self._repeated: dict[str, _Repeated] = {}
        self._count = 0
        self._documents = 0

    def add(self, event: yaml.Event) -> None:
        import yaml

        line: int = event.start_mark.line + 1
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._refused(line, "a second document begins here, and a file has one")
            case yaml.AliasEvent():
                self._repeat(event.anchor, line)
            case yaml.ScalarEvent():
                self._place(self._scalar(event, line), line, event.anchor, 1)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._start(event, line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case _:
                pass

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        is_list = event.__class__.__name__ == "SequenceStartEvent"
        if event.tag not in (None, "!", f"{_TAG}seq" if is_list else f"{_TAG}map"):
            raise self._tagged(event.tag, line)
        if len(self._open) >= DEEPEST:
            raise self._refused(line, f"nested more than {DEEPEST} deep")
        self._open.append(_Open([] if is_list else Table(), line, event.anchor, self._count))

    def _end(self) -> None:
        ended = self._open.pop()
        if isinstance(ended.value, Table):
            for source in ended.merged:
                self._merge(ended.value, source, ended.line)
        self._place(ended.value, ended.line, ended.anchor, 1, size=self._count - ended.before + 1)

    def _repeat(self, name: str, line: int) -> None:
        known = self._repeated.get(name)
        if known is None:  # also for one that stands inside what it names
            raise self._refused(line, f"`*{one_line(name, most=60)}` repeats what is not there yet")
        self._place(known.value, line, None, known.size)

    def _place(self, value: object, line: int, anchor: str | None, count: int, size: int = 1) -> None:
        self._count += count
        if self._count > MOST_VALUES:
            raise self._refused(line, f"more than {MOST_VALUES} values, counting what `*name` repeats")
        if anchor is not None:
            self._repeated[anchor] = _Repeated(value, size)
        if not self._open:
            self.root = value
        elif isinstance(held := self._open[-1].value, list):
            held.append(value)
        else:
            self._set(self._open[-1], held, value, line)

    def _set(self, opened: _Open, table: Table, value: object, line: int) -> None:
        if opened.key is not None:
            if opened.key == "<<":
                opened.merged += cast("list[object]", value) if isinstance(value, list) else [value]
            else:
                table[opened.key] = value
            opened.key = None
            return
        if not isinstance(value, str):
            raise self._refused(line, "a key that is not text", hint="write it in quotes")
        if value in table:
            raise self._refused(line, f"the key `{one_line(value, most=60)}` stands twice in one table")
        table.lines[value] = line
        opened.key = value

    def _merge(self, table: Table, source: object, line: int) -> None:
        if not isinstance(source, Table):
            raise self._refused(line, "`<<` takes a table, or a list of tables")
        for name, value in source.items():
            if name not in table:
                table[name] = value
                table.lines[name] = source.lines[name]

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> object:
        if event.tag not in (None, "!", f"{_TAG}str"):
            raise self._tagged(event.tag, line)
        text: str = event.value
        if event.tag is not None or not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _WHOLE.fullmatch(text):
            return int(text)
        return float(text) if _NUMBER.fullmatch(text) else text

    def _tagged(self, tag: str, line: int) -> InvalidInput:
        shown = one_line(tag.replace(_TAG, "!!"), most=60)
        return self._refused(line, f"the tag `{shown}` is not read", hint="write plain values")

    def _refused(self, line: int, what: str, *, hint: str | None = None) -> InvalidInput:
        return InvalidInput(f"{Place(self._path, line=line)}: {what}", hint=hint)
