"""`make docs`: writes the pages that are made from code.

A page here is a function without arguments that gives the whole text; `PAGES` says which file it
belongs to. `test_docs.py` fails when a file says something else than its function.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast, get_args

import powers

from gnomon import errors, registry
from gnomon.errors import GnomonError
from gnomon.types import events

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    for path in stale(ROOT):
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(PAGES[path](), "utf-8")
        print(f"wrote {path}")
    print(f"{len(PAGES)} pages are up to date: {', '.join(PAGES)}")
    return 0


def stale(root: Path) -> list[str]:
    """The pages under this folder that are missing or say something else than the code."""
    return [path for path, page in PAGES.items() if _text(root / path) != page()]


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


def _made_from(source: str) -> str:
    return f"<!-- Made by `make docs` from {source}; a change belongs there. -->\n"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *([_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- errors -----------------------------------------------------------------

_TREE_LINE = re.compile(r"^[│├└─\s]*(?P<name>[A-Z]\w+)(?:\s{2,}(?P<remark>\S.*))?$")
_FACT = re.compile(r"^(?:(?:retryable\b|\.\w+)[\s,;:]*)+")


def errors_page() -> str:
    tree, _, rest = (errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")
    return "\n".join(
        [
            _made_from("src/gnomon/errors.py"),
            "# Errors\n",
            "Everything Gnomon raises on purpose is a `GnomonError`. `code` is a slug that stays the same,",
            "`retryable` says whether trying again makes sense, and `hint` is a sentence on what to do, or",
            f"`None`. Secrets are taken out of every message.\n\n{inspect.cleandoc(rest)}\n",
            f"```text\n{inspect.cleandoc(tree)}\n```\n",
            _table(("error", "kind of", "code", "retryable", "what it means"), map(_error, error_tree())),
        ]
    )


def _error(error: type[GnomonError]) -> tuple[str, ...]:
    parent = "" if error is GnomonError else f"`{error.__base__.__name__}`"
    return (
        f"`{error.__name__}`",
        parent,
        f"`{error.code}`",
        "yes" if error.retryable else "no",
        meaning(error),
    )


def error_tree(error: type[GnomonError] = GnomonError) -> Iterator[type[GnomonError]]:
    """The error and all below it, in the order in which `errors.py` exports them."""
    yield error
    for name in errors.__all__:
        other = getattr(errors, name)
        if isinstance(other, type) and other.__bases__ == (error,):
            yield from error_tree(other)


def meaning(error: type[GnomonError]) -> str:
    """Its docstring, or else its remark in the tree."""
    written = inspect.cleandoc(error.__doc__) if error.__doc__ else ""
    text = " ".join((written or remarks(errors.__doc__ or "").get(error.__name__, "")).split())
    return text and text[0].upper() + text[1:].rstrip(".") + "."


def remarks(tree: str) -> dict[str, str]:
    """What the tree at the top of `errors.py` says beside each name, but for facts that have a column."""
    found = (_TREE_LINE.match(line) for line in tree.splitlines())
    return {line["name"]: _FACT.sub("", line["remark"]) for line in found if line and line["remark"]}


# --- events -----------------------------------------------------------------


class Struct(NamedTuple):
    """An event as it is written in the source."""

    name: str
    tag: str
    meaning: str
    fields: list[tuple[str, str, str]]


class Alias(NamedTuple):
    """A group of events that has a name."""

    name: str
    meaning: str


def events_page() -> str:
    source = inspect.getsource(events)
    known = {struct.name: struct for struct in structs(source)}
    response = ["Finish", *_members(events.StreamEvent)]
    session = [name for name in _members(events.Event) if name not in response]
    return "\n".join(
        [
            _made_from("src/gnomon/types/events.py"),
            f"# Events\n\n{inspect.getdoc(events)}\n",
            "On a wire an event is one JSON object; its `type` is the tag that stands below its name here.",
            f"This is version {events.WIRE_VERSION} of it.\n",
            "## Groups\n",
            _table(("name", "what it is", "events"), _groups(source)),
            "## Events of one response\n",
            *(_event(known[name]) for name in known if name in response),
            "## Events of a session\n",
            *(_event(known[name]) for name in known if name in session),
        ]
    )


def structs(source: str) -> Iterator[Struct]:
    """Every tagged struct of the source, in its order."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and (tag := _tag(node)):
            yield Struct(node.name, tag, ast.get_docstring(node) or "", list(_fields(node)))


def aliases(source: str) -> Iterator[Alias]:
    """Every type alias of the source, with the docstring below it."""
    body = ast.parse(source).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield Alias(ast.unparse(node.target), _string(below))


