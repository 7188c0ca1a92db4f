"""The page of an alignment: complete in itself, right in its text, and alive in a real browser."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import BROWSER, DRIVER, MISSING, browser
from small_speech import write_wav
from trellis.core.errors import DataError
from trellis.report.alignment_page import alignment_page, write_alignment_page
from trellis.speech.audio.recordings import Recording
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval

WORDS = (Interval(0.25, 0.75, "<b>oh</b>"),)
ALIGNMENT = Alignment.from_starts(
    [0.0, 0.25, 0.5, 0.75],
    ["sil", "</script>", "əʊ", "sil"],
    1.0,
    words=WORDS,
    confidence=(1.0, 0.25, 0.875, float("nan")),
    flags=("phone 2 is < 3 & odd",),
)
REFERENCE = Alignment.from_starts([0.0, 0.24, 0.53, 0.75], ["sil", "t", "əʊ", "sil"], 1.0)


def _recording(seconds: float = 1.0, rate: int = 16000) -> Recording:
    t = np.arange(round(seconds * rate)) / rate
    return Recording(0.5 * np.sin(2 * np.pi * 1000 * t) * (t > 0.25), rate)


def _data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


def test_the_page_holds_the_alignment() -> None:
    data = _data(alignment_page(_recording(), ALIGNMENT, REFERENCE, title="t"))
    assert data["phones"] == [
        [0.0, 0.25, "sil", 1.0, True],
        [0.25, 0.5, "</script>", 0.25, False],
        [0.5, 0.75, "əʊ", 0.875, False],
        [0.75, 1.0, "sil", None, True],
    ]
    assert data["words"] == [[0.25, 0.75, "<b>oh</b>", None, False]]
    assert data["reference"]["phones"][2][:3] == [0.53, 0.75, "əʊ"]
    assert data["errors"] == [[0.25, 0.25, 10], [0.5, 0.5, -30], [0.75, 0.75, 0]]


def test_the_page_holds_the_sound() -> None:
    recording = _recording()
    text = alignment_page(recording, ALIGNMENT, title="t")
    found = re.search(r'id="audio">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    raw = base64.b64decode(found[1])
    with wave.open(io.BytesIO(raw)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        values = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert len(raw) == 44 + 2 * len(values)  # the script skips 44 bytes
    np.testing.assert_allclose(values / 32767, recording.samples, atol=1e-4)


def test_the_page_needs_nothing_else_and_trusts_no_label() -> None:
    text = alignment_page(_recording(), ALIGNMENT, REFERENCE, title='<img src="x"> & co')
    assert "<title>&lt;img src=&quot;x&quot;&gt; &amp; co</title>" in text
    assert "phone 2 is &lt; 3 &amp; odd" in text
    assert "<b>oh" not in text
    assert "default-src 'none'" in text
    outside = re.sub(r'id="audio">.*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"""https?:|//[a-z]|\bsrc=["']|<link|@import|url\(""", outside)
    assert len(re.findall("</script>", text)) == 3


def test_the_facts() -> None:
    text = re.sub("<.*?>", "", alignment_page(_recording(), ALIGNMENT, REFERENCE, title="t"))
    assert "1.00 s · 2 phones · 1 words · mean confidence 0.71" in text
    assert "within 10 / 20 ms of the reference 67 % / 67 % · median error 10.0 ms" in text
    plain = alignment_page(_recording(), Alignment(ALIGNMENT.phones), title="t")
    assert "confidence" not in re.sub("<script.*?</script>|<style.*?</style>", "", plain, flags=re.DOTALL)
    assert 'id="flags"' not in plain


def test_a_reference_with_other_phones_is_told() -> None:
    other = Alignment.from_starts([0.0, 0.5], ["a", "b"], 1.0)
    fewer = Alignment.from_starts([0.0], ["a"], 1.0)
    text = alignment_page(_recording(), other, fewer, title="t")
    assert "no comparison: 1 phones in the reference, 2 in the hypothesis" in text
    assert _data(text)["errors"] == []


def test_pages_are_written_whole(tmp_path: Path) -> None:
    audio = write_wav(tmp_path / "a.wav", 0.5)
    short = Alignment.from_starts([0.0], ["a"], 0.5)
    write_alignment_page(tmp_path / "a.html", audio, short, title="a & b")
    assert "a &amp; b" in (tmp_path / "a.html").read_text("utf-8")
    with pytest.raises(DataError, match="no such file"):
        write_alignment_page(tmp_path / "b.html", tmp_path / "b.wav", short)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.wav"]


def test_long_recordings_come_at_a_lower_rate(tmp_path: Path) -> None:
    audio = write_wav(tmp_path / "a.wav", 601.0, rate=8000)
    write_alignment_page(tmp_path / "a.html", audio, Alignment.from_starts([0.0], ["a"], 601.0))
    assert _data((tmp_path / "a.html").read_text("utf-8"))["rate"] == 8000


