"""Bundles against a plain search: what features imply, and the greedy cover of every step."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trellis.data.labels import EncodedLabels
from trellis.structures.chain.scores.bundle_kernels import cover_steps, implied_features
from trellis.structures.chain.scores.observed_pairs import occurring_pairs, sorted_pairs


def plain_cover(steps: list[list[int]], n: int) -> tuple[list[set[int]], list[list[frozenset[int]]]]:
    """What each feature implies, and the bundles of each step, the largest and most frequent first."""
    implied = []
    for f in range(n):
        with_f = [step for step in steps if f in step]
        implied.append(set(with_f[0][:64]).intersection(*with_f) if with_f else set())
    count = [sum(step.count(f) for step in steps) for f in range(n)]
    covers = []
    for step in steps:
        left, cover = list(step), []
        while left:
            number, _, _, head = max((len(implied[f] & {*left}), count[f], -step.index(f), f) for f in left)
            if number < 2:
                break
            cover.append(frozenset(implied[head] & {*left}))
            left = [f for f in left if f not in cover[-1]]
        covers.append(cover)
    return implied, covers


@given(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), min_size=1, max_size=12))
def test_they_are_those_of_a_plain_search(steps: list[list[int]]) -> None:
    assert_plain_cover(steps, 10)


def test_steps_may_have_more_features_than_a_word_has_bits() -> None:
    rng = np.random.default_rng(0)
    often = rng.permutation(100).tolist()
    assert_plain_cover([often[:60], often[:62] + [100 + i for i in range(30)], often[:63], often[60:]], 130)


def assert_plain_cover(steps: list[list[int]], n: int) -> None:
    indptr = np.concatenate([[0], np.cumsum([len(step) for step in steps])]).astype(np.int64)
    entries = np.array([f for step in steps for f in step], np.int32)
    count = np.bincount(entries, minlength=n)
    begin, length, members = implied_features(indptr, entries, n)
    implied, covers = plain_cover(steps, n)
    lists = [members[b : b + k].tolist() for b, k in zip(begin, length, strict=True)]
    for one, expected in zip(
        lists, implied, strict=True
    ):  # one alone makes no bundle, and is not looked after
        assert set(one) == expected or len(one) == 1
    bundle = entries.copy()
    heads, sets, uses = cover_steps(indptr, bundle, count, begin, length, members)
    found = [
        frozenset(g for i, g in enumerate(lists[head]) if int(bits) >> i & 1)
        for head, bits in zip(heads, sets, strict=True)
    ]
    for step, cover, (a, b) in zip(steps, covers, pairwise(indptr), strict=True):
        by_entry = dict(zip(step, bundle[a:b].tolist(), strict=True))
        assert {found[i] for i in by_entry.values() if i >= 0} == set(cover)
        for f, i in by_entry.items():
            assert f in found[i] if i >= 0 else not any(f in one for one in cover)
    assert uses.sum() == sum(map(len, covers))


@given(st.integers(0, 1000), st.booleans())
def test_pairs_of_features_and_labels_are_the_same_by_table_and_by_sorting(
    seed: int, some_open: bool
) -> None:
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 4, 12))]).astype(np.int64)
    indices = rng.integers(0, 9, indptr[-1]).astype(np.uint32)
    codes = rng.integers(-1 if some_open else 0, 3, 12).astype(np.int32)
    allowed = rng.random((12, 3)) < 0.5 if some_open else None
    labels = EncodedLabels(codes, allowed, np.array([0, 12]))
    expected = sorted_pairs(indptr, indices, labels, 3)
    np.testing.assert_array_equal(occurring_pairs(indptr, indices, labels, 3), expected)
    by_hand = set()
    for t, (a, b) in enumerate(pairwise(indptr)):
        may_be = [codes[t]] if codes[t] >= 0 else np.flatnonzero(allowed[t]) if allowed is not None else []
        by_hand |= {int(f) * 3 + int(k) for f in indices[a:b] for k in may_be}
    assert expected.tolist() == sorted(by_hand)
