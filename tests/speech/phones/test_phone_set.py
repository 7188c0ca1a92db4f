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
