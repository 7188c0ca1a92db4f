"""Wrong transcripts are wrong where they say so."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trellis.speech.align.doubt.wrong_transcripts import KINDS, wrong_transcripts

PHONES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6)


@given(PHONES, PHONES, st.booleans(), st.integers(0, 10**6))
def test_each_kind_differs_as_it_says(spoken: list[str], other: list[str], silent: bool, seed: int) -> None:
    ends = ["sil"] if silent else []
    labels = [*ends, *spoken, *ends]
    made = wrong_transcripts(labels, ["sil", *other], "abcd", np.random.default_rng(seed))
    assert {w.kind for w in made} <= set(KINDS)
    for wrong in made:
        inner = list(wrong.labels[len(ends) : len(wrong.labels) - len(ends)])
        assert inner != spoken
        assert len(wrong.wrong) == len(wrong.labels)
        assert wrong.wrong.any()
        assert [x for x in wrong.labels if x == "sil"] == [*ends, *ends]
        assert not wrong.wrong[: len(ends)].any()
        n = {"omitted": -1, "inserted": 1, "exchanged": 0, "shuffled": 0}.get(wrong.kind)
        if n is not None:
            assert len(inner) == len(spoken) + n
        if wrong.kind == "exchanged":
            marked = wrong.wrong[len(ends) : len(ends) + len(inner)]
            assert [x != y for x, y in zip(inner, spoken, strict=True)] == marked.tolist()
        if wrong.kind == "shuffled":
            assert sorted(inner) == sorted(spoken)
        if wrong.kind == "neighbour":
            assert inner == other


def test_nothing_is_made_of_silence() -> None:
    assert wrong_transcripts(["sil"], ["a"], "ab", np.random.default_rng(0)) == []
