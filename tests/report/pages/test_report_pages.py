"""Pages of models in a real browser: Python's numbers, mouse and keyboard, every width, light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import BROWSER, DRIVER, MISSING
from browser import show_page as show
from page_checks import LOOKS, page_words, without_times
from small_networks import random_network
from trellis import HMM, MEMM, SequenceLabeler, emissions, load
from trellis.bayesnet import NetworkBuilder
from trellis.core.errors import DataError, UnsupportedError
from trellis.report.model_report import report_page, write_report
from trellis.report.pages import network_page

in_browser = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason=MISSING)

GARDEN = (
    NetworkBuilder()
    .variable("Rain", ["yes", "no"], [0.2, 0.8])
    .variable("Sprinkler", ["on", "off"], {"yes": [0.01, 0.99], "no": [0.4, 0.6]}, given="Rain")
    .variable("<Wet>", ["yes", "no"], [[[1.0, 0.0], [0.8, 0.2]], [[0.9, 0.1], [0.0, 1.0]]],
              given=["Rain", "Sprinkler"])
    .build()
)  # fmt: skip
WORDS = [["the", "<b>cat</b>", "sat"], ["a", "dog"], ["the", "dog", "sat", "down"]] * 6
TAGS = [["O", "B-x", "O"], ["O", "B-x"], ["O", "B-x", "I-x", "O"]] * 6
TRUTH = [["O", "B-x", "O"], ["O", "B-y"], ["O", "B-x", "O", "O"]] * 6  # not what training saw


@pytest.fixture(scope="module")
def labeler() -> SequenceLabeler:
    return SequenceLabeler(max_iter=15, holdout=0.3, random_state=0).fit(WORDS, TAGS)


@pytest.mark.parametrize("kind", [SequenceLabeler, MEMM])
def test_the_page_of_a_labeller_holds_its_scores(kind: Any) -> None:
    model = kind(max_iter=15).fit(WORDS, TAGS)
    text = report_page(model, WORDS, TRUTH, title="cats & dogs")
    shown = page_words(text)
    right = model.score(WORDS, TRUTH)
    assert f"steps right {100 * right:.2f} %" in shown
    assert "Sequence 2: 1 of 2 wrong" in shown
    assert "B-y read as B-x (6)" in shown
    assert "cats &amp; dogs" in text
    assert "<b>cat</b>" not in text
    for heading in ("Summary", "Scores", "Confusion", "Calibration", "Training", "Transitions", "Errors"):
        assert f">{heading}</h2>" in text
    best = model.predict_log_proba(WORDS[1:2])
    assert f"{np.exp(best[0]):.4f}" in shown  # the first of the best labellings of the second sequence


def test_a_page_needs_nothing_else_and_has_each_identifier_once(labeler: SequenceLabeler) -> None:
    for text in (report_page(labeler, WORDS, TRUTH), report_page(GARDEN)):
        assert "default-src 'none'" in text
        assert not re.search(r"""https?:|\bsrc=|<link|@import|url\((?!#)""", text)
        names = re.findall(r'\bid="([^"]*)"', text)
        assert len(names) == len(set(names))
        for name in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text):
            assert (name[0] or name[1]) in names


def test_a_perfect_labeller_and_latent_states_have_pages() -> None:
    model = SequenceLabeler(max_iter=50).fit(WORDS, TAGS)
    assert "Every label is right." in report_page(model, WORDS, model.predict(WORDS))
    hidden = SequenceLabeler(latent_states=2, max_iter=5, random_state=0).fit(WORDS, TAGS)
    text = report_page(hidden, WORDS, TRUTH)
    assert "B-x/1" in text
    assert "best labellings" not in text


def test_a_model_saved_and_loaded_has_the_same_page(labeler: SequenceLabeler, tmp_path: Path) -> None:
    labeler.save(tmp_path / "a.trellis")
    write_report(load(tmp_path / "a.trellis"), tmp_path / "a.html", WORDS, TRUTH)
    written, ours = (tmp_path / "a.html").read_text("utf-8"), report_page(labeler, WORDS, TRUTH)
    assert without_times(written) == without_times(ours)


def test_the_page_of_an_hmm_holds_its_parameters() -> None:
    rng = np.random.default_rng(0)
    X = [np.repeat([0.0, 6.0, 0.0], 8)[:, None] + rng.normal(size=(24, 1)) for _ in range(3)]
    model = HMM(2, emissions.Gaussian(), random_state=0).fit(X)
    text = report_page(model, X, title="two <levels>")
    shown = page_words(text)
    assert f"log-likelihood {model.log_likelihood(X).sum():,.2f}," in shown
    for number in (*model.transitions_.ravel(), 1 / (1 - model.transitions_[0, 0])):
        assert f"{number:.3f}" in shown or f"{number:.2f}" in shown or number == 0
    for number in model.emission_.means.ravel():
        assert f"{number:.4g}" in shown
    assert "two &lt;levels&gt;" in text
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names))
    with pytest.raises(DataError, match="needs observations and no labels"):
        report_page(model)


