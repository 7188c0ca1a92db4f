"""Which alphabet an inventory is written in, and where it does not tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.phones.alphabets import ALPHABETS, ambiguous, check_alphabet, guess_alphabet
from trellis.speech.phones.arpabet import ARPABET_TO_IPA
from trellis.speech.phones.articulation import articulation
from trellis.speech.phones.ipa_tables import CONSONANTS, VOWELS
from trellis.speech.phones.phone_set import PhoneSet
from trellis.speech.phones.timit_phones import TIMIT_61
from trellis.speech.phones.xsampa import LETTERS

GERMAN = "p b t d k g ? pf ts tS dZ f v s z S Z C j x h m n N l R I E a O U Y 9 i: e: a: o: u: y: 2: @ 6"
GERMAN_SAMPA = GERMAN.split()
ENGLISH = "aj aw b bʲ c cʰ d dʒ d̪ ej f h i iː j k m n ow p s t tʃ ɔj ə ɚ ɛ ɪ ɫ ɹ ɾ ʃ θ spn sil"
ENGLISH_MFA = ENGLISH.split()


def test_inventories() -> None:
    assert guess_alphabet(GERMAN_SAMPA) == "xsampa"
    assert guess_alphabet(ENGLISH_MFA) == "ipa"
    assert guess_alphabet(["p", "a", "t", "spn", "<usb>"]) == "ipa"
    assert guess_alphabet(["p", "a", "t"], preferred="xsampa") == "xsampa"
    assert guess_alphabet(["p", "t"], preferred="arpabet") == "arpabet"
    assert guess_alphabet(["a?", "b"]) == "ipa"
    assert guess_alphabet(["p", "a", "t", "a?"]) == "ipa"  # a doubtful label is no glottal stop
    assert guess_alphabet([*ENGLISH_MFA, "a?", "!!", "N"]) == "ipa"  # a few bad labels do not change the rest
    assert guess_alphabet([*TIMIT_61, "zz"]) == "arpabet"
    assert guess_alphabet([]) == "ipa"
    assert guess_alphabet(["sil"], "xsampa") == "xsampa"


@given(st.sets(st.sampled_from(sorted({**CONSONANTS, **VOWELS})), min_size=1))
def test_letters_of_the_ipa_are_never_arpabet(letters: set[str]) -> None:
    found = guess_alphabet(letters)
    assert found == "ipa"
    assert {articulation(x, found) for x in letters} == {articulation(x) for x in letters}


@given(st.sets(st.sampled_from(sorted(LETTERS)), min_size=1))
def test_x_sampa_is_read_as_it_is_meant(letters: set[str]) -> None:
    """Whatever is guessed, an inventory of X-SAMPA letters has the sounds of X-SAMPA."""
    found = guess_alphabet(letters)
    if found == "xsampa":
        return
    differ = [x for x in letters if articulation(x, found) != articulation(x, "xsampa")]
    assert set(differ) <= set(ambiguous(letters))  # and where it cannot be known, it is said


@given(st.sets(st.sampled_from(sorted(ARPABET_TO_IPA)), min_size=2), st.booleans())
def test_arpabet_is_guessed_or_said_to_be_unclear(symbols: set[str], upper: bool) -> None:
    labels = {x.upper() + ("1" if upper and x[0] in "aeiou" else "") for x in symbols} if upper else symbols
    found = guess_alphabet(labels)
    differ = [
        x for x in labels if found != "arpabet" and articulation(x, found) != articulation(x, "arpabet")
    ]
    assert set(differ) <= set(ambiguous(labels))


def test_unclear_labels_are_named() -> None:
    assert ambiguous(["p", "t", "k", "s"]) == ()
    assert ambiguous(["r", "y", "p"]) == ("r", "y")  # trill and vowel, or approximants
    assert ambiguous(["r", "y", "a"]) == ()  # no ARPABET, and the IPA and X-SAMPA agree
    assert ambiguous(TIMIT_61) == ()
    assert check_alphabet("xsampa") == "xsampa"
    with pytest.raises(DataError, match="no alphabet 'kirshenbaum'; choose ipa, arpabet, xsampa"):
        check_alphabet("kirshenbaum")


@pytest.mark.parametrize("fold", ["broad", "voiced", "detailed"])
def test_one_folded_model_reads_all_alphabets(fold: str) -> None:
    """Trained on any of the three, codes, kinds and descriptors are the same for the other two."""
    ipa = ["sil", "p", "t͡ʃ", "ɑ", "aɪ", "ʃ", "ð", "ŋ", "l", "i", "z", "m"]
    same = {
        "ipa": ipa,
        "arpabet": ["sil", "P", "CH", "AA1", "AY0", "SH", "DH", "NG", "L", "IY2", "Z", "M"],
        "xsampa": ["sil", "p", "t_S", "A", "aI", "S", "D", "N", "l", "i", "z", "m"],
    }
    for trained in ALPHABETS:
        phones = PhoneSet.of(same[trained], fold)
        assert phones.alphabet == trained
        expected = phones.encode(same[trained])
        for other in ALPHABETS:
            read = phones.reading(guess_alphabet(same[other], trained)).encode(same[other])
            assert (read.codes == expected.codes).all()
            assert (read.kinds == expected.kinds).all()
            assert (read.descriptors == expected.descriptors).all()
    plain = PhoneSet.of(ipa, "none")
    assert plain.reading("arpabet") is plain  # its classes are labels, not sounds
