"""Numbers as words: known cases, and reading words back gives the number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.speech.pronunciation.number_words import LARGEST, number_words

BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
ONES = {name: value for value, name in enumerate(BELOW_TWENTY.split())}
TENS = {
    name: 10 * value
    for value, name in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), start=2
    )
}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}


def read_back(words):
    total = group = 0
    for word in words:
        if word in SCALES:
            total, group = total + group * SCALES[word], 0
        elif word == "hundred":
            group *= 100
        else:
            group += ONES.get(word, 0) + TENS.get(word, 0)
    return total + group


@given(st.integers(0, LARGEST))
def test_words_mean_the_number(value):
    assert read_back(number_words(str(value))) == value
    assert number_words(f"{value:,}") == number_words(str(value))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("42", "forty two"),
        ("1905", "one thousand nine hundred five"),
        ("3rd", "third"),
        ("20th", "twentieth"),
        ("112th", "one hundred twelfth"),
        ("2.50", "two point five zero"),
        ("007", "zero zero seven"),
    ],
)
def test_known_numbers(written, words):
    assert number_words(written) == words.split()


@pytest.mark.parametrize("written", ["", "4x", "-", "1,23", "1.2.3", str(LARGEST + 1), "1e5", "two"])
def test_other_things_are_no_numbers(written):
    assert number_words(written) is None