def test_what_has_no_page_is_refused(labeler: SequenceLabeler) -> None:
    with pytest.raises(DataError, match="needs labelled sequences; give X and y"):
        report_page(labeler, WORDS)
    with pytest.raises(DataError, match="takes no data"):
        report_page(GARDEN, WORDS, TAGS)
    with pytest.raises(UnsupportedError, match="there is no page for a FactorGraph"):
        report_page(GARDEN.to_factor_graph())


ANSWERS = """
const evidence = new Map(arguments[0]), exact = exactInference(network);
return [exact.logProbability(evidence), exact.marginals(evidence)];
"""


@in_browser
def test_the_page_computes_what_python_does(driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 4, 7, 9, 9, 9, 12):
        net = random_network(rng, n, zeros=n == 9)
        show(driver, tmp_path / "net.html", report_page(net))
        for n_observed in (0, 1, min(n, 3)):
            chosen = rng.choice(n, n_observed, replace=False).tolist()
            codes = {v: int(rng.integers(len(net.states[v]))) for v in chosen}
            evidence = net.variables.decode(codes)
            log, marginals = driver.execute_script(ANSWERS, [[v, s] for v, s in codes.items()])
            expected = net.log_probability(evidence)
            if np.isinf(expected):
                assert marginals is None  # and the logarithm is minus infinity, which JSON writes as null
                continue
            assert log == pytest.approx(expected, abs=1e-9)
            for name, found in net.query(None, evidence).items():
                np.testing.assert_allclose(marginals[net.index(name)], found.values, atol=1e-9, rtol=0)


EXPLAINED = """
const found = separationRules(network, arguments[3])(arguments[0], arguments[1], arguments[2]);
return [found.separated, found.complete, found.paths.map(p => `${p.text}\\n    ${p.why}`)];
"""


