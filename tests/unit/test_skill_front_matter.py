"""The head of a SKILL.md, as far as YAML is read there; PyYAML agrees wherever it reads the same."""

from __future__ import annotations

from contextlib import suppress

import pytest
import yaml

from gnomon.errors import InvalidInput
from gnomon.skills._front_matter import split_front_matter


def fields(head: str) -> dict[str, str]:
    return split_front_matter("SKILL.md", f"---\n{head}\n---\nbody")[0]


@pytest.mark.parametrize(
    ("head", "description"),
    [
        ("description: Draws charts.", "Draws charts."),
        ("description:   Draws charts.   ", "Draws charts."),
        ("description: Draws charts. # for people", "Draws charts."),
        ("description: 'It''s a chart: draw it'", "It's a chart: draw it"),
        ('description: "Draws \\"charts\\"\\tand \\\\more" # so', 'Draws "charts"\tand \\more'),
        ("description: >\n  Draws\n  charts.", "Draws charts."),
        ("description: >-\n  Draws\n  charts.\nlicense: MIT", "Draws charts."),
        ("description: |\n  Draws\n  charts.", "Draws\ncharts."),
        ("description: Draws\n  charts\n  well.", "Draws charts well."),
        ("description: 'Draws\n  charts.'", "Draws charts."),
        ("# a comment\n\ndescription: Draws charts.\n", "Draws charts."),
        (
            "metadata:\n  author: somebody\n  description: not this\ndescription: Draws charts.",
            "Draws charts.",
        ),
        ("allowed-tools:\n- Read\n- Bash(git:*)\ndescription: Draws charts.", "Draws charts."),
        ("allowed-tools:\n  - Read\n\n  - Write\ndescription: Draws charts.", "Draws charts."),
        ("description: 図を描く。", "図を描く。"),
    ],
)
def test_the_head_means_what_yaml_says(head: str, description: str) -> None:
    assert fields(head)["description"] == description
    assert yaml.safe_load(head)["description"].strip() == description


def test_a_colon_in_plain_text_is_taken_as_it_was_meant() -> None:
    assert fields("description: Use when: asked")["description"] == "Use when: asked"


def test_lists_and_tables_are_passed_over() -> None:
    assert fields("metadata: {a: 1}\ntags: [a, b]\nempty:\nname: x") == {
        "metadata": "",
        "tags": "",
        "empty": "",
        "name": "x",
    }


def test_the_body_is_what_comes_after() -> None:
    text = "---\r\nname: x\r\n---\r\n\r\n# Title\r\n\r\n---\r\nmore\r\n"
    assert split_front_matter("SKILL.md", text) == ({"name": "x"}, "# Title\n\n---\nmore")


@pytest.mark.parametrize(
    "head", ["just words", "  name: x", "- item", "na me: x", "name:x", "? key", "x" * 65 + ": y"]
)
def test_a_line_that_is_none_of_it_is_refused_with_its_number(head: str) -> None:
    with pytest.raises(InvalidInput, match=r"SKILL\.md, line 2: not `key: text`"):
        fields(head)


@pytest.mark.parametrize("value", ["'it's", '"a" b', '"', "'", '"a\\"'])
def test_quotes_that_do_not_end_are_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="line 2: the quotes do not end where the text does"):
        fields(f"name: {value}")


@pytest.mark.parametrize("text", ["", "name: x", " ---\nname: x\n---", "text\n---\nname: x\n---\n"])
def test_a_file_without_a_head_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="line 1: the file begins with `---`"):
        split_front_matter("SKILL.md", text)


@pytest.mark.parametrize("unit", ["\\", "''", '\\"', "a: ", "#", "> ", " ", "\n ", "\n"])
def test_a_hostile_head_is_read_in_no_time(unit: str) -> None:
    """What takes time in squares does not come back here within the limit of a test."""
    for mark in ("'", '"', ""):
        with suppress(InvalidInput):
            fields(f"description: {mark}x{unit * 20_000}y")
