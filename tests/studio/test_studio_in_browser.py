"""The studio as people use it: the program as they start it, in a real browser.

One server and one browser serve all tests, which run in their order: what one corrects, the next one finds.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from browser import BROWSER, DRIVER, MISSING, browser
from studio_server import Studio, dictionary, recordings, small_aligner, studio, write_hour
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.textgrid import read_textgrid

pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason=MISSING)
PATIENCE = 20.0  # seconds


@dataclass
class Desk:
    """What the tests have: the browser, the server, and the folder of recordings."""

    driver: Any
    server: Studio
    folder: Path
    arguments: tuple[object, ...]
    truth: Corpus

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str | Callable[[], object], *arguments: object) -> Any:
        """Until a script (or a function) gives something true."""
        ends = time.monotonic() + PATIENCE
        while True:
            found = condition() if callable(condition) else self.run(f"return {condition}", *arguments)
            if found:
                return found
            if time.monotonic() > ends:
                pytest.fail(f"waited in vain for {condition}: {self.run('return document.body.innerText')}")
            time.sleep(0.05)

    def open_page(self) -> None:
        self.driver.get(self.server.address)
        self.wait("document.documentElement.dataset.ready")

    def open(self, name: str) -> None:
        self.run(
            "const all = [...document.querySelectorAll('#list button')];"
            "all.find(b => b.textContent.includes(arguments[0])).click()",
            name,
        )
        self.wait("studio.desk.name?.includes(arguments[0]) && studio.desk.phones.length > 0", name)
        self.settle()

    def settle(self) -> None:
        """Until everything is drawn and saved."""
        self.driver.execute_async_script(
            "const done = arguments[0], draw = requestAnimationFrame;"
            "studio.desk.queue.then(() => draw(() => draw(done)))"
        )

    def keys(self, *names: str) -> None:
        for name in names:
            self.driver.switch_to.active_element.send_keys(name)
        self.settle()

    def phones(self) -> list[list[Any]]:
        found: list[list[Any]] = self.run("return studio.desk.phones")
        return found

    def drag(self, boundary: int, pixels: int, row: str = "spectrum") -> None:
        from selenium.webdriver import ActionChains

        x = self.run("return studio.stage.x(studio.desk.phones[arguments[0]][0])", boundary)
        target = self.driver.find_element("id", row)
        width = self.run("return document.getElementById(arguments[0]).getBoundingClientRect().width", row)
        chain = ActionChains(self.driver, duration=20)
        chain.move_to_element_with_offset(target, round(x - width / 2), 0).click_and_hold()
        chain.move_by_offset(pixels // 2, 0).move_by_offset(pixels - pixels // 2, 0).release().perform()
        self.settle()

    def saved(self, name: str) -> Alignment:
        return read_textgrid(self.folder / f"{name}.TextGrid")

    def aligned(self) -> None:
        self.wait("!studio.learning.task.is_running")

    def status(self, path: str, **headers: str) -> int:
        """The answer to somebody else than the browser."""
        url = self.server.address.partition("/?")[0] + path
        try:
            with urlopen(Request(url, headers=headers)) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    @property
    def cookie(self) -> str:
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=(.+)", self.server.address)
        assert found is not None
        return f"trellis-studio-{found[1]}={found[2]}"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    base = tmp_path_factory.mktemp("studio")
    model = small_aligner(base / "model")
    folder = base / "recordings"
    truth = recordings(folder)
    words = dictionary(base / "words.dict", truth)
    given = truth[5]
    given.reference.to_textgrid(given.audio.with_suffix(".TextGrid"))  # type: ignore[union-attr]
    (folder / "broken.wav").write_bytes(b"RIFF, but no sound")
    (folder / "broken.txt").write_text("a")
    shutil.copy(truth[0].audio, folder / "script.wav")
    Alignment.from_starts([0.0, 0.2, 0.3], ["sil", "<script>alert(1)</script>", "sil"], 0.6).to_textgrid(
        folder / "script.TextGrid"
    )
    arguments = (model, folder, "-d", words)
    with studio(*arguments) as server, browser(base / "profile") as driver:
        made = Desk(driver, server, folder, arguments, truth)
        made.open_page()
        made.aligned()
        yield made


def test_the_list_begins_with_the_most_doubtful(desk: Desk) -> None:
    shown = desk.run("return studio.list.sorted().map(r => [r.name, r.state, r.doubt])")
    states = [state for _, state, _ in shown]
    assert states[:5] == ["untouched"] * 5
    doubts = [doubt for *_, doubt in shown[:5]]
    assert doubts == sorted(doubts, reverse=True)
    assert dict(row[:2] for row in shown) == {
        **{u.audio.name: "untouched" for u in desk.truth[:5]},
        "u2_005.wav": "given",
        "script.wav": "given",
        "broken.wav": "failed",
    }
    text = desk.run("return document.getElementById('list').innerText")
    assert "not aligned" in text
    assert "from its TextGrid" in text
    assert desk.run("return studio.desk.name") == shown[0][0]
    search = desk.driver.find_element("id", "search")
    search.send_keys("brok")
    assert desk.run("return document.querySelectorAll('#list li').length") == 1
    search.clear()
    search.send_keys("x\b")
    assert desk.run("return document.querySelectorAll('#list li').length") == 8


def test_a_dragged_boundary_is_saved_at_once(desk: Desk) -> None:
    desk.open("u2_001")
    assert not (desk.folder / "u2_001.TextGrid").exists()
    before = desk.phones()
    words = desk.run("return studio.desk.words")
    first = next(
        k for k, phone in enumerate(before) if phone[0] == words[1][0]
    )  # where the second word begins
    desk.drag(first, 24)
    after = desk.phones()
    moved = after[first][0] - before[first][0]
    span = desk.run("return (studio.stage.view.to - studio.stage.view.from) / studio.stage.width")
    assert moved == pytest.approx(24 * span, abs=1.5 * span)
    saved = desk.saved("u2_001")
    assert saved.starts.tolist() == [phone[0] for phone in after]
    spoken = [word for word in saved.words if word.label]
    assert spoken[1].start == after[first][0]  # the word went with it
    assert after[first][3] is None
    assert "saved" in desk.run("return document.getElementById('saved').textContent")
    desk.drag(2, -10, "phones")
    assert desk.saved("u2_001").starts[2] < before[2][0]


def test_undo_redo_and_reload(desk: Desk) -> None:
    after = [phone[0] for phone in desk.phones()]
    desk.driver.find_element("id", "undo").click()
    desk.settle()
    once = desk.saved("u2_001").starts.tolist()
    assert once != after
    desk.driver.find_element("id", "panel").click()
    desk.run(
        "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Z', ctrlKey: true, shiftKey: true}))"
    )
    desk.settle()
    assert desk.saved("u2_001").starts.tolist() == after
    desk.open_page()
    desk.open("u2_001")
    assert [phone[0] for phone in desk.phones()] == after
    assert desk.run("return [studio.desk.undo, studio.desk.redo, studio.desk.state]") == [2, 0, "corrected"]


def test_split_rename_remove_by_keys(desk: Desk) -> None:
    from selenium.webdriver.common.keys import Keys

    labels = desk.saved("u2_001").labels
    desk.run("studio.desk.picked = { tier: 'phones', index: 2 }; document.getElementById('panel').focus()")
    desk.keys("s")
    desk.wait("document.querySelector('input.label')")
    desk.keys("ʃ" + Keys.ENTER)
    desk.wait(lambda: desk.saved("u2_001").labels == (*labels[:3], "ʃ", *labels[3:]))
    desk.keys(Keys.DELETE)
    desk.wait(lambda: desk.saved("u2_001").labels == labels)
    start = desk.saved("u2_001").starts[2]
    desk.run("studio.desk.picked = { tier: 'phones', index: 2 }")
    desk.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', altKey: true}))")
    desk.settle()
    assert desk.saved("u2_001").starts[2] == pytest.approx(start + 0.005)


def test_the_next_doubtful_boundary(desk: Desk) -> None:
    desk.open("u2_002")
    sure = sorted((p[3], p[0]) for p in desk.phones()[1:] if p[3] is not None)
    desk.run("document.getElementById('panel').focus()")
    for number in (0, 1):
        desk.keys("n")
        assert desk.run("return studio.desk.pickedRow().slice(0, 1)")[0] == sure[number][1]
    desk.keys("N")
    desk.keys("c")  # the least sure one is right: nobody need look at it again
    assert len([p for p in desk.phones()[1:] if p[3] is not None]) == len(sure) - 1
    assert desk.saved("u2_002").starts.tolist() == [p[0] for p in desk.phones()]


def test_sound_is_played_by_ranges(desk: Desk) -> None:
    row = desk.phones()[2]
    desk.run("studio.desk.picked = { tier: 'phones', index: 2 }; document.getElementById('panel').focus()")
    desk.keys("p")
    assert desk.wait("studio.player.played") == pytest.approx(row[:2])
    desk.run("studio.player.stop()")
    assert desk.status("/api/recordings/1/sound.wav", cookie=desk.cookie, range="bytes=44-143") == 206
    assert desk.status("/api/recordings/1/sound.wav", cookie=desk.cookie, range="bytes=99999999-") == 416


def test_a_label_is_only_text(desk: Desk) -> None:
    desk.open("script")
    names = "[...document.querySelectorAll('#phones button')].map(b => b.ariaLabel).join('|')"
    assert "<script>alert(1)</script>" in desk.run(f"return {names}")
    assert desk.run("return document.querySelectorAll('body script').length") == 0
    desk.run("studio.desk.picked = { tier: 'phones', index: 0 }; document.getElementById('panel').focus()")
    desk.keys("\ue007")  # enter
    desk.keys("<img src=x onerror=alert(1)>\ue007")
    assert desk.saved("script").labels[0] == "<img src=x onerror=alert(1)>"
    assert desk.run("return document.querySelectorAll('#phones img').length") == 0
    assert (desk.folder / ".trellis-studio" / "before" / "script.TextGrid.1").exists()


def test_strangers_are_refused(desk: Desk) -> None:
    assert desk.status("/") == 403
    assert desk.status("/?token=wrong") == 403
    assert desk.status("/api/recordings") == 403
    assert desk.status("/api/recordings", cookie=desk.cookie) == 200
    assert desk.status("/api/recordings", cookie=desk.cookie, host="evil.example") == 421
    for path in ("/assets/../security.py", "/assets/%2e%2e%2fsecurity.py", "/assets/..%2f..%2fweb.py"):
        assert desk.status(path, cookie=desk.cookie) == 404, path
    assert desk.status("/api/recordings/../../../etc/passwd", cookie=desk.cookie) == 404
    assert desk.status("/api/recordings/99", cookie=desk.cookie) == 400
    assert "token" not in desk.run("return location.href")
    body = json.dumps({"version": 0, "edit": {"op": "confirm"}}).encode()
    url = desk.server.address.partition("/?")[0] + "/api/recordings/1/edit"
    given = {"cookie": desk.cookie, "content-type": "application/json", "origin": "http://evil.example"}
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, body, given))
    assert refused.value.code == 403


def test_learning_moves_what_nobody_touched(desk: Desk) -> None:
    desk.open("u2_003")
    states = desk.run("return Object.fromEntries(studio.list.all.map(r => [r.name, r.state]))")
    untouched = [name for name, state in states.items() if state == "untouched"]
    assert len(untouched) == 3
    found = {}
    for name in (*untouched, "u2_001.wav"):
        desk.open(name)
        found[name] = desk.phones()
    desk.driver.find_element("id", "learn").click()
    desk.wait("studio.learning.task.kind === 'learn' && !studio.learning.task.is_running")
    task = desk.run("return studio.learning.task")
    assert task["problem"] is None
    assert "corrected recordings" in task["status"]
    assert "left out: script.wav: the model does not know" in task["status"]
    assert sorted(row["name"] for row in task["moved"]) == sorted(untouched)
    assert desk.wait("document.getElementById('moved').open")
    table = desk.run("return document.querySelector('#moved table').innerText")
    assert all(name in table for name in untouched)
    assert task["status"] in desk.run("return document.getElementById('gain').textContent")
    desk.run("document.getElementById('moved').close()")
    assert (desk.folder / ".trellis-studio" / "model.trellis").is_file()
    changed = 0
    for name in untouched:
        desk.open(name)
        changed += desk.phones() != found[name]
        assert not (desk.folder / name).with_suffix(".TextGrid").exists()
    assert changed == len(untouched)
    desk.open("u2_001")
    assert desk.phones() == found["u2_001.wav"]


def test_killed_in_the_middle_of_saves(desk: Desk) -> None:
    desk.open("u2_004")
    desk.run(
        """
        window.answered = [];
        const k = 2, low = studio.desk.phones[k - 1][0] + .002, high = studio.desk.phones[k][1] - .002;
        for (let i = 0; i < 60; i++) {
          const time = low + (high - low) * (i % 100) / 100;
          const edit = studio.desk.edit({ op: "move", boundary: k, time });
          edit.then(done => { if (done) window.answered.push(time); });
        }
        """
    )
    desk.wait("window.answered.length > 8")
    desk.server.kill()
    time.sleep(0.2)
    answered = desk.run("return window.answered")
    assert len(answered) < 60
    desk.server = Studio(*desk.arguments)
    desk.open_page()
    desk.open("u2_004")
    edits = desk.run("return studio.desk.undo")
    assert edits in (len(answered), len(answered) + 1)  # the last may have been saved and not answered
    times = [phone[0] for phone in desk.phones()]
    assert desk.saved("u2_004").starts.tolist() == times
    if edits == len(answered):
        assert times[2] == answered[-1]
    assert not list(desk.folder.rglob("*.partial"))
    desk.open("u2_001")
    assert desk.run("return studio.desk.state") == "corrected"
    assert "adapted" in desk.run("return document.getElementById('folder').textContent")


def test_light_and_dark_and_no_errors(desk: Desk) -> None:
    theme = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    first = desk.run(theme)
    desk.driver.find_element("id", "theme").click()
    second = desk.run(theme)
    assert {first[0], second[0]} == {"light", "dark"}
    assert first[1] != second[1]
    said = [e["message"] for e in desk.driver.get_log("browser") if e["level"] == "SEVERE"]
    # the server that was killed did not answer; nothing else went wrong
    assert not [
        m for m in said if not re.search("ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE|409", m)
    ], said


def test_an_hour_scrolls(desk: Desk, tmp_path: Path) -> None:
    write_hour(tmp_path / "hour.wav")
    starts = [0.3 * k for k in range(12000)]
    Alignment.from_starts(starts, ["a", "b", "sil"] * 4000, 3600.0).to_textgrid(tmp_path / "hour.TextGrid")
    with studio(desk.arguments[0], tmp_path) as server:
        _scroll(replace(desk, server=server))


def _scroll(desk: Desk) -> None:
    desk.open_page()
    desk.open("hour")
    desk.wait("studio.stage.overview")
    desk.run("studio.stage.show(1000, 1004)")
    desk.settle()
    desk.wait("studio.desk.tiles.underWay === 0 && !studio.desk.tiles.wanted.length")
    before = desk.run("return studio.desk.tiles.fetched")
    took = desk.driver.execute_async_script(
        """
        const done = arguments[0], ends = performance.now() + 2000;
        studio.stage.stats.recent.length = 0;
        const step = now => {
          studio.stage.move(.02);
          if (now < ends) requestAnimationFrame(step);
          else done({ drawn: studio.stage.stats.recent.slice(), view: studio.stage.view });
        };
        requestAnimationFrame(step);
        """
    )
    drawn = sorted(took["drawn"])
    fetched = desk.run("return studio.desk.tiles.fetched") - before
    passed = took["view"]["from"] - 1000
    print(f"{len(drawn)} frames, median {drawn[len(drawn) // 2]:.1f} ms, longest {drawn[-1]:.1f} ms, "
          f"{fetched} tiles for {passed:.0f} s")  # fmt: skip
    assert len(drawn) > 20
    assert drawn[len(drawn) // 2] < 16.0  # a median frame is drawn within a sixtieth of a second
    level = desk.run("return studio.desk.tiles.level(4 / studio.stage.width)")
    assert fetched <= passed / desk.run("return studio.desk.tiles.length(arguments[0])", level) + 5
    desk.run("studio.stage.show(0, studio.desk.duration)")  # all of it, from a few coarse tiles
    desk.settle()
    desk.wait("studio.desk.tiles.underWay === 0 && !studio.desk.tiles.wanted.length")
    assert desk.run("return studio.desk.tiles.fetched") - before - fetched < 12


def test_it_ends_cleanly(desk: Desk) -> None:
    desk.driver.get("about:blank")
    code, errors = desk.server.end()
    assert code == 143
    assert "Traceback" not in errors
