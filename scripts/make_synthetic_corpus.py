"""Make the synthetic speech of the tests, with flite: recordings whose phone boundaries are known exactly.

    python scripts/make_synthetic_corpus.py            # writes tests/support/synthetic_speech/

The sentences ``SHIPPED`` are copied to src/trellis/speech/corpus/synthetic/, and come with the package.

Line k of ``synthetic_sentences.txt`` is spoken by voice k mod 4, so no two voices say the same sentence: a
model that is tried on one voice has heard neither the voice nor its sentences. flite (Debian package
``flite``, version 2.2) prints every phone with the time at which it ends; the last pause is cut to the
length of the file. Which phones belong to which word is found by aligning the phones of the sentence with
those that flite gives each word alone, with the fewest edits: it reduces some vowels in running speech.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import soundfile

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "tests/support/synthetic_speech"
PACKAGE = HERE.parent / "src/trellis/speech/corpus/synthetic"
SHIPPED = tuple(f"kal16-{number:02d}" for number in (7, 11, 12, 14, 19, 20))  # short ones
VOICES = ("kal16", "awb", "rms", "slt")
PAUSE = "pau"


def main() -> None:
    if shutil.which("flite") is None:
        sys.exit("flite is not installed; run: apt-get install flite")
    sentences = (HERE / "synthetic_sentences.txt").read_text(encoding="utf-8").splitlines()
    shutil.rmtree(TARGET / "audio", ignore_errors=True)
    (TARGET / "audio").mkdir(parents=True)
    utterances = []
    for number, text in enumerate(sentences):
        voice = VOICES[number % len(VOICES)]
        utterances.append(speak(f"{voice}-{number // len(VOICES):02d}", voice, text))
        print(f"\r{number + 1} of {len(sentences)}", end="", flush=True)
    size = sum(f.stat().st_size for f in (TARGET / "audio").iterdir())
    print(f": {sum(u['phones'][-1][1] for u in utterances):.0f} s, {size / 1e6:.2f} MB")
    write_index(TARGET, utterances)
    shutil.rmtree(PACKAGE / "audio", ignore_errors=True)
    (PACKAGE / "audio").mkdir()
    for name in SHIPPED:
        shutil.copy(TARGET / "audio" / f"{name}.flac", PACKAGE / "audio")
    write_index(PACKAGE, [u for u in utterances if u["id"] in SHIPPED])


def write_index(folder: Path, utterances: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(u) for u in utterances)
    note = "synthetic speech made with flite by scripts/make_synthetic_corpus.py; phones end at these seconds"
    (folder / "corpus.json").write_text(f'{{"note": {json.dumps(note)}, "utterances": [\n{lines}\n]}}\n')


def speak(name: str, voice: str, text: str) -> dict[str, Any]:
    """Write the recording of one sentence; what the corpus says about it."""
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / "speech.wav"
        printed = flite(voice, "-psdur", text, wav)
        samples, rate = soundfile.read(wav, dtype="int16")
    soundfile.write(TARGET / "audio" / f"{name}.flac", samples, rate)
    length = len(samples) / rate
    phones = [(label, float(end)) for label, end in (part.rsplit(":", 1) for part in printed.split())]
    if phones[-1][0] != PAUSE or not phones[-2][1] < length:
        raise RuntimeError(f"{name}: the last pause does not reach the end of the file")
    phones[-1] = (PAUSE, round(length, 6))
    spoken = [label for label, _ in phones if label != PAUSE]
    words = flite(voice, "-pw", text).split()
    alone = [[p for p in flite(voice, "-ps", word).split() if p != PAUSE] for word in words]
    counts = share_out(spoken, alone)
    return {
        "id": name,
        "voice": voice,
        "text": text,
        "words": list(zip(words, counts, strict=True)),
        "phones": phones,
    }


def flite(voice: str, show: str, text: str, wav: Path | str = "none") -> str:
    command = ["flite", "-voice", voice, show, "-t", text, "-o", str(wav)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def share_out(spoken: list[str], words: list[list[str]]) -> list[int]:
    """How many of the phones ``spoken`` belong to each word: the division with the fewest edits in all."""
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}  # phones used -> (edits, counts)
    for word in words:
        reached: dict[int, tuple[int, list[int]]] = {}
        for used, (cost, counts) in best.items():
            for n in range(1, len(spoken) - used + 1):
                total = cost + edits(spoken[used : used + n], word)
                if used + n not in reached or total < reached[used + n][0]:
                    reached[used + n] = (total, [*counts, n])
        best = reached
    return best[len(spoken)][1]


def edits(a: list[str], b: list[str]) -> int:
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


if __name__ == "__main__":
    main()
