"""What a docstring tells a model: the styles people write, and what none of them should do."""

from __future__ import annotations

import inspect
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import tool
from gnomon.tools._docstring import parse_docstring
from gnomon.tools._signature import read_docstring

NAMES = ("city", "days", "units")


def read(text: str, names: tuple[str, ...] = NAMES) -> tuple[str, dict[str, str]]:
    return tuple(parse_docstring(inspect.cleandoc(text), names))  # type: ignore[return-value]


GOOGLE = """The forecast for a city.

It is often wrong.

Args:
    city (str): its name,
        as a person would write it
    days (Optional[dict[str, int]], optional): how many

        days from today
    units:
        metric or not

Returns:
    The forecast, a line a day.

Raises:
    ToolFailed: when there is no such city.
    city: not help for the city
"""

NUMPY = """The forecast for a city.

It is often wrong.

Parameters
----------
city : str
    its name,
    as a person would write it
days, other : int, optional
    how many

    days from today
units : {'metric', 'other'}
    metric or not

Returns
-------
str
    The forecast, a line a day.

Raises
------
ToolFailed
    when there is no such city.
city
    not help for the city
"""

SPHINX = """The forecast for a city.

It is often wrong.

:param city: its name,
    as a person would write it
:type city: str
:param dict[str, int] days: how many

    days from today
:keyword units: metric or not
:returns: The forecast, a line a day.
:rtype: str
:raises ToolFailed: when there is no such city;
    city: not help for the city
"""

