"""``trellis bound``, and ``trellis evaluate`` with intervals and against another model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tagging import spans
from trellis.cli.app import app
from trellis.core.errors import DataError, TrellisError, UnsupportedError
from trellis.losses.metrics import errors_by_sequence
from trellis.report.comparison import compare_labels
from trellis.report.evaluation import evaluate_labels
from trellis.theory import clopper_pearson_interval, mcnemar_test


def run(*arguments: object, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_kind_answers() -> None:
    assert run("bound", "agnostic", "-H", "2^20", "-m", 10_000, "--delta", 0.05) == (
        "finite class, agnostic: epsilon = 0.02903, delta = 0.05, m = 10,000: "
        "within 0.02903 with confidence 0.95\n"
    )
    for text in ("1048576", "1,048,576", "2**20", "1.048576e6"):
        assert "0.02903" in run("bound", "agnostic", "-H", text, "-m", 10_000, "--delta", 0.05)
    assert "m = 18,445" in run("bound", "heldout", "--epsilon", 0.01, "--delta", 0.05)
    assert "m = 100" in run("bound", "consistent", "-H", "2^1000000", "-m", 100, "--delta", 0.1)
    assert "vacuous" in run("bound", "vc", "--vc", 3, "-m", 100, "--delta", 0.05)
    assert "delta = " in run("bound", "deviation", "--vc", 3, "-m", 10**6, "--epsilon", 0.1)
    assert run("bound", "exact", "--errors", 0, "-m", 100).startswith("0 (95% interval 0 to 0.0362")


def test_json() -> None:
    found = json.loads(run("bound", "vc", "--vc", 3, "-m", 100, "--delta", 0.05, "--json"))
    assert (found["solved_for"], found["vacuous"]) == ("epsilon", True)
    found = json.loads(run("bound", "exact", "--errors", 3, "-m", 100, "--delta", 0.1, "--json"))
    assert found["high"] == pytest.approx(clopper_pearson_interval(3, 100, delta=0.1).high)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["agnostic", "-m", 10, "--delta", 0.1], "needs --hypotheses"),
        (["vc", "-m", 10, "--delta", 0.1], "needs --vc"),
        (["vc", "--vc", 2, "-H", "10", "-m", 10, "--delta", 0.1], "does not use --hypotheses"),
        (["exact", "--errors", 1], "needs --errors and --examples"),
        (["exact", "--errors", 1, "-m", 3, "--epsilon", 0.1], "does not use --epsilon"),
        (["agnostic", "-H", "many", "-m", 10, "--delta", 0.1], "--hypotheses many: give a number"),
        (["agnostic", "-H", "0", "-m", 10, "--delta", 0.1], "give a number of at least 1"),
        (["agnostic", "-H", "10", "-m", 10], "give two of m, delta and epsilon"),
        (["heldout", "-m", 0, "--delta", 0.1], "m is 0.0; it must be at least 1"),
    ],
)
def test_bad_options(arguments: list[object], message: str) -> None:
    with pytest.raises(TrellisError, match=message):
        run("bound", *arguments)


def test_a_bound_is_quick_to_load() -> None:
    """Neither Numba nor scikit-learn is needed; what the user got wrong ends with code 2."""
    code = (
        "import sys\nfrom trellis.cli import main\n"
        "sys.argv = ['trellis', 'bound', 'heldout', '-m', sys.argv[1], '--delta', '0.05']\n"
        "try:\n    main()\nfinally:\n    print([m for m in ('numba', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, "10"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.returncode == 0
    done = subprocess.run([sys.executable, "-c", code, "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("trellis: error: m is 0.0")


# -- evaluating with intervals ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    for name, n, seed in (("train", 40, 0), ("little", 2, 0), ("test", 60, 1)):
        X, y = spans(n, seed)
        blocks = [
            "".join(f"{w} {k}\n" for w, k in zip(*pair, strict=True)) for pair in zip(X, y, strict=True)
        ]
        (folder / f"{name}.txt").write_text("\n".join(blocks))
    run("train", folder / "train.txt", "-o", folder / "good", "-q")
    run("train", folder / "little.txt", "-o", folder / "poor", "-q")
    return folder


def test_evaluate_gives_an_interval_with_each_figure(folder: Path) -> None:
    test = folder / "test.txt"
    figures = json.loads(run("evaluate", folder / "good", test, "--json", "--bernstein"))
    right = round(60 * figures["sequences_right"])
    exact = clopper_pearson_interval(right, 60)
    assert figures["sequences_right_interval"] == pytest.approx([exact.low, exact.high])
    low, high = figures["tokens_right_interval"]
    assert low < figures["tokens_right"] < high
    bernstein = figures["tokens_right_per_sequence"]
    assert bernstein["high"] - bernstein["low"] > high - low
    lines = run("evaluate", folder / "good", test, "--bernstein").splitlines()
    assert lines[0].endswith(f"({100 * exact.low:.1f} to {100 * exact.high:.1f})")
    assert lines[0].count(" to ") == 3
    assert lines[1].startswith("tokens right, mean over sequences")
    assert "empirical Bernstein" in lines[1]


def test_evaluate_against_another_model(folder: Path) -> None:
    test = folder / "test.txt"
    shown = run("evaluate", folder / "good", test, "--against", folder / "poor")
    rows = {line.split("  ")[0].strip(): line for line in shown.splitlines() if "." in line}
    assert "differs" in rows["tokens right"]
    figures = json.loads(
        run("evaluate", folder / "good", "--against", folder / "poor", "--json", stdin=test.read_text())
    )
    against = figures["against"]
    assert against["span_f1"]["a"] == pytest.approx(figures["span_f1"])
    assert against["tokens_right"]["difference"] > 0
    assert against["tokens_right"]["p_value"] < 0.05
    same = run("evaluate", folder / "good", test, "--against", folder / "good")
    assert same.count("no difference can be told") == 3


def test_models_of_other_labels_are_not_compared(folder: Path) -> None:
    run("train", folder / "train.txt", "-o", folder / "words", "-q", "--label-column", 0, "--max-iter", 1)
    with pytest.raises(DataError, match="read their labels from different columns"):
        run("evaluate", folder / "good", folder / "test.txt", "--against", folder / "words")


def test_a_comparison_by_hand() -> None:
    gold = [["B-x", "O"], ["O", "B-y"], ["B-x", "I-x"]]
    a = [["B-x", "O"], ["O", "B-y"], ["B-x", "O"]]
    b = [["O", "O"], ["O", "B-y"], ["O", "O"]]
    found = compare_labels(gold, a, b)
    assert found["tokens right"].difference == pytest.approx((5 - 3) / 6)
    assert found["tokens right"].p_value == pytest.approx(0.5)  # of four swaps, two differ as much
    assert found["span F1"].a == pytest.approx(2 * 2 / 6)
    assert found["span F1"].b == pytest.approx(2 * 1 / 4)
    wrong = [errors_by_sequence(gold, guess)[0] > 0 for guess in (a, b)]
    assert found["sequences right"].p_value == mcnemar_test(*wrong).p_value
    assert evaluate_labels(gold, a).bernstein is None
    with pytest.raises((DataError, UnsupportedError)):
        compare_labels(gold, a, b[:2])


def test_json_has_no_infinity() -> None:
    printed = run("bound", "vc", "--vc", 3, "-m", 1, "--delta", 0.1, "--json")
    found = json.loads(printed, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert found["epsilon"] is None
    assert found["vacuous"] is True


def test_a_tower_of_powers_counts_trees() -> None:
    assert "m = 7,128" in run("bound", "consistent", "-H", "2^2^10", "-e", 0.1, "--delta", 0.05)
