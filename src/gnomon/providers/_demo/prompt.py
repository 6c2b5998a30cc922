"""What the demo model makes out of a prompt: its words, and the values that stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, cast

__all__ = ["Asked", "all_words", "stem", "words"]

_LONG = 600
_PARAGRAPH = 300

_SMALL_WORDS = """
    a an and any are as at be been but by can could did do does for from had has have how i if in into is
    it its itself just let like me my of on or our please say shall should so some such than that the their
    them then there these they thing this those to us want was we were what when where which who whom why
    will with would you your about all also each every no not only other out up
"""
_STOP = frozenset(_SMALL_WORDS.split())
_ENDINGS = (
    "ations ation ators ator ating ates ated ate ings ing ions ion ities ity ies ers er ors or ed es s e y"
)
_LATER = "today|tomorrow|yesterday|now|right now|please|there|then|thanks|thank you"
_HANDING = "(?:ask|tell|let|have|get|use|give|hand|delegate|spawn|start)"
_OTHERS = "(?:sub-?agents?|helpers?|another agent)"
_FUNCTIONS = "sqrt|abs|round|min|max|pi"
_WRITTEN_OTHERWISE = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**"})
_OPERATORS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/"}


def words(text: str) -> list[str]:
    """The telling words of a text or a name, stemmed: `getWeather` and "the weather" share one."""
    return [stem(word) for word in _split(text) if word not in _STOP]


def all_words(text: str) -> list[str]:
    """Every word of a text or a name, stemmed, the small ones too."""
    return [stem(word) for word in _split(text)]


def stem(word: str) -> str:
    """The word without its ending: calculate, calculator and calculation are one."""
    for suffix in _ENDINGS.split():
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def _split(text: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return [word.lower() for word in re.findall(r"[^\W\d_]{2,}", spaced)]


class Asked:
    """A prompt, read: each property is found when it is first wanted."""

    FINDABLE: ClassVar = {
        "expression": "expressions",
        "url": "urls",
        "email": "emails",
        "path": "paths",
        "zone": "zones",
        "date": "dates",
    }
    """What has a shape of its own, so that it is found wherever it stands."""

    def __init__(self, text: str) -> None:
        self.whole = text
        self.text = _question(text)

    @cached_property
    def words(self) -> dict[str, str]:
        """Its telling words: each stem, and the word as it was written."""
        return {stem(word): word for word in _split(self.text) if word not in _STOP}

    @cached_property
    def pairs(self) -> set[str]:
        """Neighbouring words in one: "look up" may mean a tool called `lookup`."""
        plain = _split(self.text)
        return {one + other for one, other in pairwise(plain)}

    def found(self, purpose: str) -> list[str]:
        """All that stands here for a purpose, one of `FINDABLE`."""
        return cast("list[str]", getattr(self, self.FINDABLE[purpose]))

    @cached_property
    def expressions(self) -> list[str]:
        """Arithmetic, in the order in which it stands."""
        text = self.text.translate(_WRITTEN_OTHERWISE)
        for word, sign in _OPERATORS.items():
            text = re.sub(rf"(?<=[\d)])\s+{word}\s+(?=[\d(-])", f" {sign} ", text, flags=re.IGNORECASE)
        runs = re.findall(rf"(?:\b(?:{_FUNCTIONS})\b|(?<![\w.])\d[\d_.]*(?!\w)|[-+*/%().,\s])+", text)
        return list(dict.fromkeys(found for run in runs for found in _arithmetic(run)))

    @cached_property
    def quoted(self) -> list[str]:
        found = re.findall(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)", self.text)
        return [next(filter(None, groups)) for groups in found]

    @cached_property
    def numbers(self) -> list[int | float]:
        found = re.findall(r"(?<![\w.])[-−]?\d[\d,_]*(?:\.\d+)?(?![\w]|\.\d)", self.text)
        return [_number(text) for text in found]

    @cached_property
    def urls(self) -> list[str]:
        return [url.rstrip(".,;:!?)") for url in re.findall(r"\bhttps?://[^\s\"'<>]+", self.text)]

    @cached_property
    def emails(self) -> list[str]:
        return re.findall(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", self.text)

    @cached_property
    def paths(self) -> list[str]:
        """What looks like a file or a folder: README.md, ./src, /etc/hosts."""
        plain = re.sub(r"\bhttps?://\S+|\S+@\S+", " ", self.text)
        found = re.findall(
            r"(?<!\S)(?:[~.]{0,2}/[\w./-]*|\w[\w-]*(?:/[\w.-]+)+|[\w-]+\.[A-Za-z]\w{0,4})", plain
        )
        return [path.rstrip(".") or path for path in found]

    @cached_property
    def zones(self) -> list[str]:
        return re.findall(r"\b[A-Z]\w+(?:/[A-Z][\w+-]+)+", self.text)

    @cached_property
    def dates(self) -> list[str]:
        return re.findall(r"\b\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?", self.text)

    @cached_property
    def values(self) -> list[str]:
        """What the prompt is about: what is quoted, else names, else what stands after a preposition."""
        if self.quoted:
            return self.quoted
        phrases = [_listed(phrase) for phrase in self._phrases("in|for|of|at|about|from|to|on|with")]
        named = [item for phrase in phrases if any(map(_is_name, phrase)) for item in phrase]
        named += [name for name in self._names if not any(name in item for item in named)]
        found = named or [item for phrase in phrases for item in phrase] or self._opening_names
        return list(dict.fromkeys(found))

    @cached_property
    def topic(self) -> str:
        """What is asked for, as a phrase: all after "for", "about" or a colon, or the whole prompt."""
        if self.quoted:
            return self.quoted[0]
        found = re.search(r"\b(?:for|about|saying|that says)\s+(\S[^\n]*)", self.text, re.IGNORECASE)
        found = found or re.match(r"[\w\s,-]{1,60}:\s+(\S[^\n]*)", self.text)
        return (found[1] if found else self.text).strip().rstrip("?!. ")

    @cached_property
    def handed_on(self) -> str:
        """What another agent is to be asked for; empty where the prompt wants nothing of that."""
        handing = rf".*\b{_HANDING}\b.{{0,40}}?\b{_OTHERS}\b[\s:,]*(?:to\s+)?(\S.*)"
        found = re.match(handing, self.text, re.IGNORECASE | re.DOTALL)
        return found[1].strip() if found and re.search(r"\w", found[1]) else ""

    def after(self, prepositions: str) -> str | None:
        """What stands after one of these words."""
        return next((item for phrase in self._phrases(prepositions) for item in _listed(phrase)), None)

    def beside(self, name: str) -> str | None:
        """The value that is given for a name: `city=Rome`, `city: "New York"`."""
        if not (bare := name.strip("_-")):
            return None
        spoken = r"[\s_-]*".join(map(re.escape, re.split(r"[_-]+", bare)))
        value = r"(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`|([^\s,;\"'`]+))"
        found = re.search(rf"\b{spoken}\s*[=:]\s*{value}", self.text, re.IGNORECASE)
        return next(filter(None, found.groups())).rstrip(".?!)") or None if found else None

    def count_of(self, name: str) -> int | float | None:
        """The number that goes with a name: `3 days`, `days 3`, `days=3`."""
        if not (bare := name.replace("_", " ").strip().rstrip("s")):
            return None
        spoken = re.escape(bare) + "s?"
        number = r"([-−]?\d[\d,_]*(?:\.\d+)?)"
        patterns = (rf"\b{spoken}\s*(?:[=:]|\bis\b|\bof\b)?\s*{number}", rf"(?<!\w){number}\s*-?{spoken}\b")
        found = next((hit for p in patterns if (hit := re.search(p, self.text, re.IGNORECASE))), None)
        return _number(found[1]) if found else None

    def mentions(self, phrase: str) -> bool:
        """Whether the phrase stands in the prompt, as whole words."""
        spoken = r"[\s_-]+".join(map(re.escape, re.split(r"[\s_-]+", phrase.strip("_- "))))
        return bool(spoken) and bool(re.search(rf"(?<!\w){spoken}(?!\w)", self.text, re.IGNORECASE))

    def _phrases(self, prepositions: str) -> list[str]:
        end = rf"(?=[?!;:\n]|\.(?:\s|$)|\s(?:in|for|of|at|about|from|to|on|with|is|are|{_LATER})\b|$)"
        found = re.findall(rf"\b(?:{prepositions})\s+(\S.*?){end}", self.text, re.IGNORECASE)
        return [re.sub(rf"\W+(?:{_LATER})$", "", phrase, flags=re.IGNORECASE) for phrase in found]

    @cached_property
    def _names(self) -> list[str]:
        """Capitalised words, those left out that only begin a sentence."""
        return [rest for _, rest in self._capitalised if rest]

    @cached_property
    def _opening_names(self) -> list[str]:
        return [name for name, rest in self._capitalised if not rest and name.lower() not in _STOP]

    @cached_property
    def _capitalised(self) -> list[tuple[str, str]]:
        """Runs of capitalised words: as they stand, and without a first word that begins a sentence."""
        found: list[tuple[str, str]] = []
        for run in re.finditer(r"[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*)*", self.text):
            before = self.text[: run.start()].rstrip(" \t\"'“(")
            opens = not before or before[-1] in ".?!\n"
            name = re.sub(r"^I(?:['’]\w+)?(?:\s+|$)", "", run[0])
            found.append((name, name.partition(" ")[2] if opens else name))
        return [(name, rest) for name, rest in found if name]


def _question(text: str) -> str:
    """What is asked, when a long text comes with it: the question stands before it or after it."""
    if len(text) <= _LONG:
        return text
    bare = _without_tagged(text).strip() or text.strip()
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", bare)]
    ends = dict.fromkeys((paragraphs[0], paragraphs[-1]))
    short = [part for part in ends if len(part) <= _PARAGRAPH]
    return "\n".join(short) or bare[:_PARAGRAPH]


def _without_tagged(text: str) -> str:
    """The text without what stands between tags, as piped text does."""
    opening = re.search(r"<(\w+)>\n", text)
    end = text.rfind(f"\n</{opening[1]}>") if opening else -1
    return text[: opening.start()] + text[end:].partition(">")[2] if opening and end >= 0 else text


def _listed(phrase: str) -> list[str]:
    """The items of "Rome, Paris and Oslo, and what…", without articles and what is no item."""
    items = re.split(r"\s*,\s*(?:and|or)\s+|\s*,\s*|\s+(?:and|or|&)\s+", phrase.strip())
    bare = (re.sub(r"^(?:the|a|an|my|your|our)\s+", "", item.strip(" \"'“”.,"), flags=re.I) for item in items)
    return [item for item in bare if item and item.split()[0].lower() not in _STOP]


def _is_name(text: str) -> bool:
    return text[:1].isupper()


def _number(text: str) -> int | float:
    plain = text.replace(",", "").replace("_", "").replace("−", "-")
    return float(plain[:18]) if "." in plain else int(plain[:18])


def _arithmetic(run: str) -> Iterator[str]:
    """The expressions in a run of digits and signs: the whole of it, or its pieces between commas."""
    whole = _trimmed(run)
    if _computes(whole):
        yield whole
        return
    pieces: Iterable[str] = re.split(r",|\.\s|\s{2,}", run)
    yield from (piece for piece in map(_trimmed, pieces) if _computes(piece))


def _trimmed(run: str) -> str:
    text = " ".join(run.split()).strip(" .,*/%")
    while text.endswith(("(", "+", "-", " ", ",")):
        text = text[:-1]
    excess = text.count("(") - text.count(")")
    if excess > 0 and text.startswith("(" * excess):
        return text[excess:].strip()
    return text[:excess].strip() if excess < 0 and text.endswith(")" * -excess) else text


def _computes(text: str) -> bool:
    import ast

    if not re.search(r"\d", text) or len(text) > _LONG:
        return False
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return isinstance(tree, ast.BinOp) or (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name))
