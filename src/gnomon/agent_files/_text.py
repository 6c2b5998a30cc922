"""A file's bytes → tables, whatever it is written in. Its text never reaches a message: it may hold keys."""

from __future__ import annotations

import os
from typing import cast

from gnomon._trust import decoded, kind_of, one_line, parse_toml, read_file
from gnomon.agent_files._place import Place, Table
from gnomon.agent_files._yaml import DEEPEST, MOST_VALUES, parse_yaml
from gnomon.errors import InvalidInput

__all__ = ["LIMIT_BYTES", "read_tables", "read_text"]

LIMIT_BYTES = 1024 * 1024


def read_tables(path: str) -> dict[str, object]:
    """The tables of a YAML, TOML or JSON file, by its ending."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in (".yaml", ".yml", ".toml", ".json"):
        hint = "agent files end in .yaml, .yml, .toml or .json"
        raise InvalidInput(f"{one_line(path)} does not say what it is written in", hint=hint)
    content = _content(path)
    if ending == ".toml":
        tables: object = parse_toml(path, content)
    else:
        text = decoded(path, content)
        tables = _parse_json(path, text) if ending == ".json" else parse_yaml(path, text)
    if not isinstance(tables, dict):
        raise InvalidInput(f"{one_line(path)} should hold a table, found {kind_of(tables)}")
    _check_size(path, cast(object, tables))
    return cast("dict[str, object]", tables)


def read_text(path: str) -> str:
    """A file of plain text, such as instructions."""
    return decoded(path, _content(path))


def _content(path: str) -> bytes:
    content = read_file(path, limit_bytes=LIMIT_BYTES)
    if content is None:
        raise InvalidInput(f"{one_line(path)} does not exist")
    return content


def _parse_json(path: str, text: str) -> object:
    import json

    def table(pairs: list[tuple[str, object]]) -> Table:
        made = Table(pairs)
        if len(made) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(
                f"{one_line(path)}: the key `{one_line(twice, most=60)}` stands twice in one object"
            )
        return made

    try:
        return cast(object, json.loads(text, object_pairs_hook=table))
    except json.JSONDecodeError as error:
        place = f"{Place(path, line=error.lineno)}, column {error.colno}"
        raise InvalidInput(f"{place}: not valid JSON: {one_line(error.msg, most=120)}") from None
    except (ValueError, RecursionError):
        detail = "a number in it is too long, or its lists are nested too deep"
        raise InvalidInput(f"{one_line(path)} cannot be used: {detail}") from None


def _check_size(path: str, root: object) -> None:
    """Not by recursion: how deep it goes is up to whoever wrote the file."""
    left, count = [(root, 0)], 0
    while left:
        value, depth = left.pop()
        count += 1
        if depth > DEEPEST or count > MOST_VALUES:
            what = (
                f"nested more than {DEEPEST} deep"
                if depth > DEEPEST
                else f"of more than {MOST_VALUES} values"
            )
            raise InvalidInput(f"{one_line(path)} is {what}")
        if isinstance(value, dict):
            left += [(item, depth + 1) for item in cast("dict[str, object]", value).values()]
        elif isinstance(value, list):
            left += [(item, depth + 1) for item in cast("list[object]", value)]
