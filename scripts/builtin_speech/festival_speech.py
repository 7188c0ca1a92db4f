"""Speech of Festival's voices under permissive licences: pieces of real recordings, put together.

Every voice speaks all of its texts in one process, which prints phones with the seconds at which they end.
Voices (Debian packages ``festvox-kdlpc16k``, ``-us-slt-hts``, ``-suopuhe-lj``, ``-suopuhe-mv``, ``-ru``,
``-ca-ona-hts``) are licensed like BSD or under the LGPL; those under the GPL are left out.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from builtin_speech.flite_speech import from_ends
from builtin_speech.spoken import Spoken, resampled
from trellis.speech.phones.arpabet import ARPABET_TO_IPA

_FINNISH = {
    **{x: x for x in "abdefhijklmnoprstuvwy"},
    "@": "æ", "7": "ø", "&": "ə", "g": "ɡ", "N": "ŋ", "S": "ʃ", "T": "θ", "v": "ʋ", "L": "l",
}  # fmt: skip
FINNISH = _FINNISH | {f"{x}:": f"{ipa}ː" for x, ipa in _FINNISH.items()}
RUSSIAN = {
    "a": "ɐ", "aa": "a", "ae": "ə", "b": "b", "bb": "bʲ", "c": "ts", "ch": "tɕ", "d": "d", "dd": "dʲ",
    "e": "ɪ", "ee": "e", "f": "f", "ff": "fʲ", "g": "ɡ", "gg": "ɡʲ", "h": "x", "hh": "xʲ", "i": "ɪ",
    "ii": "i", "j": "j", "k": "k", "kk": "kʲ", "l": "ɫ", "ll": "lʲ", "m": "m", "mm": "mʲ", "n": "n",
    "nn": "nʲ", "oo": "o", "ay": "ɐ", "p": "p", "pp": "pʲ", "r": "r", "rr": "rʲ", "s": "s", "ss": "sʲ",
    "sch": "ɕː", "sh": "ʂ", "t": "t", "tt": "tʲ", "u": "ʊ", "uu": "u", "ur": "ʊ", "v": "v", "vv": "vʲ",
    "y": "ɨ", "yy": "ɨ", "z": "z", "zh": "ʐ", "zz": "zʲ", "er": "ɪ", "ir": "ɪ", "yr": "ɨ", "ae1": "ə",
}  # fmt: skip
_CATALAN = {
    **{x: x for x in "bdfjklmnpstwvzaeiou"},
    "g": "ɡ", "E": "ɛ", "O": "ɔ", "ax": "ə", "L": "ʎ", "J": "ɲ", "N": "ŋ", "S": "ʃ", "Z": "ʒ", "rr": "r",
    "r": "ɾ", "B": "β", "D": "ð", "G": "ɣ", "T": "θ", "ts": "ts", "tS": "tʃ", "dZ": "dʒ", "dz": "dz",
    "uw": "w", "y": "j", "x": "x", "X": "x", "jj": "j", "kk": "k", "bb": "b", "dd": "d", "gg": "ɡ",
    "th": "θ", "h": "h",
}  # fmt: skip
CATALAN = _CATALAN | {f"{x}1": _CATALAN[x] for x in ("a", "e", "i", "o", "u", "E", "O", "ax")}


@dataclass(frozen=True)
class Voice:
    """``call``: the Scheme function that chooses it; ``encoding`` of its texts; ``symbols``: its phones in
    the IPA."""

    name: str
    call: str
    encoding: str
    symbols: dict[str, str]


ENGLISH = dict(ARPABET_TO_IPA)
VOICES = {
    "english": (
        Voice("ked", "voice_ked_diphone", "ascii", ENGLISH),
        Voice("slt", "voice_cmu_us_slt_arctic_hts", "ascii", ENGLISH),
    ),
    "finnish": (
        Voice("lj", "voice_suo_fi_lj_diphone", "latin-1", FINNISH),
        Voice("mv", "voice_hy_fi_mv_diphone", "latin-1", FINNISH),
    ),
    "russian": (Voice("ru", "voice_msu_ru_nsh_clunits", "utf-8", RUSSIAN),),
    "catalan": (Voice("ona", "voice_upc_ca_ona_hts", "latin-1", CATALAN),),
}
SCHEME = """
(define (speak text wav)
  (set! u (utt.synth (eval (list 'Utterance 'Text text))))
  (utt.save.wave u wav 'riff)
  (mapcar (lambda (s) (format t " %s:%f" (item.name s) (item.feat s 'end))) (utt.relation.items u 'Segment))
  (format t "\\n"))
"""


def say_all(voice: Voice, texts: Sequence[str]) -> list[Spoken]:
    """Every text, in order."""
    with tempfile.TemporaryDirectory() as folder:
        calls = [f'(speak "{text}" "{folder}/{i}.wav")' for i, text in enumerate(texts)]
        script = Path(folder) / "speak.scm"
        script.write_bytes("\n".join([f"({voice.call})", SCHEME, *calls]).encode(voice.encoding))
        printed = subprocess.run(["festival", "-b", str(script)], check=True, capture_output=True).stdout
        lines = [x for x in printed.decode("latin-1").splitlines() if re.match(r" \S+:\d", x)]
        if len(lines) != len(texts):
            raise RuntimeError(f"{voice.name}: {len(lines)} of {len(texts)} texts were spoken")
        return [
            from_ends(
                line, resampled(*soundfile.read(f"{folder}/{i}.wav")), f"festival-{voice.name}", voice.symbols
            )
            for i, line in enumerate(lines)
        ]