PLAIN = """The forecast for a city.

It is often wrong.

city: its name,
  as a person would write it
days: how many
  days from today
units: metric or not

Returns: The forecast, a line a day.
Raises: ToolFailed when there is no such city,
  city: not help for the city
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, PLAIN], ids=["google", "numpy", "sphinx", "plain"])
def test_every_style_says_the_same(text: str) -> None:
    description, helped = read(text)
    assert helped == {
        "city": "its name, as a person would write it",
        "days": "how many days from today",
        "units": "metric or not",
    }
    assert description.startswith("The forecast for a city.\n\nIt is often wrong.\n\nReturns:")
    assert description.endswith("The forecast, a line a day.")
    for left_out in ("Args", "Param", "ToolFailed", "rtype", "---", "not help", "\n\n\n", "units"):
        assert left_out not in description


def test_a_numpy_section_that_stays_is_written_with_a_colon() -> None:
    assert read(NUMPY)[0].partition("Returns")[2] == ":\nstr\n    The forecast, a line a day."


@pytest.mark.parametrize("style", ["Examples:\n    {}", "Examples\n--------\n{}"])
def test_examples_stay_unless_they_are_typed_at_a_python_prompt(style: str) -> None:
    for_a_model = "city: Rome, or Rome in Georgia"
    description, helped = read("Do.\n\n" + style.format(for_a_model))
    assert for_a_model in description
    assert helped == {}
    assert read("Do.\n\n" + style.format('>>> weather("Rome")'))[0] == "Do."


@pytest.mark.parametrize("heading", ["Returns", "Yields", "Note", "Notes", "Warning", "Warnings"])
def test_what_helps_a_model_to_use_it_stays(heading: str) -> None:
    assert read(f"Do.\n\n{heading}:\n    city: this.\n\nMore.") == (
        f"Do.\n\n{heading}:\n    city: this.\n\nMore.",
        {},
    )
    assert read(f"Do.\n\n{heading}\n-----\ncity: this.")[1] == {}


@pytest.mark.parametrize("heading", ["Raises", "See Also", "References", "Attributes", "Methods"])
def test_what_is_for_programmers_is_left_out(heading: str) -> None:
    assert read(f"Do.\n\n{heading}:\n    city: this.\n\n    That.\n\nMore.") == ("Do.\n\nMore.", {})
    assert read(f"Do.\n\n{heading}\n-----\ncity: this.\n\nNotes\n-----\nMore.") == (
        "Do.\n\nNotes:\nMore.",
        {},
    )


@pytest.mark.parametrize(
    "heading", ["Args", "Arguments", "Params", "Parameters", "Keyword Args", "Other Parameters", "args"]
)
def test_the_section_of_parameters_has_several_names(heading: str) -> None:
    assert read(f"Do.\n\n{heading}:\n    city: where") == ("Do.", {"city": "where"})


def test_help_that_goes_on_at_the_same_depth_is_still_help() -> None:
    assert read("Do.\n\nArgs:\n    city: its name,\n    as in English\n    days: how many")[1] == {
        "city": "its name, as in English",
        "days": "how many",
    }


def test_a_deeper_line_is_never_an_entry_of_its_own() -> None:
    assert read("Do.\n\nArgs:\n    city: one of\n        days: no entry")[1] == {
        "city": "one of days: no entry"
    }


def test_a_section_whose_lines_are_not_indented_reads_as_plain_lines() -> None:
    assert read("Do.\n\nArgs:\ncity: where\ndays: how many\n\nMore.") == (
        "Do.\n\nMore.",
        {"city": "where", "days": "how many"},
    )


def test_help_for_what_is_no_parameter_is_left_out_of_a_section_with_all_its_lines() -> None:
    text = "Do.\n\nArgs:\n    city: where\n    town: nowhere\n        at all\n    **days: how many"
    assert read(text) == ("Do.", {"city": "where", "days": "how many"})
    assert read("Do.\n\n:param town: nowhere\n    at all\n:param city: where") == ("Do.", {"city": "where"})
    text = "Do.\n\nParameters\n----------\ntown : str\n    nowhere\ncity\n    where"
    assert read(text) == ("Do.", {"city": "where"})


def test_a_type_in_brackets_may_hold_colons_and_brackets() -> None:
    text = 'Do.\n\nArgs:\n    city (Literal["a:b"], Callable[(int), str]): where\n    days (never closed: no'
    assert read(text)[1] == {"city": "where days (never closed: no"}


def test_prose_after_numpys_parameters_is_description_again() -> None:
    text = "Do.\n\nParameters\n----------\ncity : str\n    where\n\nIt may take long."
    assert read(text) == ("Do.\n\nIt may take long.", {"city": "where"})


def test_names_that_share_an_entry_share_its_help() -> None:
    assert read("Do.\n\nParameters\n----------\ncity, days : str\n    either")[1] == {
        "city": "either",
        "days": "either",
    }


@pytest.mark.parametrize(
    "line",
    [
        ":class:`City` is what it gives.",
        ":param:",
        ":note: it costs money",
        "Remember: it costs money",
        "city:",
        "city:where",
        "the city: Rome",
        "https://example.org/city: a page",
        "A heading\n=========",
        "Returns: a line a day",
        "::",
        ":",
        "---",
    ],
)
def test_what_only_looks_like_help_stays_in_the_description(line: str) -> None:
    assert read(f"Do.\n\n{line}\n\nMore.") == (f"Do.\n\n{line}\n\nMore.", {})


def test_a_parameter_may_be_called_like_a_section() -> None:
    text = "Do.\n\nArgs:\n    note: first\n    raises: second\n\nReturns: it"
    assert read(text, ("note", "raises")) == ("Do.\n\nReturns: it", {"note": "first", "raises": "second"})
    assert read("Do.\n\nRaises: the third", ("Raises",)) == ("Do.", {"Raises": "the third"})


def test_the_description_of_a_tool_is_without_its_parameters() -> None:
    @tool
    def weather(city: str) -> str:
        """The weather.

        Parameters
        ----------
        city : str
            where
        """
        return city

    assert weather.description == "The weather."
    assert weather.parameters["properties"] == {"city": {"type": "string", "description": "where"}}


def test_a_function_without_a_signature_has_a_description_all_the_same() -> None:
    assert read_docstring(max).description.startswith("max(")


@pytest.mark.parametrize(
    "piece",
    [
        "city ", "city(", "city (a)", " " * 9, ":param ", ":", "\n", "\n\n:type x:\n", "Args:\n",
        "Args:\n  a\n",
        "x\n---\n", "Parameters\n---\n", "\n city: x", "\n  city: x\n", "Returns:\n\n", "*", "a, ", "(((",
        "-", "\t",
    ],
)  # fmt: skip
def test_a_hostile_docstring_takes_no_longer_than_its_length(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    started = time.process_time()
    parse_docstring(text, NAMES)
    assert time.process_time() - started < 10


_WORDS = st.sampled_from(
    [
        "city: ",
        "Args:",
        "Parameters\n---",
        ":param city: ",
        "Returns:",
        "x",
        " ",
        "    ",
        "\n",
        "(",
        "---",
        ">>> ",
    ]
)


@given(st.lists(_WORDS, max_size=40).map("".join))
def test_no_docstring_breaks_the_reader_and_nothing_is_made_up(text: str) -> None:
    description, helped = parse_docstring(inspect.cleandoc(text), NAMES)
    assert helped.keys() <= set(NAMES)
    assert all(helped.values())
    written = set(text.split())
    for word in (" ".join((description, *helped.values()))).split():
        assert word.rstrip(":") in text or word in written