# A browser in which sound is written down instead of played. Everything else is the page's own doing.
CHECK = """
<script>
const out = { played: [], errors: [] };
window.onerror = message => { out.errors.push(message); };
// a busy machine draws no frames before the budget of virtual time ends; timers do run
window.requestAnimationFrame = draw => setTimeout(draw, 0);
window.AudioContext = class {
  currentTime = 0; destination = {};
  createBuffer(...shape) { out.buffer = shape; return { getChannelData: () => new Float32Array(shape[1]) }; }
  createBufferSource() { return { connect() {}, stop() {}, start(...at) { out.played.push(at); } }; }
  resume() {}
};
</script>
"""
ACT = """
<script>
const key = k => document.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
const cells = kind => [...document.querySelectorAll(`[data-tier="${kind}"]`)];
const text = kind => cells(kind).map(c => c.textContent);
const ink = id => {
  const c = document.getElementById(id), all = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  for (let i = 0; i < all.length; i += 4) seen.add(all[i] + 256 * all[i + 1] + 65536 * all[i + 2]);
  return seen.size;
};
out.phones = text("phones");
out.words = text("words");
out.reference = text("reference");
out.off = [...document.querySelectorAll(".error em")].map(e => e.textContent);
out.shades = cells("phones").map(c => c.style.getPropertyValue("--shade"));
out.colours = [ink("wave"), ink("spectrum"), ink("ruler")];
cells("phones")[2].click();
out.status = document.getElementById("status").textContent;
out.picked = cells("phones").map(c => c.classList.contains("picked"));
cells("words")[0].click();
key(" ");
key(" ");
document.getElementById("list").open = true;
const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
(async () => {
  key("n");
  key("ArrowUp");
  key("ArrowUp");
  key("ArrowUp");
  await frame();
  out.doubtful = document.getElementById("status").textContent;
  out.near = text("phones");
  key("ArrowRight");
  key("0");
  await frame();
  out.whole = cells("phones").length;
  out.rows = document.querySelectorAll("#list tr").length;
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(out);
  document.body.append(result);
})();
</script>
"""


@pytest.mark.skipif(
    BROWSER is None, reason="runs the page in a browser: needs Chromium or Chrome on the path"
)
def test_the_page_lives_in_a_browser(tmp_path: Path) -> None:
    text = alignment_page(_recording(), ALIGNMENT, REFERENCE, title="t")
    head, body = text.index('<script type="application/json"'), text.rindex("</body>")
    page = tmp_path / "page.html"
    page.write_text(text[:head] + CHECK + text[head:body] + ACT + text[body:], "utf-8")
    options = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    options += " disable-component-update disable-sync dump-dom window-size=1200,900 virtual-time-budget=5000"
    command = [str(BROWSER), *(f"--{option}" for option in options.split())]
    done = subprocess.run(
        [*command, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert found is not None, done.stderr.decode()[-2000:]
    result = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert result["errors"] == []
    assert result["phones"] == ["sil", "</script>", "əʊ", "sil"]
    assert result["words"] == ["<b>oh</b>"]
    assert result["reference"] == ["sil", "t", "əʊ", "sil"]
    assert result["off"] == ["+10", "-30", "0"]
    assert [bool(shade) for shade in result["shades"]] == [True, True, True, False]  # nobody knows the last
    assert result["shades"][0] != result["shades"][1]
    assert min(result["colours"]) > 1  # something is drawn
    assert result["colours"][1] > 20
    assert result["buffer"] == [1, 16000, 16000]
    # the click on the third phone, the click on the word, and the space bar that stops it and plays it again
    assert result["played"][:3] == [[0, 0.5, 0.25], [0, 0.25, 0.5], [0, 0.25, 0.5]]
    assert result["status"] == (
        "əʊ  0.500 to 0.750 s · 250 ms · confidence of its start 0.88 · starts 30 ms before the reference"
    )
    assert result["picked"] == [False, False, True, False]
    assert result["doubtful"].startswith("</script>  0.250 to 0.500 s")
    assert result["near"] == ["sil", "</script>"]  # an eighth of the view, around the least sure start
    assert result["whole"] == 4
    assert result["rows"] == 5


@pytest.mark.skipif(BROWSER is None or DRIVER is None, reason=MISSING)
def test_a_corrected_page_gives_its_textgrid(tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains

    page = tmp_path / "page.html"
    page.write_text(alignment_page(_recording(), ALIGNMENT, title="a/talk.wav"), "utf-8")
    with browser(tmp_path / "profile") as driver:
        driver.get(page.as_uri())
        assert not driver.find_element("id", "export").is_displayed()
        spectrum = driver.find_element("id", "spectrum")
        width = spectrum.size["width"]
        for start, by in ((0.25, 100), (0.5, -60)):
            chain = ActionChains(driver, duration=20)
            chain.move_to_element_with_offset(spectrum, round((start - 0.5) * width), 0).click_and_hold()
            chain.move_by_offset(by, 0).release().perform()
        assert "2 boundaries moved" in driver.find_element("id", "edited").text
        text = driver.execute_async_script(
            """
            const done = arguments[0], make = URL.createObjectURL;
            URL.createObjectURL = blob => { blob.text().then(done); return make.call(URL, blob); };
            HTMLAnchorElement.prototype.click = function () { window.named = this.download; };
            document.getElementById("download").click();
            """
        )
        assert driver.execute_script("return window.named") == "talk.TextGrid"
        driver.find_element("tag name", "body").send_keys("uu")
        assert not driver.find_element("id", "export").is_displayed()
        starts = "[...document.querySelectorAll('[data-tier=phones]')].map(b => Number(b.dataset.start))"
        assert driver.execute_script(f"return {starts}") == [0.0, 0.25, 0.5, 0.75]
        said = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    (tmp_path / "talk.TextGrid").write_text(text, "utf-8")
    found = Alignment.read(tmp_path / "talk.TextGrid")
    assert found.labels == ALIGNMENT.labels
    np.testing.assert_allclose(found.starts, [0, 0.25 + 100 / width, 0.5 - 60 / width, 0.75], atol=2 / width)
    assert [(w.start, w.end, w.label) for w in found.words if w.label] == [
        (found.starts[1], 0.75, "<b>oh</b>")  # it began with the first phone
    ]
    assert not said
