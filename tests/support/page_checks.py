"""What tests ask of the text of a page, and a browser about its looks."""

from __future__ import annotations

import re
from html import unescape

LOOKS = """
const seen = getComputedStyle(document.body);
const page = document.documentElement;  // innerWidth grows with what is too wide
return [seen.backgroundColor, seen.color, page.scrollWidth, page.clientWidth];
"""


def page_words(text: str) -> str:
    """What a page says, without markup."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", body)))


def without_times(text: str) -> str:
    """A page without what was measured for it."""
    before, _, after = text.partition('<section id="stages"')
    return before + after.partition("</section>")[2]


def page_stages(text: str) -> tuple[list[str], list[str]]:
    """The stages that a page has of training, and those of its own."""
    section = text.partition('<section id="stages"')[2].partition("</section>")[0]
    before, _, now = section.partition("<caption><span>For this page<")
    training = before.partition("<caption><span>When the model was trained<")[2]
    rows = r'<th scope="row">(.*?)</th>'
    return re.findall(rows, training), re.findall(rows, now)
