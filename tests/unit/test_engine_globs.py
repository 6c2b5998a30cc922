"""Patterns: what fits them, and what somebody might try in order to get past them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gnomon.engine._globs import check_pattern, escaped, fits


def strictly(pattern: str, text: str) -> bool:
    return fits(pattern, text, widely=False)


def widely(pattern: str, text: str) -> bool:
    return fits(pattern, text, widely=True)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "", True),
        ("", "a", False),
        ("a", "", False),
        ("src/*", "src/a", True),
        ("src/*", "src/a/b", False),
        ("src/*", "src", False),
        ("src/**", "src/a", True),
        ("src/**", "src/a/b.c", True),
        ("src/**", "srcs/a", False),
        ("src/**", "lib/src/a", False),
        ("src/***", "src/a/b", True),
        ("**", "a/b/c", True),
        ("**", "", True),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**/x", "ax", False),
        ("**/x", "a/bx", False),
        ("a/**/x", "a/x", True),
        ("a/**/x", "a/b/c/x", True),
        ("a/**/x", "ax", False),
        ("a/**/b/**/c", "a/b/c", True),
        ("a/**/b/**/c", "a/b/b/x/c", True),
        ("a/**/b/**/c", "a/c", False),
        ("a**", "abc/d", True),
        ("**.py", "a/b.py", True),
        ("*.py", "a/b.py", False),
        ("*.py", ".py", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a?c", "ac", False),
        ("git *", "git status", True),
        ("git *", "git add a/b", False),
        ("git **", "git add a/b", True),
        ("a*b*c", "aXbXbc", True),
        ("a*b*c", "aXbXb", False),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("a\\?", "a?", True),
        ("a\\\\b", "a\\b", True),
        ("[ab]", "[ab]", True),
        ("[ab]", "a", False),
        ("{a,b}", "a", False),
        ("a.c", "abc", False),
        ("^a$", "a", False),
        ("https://x.org/**", "https://x.org/a", True),
        ("https://x.org/**", "https://x.org.evil.org/a", False),
        ("/etc/*", "/etc/passwd", True),
        ("~/**", "~/x", True),
        ("../lib/**", "../lib/x", True),
        ("../../lib/*", "../../lib/x", True),
        ("a%20b", "a%20b", True),
    ],
)
def test_a_pattern_covers_the_whole_text(pattern: str, text: str, found: bool) -> None:
    check_pattern(pattern)
    assert strictly(pattern, text) is found


@pytest.mark.parametrize("text", ["src/./a", "src//a", "./src/a", "src/a/", "src/a/."])
def test_a_path_is_tidied_before_it_is_compared(text: str) -> None:
    assert strictly("src/a", text)
    assert strictly("./src//a", text)


@pytest.mark.parametrize(
    "text",
    [
        "src/../etc/passwd",
        "src/../../etc/passwd",
        "src/a/../../etc",
        "src/..",
        "src/a/../b",  # `a` may be a link
        "src/./../etc",
        "src//../etc",
        "src/\\../etc/..\\..",
        "src\\..\\..\\etc",
        "src/..\\..\\etc",
        "src/%2e%2e/etc",
        "src/%2E./etc",
        "src/a%2f..%2f..%2fetc",
        "src/%5c..%5c..",
        "/src/a",
        "//src/a",
        "\\src\\a",
        "../src/a",
        "~/src/a",
        "C:/src/a",
        "c:src/a",
        "src/a\nrm -rf",
        "src/a\x00.txt",
        "src/a\u2028b",
        "src/a\u202eb",
        "SRC/a",
        "src\u2215a",
        "ｓｒｃ/a",
        "src",
        "src/",
        " src/a",
    ],
)
def test_what_allows_a_folder_allows_nothing_else(text: str) -> None:
    assert not strictly("src/**", text)


@pytest.mark.parametrize("pattern", ["**", "*", "**/*", "**/passwd", "*/**", "?**", "**/**"])
@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "../etc/passwd",
        "../../passwd",
        "..",
        "~/passwd",
        "~root/passwd",
        "C:\\passwd",
        "a/../../passwd",
    ],
)
def test_no_wildcard_leads_out_of_the_working_folder(pattern: str, text: str) -> None:
    assert not strictly(pattern, text)


@pytest.mark.parametrize("text", ["../../etc/x", "../x/../../y", "../..", "/x", "lib/x"])
def test_a_pattern_that_goes_up_goes_no_further(text: str) -> None:
    assert strictly("../**", "../lib/x")
    assert not strictly("../**", text)


def test_a_line_break_is_allowed_only_where_the_pattern_has_it() -> None:
    assert strictly("echo a\necho *", "echo a\necho b")
    assert not strictly("echo *", "echo a\nrm b")
    assert not strictly("echo **", "echo a\rrm b")
    assert not strictly("echo?a", "echo\na")


@pytest.mark.parametrize(
    "text",
    [
        "secrets/key",
        "secrets/a/b",
        "./secrets/key",
        "secrets//key",
        "src/../secrets/key",
        "secrets/../src/a",  # `secrets` may be a link, and was named
        "/secrets/key",
        "/work/secrets/key",
        "/work/./src/../secrets/key",
        "../work/secrets/key",
        "~/work/secrets/key",
        "C:\\work\\secrets\\key",
        "secrets\\key",
        "src\\..\\secrets\\key",
        "src/%2e%2e/secrets/key",
        "secrets%2fkey",
        "Secrets/key",
        "SECRETS/KEY",
        "secrets",
        "secrets/",
        "/work/secrets",
        "secrets/a\nb",
        "secrets/\x00",
    ],
)
def test_what_forbids_a_folder_forbids_all_ways_to_write_it(text: str) -> None:
    assert widely("secrets/**", text)


@pytest.mark.parametrize("text", ["secret/key", "src/secretly", "secretsx/key", "", "src/secrets/key"])
def test_what_forbids_a_folder_forbids_no_other(text: str) -> None:
    assert not widely("secrets/**", text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("größe", "GRÖSSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("?.txt", "ß.txt"),
        ("/etc/**", "/ETC/passwd"),
        ("/etc/**", "/tmp/../etc/passwd"),
        ("/etc/**", "//etc//passwd"),
        ("/etc/**", "/etc"),
        ("../x", "../X"),
        ("\\*x", "/a/*x"),
        ("**/.env", ".ENV"),
        ("**", "/anything/../at\nall"),
        ("rm **", "rm a\nb"),
        ("x", "y/../x"),
        ("..", ".."),
    ],
)
def test_what_forbids_looks_past_how_it_is_written(pattern: str, text: str) -> None:
    check_pattern(pattern)
    assert widely(pattern, text)


def test_a_pattern_of_many_stars_takes_no_longer_for_it() -> None:
    """The regular expression for it would run for years."""
    assert not strictly("*a" * 30 + "b", "a" * 2_000)
    assert not widely("**a**/" * 15 + "b", "a/" * 1_000)


# --- against other ways to say the same

signs = st.text("ab/.*?\\~%2e\n", max_size=12)


def as_expression(pattern: str) -> str:
    found = re.findall(r"(?<![^/])\*\*+/|\*\*+|\*|\?|\\.|[^*?\\]", pattern, re.DOTALL)
    words = {"*": "[^/]*", "?": "[^/]"}
    parts = [
        "(?:.*/)?" if one.endswith("*/") else ".*" if one.startswith("**") else words.get(one)
        for one in found
    ]
    return "".join(part or re.escape(one[-1]) for part, one in zip(parts, found, strict=True))


@given(st.text("ab/*?", max_size=8), st.text("ab/", max_size=10))
@example("**/a", "ba")
@example("a/**/**/b", "a/b")
def test_it_finds_what_a_regular_expression_finds(pattern: str, text: str) -> None:
    pattern, text = "x" + pattern.strip("/"), "x" + text.strip("/")
    pattern, text = re.sub("//+", "/", pattern), re.sub("//+", "/", text)
    assert strictly(pattern, text) is bool(re.fullmatch(as_expression(pattern), text, re.DOTALL))


@given(signs)
def test_a_text_fits_the_pattern_that_is_made_of_it(text: str) -> None:
    pattern = escaped(text)
    assert strictly(pattern, text)
    assert widely(pattern, text)


@given(signs, signs)
def test_what_fits_strictly_fits_widely(pattern: str, text: str) -> None:
    try:
        check_pattern(pattern)
    except ValueError:
        return
    assert widely(pattern, text) or not strictly(pattern, text)


@given(signs.map("src/".__add__))
def test_nothing_that_is_allowed_in_a_folder_leads_out_of_it(text: str) -> None:
    from os.path import normpath
    from urllib.parse import unquote

    if strictly("src/**", text):
        for read in (text, text.replace("\\", "/"), unquote(text)):
            assert normpath(read).startswith("src/")
        assert "\n" not in text
