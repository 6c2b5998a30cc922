"""Pages of the web as a model reads them."""

from __future__ import annotations

import time

import pytest

from gnomon.tools._page_text import page_text

HERE = "https://site.example/shop/tea.html"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<p>a  lot\n of \t space</p>", "a lot of space"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<div><div><div>deep</div></div></div>after", "deep\n\nafter"),
        ("<h1>One</h1>text<h3 class=x>Three</h3>text", "# One\n\ntext\n\n### Three\n\ntext"),
        ("<h2></h2>text", "text"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<ul><li>a<li>b<ol><li>c</ol></ul>d", "- a\n- b\n  - c\n\nd"),
        ("<ul><li><p>a</p></li><li></li></ul>", "- a"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
        ("<pre>def f():\n    return 1\n\nx</pre>y", "def f():\n    return 1\n\nx\n\ny"),
        ("<title> Green\n tea </title><p>a", "Title: Green tea\n\na"),
        ("a<title>one</title><title>two</title>", "Title: one\n\na"),
        # links
        ("<a href=/a>to a</a>.", "[to a](https://site.example/a)."),
        ("see<a href=b.html> b </a>now", "see [b](https://site.example/shop/b.html) now"),
        ("<a href='//x.example/?a=1&amp;b=2'><b>x</b></a>", "[x](https://x.example/?a=1&b=2)"),
        ("<base href=https://other.example/y/><a href=z>z</a>", "[z](https://other.example/y/z)"),
        ("<a href=mailto:a@b.example>mail</a>", "[mail](mailto:a@b.example)"),
        ("<a href=javascript:x()>a</a><a href=#top>b</a><a href=data:x>c</a><a>d</a>", "abcd"),
        ("<a href=' java\nscript:x()'>a</a><a href='http://[::1'>b</a>", "ab"),
        ("<a href=/a></a><a href=/b> </a>c", "c"),
        ("<a href=/a>one<a href=/b>two</a>", "[one](https://site.example/a)[two](https://site.example/b)"),
        ("<a href=/a><div>one</div><div>two</div></a>", "one\n\ntwo\n\n(https://site.example/a)"),
        ("<img alt='a  cup' src=x><img src=y><img alt=''>", "[image: a cup]"),
        # characters
        ("1 &lt; 2 &amp;&amp; 3 > 2 &copy &#8364; &#x20AC;", "1 < 2 && 3 > 2 © € €"),
        ("a < b, a <3 b", "a < b, a <3 b"),
        ("&lt;script&gt;x&lt;/script&gt;", "<script>x</script>"),
        # what is not shown
        ("a<script>if (a<b) x('</p>')</script>b", "ab"),
        ("a<SCRIPT>x</scripts></Script >b", "ab"),
        ("a<style>p{}</style><template>x</template><iframe>x</iframe>b", "ab"),
        ("a<!-- <p>x --> b<!doctype html><?xml x?></ x>c", "a bc"),
        ("a<svg><text>x</text></svg><select><option>x</select>b", "ab"),
        ("a<div hidden>x<div>y</div>z</div>b", "ab"),
        ("a<span style='color:red; DISPLAY : none'>x</span>b", "ab"),
        ("a<span aria-hidden=true>x</span>b", "ab"),
        ("<p hidden>x<p>y", "y"),
        ("<p hidden>x<p hidden>y<div>z", "z"),
        ("<ul><li hidden>x<li>y</ul>", "- y"),
        ("<input hidden>a<br hidden>b", "a\nb"),
        ("<body style='visibility:hidden'>a", "a"),
        ("<textarea><b>a</b></textarea>", "<b>a</b>"),
        # what is never closed
        ("a<script>x", "a"),
        ("a<!-- x", "a"),
        ("a<div hidden>x", "a"),
        ("a<b x='y", "a"),
        ("a<", "a<"),
        ("</p></div></ul></ol></a></pre></h1>a", "a"),
        ("<p =x / a='1'b=2 \"c>d", "d"),
    ],
)
def test_a_page_is_its_text(page: str, text: str) -> None:
    assert page_text(page, HERE) == text


BAD = r"""
    < </ <! <!-- <a_ <a_x= <a_x=" <a_x=' <a/ <p & &# &#x <b _ = <a_=
    <script> <title> <div> <ul> <li> <pre> <h1> </div> <div_hidden> <li_hidden>
    <a_href=x> <a_href=x>y <a_href=x><p> <td> <td>_ <td>x
"""


@pytest.mark.parametrize("piece", [word.replace("_", " ") for word in BAD.split()])
def test_a_page_that_is_bad_on_purpose_is_read_in_one_pass(piece: str) -> None:
    """Eight times the length takes about eight times as long. What is read again and again takes 64 times."""

    def took_s(size: int) -> float:
        page = piece * (size // len(piece))
        begun = time.process_time()
        page_text(page, HERE)
        return time.process_time() - begun

    assert took_s(160_000) < 0.1 + 25 * min(took_s(20_000) for _ in range(2))
