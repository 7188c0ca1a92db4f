"""``model.report(...)``: the page of every kind holds Python's numbers, and can be read by any means."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import BROWSER, DRIVER, MISSING, show_page
from page_checks import LOOKS, page_stages, page_words
from trellis import (
    HMM,
    IOHMM,
    MEMM,
    Graph,
    GraphLabeler,
    LinearGaussian,
    SequenceLabeler,
    SpectralHMM,
    emissions,
)
from trellis.bayesnet import NetworkBuilder
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.model_pages import Page
from trellis.registry import KINDS, PAGES
from trellis.report.alignment_statistics import aligned_starts, class_errors
from trellis.report.label_statistics import calibration, confusion
from trellis.speech import builtin_aligner, synthetic_corpus
from trellis.speech.phones.folding import folding

in_browser = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason=MISSING)

RNG = np.random.default_rng(0)
IMAGES = [np.where(RNG.normal(size=(5, 6)).cumsum(axis=1) > 0, 1.0, -1.0) for _ in range(8)]
GRIDS = [Graph.grid(image + RNG.normal(size=image.shape)) for image in IMAGES]
SHAPES = [np.where(image > 0, "<ink>", "paper") for image in IMAGES]
TREES = [Graph.tree([-1, 0, 0, 1, 1], RNG.normal(size=(5, 2))) for _ in range(12)]
TWIGS = [np.where(t.nodes[:, 0] + RNG.normal(size=5) > 0, "up", "down").tolist() for t in TREES]
WORDS = [["the", "cat", "sat"], ["a", "dog"]] * 5
TAGS = [["D", "N", "V"], ["D", "N"]] * 5
LEVELS = [np.repeat([0.0, 6.0, 0.0], 8)[:, None] + RNG.normal(size=(24, 1)) for _ in range(3)]
NET = NetworkBuilder().variable("Rain", ["yes", "no"], [0.2, 0.8]).build()


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    """A page of every kind, some with several."""
    grid = GraphLabeler("margin", l2=5.0, holdout=0.3, random_state=0).fit(GRIDS, SHAPES)
    tree = GraphLabeler("log").fit(TREES, TWIGS)
    drive = [0.5 * x for x in LEVELS]
    made = {
        "SequenceLabeler": SequenceLabeler(max_iter=15).fit(WORDS, TAGS).report(WORDS, TAGS),
        "MEMM": MEMM(max_iter=15).fit(WORDS, TAGS).report(WORDS, TAGS),
        "GraphLabeler": grid.report(GRIDS, SHAPES, title="images"),
        "GraphLabeler of trees": tree.report(TREES, TWIGS),
        "HMM": HMM(2, emissions.Gaussian(), random_state=0).fit(LEVELS).report(LEVELS),
        "IOHMM": IOHMM(2, random_state=0, n_init=1).fit(LEVELS, drive).report(LEVELS, drive),
        "LinearGaussian": LinearGaussian(2, random_state=0, max_iter=5).fit(LEVELS).report(LEVELS),
        "BayesianNetwork": NET.report(),
        "Aligner": builtin_aligner().report(synthetic_corpus()[:3]),
    }
    torch = pytest.importorskip("torch") if "NeuralSequenceLabeler" in KINDS else None
    if torch is not None:
        from trellis.neural import NeuralSequenceLabeler

        neural = NeuralSequenceLabeler(max_epochs=2, hidden=4, embedding_dim=4, random_state=0)
        made["NeuralSequenceLabeler"] = neural.fit(WORDS, TAGS).report(WORDS, TAGS)
    return made


def test_every_kind_that_can_be_saved_has_a_page_or_one_sentence(pages: dict[str, Page]) -> None:
    assert {name.split()[0] for name in pages} == set(PAGES)
    assert set(PAGES) <= set(KINDS)
    with pytest.raises(UnsupportedError, match="no page for a FactorGraph; there is one for Aligner"):
        NET.to_factor_graph().report()
    with pytest.raises(UnsupportedError, match="no page for a SpectralHMM"):
        SpectralHMM(1).report()


def test_a_page_shows_itself_and_is_written(pages: dict[str, Page], tmp_path: Path) -> None:
    page = pages["HMM"]
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page.text
    assert NET.report(path=tmp_path / "net.html", title="<Rain>").title == "<Rain>"
    assert "<title>&lt;Rain&gt;</title>" in (tmp_path / "net.html").read_text("utf-8")
    frame = NET.report(title='"<Rain>')._repr_html_()
    assert frame.startswith('<iframe title="&quot;&lt;Rain&gt;" sandbox="allow-scripts" srcdoc="')
    assert "<style" not in frame
    assert len(repr(page)) < 100


def test_a_page_is_complete_and_named(pages: dict[str, Page]) -> None:
    for text in (page.text for page in pages.values()):
        assert "default-src 'none'" in text
        assert not re.search(r"""https?:|\bsrc=|<link|@import|url\((?!#)""", text)
        names = re.findall(r'\bid="([^"]*)"', text)
        assert len(names) == len(set(names))
        for name in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text):
            assert (name[0] or name[1]) in names
        assert text.count("<table") == text.count("<caption>")
        for picture in re.findall(r"<svg[^>]*>", text):
            assert 'aria-label="' in picture or 'aria-hidden="true"' in picture
        for landmark in ("<header>", '<nav aria-label="Sections">', '<main id="content"', 'class="skip"'):
            assert landmark in text
        assert ">Cost of each stage</h2>" in text


LABELLER = ["encoding", "arranging", "training", "checking"]
EXPECTED_STAGES = {
    "SequenceLabeler": (LABELLER, ["encoding and scoring", "predicting", "marginals"]),
    "MEMM": (LABELLER, ["encoding and scoring", "predicting", "marginals"]),
    "GraphLabeler": (LABELLER, ["predicting", "marginals"]),
    "HMM": (["encoding", "training"], ["best paths", "probabilities of states"]),
    "IOHMM": (["encoding", "training"], ["best paths", "probabilities of states"]),
    "LinearGaussian": (["encoding", "training"], ["smoothing"]),
    "BayesianNetwork": ([], ["all marginals"]),
    "NeuralSequenceLabeler": (
        ["encoding", "training", "checking"],
        ["encoding and scoring", "predicting", "marginals"],
    ),
}


def test_a_page_tells_stages_of_training_from_its_own(pages: dict[str, Page]) -> None:
    for name, expected in EXPECTED_STAGES.items():
        assert page_stages(pages[name].text) == expected, name
    assert page_stages(pages["Aligner"].text)[1] == ["reading and aligning"]
    learned = NET.fit({"Rain": ["yes", "no", "no"]})
    assert page_stages(learned.report().text)[0] == ["encoding", "training"] == list(learned.fit_.seconds)


def test_a_model_without_stages_of_fit_tells_the_time_of_its_history() -> None:
    model = SequenceLabeler(max_iter=15).fit(WORDS, TAGS)
    n = len(model.history_["seconds"])
    assert f"{n} iterations" in page_words(model.report(WORDS, TAGS).text)
    model.fit_seconds_ = None  # as of a file that is older
    text = model.report(WORDS, TAGS).text
    assert page_stages(text)[0] == ["training"]
    assert f"{n} iterations, by history_" in page_words(text)
    model.history_ = {}
    assert page_stages(model.report(WORDS, TAGS).text)[0] == []


def test_the_page_of_graphs_holds_python_s_numbers() -> None:
    model = GraphLabeler("log", random_state=0).fit(TREES, TWIGS)
    page = model.report(TREES, TWIGS)
    text, found = page_words(page.text), [labels.tolist() for labels in model.predict(TREES)]
    assert f"nodes right {100 * model.score(TREES, TWIGS):.2f} %" in text
    counts = confusion(TWIGS, found)
    for n in counts.counts.ravel().tolist():
        assert f">{n}</td>" in page.text
    codes = {label: k for k, label in enumerate(model.classes_)}
    sure = [
        m[np.arange(5), [codes[label] for label in row]]
        for m, row in zip(model.predict_marginals(TREES), found, strict=True)
    ]
    right = np.array(TWIGS) == np.array(found)
    assert f"Expected calibration error {calibration(np.concatenate(sure), right.ravel()).error:.4f}" in text
    worst = int(right.sum(axis=1).argmin())
    assert f"Graph {worst + 1}: {int((~right[worst]).sum())} of 5 wrong" in text
    for t in np.flatnonzero(~right[worst]):
        assert f"{found[worst][t]} {sure[worst][t]:.2f}" in text  # in place
    assert "joined to 1, 2" in text


def test_labels_that_are_not_known_have_no_part_in_scores() -> None:
    model = GraphLabeler("log", random_state=0).fit(TREES, TWIGS)
    partly = [[None, *labels[1:]] for labels in TWIGS]
    text = page_words(model.report(TREES, partly).text)
    assert f"nodes right {100 * model.score(TREES, partly):.2f} %" in text
    assert "48 nodes" in text
    with pytest.raises(DataError, match="no node has a known label"):
        model.report(TREES, [[None] * 5 for _ in TREES])


def test_wide_images_have_approximate_marginals_and_say_so() -> None:
    rng = np.random.default_rng(1)
    grids = [Graph.grid(rng.normal(size=(26, 26))) for _ in range(2)]
    labels = [(g.nodes[:, 0] > 0).astype(int).reshape(26, 26) for g in grids]
    model = GraphLabeler("pseudo_likelihood", max_iter=5).fit(grids, labels)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="trellis")  # the page says it, and nothing else
        text = page_words(model.report(grids, labels).text)
    assert "graphs are approximate, by 'tree_reweighted'" in text


