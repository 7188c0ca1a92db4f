"""Which phones each letter of a word stands for, by EM: none, one or two phones per letter.

    p(phones | letters) = sum over divisions of the phones among the letters of  prod_t q(phones_t | letter_t)

q is estimated by EM from equal chances for all divisions, and the best division is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

from trellis.speech.pronunciation.letter_to_sound import JOIN, NONE

MOST = 2  # phones of a letter
Table = dict[tuple[str, str], float]


def estimate(words: Sequence[tuple[str, tuple[str, ...]]], passes: int, fewest: float) -> Table:
    """q. Pairs of a letter and two phones that are expected less than ``fewest`` times are dropped after the
    first pass, so that rare spellings do not make labels of their own."""
    table: Table = {}
    for number in range(passes):
        counts: Counter[tuple[str, str]] = Counter()
        for word, phones in words:
            expect(word, phones, table, counts)
        if number:
            counts = Counter({k: n for k, n in counts.items() if n >= (fewest if JOIN in k[1] else 1.0)})
        totals: Counter[str] = Counter()
        for (letter, _), n in counts.items():
            totals[letter] += n
        table = {k: n / totals[k[0]] for k, n in counts.items()}
    return table


def _chunk(phones: tuple[str, ...], i: int, j: int) -> str:
    return JOIN.join(phones[i:j]) if j > i else NONE


def expect(word: str, phones: tuple[str, ...], table: Table, counts: Counter[tuple[str, str]]) -> None:
    """Add the expected use of every pair, by the forward and backward sums over divisions."""
    n, m = len(word), len(phones)
    forward = [[0.0] * (m + 1) for _ in range(n + 1)]
    backward = [[0.0] * (m + 1) for _ in range(n + 1)]
    forward[0][0] = backward[n][m] = 1.0
    chance = {}
    for t, j in product(range(n), range(m + 1)):
        for k in range(j, min(j + MOST, m) + 1):
            pair = (word[t], _chunk(phones, j, k))
            p = table.get(pair, 0.0) if table else (0.3 if k == j else 0.6 if k == j + 1 else 0.1)
            if p > 0.0:
                chance[t, j, k] = p, pair
                forward[t + 1][k] += forward[t][j] * p
    total = forward[n][m]
    if total <= 0.0:
        return
    for (t, j, k), (p, _) in sorted(chance.items(), reverse=True):
        backward[t][j] += p * backward[t + 1][k]
    for (t, j, k), (p, pair) in chance.items():
        counts[pair] += forward[t][j] * p * backward[t + 1][k] / total  # type: ignore[assignment]


def divide(word: str, phones: tuple[str, ...], table: Table) -> list[str] | None:
    """The labels of the letters in the most probable division; None if there is none."""
    best: dict[int, tuple[float, list[str]]] = {0: (1.0, [])}
    for letter in word:
        reached: dict[int, tuple[float, list[str]]] = {}
        for j, (score, labels) in best.items():
            for k in range(j, min(j + MOST, len(phones)) + 1):
                label = _chunk(phones, j, k)
                value = score * table.get((letter, label), 0.0)
                if value > reached.get(k, (0.0, []))[0]:
                    reached[k] = (value, [*labels, label])
        best = reached
    found = best.get(len(phones))
    return None if found is None else found[1]
