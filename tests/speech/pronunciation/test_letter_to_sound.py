"""Letters to phones: against all labellings, through the file, and on words that everyone can check."""

from itertools import pairwise, product

import numpy as np
import pytest

from trellis.speech.pronunciation.english import MODEL
from trellis.speech.pronunciation.letter_to_sound import LetterToSound, letter_features, spoken_phones


def small(seed):
    rng = np.random.default_rng(seed)
    names = sorted({name for word in ("abc", "cab", "ba") for row in letter_features(word) for name in row})
    counts = rng.integers(0, 3, len(names))
    return LetterToSound(
        labels=("_", "a", "k+s"),
        rows={name: i for i, name in enumerate(names)},
        pointer=np.concatenate([[0], np.cumsum(counts)]),
        label=np.concatenate([rng.permutation(3)[:n] for n in counts]).astype(np.int64),
        weight=rng.normal(size=counts.sum()),
        transitions=rng.normal(size=(3, 3)),
        start=rng.normal(size=3),
        end=rng.normal(size=3),
    )


def by_enumeration(model, word):
    def score(labels):
        total = model.start[labels[0]] + model.end[labels[-1]]
        total += sum(model.transitions[a, b] for a, b in pairwise(labels))
        for k, features in zip(labels, letter_features(word), strict=True):
            for name in features:
                row = model.rows.get(name)
                if row is not None:
                    entries = range(model.pointer[row], model.pointer[row + 1])
                    total += sum(model.weight[i] for i in entries if model.label[i] == k)
        return total

    best = max(product(range(3), repeat=len(word)), key=score)
    return spoken_phones([model.labels[k] for k in best])


@pytest.mark.parametrize("seed", range(5))
def test_best_of_all_labellings(seed):
    model = small(seed)
    words = ["abc", "ba", "c", "bccab"]
    assert model.pronounce(words) == [by_enumeration(model, word) for word in words]
    assert model.pronounce([]) == []


def test_file_keeps_weights_to_the_step(tmp_path):
    model, path = small(0), tmp_path / "model.npz"
    model.save(path, step=0.05)
    loaded = LetterToSound.load(path)
    assert loaded.labels == model.labels
    for name, row in model.rows.items():
        dense, kept = np.zeros(3), np.zeros(3)
        part = slice(model.pointer[row], model.pointer[row + 1])
        dense[model.label[part]] = model.weight[part]
        if name in loaded.rows:
            r = loaded.rows[name]
            part = slice(loaded.pointer[r], loaded.pointer[r + 1])
            kept[loaded.label[part]] = loaded.weight[part]
        np.testing.assert_allclose(kept, dense, atol=0.025 + 1e-6)
    np.testing.assert_allclose(loaded.transitions, model.transitions, rtol=1e-3)


def test_windows_at_the_edges():
    first, last = letter_features("ab")[0], letter_features("ab")[-1]
    assert "-1^" in first
    assert "0ab$$" in first
    assert "1$" in last
    assert len(first) == len(set(first))


def test_shipped_model_reads_regular_words():
    model = LetterToSound.load(MODEL)
    said = dict(
        zip(("blicket", "stoop", "frabbing"), model.pronounce(["blicket", "stoop", "frabbing"]), strict=True)
    )
    assert said["blicket"] in (tuple("b l ih k ah t".split()), tuple("b l ih k ih t".split()))  # noqa: SIM905
    assert said["stoop"] == ("s", "t", "uw", "p")
    assert said["frabbing"] == ("f", "r", "ae", "b", "ih", "ng")
    assert MODEL.stat().st_size < 2e6