def test_the_page_of_an_aligner_holds_python_s_numbers(pages: dict[str, Page]) -> None:
    aligner, corpus = builtin_aligner(), synthetic_corpus()[:3]
    found = aligner.evaluate(corpus)
    text = page_words(pages["Aligner"].text)
    for ms, one in found.within.items():
        assert f"{ms:g} ms {100 * one.value:.1f} " in text
    assert f"within 20 ms {100 * found.within[20.0].value:.2f} %" in text
    assert f"bias {found.bias_ms.value:+.1f}" in text
    ours = aligner.align_corpus(corpus, confidence=True)
    starts = aligned_starts({u.id: u.reference for u in corpus}, ours)
    assert f"Expected calibration error {starts.calibration().error:.4f}" in text
    least = int(np.argmin(starts.confidence))
    row = (
        f"{starts.ids[least]} {starts.left[least]} | {starts.right[least]} {starts.errors_ms[least]:+.0f} "
        f"{starts.confidence[least]:.3f} {starts.reference[least]:.3f} {starts.predicted[least]:.3f}"
    )
    assert row in text
    table = class_errors(found, folding("broad", ["aa", "sil", "t", "dh"], unknown="other"))
    assert table.counts.sum() == found.n_boundaries
    assert np.nansum(table.mean_ms * table.counts) / found.n_boundaries == pytest.approx(found.mean_ms.value)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (GraphLabeler(), (), "needs labelled graphs"),
        (MEMM(), (WORDS,), "needs labelled sequences; give X and y"),
        (HMM(2, emissions.Gaussian()), (LEVELS, LEVELS), "an HMM needs observations and no labels"),
        (IOHMM(2), (LEVELS,), "an IOHMM needs observations and their inputs"),
        (LinearGaussian(1), (), "needs observations and no labels"),
        (NET, (WORDS,), "takes no data"),
    ],
)
def test_data_that_do_not_belong_to_the_kind_are_refused(model: Any, data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.report(*data)


def test_an_aligner_needs_utterances() -> None:
    with pytest.raises(DataError, match="give a corpus as X alone"):
        builtin_aligner().report()
    with pytest.raises(DataError, match="is reported on utterances"):
        builtin_aligner().report(["a.wav"])


UNNAMED = """
const all = document.querySelectorAll("button, select, input, [tabindex='0'], svg[role=img], table");
const named = one => one.getAttribute("aria-label") || one.labels?.length || one.textContent.trim();
return [...all].filter(one => !named(one)).length;
"""


@in_browser
def test_every_page_in_a_browser(driver: Any, tmp_path: Path, pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        grounds = set()
        for width, dark in ((1280, False), (390, False), (390, True)):
            show_page(driver, tmp_path / "page.html", page.text, width=width, dark=dark)
            ground, ink, wide, room = driver.execute_script(LOOKS)
            assert wide <= room, name
            grounds.add((ground, ink))
        assert len(grounds) == 2, name
        assert driver.execute_script(UNNAMED) == 0, name
        assert driver.get_log("browser") == [], name


@in_browser
def test_the_keyboard_reaches_the_content_and_shows_where_it_is(
    driver: Any, tmp_path: Path, pages: dict[str, Page]
) -> None:
    from selenium.webdriver.common.keys import Keys

    show_page(driver, tmp_path / "page.html", pages["Aligner"].text)
    driver.find_element("tag name", "body").send_keys(Keys.TAB)
    skip = driver.switch_to.active_element
    assert skip.text == "Skip to the content"
    skip.send_keys(Keys.ENTER)
    driver.switch_to.active_element.send_keys(Keys.TAB)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert driver.execute_script(outline) == "solid"


@in_browser
def test_graphs_are_chosen_by_confusion(driver: Any, tmp_path: Path, pages: dict[str, Page]) -> None:
    from selenium.webdriver.support.select import Select

    show_page(driver, tmp_path / "page.html", pages["GraphLabeler of trees"].text)
    menu = Select(driver.find_element("id", "kind"))
    menu.select_by_index(1)
    shown = driver.execute_script(
        "return [...document.querySelectorAll('article:not([hidden])')].map(a => a.textContent)"
    )
    gold, predicted = re.match(r"(.+) read as (.+) \(", menu.first_selected_option.text).groups()  # type: ignore[union-attr]
    assert shown
    assert all(f"{gold} read as {predicted}" in text for text in shown)
    many = "" if len(shown) == 1 else "s"
    assert driver.find_element("id", "shown").text == f"{len(shown)} graph{many} shown."
    assert driver.get_log("browser") == []


@in_browser
def test_images_are_drawn_pixel_by_pixel(driver: Any, tmp_path: Path, pages: dict[str, Page]) -> None:
    show_page(driver, tmp_path / "page.html", pages["GraphLabeler"].text)
    areas = """
    const figure = [...document.querySelectorAll("figure.grid")].find(f => f.textContent.trim() === "Gold");
    const paths = [...figure.querySelectorAll("path")];
    const inside = (path, x, y) => path.isPointInFill(new DOMPoint(x + .5, y + .5));
    return [figure.closest("article").querySelector("h3").textContent,
      [0, 1, 2, 3, 4].map(y => [0, 1, 2, 3, 4, 5].map(x => paths.findIndex(path => inside(path, x, y))))];
    """
    heading, codes = driver.execute_script(areas)
    number = int(re.match(r"Graph (\d+)", heading)[1]) - 1  # type: ignore[index]
    present = sorted(set(SHAPES[number].ravel().tolist()))
    assert codes == [[present.index(label) for label in row] for row in SHAPES[number].tolist()]


@in_browser
def test_a_notebook_s_frame_keeps_the_page_to_itself(
    driver: Any, tmp_path: Path, pages: dict[str, Page]
) -> None:
    cell = pages["GraphLabeler of trees"]._repr_html_()
    show_page(
        driver, tmp_path / "notebook.html", f"<!DOCTYPE html><title>n</title><p id='out'>text</p>{cell}"
    )
    assert driver.execute_script("return getComputedStyle(document.body).maxWidth") == "none"
    driver.switch_to.frame(driver.find_element("tag name", "iframe"))
    driver.find_element("css selector", "nav a[href='#errors']").click()
    assert driver.execute_script("return document.title") == "GraphLabeler"  # not the notebook once more
    assert driver.execute_script("return location.hash") == "#errors"
    assert driver.execute_script("return scrollY") > 0
    driver.switch_to.default_content()
    assert driver.get_log("browser") == []