def _tag(node: ast.ClassDef) -> str:
    return next((ast.literal_eval(word.value) for word in node.keywords if word.arg == "tag"), "")


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign):
            default = ast.unparse(line.value) if line.value else ""
            yield ast.unparse(line.target), ast.unparse(line.annotation).replace('"', ""), default


def _string(node: ast.stmt | None) -> str:
    text = node.value if isinstance(node, ast.Expr) else None
    return str(text.value) if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def _groups(source: str) -> Iterator[tuple[str, str, str]]:
    named = {alias.name: getattr(events, alias.name) for alias in aliases(source)}
    meanings = dict(aliases(source))
    for name, group in named.items():
        if all(isinstance(member, type) for member in get_args(group)):
            yield f"`{name}`", meanings[name], _in_short(name, group, named)


def _in_short(name: str, group: object, named: dict[str, object]) -> str:
    """The members of a group, larger groups inside it by their name."""
    left, words = set(get_args(group)), list[str]()
    for other, inner in named.items():
        members = set(get_args(inner))
        if other != name and members < set(get_args(group)) and members <= left:
            left -= members
            words.append(f"`{other}`")
    return ", ".join(words + [f"`{member.__name__}`" for member in get_args(group) if member in left])


def _members(group: object) -> list[str]:
    return [member.__name__ for member in cast("tuple[type, ...]", get_args(group))]


def _event(struct: Struct) -> str:
    rows = [
        (f"`{name}`", f"`{kind}`", f"`{default}`" if default else "") for name, kind, default in struct.fields
    ]
    about = f"{struct.meaning}\n\n" if struct.meaning else ""
    return f"### {struct.name}\n\n`{struct.tag}`\n\n{about}{_table(('field', 'type', 'default'), rows)}"


# --- providers --------------------------------------------------------------


def providers_page() -> str:
    found = [(name, cast("type", registry.load("providers", name))) for name in registry.names("providers")]
    ours = [(name, kind) for name, kind in found if kind.__module__.startswith("gnomon.")]
    rows = ((f"`{name}`", f"`{kind.__name__}`", _model(kind), _first_line(kind)) for name, kind in ours)
    return (
        "\n".join(
            [
                _made_from("src/gnomon/registry.py, the providers' docstrings and tests/house/powers.py"),
                "# Providers\n",
                "A model is named as `provider:model`, or by the provider alone when its own choice will do.",
                "Other packages add theirs: [guides/add-a-provider.md](guides/add-a-provider.md).\n",
                _table(("name", "class", "model, when none is named", "what it is"), rows),
                "## What each of them carries\n",
                _table(powers.COLUMNS, powers.powers()),
                f"{powers.NOTES}\n",
                *(_provider(name, kind) for name, kind in ours),
            ]
        ).rstrip()
        + "\n"
    )


def _provider(name: str, kind: type) -> str:
    about = inspect.getdoc(kind) or _first_line(kind)
    excerpt = "<!-- not run: an excerpt from a docstring -->\n```python"
    settings = _settings(kind)
    if _named_only(kind):
        parent = kind.__bases__[0].name  # type: ignore[attr-defined]
        settings = f"Its settings are those of [{parent}](#{parent}).\n"
    return f"## {name}\n\n{about.replace('```python', excerpt)}\n\n{settings}"


def _settings(kind: type) -> str:
    rows = (
        (
            f"`{each.name}`",
            f"`{each.annotation}`",
            _default(each),
        )
        for each in inspect.signature(kind).parameters.values()
    )
    return _table(("setting", "type", "default"), rows)


def _default(setting: inspect.Parameter) -> str:
    """As it stands in the source; a function goes by its name."""
    if setting.default is setting.empty:
        return ""
    return f"`{getattr(setting.default, '__name__', repr(setting.default))}`"


def _model(kind: type) -> str:
    model = inspect.signature(kind).parameters.get("model")
    return f"`{model.default}`" if model and model.default and isinstance(model.default, str) else ""


def _first_line(kind: type) -> str:
    """A class that only gives another one a name is told of by its own docstring."""
    about = kind if _named_only(kind) else sys.modules[kind.__module__]
    return (inspect.getdoc(about) or "").partition("\n")[0]


def _named_only(kind: type) -> bool:
    return "__init__" not in vars(kind)


PAGES: dict[str, Callable[[], str]] = {
    "docs/errors.md": errors_page,
    "docs/events.md": events_page,
    "docs/providers.md": providers_page,
}

if __name__ == "__main__":
    sys.exit(main())
