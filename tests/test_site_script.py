"""The script of the site: what is too wide can be scrolled by keyboard, and every control has a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import BROWSER, DRIVER, MISSING, browser, show_page

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = """<!DOCTYPE html><html lang="en"><title>Site</title><style>$style
.pst-scrollable-table-container, pre { overflow-x: auto; }</style><script>$script</script>
<button class="search-button-field" aria-label="Search">Search Ctrl + K</button>
<ul><li><a href="#">Chains</a>
<details><summary><span class="toctree-toggle">v</span></summary></details></li></ul>
<article class="bd-article"><section><h1>Long lines<a href="#">#</a></h1>
<pre id="long">$wide</pre><pre id="short">x = 1</pre>
<div id="table" class="pst-scrollable-table-container">
<table><tr><th></th><th>a</th></tr><tr><td>b</td><td>$wide</td></tr></table></div></section>
<div class="sphx-glr-thumbcontainer"><a class="internal" href="#"><span hidden>Snakes</span></a></div>
</article></html>"""
FOUND = """
const said = name => { const box = document.getElementById(name);
  return [box.tabIndex, box.getAttribute("role"), box.getAttribute("aria-label")]; };
const label = place => document.querySelector(place).getAttribute("aria-label");
return [["long", "short", "table"].map(said), ["button", "summary", ".internal"].map(label),
  document.querySelectorAll("th").length];
"""


@pytest.mark.skipif(BROWSER is None or DRIVER is None, reason=MISSING)
def test_what_scrolls_can_be_reached_and_what_is_pressed_has_a_name(tmp_path: Path) -> None:
    script, style = ((DOCS / "_static" / f"trellis.{kind}").read_text("utf-8") for kind in ("js", "css"))
    page = PAGE.replace("$style", style).replace("$script", script).replace("$wide", "wide" * 200)
    with browser(tmp_path / "profile") as driver:
        show_page(driver, tmp_path / "page.html", page, width=390)
        boxes, labels, heads = driver.execute_script(FOUND)
        assert driver.get_log("browser") == []
    code, table = [0, "group", "Code: Long lines"], [0, "group", "Table: Long lines"]
    assert boxes == [code, [-1, None, None], table]
    assert labels == ["Search Ctrl + K", "Pages below Chains", "Snakes"]
    assert heads == 1


def test_the_site_has_the_script() -> None:
    assert '"trellis.js"' in (DOCS / "conf.py").read_text("utf-8")
