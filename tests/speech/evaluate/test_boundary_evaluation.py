"""Alignment evaluation against known answers: itself, a constant shift, figures counted by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.evaluate.alignment_files import evaluate_files, find_alignments
from trellis.speech.evaluate.boundary_evaluation import boundary_errors, compare, evaluate_alignments
from trellis.speech.evaluate.boundary_figures import BoundaryFigures, Estimate
from trellis.speech.evaluate.evaluation_tables import class_table, comparison_table, to_csv
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval
from trellis.theory import quantile_interval


def _aligned(starts: list[float], labels: str, duration: float = 1.0) -> Alignment:
    return Alignment.from_starts(starts, labels.split(), duration)


def _random(rng: np.random.Generator, n: int) -> Alignment:
    starts = np.concatenate([[0.0], np.sort(rng.uniform(0.3, 0.7, n - 1))])
    return _aligned(starts.tolist(), "a " * n)


def _shifted(alignment: Alignment, seconds: float) -> Alignment:
    starts = alignment.starts.copy()
    starts[1:] += seconds
    return Alignment.from_starts(starts, alignment.labels, alignment.duration or 0.0)


REFERENCE = _aligned([0.0, 0.1, 0.3, 0.6], "sil t a sil")
# 10 ms late (within 10 although 0.31 - 0.3 > 0.01 in floating point), 25 ms early, 8 ms late
ANSWER = _aligned([0.0, 0.11, 0.275, 0.608], "sil t a sil")


def test_the_reference_against_itself_has_no_error() -> None:
    rng = np.random.default_rng(0)
    references = {str(i): _random(rng, 5) for i in range(4)}
    found = evaluate_alignments(references, references)
    assert found.n_boundaries == 16  # the first start of each is given
    assert all((e.value, e.high) == (1, 1) for e in found.within.values())
    assert all(
        0.3 < e.low < 0.5 for e in found.within.values()
    )  # 4 of 4 recordings: Clopper and Pearson say 0.398
    assert all(e.value == 1 for e in found.within_frames.values())
    assert found.mean_ms.value == found.median_ms.value == found.bias_ms.value == 0


@pytest.mark.parametrize("shift", [-0.02, -0.0034, 0.01, 0.04])
def test_a_constant_shift_is_the_bias(shift: float) -> None:
    rng = np.random.default_rng(1)
    references = {str(i): _random(rng, 6) for i in range(5)}
    found = evaluate_alignments(references, {k: _shifted(a, shift) for k, a in references.items()})
    assert found.bias_ms.value == pytest.approx(1e3 * shift)
    assert not found.bias_ms.has_interval
    assert found.mean_ms.value == pytest.approx(1e3 * abs(shift))
    assert found.median_ms.value == pytest.approx(1e3 * abs(shift))
    for ms, share in found.within.items():
        assert share.value == (abs(shift) <= ms / 1e3 + 1e-9)


def test_figures_by_hand() -> None:
    found = evaluate_alignments({"u": REFERENCE}, {"u": ANSWER})
    assert [round(3 * e.value) for e in found.within.values()] == [2, 2, 3, 3, 3, 3]
    # in frames: 10 and 11; 30 and 28 (27.5 goes up); 60 and 61
    assert [round(3 * e.value) for e in found.within_frames.values()] == [2, 3, 3, 3, 3, 3]
    assert found.mean_ms.value == pytest.approx((10 + 25 + 8) / 3)
    assert found.median_ms.value == pytest.approx(10)
    assert found.bias_ms.value == pytest.approx((10 - 25 + 8) / 3)
    assert found.headline().startswith("within 10/20/30/40/50/100 ms  66.7/66.7/100.0/")


def test_frames_can_be_stricter_or_milder_than_milliseconds() -> None:
    reference = _aligned([0.0, 0.1049, 0.2051], "a b c")
    answer = _aligned([0.0, 0.1151, 0.2249], "a b c")  # 10.2 ms, frames 10 and 12; 19.8 ms, frames 21 and 22
    found = evaluate_alignments({"u": reference}, {"u": answer}, (10.0,))
    assert found.within[10].value == 0
    assert found.within_frames[10].value == 0.5


def test_silences_and_gaps_may_differ() -> None:
    # The reference has a gap before the first phone, in the middle and at the end; the answer has none.
    tiers = [Interval(0.1, 0.2, "t"), Interval(0.2, 0.4, "a"), Interval(0.5, 0.8, "n")]
    reference = Alignment(tuple(tiers), duration=1.0)
    answer = _aligned([0.0, 0.21, 0.52], "t a n", 1.0)
    errors = boundary_errors(reference, answer, "u")
    assert errors.left == ("sil", "t", "a", "sil", "n")
    assert errors.right == ("t", "a", "sil", "n", "sil")
    np.testing.assert_allclose(errors.seconds, [-0.1, 0.01, 0.12, 0.02, 0.2], atol=1e-12)
    # Pauses of the answer alone do not count: only the start after the pause is compared.
    paused = Alignment((Interval(0.0, 0.2, "t"), Interval(0.25, 1.0, "a")), duration=1.0)
    errors = boundary_errors(_aligned([0.0, 0.2], "t a"), paused)
    np.testing.assert_allclose(errors.seconds, [0.05], atol=1e-12)


def test_gaps_too_short_to_be_silences_do_not_count() -> None:
    reference = Alignment((Interval(0.01, 0.2, "t"), Interval(0.215, 0.99, "a")), duration=1.0)
    errors = boundary_errors(reference, _aligned([0.0, 0.2], "t a"))
    np.testing.assert_allclose(errors.reference, [0.215])


def test_what_cannot_be_compared_is_left_out_and_counted() -> None:
    references = {"good": REFERENCE, "short": REFERENCE, "alone": REFERENCE}
    answers = {"good": ANSWER, "short": _aligned([0.0, 0.5], "sil t"), "foreign": ANSWER}
    found = evaluate_alignments(references, answers)
    assert [u.id for u in found.utterances] == ["good"]
    assert dict(found.left_out) == {
        "short": "2 phones in the reference, 1 in the hypothesis",
        "alone": "there is no hypothesis",
        "foreign": "there is no reference",
    }
    assert found.to_json()["left_out"][0]["id"] == "short"
    with pytest.raises(DataError, match=r"no boundaries to compare \(short: 2 phones"):
        evaluate_alignments({"short": REFERENCE}, {"short": answers["short"]})


def test_other_labels_are_counted() -> None:
    errors = boundary_errors(REFERENCE, _aligned([0.0, 0.1, 0.3, 0.6], "sil d a sil"))
    assert errors.renamed == 1


def test_classes() -> None:
    kind = {"t": "stop", "a": "vowel", "sil": "silence"}.__getitem__
    found = evaluate_alignments({"u": REFERENCE}, {"u": ANSWER})
    assert {name: part.n_boundaries for name, part in found.by_class(kind, "right").items()} == {
        "silence": 1,
        "stop": 1,
        "vowel": 1,
    }
    pairs = found.by_class(kind, "pair")
    assert pairs["stop|vowel"].bias_ms.value == pytest.approx(-25)
    assert pairs["vowel|silence"].bias_ms.value == pytest.approx(8)
    assert set(found.by_class(by="left")) == {"sil", "t", "a"}
    with pytest.raises(DataError, match="by is 'top'"):
        found.by_class(kind, "top")


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 1000))
def test_figures_are_those_of_all_boundaries(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.uniform(0, 1, sum(sizes))
    found = true + rng.normal(0, 0.02, sum(sizes))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    result = BoundaryFigures(true, found, owner, (10.0, 20.0)).estimates
    error = 1e3 * (found - true)
    assert result["mean"].value == pytest.approx(np.abs(error).mean())
    assert result["median"].value == pytest.approx(np.median(np.abs(error)))
    assert result["bias"].value == pytest.approx(error.mean())
    assert result["within 20"].value == pytest.approx((np.abs(error) <= 20).mean())
    for estimate in result.values():
        assert not estimate.has_interval or estimate.low <= estimate.value <= estimate.high


def _systems(rng: np.random.Generator, m: int) -> tuple[BoundaryFigures, BoundaryFigures]:
    """Recordings of different difficulty, each with an offset; one in thirty fails with the first system."""
    sizes = 1 + rng.poisson(12, m)
    owner = np.repeat(np.arange(m), sizes)
    scale, offset = np.exp(rng.normal(0, 0.5, m))[owner], rng.normal(0, 0.003, m)[owner]
    errors = [offset + scale * rng.laplace(0, width, len(owner)) for width in (0.008, 0.010)]
    errors[0] *= np.where(rng.random(m) < 1 / 30, 20.0, 1.0)[owner]
    true = 1.0 + 0.1 * np.arange(len(owner))
    return tuple(BoundaryFigures(true, true + error, owner, (10.0, 50.0)) for error in errors)  # type: ignore[return-value]


@pytest.mark.parametrize("m", [2, 5, 10, 20, 120])
def test_intervals_hold_the_truth_as_often_as_they_say(m: int) -> None:
    rng = np.random.default_rng(m)
    a, b = _systems(rng, 100_000)
    names = ("within 10", "within 50", "frames 10", "median", "mean", "bias")
    truth = {n: (a.sums[n].sum() - b.sums[n].sum()) / a.sizes.sum() for n in names if n != "median"}
    alone = {n: a.sums[n].sum() / a.sizes.sum() for n in truth}
    alone["median"] = np.median(a.milliseconds)
    truth["median"] = alone["median"] - np.median(b.milliseconds)
    hits: dict[tuple[str, str], list[bool]] = {}
    for _ in range(60):
        a, b = _systems(rng, m)
        both = (("alone", a.estimates, alone), ("difference", a.minus(b), truth))
        for kind, estimates, true in both:
            for name in names:
                e = estimates[name]
                if e.has_interval:
                    hits.setdefault((kind, name), []).append(bool(e.low <= true[name] <= e.high))
    assert ("alone", "within 10") in hits
    assert (("alone", "mean") in hits) == (m >= 100)
    assert (("alone", "median") in hits) == (m >= 10)
    for name, found in hits.items():
        assert np.mean(found) >= 0.9, name


def test_medians_of_single_boundaries_have_the_limits_of_order_statistics() -> None:
    """Recordings with one boundary each: Clopper and Pearson, turned around."""
    rng = np.random.default_rng(4)
    found = rng.exponential(0.01, 60)
    median = BoundaryFigures(np.zeros(60), found, np.arange(60), ()).estimates["median"]
    exact = quantile_interval(1e3 * found, 0.5)
    ordered = np.sort(1e3 * found)
    for end, other in ((median.low, exact.low), (median.high, exact.high)):
        assert abs(int(np.searchsorted(ordered, end)) - int(np.searchsorted(ordered, other))) <= 1


def test_what_has_no_interval_is_null() -> None:
    assert Estimate(1.0, float("nan"), float("nan")).to_json() == {"value": 1.0, "low": None, "high": None}


def test_a_paired_comparison_sees_what_two_intervals_do_not() -> None:
    rng = np.random.default_rng(2)
    references = {str(i): _random(rng, 6) for i in range(120)}
    offsets = {k: rng.normal(0, 0.03) for k in references}
    worse = {k: _shifted(a, offsets[k] + np.copysign(0.002, offsets[k])) for k, a in references.items()}
    better = {k: _shifted(a, offsets[k]) for k, a in references.items()}
    a, b = (evaluate_alignments(references, answers) for answers in (worse, better))
    assert b.mean_ms.high > a.mean_ms.low  # the intervals overlap
    difference = compare(a, b).differences["mean"]
    assert difference.value == pytest.approx(2, abs=0.05)
    assert difference.low > 1.5
    assert compare(b, a).differences["mean"].value == pytest.approx(-difference.value)


def test_comparisons_are_on_shared_references() -> None:
    a = evaluate_alignments({"u": REFERENCE, "v": REFERENCE}, {"u": ANSWER, "v": ANSWER})
    b = evaluate_alignments({"v": REFERENCE, "u": ANSWER}, {"v": REFERENCE, "u": ANSWER})
    comparison = compare(a, b)
    assert [u.id for u in comparison.a.utterances] == ["v"]  # of u, the references differ
    assert comparison.within[10].value == pytest.approx(-1 / 3)
    assert comparison.to_json()["boundaries"] == 3
    with pytest.raises(DataError, match="share no utterance"):
        compare(a, evaluate_alignments({"w": REFERENCE}, {"w": ANSWER}))


def test_tables_and_rows() -> None:
    from rich.console import Console

    found = evaluate_alignments({"u": REFERENCE}, {"u": ANSWER})
    parts = found.by_class()
    out = io.StringIO()
    console = Console(file=out, width=120)
    for table in (found.table(), class_table(parts), comparison_table(compare(found, found))):
        console.print(table)
    text = out.getvalue()
    assert " ".join(text.splitlines()[3].split()) == "10 ms 66.7 % 0.3 to 100.0 66.7 % 0.3 to 100.0"
    assert "mean 14.3 ms -" in " ".join(text.split())
    assert "-25.0" in text
    rows = list(csv.DictReader(io.StringIO(to_csv({"all": found, **parts}))))
    first = {row["figure"]: float(row["value"]) for row in rows if row["part"] == "all"}
    assert first["within_10_ms"] == pytest.approx(2 / 3)
    assert first["frames_20_ms"] == 1
    assert {row["part"] for row in rows} == {"all", "sil", "t", "a"}
    assert json.loads(json.dumps(found.to_json()))["within_ms"]["30"]["value"] == 1


def _write(folder: Path, name: str, alignment: Alignment, suffix: str = ".TextGrid") -> None:
    path = folder / (name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    alignment.write(path)


def test_files_are_paired_by_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _write(tmp_path / "ref", f"one/{name}", REFERENCE)
        _write(tmp_path / "hyp", name, ANSWER, ".json")
    _write(tmp_path / "hyp", "a", REFERENCE, ".csv")  # json comes first
    (tmp_path / "hyp" / "a.txt").write_text("a transcript\n")
    found = evaluate_files(find_alignments(tmp_path / "ref"), find_alignments(tmp_path / "hyp"))
    assert [u.id for u in found.utterances] == ["a", "b"]
    assert found.within[10].value == pytest.approx(2 / 3)


def test_paths_count_where_names_repeat(tmp_path: Path) -> None:
    for speaker in ("x", "y"):
        _write(tmp_path / "ref", f"{speaker}/s1", REFERENCE)
    _write(tmp_path / "hyp", "y/s1", ANSWER)
    _write(tmp_path / "hyp", "z/s2", ANSWER)
    found = evaluate_files(find_alignments(tmp_path / "ref"), find_alignments(tmp_path / "hyp"))
    assert [u.id for u in found.utterances] == ["y/s1"]
    assert dict(found.left_out) == {"x/s1": "there is no hypothesis", "z/s2": "there is no reference"}


def test_single_files_and_ctm(tmp_path: Path) -> None:
    _write(tmp_path, "ref", REFERENCE)
    _write(tmp_path, "hyp", ANSWER, ".phn")
    found = evaluate_files(find_alignments(tmp_path / "ref.TextGrid"), find_alignments(tmp_path / "hyp.phn"))
    assert found.n_boundaries == 3
    (tmp_path / "many.ctm").write_text("u 1 0.1 0.2 t\nu 1 0.3 0.3 a\nv 1 0.0 1.0 a\n")
    both = find_alignments(tmp_path / "many.ctm")
    assert set(both) == {"u", "v"}
    assert evaluate_files(both, both).mean_ms.value == 0


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _write(tmp_path / "ref", name, REFERENCE)
        _write(tmp_path / "hyp", name, ANSWER)
    (tmp_path / "hyp" / "b.TextGrid").write_text("nonsense")
    found = evaluate_files(find_alignments(tmp_path / "ref"), find_alignments(tmp_path / "hyp"))
    assert found.left_out[0][0] == "b"
    assert "not a TextGrid" in found.left_out[0][1]
    _write(tmp_path / "other", "c", REFERENCE)
    _write(tmp_path / "other", "d", REFERENCE)
    with pytest.raises(DataError, match="no hypothesis has the name"):
        evaluate_files(find_alignments(tmp_path / "ref"), find_alignments(tmp_path / "other"))
    with pytest.raises(DataError, match="no alignments here"):
        find_alignments(tmp_path / "ref", "json")