@in_browser
def test_the_page_separates_as_python_does(driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    answers = set()
    for n in (4, 6, 7, 8, 8, 9):
        net = random_network(rng, n, max_states=2)
        show(driver, tmp_path / "net.html", report_page(net))
        for most in (1000, 1000, 1000, 3, 3):
            x, y, *observed = rng.choice(n, min(n, 2 + int(rng.integers(4))), replace=False).tolist()
            observed.sort()
            named = [net.names[v] for v in observed]
            expected = net.explain_separation(net.names[x], net.names[y], named, max_paths=most)
            separated, complete, paths = driver.execute_script(EXPLAINED, x, y, observed, most)
            answers.add(separated)
            assert separated == expected.separated == net.d_separated(net.names[x], net.names[y], named)
            assert complete == expected.complete
            if complete:
                assert sorted(paths) == sorted(map(str, expected.paths))
            assert any("    open: " in path for path in paths) != separated
            # from short to long; the last one may be there because it is open
            ours, theirs = (
                [str(p).split("\n")[0].count(" ") for p in some] for some in (paths, expected.paths)
            )
            assert ours[: most - 1] == theirs[: most - 1]
    assert answers == {True, False}


@in_browser
def test_evidence_and_separation_by_mouse_and_keyboard(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    show(driver, tmp_path / "net.html", report_page(GARDEN))
    button = {
        (node.get_attribute("aria-label"), one.text.split()[0]): one
        for node in driver.find_elements("class name", "node")
        for one in node.find_elements("tag name", "button")
    }
    button["<Wet>", "yes"].click()
    said = driver.find_element("id", "evidence")
    assert said.text.startswith("Observed: <Wet> = yes.")
    share = float(button["Rain", "yes"].get_attribute("data-share"))
    assert share == pytest.approx(GARDEN.query("Rain", {"<Wet>": "yes"})["yes"], abs=1e-9)
    assert button["<Wet>", "yes"].get_attribute("aria-pressed") == "true"
    Select(driver.find_element("id", "x")).select_by_visible_text("Rain")
    Select(driver.find_element("id", "y")).select_by_visible_text("Sprinkler")
    expected = GARDEN.explain_separation("Rain", "Sprinkler", ["<Wet>"])
    verdict = driver.find_element("id", "verdict")
    assert verdict.text == str(expected).splitlines()[0]
    items = [item.text.splitlines() for item in driver.find_elements("css selector", "#paths li")]
    assert items == [[line.strip() for line in str(path).splitlines()] for path in expected.paths]
    assert (
        driver.find_element("css selector", "path[data-tail='1'][data-head='2']").get_attribute("class")
        == "open"
    )
    button["Rain", "no"].send_keys(Keys.ENTER)
    assert verdict.text == "Rain is observed; clear it, or choose another variable."
    button["Sprinkler", "off"].send_keys(Keys.SPACE)
    assert said.text.endswith("This is impossible: its probability is 0.")
    button["Sprinkler", "off"].send_keys(Keys.SPACE)  # not observed any more
    assert said.text.startswith("Observed: <Wet> = yes, Rain = no. The probability of this is")
    driver.find_element("id", "clear").send_keys(Keys.ENTER)
    assert said.text.startswith("Nothing is observed.")
    assert float(button["Rain", "yes"].get_attribute("data-share")) == pytest.approx(0.2, abs=1e-12)
    assert verdict.text == "Rain and Sprinkler are not d-separated given nothing."
    assert driver.get_log("browser") == []


@in_browser
def test_large_networks_have_the_answers_for_single_states(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_page, "MOST_MULTIPLICATIONS", 0)
    show(driver, tmp_path / "net.html", report_page(GARDEN))
    shares = "return buttons.map(of => of.map(b => Number(b.dataset.share)))"
    for state in ("yes", "no"):  # the second takes the place of the first
        driver.execute_script(f"buttons[2][{('yes', 'no').index(state)}].click()")
        found = driver.execute_script(shares)
        expected = GARDEN.query(None, {"<Wet>": state})
        np.testing.assert_allclose(found[0], expected["Rain"].values, atol=1e-12)
        np.testing.assert_allclose(found[1], expected["Sprinkler"].values, atol=1e-12)
    monkeypatch.setattr(network_page, "MOST_NUMBERS", 3)
    with pytest.raises(UnsupportedError, match="would contain 36 answers"):
        report_page(GARDEN)


@in_browser
def test_every_width_and_light(driver: Any, tmp_path: Path, labeler: SequenceLabeler) -> None:
    net = random_network(np.random.default_rng(3), 12)
    for text in (report_page(labeler, WORDS, TRUTH), report_page(net)):
        grounds = set()
        for width, dark in ((1280, False), (375, False), (375, True)):
            show(driver, tmp_path / "page.html", text, width=width, dark=dark)
            ground, ink, wide, room = driver.execute_script(LOOKS)
            assert wide <= room
            grounds.add((ground, ink))
        assert len(grounds) == 2
    assert driver.get_log("browser") == []


@in_browser
def test_errors_are_chosen_by_confusion(driver: Any, tmp_path: Path, labeler: SequenceLabeler) -> None:
    from selenium.webdriver.support.select import Select

    show(driver, tmp_path / "page.html", report_page(labeler, WORDS, TRUTH))
    headings = "return [...document.querySelectorAll('article:not([hidden]) h3')].map(h => h.textContent)"
    assert len(driver.execute_script(headings)) == 10
    Select(driver.find_element("id", "kind")).select_by_visible_text("B-y read as B-x (6)")
    shown = driver.execute_script(headings)
    assert shown
    assert all("of 2 wrong" in heading for heading in shown)
    assert driver.find_element("id", "shown").text == f"{len(shown)} sequences shown."
    assert driver.get_log("browser") == []
