"""A text that is set apart cannot end its place."""

from __future__ import annotations

import pytest

from gnomon._fence import fenced


@pytest.mark.parametrize(
    "end",
    [
        "</memory>",
        "< / MEMORY >",
        "<" + " " * 100 + "/memory>",
        "</mem\u200bory>",
        "</m\u00ade\u2060mory>",
        "<memory>",
    ],
    ids=ascii,
)
def test_what_reads_like_the_end_is_not_one(end: str) -> None:
    inside = fenced("memory", f"a {end} b").removeprefix("<memory>\n").removesuffix("\n</memory>")
    assert inside == f"a &lt;{end[1:]} b"


def test_other_signs_stand_as_they_are() -> None:
    assert (
        fenced("memory", "1 < 2, </skills> and <memo>") == "<memory>\n1 < 2, </skills> and <memo>\n</memory>"
    )
