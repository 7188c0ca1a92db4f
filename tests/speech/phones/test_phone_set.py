"""Classes, kinds and descriptors of phones."""

from __future__ import annotations

import numpy as np
import pytest

from codec_copy import through_codec
from trellis.core.errors import DataError
from trellis.speech.phones.phone_set import PhoneSet


def test_phone_set() -> None:
    phones = PhoneSet.of(["sil", "a", "aː", "p", "b"], "voiced")
    encoded = phones.encode(["a", "aː", "sil", "p"])
    assert encoded.codes[0] == encoded.codes[1] != encoded.codes[3]
    assert encoded.kinds[0] != encoded.kinds[1]  # long vowels have durations of their own
    assert phones.silent_kinds[encoded.kinds].tolist() == [False, False, True, False]
    assert not np.array_equal(encoded.descriptors[0], encoded.descriptors[1])
    again = through_codec(phones)
    np.testing.assert_array_equal(again.encode(["b"]).descriptors, phones.encode(["b"]).descriptors)
    with pytest.raises(DataError, match=r"new\.wav: the model does not know the phones '\?' '7'"):
        phones.encode(["?", "a", "7"], "new.wav")
    assert phones.stand_in("i̥") == phones.classes[phones.encode(["a"]).codes[0]]  # voiceless: the one vowel
    assert phones.stand_in("a") is None
    timit = PhoneSet.of(["h#", "tcl", "t", "aa"], "timit39")
    closure, silence = timit.encode(["tcl"]), timit.encode(["h#"])
    assert closure.codes == silence.codes
    assert timit.silent_kinds[[closure.kinds[0], silence.kinds[0]]].tolist() == [False, True]
    own = PhoneSet.of(["a", "b", "pau"], {"a": "vowel", "b": "other"})
    assert own.classes == ("other", "sil", "vowel")


def test_unknown_phones_are_named_with_what_is_nearest() -> None:
    labels = ["sil", *(letter + mark for letter in "pbtdkɡmnszaeiou" for mark in ("", "ː", "ʷ", "ʲ"))]
    plain = PhoneSet.of(labels, "none")
    with pytest.raises(DataError) as caught:
        plain.encode(["p", "ɡʱ", "õ", "§"], "new.wav")
    found = str(caught.value)  # one sentence, and not all 61 classes
    assert found.startswith("new.wav: the model does not know the phones 'ɡʱ' (nearest: ɡ, ")
    assert ", 'õ' (nearest: o, " in found
    assert found.endswith(
        ", '§'; rename the labels, or train with --fold voiced, which knows new phones by their articulation"
    )
    many = [f"x{i}" for i in range(40)]
    with pytest.raises(DataError, match="and 34 more") as caught:
        plain.encode(many)
    assert len(str(caught.value)) < 400
    own = PhoneSet.of(["a", "b"], {"a": "vowel", "b": "stop"})
    with pytest.raises(DataError, match=r"the phone 'e' \(nearest: a, b\)"):
        own.encode(["e"])
    folded = PhoneSet.of(labels, "voiced")
    with pytest.raises(DataError, match=r"the phone 'a\?', not in the IPA; correct the label"):
        folded.encode(["a?"])


def test_composed_labels_and_look_alikes_are_one() -> None:
    phones = PhoneSet.of(["ç", "ã", "ɡ", "aː"], "none")
    assert len(phones.classes) == 4
    codes = phones.encode(["c\u0327", "a\u0303", "g", "a:"]).codes
    assert codes.tolist() == phones.encode(["ç", "ã", "ɡ", "aː"]).codes.tolist()
    own = PhoneSet.of(["ç"], {"c\u0327": "x"})
    assert own.encode(["ç", "c\u0327"]).codes.tolist() == [0, 0]


@pytest.mark.parametrize("fold", ["none", "voiced", "timit39", {"a": "v", "p": "c"}])
def test_noise_has_a_code_of_its_own_and_any_length(fold: str | dict[str, str]) -> None:
    labels = ["sil", "p", "aa"] if fold == "timit39" else ["sil", "p", "a"]
    phones = PhoneSet.of(labels, fold)
    encoded = phones.encode([*labels, "spn", "<usb>"])
    assert phones.noise_code == len(phones.classes)
    assert encoded.codes[3:].tolist() == [phones.noise_code] * 2
    assert phones.silent_kinds[encoded.kinds].tolist() == [True, False, False, True, True]
    spoken = encoded.descriptors[1:3].mean(axis=0)
    np.testing.assert_allclose(encoded.descriptors[3], spoken, atol=1e-6)  # in between all phones
    heard = PhoneSet.of([*labels, "spn"], fold)
    assert heard.classes[heard.noise_code] == "noise"
    assert phones.stand_in("spn") is None


def test_labels_that_are_no_phones_never_stand_for_one() -> None:
    strict = PhoneSet.of(["sil", "s", "a", "p"], "voiced")
    with pytest.raises(DataError):
        strict.encode(["a?"])
    for unknown in ("other", "noise"):
        loose = PhoneSet.of(["sil", "s", "a", "p"], "voiced", unknown=unknown)
        assert loose.encode(["a?", "T!x"]).codes.tolist() == [loose.noise_code] * 2
        assert loose.stand_in("a?") is None
    other = PhoneSet.of(["sil", "s", "a", "p", "a?"], "voiced", unknown="other")
    assert other.classes[other.encode(["T!x"]).codes[0]] == "other"
    assert through_codec(other).unknown == "other"
